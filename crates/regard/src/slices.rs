//! Parts of slices whose bounds follow from shapes that have been checked.
//!
//! A range outside the slice is a bug in this crate, so debug builds panic. Release builds return an empty slice, which the
//! views and loops of the callers reject or skip.

use core::ops::Range;

/// `x[range]`.
#[track_caller]
pub(crate) fn part<T>(x: &[T], range: Range<usize>) -> &[T] {
    debug_assert!(range.start <= range.end && range.end <= x.len(), "{range:?} of {}", x.len());
    x.get(range).unwrap_or_default()
}

/// `x[range]`, mutable.
#[track_caller]
pub(crate) fn part_mut<T>(x: &mut [T], range: Range<usize>) -> &mut [T] {
    debug_assert!(range.start <= range.end && range.end <= x.len(), "{range:?} of {}", x.len());
    x.get_mut(range).unwrap_or_default()
}

/// `x[start..]`.
#[track_caller]
pub(crate) fn from<T>(x: &[T], start: usize) -> &[T] {
    debug_assert!(start <= x.len(), "{start} of {}", x.len());
    x.get(start..).unwrap_or_default()
}

/// The first `len` elements, and the others.
#[track_caller]
pub(crate) fn split<T>(x: &mut [T], len: usize) -> (&mut [T], &mut [T]) {
    debug_assert!(len <= x.len(), "{len} of {}", x.len());
    x.split_at_mut_checked(len).unwrap_or_default()
}
