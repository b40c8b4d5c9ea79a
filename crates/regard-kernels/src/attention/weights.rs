//! The online softmax (Milakov & Gimelshein 2018, arXiv 1805.02867): the softmax of a row whose scores arrive a tile at a time.
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
//! The factor is scale · log₂(e) / T. [`SLACK`] lets the reference m be less than the row's maximum, as in FlashAttention-4, so
//! the output is rescaled only rarely.

use core::f32::consts::LOG2_E;
use core::hint::black_box;
use core::ops::Range;

use super::mask::{Linked, RowStep, Visible};
use super::scores::Group;
use crate::arch::{Exp2ToZero, Kernel, LANES, Simd, largest, max_lanes};
use crate::invariant::Promised as _;
use crate::softmax::{
    NOTHING_SEEN, Powers, exp2_one, exp2_row, log_sum_exp, reduce_add_each, reduce_max_each,
    scale_row, weigh_each,
};
use crate::{MatMut, Temperature};

/// A row's reference stays the same until a weight would exceed 2 to this power. Values from 2¹²⁴ on may therefore overflow,
/// although with weights of at most 1 they would not.
const SLACK: f32 = 4.0;

/// The rule by which scores become weights.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WeightRule {
    pub(crate) temperature: Temperature,
    /// The factor for differences of scores, before e is raised to them.
    pub(crate) factor: f32,
    /// The step that prepares the scores for a very high temperature.
    pub(crate) preparation: Option<Linked<Temperature>>,
}

impl RowStep for Temperature {
    #[inline(always)]
    fn apply<S: Simd>(self, _simd: S, scores: &mut [f32]) {
        self.prepare(scores);
    }
}

impl WeightRule {
    pub(crate) fn new(temperature: Temperature, factor: f32) -> Self {
        let preparation = temperature.prepares().then(|| Linked::new(temperature));
        Self { temperature, factor, preparation }
    }

    /// `score`, prepared for the temperature.
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
    pub(crate) rule: WeightRule,
    /// m: the query's largest score so far, or a number that is lower by up to [`SLACK`].
    pub(crate) max: &'a mut [f32],
    /// l: the query's sum of weights so far. It is [`NOTHING_SEEN`] until the query's group sees a key, and
    /// until then the output holds no result.
    pub(crate) sum: &'a mut [f32],
}

impl<'a> OnlineSoftmax<'a> {
    /// Uses `state` as the state of `n_q` queries, two numbers for each.
    pub(crate) fn new(rule: WeightRule, state: &'a mut [f32], n_q: usize) -> Self {
        let (max, sum) = state.split_at_mut_checked(n_q).promised();
        Self { rule, max, sum }
    }

    /// The same state, borrowed.
    pub(crate) fn reborrow(&mut self) -> OnlineSoftmax<'_> {
        OnlineSoftmax { rule: self.rule, max: self.max, sum: self.sum }
    }

    /// Prepares the state for the first tile.
    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.max.fill(f32::NEG_INFINITY);
        // The compiler does not turn this into a call of memset, because the bits are not 0.
        self.sum.fill(NOTHING_SEEN);
    }

    /// The log-sum-exp of each query's scores, after the last tile.
    pub(crate) fn log_sum_exp(&self, out: &mut [f32]) {
        let WeightRule { temperature, factor, .. } = self.rule;
        for ((out, max), sum) in out.iter_mut().zip(self.max.iter()).zip(self.sum.iter()) {
            *out = log_sum_exp(*max, *sum, factor, temperature);
        }
    }
}

/// Memory that is read soon. A block prefetches it while it computes weights, because it then reads nothing else from far away.
#[derive(Clone, Copy)]
pub(crate) struct Next {
    /// The address need not exist.
    start: *const f32,
    /// The number of cache lines.
    lines: usize,
}

impl Next {
    /// The memory of `elements` numbers from `start` on.
    #[inline(always)]
    pub(crate) fn new(start: *const f32, elements: usize) -> Self {
        Self { start, lines: elements.div_ceil(LANES) }
    }

    /// The number of lines that each of `rows` rows prefetches. It is 0 if the lines are too many, because few lines can be on
    /// their way at a time.
    #[inline(always)]
    fn lines_a_row(&self, rows: usize) -> usize {
        const MOST: usize = 8;
        let lines = self.lines.div_ceil(rows.max(1));
        if lines <= MOST { lines } else { 0 }
    }

