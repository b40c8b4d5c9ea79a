//! The online softmax (Milakov & Gimelshein 2018, arXiv 1805.02867): the softmax of a row whose scores
//! come a tile at a time.
//!
//! ```text
//! m ← −∞, l ← 0, o ← 0                           for each query: reference, sum of weights, output
//! for each tile:
//!     t ← max(scores)
//!     if (t − m)·factor > SLACK:                  in units of log₂
//!         l ← l · 2^((m − t)·factor),  o ← o · 2^((m − t)·factor),  m ← t
//!     weights ← 2^((scores − m)·factor)           in the place of the scores
//!     l ← l + Σ weights,  o ← o + weights · V
//! o ← o / l
//! ```
//!
//! The factor is scale · log₂(e) / T. With [`SLACK`] the reference m may be less than the row's maximum,
//! as in FlashAttention-4: the output is hardly ever rescaled.

use core::f32::consts::LOG2_E;

use crate::linked::Linked;
use crate::scores::Group;
use crate::simd::{Kernel, LANES, Simd};
use crate::softmax::{exp2_one, exp2_row_sum, log_sum_exp, scale_row};
use crate::{MatMut, Temperature};

/// The reference of a row stays as it is until a weight would exceed 2 to this power. Values from 2¹²⁴
/// on may overflow for it, where weights of at most 1 would not.
const SLACK: f32 = 4.0;

/// How scores become weights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weighting {
    pub(crate) temperature: Temperature,
    /// Differences of scores are multiplied by it before e is raised to them.
    pub(crate) factor: f32,
    /// What a very high temperature does to the scores first.
    pub(crate) preparation: Option<Linked<Temperature>>,
}

impl Weighting {
    pub(crate) fn new(temperature: Temperature, factor: f32) -> Self {
        Self { temperature, factor, preparation: temperature.preparation() }
    }

    /// `score` as the weights see it.
    #[inline(always)]
    pub(crate) fn prepared(self, score: f32) -> f32 {
        let mut score = [score];
        self.temperature.prepare(&mut score);
        let [score] = score;
        score
    }

    /// e^((score − reference)·factor).
    #[inline(always)]
    pub(crate) fn weight<S: Simd>(self, simd: S, score: f32, reference: f32) -> f32 {
        exp2_one(simd, score, reference, self.factor * LOG2_E, self.temperature)
    }
}

/// The state of the online softmax: two numbers a query.
#[derive(Debug)]
pub(crate) struct OnlineSoftmax<'a> {
    pub(crate) weighting: Weighting,
    /// m: the query's largest score so far, or less by up to [`SLACK`].
    pub(crate) max: &'a mut [f32],
    /// l: the query's sum of weights so far. It is −0 until the query's group sees a key ([`nothing_seen`](crate::softmax::nothing_seen)); until then
    /// the output holds nothing.
    pub(crate) sum: &'a mut [f32],
}

impl<'a> OnlineSoftmax<'a> {
    /// With a state of two numbers for each of `n_q` queries.
    pub(crate) fn new(weighting: Weighting, state: &'a mut [f32], n_q: usize) -> Self {
        let (max, sum) = state.split_at_mut_checked(n_q).unwrap_or_default();
        Self { weighting, max, sum }
    }

    /// The same state, borrowed.
    pub(crate) fn reborrow(&mut self) -> OnlineSoftmax<'_> {
        OnlineSoftmax { weighting: self.weighting, max: self.max, sum: self.sum }
    }

    /// Before the first tile.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.max.fill(f32::NEG_INFINITY);
        // Adding to −0 changes nothing but its sign; and the compiler makes no call of memset of it.
        self.sum.fill(-0.0);
    }

    /// The log-sum-exp of each query's scores, after the last tile.
    pub(crate) fn log_sum_exp(&self, out: &mut [f32]) {
        let Weighting { temperature, factor, .. } = self.weighting;
        for ((out, max), sum) in out.iter_mut().zip(self.max.iter()).zip(self.sum.iter()) {
            *out = log_sum_exp(*max, *sum, factor, temperature);
        }
    }
}

/// One step of the online softmax for the queries of a block: their scores become weights, and where a
/// reference rises, the sum and the output are rescaled.
pub(crate) struct Weigh<'w, 's, 'a> {
    pub(crate) groups: &'w [Group],
    /// The block's first query.
    pub(crate) row: usize,
    pub(crate) scores: &'w mut MatMut<'s>,
    pub(crate) softmax: &'w mut OnlineSoftmax<'a>,
    pub(crate) out: &'w mut MatMut<'a>,
}

impl Kernel for Weigh<'_, '_, '_> {
    type Output = ();

    /// In two passes, because a row's weights wait for its maximum: the maxima of many rows are computed
    /// side by side. In one pass where code is counted.
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        // A group that sees nothing of the tile leaves the sums of its rows at −0.
        for group in self.groups.iter().filter(|group| group.first < group.end) {
            for row in group.row..group.row + group.rows {
                self.update_reference(simd, group, row);
                if S::NARROW {
                    self.weigh(simd, group, row);
                }
            }
        }
        if !S::NARROW {
            for group in self.groups.iter().filter(|group| group.first < group.end) {
                for row in group.row..group.row + group.rows {
                    self.weigh(simd, group, row);
                }
            }
        }
    }
}

impl Weigh<'_, '_, '_> {
    /// The scores of a query of the group, in whole panels.
    #[inline(always)]
    fn scores(&mut self, group: &Group, row: usize) -> &mut [[f32; LANES]] {
        let scores = self.scores.row_mut(row - self.row);
        scores.get_mut(group.lanes()).unwrap_or_default().as_chunks_mut().0
    }

    /// Raises the reference of a query to the maximum of its scores, if it must.
    #[inline(always)]
    fn update_reference<S: Simd>(&mut self, simd: S, group: &Group, row: usize) {
        let Weighting { temperature, factor, preparation } = self.softmax.weighting;
        let factor = factor * LOG2_E;
        let slack = if temperature.is_zero() { 0.0 } else { SLACK };
        let scores = self.scores(group, row);
        if let Some(preparation) = preparation {
            preparation.apply(simd, scores.as_flattened_mut());
        }
        let max = simd.max_of(scores);
        let OnlineSoftmax { max: references, sum, .. } = &mut *self.softmax;
        let (Some(reference), Some(sum)) = (references.get_mut(row), sum.get_mut(row)) else {
            return;
        };
        if (max - *reference) * factor > slack {
            if *sum != 0.0 {
                let rescale = exp2_one(simd, *reference, max, factor, temperature);
                *sum *= rescale;
                scale_row(simd, self.out.row_mut(row), rescale);
            }
            *reference = max;
        }
    }

    /// Turns the scores of a query into weights, and adds these to its sum.
    #[inline(always)]
    fn weigh<S: Simd>(&mut self, simd: S, group: &Group, row: usize) {
        let Weighting { temperature, factor, .. } = self.softmax.weighting;
        let Some(reference) = self.softmax.max.get(row).copied() else { return };
        let scores = self.scores(group, row);
        let weights = exp2_row_sum(simd, scores, reference, factor * LOG2_E, temperature);
        if let Some(sum) = self.softmax.sum.get_mut(row) {
            *sum += weights;
        }
    }
}
