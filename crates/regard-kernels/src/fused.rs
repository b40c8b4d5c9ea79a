//! The fused attention: the scores of a tile become weights and meet the values at once, by the online softmax of Milakov
//! and Gimelshein 2018.

use core::ops::Range;

use crate::mask::Bounds;

use crate::scores::{Block, Group, Scores, Sink, TILE, for_runs};
use crate::simd::{
    Continue, Kernel, LANES, NARROW, Panel, Panels, Simd, dispatch, multiply, multiply_or_add,
    pack_columns, panels_at_once,
};
use crate::softmax::{divide, log_sum_exp, scale_row, weigh_by_2, weight_by_2};
use crate::{Mat, MatMut, Temperature};

/// Queries from which on it pays to copy the values of a tile into panels of 16 columns: a row of V may be a whole page
/// away from the next, and then few of its columns find room in the nearest cache. Without a cache it never pays.
const PACK_FROM: usize = if cfg!(target_os = "none") { isize::MAX as usize } else { 12 };

/// Panels of values that are copied: all of them, or only the last one if it is not whole.
pub(crate) const fn packed_values(n_q: usize, d_v: usize) -> usize {
    if NARROW {
        0
    } else if n_q >= PACK_FROM {
        d_v.div_ceil(LANES)
    } else {
        (!d_v.is_multiple_of(LANES)) as usize
    }
}

/// The largest score that a row's weights refer to stays until a weight would be more than 2 to this power: so the sums
/// are hardly ever multiplied. Values from 2¹²⁴ on may overflow for it where weights up to 1 would just do.
const SLACK: f32 = 4.0;

pub(crate) struct Fused<'a> {
    pub(crate) scores: Scores<'a>,
    pub(crate) values: Values<'a>,
    pub(crate) out: MatMut<'a>,
    pub(crate) softmax: Softmax<'a>,
    /// Whether these are all keys, so that the output can be divided by the sums of weights.
    pub(crate) whole: bool,
}

/// What the weights are made by, and what has come of it so far.
#[derive(Debug)]
pub(crate) struct Softmax<'a> {
    pub(crate) temperature: Temperature,
    /// What score differences are multiplied by before e is raised to them.
    pub(crate) factor: f32,
    /// [`Temperature::prepare`], if it does anything.
    pub(crate) prepare: Option<fn(Temperature, &mut [f32])>,
    /// Each query's reference: its largest score so far, or up to [`SLACK`] below.
    pub(crate) max: &'a mut [f32],
    /// Each query's sum of weights so far.
    pub(crate) sum: &'a mut [f32],
}

impl<'a> Softmax<'a> {
    /// Of results that are divided already: their log-sum-exp is the reference, and the sum of weights 1.
    pub(crate) fn of_finished(max: &'a mut [f32], sum: &'a mut [f32]) -> Self {
        Self { temperature: Temperature::ONE, factor: 1.0, prepare: None, max, sum }
    }

    /// Of each query, once all keys have been seen.
    pub(crate) fn log_sum_exp(&self, out: &mut [f32]) {
        for ((out, max), sum) in out.iter_mut().zip(self.max.iter()).zip(self.sum.iter()) {
            *out = log_sum_exp(*max, *sum, self.factor, self.temperature);
        }
    }
}

/// The values.
pub(crate) struct Values<'a> {
    pub(crate) v: Mat<'a>,
    /// Of the present tile: all columns, or the last ones if they are no whole panel.
    pub(crate) packed: &'a mut [Panel],
    /// The present tile.
    pub(crate) keys: Range<usize>,
    /// Whether the values of the tile are finite, once it has been asked.
    pub(crate) finite: Option<bool>,
}

pub(crate) struct Online<'o, 'a> {
    values: &'o mut Values<'a>,
    out: &'o mut MatMut<'a>,
    softmax: &'o mut Softmax<'a>,
}

/// By reference: moving it would be a call of memcpy.
impl Kernel for &mut Fused<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        self.softmax.max.fill(f32::NEG_INFINITY);
        self.softmax.sum.fill(-0.0); // what adding does not change; and no call of memset is made of it
        let Fused { scores, values, out, softmax, whole } = self;
        scores.run(simd, &mut Online { values, out, softmax });
        if *whole {
            for (i, sum) in softmax.sum.iter().enumerate() {
                divide(simd, out.row_mut(i), *sum);
            }
        }
    }
}

impl Sink for Online<'_, '_> {
    #[inline(always)]
    fn begin<S: Simd>(&mut self, simd: S, keys: Range<usize>) {
        self.values.begin(simd, keys);
    }

