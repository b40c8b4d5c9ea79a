//! The parts of an attention that a program links only if it uses them.
//!
//! On a microcontroller flash is scarce: an attention without a mask takes 4 KiB on a Cortex-M4F, one
//! with a mask 6.3 KiB. An attention is described at run time, so no type says which parts it needs.
//! Instead, the description carries a pointer to the code of each optional part:
//! [`Mask::causal`](crate::Mask::causal) stores one to [`MASK_CODE`], [`Mask::NONE`](crate::Mask::NONE)
//! stores none, and the linker drops the functions that no pointer reaches. This file holds all of
//! these pointers, and nothing outside of it calls through one.
//!
//! Where the CPU has vectors ([`NARROW`] is false), flash is plentiful and calls are dear: the
//! pointers are ignored, and the functions they point to are inlined.
//!
//! Without the pointers, with run-time checks instead, the same attention takes 5,872 bytes instead of
//! 4,060 (7,216 instead of 6,420 with a mask), because the compiler does not see in every place that a
//! check is constant. A type parameter in their place would have to be part of the type `Attention`,
//! which then could not be described step by step at run time; chosen by a check inside the call, it
//! links both instances wherever the description is not a constant.

use core::ops::Range;

use crate::bounds::{Bounds, MaskParts, SeenSum};
use crate::error::Error;
use crate::simd::{Kernel, NARROW, Simd, dispatch};

/// Something done to a row of scores.
pub(crate) trait RowStep: Copy {
    fn apply<S: Simd>(self, simd: S, scores: &mut [f32]);
}

/// A step with a pointer to its code: a program that never makes one does not link the code.
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
        if S::NARROW {
            (self.code)(self.step, scores);
        } else {
            self.step.apply(simd, scores);
        }
    }
}

/// The functions that every mask needs and [`Mask::NONE`](crate::Mask::NONE) does not.
#[derive(Debug)]
pub(crate) struct MaskCode {
    check: fn(&MaskParts<'_>, usize, usize) -> Result<(), Error>,
    visible: for<'a> fn(&MaskParts<'a>, usize, usize) -> Visible<'a>,
    range: fn(&Bounds<'_>, usize) -> Range<usize>,
    apply: fn(&Bounds<'_>, usize, usize, &mut [f32]),
    may_hide: fn(&Bounds<'_>, usize, usize, &Range<usize>) -> bool,
    add_seen: fn(&Bounds<'_>, &mut SeenSum<'_, '_>) -> bool,
}

pub(crate) static MASK_CODE: MaskCode = MaskCode {
    check: |parts, n_q, n_k| parts.check(n_q, n_k),
    visible: |parts, n_q, n_k| Visible::masked(parts, n_q, n_k),
    range: |bounds, i| bounds.range(i),
    apply: |bounds, i, key, scores| bounds.apply(i, key, scores),
    may_hide: |bounds, i, rows, keys| bounds.may_hide(i, rows, keys),
    add_seen: |bounds, sum| sum.run(bounds),
};

/// Calls `$function`: directly, or through the field `$field` of the code of a mask if there is one,
/// or evaluates `$none` if there is none.
macro_rules! call {
    ($code:expr, $field:ident, $function:path, ($($argument:expr),*), none: $none:expr) => {
        if !NARROW {
            $function($($argument),*)
        } else if let Some(code) = $code {
            (code.$field)($($argument),*)
        } else {
            $none
        }
    };
}

/// A pointer to [`MASK_CODE`], if a mask needs it.
pub(crate) type MaskLink = Option<&'static MaskCode>;

/// [`MaskParts::check`].
pub(crate) fn check(
    parts: &MaskParts<'_>,
    link: MaskLink,
    n_q: usize,
    n_k: usize,
) -> Result<(), Error> {
    call!(link, check, MaskParts::check, (parts, n_q, n_k), none: Ok(()))
}

/// [`Bounds`], whose functions are reached through a [`MaskLink`]: which keys each query may see.
#[derive(Clone, Copy)]
pub(crate) struct Visible<'a> {
    bounds: Bounds<'a>,
    link: MaskLink,
}

impl<'a> Visible<'a> {
    #[inline]
    pub(crate) fn new(parts: &MaskParts<'a>, link: MaskLink, n_q: usize, n_k: usize) -> Self {
        call!(link, visible, Self::masked, (parts, n_q, n_k),
            none: Self { bounds: Bounds::unbounded(n_k), link: None })
    }

    fn masked(parts: &MaskParts<'a>, n_q: usize, n_k: usize) -> Self {
        Self { bounds: Bounds::new(parts, n_q, n_k), link: Some(&MASK_CODE) }
    }

    /// The same for those of the keys that are in `keys`.
    pub(crate) fn within(mut self, keys: Range<usize>) -> Self {
        self.bounds = self.bounds.within(keys);
        self.link = Some(&MASK_CODE);
        self
    }

    /// The keys that query `i` may see by its position alone. Neither end falls as `i` grows.
    #[inline]
    pub(crate) fn range(&self, i: usize) -> Range<usize> {
        let Self { bounds, link } = self;
        call!(link, range, Bounds::range, (bounds, i), none: 0..bounds.end())
    }

    /// The keys that at least one of `rows` queries from `i` on may see by its position.
    #[inline]
    pub(crate) fn range_of_rows(&self, i: usize, rows: usize) -> Range<usize> {
        let start = self.range(i).start;
        start..self.range(i + rows.saturating_sub(1)).end.max(start)
    }

    /// Whether query `i` may see `key`.
    pub(crate) fn sees(&self, i: usize, key: usize) -> bool {
        self.bounds.sees(i, key)
    }

    /// Whether one of `keys` may be hidden from one of `rows` queries from `i` on: `false` is certain,
    /// `true` is not.
    pub(crate) fn may_hide(&self, i: usize, rows: usize, keys: &Range<usize>) -> bool {
        call!(self.link, may_hide, Bounds::may_hide, (&self.bounds, i, rows, keys), none: false)
    }

    /// Adds the biases to the scores of query `i` for the keys from `key` on, and sets those of hidden
    /// keys to −∞.
    #[inline(always)]
    pub(crate) fn apply<S: Simd>(&self, simd: S, i: usize, key: usize, scores: &mut [f32]) {
        let Self { bounds, link } = self;
        if !NARROW {
            bounds.apply_with(simd, i, key, scores);
        } else if let Some(code) = link {
            (code.apply)(bounds, i, key, scores);
        } else {
            let keys = bounds.end().saturating_sub(key);
            scores.get_mut(keys..).unwrap_or_default().fill(f32::NEG_INFINITY);
        }
    }

    /// Whether [`apply`](Self::apply) does more than to hide keys by position.
    pub(crate) fn changes_scores(&self) -> bool {
        self.link.is_some() && self.bounds.changes_scores()
    }

    /// Asks for the memory that [`apply`](Self::apply) reads.
    #[inline(always)]
    pub(crate) fn prefetch<S: Simd>(&self, simd: S, i: usize, key: usize, keys: usize) {
        self.bounds.prefetch(simd, i, key, keys);
    }

    /// Which keys the boolean mask shows to query `i`.
    pub(crate) fn allowed(&self, i: usize) -> Option<&'a [bool]> {
        self.bounds.allowed(i)
    }

    /// On narrow tiers: computes the sum unless the values are finite, and says whether it did.
    #[inline(always)]
    pub(crate) fn add_seen(&self, sum: &mut SeenSum<'_, '_>) -> bool {
        self.link.is_some_and(|code| (code.add_seen)(&self.bounds, sum))
    }
}
