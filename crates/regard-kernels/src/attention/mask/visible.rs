//! A mask for given numbers of queries and keys: the keys that each query may see, and the numbers that are added to their
//! scores.

use core::ops::Range;

use super::linked::RowCode;
use super::{Position, Window};
use crate::arch::{LANES, Lanes, Map, Simd, one_by_one, shared};
use crate::error::{Error, check_shape};
use crate::invariant::Promised as _;
use crate::{Mat, MatMut};

/// The parts of a [`Mask`](crate::Mask), each of which may be missing.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MaskParts<'a> {
    pub(crate) causal: Option<Position>,
    pub(crate) window: Option<(Position, Window)>,
    pub(crate) key_len: Option<usize>,
    /// The first of the visible keys and their end.
    pub(crate) keys: Option<(usize, usize)>,
    pub(crate) allowed: Option<Mat<'a, bool>>,
    pub(crate) bias: Option<Mat<'a>>,
    /// ALiBi's positions and slope.
    pub(crate) alibi: Option<(Position, f32)>,
}

impl MaskParts<'_> {
    /// No part.
    pub(crate) const NONE: Self = Self {
        causal: None,
        window: None,
        key_len: None,
        keys: None,
        allowed: None,
        bias: None,
        alibi: None,
    };

    /// Whether the parts fit `n_q` queries and `n_k` keys.
    pub(crate) fn check(&self, n_q: usize, n_k: usize) -> Result<(), Error> {
        const WHY: &str = "queries × keys";
        if let Some(m) = self.allowed {
            check_shape("the boolean mask", m.shape(), (n_q, n_k), WHY)?;
        }
        if let Some(m) = self.bias {
            check_shape("the additive mask", m.shape(), (n_q, n_k), WHY)?;
        }
        if let Some((_, slope)) = self.alibi
            && !slope.is_finite()
        {
            return Err(Error::Range { name: "the slope of ALiBi", value: slope, range: "finite" });
        }
        match self.key_len {
            Some(len) if len > n_k => {
                Err(Error::Length { tensor: "key", found: n_k, expected: len })
            }
            _ => Ok(()),
        }
    }
}

/// A mask whose positions are resolved for given numbers of queries and keys: it tells which keys each query may see. The
/// methods that a program links only where it uses them are in [`linked`](super::linked).
#[derive(Clone, Copy)]
pub(crate) struct Visible<'a> {
    /// Query i sees no key before `first + i`: [`isize::MIN`] hides none.
    first: isize,
    /// Query i sees no key from `end + i` on: [`isize::MAX`] hides none.
    end: isize,
    /// No query sees a key outside of these.
    pub(super) keys: (usize, usize),
    /// Whether a boolean or an additive mask may hide a key.
    tensors: bool,
    allowed: Option<Mat<'a, bool>>,
    bias: Option<Mat<'a>>,
    /// The position of query 0, and the factor for the distance of a key.
    alibi: Option<(isize, f32)>,
    /// The code of its parts.
    pub(crate) link: Option<&'static RowCode>,
}

impl<'a> Visible<'a> {
    /// Every query sees each of `n_k` keys.
    #[inline]
    pub(crate) const fn unbounded(n_k: usize) -> Self {
        Self {
            first: isize::MIN,
            end: isize::MAX,
            keys: (0, n_k),
            tensors: false,
            allowed: None,
            bias: None,
            alibi: None,
            link: None,
        }
    }

    /// Hides from each of `n_q` queries the keys after its position. `position` is that of the first query.
    #[inline(always)]
    pub(crate) fn hide_after(&mut self, position: Position, n_q: usize) {
        self.end = position.of_first_query(n_q, self.end()).saturating_add(1);
    }

