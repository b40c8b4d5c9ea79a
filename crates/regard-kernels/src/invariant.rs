//! What the checks of a public function promise to the loops inside.
//!
//! The shapes are checked once, where a call begins. From there on each part of a tensor or of memory exists that a loop asks for.
//! The kernels must not panic, so a loop asks with `get` and says that the part is [`promised`](Promised::promised). If it is
//! missing all the same, which is a bug of this crate, tests and fuzzing panic. A release build computes with nothing in its place.

/// The answer of a slice that was asked for a part that exists.
pub(crate) trait Promised: Sized {
    type Part;

    /// The part.
    fn promised(self) -> Self::Part
    where
        Self::Part: Default;

    /// The part, or `other` in a release build.
    fn promised_or(self, other: Self::Part) -> Self::Part;

    /// The part, which is missing only if `empty`: then it is empty.
    fn promised_unless(self, empty: bool) -> Self::Part
    where
        Self::Part: Default;
}

impl<T> Promised for Option<T> {
    type Part = T;

    #[inline(always)]
    #[track_caller]
    fn promised(self) -> T
    where
        T: Default,
    {
        self.promised_unless(false)
    }

    #[inline(always)]
    #[track_caller]
    fn promised_or(self, other: T) -> T {
        if self.is_none() {
            broken();
        }
        self.unwrap_or(other)
    }

    #[inline(always)]
    #[track_caller]
    fn promised_unless(self, empty: bool) -> T
    where
        T: Default,
    {
        if self.is_none() && !empty {
            broken();
        }
        self.unwrap_or_default()
    }
}

/// Marks a way that no call takes, because the shapes were checked.
#[inline(always)]
#[track_caller]
pub(crate) fn broken() {
    debug_assert!(false, "a part is missing that the checks of this call promise");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(debug_assertions)]
    #[should_panic = "a part is missing"]
    fn a_part_that_is_missing_fails_a_test() {
        let _ = [1.0].get(1..3).promised();
    }

    #[test]
    fn what_exists_is_given_and_what_may_be_missing_is_empty() {
        assert_eq!([1.0, 2.0].get(1..).promised(), [2.0]);
        assert_eq!([1.0, 2.0].first().promised_or(&3.0), &1.0);
        assert_eq!([1.0].get(1..3).promised_unless(true), &[] as &[f64]);
    }
}
