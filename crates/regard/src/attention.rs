use core::fmt;

use regard_kernels::{Attention as Kernel, Mask, Mat, Position, Stage, Temperature, Window};

use crate::error::{Error, check_shape};
use crate::plan::{Job, Output, Plan, Shapes};
use crate::view::{check_elements, zeros};
use crate::{Element, Heads, MaskTensor, Packed, Threads, Workspace};

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
    #[must_use]
    pub fn scale(mut self, scale: f32) -> Self {
        self.scale = Some(scale);
        self
    }

    /// Caps the scores softly at ±`cap`.
    #[must_use]
    pub fn softcap(mut self, cap: f32) -> Self {
        self.softcap = Some(cap);
        self
    }

    /// What the scores are divided by before softmax.
    #[must_use]
    pub fn temperature(mut self, temperature: Temperature) -> Self {
        self.temperature = temperature;
        self
    }

    /// A query sees no key to the right of where it stands.
    #[must_use]
    pub fn causal(mut self, position: Position) -> Self {
        self.causal = Some(position);
        self
    }

    /// A query sees the keys within a window around where it stands.
    #[must_use]
    pub fn window(mut self, position: Position, window: Window) -> Self {
        self.window = Some((position, window));
        self
    }

    /// \[batch\]: the keys of each batch entry, the rest being padding.
    #[must_use]
    pub fn key_lengths(mut self, lengths: &'a [usize]) -> Self {
        self.key_lengths = Some(lengths);
        self
    }

    /// Attention with linear biases (Press et al. 2022): −slope · (how far the key is from where the query stands) is added to
    /// each score, with a slope for each head, \[heads\]: see [`alibi_slopes`](crate::alibi_slopes).
    #[must_use]
    pub fn alibi(mut self, position: Position, slopes: &'a [f32]) -> Self {
        self.alibi = Some((position, slopes));
        self
    }

    /// Attention sinks (Agarwal et al. 2025, gpt-oss): a learned score for each head, \[heads\], that takes part in the softmax
    /// and gives no value.
    #[must_use]
    pub fn sinks(mut self, scores: &'a [f32]) -> Self {
        self.sinks = Some(scores);
        self
    }

    /// A boolean or additive mask, broadcast to \[batch, heads, queries, keys\].
    #[must_use]
    pub fn mask(mut self, mask: MaskTensor<'a>) -> Self {
        self.mask = Some(mask);
        self
    }

    /// The threads to use.
    #[must_use]
    pub fn threads(mut self, threads: Threads) -> Self {
        self.threads = threads;
        self
    }

    /// Calls `progress` with (parts done, parts in all) from the threads at work, whenever a part is done.
    #[must_use]
    pub fn progress(mut self, progress: &'a (dyn Fn(usize, usize) + Sync)) -> Self {
        self.progress = Some(Progress(progress));
        self
    }

    pub(crate) fn thread_setting(&self) -> &Threads {
        &self.threads
    }

    /// The output \[batch, heads, n_q, d_v\] for `q` \[batch, heads, n_q, d_k\], `k` \[batch, kv_heads, n_k, d_k\] and
    /// `v` \[batch, kv_heads, n_k, d_v\].
    ///
    /// # Errors
    /// Names the tensor that does not fit the others.
    pub fn forward<T: Element>(&self, q: Heads<'_, T>, k: Heads<'_, T>, v: Heads<'_, T>) -> Result<Vec<f32>, Error> {
        let mut out = zeros(OUTPUT, &output_shape(q.shape(), v.shape()))?;
        self.attend(q, k, v, &mut out, None, &mut Workspace::new())?;
        Ok(out)
    }

    /// The output as [`forward`](Self::forward) gives it, and the log-sum-exp \[batch, heads, n_q\] of each row's scores
    /// (after temperature).
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_with_log_sum_exp<T: Element>(
        &self,
        q: Heads<'_, T>,
        k: Heads<'_, T>,
        v: Heads<'_, T>,
    ) -> Result<(Vec<f32>, Vec<f32>), Error> {
        let [batch, heads, n_q, _] = q.shape();
        let mut out = zeros(OUTPUT, &output_shape(q.shape(), v.shape()))?;
        let mut log_sum_exp = zeros("the log-sum-exp", &[batch, heads, n_q])?;
        self.attend(q, k, v, &mut out, Some(&mut log_sum_exp), &mut Workspace::new())?;
        Ok((out, log_sum_exp))
    }

    /// As [`forward`](Self::forward), into `out` \[batch, heads, n_q, d_v\]. With the `workspace` of an earlier call of the
    /// same shapes nothing is allocated, but for what rayon keeps a list of where there is more than one thread, and for a mask
    /// tensor that repeats over the keys or ends before them.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and [`Error::Elements`] if `out` has another number of elements.
    ///
    /// ```
    /// use regard::{Attention, Heads, Workspace};
    /// let (x, mut out, mut workspace) = ([1.0; 6], [0.0; 6], Workspace::new());
    /// for _ in 0..2 {
    ///     let x = Heads::new("x", &x, [1, 1, 3, 2])?;
    ///     Attention::new().forward_into(x, x, x, &mut out, &mut workspace)?;
    /// }
    /// assert_eq!(out, [1.0; 6]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward_into<T: Element>(
        &self,
        q: Heads<'_, T>,
        k: Heads<'_, T>,
        v: Heads<'_, T>,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        check_elements(OUTPUT, out.len(), &output_shape(q.shape(), v.shape()))?;
        self.attend(q, k, v, out, None, workspace)
    }

    fn attend<T: Element>(
        &self,
        q: Heads<'_, T>,
        k: Heads<'_, T>,
        v: Heads<'_, T>,
        out: &mut [f32],
        log_sum_exp: Option<&mut [f32]>,
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        let plan = self.plan(q, k)?;
        let [batch, kv_heads, n_k, d_k] = k.shape();
        let [_, _, _, d_v] = v.shape();
        check_shape("value", &v.shape(), &[batch, kv_heads, n_k, d_v], "the batch, heads and tokens of key")?;
        if plan.is_worth_splitting(n_k) {
            return plan.run_split((q, k, v), out, log_sum_exp, workspace);
        }
        let widened = [d_k, d_k.saturating_add(d_v)].map(|n| n.saturating_mul(T::MEMORY));
        plan.run(Output { out, cols: d_v, log_sum_exp, widened, d_v }, workspace, |kernel, job, scratch| {
            let kv_head = plan.kv_head(job.head);
            let q = q.head(job.entry, job.head)?.rows_from(job.first, job.rows);
            let (k, v) = (k.head(job.entry, kv_head)?, v.head(job.entry, kv_head)?);
            run(kernel, (q, k, v), job, scratch)
        })
    }

    /// The output \[all queries, heads, d_v\] of sequences that are packed end to end, each of which attends to itself (or,
    /// with keys and values of other lengths, to its own of those). Nothing is padded, and nothing is computed for padding.
    ///
    /// # Errors
    /// Names the tensor that does not fit the others; [`Error::Packed`] if there are key lengths or a mask tensor.
    ///
    /// ```
    /// use regard::{Attention, Packed, Position};
    /// let (x, lengths) = ([1.0, 2.0, 3.0, 4.0, 5.0], [2, 3]);
    /// let x = Packed::new("x", &x, &lengths, [1, 1])?;
    /// let out = Attention::new().scale(0.0).causal(Position::TopLeft).forward_packed(x, x, x)?;
    /// assert_eq!(out, [1.0, 1.5, 3.0, 3.5, 4.0]); // the mean of each token and those before it in its sequence
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward_packed<T: Element>(
        &self,
        q: Packed<'_, T>,
        k: Packed<'_, T>,
        v: Packed<'_, T>,
    ) -> Result<Vec<f32>, Error> {
        let ([tokens, heads, d_k], [keys, kv_heads, _], [_, _, d_v]) = (q.shape(), k.shape(), v.shape());
        check_shape("key", &k.shape(), &[keys, kv_heads, d_k], "the head_dim of query")?;
        check_shape("the lengths of key", &[k.lengths().len()], &[q.lengths().len()], "as many as of query")?;
        check_shape("the lengths of value", v.lengths(), k.lengths(), "those of key")?;
        check_shape("value", &v.shape(), &[keys, kv_heads, d_v], "the tokens and heads of key")?;
        check_heads(heads, kv_heads)?;
        self.check_of_heads(heads)?;
        for (what, given) in [("key lengths", self.key_lengths.is_some()), ("mask tensor", self.mask.is_some())] {
            if given {
                return Err(Error::Packed { what });
            }
        }
        let shapes = Shapes::Packed { n_q: q.lengths(), n_k: k.lengths() };
        let plan = Plan { attention: self, mask: None, shapes, heads, kv_heads, d_k };
        let mut out = zeros(OUTPUT, &[tokens, heads, d_v])?;
        let widened = [d_k, d_k.saturating_add(d_v)].map(|n| n.saturating_mul(T::MEMORY));
        let output = Output { out: &mut out, cols: d_v, log_sum_exp: None, widened, d_v };
        plan.run(output, &mut Workspace::new(), |kernel, job, scratch| {
            let kv_head = plan.kv_head(job.head);
            let q = q.head(job.first_query + job.first, job.rows, job.head)?;
            let k = k.head(job.first_key, job.n_k, kv_head)?;
            let v = v.head(job.first_key, job.n_k, kv_head)?;
            run(kernel, (q, k, v), job, scratch)
        })?;
        Ok(out)
    }

    /// The scores \[batch, heads, n_q, n_k\] at a `stage`.
    ///
    /// # Errors
    /// Names the tensor that does not fit the others.
    pub fn scores<T: Element>(&self, stage: Stage, q: Heads<'_, T>, k: Heads<'_, T>) -> Result<Vec<f32>, Error> {
        let plan = self.plan(q, k)?;
        let ([batch, heads, n_q, d_k], [_, _, n_k, _]) = (q.shape(), k.shape());
        let mut out = zeros("the scores", &[batch, heads, n_q, n_k])?;
        let widened = [d_k * T::MEMORY; 2];
        let output = Output { out: &mut out, cols: n_k, log_sum_exp: None, widened, d_v: 0 };
        plan.run(output, &mut Workspace::new(), |kernel, job, scratch| {
            let q = q.head(job.entry, job.head)?.rows_from(job.first, job.rows);
            let (q, scratch) = T::widened(q, scratch)?;
            let (k, scratch) = T::widened(k.head(job.entry, plan.kv_head(job.head))?, scratch)?;
            Ok(kernel.scores(stage, q, k, job.out, scratch)?)
        })?;
        Ok(out)
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
        if let Some(sink) = self.sinks.and_then(|sinks| sinks.get(head)) {
            kernel = kernel.sink(*sink);
        }
        kernel
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
    pub(crate) fn plan<T: Element>(&self, q: Heads<'_, T>, k: Heads<'_, T>) -> Result<Plan<'_>, Error> {
        let [batch, heads, n_q, d_k] = q.shape();
        let [_, kv_heads, n_k, _] = k.shape();
        check_shape("key", &k.shape(), &[batch, kv_heads, n_k, d_k], "the batch and head_dim of query")?;
        check_heads(heads, kv_heads)?;
        self.check_of_heads(heads)?;
        if let Some(lengths) = self.key_lengths {
            check_shape("the key lengths", &[lengths.len()], &[batch], "one a batch entry")?;
            if let Some((entry, found)) = lengths.iter().copied().enumerate().find(|(_, n)| *n > n_k) {
                return Err(Error::KeyLength { entry, found, keys: n_k });
            }
        }
        let longest = self.key_lengths.map_or(n_k, |lengths| lengths.iter().copied().max().unwrap_or_default());
        let mask = self.mask.map(|m| m.broadcast([batch, heads, n_q, n_k], longest)).transpose()?;
        Ok(Plan { attention: self, mask, shapes: Shapes::Batch { batch, n_q, n_k }, heads, kv_heads, d_k })
    }
}

