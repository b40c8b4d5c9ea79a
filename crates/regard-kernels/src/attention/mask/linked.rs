//! The parts of an attention that a program links only if it uses them.
//!
//! On a microcontroller flash is scarce: an attention without a mask takes 4,612 bytes on a Cortex-M4F, a causal one 4,832,
//! one with a boolean or an additive mask 6.7 KiB. An attention is described at run time, so no type says which parts it
//! needs. Instead, the description carries a pointer to the code of its parts: [`Mask::causal`](crate::Mask::causal)
//! stores one to [`CAUSAL`], a window one to [`POSITIONS`], a tensor one to [`TENSORS`], and
//! [`Mask::NONE`](crate::Mask::NONE) stores none. The linker drops the functions that no pointer reaches. This file holds
//! all of these pointers, and nothing outside of it calls through one.
//!
//! Where the CPU has vectors ([`links_parts`](crate::arch::Target::links_parts) is false), flash is plentiful and calls take
//! long. There the pointers are ignored, and the functions that they point to are inlined.
//!
//! Run-time checks in place of the pointers take more flash, because the compiler does not find every check to be constant. A
//! type parameter would become part of the type `Attention`, and an attention could not be described step by step at run time.
//! If a check inside the call chose the type, both instances would be linked wherever the description is not a constant.

use core::ops::Range;

use super::visible::{MaskParts, SeenSum, Visible};
use crate::Mat;
use crate::arch::{Kernel, Simd, TARGET, all_finite, dispatch};
use crate::error::Error;
use crate::invariant::Promised as _;

/// A function that changes a row of scores.
pub(crate) trait RowStep: Copy {
    fn apply<S: Simd>(self, simd: S, scores: &mut [f32]);
}

/// A step with a pointer to its code. A program that never makes one does not link the code.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linked<T> {
    pub(crate) step: T,
    code: fn(T, &mut [f32]),
}

impl<T: RowStep> Linked<T> {
    #[inline]
    pub(crate) const fn new(step: T) -> Self {
        struct Apply<'s, T>(T, &'s mut [f32]);
        impl<T: RowStep> Kernel for Apply<'_, T> {
            type Output = ();

            #[inline(always)]
            fn run<S: Simd>(self, simd: S) {
                self.0.apply(simd, self.1);
            }
        }
        Self { step, code: |step, scores| dispatch(Apply(step, scores)) }
    }

    #[inline(always)]
    pub(crate) fn apply<S: Simd>(self, simd: S, scores: &mut [f32]) {
        if TARGET.links_parts {
            (self.code)(self.step, scores);
        } else {
            self.step.apply(simd, scores);
        }
    }
}

/// The functions that begin a call, for masks with certain kinds of parts. [`Mask::NONE`](crate::Mask::NONE) needs none of
/// them.
#[derive(Debug)]
pub(crate) struct MaskCode {
    check: fn(&MaskParts<'_>, usize, usize) -> Result<(), Error>,
    visible: for<'a> fn(&MaskParts<'a>, usize, usize) -> Visible<'a>,
    /// Code of a higher rank also handles the parts of a lower rank.
    rank: u8,
}

/// The functions that are called for each row.
#[derive(Debug)]
pub(crate) struct RowCode {
    range: fn(&Visible<'_>, usize) -> Range<usize>,
    is_finite: fn(&Mat<'_>, Range<usize>) -> bool,
    /// Adds biases, and hides the keys that tensors hide or that come before the range.
    apply: fn(&Visible<'_>, usize, usize, &mut [f32]),
    add_seen: fn(&Visible<'_>, SeenSum<'_, '_>),
}

/// A causal mask without other parts.
pub(crate) static CAUSAL: MaskCode = MaskCode { check: |_, _, _| Ok(()), visible: causal, rank: 0 };

/// This is inlined where the compiler knows the mask.
#[inline(always)]
fn causal<'a>(parts: &MaskParts<'a>, n_q: usize, n_k: usize) -> Visible<'a> {
    let mut visible = Visible::unbounded(n_k);
    if let Some(position) = parts.causal {
        visible.hide_after(position, n_q);
    }
    visible.link = Some(&CAUSAL_ROWS);
    visible
}

static CAUSAL_ROWS: RowCode = RowCode {
    range: |visible, i| visible.causal_range(i),
    is_finite,
    apply: |_, _, _, _| {},
    add_seen: |_, _| {},
};

/// Causal masks, windows, key lengths and ranges of keys.
pub(crate) static POSITIONS: MaskCode = MaskCode {
    check: |parts, n_q, n_k| positions(parts).check(n_q, n_k),
    visible: |parts, n_q, n_k| {
        let mut visible = Visible::by_parts(&positions(parts), n_q, n_k);
        visible.link = Some(&POSITION_ROWS);
        visible
    },
    rank: 1,
};

static POSITION_ROWS: RowCode = RowCode {
    range: |visible, i| visible.range_by_parts(i),
    is_finite,
    apply: |visible, i, key, scores| hide_before(&visible.range_by_parts(i), key, scores),
    add_seen: |_, _| {},
};

/// All masks: those by position, boolean and additive ones, and ALiBi.
pub(crate) static TENSORS: MaskCode = MaskCode {
    check: |parts, n_q, n_k| parts.check(n_q, n_k),
    visible: |parts, n_q, n_k| Visible::masked(parts, n_q, n_k),
    rank: 2,
};

static TENSOR_ROWS: RowCode = RowCode {
    range: |visible, i| visible.range_by_parts(i),
    is_finite,
    apply: |visible, i, key, scores| {
        visible.apply_tensors(i, key, scores);
        hide_before(&visible.range_by_parts(i), key, scores);
    },
    add_seen: |visible, sum| dispatch(AddSeen(visible, sum)),
};

/// Sets the scores of the keys before `range` to −∞. `scores` are those of the keys from `key` on.
#[inline(always)]
fn hide_before(range: &Range<usize>, key: usize, scores: &mut [f32]) {
    let count = range.start.saturating_sub(key).min(scores.len());
    scores.get_mut(..count).promised().fill(f32::NEG_INFINITY);
}

/// Whether all numbers of the `rows` of a matrix are finite, computed in little code.
fn is_finite(m: &Mat<'_>, rows: Range<usize>) -> bool {
    let (cols, stride) = (m.cols(), m.stride());
    // Rows without gaps between them count as one row.
    let (count, len) = if cols == stride { (1, rows.len() * cols) } else { (rows.len(), cols) };
    (0..count).all(|i| {
        let start = (rows.start + i) * stride;
        all_finite(m.data().get(start..start + len).promised())
    })
}

struct AddSeen<'b, 's, 'o>(&'b Visible<'b>, SeenSum<'s, 'o>);

impl Kernel for AddSeen<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        self.1.run(simd, self.0);
    }
}

