//! The third room: the attention of a model, layer by layer and head by head.
//!
//! [`State`] holds the choices of the user. Threads read files and combine heads. Until they are done, the room shows the
//! previous result.

pub(crate) mod bar;
mod controls;
mod grid;
mod large;
mod lines;
mod opened;
mod room;
mod state;

pub(crate) use self::grid::{Marked, Thumbnails};
pub(crate) use self::large::Large;
pub(crate) use self::opened::Selected;
pub(crate) use self::opened::{OpenAttention, Select};
pub use self::opened::{Opened, Surveyed};
pub use self::room::HeadsRoom;
pub(crate) use self::state::Side;
pub use self::state::{AttentionSource, Shown, State};
