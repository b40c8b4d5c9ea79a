//! The third room: the attention of a model, layer by layer and head by head.
//!
//! [`State`] holds the choices of the user. Threads read files and combine heads. Until they are done, the room shows the
//! previous result.

mod bar;
mod controls;
mod grid;
mod lines;
mod opened;
mod room;
mod state;

pub use self::opened::{Opened, Selected};
pub use self::room::HeadsRoom;
pub use self::state::{AttentionSource, Shown, Side, State};
