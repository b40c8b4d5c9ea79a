//! The measurements of `regard bench` and their method, which the program, the criterion suite and the peers share.

#![forbid(unsafe_code)]

mod line;
mod masks;
mod measure;
#[cfg(feature = "models")]
mod model;
pub mod ours;
mod shape;
mod tensors;
mod timing;

pub use self::line::{HEADER, ResultLine, duration, tiers};
#[cfg(feature = "bar")]
pub use self::measure::measure;
pub use self::measure::{MeasureProgress, Measuring, Subject, Subjects, measure_while};
#[cfg(feature = "models")]
pub use self::model::{ModelArgs, measure_model};
pub use self::shape::{Args, Operation, Shape};

/// Weyl's sequence, between −1 and 1: inputs whose values do not matter.
pub fn numbers(len: usize, seed: f64) -> Vec<f32> {
    (0..len).map(|i| ((i as f64 * 0.618_033_988_75 + seed).fract() * 2.0 - 1.0) as f32).collect()
}

/// [`numbers`] that begin at a multiple of 64 bytes, as tensors of other libraries do.
///
/// Each load then lies in one cache line. Loops that load more than they compute are up to a third slower on other addresses.
pub fn aligned_numbers(len: usize, seed: f64) -> AlignedNumbers {
    const LINE: usize = 16;
    let mut data = numbers(len + LINE, seed);
    let start = data.as_ptr().align_offset(LINE * size_of::<f32>()).min(LINE);
    data.rotate_right(start);
    AlignedNumbers { data, range: start..start + len }
}

/// A part of a vector that begins at a multiple of 64 bytes.
#[derive(Debug)]
pub struct AlignedNumbers {
    data: Vec<f32>,
    range: core::ops::Range<usize>,
}

impl core::ops::Deref for AlignedNumbers {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.data[self.range.clone()]
    }
}

impl core::ops::DerefMut for AlignedNumbers {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.data[self.range.clone()]
    }
}
