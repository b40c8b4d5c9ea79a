//! The third room: the attention of a model, layer by layer and head by head.
//!
//! [`State`] is what the user chose. A file is read, and heads are combined, in threads of their own; the room shows what
//! it has until they are done.

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
