//! Running error analysis (Higham 2002, Accuracy and Stability of Numerical Algorithms, section 3.3): numbers in `f64`, each
//! with a bound for the error of the same number computed in `f32`.
//!
//! A reference that is written with these numbers gives both the expected value and the tolerance of a test. The tolerance
//! follows the condition of the case.

use crate::common::U;

/// Weights of softmax below this number become 0.
const TINY: f64 = f32::MIN_POSITIVE as f64;

/// The roundings of a sum of so many terms in any order, and a few more: the blocks of a sum, and a division at its end.
fn gamma(terms: usize) -> f64 {
    let n = (terms + 8) as f64 * U;
    n / (1.0 - n)
}

#[derive(Clone, Copy, Debug)]
pub struct Num {
    pub x: f64,
    /// The bound: the number in `f32` is within `e` of x.
    pub e: f64,
}

impl Num {
    pub fn exact(x: f32) -> Self {
        Self { x: f64::from(x), e: 0.0 }
    }

    /// The result of one operation. The errors of its operands add up to e.
    fn rounded(x: f64, e: f64) -> Self {
        Self { x, e: e + U * (x.abs() + e) + TINY }
    }

    /// The largest magnitude that the computed number can have.
    fn size(self) -> f64 {
        self.x.abs() + self.e
    }

    pub fn minus(self, other: Self) -> Self {
        Self::rounded(self.x - other.x, self.e + other.e)
    }

    pub fn times(self, other: Self) -> Self {
        Self::rounded(self.x * other.x, self.size() * other.size() - (self.x * other.x).abs())
    }

    /// A constant, rounded to `f32`.
    pub fn constant(x: f64) -> Self {
        Self::rounded(x, 0.0)
    }

    /// A sum of products, added in any order.
    pub fn dot(terms: impl IntoIterator<Item = (Self, Self)>) -> Self {
        let (mut x, mut e, mut size, mut count) = (0.0, 0.0, 0.0, 0);
        for (a, b) in terms {
            x += a.x * b.x;
            e += a.size() * b.size() - (a.x * b.x).abs();
            size += a.size() * b.size();
            count += 1;
        }
        Self { x, e: e + gamma(count) * size + TINY }
    }

    pub fn sum(terms: impl IntoIterator<Item = Self>) -> Self {
        Self::dot(terms.into_iter().map(|x| (x, Self { x: 1.0, e: 0.0 })))
    }

    /// A function whose slope is at most `slope`, whose result is at most as far from 0 as its argument, and which is computed
    /// within 8 roundings of the argument.
    pub fn apply(self, slope: f64, f: impl Fn(f64) -> f64) -> Self {
        Self::rounded(f(self.x), slope * self.e + 8.0 * U * self.size())
    }
}

/// The weights of a row of scores. An error of δ in each score changes a weight by a factor of at most e^(2δ).
pub fn softmax(scores: &[Num]) -> Vec<Num> {
    let largest = scores.iter().fold(f64::NEG_INFINITY, |m, s| m.max(s.x));
    let delta = scores.iter().fold(0.0_f64, |m, s| {
        // The maximum is subtracted, the difference is multiplied by log₂e, and the exponential has an error too.
        m.max(s.e + 4.0 * U * ((largest - s.x) + s.size()) + 4.0 * U)
    });
    let factor = (2.0 * delta).exp_m1() + gamma(scores.len());
    let sum: f64 = scores.iter().map(|s| (s.x - largest).exp()).sum();
    scores
        .iter()
        .map(|s| (s.x - largest).exp() / sum)
        .map(|w| Num { x: w, e: w * factor + TINY })
        .collect()
}

/// Whether each number is within its bound.
#[track_caller]
pub fn assert_within(found: &[f32], expected: &[Vec<Num>]) {
    let expected = expected.concat();
    assert_eq!(found.len(), expected.len());
    for (i, (found, Num { x, e })) in found.iter().zip(&expected).enumerate() {
        assert!((f64::from(*found) - x).abs() <= *e, "element {i} is {found}, not {x} ± {e:e}");
    }
}
