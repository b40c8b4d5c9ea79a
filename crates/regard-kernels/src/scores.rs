//! The scores of attention, tile by tile: steps 1 to 3 of [`Attention`](crate::Attention).

use core::ops::Range;

use crate::activation::{Capped, map};
use crate::mask::Bounds;
use crate::simd::{
    GROUP, Kernel, LANES, NARROW, Panel, Panels, Set, Simd, dispatch, multiply, multiply_row,
    next_groups, pack_transposed, panels_at_once,
};
use crate::softmax::scale_row;
use crate::{Mat, MatMut, TILE_KEYS};

/// Keys a tile: the maximum and the sums of a row are brought up to date once a tile.
pub(crate) const TILE: usize = TILE_KEYS;
/// Queries that meet a panel of keys or values while it is in the nearest cache. Without a cache, only memory counts.
pub(crate) const BLOCK: usize = if NARROW || cfg!(target_os = "none") { GROUP } else { 24 };

/// Computes the scores tile by tile.
pub(crate) struct Scores<'a> {
    pub(crate) q: Mat<'a>,
    pub(crate) k: Mat<'a>,
    pub(crate) steps: Steps,
    pub(crate) bounds: &'a Bounds<'a>,
    /// The tile's keys, transposed: a panel of d_k rows for every 16 keys.
    pub(crate) panels: &'a mut [Panel],
    /// The scores of a block of queries, in whole panels.
    pub(crate) tile: MatMut<'a>,
}

/// What is done to the dot products before the mask.
#[derive(Clone, Copy, Default)]
pub(crate) struct Steps {
    /// `None` where who takes the scores multiplies by it in a step of its own.
    scale: Option<f32>,
    softcap: Option<Softcap>,
    /// What applies them where code is counted: a program that never needs it need not link it.
    apply: Option<fn(Self, &mut [f32])>,
}

impl Steps {
    pub(crate) fn new(scale: f32, softcap: Option<Softcap>) -> Self {
        struct Apply<'a>(Steps, &'a mut [f32]);
        impl Kernel for Apply<'_> {
            type Output = ();

            #[inline(always)]
            fn run<S: Simd>(self, simd: S) {
                self.0.run(simd, self.1);
            }
        }
        Self {
            scale: Some(scale),
            softcap,
            apply: Some(|steps, scores| dispatch(Apply(steps, scores))),
        }
    }

    #[inline(always)]
    fn run<S: Simd>(self, simd: S, scores: &mut [f32]) {
        if let Some(scale) = self.scale {
            scale_row(simd, scores, scale);
        }
        if let Some(Softcap(cap, apply)) = self.softcap {
            if S::NARROW {
                apply(cap, scores);
            } else {
                simd.map(scores, &Capped(cap));
            }
        }
    }
}

/// A soft cap, and the function that applies it where code is counted: a program that never caps need not link the
/// hyperbolic tangent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Softcap(f32, fn(f32, &mut [f32]));

impl Softcap {
    pub(crate) const fn new(cap: f32) -> Self {
        Self(cap, |cap, scores| map(scores, Capped(cap)))
    }

    pub(crate) const fn get(self) -> f32 {
        self.0
    }
}

/// Neighbouring queries that are computed together, and what of a tile they may see.
#[derive(Clone, Copy, Default)]
pub(crate) struct Group {
    /// The first query.
    pub(crate) row: usize,
    /// From 1 to 6 queries.
    pub(crate) rows: usize,
    /// The first key that one of them may see, counted from the tile's start, and the one behind the last.
    pub(crate) first: usize,
    pub(crate) end: usize,
    /// Whether some of them may be kept from some of these keys.
    pub(crate) hides: bool,
    /// Whether this is the first tile of which one of them sees something.
    pub(crate) begins: bool,
}

/// Calls `$body` for each run of neighbouring groups of one size that agree in what `$key` says of them, with the first
/// group and the number of them.
macro_rules! for_runs {
    ($groups:expr, |$group:ident| $key:expr, |$first:ident, $count:ident| $body:expr) => {{
        let mut rest: &[Group] = $groups;
        while let [$first, ..] = rest {
            let key = |$group: &Group| ($group.rows, $key);
            let $count = rest.iter().take_while(|group| key(group) == key($first)).count();
            $body;
            rest = rest.get($count..).unwrap_or_default();
        }
    }};
}
pub(crate) use for_runs;

impl Group {
    /// Their keys in whole panels.
    #[inline(always)]
    pub(crate) fn lanes(&self) -> Range<usize> {
        self.first / LANES * LANES..self.end.next_multiple_of(LANES)
    }
}

/// The groups of a block, and their scores for the keys of a tile.
pub(crate) struct Block<'a> {
    /// The tile's first key.
    pub(crate) start: usize,
    /// The block's first query, whose scores are the first row.
    pub(crate) row: usize,
    pub(crate) groups: &'a [Group],
    pub(crate) scores: MatMut<'a>,
}

/// What becomes of the scores.
pub(crate) trait Sink {
    /// A tile of these keys begins.
    fn begin<S: Simd>(&mut self, simd: S, keys: Range<usize>);
    /// The scores of a block, in whole panels: −∞ where a query of a group may not see a key of the group's panels.
    fn take<S: Simd>(&mut self, simd: S, bounds: &Bounds<'_>, block: Block<'_>);
}

