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
mod state;

pub(crate) use self::grid::{Contents, Thumbnails};
pub(crate) use self::large::Large;
pub(crate) use self::opened::{MapKind, OpenAttention, Select, Selected};
pub use self::opened::{OpenedHeads, Surveyed};
pub(crate) use self::order::Effects;
pub use self::order::{Effect, Order};
pub(crate) use self::state::Side;
pub use self::state::{AttentionSource, HeadsState, Shown};
