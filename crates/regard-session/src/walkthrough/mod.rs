//! The choices in a worked example, and the matrices and curves of its steps.

mod curve;
mod real_head;
mod state;
mod step;

pub use self::curve::{curves, curves_of};
pub use self::real_head::{HEAD, RealHead, matrix as real_head};
pub use self::state::{At, Page, Picked, ReadingMode, State};
pub use self::step::{of_step, of_walkthrough, palette};
