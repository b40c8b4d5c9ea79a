//! The temperature of a softmax, with its limits 0 and ∞.

use crate::Error;
use crate::arch::one_by_one;

/// The temperature that divides the scores before softmax: `softmax(s / T)`.
///
/// A low temperature gives sharp weights, a high one flat weights. Both ends are computed as limits: at [`ZERO`](Self::ZERO)
/// all weight goes to the largest score, shared evenly by ties; at [`INFINITE`](Self::INFINITE) the weights are uniform over
/// the keys that may be seen.
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
    /// T = 1: the scores stay as they are.
    pub const ONE: Self = Self(1.0);
    /// The limit T → ∞: uniform.
    pub const INFINITE: Self = Self(f32::INFINITY);

    /// A temperature from 0 to ∞, both included.
    ///
    /// # Errors
    /// [`Error::Range`] for a negative number or NaN.
    pub const fn new(t: f32) -> Result<Self, Error> {
        // The bits say the same in every floating-point environment: a comparison may take a negative subnormal number for 0.
        const LARGEST: u32 = f32::INFINITY.to_bits();
        const NEGATIVE_ZERO: u32 = (-0.0_f32).to_bits();
        match t.to_bits() {
            0..=LARGEST => Ok(Self(t)),
            // Equal temperatures have equal bits.
            NEGATIVE_ZERO => Ok(Self::ZERO),
            _ => Err(Error::Range { name: "temperature", value: t, range: "0 or greater" }),
        }
    }

    /// The number T.
    #[must_use]
    pub const fn get(self) -> f32 {
        self.0
    }

    /// Whether this temperature counts as zero. Subnormal temperatures do.
    ///
    /// ```
    /// use regard_kernels::Temperature;
    /// assert!(Temperature::new(1e-40)?.is_zero() && !Temperature::new(1e-30)?.is_zero());
    /// # Ok::<(), regard_kernels::Error>(())
    /// ```
    #[must_use]
    pub const fn is_zero(self) -> bool {
        // Temperatures are not negative, so the order of their bits is their own. The comparison of bits needs no call on a
        // core without an FPU.
        self.0.to_bits() < f32::MIN_POSITIVE.to_bits()
    }

    /// Whether this temperature is ∞.
    #[must_use]
    pub const fn is_infinite(self) -> bool {
        self.0 == f32::INFINITY
    }

    /// Whether it makes no difference if scores are divided by the temperature, or their differences.
    pub(crate) fn is_moderate(self) -> bool {
        !self.is_zero() && self.0 <= HIGH
    }

    /// The factor for differences of [prepared](Self::prepare) scores. It is 1/T, or 1 if preparing has divided the scores
    /// already.
    pub(crate) fn factor(self) -> f32 {
        if self.is_zero() || self.is_infinite() {
            1.0
        } else if self.0 > HIGH {
            1.0 / (self.0 * REDUCTION)
        } else {
            1.0 / self.0
        }
    }

    /// Whether [`prepare`](Self::prepare) changes scores.
    pub(crate) fn prepares(self) -> bool {
        self.0 > HIGH
    }

    /// Prepares a row of scores for a temperature so high that dividing their differences is not enough. At T = ∞ every score
    /// of a visible key becomes 0; −∞ and NaN stay. Below ∞ the scores are reduced first, because two scores that are further
    /// apart than the largest finite `f32` may both have weight.
    #[inline(always)]
    pub(crate) fn prepare(self, scores: &mut [f32]) {
        if self.is_infinite() {
            for x in scores.iter_mut().filter(|x| **x > f32::NEG_INFINITY) {
                *x = 0.0;
            }
        } else if self.0 > HIGH {
            for x in scores {
                one_by_one(x);
                *x *= REDUCTION;
            }
        }
    }
}

/// Up to this temperature, scores whose difference is not a finite `f32` differ by more than 128·T, and the lower one has no
/// weight.
const HIGH: f32 = f32::MAX / 128.0;
/// A power of two, so that nothing is rounded.
const REDUCTION: f32 = 1.0 / 256.0;

impl Default for Temperature {
    fn default() -> Self {
        Self::ONE
    }
}

/// The temperature is saved as a number, and ∞ as `null`, because JSON has no ∞.
#[cfg(feature = "serde")]
mod saved {
    use serde::de::{Deserialize, Deserializer, Error as _};
    use serde::ser::{Serialize, Serializer};

    use super::Temperature;

    impl Serialize for Temperature {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            (!self.is_infinite()).then_some(self.get()).serialize(serializer)
        }
    }

    impl<'de> Deserialize<'de> for Temperature {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            let t = Option::<f32>::deserialize(deserializer)?;
            t.map_or(Ok(Self::INFINITE), |t| Self::new(t).map_err(D::Error::custom))
        }
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use std::string::ToString as _;

    use super::Temperature;

    #[test]
    fn a_saved_temperature_is_read_again() {
        for (t, saved) in [(0.5, "0.5"), (0.0, "0.0"), (f32::INFINITY, "null"), (1e-40, "1e-40")] {
            let t = Temperature::new(t).unwrap();
            assert_eq!(serde_json::to_string(&t).unwrap(), saved);
            assert_eq!(serde_json::from_str::<Temperature>(saved).unwrap(), t);
        }
        assert_eq!(serde_json::from_str::<Temperature>("2").unwrap().get(), 2.0);
        for (wrong, words) in [("-1", "temperature"), ("\"cold\"", "cold"), ("true", "boolean")] {
            let error = serde_json::from_str::<Temperature>(wrong).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
