//! The rows of an attention in block floating point, in groups: scores, weights, weighted values.
//!
//! ```text
//! for each group of up to GROUP queries:
//!     queries ← their mantissas, of which each row has its own exponent
//!     for each key that one of them sees:
//!         row ← the key's mantissas                                   once for the group
//!         for each query that sees it: scores[query, key] ← Σ (query · row) >> shift
//!     for each query: weights[query] ← 2^−y of the distances to the largest score, in place
//!     for each key that one of them sees:
//!         row ← its value's mantissas                                 once for the group
//!         for each query: sums[query] += (row · weight) >> n
//!     for each query: out ← sums, as floats, times a factor
//! ```
//!
//! No sum leaves 32 bits. A product of mantissas is at most (2¹⁵ − 1)², two are below 2³¹ − 2¹⁶. A query has at most 2^shift pairs,
//! so their shifted sum is below that too, and rounding down takes less than 1 from each of 2¹⁴ pairs. A product of a weight's p
//! and a mantissa is below 2³¹ − 2¹⁶. They are shifted so that the sum of the weights, each rounded down to 2⁻³¹, is at most 1: the sum
//! before rounding is at most 1 + 2⁻¹⁶ for 2¹⁵ keys, and (2¹⁵ − 1)(2¹⁶ + 1) + 2¹⁵ = 2³¹ − 1, where the last 2¹⁵ is what rounding
//! the products down takes at most.

use core::ops::Range;

use super::block::Block;
use super::decay::{Decay, Steps, Weight};
use crate::linked::Visible;
use crate::{Mat, MatMut};

/// Queries that share the conversion of a key and of a value.
const GROUP: usize = 4;

/// The score of a key that may not be seen: no sum of products is as low.
const HIDDEN: i32 = i32::MIN;

/// Words for the weights of a group, for its queries or sums, and for a key or value.
const fn scratch_parts(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> [usize; 3] {
    let rows = if n_q < GROUP { n_q } else { GROUP };
    let width = width(d_k, d_v);
    [n_k.saturating_mul(rows), width.saturating_mul(rows), width]
}

/// The columns of a row of mantissas or sums, in whole fours.
const fn width(d_k: usize, d_v: usize) -> usize {
    let most = if d_k > d_v { d_k } else { d_v };
    most.div_ceil(4).saturating_mul(4)
}

pub(super) const fn scratch_len(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    let [weights, rows, row] = scratch_parts(n_q, n_k, d_k, d_v);
    weights.saturating_add(rows).saturating_add(row)
}

/// All rows. The shapes fit, all numbers that are seen are finite, and `scratch` has [`scratch_len`] words.
pub(super) struct Rows<'a> {
    pub(super) q: Mat<'a>,
    pub(super) k: Mat<'a>,
    pub(super) v: Mat<'a>,
    pub(super) out: MatMut<'a>,
    pub(super) visible: Visible<'a>,
    pub(super) decay: Decay,
    pub(super) key: Block,
    pub(super) value: Block,
    pub(super) scratch: &'a mut [i32],
}

impl Rows<'_> {
    pub(super) fn compute(mut self) {
        for first in (0..self.q.rows()).step_by(GROUP) {
            self.group(first, GROUP.min(self.q.rows() - first));
        }
    }

    /// The `count` rows from `first` on.
    fn group(&mut self, first: usize, count: usize) {
        let Self { q, k, v, out, visible, decay, key, value, scratch } = self;
        let parts = scratch_parts(q.rows(), k.rows(), k.cols(), v.cols());
        let (weights, rest) = scratch.split_at_mut_checked(parts[0]).unwrap_or_default();
        let (rows, row) = rest.split_at_mut_checked(parts[1]).unwrap_or_default();
        let keys = visible.range_of_rows(first, count).0;
        let mut weights = Words { words: weights, width: keys.len() };
        let mut rows = Words { words: rows, width: width(k.cols(), v.cols()) };

        let shift = k.cols().div_ceil(2).max(1).next_power_of_two().trailing_zeros();
        let mut ranges = [const { 0..0 }; GROUP];
        for (r, range) in ranges.iter_mut().enumerate().take(count) {
            let query = q.row(first + r);
            Block::of_row(query).mantissas(query, rows.row(r));
            *range = visible.range(first + r);
        }
        for (at, j) in keys.clone().enumerate() {
            key.mantissas(k.row(j), row);
            for (r, range) in ranges.iter().enumerate().take(count) {
                let score = if range.contains(&j) { dot(rows.row(r), row, shift) } else { HIDDEN };
                weights.set(r, at, score);
            }
        }

        let mut totals = [Total::NONE; GROUP];
        for (r, total) in totals.iter_mut().enumerate().take(count) {
            let scores = weights.row(r);
            if let Some(allowed) = visible.allowed(first + r) {
                hide(scores, allowed, keys.clone());
            }
            let steps = decay.steps(Block::of_row(q.row(first + r)), *key, shift);
            *total = weigh(&steps, scores);
        }

        for r in 0..count {
            rows.row(r).fill(0);
        }
        for (at, j) in keys.enumerate() {
            value.mantissas(v.row(j), row);
            for (r, total) in totals.iter().enumerate().take(count) {
                let weight = Weight::from_word(weights.get(r, at));
                let n = weight.n() + total.shift;
                // A product is below 2³¹.
                if weight != Weight::NONE && n < 31 {
                    add(rows.row(r), row, weight.p() as i32, n);
                }
            }
        }
        for (r, total) in totals.iter().enumerate().take(count) {
            let factor = total.factor(*value);
            for (out, sum) in out.row_mut(first + r).iter_mut().zip(rows.row(r)) {
                *out = *sum as f32 * factor;
            }
        }
    }
}

