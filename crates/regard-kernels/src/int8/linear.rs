//! A linear layer with weights of 8 bits.
//!
//! ```text
//! for each part of 128 inputs
//!     widen x to 16 bits                      on cores with SMLAD
//!     sums ← sums + x · the weight's rows     as the scores of a query with keys
//! outputs ← requantize(sums)                  a mantissa an output, one exponent
//! ```

use super::requantize;
use crate::Mat;
use crate::arch::int8::{Queries, query_words};
use crate::arch::{Kernel, Simd, dispatch};
use crate::error::{Error, check_len, check_most};

/// Inputs that are widened at once, on the stack.
const PART: usize = 128;
/// Outputs whose sums over a part are on the stack.
const OUTPUTS: usize = 32;

/// The most inputs: the sum of their products is then within ±2²⁹.
const MOST_INPUTS: usize = 1 << 15;

/// A linear layer y = Wx + b \[inputs\] → \[outputs\] whose weight has a scale for each output.
///
/// x is of 8 bits with one scale, and so is each row of W. Their products have the product of both scales as their unit; the bias
/// is in that unit, and mantissa · 2^(exponent − 31) is that unit / the unit of the output ([`requantize`]).
///
/// ```
/// use regard_kernels::int8::{Linear, narrow};
/// let layer = Linear {
///     weight: &[1, 2, 3, -4, 5, -6], // two outputs of three inputs
///     bias: &[0, 100],
///     mantissas: &[1 << 30, 1 << 29], // ½ and ¼
///     exponent: 0,
/// };
/// let mut out = [0; 2];
/// layer.forward(&[10, 20, 30], &mut out)?;
/// assert_eq!(out, [70, -5]); // 140 / 2 and (100 − 120) / 4
/// assert_eq!(out.map(narrow), [70, -5]); // 8 bits again, for the next layer
/// # Ok::<(), regard_kernels::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Linear<'a> {
    /// \[outputs, inputs\], row-major.
    pub weight: &'a [i8],
    /// \[outputs\]: the bias in units of the sums. Empty where there is none.
    pub bias: &'a [i32],
    /// \[outputs\]: with `exponent`, what turns sums into outputs: see [`requantize`].
    pub mantissas: &'a [i32],
    /// The exponent of all mantissas.
    pub exponent: i32,
}

impl Linear<'_> {
    /// `out` ← Wx + b, of x \[inputs\] and `out` \[outputs\].
    ///
    /// Sums of integers are exact: the outputs have the same bits on every target. A sum with its bias that leaves 32 bits wraps
    /// around.
    ///
    /// # Errors
    /// [`Error::Length`] if the weight is not inputs × outputs, or the bias or the mantissas are not as long as `out`;
    /// [`Error::Range`] for more than 32768 inputs. `out` is then unchanged.
    pub fn forward(&self, x: &[i8], out: &mut [i32]) -> Result<(), Error> {
        let (inputs, outputs) = (x.len(), out.len());
        check_len("the weight", self.weight.len(), inputs.saturating_mul(outputs))?;
        check_len("the mantissas", self.mantissas.len(), outputs)?;
        check_most("the number of inputs", inputs, MOST_INPUTS, "at most 32768")?;
        if self.bias.is_empty() {
            out.fill(0);
        } else {
            check_len("the bias", self.bias.len(), outputs)?;
            for (out, bias) in out.iter_mut().zip(self.bias) {
                *out = *bias;
            }
        }
        let weight = Mat::new(self.weight, outputs, inputs)?;
        dispatch(AddProducts { x, weight, sums: &mut *out });
        for (out, mantissa) in out.iter_mut().zip(self.mantissas) {
            *out = requantize(*out, *mantissa, self.exponent);
        }
        Ok(())
    }
}

/// `sums` \[outputs\] += Wx.
struct AddProducts<'a> {
    x: &'a [i8],
    weight: Mat<'a, i8>,
    sums: &'a mut [i32],
}

impl Kernel for AddProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        for (part, x) in self.x.chunks(PART).enumerate() {
            let mut words = [0; query_words(1, PART)];
            let query = Queries::new([x], &mut words);
            for (block, sums) in self.sums.chunks_mut(OUTPUTS).enumerate() {
                let rows = self.weight.block(block * OUTPUTS, OUTPUTS, part * PART, PART);
                let mut products = [[0]; OUTPUTS];
                let products =
                    products.get_mut(..sums.len().next_multiple_of(4)).unwrap_or_default();
                query.dots(rows, 0, products);
                for (sum, [product]) in sums.iter_mut().zip(products) {
                    *sum = sum.wrapping_add(*product);
                }
            }
        }
    }
}
