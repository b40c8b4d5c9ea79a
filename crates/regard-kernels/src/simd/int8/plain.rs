//! Plain loops, which the compiler lays on vectors.

use core::cell::Cell;

use super::{COLUMNS, Fours};
use crate::int8::{Exponent, Factor, HIDDEN};
use crate::{Mat, MatMut};

/// Words of memory that [`Queries`] need.
pub(crate) const fn query_words(_rows: usize, _d_k: usize) -> usize {
    0
}

/// Words of memory that [`Values`] need.
pub(crate) const fn value_words(_n_q: usize, _n_k: usize, _d_v: usize) -> usize {
    0
}

/// `R` queries, ready for dot products with keys.
pub(crate) struct Queries<'a, const R: usize>([&'a [i8]; R]);

impl<'a, const R: usize> Queries<'a, R> {
    #[inline(always)]
    pub(crate) fn new(rows: [&'a [i8]; R], _words: &'a mut [i32]) -> Self {
        Self(rows)
    }

    /// Each query's dot products with the keys from `first` on; the scores of keys after the last one are any numbers.
    #[inline(always)]
    pub(crate) fn dots(&self, k: Mat<'_, i8>, first: usize, scores: &mut [[i32; R]]) {
        let mut rest = k.rows_from(first, usize::MAX).data();
        for scores in scores {
            let key = rest.get(..k.cols()).unwrap_or_default();
            for (score, query) in scores.iter_mut().zip(self.0) {
                *score = 0;
                for (q, k) in query.iter().zip(key) {
                    *score += i32::from(*q) * i32::from(*k);
                }
            }
            rest = rest.get(k.stride()..).unwrap_or_default();
        }
    }
}

/// Values, ready to be weighed.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a>(Mat<'a, i8>);

impl<'a> Values<'a> {
    #[inline(always)]
    pub(crate) fn new(v: Mat<'a, i8>, _words: &'a mut [i32]) -> Self {
        Self(v)
    }

    /// Into `out`, each row's Σ weight · value over the keys from `first` on, times its factor.
    #[inline(always)]
    pub(crate) fn weigh<const R: usize>(
        &self,
        weights: &[Fours<R>],
        first: usize,
        factors: &[Factor; R],
        mut out: MatMut<'_, i8>,
    ) {
        for col in (0..self.0.cols()).step_by(COLUMNS) {
            let sums = self.sums(weights, first, col);
            for (r, (sums, factor)) in sums.iter().zip(factors).enumerate() {
                let out = out.row_mut(r).get_mut(col..).unwrap_or_default();
                for (out, sum) in out.iter_mut().zip(sums) {
                    *out = factor.times(*sum);
                }
            }
        }
    }

    /// The sums of up to [`COLUMNS`] columns from `col` on.
    #[inline(always)]
    fn sums<const R: usize>(
        &self,
        weights: &[Fours<R>],
        first: usize,
        col: usize,
    ) -> [[i32; COLUMNS]; R] {
        let mut all = [[0; COLUMNS]; R];
        let columns = self.0.cols().saturating_sub(col).min(COLUMNS);
        let mut rest = self.0.block(first, usize::MAX, col, COLUMNS).data();
        for [even, odd] in weights {
            for (key, pairs) in [even, odd, even, odd].into_iter().enumerate() {
                // A key that does not exist has weight 0, so its values may be any numbers.
                let values = match rest.first_chunk() {
                    Some(whole) if columns == COLUMNS => *whole,
                    _ => first_columns(rest.get(..columns).unwrap_or_default()),
                };
                rest = rest.get(self.0.stride()..).unwrap_or_default();
                for (sums, pair) in all.iter_mut().zip(pairs) {
                    let weight = i32::from(if key < 2 { *pair } else { *pair >> 16 } as i16);
                    for (sum, value) in sums.iter_mut().zip(values) {
                        *sum += weight * i32::from(value);
                    }
                }
            }
        }
        all
    }
}

/// Turns the scores numbered `r` into weights, two in a word, in their first half, and returns the total.
#[inline(always)]
pub(crate) fn weigh<const R: usize>(exponent: &Exponent, scores: &mut [[i32; R]], r: usize) -> u32 {
    let r = r.min(R - 1); // tells the compiler that it is one of them
    let mut max = HIDDEN;
    for scores in &*scores {
        max = max.max(scores[r]);
    }
    // Where nothing is seen, any number keeps HIDDEN far away: no weight.
    let max = if max == HIDDEN { 0 } else { max };

    // What is written lies before what is still to be read.
    let cells = Cell::from_mut(scores.as_flattened_mut()).as_slice_of_cells().as_chunks::<R>().0;
    let (scores, weights) = (cells.as_chunks::<4>().0, cells.as_chunks::<2>().0);
    let mut total = 0;
    for (scores, fours) in scores.iter().zip(weights) {
        // Each pair is written before the next is read, which leaves registers for the constants.
        for (i, pair) in fours.iter().enumerate() {
            let low = exponent.weight(max.wrapping_sub(scores[i][r].get()) as u32);
            let high = exponent.weight(max.wrapping_sub(scores[i + 2][r].get()) as u32);
            total += low + high;
            pair[r].set((low | (high << 16)) as i32);
        }
    }
    total
}

/// The first columns, and 0 for columns that do not exist.
#[inline(always)]
fn first_columns(row: &[i8]) -> [i8; COLUMNS] {
    let mut columns = [0; COLUMNS];
    for (to, from) in columns.iter_mut().zip(row) {
        *to = *from;
    }
    columns
}