/// Rows of `width` words.
struct Words<'a> {
    words: &'a mut [i32],
    width: usize,
}

impl Words<'_> {
    #[inline(always)]
    fn row(&mut self, r: usize) -> &mut [i32] {
        self.words.get_mut(r * self.width..(r + 1) * self.width).unwrap_or_default()
    }

    #[inline(always)]
    fn get(&self, r: usize, i: usize) -> i32 {
        self.words.get(r * self.width + i).copied().unwrap_or_default()
    }

    #[inline(always)]
    fn set(&mut self, r: usize, i: usize, word: i32) {
        if let Some(to) = self.words.get_mut(r * self.width + i) {
            *to = word;
        }
    }
}

/// Hides the `keys` that a query may not see.
fn hide(scores: &mut [i32], allowed: &[bool], keys: Range<usize>) {
    for (score, allowed) in scores.iter_mut().zip(allowed.get(keys).unwrap_or_default()) {
        if !allowed {
            *score = HIDDEN;
        }
    }
}

/// Σ (a · b) >> `shift` over pairs of columns. (Written out, because a compiler that is told to save bytes unrolls no loop.)
#[inline(never)]
fn dot(a: &[i32], b: &[i32], shift: u32) -> i32 {
    let mut sum = 0;
    for ([a0, a1, a2, a3], [b0, b1, b2, b3]) in a.as_chunks().0.iter().zip(b.as_chunks().0) {
        sum += (a0 * b0 + a1 * b1) >> (shift & 31);
        sum += (a2 * b2 + a3 * b3) >> (shift & 31);
    }
    sum
}

/// `sums` += (`row` · `p`) >> `n`, column by column.
#[inline(never)]
fn add(sums: &mut [i32], row: &[i32], p: i32, n: u32) {
    let n = n & 31;
    for ([s0, s1, s2, s3], [x0, x1, x2, x3]) in
        sums.as_chunks_mut().0.iter_mut().zip(row.as_chunks().0)
    {
        *s0 += (x0 * p) >> n;
        *s1 += (x1 * p) >> n;
        *s2 += (x2 * p) >> n;
        *s3 += (x3 * p) >> n;
    }
}

/// The sum of a row's weights: `share` · 2^(`shift` − 31), with a share of at most 2³¹.
#[derive(Clone, Copy)]
struct Total {
    share: u32,
    shift: u32,
}

impl Total {
    const NONE: Self = Self { share: 0, shift: 0 };

    /// `sum` has 31 bits after the point.
    fn new(sum: u64) -> Self {
        let shift = (u64::BITS - sum.saturating_sub(1).leading_zeros()).saturating_sub(31);
        Self { share: (sum >> (shift & 31)) as u32, shift }
    }

    /// What a unit of the weighted sums stands for, divided by the sum of weights: 2^(field − 126) / `share`.
    fn factor(self, value: Block) -> f32 {
        if self.share == 0 {
            return 0.0;
        }
        f32::from_bits(value.field << 23) / (self.share >> 1) as f32
    }
}

/// Turns scores into weights, and returns their sum.
fn weigh(steps: &Steps, scores: &mut [i32]) -> Total {
    let mut max = HIDDEN;
    for score in &*scores {
        max = max.max(*score);
    }
    let mut sum = 0;
    for score in scores {
        let weight = match *score {
            HIDDEN => Weight::NONE,
            score => steps.weight(max.wrapping_sub(score) as u32),
        };
        sum += u64::from((weight.p() << 15) >> (weight.n() & 31));
        *score = weight.to_word();
    }
    Total::new(sum)
}