    #[inline(always)]
    fn take<S: Simd>(&mut self, simd: S, bounds: &Bounds<'_>, block: Block<'_>) {
        let Block { groups, row: start, mut scores, .. } = block;
        simd.call(Weigh {
            groups,
            start,
            scores: &mut scores,
            softmax: self.softmax,
            out: self.out,
        });
        let weights = |group: &Group, count: usize| {
            scores.view().rows_from(group.row - start, group.rows * count)
        };
        match groups {
            _ if S::NARROW => {
                for group in groups.iter().filter(|group| group.first < group.end) {
                    self.add(simd, weights(group, 1), group, bounds, 0, 1);
                }
            }
            [widest, ..] => {
                let at_once = panels_at_once::<S>(widest.rows);
                let all = self.values.v.cols().div_ceil(LANES);
                let in_place = self.values.in_place();
                let mut panel = 0;
                while panel < all {
                    let end = if panel < in_place { in_place } else { all };
                    let panels = at_once.min(end - panel);
                    for_runs!(
                        groups,
                        |group| (group.first, group.end, group.hides, group.begins),
                        |first, count| {
                            // Not for those that see nothing here.
                            if first.first < first.end {
                                let weights = weights(first, count);
                                self.add(simd, weights, first, bounds, panel * LANES, panels);
                            }
                        }
                    );
                    panel += panels;
                }
            }
            [] => {}
        }
    }
}

/// The scores of a block become weights; where one rose above the reference of its row, the sums so far are brought to the
/// new one.
struct Weigh<'w, 's, 'a> {
    groups: &'w [Group],
    start: usize,
    scores: &'w mut MatMut<'s>,
    softmax: &'w mut Softmax<'a>,
    out: &'w mut MatMut<'a>,
}

impl Kernel for Weigh<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { groups, start, scores, softmax, out } = self;
        let Softmax { temperature, factor, prepare, max, sum } = softmax;
        let factor = *factor * core::f32::consts::LOG2_E;
        let slack = if temperature.is_zero() { 0.0 } else { SLACK };
        for group in groups {
            for row in group.row..group.row + group.rows {
                let scores = scores.row_mut(row - start).get_mut(group.lanes()).unwrap_or_default();
                let (Some(reference), Some(sum)) = (max.get_mut(row), sum.get_mut(row)) else {
                    return;
                };
                if !S::NARROW {
                    temperature.prepare(scores);
                } else if let Some(prepare) = prepare {
                    prepare(*temperature, scores);
                }
                let scores = scores.as_chunks_mut().0;
                let max = simd.max_of(scores);
                if (max - *reference) * factor > slack {
                    if *sum != 0.0 {
                        let rescale = weight_by_2(simd, *reference, max, factor, *temperature);
                        *sum *= rescale;
                        scale_row(simd, out.row_mut(row), rescale);
                    }
                    *reference = max;
                }
                *sum += weigh_by_2(simd, scores, *reference, factor, *temperature);
            }
        }
    }
}

impl Online<'_, '_> {
    /// out += weights · v, for the rows of `weights`, the first of which is the group's, in tiles of the group's rows, and
    /// `panels` times 16 columns from `col` on (by a narrow tier, all columns).
    #[inline(always)]
    fn add<S: Simd>(
        &mut self,
        simd: S,
        weights: Mat<'_>,
        group: &Group,
        bounds: &Bounds<'_>,
        col: usize,
        panels: usize,
    ) {
        let keys = group.end - group.first;
        let weights = weights.block(0, weights.rows(), group.first, keys);
        let is_plain = if S::NARROW {
            !group.hides || !bounds.add_seen(self, weights, group)
        } else {
            !group.hides || self.values.is_finite(simd)
        };
        if is_plain {
            let mut out = self.out.rows_from(group.row);
            let values = self.values.panels(col, group.first, keys);
            let begins = group.begins;
            multiply_or_add(simd, weights, values, &mut out, col, group.rows, panels, begins);
            return;
        }
        if !S::NARROW {
            for col in (col..).step_by(LANES).take(panels) {
                self.add_seen(simd, weights, group, bounds, col);
            }
        }
    }

    /// As [`add_seen`](Self::add_seen), for all columns, where the values are not all finite: whether they are not.
    pub(crate) fn add_seen_unless_finite(
        &mut self,
        weights: Mat<'_>,
        group: &Group,
        bounds: &Bounds<'_>,
    ) -> bool {
        struct OneByOne<'w, 'o, 'a>(&'w mut Online<'o, 'a>, Mat<'w>, &'w Group, &'w Bounds<'w>);
        impl Kernel for OneByOne<'_, '_, '_> {
            type Output = bool;