impl Scores<'_> {
    #[inline(always)]
    pub(crate) fn run<S: Simd>(&mut self, simd: S, sink: &mut impl Sink) {
        let (n_q, n_k) = (self.q.rows(), self.k.rows());
        let seen = if n_q == 0 { 0..0 } else { self.bounds.range_of_rows(0, n_q) };
        let mut start = seen.start / TILE * TILE;
        while start < seen.end {
            let keys = start..(start + TILE).min(n_k);
            if n_q > 1 && !S::NARROW {
                self.pack(simd, start, &intersect(&keys, &seen));
            }
            sink.begin(simd, keys.clone());
            let mut row = 0;
            while row < n_q {
                self.block(simd, row, BLOCK.min(n_q - row), &keys, sink);
                row += BLOCK;
            }
            start += TILE;
        }
    }

    /// Transposes those panels of the tile that some query sees.
    #[inline(always)]
    fn pack<S: Simd>(&mut self, simd: S, start: usize, seen: &Range<usize>) {
        let first = (seen.start - start) / LANES;
        let panels = first..(seen.end - start).div_ceil(LANES);
        let d_k = self.q.cols();
        let memory = self.panels.get_mut(panels.start * d_k..panels.end * d_k).unwrap_or_default();
        pack_transposed(
            simd,
            self.k.rows_from(start + first * LANES, panels.len() * LANES),
            memory,
        );
    }

    #[inline(always)]
    fn block<S: Simd>(
        &mut self,
        simd: S,
        row: usize,
        rows: usize,
        keys: &Range<usize>,
        sink: &mut impl Sink,
    ) {
        let mut groups = [Group::default(); BLOCK / GROUP];
        let mut seen = 0..0;
        let (mut next, end) = (row, row + rows);
        let mut count = 0;
        while next < end {
            let (size, many) =
                if BLOCK == GROUP { (end - next, 1) } else { next_groups::<S>(end - next) };
            for group in groups.iter_mut().skip(count).take(many) {
                let range = self.bounds.range_of_rows(next, size);
                let keys_seen = intersect(keys, &range);
                *group = Group { row: next, rows: size, ..Group::default() };
                if !keys_seen.is_empty() {
                    group.begins = range.start >= keys.start;
                    group.hides = self.bounds.may_hide(next, size, &keys_seen);
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
            return;
        }
        let groups = if BLOCK == GROUP {
            groups.as_slice()
        } else {
            groups.get(..count).unwrap_or_default()
        };
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
                        self.multiply(simd, row, first, count, lanes(first));
                    });
                }
            }
            [] => {}
        }
        for group in groups {
            self.mask(simd, row, keys.start, group);
        }
        let scores = self.tile.rows_from(0);
        sink.take(simd, self.bounds, Block { start: keys.start, row, groups, scores });
    }

    /// The dot products of the only query, whose keys are not transposed but for the last ones.
    #[inline(always)]
    fn multiply_one<S: Simd>(&mut self, simd: S, start: usize, group: &Group) {
        let lanes = group.lanes();
        let keys = self.k.rows_from(start + lanes.start, lanes.len());
        let whole = keys.rows() / LANES * LANES;
        let scores = self.tile.row_mut(0).get_mut(lanes.clone()).unwrap_or_default();
        multiply_row(simd, self.q.row(0), keys.rows_from(0, whole), scores);
        if whole < keys.rows() {
            pack_transposed(simd, keys.rows_from(whole, LANES), self.panels);
            let panels = Panels::packed(self.panels, self.q.cols());
            multiply::<S, Set>(simd, self.q, panels, &mut self.tile, lanes.start + whole, 1, 1);
        }
    }

    /// The dot products of a group's queries with the keys that they see, where these lie.
    #[inline(always)]
    fn multiply_in_place<S: Simd>(&mut self, simd: S, block: usize, start: usize, group: &Group) {
        let (q, lanes) = (self.q.rows_from(group.row, group.rows), group.lanes());
        let keys = Panels::transposed(self.k.rows_from(start + lanes.start, lanes.len()));
        let tile = &mut self.tile.rows_from(group.row - block);
        multiply::<S, Set>(simd, q, keys, tile, lanes.start, 1, 1);
    }

    /// The dot products of the queries of `count` groups, from the `first` on, with the keys `lanes` of the tile.
    #[inline(always)]
    fn multiply<S: Simd>(
        &mut self,
        simd: S,
        block: usize,
        first: &Group,
        count: usize,
        lanes: Range<usize>,
    ) {
        let panels = Panels::packed(self.panels, self.q.cols()).from(lanes.start / LANES);
        let q = self.q.rows_from(first.row, first.rows * count);
        let tile = &mut self.tile.rows_from(first.row - block);
        multiply::<S, Set>(simd, q, panels, tile, lanes.start, first.rows, lanes.len() / LANES);
    }

    /// Scale, soft cap, additive mask, and −∞ for what a query of the group may not see.
    #[inline(always)]
    fn mask<S: Simd>(&mut self, simd: S, block: usize, start: usize, group: &Group) {
        let lanes = group.lanes();
        if lanes == (group.first..group.end) && !group.hides && self.steps.apply.is_none() {
            return;
        }
        for row in group.row..group.row + group.rows {
            let scores = self.tile.row_mut(row - block).get_mut(lanes.clone()).unwrap_or_default();
            if !S::NARROW {
                self.bounds.prefetch(simd, row + GROUP, start + lanes.start, lanes.len());
                self.steps.run(simd, scores);
            } else if let Some(apply) = self.steps.apply {
                apply(self.steps, scores);
            }
            self.bounds.apply(row, start + lanes.start, scores);
        }
    }
}

fn intersect(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    a.start.max(b.start)..a.end.min(b.end)
}
