//! The innermost loops of attention on 8-bit integers. Sums of integers are exact, so the result has the same bits on every
//! tier, in whatever order a tier adds.

use crate::invariant::Promised as _;

#[cfg(not(dsp))]
mod plain;

#[cfg(not(dsp))]
pub(crate) use self::plain::{Queries, Values, query_words, value_words};
#[cfg(dsp)]
pub(crate) use crate::arch::bare::dsp::{Queries, Values, query_words, value_words};

/// Queries that are computed together, so that keys and values are read once for all of them.
pub(crate) const GROUP: usize = 4;

/// Words of memory that a core with the DSP extension needs for `rows` queries.
pub(crate) const fn dsp_query_words(rows: usize, d_k: usize) -> usize {
    d_k.div_ceil(4).saturating_mul(2 * rows)
}

/// Words of memory that a core with the DSP extension needs for a transposed copy of the values. It makes the copy only where
/// it saves time and is small.
pub(crate) const fn dsp_value_words(n_q: usize, n_k: usize, d_v: usize) -> usize {
    if n_q >= 2 * GROUP && n_k <= 256 { n_k.div_ceil(4).saturating_mul(d_v) } else { 0 }
}

/// Four 16-bit numbers for each of `R` rows, two in a word: the even numbers, then the odd ones, the earlier number in the
/// lower half. SXTB16 unpacks four bytes of a word in this order.
pub(crate) type Fours<const R: usize> = [[i32; R]; 2];

/// The weights, two in a word, in the first half of the memory that held the scores.
#[inline(always)]
pub(in crate::arch) fn pairs<const R: usize>(weights: &[[i32; R]]) -> &[Fours<R>] {
    let fours = weights.as_chunks::<2>().0;
    fours.get(..fours.len() / 2).promised()
}

/// A factor: `multiplier` · 2^−(32 + `shift`).
#[derive(Clone, Copy)]
pub(crate) struct Factor {
    pub(crate) multiplier: i32,
    pub(crate) shift: u32,
}

impl Factor {
    pub(crate) const ZERO: Self = Self { multiplier: 0, shift: 1 };

    /// The product, rounded to the nearest 8-bit integer (halves up).
    #[inline(always)]
    pub(crate) fn times(self, sum: i32) -> i8 {
        let product = ((i64::from(sum) * i64::from(self.multiplier)) >> 32) as i32;
        let rounded = ((product >> (self.shift - 1)) + 1) >> 1;
        rounded.clamp(i32::from(i8::MIN), i32::from(i8::MAX)) as i8
    }
}
