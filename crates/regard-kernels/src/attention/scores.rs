//! The scores of attention, tile by tile: steps 1 to 3 in the description of [`Attention`](crate::Attention).
//!
//! A tile is [`NC`] keys, and a block is [`MC`] queries; FlashAttention (Dao et al. 2022) calls them B_c and B_r. Only the
//! scores of one block and one tile exist at a time. [`tiles`](super::tiles) turns them into weights and multiplies these by
//! the values; [`Attention::scores`](crate::Attention::scores) copies them to its output.
//!
//! ```text
//! for each tile of NC keys that some query sees:                  in ascending order
//!     transpose the tile's keys into panels of 16 keys × d_k          once for all queries
//!     for each block of MC queries:
//!         divide the block into groups of up to MR queries, of as equal sizes as possible
//!         for each NR / 16 panels that a group of the block sees:     they stay in L1
//!             for each group that sees it:                            MR × NR sums stay in registers
//!                 scores[group, panel] ← Σₜ q[group, t] · panel[t]    t in ascending order
//!         for each query of the block:
//!             multiply by the scale, cap, add the bias, and set hidden scores to −∞
//! ```
//!
//! In the terms of BLIS (Van Zee & van de Geijn 2015) the product is Q·Kᵀ with NC = 256, KC = d_k, and
//! on AVX2 MR = 6, NR = 16 and MC = 24 (on AVX-512 12, 32 and 36). d_k is never divided, so a score is one chain of
//! multiply-adds, and its bits do not depend on the tile, the block or the group that it is computed in. The loop over tiles is
//! the outermost one. Therefore K is transposed once, and the scratch memory does not grow with n_k.
//!
//! The keys that a causal mask, a window or a key length shows to a query are a range, and neither end of the range falls from
//! one query to the next. So the keys that a group may see are a range too, and a tile or panel outside of it is skipped. Only
//! a group for which [`may_hide`](Visible::may_hide) is true is masked score by score.
//!
//! Two cases differ. One or two queries use tiles of 1 × 64 or 2 × 32 (on AVX-512 1 × 128 or 2 × 64), because the MR × NR sums
//! of few rows are too few chains to cover the latency of a multiply-add. The keys of a single query are transposed in
//! registers, because it would read each panel only once. On a narrow tier, which has no vectors, the keys are read where they
//! lie, and a block is one group.

use core::ops::Range;

use super::mask::{Linked, RowStep, Visible};
use crate::activation::Capped;
use crate::arch::{
    Epilogue, LANES, MR, Panel, Panels, Simd, TARGET, gebp, gemv, next_groups, pack_transposed,
    panels_at_once,
};
use crate::invariant::Promised as _;
use crate::softmax::scale_row;
use crate::{Mat, MatMut, TILE_KEYS};

/// The keys of a tile. The maximum and the sum of a row are updated once a tile: with 64 keys the kernels reach 73 % of the FMA
/// peak, with 256 they reach 81 %.
pub(super) const NC: usize = TILE_KEYS;
/// The most queries of a block, on any tier.
pub(super) const MC: usize = TARGET.queries;

/// Computes the scores tile by tile.
pub(super) struct Scores<'a> {
    /// \[n_q, d_k\].
    pub(super) q: Mat<'a>,
    /// \[n_k, d_k\].
    pub(super) k: Mat<'a>,
    /// The steps between the dot products and the mask, if there are any.
    pub(super) steps: Option<Linked<Steps>>,
    pub(super) visible: &'a Visible<'a>,
    /// Whether the scores become weights at once. A narrow tier then skips the keys that a query does not see by its position;
    /// their scores may be any numbers.
    pub(super) fused: bool,
    /// Whether each query is a block of its own, whose keys are exactly those that it sees by its position.
    pub(super) row_by_row: bool,
    /// The tile's keys, transposed: a panel of d_k rows for every 16 keys.
    pub(super) panels: &'a mut [Panel],
    /// The scores of a block of queries, in whole panels.
    pub(super) tile: MatMut<'a>,
}

/// Scale and soft cap, for an attention whose softmax does not multiply by the scale itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Steps {
    pub(super) scale: f32,
    pub(super) softcap: Option<Linked<Softcap>>,
}

impl RowStep for Steps {
    #[inline(always)]
    fn apply<S: Simd>(self, simd: S, scores: &mut [f32]) {
        scale_row(simd, scores, self.scale);
        if let Some(softcap) = self.softcap {
            softcap.apply(simd, scores);
        }
    }
}

