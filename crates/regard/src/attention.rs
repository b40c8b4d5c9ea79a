//! The description of an attention: scale, soft cap, temperature, mask and sinks.

use core::fmt;
use core::hash::{Hash, Hasher};

use regard_kernels::{Attention as Kernel, Mask as HeadMask, Temperature};

use crate::error::{Error, check_shape};
use crate::mask::{Mask, bits};

/// Scaled dot-product attention over \[batch, heads, tokens, head_dim\]. It is described once, and runs on any tensors that
/// fit.
///
/// The contract of [`regard_kernels::Attention`] says what it computes, step by step, and `docs/contract.md` in the repository also
/// tells the edge cases. Fewer key/value heads than query heads mean grouped queries (GQA, Ainslie et al. 2023): query head h uses
/// key/value head h / (heads / kv_heads).
///
/// An output row has the same bits for any number of threads, and does not depend on the other rows of the same call.
/// [`Threads`](crate::Threads) chooses the number of threads.
///
/// ```
/// use regard::{Attention, Heads, Mask, Position};
/// let (q, k, v) = ([0.0; 2 * 3 * 4], [0.0; 5 * 4], [1.0; 5 * 2]);
/// let q = Heads::new("query", &q, [1, 2, 3, 4])?; // two query heads share
/// let k = Heads::new("key", &k, [1, 1, 5, 4])?; // one key head
/// let v = Heads::new("value", &v, [1, 1, 5, 2])?;
/// let mask = Mask::NONE.causal(Position::BottomRight); // the last query stands at the last key
/// let out = Attention::new().mask(mask).forward(q, k, v)?;
/// assert_eq!(out, [1.0; 2 * 3 * 2]);
/// # Ok::<(), regard::Error>(())
/// ```
#[must_use]
#[derive(Clone, Debug, Default)]
#[doc(alias = "scaled_dot_product_attention")]
#[doc(alias = "SDPA")]
#[doc(alias = "FlashAttention")]
pub struct Attention<'a> {
    scale: Option<f32>,
    pub(crate) softcap: Option<f32>,
    pub(crate) temperature: Temperature,
    pub(crate) mask: Mask<'a>,
    sinks: Option<&'a [f32]>,
    progress: Option<Progress<'a>>,
}

/// Called with (parts done, parts in all).
#[derive(Clone, Copy)]
struct Progress<'a>(&'a (dyn Fn(usize, usize) + Sync));

impl fmt::Debug for Progress<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Progress")
    }
}

/// Hashes the description by value, with the bits of its numbers. Attentions on several machines that feed a hasher the same bytes
/// compute the same. Mask tensors count by their kind alone, because each machine has the rows of its own queries. The progress is
/// left out.
impl Hash for Attention<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { scale, softcap, temperature, mask, sinks, progress: _ } = self;
        [*scale, *softcap, Some(temperature.get())].map(|x| x.map(f32::to_bits)).hash(state);
        sinks.map(bits).hash(state);
        mask.hash(state);
    }
}

impl<'a> Attention<'a> {
    /// Scale 1/√head_dim, no soft cap, no mask, temperature 1.
    pub fn new() -> Self {
        Self::default()
    }

    /// Multiplies the dot products by `scale` instead of 1/√head_dim.
    ///
    /// ```
    /// use regard::{Attention, Heads};
    /// let x = Heads::new("x", &[2.0, 4.0], [1, 1, 2, 1])?; // two tokens of one number
    /// assert_eq!(Attention::new().scale(0.0).forward(x, x, x)?, [3.0, 3.0]); // every key counts the same: the mean
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn scale(mut self, scale: f32) -> Self {
        self.scale = Some(scale);
        self
    }