const OUTPUT: &str = "the output";

/// \[batch, heads, n_q, d_v\].
fn output_shape([batch, heads, n_q, _]: [usize; 4], [_, _, _, d_v]: [usize; 4]) -> [usize; 4] {
    [batch, heads, n_q, d_v]
}

/// `Ok` if so many key/value heads can be shared evenly.
fn check_heads(heads: usize, kv_heads: usize) -> Result<(), Error> {
    if heads != 0 && (kv_heads == 0 || !heads.is_multiple_of(kv_heads)) {
        return Err(Error::Heads { heads: kv_heads, of: "key/value", what: "query heads", into: heads });
    }
    Ok(())
}

/// One job, whose tensors are widened first where they are not in `f32`.
fn run<T: Element>(
    kernel: &Kernel<'_>,
    (q, k, v): (Mat<'_, T>, Mat<'_, T>, Mat<'_, T>),
    job: Job<'_>,
    scratch: &mut [f32],
) -> Result<(), Error> {
    let (q, scratch) = T::widened(q, scratch)?;
    let (k, scratch) = T::widened(k, scratch)?;
    let (v, scratch) = T::widened(v, scratch)?;
    match job.log_sum_exp {
        Some(log_sum_exp) => kernel.forward_with_log_sum_exp(q, k, v, job.out, log_sum_exp, scratch)?,
        None => kernel.forward(q, k, v, job.out, scratch)?,
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
    (1..=power).map(|h| slope(h, power)).chain((0..heads - power).map(|i| slope(2 * i + 1, 2 * power))).collect()
}
