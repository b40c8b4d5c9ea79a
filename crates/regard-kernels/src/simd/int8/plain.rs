//! Plain loops, which the compiler lays on vectors.

use super::{COLUMNS, Fours};
use crate::Mat;

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

    /// Each query's dot product with `key`.
    #[inline(always)]
    pub(crate) fn dots(&self, key: &[i8], out: &mut [i32; R]) {
        for (out, query) in out.iter_mut().zip(self.0) {
            *out = 0;
            for (q, k) in query.iter().zip(key) {
                *out += i32::from(*q) * i32::from(*k);
            }
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

    /// Σ weight · value over the keys from `first` on, for up to [`COLUMNS`] columns from `col` on.
    #[inline(always)]
    pub(crate) fn weigh<const R: usize>(
        &self,
        weights: &[Fours<R>],
        first: usize,
        col: usize,
        sums: &mut [[i32; COLUMNS]; R],
    ) {
        let mut all = [[0; COLUMNS]; R];
        let columns = self.0.cols().saturating_sub(col).min(COLUMNS);
        let mut rest = self.0.block(first, usize::MAX, col, COLUMNS).data();
        for [even, odd] in weights {
            for (key, pairs) in [even, odd, even, odd].into_iter().enumerate() {
                // Where there is no such key its weight is 0, so that any numbers will do.
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
        *sums = all;
    }
}

/// The first columns, and 0 for those that are not there.
#[inline(always)]
fn first_columns(row: &[i8]) -> [i8; COLUMNS] {
    let mut columns = [0; COLUMNS];
    for (to, from) in columns.iter_mut().zip(row) {
        *to = *from;
    }
    columns
}
