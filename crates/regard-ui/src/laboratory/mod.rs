//! The second room: attention over any number of tokens, with a knob for each of its inputs.
//!
//! [`State`] holds the choices of the user. An [`Engine`] computes the results in the background, so that the window never waits.
//! The room shows the last result until the next arrives.

mod benchmark;
mod controls;
mod curves;
mod engine;
mod files;
mod room;
mod state;
mod tokens;

pub use self::curves::plot;
pub use self::engine::{Engine, Outcome};
pub use self::files::Error;
pub use self::state::{Brush, LaboratoryInputs, Request, Shown, Square, State, TokenSource};

pub(crate) use self::benchmark::MeasureSpeed;
pub(crate) use self::engine::Compute;
pub(crate) use self::files::TokenFile;
pub(crate) use self::room::LaboratoryRoom;
