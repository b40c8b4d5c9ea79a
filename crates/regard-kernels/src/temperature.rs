use crate::Error;
use crate::linked::{Linked, RowStep};
use crate::simd::Simd;

/// The temperature that divides the scores before softmax: `softmax(s / T)`.
///
/// Low is sharp, high is flat. Both ends are limits, and computed as such: at [`ZERO`](Self::ZERO) all weight goes to the
/// largest score, shared evenly by ties; at [`INFINITE`](Self::INFINITE) the weights are uniform over what may be seen.
///
/// A subnormal temperature (below 1.18e-38) counts as zero, because its reciprocal is no finite `f32`.
///
/// ```
/// use regard_kernels::Temperature;
/// assert!(Temperature::new(2.0).is_ok());
/// assert!(Temperature::new(-1.0).is_err());
/// assert_eq!(Temperature::default(), Temperature::ONE);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Temperature(f32);

impl Temperature {
    /// The limit T → 0: arg max.
    pub const ZERO: Self = Self(0.0);
    /// Scores as they are.
    pub const ONE: Self = Self(1.0);
    /// The limit T → ∞: uniform.
    pub const INFINITE: Self = Self(f32::INFINITY);

    /// A temperature from 0 to ∞, both included.
    ///
    /// # Errors
    /// [`Error::Range`] for a negative number or NaN.
    pub const fn new(t: f32) -> Result<Self, Error> {
        if t >= 0.0 {
            // `+ 0.0` turns −0 into 0, so that equal temperatures have equal bits.
            Ok(Self(t + 0.0))
        } else {
            Err(Error::Range { name: "temperature", value: t, range: "0 or greater" })
        }
    }

    /// The number T.
    #[must_use]
    pub const fn get(self) -> f32 {
        self.0
    }

    /// Whether it counts as zero: subnormal temperatures do.
    ///
    /// ```
    /// use regard_kernels::Temperature;
    /// assert!(Temperature::new(1e-40)?.is_zero() && !Temperature::new(1e-30)?.is_zero());
    /// # Ok::<(), regard_kernels::Error>(())
    /// ```
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 < f32::MIN_POSITIVE
    }

    /// Whether it is ∞.
    #[must_use]
    pub const fn is_infinite(self) -> bool {
        self.0 == f32::INFINITY
    }

    /// Whether scores are divided by it, and differences of scores may be instead.
    pub(crate) fn is_moderate(self) -> bool {
        !self.is_zero() && self.0 <= HIGH
    }

    /// What a score difference is multiplied by, once the scores are [prepared](Self::prepare): 1/T, and 1 where the
    /// scores themselves have been changed.
    pub(crate) fn factor(self) -> f32 {
        if self.is_zero() || self.is_infinite() {
            1.0
        } else if self.0 > HIGH {
            1.0 / (self.0 * REDUCTION)
        } else {
            1.0 / self.0
        }
    }

    /// [`prepare`](Self::prepare) as a step, if it does anything at this temperature.
    pub(crate) fn preparation(self) -> Option<Linked<Self>> {
        (self.0 > HIGH).then(|| Linked::new(self))
    }

    /// Prepares a row of scores for a temperature so high that dividing their differences is not
    /// enough. At T = ∞ every score that may be seen becomes 0; −∞ and NaN stay. Below, the scores are
    /// reduced first, because two of them may be further apart than the largest finite `f32`, and yet
    /// both count.
    #[inline(always)]
    pub(crate) fn prepare(self, scores: &mut [f32]) {
        if self.is_infinite() {
            for x in scores.iter_mut().filter(|x| **x > f32::NEG_INFINITY) {
                *x = 0.0;
            }
        } else if self.0 > HIGH {
            for x in scores {
                *x *= REDUCTION;
            }
        }
    }
}

impl RowStep for Temperature {
    #[inline(always)]
    fn apply<S: Simd>(self, _simd: S, scores: &mut [f32]) {
        self.prepare(scores);
    }
}

/// At this temperature or below, scores that differ by more than any finite `f32` differ by more than 128·T, and the
/// lower one has no weight.
const HIGH: f32 = f32::MAX / 128.0;
/// A power of two, so that nothing is rounded.
const REDUCTION: f32 = 1.0 / 256.0;

impl Default for Temperature {
    fn default() -> Self {
        Self::ONE
    }
}
