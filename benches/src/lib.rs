//! Measuring: the flags of `regard bench`, what it measures and how, for the program, the criterion suites and the peers.

#![forbid(unsafe_code)]

mod line;
mod masks;
mod measure;
pub mod ours;
mod shape;

pub use self::line::{HEADER, Line, duration};
#[cfg(feature = "bar")]
pub use self::measure::measure;
pub use self::measure::{Progress, Subject, Subjects, measure_while};
pub use self::shape::{Args, Operation, Shape};

/// Numbers between −1 and 1 that do not repeat soon (Weyl's sequence): inputs whose values do not matter.
pub fn numbers(len: usize, seed: f64) -> Vec<f32> {
    (0..len).map(|i| ((i as f64 * 0.618_033_988_75 + seed).fract() * 2.0 - 1.0) as f32).collect()
}

/// [`numbers`] that begin at a multiple of 64 bytes, as in the memory that tensor libraries hand out.
///
/// There every load fits in a cache line. What loads more than it computes is up to a third slower from anywhere else.
pub fn aligned_numbers(len: usize, seed: f64) -> Aligned {
    const LINE: usize = 16;
    let mut data = numbers(len + LINE, seed);
    let start = data.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
    data.rotate_right(start);
    Aligned { data, range: start..start + len }
}

/// Numbers in the middle of others.
#[derive(Debug)]
pub struct Aligned {
    data: Vec<f32>,
    range: core::ops::Range<usize>,
}

impl core::ops::Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.data[self.range.clone()]
    }
}
