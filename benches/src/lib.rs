//! Measuring: the flags of `regard bench`, what it measures and how, for the program, the criterion suites and the peers.

#![forbid(unsafe_code)]

mod line;
mod measure;
pub mod ours;
mod shape;

pub use self::line::{HEADER, Line};
pub use self::measure::{Subject, Subjects, measure};
pub use self::shape::{Args, Operation, Shape};

/// Numbers between −1 and 1 that do not repeat soon (Weyl's sequence): inputs whose values do not matter.
pub fn numbers(len: usize, seed: f64) -> Vec<f32> {
    (0..len).map(|i| ((i as f64 * 0.618_033_988_75 + seed).fract() * 2.0 - 1.0) as f32).collect()
}
