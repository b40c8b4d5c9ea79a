//! The browser of heads: the attention of a model or of a file, layer by layer and head by head.
//!
//! [`HeadsState`] holds the choices of the user. Threads read files and combine heads. Until they are done, the previous result
//! is shown.

pub(crate) mod bar;
mod grid;
mod large;
mod lines;
mod opened;
pub(crate) mod order;

pub(crate) use self::grid::{Contents, Thumbnails};
pub(crate) use self::large::Large;
pub(crate) use self::opened::{OpenAttention, Select, Selected};
pub use regard_session::heads::{
    AttentionSource, Effect, HeadsState, OpenedHeads, Order, Shown, Surveyed,
};
pub(crate) use regard_session::heads::{Effects, MapKind, Side};
