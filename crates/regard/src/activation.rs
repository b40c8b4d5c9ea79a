use regard_kernels::{gelu, gelu_tanh, relu, silu, tanh, with_default_environment};

use crate::Threads;

/// The activation function of a feed-forward layer's hidden features, applied element by element.
///
/// ```
/// use regard::Activation;
/// let of_minus_one = |activation: Activation| {
///     let mut x = [-1.0];
///     activation.apply(&mut x);
///     (x[0] * 1000.0_f32).round() / 1000.0
/// };
/// let all = [
///     Activation::Relu,
///     Activation::Gelu,
///     Activation::GeluTanh,
///     Activation::QuickGelu,
///     Activation::Silu,
///     Activation::Tanh,
///     Activation::ReluSquared,
/// ];
/// assert_eq!(all.map(of_minus_one), [0.0, -0.159, -0.159, -0.154, -0.269, -0.762, 0.0]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Activation {
    /// max(x, 0): Vaswani et al. 2017, equation 2.
    Relu,
    /// x·Φ(x), with the normal distribution Φ (Hendrycks and Gimpel 2016): BERT.
    Gelu,
    /// GELU's tanh form: GPT-2, where it is called `gelu_new`.
    GeluTanh,
    /// x·σ(1.702x), GELU's sigmoid form (Hendrycks and Gimpel 2016, section 2): CLIP, where it is called `quick_gelu`. It is
    /// computed as silu(1.702x)/1.702, which is infinite for x above 1.9·10³⁸.
    QuickGelu,
    /// x·σ(x), also called swish (Elfwing et al. 2017): Llama, in a gated layer (SwiGLU, Shazeer 2020).
    Silu,
    /// tanh(x): BERT's pooler.
    Tanh,
    /// max(x, 0)² (So et al. 2021).
    ReluSquared,
}

impl Activation {
    /// x ← f(x) for all elements, in parallel if there are many.
    ///
    /// ```
    /// use regard::Activation;
    /// let mut x = [-1.0, 0.0, 1.0];
    /// Activation::Gelu.apply(&mut x);
    /// assert!((x[0] + 0.1587).abs() < 1e-4 && x[1] == 0.0 && (x[2] - 0.8413).abs() < 1e-4);
    /// ```
    pub fn apply(self, x: &mut [f32]) {
        /// The number of elements that stay in the nearest cache.
        const PART: usize = 4096;
        /// The number of multiply-adds that take as long as one element.
        const WORK: usize = 16;
        let work = x.len().saturating_mul(WORK);
        let parts = x.chunks_mut(PART);
        let done = Threads::current().for_each(parts, work, 0, |_, part| {
            self.apply_here(part);
            Ok(())
        });
        debug_assert!(done.is_ok(), "only memory fails, and none is asked for: {done:?}");
    }

    /// [`apply`](Self::apply) on this thread alone.
    pub(crate) fn apply_here(self, x: &mut [f32]) {
        match self {
            Self::Relu => relu(x),
            Self::Gelu => gelu(x),
            Self::GeluTanh => gelu_tanh(x),
            Self::QuickGelu => with_default_environment(|| {
                const FACTOR: f32 = 1.702;
                for x in &mut *x {
                    *x *= FACTOR;
                }
                silu(x);
                for x in x {
                    *x *= 1.0 / FACTOR;
                }
            }),
            Self::Silu => silu(x),
            Self::Tanh => tanh(x),
            Self::ReluSquared => {
                with_default_environment(|| {
                    for x in x {
                        *x = x.max(0.0) * x.max(0.0);
                    }
                });
            }
        }
    }
}
