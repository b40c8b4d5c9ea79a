//! Attention, linear layers, norms and embeddings on 8-bit integers: a quarter of the memory, and on many small cores less work.
//!
//! The instructions of an attention, beside those of `f32`:
//! - On cores without an FPU it takes a sixth or less.
//! - With SMLAD it takes two thirds to three quarters: on Cortex-M4 and M7, and on M33 and M35P where `-C target-cpu` names the core.
//! - On RISC-V with F it takes 1.3 to 2.8 times as many: there it saves memory alone.
//! - On an M33 without that name it takes up to three times as many, and up to twice as many on an M52, M55 or M85 with it, where
//!   `f32` takes Helium. There it saves memory alone.
//! - On a desktop the loops are the compiler's, and serve to check what a microcontroller computes.
//!
//! Q, K, V and the output are symmetric `i8` with one scale a tensor: x = scale · integer. Everything between them are whole
//! numbers, computed exactly but for stated roundings, so the result has the same bits on every target, without exception. Scales,
//! temperature and 1/√d become whole multipliers once, in [`Attention::new`], which is a `const fn`.
//!
//! ```
//! use regard_kernels::int8::{self, Attention, Scales};
//! use regard_kernels::{Mask, Mat, MatMut, Position, Temperature};
//!
//! const SCALES: Scales = Scales { query: 0.03, key: 0.03, value: 0.02, output: 0.02 };
//! const ATTENTION: Attention<'_> = match Attention::new(SCALES, int8::default_scale(4), Temperature::ONE) {
//!     Ok(attention) => attention,
//!     Err(_) => panic!("scales are finite and positive"), // by the compiler, not in the firmware
//! };
//!
//! let q = [[127, 0, 0, 0], [0, 127, 0, 0]]; // 3.81 where there is 127
//! let v = [[100], [-50]];
//! let mut out = [[0]; 2];
//! let mut scratch = [0; int8::attention_scratch_len(2, 2, 4, 1)];
//! let causal = ATTENTION.mask(Mask::NONE.causal(Position::TopLeft));
//! causal.forward(Mat::from(&q), Mat::from(&q), Mat::from(&v), MatMut::from(&mut out), &mut scratch)?;
//! assert_eq!(out, [[100], [-50]]); // the second sees both keys, but is like the second alone
//! # Ok::<(), regard_kernels::Error>(())
//! ```
//!
//! # Method
//! 1. Scores are dot products in `i32`. From the largest of its row, a score is d ≥ 0 away; y = d · (the scales' product) ·
//!    log₂e / T in fixed point, with 28 bits after the point.
//! 2. A weight is 2^−y, from whole part and fraction of y and a polynomial of degree 3, as a 16-bit integer of which 2¹⁴ is
//!    1: the integer exponential of I-BERT (Kim et al. 2021, arXiv 2101.01321), in base 2. It is off by at most
//!    4.8e-4 · 2^−y + 2⁻¹⁴, and never rises with y. From y = 16 on it is 0.
//! 3. An output is (Σ weight · value) / Σ weight, in `i32`, times scale of value / scale of output: one division a row gives
//!    a multiplier, which rounds each output to the nearest integer (off by at most ½ + that ratio / 4096), within
//!    −128..=127. From 512 keys on a row's weights are halved until their sum is below 2²³.
//!
//! Sums of integers do not depend on their order: neither does the output on the order of the keys, nor a row on the rows
//! beside it.
//!
//! # The other layers
//! [`Embedding`], [`Norm`] and [`Linear`] are the rest of a decoder: the residual stream is of 32 bits, inputs of products and
//! weights are of 8, and [`requantize`] leads from the unit of the sums to that of the outputs. `regard_embed::int8` is the decoder
//! that consists of them. Its perplexity on the held-back texts of `story`, the model that comes with the program, is within 2 % of
//! that in floating point.
//!
#![doc = include_str!("accuracy.md")]

mod embedding;
pub(crate) mod exponent;
mod linear;
mod norm;
mod quantize;
mod ratio;
mod requantize;
mod rows;