    /// Caps the scores softly at ±`cap`: cap·tanh(score / cap) (Gemma Team 2024, Gemma 2).
    ///
    /// ```
    /// use regard::{Attention, Heads, Stage};
    /// let (q, k) = ([1.0], [0.0, 1000.0]);
    /// let (q, k) = (Heads::new("query", &q, [1, 1, 1, 1])?, Heads::new("key", &k, [1, 1, 2, 1])?);
    /// assert_eq!(Attention::new().softcap(50.0).scores(Stage::Softcapped, q, k)?, [0.0, 50.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn softcap(mut self, cap: f32) -> Self {
        self.softcap = Some(cap);
        self
    }

    /// Divides the scores by `temperature` before the softmax. 0 and ∞ are exact limits: the largest score has all weight, or
    /// all scores have the same.
    ///
    /// ```
    /// use regard::{Attention, Heads, Temperature};
    /// let x = Heads::new("x", &[2.0, 4.0], [1, 1, 2, 1])?;
    /// let out = |t| Attention::new().temperature(Temperature::new(t)?).forward(x, x, x);
    /// assert_eq!(out(0.0)?, [4.0, 4.0]);
    /// assert_eq!(out(f32::INFINITY)?, [3.0, 3.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn temperature(mut self, temperature: Temperature) -> Self {
        self.temperature = temperature;
        self
    }

    /// Hides from each query the keys that `mask` hides, and adds its biases.
    ///
    /// ```
    /// use regard::{Attention, Heads, Mask};
    /// let x = Heads::new("x", &[1.0, 3.0, 8.0], [1, 1, 3, 1])?;
    /// let out = Attention::new().scale(0.0).mask(Mask::CAUSAL).forward(x, x, x)?;
    /// assert_eq!(out, [1.0, 2.0, 4.0]); // the mean of each token and those before it
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn mask(mut self, mask: Mask<'a>) -> Self {
        self.mask = mask;
        self
    }

    /// Attention sinks (Agarwal et al. 2025, gpt-oss): a learned score for each head, \[heads\], that takes part in the softmax
    /// and gives no value. A row of weights then adds up to less than 1. `docs/contract.md` says what a sink does to
    /// rows that see no key, and to results that are merged.
    ///
    /// ```
    /// use regard::{Attention, Heads};
    /// let (x, v) = (Heads::new("x", &[0.0], [1, 1, 1, 1])?, Heads::new("value", &[6.0], [1, 1, 1, 1])?);
    /// assert_eq!(Attention::new().sinks(&[0.0]).forward(x, x, v)?, [3.0]); // the score of the only key: half the weight
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn sinks(mut self, scores: &'a [f32]) -> Self {
        self.sinks = Some(scores);
        self
    }

    /// Calls `progress` with (parts done, parts in all) whenever a part is done. The call comes from the thread that has
    /// computed the part.
    ///
    /// ```
    /// use core::sync::atomic::{AtomicUsize, Ordering};
    /// use regard::{Attention, Heads, Threads};
    /// let most = AtomicUsize::new(0);
    /// let note = |done, _all| _ = most.fetch_max(done, Ordering::Relaxed);
    /// let x = Heads::new("x", &[1.0; 6], [1, 3, 2, 1])?;
    /// Threads::ONE.install(|| Attention::new().progress(&note).forward(x, x, x))?;
    /// assert_eq!(most.into_inner(), 3); // on one thread, a part is a head
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn progress(mut self, progress: &'a (dyn Fn(usize, usize) + Sync)) -> Self {
        self.progress = Some(Progress(progress));
        self
    }

    /// The kernel's description of one head, with a mask for its queries.
    pub(crate) fn describe<'m>(&self, mask: HeadMask<'m>, head: usize) -> Kernel<'m> {
        let mut kernel = Kernel::new().temperature(self.temperature).mask(mask);
        if let Some(scale) = self.scale {
            kernel = kernel.scale(scale);
        }
        if let Some(cap) = self.softcap {
            kernel = kernel.softcap(cap);
        }
        if let Some(sink) = self.sink(head) {
            kernel = kernel.sink(sink);
        }
        kernel
    }

    /// The score of a head's sink.
    pub(crate) fn sink(&self, head: usize) -> Option<f32> {
        self.sinks?.get(head).copied()
    }

    /// `Ok` if there is a sink for each head, and every number is in its range.
    pub(crate) fn check(&self, heads: usize) -> Result<(), Error> {
        if let Some(sinks) = self.sinks {
            check_shape("the sinks", &[sinks.len()], &[heads], "one a head of query")?;
        }
        // The other numbers do not depend on the head. A shape may have any number of empty heads.
        for head in 0..self.sinks.map_or(1, <[f32]>::len).max(1) {
            self.describe(HeadMask::NONE, head).check()?;
        }
        Ok(())
    }

    /// The factor for the dot products of vectors of `d_k` numbers.
    pub(crate) fn scale_for(&self, d_k: usize) -> f32 {
        self.scale.unwrap_or_else(|| if d_k == 0 { 1.0 } else { 1.0 / (d_k as f32).sqrt() })
    }

    /// Reports that `done` of `all` parts are done, if the caller has asked for it.
    pub(crate) fn report(&self, done: usize, all: usize) {
        if let Some(Progress(progress)) = self.progress {
            progress(done, all);
        }
    }
}

/// The slopes of ALiBi for a number of heads (Press et al. 2022, and its reference code).
///
/// For a power of two n they are 2^(−8h/n), h = 1 … n. For another number of heads they are those of the next lower power of
/// two, followed by every other slope of the next higher one.
///
/// ```
/// assert_eq!(regard::alibi_slopes(2), [0.0625, 0.00390625]);
/// assert_eq!(regard::alibi_slopes(3), [0.0625, 0.00390625, 0.25]);
/// ```
#[must_use]
pub fn alibi_slopes(heads: usize) -> Vec<f32> {
    let power = if heads == 0 { 0 } else { 1 << heads.ilog2() };
    let slope = |h: usize, n: usize| (-8.0 * h as f32 / n as f32).exp2();
    (1..=power)
        .map(|h| slope(h, power))
        .chain((0..heads - power).map(|i| slope(2 * i + 1, 2 * power)))
        .collect()
}
