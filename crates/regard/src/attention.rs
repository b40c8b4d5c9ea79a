use core::fmt;

use regard_kernels::{Attention as Kernel, Mask, Position, Temperature, Window};

use crate::error::{Error, check_shape};
use crate::plan::{Plan, Shapes};
use crate::{Element, Heads, MaskTensor, Packed, Threads};

/// Scaled dot-product attention over \[batch, heads, tokens, head_dim\], described once and run on any tensors that fit.
///
/// What it means, step by step, is [`regard_kernels::Attention`]'s contract. Fewer key/value heads than query heads mean
/// grouped queries (GQA, Ainslie et al. 2023): query head h uses key/value head h / (heads / kv_heads).
///
/// An output row has the same bits for any number of threads, and whatever is computed beside it.
///
/// ```
/// use regard::{Attention, Heads, Position};
/// let (q, k, v) = ([0.0; 2 * 3 * 4], [0.0; 5 * 4], [1.0; 5 * 2]);
/// let q = Heads::new("query", &q, [1, 2, 3, 4])?; // two query heads share
/// let k = Heads::new("key", &k, [1, 1, 5, 4])?; // one key head
/// let v = Heads::new("value", &v, [1, 1, 5, 2])?;
/// let out = Attention::new().causal(Position::BottomRight).forward(q, k, v)?;
/// assert_eq!(out, [1.0; 2 * 3 * 2]);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Attention<'a> {
    scale: Option<f32>,
    pub(crate) softcap: Option<f32>,
    pub(crate) temperature: Temperature,
    causal: Option<Position>,
    window: Option<(Position, Window)>,
    key_lengths: Option<&'a [usize]>,
    alibi: Option<(Position, &'a [f32])>,
    sinks: Option<&'a [f32]>,
    mask: Option<MaskTensor<'a>>,
    threads: Threads,
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

impl<'a> Attention<'a> {
    /// Scale 1/√head_dim, no mask, temperature 1, the caller's threads.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What the dot products are multiplied by, instead of 1/√head_dim.
    ///
    /// ```
    /// use regard::{Attention, Heads};
    /// let x = Heads::new("x", &[2.0, 4.0], [1, 1, 2, 1])?; // two tokens of one number
    /// assert_eq!(Attention::new().scale(0.0).forward(x, x, x)?, [3.0, 3.0]); // every key counts the same: the mean
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[must_use]
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
    #[must_use]
    pub fn softcap(mut self, cap: f32) -> Self {
        self.softcap = Some(cap);
        self
    }

    /// What the scores are divided by before softmax. 0 and ∞ are exact limits: the largest score alone, and all alike.
    ///
    /// ```
    /// use regard::{Attention, Heads, Temperature};
    /// let x = Heads::new("x", &[2.0, 4.0], [1, 1, 2, 1])?;
    /// let out = |t| Attention::new().temperature(Temperature::new(t)?).forward(x, x, x);
    /// assert_eq!((out(0.0)?, out(f32::INFINITY)?), (vec![4.0, 4.0], vec![3.0, 3.0]));
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[must_use]
    pub fn temperature(mut self, temperature: Temperature) -> Self {
        self.temperature = temperature;
        self
    }

    /// A query sees no key to the right of where it stands.
    ///
    /// ```
    /// use regard::{Attention, Heads, Position};
    /// let x = Heads::new("x", &[1.0, 3.0, 8.0], [1, 1, 3, 1])?;
    /// let out = Attention::new().scale(0.0).causal(Position::TopLeft).forward(x, x, x)?;
    /// assert_eq!(out, [1.0, 2.0, 4.0]); // the mean of each token and those before it
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[must_use]
    pub fn causal(mut self, position: Position) -> Self {
        self.causal = Some(position);
        self
    }

    /// A query sees the keys within a window around where it stands (Beltagy et al. 2020, Longformer).
    ///
    /// ```
    /// use regard::{Attention, Heads, Position, Window};
    /// let x = Heads::new("x", &[1.0, 3.0, 8.0], [1, 1, 3, 1])?;
    /// let window = Window { left: Some(1), right: Some(0) };
    /// let out = Attention::new().scale(0.0).window(Position::TopLeft, window).forward(x, x, x)?;
    /// assert_eq!(out, [1.0, 2.0, 5.5]); // the mean of each token and the one before it
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[must_use]
    pub fn window(mut self, position: Position, window: Window) -> Self {
        self.window = Some((position, window));
        self
    }

    /// \[batch\]: the keys of each batch entry, the rest being padding.
    ///
    /// ```
    /// use regard::{Attention, Heads};
    /// let x = Heads::new("x", &[1.0, 3.0, 5.0, f32::NAN], [2, 1, 2, 1])?;
    /// let out = Attention::new().scale(0.0).key_lengths(&[2, 1]).forward(x, x, x)?;
    /// assert_eq!(out[..3], [2.0, 2.0, 5.0]); // the second entry has one key; its second query is padding too
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[must_use]
    pub fn key_lengths(mut self, lengths: &'a [usize]) -> Self {
        self.key_lengths = Some(lengths);
        self
    }

    /// Attention with linear biases (Press et al. 2022): −slope · (how far the key is from where the query stands) is added to
    /// each score, with a slope for each head, \[heads\]: see [`alibi_slopes`](crate::alibi_slopes).
    ///
    /// ```
    /// use regard::{Attention, Heads, Position, Stage};
    /// let (q, k) = (Heads::new("query", &[0.0], [1, 1, 1, 1])?, Heads::new("key", &[0.0; 3], [1, 1, 3, 1])?);
    /// let attention = Attention::new().alibi(Position::BottomRight, &[0.5]); // the query stands at the last key
    /// assert_eq!(attention.scores(Stage::Masked, q, k)?, [-1.0, -0.5, 0.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[must_use]
    pub fn alibi(mut self, position: Position, slopes: &'a [f32]) -> Self {
        self.alibi = Some((position, slopes));
        self
    }

    /// Attention sinks (Agarwal et al. 2025, gpt-oss): a learned score for each head, \[heads\], that takes part in the softmax
    /// and gives no value.
    ///
    /// ```
    /// use regard::{Attention, Heads};
    /// let (x, v) = (Heads::new("x", &[0.0], [1, 1, 1, 1])?, Heads::new("value", &[6.0], [1, 1, 1, 1])?);
    /// assert_eq!(Attention::new().sinks(&[0.0]).forward(x, x, v)?, [3.0]); // the score of the only key: half the weight
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[must_use]
    pub fn sinks(mut self, scores: &'a [f32]) -> Self {
        self.sinks = Some(scores);
        self
    }

    /// A boolean or additive mask, broadcast to \[batch, heads, queries, keys\].
    ///
    /// ```
    /// use regard::{Attention, Heads, MaskTensor, MaskValues};
    /// let x = Heads::new("x", &[2.0, 4.0], [1, 1, 2, 1])?;
    /// let first = MaskTensor::new(MaskValues::Allowed(&[true, false]), &[2])?; // for every query
    /// assert_eq!(Attention::new().mask(first).forward(x, x, x)?, [2.0, 2.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[must_use]
    pub fn mask(mut self, mask: MaskTensor<'a>) -> Self {
        self.mask = Some(mask);
        self
    }

    /// The threads to use. How many there are does not show in the result.
    ///
    /// ```
    /// use regard::{Attention, Heads, Threads};
    /// let x: Vec<f32> = (0..8 * 200 * 16).map(|i| (i as f32).sin()).collect();
    /// let x = Heads::new("x", &x, [1, 8, 200, 16])?;
    /// let out = |threads| Attention::new().threads(threads).forward(x, x, x);
    /// assert_eq!(out(Threads::ONE)?, out(Threads::new(2)?)?);
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[must_use]
    pub fn threads(mut self, threads: Threads) -> Self {
        self.threads = threads;
        self
    }

    /// Calls `progress` with (parts done, parts in all) from the threads at work, whenever a part is done.
    ///
    /// ```
    /// use core::sync::atomic::{AtomicUsize, Ordering};
    /// use regard::{Attention, Heads, Threads};
    /// let most = AtomicUsize::new(0);
    /// let note = |done, _all| _ = most.fetch_max(done, Ordering::Relaxed);
    /// let x = Heads::new("x", &[1.0; 6], [1, 3, 2, 1])?;
    /// Attention::new().threads(Threads::ONE).progress(&note).forward(x, x, x)?;
    /// assert_eq!(most.into_inner(), 3); // on one thread, a part is a head
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[must_use]
    pub fn progress(mut self, progress: &'a (dyn Fn(usize, usize) + Sync)) -> Self {
        self.progress = Some(Progress(progress));
        self
    }

    pub(crate) fn thread_setting(&self) -> &Threads {
        &self.threads
    }

    /// The kernel's description, with a mask for its queries.
    pub(crate) fn describe<'m>(&self, mask: Mask<'m>, head: usize) -> Kernel<'m> {
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

    /// Whether what is given for each head is there for each.
    fn check_of_heads(&self, heads: usize) -> Result<(), Error> {
        const WHY: &str = "one a head of query";
        if let Some((_, slopes)) = self.alibi {
            check_shape("the slopes of ALiBi", &[slopes.len()], &[heads], WHY)?;
        }
        if let Some(sinks) = self.sinks {
            check_shape("the sinks", &[sinks.len()], &[heads], WHY)?;
        }
        // What else may be wrong with a number does not depend on the shapes, which may have any number of empty heads.
        for head in 0..self.sinks.map_or(1, <[f32]>::len).max(1) {
            self.describe(Mask::NONE, head).check()?;
        }
        Ok(())
    }

    /// What of the mask is no tensor, for a head of an entry of the batch.
    pub(crate) fn mask_of(&self, entry: usize, head: usize) -> Mask<'a> {
        let mut mask = Mask::NONE;
        if let Some((position, slopes)) = self.alibi
            && let Some(slope) = slopes.get(head)
        {
            mask = mask.alibi(position, *slope);
        }
        if let Some(position) = self.causal {
            mask = mask.causal(position);
        }
        if let Some((position, window)) = self.window {
            mask = mask.window(position, window);
        }
        if let Some(len) = self.key_lengths.and_then(|lengths| lengths.get(entry)) {
            mask = mask.key_len(*len);
        }
        mask
    }

    /// What the dot products of vectors of `d_k` are multiplied by.
    pub(crate) fn scale_for(&self, d_k: usize) -> f32 {
        self.scale.unwrap_or_else(|| if d_k == 0 { 1.0 } else { 1.0 / (d_k as f32).sqrt() })
    }

    /// Says how many parts of all are done, to whoever wants to know.
    pub(crate) fn report(&self, done: usize, all: usize) {
        if let Some(Progress(progress)) = self.progress {
            progress(done, all);
        }
    }

    /// Checks all but the values against each other.
    pub(crate) fn plan<T: Element>(
        &self,
        q: Heads<'_, T>,
        k: Heads<'_, T>,
    ) -> Result<Plan<'_>, Error> {
        let [batch, heads, n_q, d_k] = q.shape();
        let [_, kv_heads, n_k, _] = k.shape();
        check_shape(
            "key",
            &k.shape(),
            &[batch, kv_heads, n_k, d_k],
            "the batch and head_dim of query",
        )?;
        check_heads(heads, kv_heads)?;
        self.check_of_heads(heads)?;
        if let Some(lengths) = self.key_lengths {
            check_shape("the key lengths", &[lengths.len()], &[batch], "one a batch entry")?;
            if let Some((entry, found)) =
                lengths.iter().copied().enumerate().find(|(_, n)| *n > n_k)
            {
                return Err(Error::KeyLength { entry, found, keys: n_k });
            }
        }
        let longest = self
            .key_lengths
            .map_or(n_k, |lengths| lengths.iter().copied().max().unwrap_or_default());
        let mask = self.mask.map(|m| m.broadcast([batch, heads, n_q, n_k], longest)).transpose()?;
        Ok(Plan {
            attention: self,
            mask,
            shapes: Shapes::Batch { batch, n_q, n_k },
            heads,
            kv_heads,
            d_k,
        })
    }

    /// As [`plan`](Self::plan), for packed sequences.
    pub(crate) fn plan_packed<'p, T: Element>(
        &'p self,
        q: Packed<'p, T>,
        k: Packed<'p, T>,
        v: Packed<'_, T>,
    ) -> Result<Plan<'p>, Error> {
        let ([_, heads, d_k], [keys, kv_heads, _], [_, _, d_v]) = (q.shape(), k.shape(), v.shape());
        check_shape("key", &k.shape(), &[keys, kv_heads, d_k], "the head_dim of query")?;
        check_shape(
            "the lengths of key",
            &[k.lengths().len()],
            &[q.lengths().len()],
            "as many as of query",
        )?;
        if v.lengths() != k.lengths() {
            return Err(Error::Lengths {
                found: v.lengths().to_vec(),
                expected: k.lengths().to_vec(),
            });
        }
        check_shape("value", &v.shape(), &[keys, kv_heads, d_v], "the tokens and heads of key")?;
        check_heads(heads, kv_heads)?;
        self.check_of_heads(heads)?;
        for (what, given) in
            [("key lengths", self.key_lengths.is_some()), ("mask tensor", self.mask.is_some())]
        {
            if given {
                return Err(Error::Packed { what });
            }
        }
        let shapes = Shapes::Packed { n_q: q.lengths(), n_k: k.lengths() };
        Ok(Plan { attention: self, mask: None, shapes, heads, kv_heads, d_k })
    }
}

/// `Ok` if so many key/value heads can be shared evenly.
fn check_heads(heads: usize, kv_heads: usize) -> Result<(), Error> {
    if heads != 0 && (kv_heads == 0 || !heads.is_multiple_of(kv_heads)) {
        return Err(Error::Heads {
            heads: kv_heads,
            of: "key/value",
            what: "query heads",
            into: heads,
        });
    }
    Ok(())
}

/// The slopes of ALiBi for so many heads (Press et al. 2022, and the code that came with it).
///
/// 2^(−8h/n) for h = 1 … n where n is a power of two; else those of the power of two below n, and every other one of that above
/// for the rest.
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
