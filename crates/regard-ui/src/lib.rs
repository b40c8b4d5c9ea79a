#![forbid(unsafe_code)]
//! The window: three rooms in which to understand attention.
//!
//! [`App`] is the whole program except the window, so that a shell for any system, or a test, can drive it.
//! [`Session`] holds the choices of the user. Everything else follows from them and is cached by the rooms.
//! [`Command`] lists the actions that need no pointer.

mod app;
mod appearance;
mod choice;
pub mod colors;
mod command;
mod command_palette;
mod dialog;
mod explain;
pub mod heads;
pub mod heatmap;
mod history;
mod kept;
pub mod laboratory;
mod message;
pub mod model;
mod picture;
mod plots;
mod questions;
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

pub use self::app::App;
pub use self::command::Command;
pub use self::questions::begin;
pub use self::work::{Advance, Background, Begun, Tell};
pub use regard_session::message::Message;
pub use regard_session::{Host, Room, Session, Start, attention, example, greeting, host};

use regard_session::{counted, file_name};

// The modules refer to it as `crate::numbers`.
use regard_figure::numbers;
