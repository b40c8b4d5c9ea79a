//! An item that is open, and the next one that is being opened.

use egui::Ui;

use crate::message;
use crate::work::{self, Held, Once, PATIENCE};
use std::sync::Arc;

/// The open item, a model or a file, with its name. It stays until the next one is open.
pub(super) struct Opener<K, T> {
    opening: Option<Opening<K, T>>,
    opened: Option<(K, Arc<Held<T>>)>,
    /// The name of the item that could not be opened, and the error.
    failed: Option<(K, String)>,
}

struct Opening<K, T> {
    name: K,
    /// Whether the user has asked for it. Otherwise the session names it.
    is_asked: bool,
    once: Once<Held<T>>,
}

impl<K, T> Default for Opener<K, T> {
    fn default() -> Self {
        Self { opening: None, opened: None, failed: None }
    }
}

impl<K: Clone + PartialEq, T> Opener<K, T> {
    /// Begins to open an item that the user has asked for.
    pub(crate) fn open(&mut self, name: K, once: Once<Held<T>>) {
        self.failed = None;
        self.opening = Some(Opening { name, is_asked: true, once });
    }

    /// Opens the item that the session names, unless that has failed.
    pub(crate) fn follow(&mut self, name: &K, start: impl FnOnce() -> Once<Held<T>>) {
        let has_failed = self.failed.as_ref().is_some_and(|(failed, _)| failed == name);
        if self.here(name).is_none() && self.opening.is_none() && !has_failed {
            self.opening = Some(Opening { name: name.clone(), is_asked: false, once: start() });
        }
    }

    /// Takes the item that has been opened. Returns its name, and whether the user has asked for it.
    pub(crate) fn take(&mut self) -> Option<(K, bool)> {
        let done = self.opening.as_ref()?.once.take()?;
        let Opening { name, is_asked, .. } = self.opening.take()?;
        match done {
            Ok(opened) => {
                // An error about another item stays until the user dismisses it.
                self.failed.take_if(|(failed, _)| is_asked || *failed == name);
                self.opened = Some((name.clone(), Arc::new(opened)));
                Some((name, is_asked))
            }
            Err(message) => {
                // The session keeps the name, because the item may exist later.
                self.failed = Some((name, message));
                None
            }
        }
    }

    /// The open item, if it has this name.
    pub(crate) fn here(&self, name: &K) -> Option<Arc<Held<T>>> {
        self.opened.as_ref().filter(|(opened, _)| opened == name).map(|(_, held)| Arc::clone(held))
    }

    /// The item that was opened last.
    pub(crate) fn opened(&self) -> Option<&Arc<Held<T>>> {
        self.opened.as_ref().map(|(_, held)| held)
    }

    pub(crate) fn fail(&mut self, name: K, message: String) {
        self.failed = Some((name, message));
    }

    pub(crate) fn error(&self) -> Option<&str> {
        self.failed.as_ref().map(|(_, message)| message.as_str())
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.opening.is_some()
    }

    pub(crate) fn cancel(&mut self) {
        self.opening = None;
    }

    /// Forgets the error. The item that the session names is then opened again.
    pub(crate) fn forget_error(&mut self) {
        self.failed = None;
    }

    /// Shows the error and the progress. `is_here` is whether the room shows an item meanwhile. Returns whether the user cancels.
    pub(crate) fn messages(
        &mut self,
        ui: &mut Ui,
        is_here: bool,
        words: impl FnOnce(&K) -> String,
    ) -> bool {
        if let Some((_, message)) = &self.failed {
            // After the error is dismissed, the item that the session names is opened again.
            let button = if is_here { "Dismiss" } else { "Try again" };
            if message::show(ui, message, ui.visuals().error_fg_color, button) {
                self.failed = None;
            }
        }
        let opening = self.opening.as_ref();
        let opening = opening.filter(|o| o.once.elapsed() > PATIENCE || !is_here);
        opening.is_some_and(|opening| progress(ui, &words(&opening.name), &opening.once, is_here))
    }
}

/// Shows the progress of opening an item, and a button to cancel if `stops`. Returns whether it was pressed.
pub(super) fn progress<T>(ui: &mut Ui, name: &str, once: &Once<T>, stops: bool) -> bool {
    ui.ctx().request_repaint_after(PATIENCE);
    let row = ui.horizontal(|ui| {
        ui.label(format!("Opening {name}"));
        work::bar(ui, once.progress(), "Opening");
        stops && ui.button("Cancel").clicked()
    });
    row.inner
}