/// The soft cap c: a score s becomes c·tanh(s/c).
#[derive(Clone, Copy, Debug)]
pub(super) struct Softcap(pub(super) f32);

impl RowStep for Softcap {
    #[inline(always)]
    fn apply<S: Simd>(self, simd: S, scores: &mut [f32]) {
        simd.map(scores, &Capped(self.0));
    }
}

/// Neighbouring queries that are computed together, and the keys of a tile that they may see.
#[derive(Clone, Copy, Default)]
pub(super) struct Group {
    /// The first query.
    pub(super) row: usize,
    /// 1 to [`MR`] queries.
    pub(super) rows: usize,
    /// The first key that one of them may see, counted from the tile's start, and the end.
    pub(super) first: usize,
    pub(super) end: usize,
    /// Whether one of these keys may be hidden from one of the queries.
    pub(super) hides: bool,
    /// Whether this is the first tile in which one of the queries sees a key.
    pub(super) begins: bool,
}

/// Calls `$body` for each run of neighbouring groups that have the same size and the same `$key`. It passes the first group of
/// the run and the number of groups.
macro_rules! for_runs {
    ($groups:expr, |$group:ident| $key:expr, |$first:ident, $count:ident| $body:expr) => {{
        let mut rest: &[Group] = $groups;
        while let [$first, ..] = rest {
            let key = |$group: &Group| ($group.rows, $key);
            let $count = rest.iter().take_while(|group| key(group) == key($first)).count();
            $body;
            rest = rest.get($count..).promised();
        }
    }};
}
pub(super) use for_runs;

impl Group {
    /// The group's keys, rounded out to whole panels.
    #[inline(always)]
    pub(super) fn lanes(&self) -> Range<usize> {
        self.first / LANES * LANES..self.end.next_multiple_of(LANES)
    }
}

/// The groups of a block. A narrow tier has one.
pub(super) type Groups = [Group; MC / MR];