            #[inline(always)]
            fn run<S: Simd>(self, simd: S) -> bool {
                let Self(online, weights, group, bounds) = self;
                let finite = online.values.is_finite(simd);
                if !finite {
                    online.add_seen_one_by_one(simd, weights, group, bounds);
                }
                !finite
            }
        }
        dispatch(OneByOne(self, weights, group, bounds))
    }

    /// In little code: no number is beside others here.
    #[inline(always)]
    fn add_seen_one_by_one<S: Simd>(
        &mut self,
        simd: S,
        weights: Mat<'_>,
        group: &Group,
        bounds: &Bounds<'_>,
    ) {
        for r in 0..weights.rows() {
            for (col, out) in self.out.row_mut(group.row + r).iter_mut().enumerate() {
                let mut sum = 0.0;
                for (key, weight) in (self.values.keys.start + group.first..).zip(weights.row(r)) {
                    if bounds.sees(group.row + r, key) {
                        let value = self.values.v.row(key).get(col).copied().unwrap_or_default();
                        sum = simd.mul_add_one(*weight, value, sum);
                    }
                }
                *out = if group.begins { sum } else { *out + sum };
            }
        }
    }

    /// As [`add`](Self::add), key by key, without the hidden ones: 0 · NaN is NaN, so a hidden value must not take part at all.
    #[inline(always)]
    fn add_seen<S: Simd>(
        &mut self,
        simd: S,
        weights: Mat<'_>,
        group: &Group,
        bounds: &Bounds<'_>,
        col: usize,
    ) {
        let mut out = self.out.rows_from(group.row);
        for r in 0..weights.rows() {
            let mut sums = [[0.0; LANES]];
            let mut sums = MatMut::from(&mut sums);
            for t in (0..weights.cols())
                .filter(|t| bounds.sees(group.row + r, self.values.keys.start + group.first + t))
            {
                let value = self.values.panels(col, group.first + t, 1);
                let weight = weights.block(r, 1, t, 1);
                multiply::<S, Continue>(simd, weight, value, &mut sums, 0, 1, 1);
            }
            let out = out.row_mut(r).get_mut(col..).unwrap_or_default();
            for (out, sum) in out.iter_mut().zip(sums.row_mut(0)) {
                *out = if group.begins { *sum } else { *out + *sum };
            }
        }
    }
}

impl<'a> Values<'a> {
    /// With memory for [`packed_values`] panels of a tile. Values that fit in the nearest cache as they lie are not copied.
    #[inline(always)]
    pub(crate) fn new(v: Mat<'a>, memory: &'a mut [Panel]) -> Self {
        const IN_CACHE: usize = 16 * 1024 / size_of::<f32>();
        let mut values = Self { v, packed: memory, keys: 0..0, finite: None };
        let depth = values.depth();
        if !NARROW && depth.saturating_mul(v.stride()) <= IN_CACHE {
            let partial = (!v.cols().is_multiple_of(LANES)) as usize * depth;
            values.packed =
                core::mem::take(&mut values.packed).get_mut(..partial).unwrap_or_default();
        }
        values
    }
}

impl Values<'_> {
    #[inline(always)]
    fn begin<S: Simd>(&mut self, simd: S, keys: Range<usize>) {
        if !S::NARROW && !self.packed.is_empty() {
            let v = self.v.rows_from(keys.start, keys.len());
            let (in_place, depth) = (self.in_place(), self.depth());
            pack_columns(simd, v, in_place * LANES, self.packed, depth);
        }
        self.keys = keys;
        self.finite = None;
    }

    /// Rows of a packed panel.
    #[inline(always)]
    fn depth(&self) -> usize {
        TILE.min(self.v.rows()).max(1)
    }

    /// The panels that are read where they lie.
    #[inline(always)]
    fn in_place(&self) -> usize {
        self.v.cols().div_ceil(LANES) - self.packed.len() / self.depth()
    }

    /// Of the panels that column `col` begins: `keys` rows from key `first` of the tile on.
    #[inline(always)]
    fn panels(&self, col: usize, first: usize, keys: usize) -> Panels<'_> {
        let (in_place, depth) =
            if NARROW { (usize::MAX, 0) } else { (self.in_place(), self.depth()) };
        if col / LANES < in_place {
            Panels::in_place(self.v.block(self.keys.start + first, keys, col, self.v.cols()))
        } else {
            Panels::packed(self.packed, depth).from(col / LANES - in_place).rows(first, keys)
        }
    }

    /// Whether all values of the tile are finite.
    #[inline(always)]
    fn is_finite<S: Simd>(&mut self, simd: S) -> bool {
        if let Some(known) = self.finite {
            return known;
        }
        if S::NARROW {
            let finite = self.keys.clone().all(|i| self.v.row(i).iter().all(|x| x.is_finite()));
            self.finite = Some(finite);
            return finite;
        }
        let mut sum = simd.splat(0.0);
        for i in self.keys.clone() {
            for chunk in self.v.row(i).chunks(LANES) {
                // 0 · x is 0 for finite x, and NaN else.
                sum = simd.mul_add(simd.load_or(chunk, 0.0), simd.splat(0.0), sum);
            }
        }
        let finite = simd.reduce_add(sum) == 0.0;
        self.finite = Some(finite);
        finite
    }
}
