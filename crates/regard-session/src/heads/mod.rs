//! The choices about heads, and the attention of a model or of a file.

mod opened;
mod order;
mod state;

pub use self::opened::{MapKind, OpenedHeads, Surveyed};
pub use self::order::{Effect, Effects, Order};
pub use self::state::{AttentionSource, HeadsState, Shown, Side};
