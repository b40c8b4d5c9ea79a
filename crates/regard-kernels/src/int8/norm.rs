//! RMS norm and layer norm of 32-bit integers, into 8 bits or in place.

use super::{divide_by_power, narrow, requantize};
use crate::error::{Error, check_len, check_most};

/// Numbers that need more than 27 bits count as the nearest that does not: squares of 2¹¹ of them then have a sum below 2⁶³.
const MOST: i32 = 1 << 26;
/// The most features, for the same bound.
const MOST_FEATURES: usize = 1 << 11;

/// The number of additional bits that the outputs of a layer norm have until β is added.
const FINER: u32 = 8;

/// RMS norm x / √(mean of x² + ε) · γ (Zhang and Sennrich 2019, arXiv 1910.07467) of 32-bit integers, into 8 bits; or layer norm
/// (x − mean) / √(variance + ε) · γ + β.
///
/// The mantissas contain γ and the scale of the output: mantissa · 2^(exponent − 31) is γ / 65536 / scale for an RMS norm, and
/// 256 times as much for a layer norm.
///
/// ```
/// use regard_kernels::int8::Norm;
/// // γ = 1 and a scale of 1/64: 64 / 65536 = 2²⁹ · 2^(−8 − 31).
/// let norm = Norm { mantissas: &[1 << 29; 2], exponent: -8, epsilon: 0, beta: &[] };
/// let mut out = [0; 2];
/// norm.apply(&[3000, -4000], &mut out)?; // the root of the mean of squares is 3535.5
/// assert_eq!(out, [54, -72]); // 3000 / 3535.5 · 64 = 54.3
///
/// // A layer norm with β = 1 in the first feature.
/// let norm = Norm { exponent: 0, beta: &[64 * 256, 0], ..norm };
/// norm.apply(&[3000, -4000], &mut out)?; // the mean is −500, and the deviation 3500
/// assert_eq!(out, [127, -64]); // 64 + 64 leaves 8 bits
/// # Ok::<(), regard_kernels::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Norm<'a> {
    /// \[width\]: with `exponent`, the factor from x / √(mean of x²), in units of 2⁻¹⁶, to outputs: see [`requantize`].
    pub mantissas: &'a [i32],
    /// The exponent of all mantissas.
    pub exponent: i32,
    /// ε in squared units of x.
    pub epsilon: u64,
    /// \[width\]: β of a layer norm, in 256ths of the output's unit. Empty for an RMS norm.
    pub beta: &'a [i32],
}

