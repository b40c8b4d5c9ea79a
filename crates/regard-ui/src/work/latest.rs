//! Background work of which only the latest request counts.

use std::sync::Arc;

use egui::{Context, Ui};

use super::{Background, Once, PATIENCE, Question};

/// The value that was computed last, with its key, and the one that is being computed. Work that has begun is finished. Then comes
/// the latest key, and keys in between are skipped.
pub(crate) struct Latest<K, V> {
    computing: Option<(K, Once<V>)>,
    done: Option<(K, Result<V, String>)>,
}

impl<K, V> Default for Latest<K, V> {
    fn default() -> Self {
        Self { computing: None, done: None }
    }
}

impl<Q: Question + Clone + PartialEq> Latest<Q, Q::Answer> {
    /// Takes the answer that has arrived, and asks the latest question unless it is answered. `None` forgets the answer.
    pub(crate) fn ask(&mut self, background: &Arc<Background>, ctx: &Context, asked: Option<Q>) {
        self.exchange(asked, |question| background.ask(ctx, question.clone()));
    }
}

impl<K: Clone + PartialEq, V> Latest<K, V> {
    /// Takes the value that has been computed, and starts the work for the latest key if its value is missing. `None` forgets the
    /// value.
    pub(crate) fn exchange(&mut self, asked: Option<K>, start: impl FnOnce(&K) -> Once<V>) {
        self.take(asked.as_ref());
        match asked {
            Some(asked) => self.start(asked, start),
            None => *self = Self::default(),
        }
    }

    /// Takes the value that has been computed. Returns whether there was one.
    pub(crate) fn take(&mut self, asked: Option<&K>) -> bool {
        let Some((key, once)) = &self.computing else { return false };
        // The work may end between the two calls; then its last result is taken the next time.
        let is_running = once.is_running();
        let outcome = once.take();
        // An error counts only for the present key. An earlier key can fail because its run has been freed.
        let outcome = outcome.filter(|outcome| outcome.is_ok() || asked == Some(key));
        let has_taken = outcome.is_some();
        if let Some(outcome) = outcome {
            self.done = Some((key.clone(), outcome));
        }
        if !is_running {
            self.computing = None;
        }
        has_taken
    }

    /// Starts the work for a key, unless its value is known or other work has not ended.
    pub(crate) fn start(&mut self, asked: K, start: impl FnOnce(&K) -> Once<V>) {
        if !self.is_busy() && self.key() != Some(&asked) {
            let once = start(&asked);
            self.computing = Some((asked, once));
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.computing.is_some()
    }

    /// The work on a value, with its key.
    pub(crate) fn computing(&self) -> Option<(&K, &Once<V>)> {
        self.computing.as_ref().map(|(key, once)| (key, once))
    }

    /// Whether the work has taken so long that its progress is shown.
    pub(crate) fn is_late(&self) -> bool {
        self.late().is_some()
    }

    fn late(&self) -> Option<&Once<V>> {
        let (_, once) = self.computing.as_ref()?;
        Some(once).filter(|once| once.elapsed() > 2 * PATIENCE)
    }

    /// Forgets the value, so that it is computed again.
    pub(crate) fn forget(&mut self) {
        self.done = None;
    }

    /// The key of the value that was computed last, or of the error.
    pub(crate) fn key(&self) -> Option<&K> {
        self.done.as_ref().map(|(key, _)| key)
    }

    pub(crate) fn value(&self) -> Option<&V> {
        self.done.as_ref()?.1.as_ref().ok()
    }

    /// The value that was computed last, to change how it is drawn.
    pub(crate) fn value_mut(&mut self) -> Option<&mut V> {
        self.done.as_mut()?.1.as_mut().ok()
    }

    /// The error, if there is no value.
    pub(crate) fn error(&self) -> Option<&str> {
        self.done.as_ref()?.1.as_ref().err().map(String::as_str)
    }

    /// Shows the progress of work that takes long, and the error.
    pub(crate) fn show(&self, ui: &mut Ui, name: &str) {
        if let Some(once) = self.late() {
            super::bar(ui, once.progress(), name);
        }
        if let Some(message) = self.error() {
            ui.weak(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_shown_while_the_next_is_computed() {
        let mut latest = Latest::default();
        let (once, doing) = Once::promise(&Context::default());
        latest.start(7, |_| once);
        assert!(doing.show("a part").is_continue() && latest.take(Some(&7)));
        assert_eq!((latest.value(), latest.is_busy()), (Some(&"a part"), true));
        doing.fulfil(Ok("all"));
        assert!(latest.take(Some(&7)));
        assert_eq!((latest.value(), latest.is_busy()), (Some(&"all"), false));
    }
}
