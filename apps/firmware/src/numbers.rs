//! Inputs, which lie in flash.

use regard_kernels::int8::Scales;
use regard_kernels::{Error, Mat};

/// Pseudo-random numbers from −1 to 1, by Marsaglia's xorshift.
pub(crate) static NUMBERS: [f32; 64 * 64] = {
    let mut numbers = [0.0; 64 * 64];
    let mut state = 1;
    let mut i = 0;
    while i < numbers.len() {
        state = next(state);
        numbers[i] = (state >> 8) as f32 / (1 << 23) as f32 - 1.0;
        i += 1;
    }
    numbers
};

/// 16-bit numbers that begin at a multiple of 4 bytes.
#[repr(align(4))]
pub(crate) struct Halves(pub(crate) [u16; 640 + 1]);

/// The upper halves of as many [`NUMBERS`]: numbers of bfloat16, and finite ones of binary16.
pub(crate) static HALVES: Halves = {
    let mut halves = [0; 640 + 1];
    let mut i = 0;
    while i < halves.len() {
        halves[i] = (NUMBERS[i].to_bits() >> 16) as u16;
        i += 1;
    }
    Halves(halves)
};

/// As many 8-bit integers as the largest shapes need, from −128 to 127.
pub(crate) static INTEGERS: [i8; 256 * 64 + 16] = {
    let mut integers = [0; 256 * 64 + 16];
    let mut state = 1;
    let mut i = 0;
    while i < integers.len() {
        state = next(state);
        integers[i] = (state >> 24) as i8;
        i += 1;
    }
    integers
};

/// The elements of boolean masks, whose rows overlap.
pub(crate) static SEEN: [bool; 84] = {
    let mut seen = [false; 84];
    let mut i = 0;
    while i < seen.len() {
        seen[i] = i * i % 7 < 3;
        i += 1;
    }
    seen
};

/// The scales of all tensors of integers. With them, queries and keys have a variance of 1.
pub(crate) const SCALES: Scales =
    Scales { query: 1.0 / 74.0, key: 1.0 / 74.0, value: 1.0 / 128.0, output: 1.0 / 300.0 };

/// The state of the generator after `state`.
pub(crate) const fn next(mut state: u32) -> u32 {
    state ^= state << 13;
    state ^= state >> 17;
    state ^ (state << 5)
}

/// A matrix of [`NUMBERS`] that begins at number `start`. The rows of a large matrix overlap: a cache of a thousand keys then
/// takes no more memory, and the kernels still execute the same instructions.
pub(crate) fn numbers(start: usize, rows: usize, cols: usize) -> Result<Mat<'static>, Error> {
    matrix(&NUMBERS, start, rows, cols)
}

/// A matrix of [`INTEGERS`] that begins at integer `start`.
pub(crate) fn integers(start: usize, rows: usize, cols: usize) -> Result<Mat<'static, i8>, Error> {
    matrix(&INTEGERS, start, rows, cols)
}

/// Copies `len` numbers of `source`, beginning at `from`, into a cache, beginning at `at`.
pub(crate) fn fill<T: Copy>(cache: &mut [T], at: usize, len: usize, source: &[T], from: usize) {
    for (cached, number) in cache.iter_mut().skip(at).take(len).zip(source.iter().skip(from)) {
        *cached = *number;
    }
}

fn matrix<T>(data: &[T], start: usize, rows: usize, cols: usize) -> Result<Mat<'_, T>, Error> {
    let data = data.get(start..).unwrap_or_default();
    let room = data.len().saturating_sub(cols).checked_div(rows).unwrap_or_default();
    Mat::strided(data, rows, cols, cols.min(room))
}
