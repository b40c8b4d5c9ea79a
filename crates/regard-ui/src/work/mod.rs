//! Work in the background, while the window is drawn.
//!
//! [`Once`] is work that runs once. [`Latest`] is work of which only the latest request counts.
//!
//! Most work answers a [`Question`], a plain value. A thread answers it; in a browser, which has no threads, a worker that shares no
//! memory with the window does. See [`Background`].

mod background;
mod latest;
mod once;

pub use self::background::{Advance, Background, Begun, Tell};
pub(crate) use self::background::{Forget, Held, Place, Question, Steps, at_once, begin};
pub(crate) use self::latest::Latest;
pub(crate) use self::once::Once;
pub(crate) use regard_session::message::Shared;

use core::time::Duration;
use std::sync::{Mutex, MutexGuard, PoisonError};

use egui::{ProgressBar, Ui};

/// The window shows the progress of work that takes longer than this.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// Locks a value, also after a panic of the thread that had it.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Shows the share of some work that is done, from 0 to 1.
pub(crate) fn bar(ui: &mut Ui, done: f32, name: &str) {
    ui.add(ProgressBar::new(done).desired_width(200.0).desired_height(10.0)).accessible_name(name);
}