impl Norm<'_> {
    /// Writes the norm of each row of x \[rows, width\] to `out` \[rows, width\]. Numbers beyond 27 bits count as the nearest
    /// within them.
    ///
    /// The root is rounded down, so its error is less than one unit of x. The error of its reciprocal is at most 2⁻⁴⁶. The mean
    /// of a layer norm is rounded towards 0.
    ///
    /// # Errors
    /// [`Error::Length`] if x does not consist of rows as long as the mantissas, if `out` is not as long as x, or if β is
    /// neither empty nor as long as the mantissas; [`Error::Range`] for more than 2048 features. `out` is then unchanged.
    pub fn apply(&self, x: &[i32], out: &mut [i8]) -> Result<(), Error> {
        let width = self.mantissas.len();
        let rows = x.len().checked_div(width).unwrap_or(0);
        check_len("the norm's input", x.len(), rows.saturating_mul(width))?;
        check_len("the norm", out.len(), x.len())?;
        self.check()?;
        for (x, out) in x.chunks_exact(width.max(1)).zip(out.chunks_exact_mut(width.max(1))) {
            self.row(x, out);
        }
        Ok(())
    }

    /// Replaces each row of x \[rows, width\] by its norm with 32 bits, for a model that adds to what a norm gives. Outputs of a
    /// layer norm are in the unit of β, those of an RMS norm in the unit of [`apply`](Self::apply).
    ///
    /// ```
    /// use regard_kernels::int8::Norm;
    /// // γ = 1 and a unit of 1/4096: 4096 / 65536 = 2³⁰ · 2^(−3 − 31).
    /// let norm = Norm { mantissas: &[1 << 30; 2], exponent: -3, epsilon: 0, beta: &[4096, 0] };
    /// let mut x = [3000, -4000]; // the mean is −500, and the deviation 3500
    /// norm.apply_in_place(&mut x)?;
    /// assert_eq!(x, [8192, -4096]);
    /// # Ok::<(), regard_kernels::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`apply`](Self::apply). x is then unchanged.
    pub fn apply_in_place(&self, x: &mut [i32]) -> Result<(), Error> {
        let width = self.mantissas.len();
        let rows = x.len().checked_div(width).unwrap_or(0);
        check_len("the norm's input", x.len(), rows.saturating_mul(width))?;
        self.check()?;
        for row in x.chunks_exact_mut(width.max(1)) {
            let centre = self.centre(row);
            for (x, mantissa) in row.iter_mut().zip(self.mantissas) {
                *x = requantize(centre.quotient(*x), *mantissa, self.exponent);
            }
            for (x, beta) in row.iter_mut().zip(self.beta) {
                *x = x.saturating_add(*beta);
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<(), Error> {
        let width = self.mantissas.len();
        check_most("the number of features", width, MOST_FEATURES, "at most 2048")?;
        if self.beta.is_empty() { Ok(()) } else { check_len("β", self.beta.len(), width) }
    }

    /// The mean of a row and the reciprocal of its deviation.
    #[inline]
    fn centre(&self, x: &[i32]) -> Centre {
        let clamped = |x: &i32| clamped(*x);
        let mean = if self.beta.is_empty() {
            0
        } else {
            let sum = x.iter().map(clamped).fold(0_i64, |sum, x| sum.wrapping_add(i64::from(x)));
            // Many cores divide 32 bits in one instruction, and 64 bits in a hundred.
            i32::try_from(sum).map_or_else(
                |_| (sum / x.len().max(1) as i64) as i32,
                |sum| sum / x.len().max(1) as i32,
            )
        };
        let centered = |x: &i32| i64::from(clamped(x).wrapping_sub(mean));
        let squares = x.iter().map(centered).fold(0_i64, |sum, x| sum.wrapping_add(x * x));
        let mean_square = (squares as u64).checked_div(x.len() as u64).unwrap_or(0);
        let root = mean_square.saturating_add(self.epsilon).isqrt();
        Centre { mean, reciprocal: ((1_u64 << 46) / root.max(1)) as i64 }
    }

    fn row(&self, x: &[i32], out: &mut [i8]) {
        let centre = self.centre(x);
        let outputs = x.iter().map(|x| centre.quotient(*x)).zip(self.mantissas);
        let outputs = outputs.map(|(x, mantissa)| requantize(x, *mantissa, self.exponent));
        if self.beta.is_empty() {
            for (out, output) in out.iter_mut().zip(outputs) {
                *out = narrow(output);
            }
        } else {
            for ((out, output), beta) in out.iter_mut().zip(outputs).zip(self.beta) {
                *out = narrow(divide_by_power(output.saturating_add(*beta), FINER));
            }
        }
    }
}

/// What a norm measures of a row.
struct Centre {
    mean: i32,
    /// 2⁴⁶ divided by the deviation.
    reciprocal: i64,
}

impl Centre {
    /// (x − mean) / deviation, in units of 2⁻¹⁶. |x − mean| is at most √width times the deviation, so that the quotient has 22 bits for
    /// a width of 2¹¹.
    #[inline]
    fn quotient(&self, x: i32) -> i32 {
        let centered = i64::from(clamped(x).wrapping_sub(self.mean));
        ((centered * self.reciprocal + (1 << 29)) >> 30) as i32
    }
}

#[inline]
fn clamped(x: i32) -> i32 {
    x.clamp(-MOST, MOST - 1)
}
