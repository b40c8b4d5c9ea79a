//! RMS norm of 32-bit integers, into 8 bits.

use super::{narrow, requantize};
use crate::error::{Error, check_len, check_most};

/// Numbers beyond ±2²⁶ count as that: squares of 2¹¹ of them then have a sum below 2⁶³.
const MOST: i32 = 1 << 26;
/// The most features, for the same reason.
const MOST_FEATURES: usize = 1 << 11;

/// RMS norm x / √(mean of x² + ε) · γ (Zhang and Sennrich 2019, arXiv 1910.07467) of 32-bit integers, into 8 bits.
///
/// γ and the scale of the output are in the mantissas: mantissa · 2^(exponent − 31) is γ / 65536 / scale.
///
/// ```
/// use regard_kernels::int8::Norm;
/// // γ = 1 and a scale of 1/64: 64 / 65536 = 2²⁹ · 2^(−8 − 31).
/// let norm = Norm { mantissas: &[1 << 29; 2], exponent: -8, epsilon: 0 };
/// let mut out = [0; 2];
/// norm.apply(&[3000, -4000], &mut out)?; // the root of the mean is 3535.5
/// assert_eq!(out, [54, -72]); // 3000 / 3535.5 · 64 = 54.3
/// # Ok::<(), regard_kernels::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a> {
    /// \[width\]: with `exponent`, what turns x / √(mean of x²), in units of 2⁻¹⁶, into outputs: see [`requantize`].
    pub mantissas: &'a [i32],
    /// The exponent of all mantissas.
    pub exponent: i32,
    /// ε in squared units of x.
    pub epsilon: u64,
}

impl Norm<'_> {
    /// Writes the norm of x \[width\] to `out` \[width\]. Numbers beyond ±2²⁶ count as that.
    ///
    /// The root is rounded down, so it is off by less than one unit of x. Its reciprocal is off by a unit of 2⁻⁴⁶.
    ///
    /// # Errors
    /// [`Error::Length`] if the mantissas or `out` are not as long as x, [`Error::Range`] for more than 2048 features. `out` is then
    /// unchanged.
    pub fn apply(&self, x: &[i32], out: &mut [i8]) -> Result<(), Error> {
        check_len("the mantissas", self.mantissas.len(), x.len())?;
        check_len("the norm", out.len(), x.len())?;
        check_most("the number of features", x.len(), MOST_FEATURES, "at most 2048")?;
        let clamped = |x: &i32| i64::from((*x).clamp(-MOST, MOST));
        let squares: u64 = x.iter().map(clamped).fold(0, |sum, x| sum.wrapping_add((x * x) as u64));
        let mean = squares.checked_div(x.len() as u64).unwrap_or(0).saturating_add(self.epsilon);
        let reciprocal = (1_u64 << 46) / mean.isqrt().max(1);
        for ((out, x), mantissa) in out.iter_mut().zip(x).zip(self.mantissas) {
            // |x| is at most √width times the root, so that the quotient has 22 bits for a width of 2¹¹.
            let quotient = (clamped(x) * reciprocal as i64 + (1 << 29)) >> 30;
            *out = narrow(requantize(quotient as i32, *mantissa, self.exponent));
        }
        Ok(())
    }
}