    /// The mask's parts for `n_q` queries and `n_k` keys. A part that the compiler knows to be missing takes no code.
    #[inline(always)]
    pub(crate) fn by_parts(mask: &MaskParts<'a>, n_q: usize, n_k: usize) -> Self {
        let key_len = mask.key_len.unwrap_or(n_k).min(n_k);
        let at = |position: Position| position.of_first_query(n_q, key_len);
        let (mut first, mut end) = (isize::MIN, isize::MAX);
        if let Some(position) = mask.causal {
            end = at(position).saturating_add(1);
        }
        if let Some((position, window)) = mask.window {
            let at = at(position);
            if let Some(left) = window.left {
                first = at.saturating_sub_unsigned(left);
            }
            if let Some(right) = window.right {
                end = end.min(at.saturating_add_unsigned(right).saturating_add(1));
            }
        }
        let (from, to) = mask.keys.unwrap_or((0, key_len));
        let keys = (from.min(key_len), to.min(key_len));
        let alibi = mask.alibi.map(|(position, slope)| (at(position), slope));
        let tensors = mask.allowed.is_some() || mask.bias.is_some();
        Self {
            first,
            end,
            keys,
            tensors,
            allowed: mask.allowed,
            bias: mask.bias,
            alibi,
            link: None,
        }
    }

    /// Whether a boolean or an additive mask may hide a key.
    #[inline]
    pub(crate) const fn has_tensors(&self) -> bool {
        self.tensors
    }

    /// The end of the keys that some query sees.
    #[inline]
    pub(crate) const fn end(&self) -> usize {
        self.keys.1
    }

    /// Whether the mask hides single keys or adds biases.
    #[inline]
    pub(crate) const fn changes_scores(&self) -> bool {
        self.link.is_some()
            && (self.allowed.is_some() || self.bias.is_some() || self.alibi.is_some())
    }

    shared! { inline,
    /// The keys that query `i` may see by its position alone. Neither end falls as `i` grows.
    pub(crate) fn range_by_parts(&self, i: usize) -> Range<usize> {
        let start = self.clamped(self.first, i);
        start..self.clamped(self.end, i).max(start)
    }
    }

    /// [`range_by_parts`](Self::range_by_parts) of a causal mask alone.
    pub(crate) fn causal_range(&self, i: usize) -> Range<usize> {
        self.keys.0..self.clamped(self.end, i)
    }

    /// The key `bound + i`, kept within the range of keys that some query may see.
    #[inline(always)]
    fn clamped(&self, bound: isize, i: usize) -> usize {
        let (from, to) = self.keys;
        (bound.saturating_add_unsigned(i).max(0) as usize).max(from).min(to)
    }