use core::f64::consts::LOG2_E;

pub use self::embedding::Embedding;
pub use self::linear::Linear;
pub use self::norm::Norm;
pub use self::quantize::{dequantize, quantize, scale_for};
pub use self::requantize::{divide_by_power, narrow, requantize};

pub(crate) use self::exponent::Exponent;
use self::quantize::check_scale;
pub(crate) use self::ratio::Factor;
use self::ratio::Ratio;
use self::rows::scratch_len;
pub(crate) use self::rows::{Rows, halve, scalar_scratch_len};
use crate::attention::tensor_elements;
use crate::error::{Error, check_most, check_shape};
use crate::{Mask, Mat, MatMut, Temperature};

/// The real number that one unit of each tensor stands for: x = scale · integer. Scales are finite and greater than 0.
///
/// [`scale_for`] gives the one at which the largest number becomes 127. The output's is best taken from outputs that were
/// seen; that of value never clips, because an output is a mean of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scales {
    /// The scale of the queries.
    pub query: f32,
    /// The scale of the keys.
    pub key: f32,
    /// The scale of the values.
    pub value: f32,
    /// The scale of the output: more than 1/4096 of the values' scale, and at most 256 times it.
    pub output: f32,
}

/// The description of a scaled dot-product attention on 8-bit integers: the contract of [`crate::Attention`] without soft cap and
/// additive mask.
///
/// Make it once, at best as a `const`, and give it the [mask](Self::mask) of each call.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    exponent: Exponent,
    ratio: Ratio,
    mask: Mask<'a>,
}

impl<'a> Attention<'a> {
    /// The attention of tensors with these `scales`. Scores are multiplied by `softmax_scale`, mostly 1/√d_k (see
    /// [`default_scale`]), and divided by `temperature`; both limits of temperature are computed as such. No mask.
    ///
    /// # Errors
    /// [`Error::Range`] names a scale that is not finite and positive (that of softmax may be 0), or says that those of
    /// value and output are too far apart.
    ///
    /// ```
    /// use regard_kernels::{Temperature, int8};
    /// let scales = int8::Scales { query: 0.03, key: 0.03, value: 0.02, output: 0.0 };
    /// let error = int8::Attention::new(scales, 0.125, Temperature::ONE).unwrap_err();
    /// assert_eq!(error.to_string(), "the scale of the output is 0, but must be finite and greater than 0");
    /// ```
    pub const fn new(
        scales: Scales,
        softmax_scale: f32,
        temperature: Temperature,
    ) -> Result<Self, Error> {
        let Scales { query, key, value, output } = scales;
        let mut checks = [
            check_scale("the scale of query", query),
            check_scale("the scale of key", key),
            check_scale("the scale of value", value),
            check_scale("the scale of the output", output),
            Ok(()),
        ];
        if !(softmax_scale >= 0.0 && softmax_scale < f32::INFINITY) {
            let range = "finite and 0 or greater";
            checks[4] =
                Err(Error::Range { name: "the scale of softmax", value: softmax_scale, range });
        }
        let mut i = 0;
        while i < checks.len() {
            if let Err(error) = checks[i] {
                return Err(error);
            }
            i += 1;
        }
        let ratio = match Ratio::new(value as f64 / output as f64) {
            Ok(ratio) => ratio,
            Err(error) => return Err(error),
        };
        // No product of three f32 leaves the range of f64. T = 0 makes it ∞, unless it is 0 anyway.
        let per_unit = query as f64 * key as f64 * softmax_scale as f64;
        let t = if temperature.is_zero() { 0.0 } else { temperature.get() as f64 };
        let exponent = Exponent::new(if per_unit == 0.0 { 0.0 } else { per_unit * LOG2_E / t });
        Ok(Self { exponent, ratio, mask: Mask::NONE })
    }

    /// Which keys each query may see: any mask but the additive one.
    #[must_use]
    pub const fn mask(mut self, mask: Mask<'a>) -> Self {
        self.mask = mask;
        self
    }

