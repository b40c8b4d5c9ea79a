//! Inputs, in flash.

use regard_kernels::{Error, Mat};

/// Pseudo-random numbers from −1 to 1, by Marsaglia's xorshift.
pub(crate) static NUMBERS: [f32; 64 * 64] = {
    let mut numbers = [0.0; 64 * 64];
    let mut state = 1_u32;
    let mut i = 0;
    while i < numbers.len() {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        numbers[i] = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
        i += 1;
    }
    numbers
};

/// A matrix of them, from number `start` on. Rows of a large one overlap: a cache of a thousand keys costs no memory here, and
/// as many instructions as ever.
pub(crate) fn numbers(start: usize, rows: usize, cols: usize) -> Result<Mat<'static>, Error> {
    let data = NUMBERS.get(start..).unwrap_or_default();
    let room = data.len().saturating_sub(cols).checked_div(rows).unwrap_or_default();
    Mat::strided(data, rows, cols, cols.min(room))
}
