//! The first room: a worked example, every matrix on the way as a heatmap, and what can be changed.
//!
//! [`State`] is what the user chose; everything else follows from it and is kept in a cache.

mod cache;
mod checks;
mod curve;
mod explanation;
mod focus;
mod room;
mod sidebar;
mod state;
mod steps;
mod why_scale;

use self::cache::Cache;
pub use self::room::Room;
pub use self::state::{At, State};