    /// The attention's output \[n_q, d_v\] of q \[n_q, d_k\], k \[n_k, d_k\] and v \[n_k, d_v\] into `out`. `scratch` holds
    /// at least [`attention_scratch_len`] elements; what is in it does not matter. A row that may see nothing is 0.
    ///
    /// # Errors
    /// [`Error::Shape`] and [`Error::Length`] name the tensor that does not fit, [`Error::Scratch`] says how much is needed,
    /// [`Error::Range`] reports more than 2¹⁵ columns or 2¹⁷ keys, [`Error::Unsupported`] an additive mask.
    /// `out` is then unchanged.
    pub fn forward(
        &self,
        q: Mat<'_, i8>,
        k: Mat<'_, i8>,
        v: Mat<'_, i8>,
        out: MatMut<'_, i8>,
        scratch: &mut [i32],
    ) -> Result<(), Error> {
        let (n_q, d_k) = q.shape();
        let (n_k, d_v) = (k.rows(), v.cols());
        check_shape("key", k.shape(), (n_k, d_k), "as many columns as query")?;
        check_shape("value", v.shape(), (n_k, d_v), "a row for each key")?;
        check_shape("the output", out.shape(), (n_q, d_v), "queries × columns of value")?;
        // Then scores lie within ±2²⁹, and the sum of a row's weights fits in 32 bits.
        check_most("the number of columns of query", d_k, 1 << 15, "at most 32768")?;
        check_most("the number of keys", n_k, 1 << 17, "at most 131072")?;
        self.mask.check(n_q, n_k)?;
        if self.mask.has_bias() {
            return Err(Error::Unsupported { what: "an additive mask", numbers: "8-bit integers" });
        }
        let (found, needed) = (scratch.len(), attention_scratch_len(n_q, n_k, d_k, d_v));
        if found < needed {
            return Err(Error::Scratch { found, needed });
        }
        let visible = self.mask.visible(n_q, n_k);
        let rows =
            Rows { q, k, v, out, visible, exponent: self.exponent, ratio: self.ratio, scratch };
        rows.compute();
        Ok(())
    }
}

/// Elements of `i32` scratch memory that [`Attention::forward`] needs.
///
/// With g = 4 queries a group (1 where n_q < 4) and ⌈ ⌉₄ for rounding up to a multiple of 4: g × ⌈n_k⌉₄ for the scores of a
/// group. Cores with the DSP extension (Cortex-M4, M7, and those of
/// ARMv8-M that `-C target-cpu` names) need g × ⌈d_k⌉₄ / 2 more for its queries, widened to 16 bits; and for
/// 8 or more queries and up to 256 keys ⌈n_k⌉₄ / 4 × d_v for a transposed copy of the values.
#[must_use]
pub const fn attention_scratch_len(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    scratch_len(n_q, n_k, d_k, d_v)
}

/// Bytes of RAM of one attention on 8-bit integers.
///
/// Query \[n_q, d_k\], key \[n_k, d_k\], value \[n_k, d_v\] and output \[n_q, d_v\], a byte an element, and 4 bytes for each of
/// the [scratch memory](attention_scratch_len).
///
/// ```
/// const _: () = assert!(regard_kernels::int8::attention_bytes(64, 64, 32, 32) <= 20 * 1024);
/// ```
#[must_use]
pub const fn attention_bytes(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    let scratch = attention_scratch_len(n_q, n_k, d_k, d_v).saturating_mul(size_of::<i32>());
    tensor_elements(n_q, n_k, d_k, d_v).saturating_add(scratch)
}

/// 1/√d_k; 1 for vectors without elements, whose dot products are all 0.
///
/// ```
/// assert_eq!(regard_kernels::int8::default_scale(64), 0.125);
/// ```
#[must_use]
pub const fn default_scale(d_k: usize) -> f32 {
    if d_k == 0 {
        return 1.0;
    }
    let d_k = d_k as u64;
    // √(d_k · 2^shift), as exact as 32 bits can be.
    let shift = d_k.leading_zeros() & !1;
    ((1_u64 << (shift / 2)) as f64 / (d_k << shift).isqrt() as f64) as f32
}
