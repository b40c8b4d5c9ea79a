//! The second product of the attention, weights · V, for a block of queries and a tile of keys.
//!
//! ```text
//! begin(tile):
//!     pack the tile's values into panels of 256 keys × 16 columns           once for all queries
//! add(block):
//!     for each NR / 16 panels of V:                                         they stay in L1
//!         for each group of up to MR queries that sees a key of the tile:
//!             MR × NR sums ← Σₖ weights[group, k] · V[k, columns]           in registers, k ascending
//!             out[group, columns] += sums                                   or = in the first tile
//! ```
//!
//! In the terms of BLIS it has KC = NC = 256: the sum over the keys of a tile is one chain of multiply-adds
//! in registers, and `out` is read and written once a tile. An element of the output is thus a sum of
//! chains of 256 keys in ascending order, whatever the other queries are.
//!
//! V is packed only for [`packs_values_from`](crate::arch::Target::packs_values_from) or more queries, and only if it does not
//! fit in the cache. Otherwise its rows are read where they lie, apart from a last panel of less than 16 columns. One or two
//! queries use wider tiles, as the scores do.
//!
//! A hidden key's weight is +0, and adding 0 · v changes nothing, unless v is not finite. If a group is masked within a tile
//! and some value of the tile is not finite, the keys that a query sees are therefore added one by one. (On a narrow tier each
//! query is then a group of its own, and only the keys that a tensor hides are left out one by one.)

use core::ops::Range;
use core::ptr;

use super::mask::{SeenSum, Visible};
use super::scores::{Group, NC, for_runs};
use super::weights::Next;
use crate::arch::{
    Epilogue, Kernel, LANES, Panel, Panels, Simd, TARGET, gebp, pack_columns, panels_at_once,
};
use crate::invariant::Promised as _;
use crate::{Mat, MatMut};

/// The number of panels of values that are packed: all of them, or only the last one if it has less than 16 columns.
pub(super) const fn packed_values(n_q: usize, d_v: usize) -> usize {
    if !TARGET.packs {
        0
    } else if n_q >= TARGET.packs_values_from {
        d_v.div_ceil(LANES)
    } else {
        (!d_v.is_multiple_of(LANES)) as usize
    }
}

/// Adds the weighted values of a tile to the output of a block of queries.
pub(super) struct AddValues<'b, 'a> {
    /// \[queries of the block, keys of the tile in whole panels\].
    pub(super) weights: Mat<'b>,
    /// The block's first query.
    pub(super) row: usize,
    pub(super) visible: &'b Visible<'b>,
    /// On narrow tiers: whether a value is not finite that some query does not see. Each query is then a group of its own,
    /// whose keys are exactly those that it sees by its position.
    pub(super) row_by_row: bool,
    pub(super) values: &'b mut Values<'a>,
    pub(super) out: &'b mut MatMut<'a>,
}

impl<'a> AddValues<'_, 'a> {
    #[inline(always)]
    pub(super) fn run<S: Simd>(&mut self, simd: S, groups: &[Group]) {
        match groups {
            _ if S::NARROW => {
                for group in groups.iter().filter(|group| group.first < group.end) {
                    self.add(simd, 1, group, 0, 1);
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
                            // A group that sees no key of the tile adds nothing.
                            if first.first < first.end {
                                self.add(simd, count, first, panel * LANES, panels);
                            }
                        }
                    );
                    panel += panels;
                }
            }
            [] => {}
        }
    }

    /// out += weights · V for `count` groups, beginning with `group`, in tiles of the group's rows, and for the columns of
    /// `panels` panels from `col` on. (A narrow tier computes all columns at once.)
    #[inline(always)]
    fn add<S: Simd>(&mut self, simd: S, count: usize, group: &Group, col: usize, panels: usize) {
        let keys = group.end - group.first;
        let rows = group.rows * count;
        let weights = self.weights.rows_from(group.row - self.row, rows);
        let weights = weights.block(0, weights.rows(), group.first, keys);
        if group.hides {
            if S::NARROW {
                if self.row_by_row {
                    return self.visible.add_seen(self.seen_sum(weights, group));
                }
            } else if !self.values.is_finite(simd) {
                for col in (col..).step_by(LANES).take(panels) {
                    self.add_seen(simd, weights, group, col);
                }
                return;
            }
        }
        let mut out = self.out.rows_from(group.row);
        let values = self.values.panels::<S>(col, group.first, keys);
        let epilogue = if group.begins { Epilogue::Set } else { Epilogue::Add };
        gebp(simd, weights, values, &mut out, col, group.rows, panels, epilogue);
    }

    /// The sum of [`add`](Self::add) on a narrow tier, over the keys that each query sees.
    #[inline(always)]
    fn seen_sum<'s>(&'s mut self, weights: Mat<'s>, group: &Group) -> SeenSum<'s, 'a> {
        let Values { v, keys, .. } = &*self.values;
        SeenSum {
            weights,
            values: v.rows_from(keys.start, keys.len()),
            first: group.first,
            start: keys.start,
            row: group.row,
            begins: group.begins,
            out: self.out,
        }
    }

    /// As [`add`](Self::add), key by key, over the keys that each query sees. 0 · NaN is NaN, so a hidden value must take no
    /// part in the sum.
    #[inline(always)]
    fn add_seen<S: Simd>(&mut self, simd: S, weights: Mat<'_>, group: &Group, col: usize) {
        let mut out = self.out.rows_from(group.row);
        for r in 0..weights.rows() {
            let mut sums = [[0.0; LANES]];
            let mut sums = MatMut::from(&mut sums);
            for t in (0..weights.cols()).filter(|t| {
                self.visible.sees(group.row + r, self.values.keys.start + group.first + t)
            }) {
                let value = self.values.panels::<S>(col, group.first + t, 1);
                let weight = weights.block(r, 1, t, 1);
                gebp(simd, weight, value, &mut sums, 0, 1, 1, Epilogue::Continue);
            }
            let out = out.row_mut(r).get_mut(col..).promised();
            for (out, sum) in out.iter_mut().zip(sums.row_mut(0)) {
                *out = if group.begins { *sum } else { *out + *sum };
            }
        }
    }
}

