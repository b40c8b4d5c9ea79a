#![forbid(unsafe_code)]
//! A session: what a user of the window has chosen, and the matrices, curves and pictures that follow from it.
//!
//! A [`Session`] holds the choices. The window draws them, and the program exports them without a window.

pub mod heads;
pub mod host;
pub mod laboratory;
mod memo;
pub mod message;
pub mod model;
mod plots;
mod room;
mod session;
pub mod temperature;
mod viewport;
pub mod walkthrough;

pub use self::host::Host;
pub use self::memo::Memo;
pub use self::plots::PlotName;
pub use self::room::Room;
pub use self::session::{Appearance, Session, SessionFormat, Theme};
pub use self::viewport::{Cell, Viewport};

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use regard_walkthrough::Example;

/// The example that follows the stage of the first start. Its tokens are words, and its numbers are whole, to compute by hand.
pub const GREETING: Example = Example::ILoveRobotics;

/// The initial contents of the window, on top of the last session or of [`greeting`].
pub enum Start {
    /// The last session alone.
    Last,
    /// An example.
    Example(Example),
    /// A session, a model or its attention.
    File(PathBuf),
    /// A model by its name: a bundled one, a path, or a name in the local Hugging Face cache.
    Model {
        /// The model.
        name: String,
        /// The model to compare it with.
        second: Option<String>,
    },
}

/// "1 head", "2 heads".
pub fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// The last part of a path.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The session of the first start: a trained model reads a sentence.
pub fn greeting() -> Session {
    Session { room: Room::Stage, ..example(GREETING) }
}

/// A new session with an example.
pub fn example(example: Example) -> Session {
    let mut session = Session::default();
    session.walkthrough.open(example);
    session
}

/// A new session with a file of attention.
pub fn attention(path: &Path) -> Session {
    let model = model::ModelState::of_file(heads::AttentionSource::File(path.to_owned()));
    Session { room: Room::Stage, model, ..Session::default() }
}

/// Locks a value, also after a panic of the thread that had it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
