//! The inner loops of attention on 8-bit integers. Sums of integers are exact, so every tier gives the same bits in
//! whatever order it adds.

use crate::int8::halve;

#[cfg(not(dsp))]
mod plain;

#[cfg(not(dsp))]
pub(crate) use self::plain::{Queries, Values, query_words, value_words, weigh};
#[cfg(dsp)]
pub(crate) use crate::arch::bare::dsp::{Queries, Values, query_words, value_words, weigh};

/// Queries that share what is read of keys and values.
pub(crate) const GROUP: usize = 4;

/// Words that a core with the DSP extension needs for `rows` queries.
pub(crate) const fn dsp_query_words(rows: usize, d_k: usize) -> usize {
    d_k.div_ceil(4).saturating_mul(2 * rows)
}

/// Words that a core with the DSP extension needs for a transposed copy of the values, where it pays and is small.
pub(crate) const fn dsp_value_words(n_q: usize, n_k: usize, d_v: usize) -> usize {
    if n_q >= 2 * GROUP && n_k <= 256 { n_k.div_ceil(4).saturating_mul(d_v) } else { 0 }
}

/// Four 16-bit numbers for each of `R` rows, two a word: the even ones, then the odd ones, the earlier in the lower half.
/// In this order SXTB16 takes four bytes of a word apart.
pub(crate) type Fours<const R: usize> = [[i32; R]; 2];

/// The weights that lie, two in a word, in the first half of what were scores.
#[inline(always)]
pub(in crate::arch) fn pairs<const R: usize>(weights: &[[i32; R]]) -> &[Fours<R>] {
    let fours = weights.as_chunks::<2>().0;
    fours.get(..fours.len() / 2).unwrap_or_default()
}

/// [`halve`] of the weights numbered `r`, two in a word, in the first half of what were scores.
#[inline(always)]
pub(in crate::arch) fn halve_pairs<const R: usize>(
    total: u32,
    weights: &mut [[i32; R]],
    r: usize,
) -> u32 {
    let words = weights.len() / 2;
    halve(total, weights.iter_mut().take(words).filter_map(|words| words.get_mut(r)))
}