/// The values, and the tile of them that is being added.
pub(super) struct Values<'a> {
    /// \[n_k, d_v\].
    pub(super) v: Mat<'a>,
    /// The packed panels of the tile: all of them, or only the last one if it has less than 16 columns.
    packed: &'a mut [Panel],
    /// The keys of the tile.
    keys: Range<usize>,
    /// Whether all values of the tile are finite; `None` until this is known.
    finite: Option<bool>,
    /// The address after the keys, where the next head often has its keys.
    next_keys: *const f32,
}

impl<'a> Values<'a> {
    /// Takes memory for [`packed_values`] panels of a tile. Values that fit in the first-level cache where they lie are not
    /// packed.
    #[inline(always)]
    pub(super) fn new(k: &Mat<'_>, v: Mat<'a>, memory: &'a mut [Panel]) -> Self {
        const IN_CACHE: usize = 32 * 1024 / size_of::<f32>();
        let next_keys = if TARGET.packs { k.data().as_ptr_range().end } else { ptr::null() };
        let mut values = Self { v, packed: memory, keys: 0..0, finite: None, next_keys };
        let depth = values.depth();
        if TARGET.packs && depth.saturating_mul(v.stride()) <= IN_CACHE {
            let partial = (!v.cols().is_multiple_of(LANES)) as usize * depth;
            values.packed = core::mem::take(&mut values.packed)
                .get_mut(..partial)
                .promised_unless(v.rows() == 0);
        }
        values
    }
}

impl Values<'_> {
    /// Begins a tile: packs its values.
    #[inline(always)]
    pub(super) fn begin<S: Simd>(&mut self, simd: S, keys: Range<usize>) {
        if !S::NARROW && !self.packed.is_empty() {
            let v = self.v.rows_from(keys.start, keys.len());
            let (in_place, depth) = (self.in_place(), self.depth());
            pack_columns(simd, v, in_place * LANES, self.packed, depth);
        }
        self.keys = keys;
        self.finite = None;
    }

    /// The memory that is read soon after the weights of these groups are computed: the values, if the groups are the first,
    /// and the next head's keys, if the groups are the last of `n_q` queries.
    #[inline(always)]
    pub(super) fn next(&self, groups: &[Group], n_q: usize) -> Next {
        match groups {
            [first, ..] if first.row == 0 => Next::new(self.v.data().as_ptr(), self.v.data().len()),
            [.., last] if last.row + last.rows == n_q => {
                Next::new(self.next_keys, self.v.data().len())
            }
            _ => Next::new(self.next_keys, 0),
        }
    }

    /// Rows of a packed panel.
    #[inline(always)]
    fn depth(&self) -> usize {
        NC.min(self.v.rows()).max(1)
    }

    /// The number of panels that are read where they lie.
    #[inline(always)]
    fn in_place(&self) -> usize {
        self.v.cols().div_ceil(LANES) - self.packed.len() / self.depth()
    }

    /// The panels from column `col` on, with `keys` rows from key `first` of the tile on.
    #[inline(always)]
    fn panels<S: Simd>(&self, col: usize, first: usize, keys: usize) -> Panels<'_> {
        let (in_place, depth) =
            if S::NARROW { (usize::MAX, 0) } else { (self.in_place(), self.depth()) };
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
        let finite = simd.call(AllFinite(self.v.rows_from(self.keys.start, self.keys.len())));
        self.finite = Some(finite);
        finite
    }
}

/// Whether all numbers of a matrix are finite.
struct AllFinite<'a>(Mat<'a>);

impl Kernel for AllFinite<'_> {
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> bool {
        // Four chains cover the latency of the multiply-add. 0 · x is 0 for a finite x, and NaN for any other.
        let zero = simd.splat(0.0);
        let mut sums = [zero; 4];
        for i in 0..self.0.rows() {
            let (blocks, rest) = self.0.row(i).as_chunks::<LANES>();
            let (fours, blocks) = blocks.as_chunks::<4>();
            for four in fours {
                for (sum, lanes) in sums.iter_mut().zip(four) {
                    *sum = simd.mul_add(simd.load(lanes), zero, *sum);
                }
            }
            for (sum, lanes) in sums.iter_mut().zip(blocks) {
                *sum = simd.mul_add(simd.load(lanes), zero, *sum);
            }
            if !rest.is_empty() {
                sums[3] = simd.mul_add(simd.load_or(rest, 0.0), zero, sums[3]);
            }
        }
        let [a, b, c, d] = sums;
        simd.reduce_add(simd.add(simd.add(a, b), simd.add(c, d))) == 0.0
    }
}
