//! The description of an attention, which a user composes.

use super::mask::Linked;
use super::scores::Softcap;
use crate::error::Error;
use crate::{Mask, Temperature};

/// The description of a scaled dot-product attention: scale, soft cap, mask, temperature and sink.
///
/// With Q \[n_q, d_k\], K \[n_k, d_k\] and V \[n_k, d_v\], in this order:
/// 1. scores = QKᵀ × scale, 1/√d_k unless given (Vaswani et al. 2017, equation 1);
/// 2. soft cap, where given: c·tanh(score / c);
/// 3. the additive mask, where given, then −∞ where the [mask](Mask) hides a key;
/// 4. divided by the [temperature](Temperature);
/// 5. softmax over each row, then weights · V.
///
/// `docs/contract.md` in the repository tells all edge cases: key lengths, sinks, dot products beyond `f32`, and the floating-point
/// environment of the caller. The most important ones:
///
/// A row that may see no key has zero weights, a zero output and a log-sum-exp of −∞. NaN at a hidden place does not reach the
/// output. A value at a visible place takes part even if its weight is 0, as it is for a score of −∞: NaN shows in its column
/// of that row's output, and so does ±∞, because 0·∞ is NaN. This holds for any division of the keys into parts.
///
/// The output is finite if all values have magnitudes of at most 2¹²³ / n_k. The sum of weights times values is divided only at
/// the end, and its weights are at most 2⁴, so larger values can overflow to ±∞ although their mean is finite.
///
/// [`forward`](Self::forward) is fused: it never holds more than 36 × 256 scores (the online softmax of Milakov and Gimelshein
/// 2018, tiled as in FlashAttention, Dao et al. 2022). An output row's bits depend only on its query, the keys, the values and
/// its mask, and not on other rows.
///
/// ```
/// use regard_kernels::{Attention, Mask, Mat, MatMut, Position, attention_scratch_len};
/// let (q, k) = ([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]);
/// let v = [[1.0], [3.0]];
/// let mut out = [[0.0]; 2];
/// let mut scratch = [0.0; attention_scratch_len(2, 2, 2, 1)];
/// let causal = Attention::new().mask(Mask::NONE.causal(Position::TopLeft));
/// causal.forward(Mat::from(&q), Mat::from(&k), Mat::from(&v), MatMut::from(&mut out), &mut scratch)?;
/// assert_eq!(out[0], [1.0]); // the first query sees the first key alone
/// # Ok::<(), regard_kernels::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Attention<'a> {
    pub(super) scale: Option<f32>,
    pub(super) softcap: Option<Linked<Softcap>>,
    pub(super) mask: Mask<'a>,
    pub(super) temperature: Temperature,
    pub(super) sink: Option<f32>,
}

/// The stage at which [`Attention::scores`] returns the scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Stage {
    /// QKᵀ × scale.
    Raw,
    /// After the soft cap.
    Softcapped,
    /// After the additive mask, with −∞ where a key may not be seen.
    Masked,
    /// After temperature and softmax: each row a distribution.
    Weights,
}

impl<'a> Attention<'a> {
    /// Scale 1/√d_k, no soft cap, no mask, temperature 1.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            scale: None,
            softcap: None,
            mask: Mask::NONE,
            temperature: Temperature::ONE,
            sink: None,
        }
    }

    /// Multiplies the dot products by `scale` instead of 1/√d_k.
    #[must_use]
    pub const fn scale(mut self, scale: f32) -> Self {
        self.scale = Some(scale);
        self
    }

    /// Caps the scores softly at ±`cap`: cap·tanh(score / cap). A cap is finite and at least 2⁻¹²⁶, so that its reciprocal is
    /// finite.
    #[must_use]
    pub const fn softcap(mut self, cap: f32) -> Self {
        self.softcap = Some(Linked::new(Softcap(cap)));
        self
    }

    /// Hides from each query the keys that `mask` hides, and adds its biases.
    #[must_use]
    pub const fn mask(mut self, mask: Mask<'a>) -> Self {
        self.mask = mask;
        self
    }

    /// Divides the scores by `temperature` before the softmax.
    #[must_use]
    pub const fn temperature(mut self, temperature: Temperature) -> Self {
        self.temperature = temperature;
        self
    }

    /// Adds an attention sink: one more key with this score for every query, always visible, whose value
    /// is 0 (Agarwal et al. 2025, gpt-oss; Xiao et al. 2023, arXiv 2309.17453). Scale, soft cap and mask
    /// do not apply to it; the temperature does, and the log-sum-exp includes it. The other weights of a row add up to less than 1.
    ///
    /// ```
    /// use regard_kernels::{Attention, Mat, MatMut, attention_scratch_len};
    /// let (q, k, v, mut out) = ([[1.0]], [[0.0]], [[4.0]], [[0.0]]);
    /// let mut scratch = [0.0; attention_scratch_len(1, 1, 1, 1)];
    /// let (q, k, v) = (Mat::from(&q), Mat::from(&k), Mat::from(&v));
    /// Attention::new().sink(0.0).forward(q, k, v, MatMut::from(&mut out), &mut scratch)?;
    /// assert_eq!(out, [[2.0]]); // the sink, whose score is that of the key, took one half
    /// # Ok::<(), regard_kernels::Error>(())
    /// ```
    #[must_use]
    pub const fn sink(mut self, score: f32) -> Self {
        self.sink = Some(score);
        self
    }

    /// Whether scale, soft cap and sink are usable numbers. Every call checks this along with the shapes.
    ///
    /// # Errors
    /// [`Error::Range`] names the number that is not.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(scale) = self.scale
            && !scale.is_finite()
        {
            return Err(Error::Range { name: "scale", value: scale, range: "finite" });
        }
        if let Some(sink) = self.sink
            && (sink.is_nan() || sink == f32::INFINITY)
        {
            return Err(Error::Range {
                name: "the sink's score",
                value: sink,
                range: "less than ∞",
            });
        }
        match self.softcap.map(|softcap| softcap.step.0) {
            // The reciprocal of a smaller cap may be infinite.
            Some(c) if !(c >= f32::MIN_POSITIVE && c.is_finite()) => {
                Err(Error::Range {
                    name: "soft cap", value: c, range: "finite and at least 2⁻¹²⁶"
                })
            }
            _ => Ok(()),
        }
    }
}
