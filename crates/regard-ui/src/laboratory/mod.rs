//! The second room: attention over any number of tokens, and knobs for everything in it.
//!
//! [`State`] is what the user chose. A [`Worker`] computes what follows from it, so that the window never waits; the room
//! shows the last result until the next is there.

mod benchmark;
mod controls;
mod curves;
mod engine;
mod files;
mod measures;
mod room;
mod state;
mod tokens;
mod worker;

pub use self::benchmark::Benchmark;
pub use self::engine::{Engine, Outcome};
pub use self::files::Error;
pub use self::room::LaboratoryRoom;
pub use self::state::{Brush, LaboratoryInputs, Request, Shown, Square, State, TokenSource};
pub use self::worker::Worker;
