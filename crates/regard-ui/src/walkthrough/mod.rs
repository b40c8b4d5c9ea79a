//! The first room: a worked example step by step, with every matrix as a heatmap, and controls that change it.
//!
//! [`WalkthroughState`] holds the choices of the user. Everything else follows from them and is kept in a cache.

mod cache;
mod checks;
mod curve;
mod edit;
mod equation;
mod explanation;
mod formula;
mod lesson;
mod outline;
mod own_tokens;
mod room;
mod rows;
mod sidebar;
mod stage;
mod steps;
mod top;
mod why_scale;

use self::cache::Cache;
pub(crate) use self::room::WalkthroughRoom;
pub use regard_session::walkthrough::{At, Picked, ReadingMode, WalkthroughState};
