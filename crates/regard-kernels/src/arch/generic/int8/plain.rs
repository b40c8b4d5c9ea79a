//! The loops in plain Rust: tiles of four keys, or of four keys and four columns, whose sums stay in registers. The loops are
//! written out, because a compiler that optimises for size unrolls none.

use super::{Factor, Fours, pairs};
use crate::arch::shared;
use crate::invariant::Promised as _;
use crate::{Mat, MatMut};

/// Evaluates `$body` four times, with the constant `$i` from 0 to 3.
macro_rules! four_times {
    ($i:ident, $body:expr) => {
        four_times!(@ $i, $body, 0 1 2 3)
    };
    (@ $i:ident, $body:expr, $($n:literal)+) => {
        $({
            const $i: usize = $n;
            $body;
        })+
    };
}

/// Words of memory that [`Queries`] need.
pub(crate) const fn query_words(_rows: usize, _d_k: usize) -> usize {
    0
}

/// `R` queries, ready for dot products with keys.
pub(crate) struct Queries<'a, const R: usize>([&'a [i8]; R]);

impl<'a, const R: usize> Queries<'a, R> {
    #[inline(always)]
    pub(crate) fn new(rows: [&'a [i8]; R], _words: &'a mut [i32]) -> Self {
        Self(rows)
    }

    /// Each query's dot products with the keys from `first` on, a multiple of four of them. Scores of keys that do not exist
    /// may be any numbers.
    #[inline(always)]
    pub(crate) fn dots(&self, k: Mat<'_, i8>, first: usize, scores: &mut [[i32; R]]) {
        let mut rest = k.rows_from(first, usize::MAX).data();
        for scores in scores.as_chunks_mut().0 {
            // A key that does not exist is replaced by the first one. After the last key the rest is empty.
            let mut keys = [rest.get(..k.cols()).unwrap_or(&[]); 4];
            for key in &mut keys {
                *key = rest.get(..k.cols()).unwrap_or(key);
                rest = rest.get(k.stride()..).unwrap_or(&[]);
            }
            dots_of_tile(&self.0, keys, scores);
        }
    }
}

/// Words of memory that [`Values`] need.
pub(crate) const fn value_words(_n_q: usize, _n_k: usize, _d_v: usize) -> usize {
    0
}

/// Values, which are read where they lie.
#[derive(Clone, Copy)]
pub(crate) struct Values<'a>(Mat<'a, i8>);

impl<'a> Values<'a> {
    #[inline(always)]
    pub(crate) fn new(v: Mat<'a, i8>, _words: &'a mut [i32]) -> Self {
        Self(v)
    }
}

impl Values<'_> {
    /// Writes to `out`, for each row, Σ weight · value over the keys from `first` on, times the row's factor.
    #[inline(always)]
    pub(crate) fn weigh<const R: usize>(
        &self,
        weights: &[[i32; R]],
        first: usize,
        factors: &[Factor; R],
        mut out: MatMut<'_, i8>,
    ) {
        let weights = pairs(weights);
        for col in (0..self.0.cols()).step_by(4) {
            let sums = sums_of_tile(self.0.block(first, usize::MAX, col, 4), weights);
            for (r, (sums, &factor)) in sums.iter().zip(factors).enumerate() {
                let out = out.row_mut(r).get_mut(col..).promised();
                for (out, sum) in out.iter_mut().zip(sums) {
                    *out = factor.times(*sum);
                }
            }
        }
    }
}

shared! { inline(always),
/// The dot products of `R` queries, at most four, with four keys of the same length.
fn dots_of_tile<const R: usize>(
    queries: &[&[i8]; R],
    [a, b, c, d]: [&[i8]; 4],
    scores: &mut [[i32; R]; 4],
) {
    let mut q = [[].as_slice(); 4];
    for (q, query) in q.iter_mut().zip(queries) {
        *q = query.get(..a.len()).promised();
    }
    let mut sums = [[0; 4]; 4];
    if R == 1 {
        let (mut s0, mut s1, mut s2, mut s3) = (0, 0, 0, 0);
        for ((((q, a), b), c), d) in q[0].iter().zip(a).zip(b).zip(c).zip(d) {
            let q = i32::from(*q);
            s0 += q * i32::from(*a);
            s1 += q * i32::from(*b);
            s2 += q * i32::from(*c);
            s3 += q * i32::from(*d);
        }
        (sums[0][0], sums[1][0], sums[2][0], sums[3][0]) = (s0, s1, s2, s3);
    } else {
        let keys = a.iter().zip(b).zip(c).zip(d);
        let queries = q[0].iter().zip(q[1]).zip(q[2]).zip(q[3]);
        for ((((a, b), c), d), (((q0, q1), q2), q3)) in keys.zip(queries) {
            let q = [i32::from(*q0), i32::from(*q1), i32::from(*q2), i32::from(*q3)];
            let k = [i32::from(*a), i32::from(*b), i32::from(*c), i32::from(*d)];
            four_times!(K, four_times!(Q, sums[K][Q] += q[Q] * k[K]));
        }
    }
    for (scores, sums) in scores.iter_mut().zip(sums) {
        for (score, sum) in scores.iter_mut().zip(sums) {
            *score = sum;
        }
    }
}
}

shared! { inline(always),
/// Σ weight · value of `R` rows, at most four, and up to four columns.
fn sums_of_tile<const R: usize>(values: Mat<'_, i8>, weights: &[Fours<R>]) -> [[i32; 4]; R] {
    let mut sums = [[0; 4]; R];
    let mut rest = values.data();
    let columns = values.cols();
    for [even, odd] in weights {
        let mut next = || {
            // A key that does not exist has weight 0, so any values serve for it.
            let row = match rest.first_chunk() {
                Some(whole) if columns == 4 => *whole,
                _ => first_columns(rest.get(..columns).unwrap_or(&[])),
            };
            rest = rest.get(values.stride()..).unwrap_or(&[]);
            let [a, b, c, d] = row;
            [i32::from(a), i32::from(b), i32::from(c), i32::from(d)]
        };
        let (a, b, c, d): ([i32; 4], _, _, _) = (next(), next(), next(), next());
        four_times!(
            ROW,
            if ROW < R {
                let (even, odd) = (even[ROW], odd[ROW]);
                let (a_weight, b_weight) = (i32::from(even as i16), i32::from(odd as i16));
                let (c_weight, d_weight) = (even >> 16, odd >> 16);
                four_times!(
                    COLUMN,
                    sums[ROW][COLUMN] += a_weight * a[COLUMN]
                        + b_weight * b[COLUMN]
                        + c_weight * c[COLUMN]
                        + d_weight * d[COLUMN]
                );
            }
        );
    }
    sums
}
}

/// The first four columns. A column that does not exist is 0.
#[inline(always)]
fn first_columns(row: &[i8]) -> [i8; 4] {
    let mut columns = [0; 4];
    for (to, from) in columns.iter_mut().zip(row) {
        *to = *from;
    }
    columns
}
