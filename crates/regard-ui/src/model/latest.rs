//! The value of the latest key, which is computed in the background.

use egui::{ProgressBar, Ui};

use crate::task::{PATIENCE, Task};

/// The value of a key, and the one that is being computed. Work that has begun is finished; what is asked for then comes next.
pub(super) struct Latest<K, V> {
    computing: Option<(K, Task<V>)>,
    done: Option<(K, Result<V, String>)>,
}

impl<K, V> Default for Latest<K, V> {
    fn default() -> Self {
        Self { computing: None, done: None }
    }
}

impl<K: PartialEq, V> Latest<K, V> {
    /// Takes what has been computed, and starts what is missing. `None` asks for nothing.
    pub fn exchange(&mut self, asked: Option<K>, start: impl FnOnce(&K) -> Task<V>) {
        if let Some(outcome) = self.computing.as_ref().and_then(|(_, task)| task.take())
            && let Some((key, _)) = self.computing.take()
            // What failed because another run has taken the place of its own is computed anew.
            && (outcome.is_ok() || asked.as_ref() == Some(&key))
        {
            self.done = Some((key, outcome));
        }
        let Some(asked) = asked else {
            *self = Self::default();
            return;
        };
        if self.computing.is_none() && !self.done.as_ref().is_some_and(|(key, _)| *key == asked) {
            let task = start(&asked);
            self.computing = Some((asked, task));
        }
    }

    /// Whether a value is being computed.
    pub fn is_busy(&self) -> bool {
        self.computing.is_some()
    }

    /// The value that was computed last.
    pub fn value(&self) -> Option<&V> {
        self.done.as_ref()?.1.as_ref().ok()
    }

    /// The value that was computed last, and its key.
    pub fn found(&self) -> Option<(&K, &V)> {
        let (key, value) = self.done.as_ref()?;
        Some((key, value.as_ref().ok()?))
    }

    /// The value that was computed last, to change how it is drawn.
    pub fn value_mut(&mut self) -> Option<&mut V> {
        self.done.as_mut()?.1.as_mut().ok()
    }

    /// Why there is no value.
    pub fn error(&self) -> Option<&str> {
        self.done.as_ref()?.1.as_ref().err().map(String::as_str)
    }

    /// Shows the progress of work that takes long.
    pub fn progress(&self, ui: &mut Ui, name: &str) {
        let computing = self.computing.as_ref().filter(|(_, task)| task.elapsed() > 2 * PATIENCE);
        if let Some((_, task)) = computing {
            let bar = ProgressBar::new(task.progress()).desired_width(200.0).desired_height(10.0);
            ui.add(bar).accessible_name(name);
        }
    }
}
