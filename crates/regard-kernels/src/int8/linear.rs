//! A linear layer with weights of 8 bits.
//!
//! ```text
//! for each group of 4 rows of x, and for each row that is left
//!     for each part of the inputs
//!         widen x to 16 bits                      on cores with SMLAD
//!         sums ← sums + x · the weight's rows     as the scores of queries with keys; the first sums are the bias
//!     outputs ← requantize(sums)                  a mantissa an output, one exponent
//! ```

use super::requantize;
use crate::Mat;
use crate::arch::int8::{GROUP, Queries, query_words};
use crate::arch::{Kernel, Simd, dispatch};
use crate::error::{Error, check_len, check_most};
use crate::invariant::Promised as _;

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
        let (x, weight) = (Mat::new(x, rows, inputs)?, Mat::new(self.weight, outputs, inputs)?);
        dispatch(LinearRows { layer: self, x, weight, out });
        Ok(())
    }

    /// Outputs of sums without the bias of the outputs from `first` on.
    #[inline(always)]
    fn finish(&self, first: usize, products: impl Iterator<Item = i32>, out: &mut [i32]) {
        let bias = self.bias.get(first..).filter(|bias| !bias.is_empty()).unwrap_or(&[0; OUTPUTS]);
        let mantissas = self.mantissas.get(first..).promised();
        for (((out, product), bias), mantissa) in
            out.iter_mut().zip(products).zip(bias).zip(mantissas)
        {
            *out = requantize(product.wrapping_add(*bias), *mantissa, self.exponent);
        }
    }
}

/// Outputs whose sums are on the stack at once.
const OUTPUTS: usize = 32;

/// `out` \[rows, outputs\] ← Wx + b of each row of x \[rows, inputs\].
struct LinearRows<'a> {
    layer: &'a Linear<'a>,
    x: Mat<'a, i8>,
    weight: Mat<'a, i8>,
    out: &'a mut [i32],
}

impl Kernel for LinearRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { layer, x, weight, mut out } = self;
        let mut words = [0; query_words(1, WIDENED)];
        let mut row = 0;
        while row < x.rows() {
            let group = if x.rows() - row < GROUP { 1 } else { GROUP };
            let (of_group, rest) = out.split_at_mut_checked(group * weight.rows()).promised();
            let rows = LinearRows { layer, x: x.rows_from(row, group), weight, out: of_group };
            if group == GROUP {
                simd.call(OfRows::<GROUP> { of: rows, words: &mut words });
            } else {
                simd.call(OfRows::<1> { of: rows, words: &mut words });
            }
            (row, out) = (row + group, rest);
        }
    }
}

/// The products of `R` rows.
struct OfRows<'p, const R: usize> {
    of: LinearRows<'p>,
    words: &'p mut [i32; query_words(1, WIDENED)],
}

impl<const R: usize> Kernel for OfRows<'_, R> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, _simd: S) {
        let Self { of: LinearRows { layer, x, weight, out }, words } = self;
        let part = WIDENED / R;
        let mut products = [[0; R]; OUTPUTS];
        for start in (0..x.cols().max(1)).step_by(part) {
            let rows = x.block(0, R, start, part);
            let queries = Queries::new(core::array::from_fn(|r| rows.row(r)), words);
            let last = x.cols() <= start + part;
            for first in (0..weight.rows()).step_by(OUTPUTS) {
                let keys = weight.block(first, OUTPUTS, start, part);
                let room = keys.rows().next_multiple_of(4);
                queries.dots(keys, 0, products.get_mut(..room).promised());
                for (r, out) in (0..R).zip(out.chunks_exact_mut(weight.rows())) {
                    let out = out.get_mut(first..).promised();
                    // What earlier parts have left is in `out`.
                    if start > 0 {
                        for (out, products) in out.iter().zip(&mut products) {
                            products[r] = products[r].wrapping_add(*out);
                        }
                    }
                    let products = products.iter().map(|products| products[r]);
                    if last {
                        layer.finish(first, products, out);
                    } else {
                        out.iter_mut().zip(products).for_each(|(out, product)| *out = product);
                    }
                }
            }
        }
    }
}