impl Scores<'_> {
    /// The keys that some query sees.
    #[inline(always)]
    pub(super) fn seen(&self) -> Range<usize> {
        let n_q = self.q.rows();
        if n_q == 0 { 0..0 } else { self.visible.range_of_rows(0, n_q).0 }
    }

    /// Begins the tile of keys from `start` on: transposes its keys if several queries share them. Returns the range of the
    /// tile's keys.
    #[inline(always)]
    pub(super) fn begin<S: Simd>(
        &mut self,
        simd: S,
        start: usize,
        seen: &Range<usize>,
    ) -> Range<usize> {
        let keys = start..(start + NC).min(self.k.rows());
        if self.q.rows() > 1 && !S::NARROW {
            self.pack(simd, start, &intersect(&keys, seen));
        }
        keys
    }

    /// The number of queries of a block.
    #[inline(always)]
    pub(super) fn block_rows<S: Simd>(&self) -> usize {
        if self.row_by_row { 1 } else { MC.min(S::SHAPE.queries) }
    }

    /// Transposes the panels of the tile that some query sees.
    #[inline(always)]
    fn pack<S: Simd>(&mut self, simd: S, start: usize, seen: &Range<usize>) {
        let first = (seen.start - start) / LANES;
        let panels = first..(seen.end - start).div_ceil(LANES);
        let d_k = self.q.cols();
        let memory = self.panels.get_mut(panels.start * d_k..panels.end * d_k).promised();
        let keys = self.k.rows_from(start + first * LANES, panels.len() * LANES);
        pack_transposed(simd, keys, memory);
    }

    /// Computes the scores of the block of queries from `row` on and the tile of `keys`, into [`tile`](Self::tile), and returns
    /// the block's groups. Returns `None` if no query of the block sees a key of the tile. In the panels that a group sees, the
    /// score of a key that is hidden from a query of the group is −∞.
    #[inline(always)]
    pub(super) fn block<'g, S: Simd>(
        &mut self,
        simd: S,
        row: usize,
        keys: &Range<usize>,
        groups: &'g mut Groups,
    ) -> Option<&'g [Group]> {
        // Divide the block into groups, and find the keys of the tile that each group sees.
        *groups = [Group::default(); MC / MR];
        let rows = self.block_rows::<S>().min(self.q.rows() - row);
        let mut seen = 0..0; // by the whole block
        let (mut next, end) = (row, row + rows);
        let mut count = 0;
        while next < end {
            let (size, many) =
                if MC == MR { (end - next, 1) } else { next_groups::<S>(end - next) };
            for group in groups.iter_mut().skip(count).take(many) {
                let (range, by_all) = self.visible.range_of_rows(next, size);
                let keys_seen = intersect(keys, &range);
                *group = Group { row: next, rows: size, ..Group::default() };
                if !keys_seen.is_empty() {
                    group.begins = range.start >= keys.start;
                    group.hides = self.visible.may_hide(&by_all, &keys_seen);
                    (group.first, group.end) =
                        (keys_seen.start - keys.start, keys_seen.end - keys.start);
                    seen = if seen.is_empty() {
                        group.lanes()
                    } else {
                        seen.start..seen.end.max(group.end)
                    };
                }
                next += size;
            }
            count += many;
        }
        if seen.is_empty() {
            return None;
        }
        let groups = if MC == MR { groups.as_slice() } else { groups.get(..count).promised() };
        // The dot products.
        match groups {
            _ if S::NARROW => {
                for group in groups {
                    self.multiply_in_place(simd, row, keys.start, group);
                }
            }
            [group] if self.q.rows() == 1 => self.multiply_one(simd, keys.start, group),
            [widest, ..] => {
                let width = panels_at_once::<S>(widest.rows) * LANES;
                for lane in seen.step_by(width) {
                    let lanes = |group: &Group| intersect(&group.lanes(), &(lane..lane + width));
                    for_runs!(groups, |group| lanes(group), |first, count| {
                        let (lanes, q) =
                            (lanes(first), self.q.rows_from(first.row, first.rows * count));
                        let keys = Panels::packed(self.panels, q.cols()).from(lanes.start / LANES);
                        let scores = &mut self.tile.rows_from(first.row - row);
                        let (rows, panels) = (first.rows, lanes.len() / LANES);
                        gebp(simd, q, keys, scores, lanes.start, rows, panels, Epilogue::Set);
                    });
                }
            }
            [] => {}
        }
        for group in groups {
            let as_they_are = self.steps.is_none() && !self.visible.changes_scores();
            if !(S::NARROW && self.fused && as_they_are) {
                self.mask(simd, row, keys.start, group);
            }
        }
        Some(groups)
    }

    /// The dot products of a single query. The keys of whole panels are transposed in registers, and the last keys in memory.
    #[inline(always)]
    fn multiply_one<S: Simd>(&mut self, simd: S, start: usize, group: &Group) {
        let lanes = group.lanes();
        let keys = self.k.rows_from(start + lanes.start, lanes.len());
        let whole = keys.rows() / LANES * LANES;
        let scores = self.tile.row_mut(0).get_mut(lanes.clone()).promised();
        gemv(simd, self.q.row(0), keys.rows_from(0, whole), scores);
        if whole < keys.rows() {
            pack_transposed(simd, keys.rows_from(whole, LANES), self.panels);
            let panels = Panels::packed(self.panels, self.q.cols());
            let col = lanes.start + whole;
            gebp(simd, self.q, panels, &mut self.tile, col, 1, 1, Epilogue::Set);
        }
    }

    /// The dot products of a group's queries with the keys that they see. The keys are read where they lie.
    #[inline(always)]
    fn multiply_in_place<S: Simd>(&mut self, simd: S, block: usize, start: usize, group: &Group) {
        let q = self.q.rows_from(group.row, group.rows);
        let seen = group.first..group.end;
        let keys = Panels::transposed(self.k.rows_from(start + seen.start, seen.len()));
        let mut scores = self.tile.rows_from(group.row - block);
        gebp(simd, q, keys, &mut scores, seen.start, 1, 1, Epilogue::Set);
    }

    /// Applies the scale, the soft cap and the biases, and sets the scores of keys that are hidden from a query of the group to
    /// −∞.
    #[inline(always)]
    fn mask<S: Simd>(&mut self, simd: S, block: usize, start: usize, group: &Group) {
        let lanes = group.lanes();
        if lanes == (group.first..group.end) && !group.hides && self.steps.is_none() {
            return;
        }
        for row in group.row..group.row + group.rows {
            let scores = self.tile.row_mut(row - block).get_mut(lanes.clone()).promised();
            if !S::NARROW {
                self.visible.prefetch(simd, row + MR, start + lanes.start, lanes.len());
            }
            if let Some(steps) = self.steps {
                steps.apply(simd, scores);
            }
            self.visible.apply(simd, row, start + lanes.start, scores);
        }
    }
}

fn intersect(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    a.start.max(b.start)..a.end.min(b.end)
}
