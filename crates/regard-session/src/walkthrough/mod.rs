//! The choices in a worked example, and the matrices and curves of its steps.

mod curve;
mod state;
mod step;

pub use self::curve::{curves, curves_of};
pub use self::state::{At, Picked, ReadingMode, WalkthroughState};
pub use self::step::{of_step, of_walkthrough, palette};
