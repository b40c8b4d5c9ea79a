//! RMS norm of 32-bit integers, into 8 bits.

use super::{multiply, narrow};

/// Numbers beyond ±2²⁶ count as that: squares of 2¹¹ of them then have a sum below 2⁶³.
pub(super) const MOST: i32 = 1 << 26;

/// RMS norm x/√(mean of x² + ε) · γ (Zhang and Sennrich 2019).
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a> {
    /// \[width\]: with `exponent`, what turns x / √(mean of x²), in units of 2⁻¹⁶, into outputs: γ and the output's scale.
    pub mantissas: &'a [i32],
    /// The exponent of all mantissas.
    pub exponent: i32,
    /// ε in squared units of x.
    pub epsilon: u64,
}

impl Norm<'_> {
    /// Writes the norm of x \[width\] to `out` \[width\].
    ///
    /// The root is rounded down: off by less than one unit of x. Its reciprocal is off by a unit of 2⁻⁴⁶.
    pub(super) fn apply(&self, x: &[i32], out: &mut [i8]) {
        let clamped = |x: &i32| i64::from((*x).clamp(-MOST, MOST));
        let squares: u64 = x.iter().map(clamped).fold(0, |sum, x| sum.wrapping_add((x * x) as u64));
        let mean = squares.checked_div(x.len() as u64).unwrap_or(0).saturating_add(self.epsilon);
        let reciprocal = (1_u64 << 46) / mean.isqrt().max(1);
        for ((out, x), mantissa) in out.iter_mut().zip(x).zip(self.mantissas) {
            // |x| is at most √width times the root, so that the quotient has 22 bits for a width of 2¹¹.
            let quotient = (clamped(x) * reciprocal as i64 + (1 << 29)) >> 30;
            *out = narrow(multiply(quotient as i32, *mantissa, self.exponent));
        }
    }
}
