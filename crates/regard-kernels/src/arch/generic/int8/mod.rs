//! The innermost loops of attention on 8-bit integers. Sums of integers are exact, so the result has the same bits on every
//! tier, in whatever order a tier adds.

use crate::int8::halve;
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

/// Applies [`halve`] to the weights numbered `r`, which lie two in a word in the first half of the memory that held the scores.
#[inline(always)]
pub(crate) fn halve_pairs<const R: usize>(total: u32, weights: &mut [[i32; R]], r: usize) -> u32 {
    let words = weights.len() / 2;
    halve(total, weights.iter_mut().take(words).filter_map(|words| words.get_mut(r)))
}
