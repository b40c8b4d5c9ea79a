use crate::Matrix;
use crate::bound::{distance, gamma};
use crate::pair::Pair;

/// A statement about the numbers of a walkthrough, with its measured distance.
///
/// A limit follows from a bound on the rounding of single precision, which is computed alongside the numbers, element by
/// element (running error analysis). If rounding can change the numbers too much for a useful bound, for instance at a
/// temperature near 0, there is no limit: the check reports the distance without judging it.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// The statement: "rows sum to 1".
    pub name: String,
    /// The measured distance.
    pub value: f64,
    /// The largest distance that rounding explains. `None` if no bound is useful.
    pub limit: Option<f64>,
    /// The measured quantity, in one sentence.
    pub meaning: String,
}

impl Check {
    /// Whether the distance is within the limit. `None` without a limit.
    ///
    /// Without softmax, the rows do not sum to 1: that check fails, as it should.
    pub fn holds(&self) -> Option<bool> {
        self.limit.map(|limit| self.value <= limit)
    }
}

/// The distance between two computations of the same numbers, at the element where it is largest relative to its bound.
#[derive(Clone, Copy)]
pub(crate) struct Gap {
    /// The distance over the largest number.
    pub value: f64,
    pub limit: Option<f64>,
}

/// A bound above this share of the largest number is useless, because the window shows three decimals.
const WORTH_HAVING: f64 = 1e-3;

impl Gap {
    /// The gap between two equal matrices.
    const NONE: Self = Self { value: 0.0, limit: Some(0.0) };

    /// The gap between two matrices in single precision. Each may differ from the same exact numbers by its bound.
    pub fn between(ours: &Pair, theirs: &Matrix, their_bound: &Matrix<f64>) -> Self {
        let cells = ours.ours.as_slice().iter().zip(theirs.as_slice());
        let bounds = ours.bound.as_slice().iter().zip(their_bound.as_slice());
        let distances = cells.map(|(a, b)| distance(f64::from(*a), f64::from(*b)));
        Self::of(distances.zip(bounds.map(|(a, b)| a + b)), scale(&ours.exact))
    }

    /// The gap between numbers in single precision and their references.
    pub fn from_exact(ours: &Matrix, exact: &Matrix<f64>, bound: &Matrix<f64>) -> Self {
        let cells = ours.as_slice().iter().zip(exact.as_slice());
        let distances = cells.map(|(a, b)| distance(f64::from(*a), *b));
        Self::of(distances.zip(bound.as_slice().iter().copied()), scale(exact))
    }

    /// The largest distance of sums from 1, after `roundings`.
    pub fn from_one(sums: impl Iterator<Item = f64>, roundings: usize) -> Self {
        Self::of(sums.map(|sum| ((sum - 1.0).abs(), gamma(roundings))), 1.0)
    }

    fn of(cells: impl Iterator<Item = (f64, f64)>, scale: f64) -> Self {
        let gap = |(distance, bound): (f64, f64)| {
            let (value, limit) = (distance / scale, bound / scale);
            Self { value, limit: (limit <= WORTH_HAVING).then_some(limit) }
        };
        cells.map(gap).fold(Self::NONE, Self::worse)
    }

    /// The gap to report: one that exceeds its limit comes first, then one without a limit, then the one closest to its limit.
    pub fn worse(self, other: Self) -> Self {
        let severity = |gap: &Self| match gap.limit {
            _ if gap.value.is_nan() => [3.0, 0.0],
            Some(limit) if gap.value > limit => [2.0, gap.value],
            Some(limit) => [0.0, if limit > 0.0 { gap.value / limit } else { 0.0 }],
            None => [1.0, gap.value],
        };
        // If gaps are equal, the one with the larger limit counts, so that an exact 0 does not represent all.
        let order = severity(&other).partial_cmp(&severity(&self));
        let is_wider = other.limit.unwrap_or(0.0) > self.limit.unwrap_or(0.0);
        match order {
            Some(core::cmp::Ordering::Less) => self,
            Some(core::cmp::Ordering::Equal) if !is_wider => self,
            _ => other,
        }
    }
}

/// The largest absolute value among finite numbers, 0 if there are none.
pub(crate) fn largest(numbers: impl IntoIterator<Item = f64>) -> f64 {
    numbers.into_iter().map(f64::abs).filter(|x| x.is_finite()).fold(0.0, f64::max)
}

/// The [`largest`] number of a matrix, or 1 if that is 0.
pub(crate) fn scale(exact: &Matrix<f64>) -> f64 {
    let largest = largest(exact.as_slice().iter().copied());
    if largest == 0.0 { 1.0 } else { largest }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_breaks_its_limit_is_told_first_and_what_has_none_second() {
        let gap = |distance| Gap::of([(distance, 1e-6)].into_iter(), 1.0);
        let (fine, near, broken) = (gap(1e-8), gap(9e-7), gap(2e-6));
        let unbounded = Gap::of([(0.1, 0.5)].into_iter(), 1.0);
        assert_eq!(fine.worse(near).value, 9e-7);
        assert_eq!((near.worse(unbounded).limit, unbounded.worse(near).limit), (None, None));
        assert_eq!(unbounded.worse(broken).value, 2e-6);
        let nan = gap(f64::NAN);
        assert!(fine.worse(nan).value.is_nan() && nan.worse(broken).value.is_nan());
    }
}
