#![forbid(unsafe_code)]
//! The window: three rooms in which to understand attention.
//!
//! [`App`] is the whole program except the window, so that a shell for any system, or a test, can drive it.
//! [`Session`] holds the choices of the user. Everything else follows from them and is cached by the rooms.
//! [`Command`] lists the actions that need no pointer.

mod app;
mod choice;
pub mod colors;
mod command;
mod command_palette;
mod dialog;
mod explain;
pub mod heads;
pub mod heatmap;
mod history;
pub mod host;
mod kept;
pub mod laboratory;
mod memo;
mod message;
pub mod model;
mod picture;
mod plots;
mod session;
mod setting;
mod side;
mod style;
mod temperature;
pub mod walkthrough;
mod widgets;
mod work;

// The tests of the window use private items, so they are a part of the crate. `tests/snapshots.rs` and the benchmark share two of
// their files, which refer to the crate as `regard_ui`.
#[cfg(test)]
extern crate self as regard_ui;
#[cfg(test)]
#[path = "../tests/window/mod.rs"]
mod window;

pub use self::app::{App, of_step, of_walkthrough};
pub use self::command::Command;
pub use self::host::Host;
pub use self::plots::PlotName;
pub use self::session::{Appearance, Room, Session};
pub use self::work::{Advance, Background, Begun, Message, Tell};

use std::path::{Path, PathBuf};
use std::sync::Arc;

// The modules refer to it as `crate::numbers`.
use regard_figure::numbers;
use regard_walkthrough::Example;

/// The example that follows the real head of the first start. Its tokens are words, and its numbers are whole, to compute by hand.
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

impl Start {
    /// The initial contents of the window.
    pub fn app(self, ctx: &egui::Context, host: Arc<dyn Host>) -> App {
        let mut app = match host.session_file() {
            Some(path) => App::resume(ctx, &host, path),
            None => App::with_session(ctx, host, greeting()),
        };
        match self {
            Self::Last => {}
            Self::Example(example) => app.perform(ctx, Command::Example(example)),
            Self::File(path) => app.open_file(ctx, &path),
            Self::Model { name, second } => {
                app.open_model(ctx, name);
                if let Some(second) = second {
                    app.compare_with(second);
                }
            }
        }
        app
    }
}

/// "1 head", "2 heads".
fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// The last part of a path.
fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// The session of the first start: a head of a trained model.
pub fn greeting() -> Session {
    Session { walkthrough: walkthrough::State::greeting(GREETING), ..Session::default() }
}

/// A new session with an example.
pub fn example(example: Example) -> Session {
    let mut session = Session::default();
    session.walkthrough.open(example);
    session
}

/// A new session with a file of attention.
pub fn attention(path: &Path) -> Session {
    let model = model::State::of_file(heads::AttentionSource::File(path.to_owned()));
    Session { room: Room::Model, model, ..Session::default() }
}
