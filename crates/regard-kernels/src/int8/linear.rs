//! A linear layer with weights of 8 bits.
//!
//! ```text
//! for each group of 4 rows of x, and for each row that is left
//!     for each part of the inputs
//!         widen x to 16 bits                      on cores with SMLAD
//!         sums ← sums + x · the weight's rows     as the scores of queries with keys
//! outputs ← requantize(sums)                      a mantissa an output, one exponent
//! ```

use super::requantize;
use crate::arch::int8::{GROUP, Queries, query_words};
use crate::arch::{Kernel, Simd, dispatch};
use crate::error::{Error, check_len, check_most};
use crate::{Mat, MatMut};

/// The 16-bit numbers on the stack to which the rows of a group are widened at a time.
const WIDENED: usize = 256;

/// The most inputs. The sum of as many products is within ±2²⁹.
const MOST_INPUTS: usize = 1 << 15;

/// A linear layer y = Wx + b of rows \[inputs\] → \[outputs\] whose weight has a scale for each output.
///
/// x has 8 bits and one scale, and each row of W has 8 bits and a scale of its own. The unit of their products is the product
/// of both scales. The bias has this unit too. mantissa · 2^(exponent − 31) is this unit divided by the unit of the output
/// ([`requantize`]).
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
    /// \[outputs\]: the bias in units of the sums. Empty if there is no bias.
    pub bias: &'a [i32],
    /// \[outputs\]: with `exponent`, the factor from sums to outputs: see [`requantize`].
    pub mantissas: &'a [i32],
    /// The exponent of all mantissas.
    pub exponent: i32,
}

impl Linear<'_> {
    /// `out` ← Wx + b for each row. x is \[rows, inputs\], and `out` is \[rows, outputs\].
    ///
    /// Sums of integers are exact, so the outputs have the same bits on every target. A sum that leaves 32 bits when the bias
    /// is added wraps around.
    ///
    /// # Errors
    /// [`Error::Length`] if `out` does not consist of rows as long as the mantissas and the bias, or if the weight is not inputs ×
    /// outputs; [`Error::Range`] for more than 32768 inputs. `out` is then unchanged.
    pub fn forward(&self, x: &[i8], out: &mut [i32]) -> Result<(), Error> {
        let outputs = self.mantissas.len();
        let rows = out.len().checked_div(outputs).unwrap_or(0);
        check_len("the linear layer's output", out.len(), rows.saturating_mul(outputs))?;
        if rows == 0 {
            return Ok(());
        }
        let inputs = x.len().checked_div(rows).unwrap_or(0);
        check_len("the linear layer's input", x.len(), rows.saturating_mul(inputs))?;
        check_len("the weight", self.weight.len(), inputs.saturating_mul(outputs))?;
        check_most("the number of inputs", inputs, MOST_INPUTS, "at most 32768")?;
        if !self.bias.is_empty() {
            check_len("the bias", self.bias.len(), outputs)?;
        }
        let bias = self.bias.iter().copied().chain(core::iter::repeat(0));
        for out in out.chunks_exact_mut(outputs.max(1)) {
            for (out, bias) in out.iter_mut().zip(bias.clone()) {
                *out = bias;
            }
        }
        let (x, weight) = (Mat::new(x, rows, inputs)?, Mat::new(self.weight, outputs, inputs)?);
        dispatch(AddProducts { x, weight, sums: MatMut::new(out, rows, outputs)? });
        for out in out.chunks_exact_mut(outputs.max(1)) {
            for (out, mantissa) in out.iter_mut().zip(self.mantissas) {
                *out = requantize(*out, *mantissa, self.exponent);
            }
        }
        Ok(())
    }
}

/// `sums` \[rows, outputs\] += Wx for each row of x \[rows, inputs\].
struct AddProducts<'a> {
    x: Mat<'a, i8>,
    weight: Mat<'a, i8>,
    sums: MatMut<'a, i32>,
}

impl Kernel for AddProducts<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let whole = self.x.rows() - self.x.rows() % GROUP;
        for row in (0..whole).step_by(GROUP) {
            simd.call(OfRows::<GROUP> { of: &mut self, row });
        }
        for row in whole..self.x.rows() {
            simd.call(OfRows::<1> { of: &mut self, row });
        }
    }
}

/// Computes `R` rows of the products, from number `row` on.
struct OfRows<'p, 'a, const R: usize> {
    of: &'p mut AddProducts<'a>,
    row: usize,
}

impl<const R: usize> Kernel for OfRows<'_, '_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        /// Outputs whose sums over a part are on the stack.
        const OUTPUTS: usize = 16;
        let Self { of: AddProducts { x, weight, sums }, row } = self;
        let part = WIDENED / R;
        let mut words = [0; query_words(1, WIDENED)];
        for start in (0..x.cols()).step_by(part) {
            let rows = x.block(row, R, start, part);
            let queries = Queries::new(core::array::from_fn(|r| rows.row(r)), &mut words);
            for first in (0..weight.rows()).step_by(OUTPUTS) {
                let keys = weight.block(first, OUTPUTS, start, part);
                let mut products = [[0; R]; OUTPUTS];
                let room = keys.rows().next_multiple_of(4);
                queries.dots(keys, 0, products.get_mut(..room).unwrap_or_default());
                for r in 0..R {
                    let sums = sums.row_mut(row + r).get_mut(first..).unwrap_or_default();
                    for (sum, products) in sums.iter_mut().zip(&products) {
                        *sum = sum.wrapping_add(products[r]);
                    }
                }
            }
        }
    }
}