    /// The row of the boolean mask for query `i`.
    pub(crate) fn allowed(&self, i: usize) -> Option<&'a [bool]> {
        self.allowed.as_ref().map(|m| m.row(i))
    }

    pub(crate) fn sees(&self, i: usize, key: usize) -> bool {
        self.range_by_parts(i).contains(&key)
            && self.allowed.is_none_or(|m| m.row(i).get(key).copied().unwrap_or(true))
            && self.bias.is_none_or(|m| m.row(i).get(key).copied() != Some(f32::NEG_INFINITY))
    }

    /// Prefetches the memory that [`apply`](Self::apply) reads. The rows of a mask may be a page apart, which no hardware
    /// prefetcher follows.
    #[inline(always)]
    pub(crate) fn prefetch<S: Simd>(&self, simd: S, i: usize, key: usize, keys: usize) {
        if let Some(row) = self.allowed.and_then(|m| m.row(i).get(key..key + keys)) {
            for line in row.as_chunks::<64>().0 {
                simd.prefetch(line.as_ptr().cast());
            }
        }
        if let Some(row) = self.bias.and_then(|m| m.row(i).get(key..key + keys)) {
            for line in row.as_chunks::<16>().0 {
                simd.prefetch(line.as_ptr());
            }
        }
    }

    /// Adds the biases to the scores of query `i` for the keys from `key` on, and sets those of hidden keys to −∞, with
    /// vectors. The number of hidden keys differs from row to row, so the processor would not predict the end of a loop over
    /// them.
    #[inline(always)]
    pub(crate) fn apply_with<S: Simd>(&self, simd: S, i: usize, key: usize, scores: &mut [f32]) {
        self.apply_tensors(i, key, scores);
        let seen = self.range_by_parts(i);
        let count = |bound: usize| bound.saturating_sub(key).min(scores.len());
        let (start, end) = (count(seen.start), count(seen.end));
        let hidden = simd.splat(f32::NEG_INFINITY);
        let (before, rest) = scores.split_at_mut(start);
        let after = rest.get_mut(end - start..).promised();
        for lanes in before.chunks_mut(LANES).chain(after.chunks_mut(LANES)) {
            simd.store_first(hidden, lanes);
        }
    }

    shared! { inline(always),
    /// Adds the biases, and hides the keys that the tensors hide.
    pub(crate) fn apply_tensors(&self, i: usize, key: usize, scores: &mut [f32]) {
        if let Some(bias) = self.bias {
            for (score, bias) in scores.iter_mut().zip(bias.row(i).get(key..).promised()) {
                // −∞ replaces the score instead of being added, because it also hides NaN.
                one_by_one(score);
                *score =
                    if *bias == f32::NEG_INFINITY { f32::NEG_INFINITY } else { *score + *bias };
            }
        }
        if let Some((at, slope)) = self.alibi {
            // Distances below 2²⁴ are exact.
            let distance = at.saturating_add_unsigned(i).saturating_sub_unsigned(key) as f32;
            for (j, score) in (0_u16..).zip(scores.iter_mut()) {
                one_by_one(score);
                *score -= slope * (distance - f32::from(j)).abs();
            }
        }
        if let Some(allowed) = self.allowed {
            for (score, allowed) in
                scores.iter_mut().zip(allowed.row(i).get(key..).promised())
            {
                // Every lane changes, because 0 is added to it. Otherwise the compiler makes masked stores of this loop, which
                // are slow.
                one_by_one(score);
                *score = if *allowed { *score + 0.0 } else { f32::NEG_INFINITY };
            }
        }
    }
    }
}

/// `out` += weights · values for a group of queries, over the keys that each of them sees, on narrow tiers. The weight of a
/// hidden key is 0, but 0 · NaN is NaN. Where a tensor hides keys and a value is not finite, the sum therefore leaves out each
/// hidden key.
pub(crate) struct SeenSum<'s, 'o> {
    /// \[queries of the group, keys\].
    pub(crate) weights: Mat<'s>,
    /// The rows of V of the tile. The weights are those of its keys from `first` on.
    pub(crate) values: Mat<'s>,
    pub(crate) first: usize,
    /// The tile's first key, and the group's first query.
    pub(crate) start: usize,
    pub(crate) row: usize,
    /// Whether the sums replace what is in `out`.
    pub(crate) begins: bool,
    pub(crate) out: &'s mut MatMut<'o>,
}

impl SeenSum<'_, '_> {
    /// Computes one element of `out` at a time, in little code. It adds in the order of a tile.
    #[inline(always)]
    pub(crate) fn run<S: Simd>(&mut self, simd: S, visible: &Visible<'_>) {
        for r in 0..self.weights.rows() {
            let row = self.row + r;
            for (col, out) in self.out.row_mut(row).iter_mut().enumerate() {
                let mut sum = [0.0];
                for (key, weight) in (self.first..).zip(self.weights.row(r)) {
                    if visible.sees(row, self.start + key) {
                        let value = self.values.row(key).get(col).copied().promised();
                        simd.map(&mut sum, &AddProduct(*weight, value));
                    }
                }
                let [sum] = sum;
                *out = if self.begins { sum } else { *out + sum };
            }
        }
    }
}

/// x + a·b.
struct AddProduct(f32, f32);

impl Map for AddProduct {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, x: L::V) -> L::V {
        lanes.mul_add(lanes.splat(self.0), lanes.splat(self.1), x)
    }
}