/// The parts of a mask that hide keys by their position.
#[inline(always)]
fn positions<'a>(parts: &MaskParts<'a>) -> MaskParts<'a> {
    MaskParts { allowed: None, bias: None, alibi: None, ..*parts }
}

/// The code for a mask with parts of two kinds.
pub(crate) const fn join(link: MaskLink, code: &'static MaskCode) -> &'static MaskCode {
    match link {
        Some(link) if link.rank > code.rank => link,
        _ => code,
    }
}

/// Calls `$function`: directly, or through the field `$field` of the code of a mask if there is one,
/// or evaluates `$none` if there is none.
macro_rules! call {
    ($code:expr, $field:ident, $function:path, ($($argument:expr),*), none: $none:expr) => {
        if !TARGET.links_parts {
            $function($($argument),*)
        } else if let Some(code) = $code {
            (code.$field)($($argument),*)
        } else {
            $none
        }
    };
}

/// The code of a mask, or `None` for a mask without parts.
pub(crate) type MaskLink = Option<&'static MaskCode>;

/// [`MaskParts::check`].
pub(super) fn check_parts(
    parts: &MaskParts<'_>,
    link: MaskLink,
    n_q: usize,
    n_k: usize,
) -> Result<(), Error> {
    call!(link, check, MaskParts::check, (parts, n_q, n_k), none: Ok(()))
}

impl<'a> Visible<'a> {
    #[inline]
    pub(crate) fn new(parts: &MaskParts<'a>, link: MaskLink, n_q: usize, n_k: usize) -> Self {
        call!(link, visible, Self::masked, (parts, n_q, n_k),
            none: Self::unbounded(n_k))
    }

    fn masked(parts: &MaskParts<'a>, n_q: usize, n_k: usize) -> Self {
        let mut visible = Self::by_parts(parts, n_q, n_k);
        visible.link = Some(&TENSOR_ROWS);
        visible
    }

    /// The same mask for the keys of a chunk. The chunk begins with a tile, so a causal mask hides no key before the chunk's
    /// first one.
    pub(crate) fn of_chunk(mut self, chunk: Range<usize>) -> Self {
        let (start, end) = self.keys;
        self.keys = (start.max(chunk.start).min(chunk.end), end.min(chunk.end));
        self.link = self.link.or(Some(&POSITION_ROWS));
        self
    }

    /// The keys that query `i` may see by its position alone. Neither end of the range falls as `i` grows.
    #[inline]
    pub(crate) fn range(&self, i: usize) -> Range<usize> {
        call!(self.link, range, Self::range_by_parts, (self, i), none: 0..self.end())
    }

    /// The keys that at least one of `rows` queries from `i` on may see by its position, and the keys that all of them may see.
    #[inline]
    pub(crate) fn range_of_rows(&self, i: usize, rows: usize) -> (Range<usize>, Range<usize>) {
        let (first, last) = (self.range(i), self.range(i + rows.saturating_sub(1)));
        (first.start..last.end.max(first.start), last.start..first.end)
    }

    /// Whether one of `keys` may be hidden from queries that all see `seen` by their positions. `false` is certain, `true` is
    /// not.
    #[inline]
    pub(crate) const fn may_hide(&self, seen: &Range<usize>, keys: &Range<usize>) -> bool {
        self.has_tensors() || seen.start > keys.start || seen.end < keys.end
    }

    /// Adds the biases to the scores of query `i` for the keys from `key` on, and sets those of hidden
    /// keys to −∞.
    #[inline(always)]
    pub(crate) fn apply<S: Simd>(&self, simd: S, i: usize, key: usize, scores: &mut [f32]) {
        if !TARGET.links_parts {
            self.apply_with(simd, i, key, scores);
            return;
        }
        if let Some(code) = self.link {
            (code.apply)(self, i, key, scores);
        }
        let seen = self.range(i).end.saturating_sub(key);
        scores.get_mut(seen..).unwrap_or_default().fill(f32::NEG_INFINITY);
    }

    /// On narrow tiers: whether one of `rows` queries may not see a value that another sees, and one of these values is not
    /// finite.
    #[inline(always)]
    pub(crate) fn hides_value(&self, rows: usize, values: &Mat<'_>) -> bool {
        self.link.is_some_and(|code| {
            let (seen, by_all) = self.range_of_rows(0, rows);
            self.may_hide(&by_all, &seen) && !(code.is_finite)(values, seen)
        })
    }

    /// On narrow tiers, where a tensor hides keys: adds the sum over the keys that each query sees.
    #[inline(always)]
    pub(crate) fn add_seen(&self, sum: SeenSum<'_, '_>) {
        if let Some(code) = self.link {
            (code.add_seen)(self, sum);
        }
    }
}
