//! Attention on `f32` tensors with integers inside, for cores without an FPU: a tenth to a third of the instructions of the `f32`
//! kernels.
//!
//! Such a core computes each operation on floats by a function of fifty instructions or more. Here the numbers of a query, those
//! of all keys and those of all values share one exponent each, a block floating point (Wilkinson 1963, *Rounding Errors in
//! Algebraic Processes*): x = m · 2^(e − 15) with an integer m of 15 bits and a sign, and 2^e above the largest magnitude of the
//! block. Products and sums are then those of integers of 32 bits. What remains for floats is one division a query and one
//! multiplication an output.
//!
//! The bits are the same on every target, without exception. Where there is an FPU or vectors, [`crate::Attention`] is faster.
//!
//! ```
//! use regard_kernels::block_floating_point::{Attention, attention_scratch_len};
//! use regard_kernels::{Error, Mask, Mat, MatMut, Position, Temperature, int8};
//!
//! const ATTENTION: Attention<'_> = match Attention::new(int8::default_scale(4), Temperature::ONE) {
//!     Ok(attention) => attention.mask(Mask::NONE.causal(Position::TopLeft)),
//!     Err(_) => panic!("the scale is finite and not negative"), // by the compiler, not in the firmware
//! };
//!
//! let q = [[4.0, 0.0, 0.0, 0.0], [0.0, 4.0, 0.0, 0.0]];
//! let v = [[1.0], [-0.5]];
//! let mut out = [[0.0]; 2];
//! let mut scratch = [0; attention_scratch_len(2, 2, 4, 1)];
//! ATTENTION.forward(Mat::from(&q), Mat::from(&q), Mat::from(&v), MatMut::from(&mut out), &mut scratch)?;
//! let second = (f32::exp(-8.0) - 0.5) / (f32::exp(-8.0) + 1.0); // the softmax of 0 and 4 · 4 / √4
//! assert!((out[0][0] - 1.0).abs() < 1e-4 && (out[1][0] - second).abs() < 1e-4);
//! # Ok::<(), Error>(())
//! ```
//!
//! # Method
//! For each group of four queries, which share the conversion of a key or a value:
//! 1. A score is Σ (q · k) >> s over pairs of columns, in `i32`; s = ⌈log₂⌈d_k / 2⌉⌉ leaves room for the sum. From the largest of
//!    its row, a score is a distance ≥ 0 away; y = distance · log₂e · scale / T, with 24 bits after the point.
//! 2. A weight is 2^−y = p · 2^−n, with the whole part n of y and a p of 16 bits from (½, 1]: a table of 2^(−i / 16) and a
//!    polynomial of degree 2. Small weights are thus as exact as large ones. Weights below 2⁻³² are 0, the largest being 1.
//! 3. An output is Σ (p · v) >> (n + t) in `i32`, where 2^t is at least the sum of the row's weights, times a float that stands for
//!    their sum and for the values' unit.
//!
//! # Accuracy
//! With Q, K and V the largest magnitudes of a query, of the keys and of the values that are seen, an output is off by at most
//!
//! > V · 2⁻¹³ · (1 + 1.1 · A), A = d_k · Q · K · scale / T, up to 1024 columns and 4096 keys, where A ≤ 16.
//!
//! A is the largest score that such numbers can have, so the bound is far away where scores are small sums of large products.
//! It follows from four parts; the unit of a block, 2^(e − 15), is at most 2⁻¹⁴ of its largest magnitude:
//! - q and k are rounded by at most 2⁻¹⁵ · Q and 2⁻¹⁵ · K, and the shifts of a score drop less than ½ d_k · 2^s units of the
//!   products. Together they move a score by less than ε = 1.04 · 2⁻¹⁴ · A.
//! - A weight's relative error is η < 2⁻¹⁵: a test tries the fractions of y.
//! - Weights that are off by factors up to 1 + δ = e^ε · (1 + η) move a mean of values by at most 2δ / (1 − δ) · V.
//! - Values are rounded by at most 2⁻¹⁵ · V, and the shifts of a sum drop less than n_k · 2⁻²⁸ · V.
//!
#![doc = include_str!("accuracy.md")]
//!
//! A block's largest magnitude counts as at least 2⁻⁶³: smaller numbers are multiples of 2⁻⁷⁷, subnormal ones 0.

mod block;
mod decay;
mod rows;

use self::block::Block;
use self::decay::Decay;
use self::rows::Rows;
use crate::attention::{Limits, Shapes, tensor_elements};
use crate::error::Error;
use crate::{Mask, Mat, MatMut, Temperature};

