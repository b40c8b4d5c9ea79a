//! The value of the latest key, which a thread computes.

use std::sync::Arc;

use egui::{ProgressBar, Ui};

use crate::task::{PATIENCE, Task};

/// A value that is shared, and compared by its address: two runs are the same if they are one.
pub(super) struct Same<T>(pub Arc<T>);

impl<T> Clone for Same<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> PartialEq for Same<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

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
    /// Takes what the thread has computed, and starts what is missing. `None` asks for nothing.
    pub fn exchange(&mut self, asked: Option<K>, start: impl FnOnce(&K) -> Task<V>) {
        if let Some(outcome) = self.computing.as_ref().and_then(|(_, task)| task.take())
            && let Some((key, _)) = self.computing.take()
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

    /// Whether a thread is at work.
    pub fn is_busy(&self) -> bool {
        self.computing.is_some()
    }

    /// The value that was computed last.
    pub fn value(&self) -> Option<&V> {
        self.done.as_ref()?.1.as_ref().ok()
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
