//! The first room: a worked example down the page, every matrix on the way as a heatmap, and what can be changed.
//!
//! [`State`] is what the user chose; everything else follows from it and is kept in a cache.

mod cache;
mod checks;
mod curve;
mod edit;
mod equation;
mod explanation;
mod formula;
mod own_tokens;
mod room;
mod sidebar;
mod state;
mod steps;
mod top;
mod why_scale;

use self::cache::Cache;
pub use self::room::WalkthroughRoom;
pub use self::state::{At, Picked, State};