    /// Prefetches the next `lines` lines.
    #[inline(always)]
    fn prefetch<S: Simd>(&mut self, simd: S, lines: usize) {
        for _ in 0..lines {
            simd.prefetch(self.start);
            self.start = self.start.wrapping_add(LANES);
        }
    }
}

/// One step of the online softmax for the queries of a block: their scores become weights. If a query's reference rises, its
/// sum and its output are rescaled.
pub(crate) struct UpdateSoftmax<'w, 's, 'a> {
    pub(crate) groups: &'w [Group],
    pub(crate) visible: &'w Visible<'w>,
    /// The tile's first key.
    pub(crate) start: usize,
    /// The block's first query.
    pub(crate) row: usize,
    pub(crate) scores: &'w mut MatMut<'s>,
    pub(crate) softmax: &'w mut OnlineSoftmax<'a>,
    pub(crate) out: &'w mut MatMut<'a>,
    /// The memory that is read after this step.
    pub(crate) next: Next,
}

impl Kernel for UpdateSoftmax<'_, '_, '_> {
    type Output = ();

    /// Works in two passes, because a row's weights wait for its maximum. The first computes the maxima of many rows side by
    /// side; the second computes the weights of [`Shape::side_by_side`] rows side by side. On bare metal, where each byte of
    /// code counts, one pass goes row by row.
    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        // A group that sees no key of the tile leaves the sums of its rows as they are: they are [`NOTHING_SEEN`] if it has
        // seen no key yet.
        let groups = self.groups;
        let groups = || groups.iter().filter(|group| group.first < group.end);
        if S::NARROW {
            for group in groups() {
                for row in group.row..group.row + group.rows {
                    let seen = self.seen(group, row);
                    self.weigh(simd, group, row, seen);
                }
            }
            return;
        }
        for group in groups() {
            for_rows!(S, group, |row, R| self.update_references::<S, R>(simd, group, row));
        }
        let mut next = self.next;
        let lines = next.lines_a_row(groups().map(|group| group.rows).sum());
        for group in groups() {
            for_rows!(S, group, |row, R| {
                self.weigh_rows::<S, R>(simd, group, row);
                next.prefetch(simd, R * lines);
            });
        }
    }
}

/// Calls `$each` for the queries of a group. Each call takes `$count` of them, from number `$row` on: as many as the tier
/// `$simd` computes side by side.
macro_rules! for_rows {
    ($simd:ident, $group:expr, |$row:ident, $count:ident| $each:expr) => {{
        let mut $row = $group.row;
        let end = $row + $group.rows;
        for_rows!(@ $simd, $row, end, $count, 4, $each);
        for_rows!(@ $simd, $row, end, $count, 2, $each);
        for_rows!(@ $simd, $row, end, $count, 1, $each);
    }};
    (@ $simd:ident, $row:ident, $end:ident, $count:ident, $rows:literal, $each:expr) => {
        while const { $rows <= $simd::SHAPE.side_by_side } && $rows <= $end - $row {
            const $count: usize = $rows;
            $each;
            $row += $rows;
        }
    };
}
use for_rows;

