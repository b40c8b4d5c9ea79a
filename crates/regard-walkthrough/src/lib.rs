#![forbid(unsafe_code)]
//! Attention, step by step, as data.

mod matrix;
mod step;

pub use self::matrix::Matrix;
pub use self::step::{Kind, Step};