/// The description of a scaled dot-product attention in block floating point: the contract of [`crate::Attention`] without
/// soft cap, sink and additive mask, for finite numbers.
///
/// Make it once, at best as a `const`, and give it the [mask](Self::mask) of each call.
#[derive(Clone, Copy, Debug)]
pub struct Attention<'a> {
    decay: Decay,
    mask: Mask<'a>,
}

/// What is said of 32 bits in `rows` holds up to here.
const LIMITS: Limits = Limits {
    numbers: "block floating point",
    columns: (1 << 15, "at most 32768"),
    keys: (1 << 15, "at most 32768"),
};

impl<'a> Attention<'a> {
    /// The attention whose scores are multiplied by `softmax_scale`, mostly 1/√d_k (see
    /// [`default_scale`](crate::int8::default_scale)), and divided by `temperature`; both limits of temperature are computed as such,
    /// with scores tied that differ by less than their rounding. No mask.
    ///
    /// # Errors
    /// [`Error::Range`] for a scale that is not finite or less than 0.
    ///
    /// ```
    /// use regard_kernels::{Temperature, block_floating_point::Attention};
    /// let error = Attention::new(-1.0, Temperature::ONE).unwrap_err();
    /// assert_eq!(error.to_string(), "the scale of softmax is -1, but must be finite and 0 or greater");
    /// ```
    pub const fn new(softmax_scale: f32, temperature: Temperature) -> Result<Self, Error> {
        if !(softmax_scale >= 0.0 && softmax_scale < f32::INFINITY) {
            let range = "finite and 0 or greater";
            return Err(Error::Range { name: "the scale of softmax", value: softmax_scale, range });
        }
        Ok(Self { decay: Decay::new(softmax_scale, temperature), mask: Mask::NONE })
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
    /// [`Error::Unsupported`] reports an additive mask. [`Error::Range`] reports more than 2¹⁵ columns of query or keys, and names
    /// the tensor with a number that is not finite: a query, or a key or value that some query sees by its position.
    /// `out` is then unchanged.
    ///
    /// ```
    /// use regard_kernels::block_floating_point::{Attention, attention_scratch_len};
    /// use regard_kernels::{Mat, MatMut, Temperature};
    /// let (x, mut out) = ([[f32::NAN]], [[7.0]]);
    /// let mut scratch = [0; attention_scratch_len(1, 1, 1, 1)];
    /// let attention = Attention::new(1.0, Temperature::ONE)?;
    /// let (x, out) = (Mat::from(&x), MatMut::from(&mut out));
    /// let error = attention.forward(x, x, x, out, &mut scratch).unwrap_err();
    /// assert_eq!(error.to_string(), "a number of query is NaN, but must be finite");
    /// # Ok::<(), regard_kernels::Error>(())
    /// ```
    pub fn forward(
        &self,
        q: Mat<'_>,
        k: Mat<'_>,
        v: Mat<'_>,
        out: MatMut<'_>,
        scratch: &mut [i32],
    ) -> Result<(), Error> {
        let (n_q, n_k) = (q.rows(), k.rows());
        let shapes = Shapes { q: q.shape(), k: k.shape(), v: v.shape(), out: out.shape() };
        LIMITS.check(&shapes, &self.mask, scratch.len(), attention_scratch_len)?;
        let visible = self.mask.visible(n_q, n_k);
        let seen = if n_q == 0 { 0..0 } else { visible.range_of_rows(0, n_q).0 };
        Block::of("a number of query", q)?;
        let key = Block::of("a number of key", k.rows_from(seen.start, seen.len()))?;
        let value = Block::of("a number of value", v.rows_from(seen.start, seen.len()))?;
        Rows { q, k, v, out, visible, decay: self.decay, key, value, scratch }.compute();
        Ok(())
    }
}

/// Elements of `i32` scratch memory that [`Attention::forward`] needs, on every target.
///
/// With g = min(n_q, 4) queries a group and d the larger of d_k and d_v, rounded up to a multiple of 4: g × n_k for the weights
/// of a group, g × d for its queries and then its sums, and d for a key or a value.
#[must_use]
pub const fn attention_scratch_len(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    rows::scratch_len(n_q, n_k, d_k, d_v)
}

/// Bytes of RAM of one attention in block floating point.
///
/// Query \[n_q, d_k\], key \[n_k, d_k\], value \[n_k, d_v\], output \[n_q, d_v\] and the
/// [scratch memory](attention_scratch_len), 4 bytes an element.
///
/// ```
/// const _: () = assert!(regard_kernels::block_floating_point::attention_bytes(32, 32, 32, 32) <= 18 * 1024);
/// ```
#[must_use]
pub const fn attention_bytes(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    tensor_elements(n_q, n_k, d_k, d_v)
        .saturating_add(attention_scratch_len(n_q, n_k, d_k, d_v))
        .saturating_mul(size_of::<f32>())
}