impl UpdateSoftmax<'_, '_, '_> {
    /// The scores of `R` queries of the group from `row` on, in whole panels. Prepares them for the temperature if they are not
    /// `prepared` yet.
    #[inline(always)]
    fn scores<S: Simd, const R: usize>(
        &mut self,
        simd: S,
        group: &Group,
        row: usize,
        prepared: bool,
    ) -> [&mut [[f32; LANES]]; R] {
        let mut scores: [&mut [[f32; LANES]]; R] = core::array::from_fn(|_| Default::default());
        if R == 1 {
            scores[0] = blocks(self.scores.row_mut(row - self.row), group);
        } else {
            for (scores, row) in scores.iter_mut().zip(self.scores.rows_mut::<R>(row - self.row)) {
                *scores = blocks(row, group);
            }
        }
        for scores in &mut scores {
            if let (false, Some(step)) = (prepared, self.softmax.rule.preparation) {
                step.apply(simd, scores.as_flattened_mut());
            }
        }
        scores
    }

    /// Raises the references of `R` queries of the group to the maxima of their scores, if they must rise.
    #[inline(always)]
    fn update_references<S: Simd, const R: usize>(&mut self, simd: S, group: &Group, row: usize) {
        let mut lanes = [simd.splat(f32::NEG_INFINITY); R];
        for (lanes, scores) in lanes.iter_mut().zip(self.scores::<S, R>(simd, group, row, false)) {
            *lanes = max_lanes(simd, scores);
        }
        for (row, max) in (row..).zip(reduce_max_each(simd, lanes)) {
            let OnlineSoftmax { rule, max: references, sum } = &mut *self.softmax;
            if let (Some(reference), Some(sum)) = (references.get_mut(row), sum.get_mut(row)) {
                raise(simd, *rule, reference, sum, max, || self.out.row_mut(row));
            }
        }
    }

    /// Turns the scores of `R` queries of the group into weights, and adds the weights to the queries' sums.
    #[inline(always)]
    fn weigh_rows<S: Simd, const R: usize>(&mut self, simd: S, group: &Group, row: usize) {
        let WeightRule { temperature, factor, .. } = self.softmax.rule;
        let references = self.softmax.max.get(row..).and_then(|max| max.first_chunk::<R>());
        let references = references.copied().promised_or([0.0; R]);
        let each_powers = Powers::each(references, factor * LOG2_E, temperature);
        let scores = self.scores::<S, R>(simd, group, row, true);
        let weights = reduce_add_each(simd, weigh_each(simd, scores, each_powers, Exp2ToZero));
        let sums = self.softmax.sum.get_mut(row..).promised();
        for (sum, weights) in sums.iter_mut().zip(weights) {
            *sum += weights;
        }
    }

    /// The keys of the group that one of its queries sees by its position, counted from the first key of the group's panels.
    #[inline(always)]
    fn seen(&self, group: &Group, row: usize) -> Range<usize> {
        let first = group.lanes().start;
        let (mut start, mut end) = (group.first, group.end);
        if group.hides {
            let range = self.visible.range(row);
            start = start.max(range.start.saturating_sub(self.start));
            end = end.min(range.end.saturating_sub(self.start)).max(start);
        }
        start - first..end - first
    }

    /// Turns the scores that a query sees into weights, and adds these to its sum, on narrow tiers. The other weights become 0.
    #[inline(always)]
    fn weigh<S: Simd>(&mut self, simd: S, group: &Group, row: usize, seen: Range<usize>) {
        let WeightRule { temperature, factor, preparation } = self.softmax.rule;
        let lanes = group.lanes();
        // Half a panel is enough for few keys.
        let half = lanes.start + LANES / 2;
        let lanes = lanes.start..if group.end <= half { half } else { lanes.end };
        let scores = self.scores.row_mut(row - self.row).get_mut(lanes).promised();
        let (before, rest) = scores.split_at_mut_checked(seen.start).promised();
        let (shown, after) = rest.split_at_mut_checked(seen.len()).promised();
        if let Some(preparation) = preparation {
            preparation.apply(simd, shown);
        }
        let max = largest(shown);
        let OnlineSoftmax { rule, max: references, sum } = &mut *self.softmax;
        let (Some(reference), Some(sum)) = (references.get_mut(row), sum.get_mut(row)) else {
            return;
        };
        raise(simd, *rule, reference, sum, max, || self.out.row_mut(row));
        let zero = black_box(0.0); // if the compiler knew the 0, it would turn the loops that write it into calls of memset
        before.iter_mut().chain(after).for_each(|weight| *weight = zero);
        exp2_row(simd, shown, *reference, factor * LOG2_E, temperature);
        // In both arms the compiler knows that no other panel is filled in part, and leaves out the code for such panels.
        *sum += match scores.as_chunks::<LANES>() {
            ([], half) => half.first_chunk::<{ LANES / 2 }>().map_or(0.0, |half| simd.sum(half)),
            (panels, _) => simd.sum(panels.as_flattened()),
        };
    }
}

/// Raises the reference of a query to `max`, the maximum of its scores, if it must rise. Rescales the query's sum and `out`,
/// its output.
#[inline(always)]
fn raise<'o, S: Simd>(
    simd: S,
    rule: WeightRule,
    reference: &mut f32,
    sum: &mut f32,
    max: f32,
    out: impl FnOnce() -> &'o mut [f32],
) {
    let WeightRule { temperature, factor, .. } = rule;
    let factor = factor * LOG2_E;
    let slack = if temperature.is_zero() { 0.0 } else { SLACK };
    if (max - *reference) * factor > slack {
        if *sum != 0.0 {
            let rescale = exp2_one(simd, *reference, max, factor, temperature);
            *sum *= rescale;
            scale_row(simd, out(), rescale);
        }
        *reference = max;
    }
}

/// The scores of a query of the group, in whole panels. `scores` are all of its scores.
#[inline(always)]
fn blocks<'s>(scores: &'s mut [f32], group: &Group) -> &'s mut [[f32; LANES]] {
    scores.get_mut(group.lanes()).promised().as_chunks_mut().0
}
