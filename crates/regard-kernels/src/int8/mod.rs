//! Attention, linear layers, norms and embeddings on 8-bit integers. They take a quarter of the memory of `f32`, and less work
//! on many small cores.
//!
//! The instructions of an attention, compared with `f32`:
//! - A core without an FPU takes a sixth or less.
//! - A core with SMLAD takes two thirds to three quarters: Cortex-M4 and M7, and M33 and M35P if `-C target-cpu` names the
//!   core.
//! - RISC-V with F takes 1.3 to 2.8 times as many. There 8 bits only save memory.
//! - An M33 without that name takes up to three times as many. An M52, M55 or M85 with it takes up to twice as many, because
//!   `f32` uses Helium there. On these cores 8 bits only save memory.
//! - On a desktop the loops are plain Rust, compiled for the vectors of each tier. They serve to check the results of a
//!   microcontroller.
//!
//! Q, K, V and the output are symmetric `i8` with one scale for each tensor: x = scale · integer. All numbers between them are
//! integers, and are exact but for the roundings that are stated below. So the result has the same bits on every target.
//! [`Attention::new`], which is a `const fn`, turns the scales, the temperature and 1/√d into integer factors once.
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
//! 1. Scores are dot products in `i32`. With the distance d ≥ 0 of a score from the largest of its row, y = d · (scale of query
//!    · scale of key) · log₂e / T, in fixed point with 28 bits after the point.
//! 2. A weight is 2^−y. It is computed from the whole part and the fraction of y by a polynomial of degree 3, as a 16-bit
//!    integer in units of 2⁻¹⁴. This is the integer exponential of I-BERT (Kim et al. 2021, arXiv 2101.01321) in base 2. Its
//!    error is at most 4.8e-4 · 2^−y + 2⁻¹⁴, and it never rises with y. From y = 16 on the weight is 0.
//! 3. An output is (Σ weight · value) / Σ weight, in `i32`, times scale of value / scale of output. One division for each row
//!    gives a factor, which rounds each output to the nearest integer within −128..=127. The error is at most ½ + that ratio of
//!    scales / 4096. From 512 keys on a row's weights are halved until their sum is below 2²³.
//!
//! Sums of integers do not depend on their order. So the output does not depend on the order of the keys, and a row does not
//! depend on other rows.
//!
//! # The other layers
//! [`Embedding`], [`Norm`] and [`Linear`] are the other layers of a decoder. The residual stream has 32 bits, and the inputs of
//! products and the weights have 8. [`requantize`] converts from the unit of the sums to that of the outputs.
//! `regard_embed::int8` is the decoder that consists of these layers. On the held-out texts of `story`, the model that comes
//! with the program, its perplexity is within 2 % of the perplexity in floating point.
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
use self::ratio::Ratio;
use self::rows::scratch_len;
pub(crate) use self::rows::{Rows, scalar_scratch_len};
use crate::arch::dispatch;
use crate::attention::tensor_elements;
use crate::error::{Error, check_most, check_shape};
use crate::{Mask, Mat, MatMut, Temperature};

/// The real number that one unit of each tensor stands for: x = scale · integer. Scales are finite and greater than 0.
///
/// [`scale_for`] gives the scale at which the largest number becomes 127. The scale of the output is best taken from outputs of
/// real inputs. With the scale of the values the output is never clipped, because it is a mean of values.
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
/// Make it once, if possible as a `const`, and give it the [mask](Self::mask) of each call.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    exponent: Exponent,
    ratio: Ratio,
    mask: Mask<'a>,
}

impl<'a> Attention<'a> {
    /// The attention of tensors with these `scales`. Scores are multiplied by `softmax_scale`, mostly 1/√d_k (see
    /// [`default_scale`]), and divided by `temperature`; both limits of temperature are computed as such. There is no mask.
    ///
    /// # Errors
    /// [`Error::Range`] names a scale that is not finite and positive (that of softmax may be 0), or says that the scales of
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
        // No product of three f32 leaves the range of f64. T = 0 makes the quotient ∞, unless the product is 0.
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

    /// The attention's output \[n_q, d_v\] of q \[n_q, d_k\], k \[n_k, d_k\] and v \[n_k, d_v\] into `out`. `scratch` holds at
    /// least [`attention_scratch_len`] elements, of any values. The output of a row that may see no key is 0.
    ///
    /// # Errors
    /// [`Error::Shape`] and [`Error::Length`] name the tensor that does not fit. [`Error::Scratch`] says how many elements are
    /// needed. [`Error::Range`] reports more than 2¹⁵ columns or 2¹⁷ keys, and [`Error::Unsupported`] an additive mask. `out`
    /// is then unchanged.
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
        // With these limits scores lie within ±2²⁹, and the sum of a row's weights fits in 32 bits.
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
        dispatch(rows);
        Ok(())
    }
}

/// Elements of `i32` scratch memory that [`Attention::forward`] needs.
///
/// With g = 4 queries in a group (1 if n_q < 4) and ⌈ ⌉₄ for rounding up to a multiple of 4, this is g × ⌈n_k⌉₄ for the scores
/// of a group. Cores with the DSP extension (Cortex-M4, M7, and those of ARMv8-M that `-C target-cpu` names) need g × ⌈d_k⌉₄ /
/// 2 more for the group's queries, widened to 16 bits. For 8 or more queries and up to 256 keys they need ⌈n_k⌉₄ / 4 × d_v for
/// a transposed copy of the values.
#[must_use]
pub const fn attention_scratch_len(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    scratch_len(n_q, n_k, d_k, d_v)
}

/// Bytes of RAM of one attention on 8-bit integers.
///
/// Query \[n_q, d_k\], key \[n_k, d_k\], value \[n_k, d_v\] and output \[n_q, d_v\] take a byte for each element, and the
/// [scratch memory](attention_scratch_len) takes 4 bytes for each.
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
    // √(d_k · 2^shift), to 32 significant bits.
    let shift = d_k.leading_zeros() & !1;
    ((1_u64 << (shift / 2)) as f64 / (d_k << shift).isqrt() as f64) as f32
}
