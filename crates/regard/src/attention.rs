use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

use regard_kernels::{Attention as Kernel, Mask, MatMut, Position, Stage, Temperature, Window, attention_scratch_len};

use crate::error::{Error, check_shape};
use crate::mask::Broadcast;
use crate::view::{saturating_product, zeros};
use crate::{Heads, MaskTensor, Threads};

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
    softcap: Option<f32>,
    temperature: Temperature,
    causal: Option<Position>,
    window: Option<(Position, Window)>,
    key_lengths: Option<&'a [usize]>,
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
    pub fn forward(&self, q: Heads<'_>, k: Heads<'_>, v: Heads<'_>) -> Result<Vec<f32>, Error> {
        Ok(self.attend(q, k, v, false)?.0)
    }

    /// The output as [`forward`](Self::forward) gives it, and the log-sum-exp \[batch, heads, n_q\] of each row's scores
    /// (after temperature).
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_with_log_sum_exp(
        &self,
        q: Heads<'_>,
        k: Heads<'_>,
        v: Heads<'_>,
    ) -> Result<(Vec<f32>, Vec<f32>), Error> {
        self.attend(q, k, v, true)
    }

    /// The output, and the log-sum-exp: empty if that is not wanted.
    fn attend(
        &self,
        q: Heads<'_>,
        k: Heads<'_>,
        v: Heads<'_>,
        log_sum_exp: bool,
    ) -> Result<(Vec<f32>, Vec<f32>), Error> {
        let plan = self.plan(q, k)?;
        let [batch, kv_heads, n_k, _] = k.shape();
        let [_, _, _, d_v] = v.shape();
        check_shape("value", &v.shape(), &[batch, kv_heads, n_k, d_v], "the batch, heads and tokens of key")?;
        plan.run("the output", d_v, d_v, log_sum_exp, |kernel, job, scratch| {
            let kv_head = plan.kv_head(job.head);
            let out = MatMut::new(job.out, job.rows, d_v)?;
            let q = q.head(job.entry, job.head)?.rows_from(job.first, job.rows);
            let (k, v) = (k.head(job.entry, kv_head)?, v.head(job.entry, kv_head)?);
            match job.log_sum_exp {
                Some(log_sum_exp) => kernel.forward_with_log_sum_exp(q, k, v, out, log_sum_exp, scratch)?,
                None => kernel.forward(q, k, v, out, scratch)?,
            }
            Ok(())
        })
    }

    /// The scores \[batch, heads, n_q, n_k\] at a `stage`.
    ///
    /// # Errors
    /// Names the tensor that does not fit the others.
    pub fn scores(&self, stage: Stage, q: Heads<'_>, k: Heads<'_>) -> Result<Vec<f32>, Error> {
        let plan = self.plan(q, k)?;
        let [_, _, n_k, _] = k.shape();
        let (scores, _) = plan.run("the scores", n_k, 0, false, |kernel, job, scratch| {
            let out = MatMut::new(job.out, job.rows, n_k)?;
            let q = q.head(job.entry, job.head)?.rows_from(job.first, job.rows);
            kernel.scores(stage, q, k.head(job.entry, plan.kv_head(job.head))?, out, scratch)?;
            Ok(())
        })?;
        Ok(scores)
    }

    /// The kernel's description, with a mask for its queries.
    fn describe<'m>(&self, mask: Mask<'m>) -> Kernel<'m> {
        let mut kernel = Kernel::new().temperature(self.temperature).mask(mask);
        if let Some(scale) = self.scale {
            kernel = kernel.scale(scale);
        }
        if let Some(cap) = self.softcap {
            kernel = kernel.softcap(cap);
        }
        kernel
    }

    /// Checks all but the values against each other.
    fn plan(&self, q: Heads<'_>, k: Heads<'_>) -> Result<Plan<'_>, Error> {
        let [batch, heads, n_q, d_k] = q.shape();
        let [_, kv_heads, n_k, _] = k.shape();
        check_shape("key", &k.shape(), &[batch, kv_heads, n_k, d_k], "the batch and head_dim of query")?;
        if heads != 0 && (kv_heads == 0 || !heads.is_multiple_of(kv_heads)) {
            return Err(Error::Heads { heads: kv_heads, of: "key/value", what: "query heads", into: heads });
        }
        if let Some(lengths) = self.key_lengths {
            check_shape("the key lengths", &[lengths.len()], &[batch], "one a batch entry")?;
            if let Some((entry, found)) = lengths.iter().copied().enumerate().find(|(_, n)| *n > n_k) {
                return Err(Error::KeyLength { entry, found, keys: n_k });
            }
        }
        self.describe(Mask::NONE).check()?;
        let mask = self.mask.map(|m| m.broadcast([batch, heads, n_q, n_k])).transpose()?;
        Ok(Plan { attention: self, mask, batch, heads, kv_heads, n_q, n_k, d_k })
    }
}

/// An attention that fits its tensors.
struct Plan<'a> {
    attention: &'a Attention<'a>,
    mask: Option<Broadcast<'a>>,
    batch: usize,
    heads: usize,
    kv_heads: usize,
    n_q: usize,
    n_k: usize,
    d_k: usize,
}

/// Some queries of one head, and their rows of the result.
struct Job<'o> {
    entry: usize,
    head: usize,
    first: usize,
    rows: usize,
    out: &'o mut [f32],
    log_sum_exp: Option<&'o mut [f32]>,
}

impl Plan<'_> {
    fn kv_head(&self, head: usize) -> usize {
        head / (self.heads / self.kv_heads)
    }

    /// Runs `each` over blocks of queries, in parallel, and returns the result \[batch, heads, n_q, cols\] and the
    /// log-sum-exp \[batch, heads, n_q\], or nothing if that is not wanted.
    fn run(
        &self,
        result: &'static str,
        cols: usize,
        d_v: usize,
        log_sum_exp: bool,
        each: impl Fn(&Kernel<'_>, Job<'_>, &mut [f32]) -> Result<(), Error> + Sync,
    ) -> Result<(Vec<f32>, Vec<f32>), Error> {
        let (batch, heads, n_q) = (self.batch, self.heads, self.n_q);
        let mut out = zeros(result, &[batch, heads, n_q, cols])?;
        let mut sums = if log_sum_exp { zeros("the log-sum-exp", &[batch, heads, n_q])? } else { Vec::new() };
        if out.is_empty() && sums.is_empty() {
            return Ok((out, sums)); // however many rows of nothing there are
        }
        let multiply_adds = saturating_product(&[batch, heads, n_q, self.n_k, self.d_k.saturating_add(d_v)]);
        let block = self.block(self.attention.threads.helpers(multiply_adds));
        let mut jobs = Vec::new();
        let (mut out_rest, mut sums_rest) = (out.as_mut_slice(), sums.as_mut_slice());
        for (entry, head) in (0..batch).flat_map(|entry| (0..heads).map(move |head| (entry, head))) {
            for first in (0..n_q).step_by(block) {
                let rows = block.min(n_q - first);
                let out = out_rest.split_off_mut(..rows * cols).unwrap_or_default();
                let log_sum_exp = if log_sum_exp { sums_rest.split_off_mut(..rows) } else { None };
                jobs.push(Job { entry, head, first, rows, out, log_sum_exp });
            }
        }
        let scratch = attention_scratch_len(block.min(n_q), self.n_k, self.d_k, d_v);
        let (done, all) = (AtomicUsize::new(0), jobs.len());
        self.attention.threads.for_each(jobs, multiply_adds, scratch, |scratch, job| {
            let kernel = self.kernel(&job)?;
            each(&kernel, job, scratch)?;
            if let Some(Progress(progress)) = self.attention.progress {
                progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
            }
            Ok(())
        })?;
        Ok((out, sums))
    }

    /// Queries a block: whole heads on one thread; else parts of them, so many that no thread waits long for the last one.
    /// Each block transposes the keys anew, so it is not small.
    fn block(&self, helpers: usize) -> usize {
        const SMALLEST: usize = 96;
        if helpers == 0 {
            return self.n_q.max(1);
        }
        let heads = saturating_product(&[self.batch, self.heads]).max(1);
        self.n_q.div_ceil((8 * (helpers + 1)).div_ceil(heads)).next_multiple_of(SMALLEST / 4).max(SMALLEST)
    }

    /// The kernel's description for one job.
    fn kernel(&self, job: &Job<'_>) -> Result<Kernel<'_>, Error> {
        let attention = self.attention;
        let mut mask = Mask::NONE;
        if let Some(position) = attention.causal {
            mask = mask.causal(position);
        }
        if let Some((position, window)) = attention.window {
            mask = mask.window(position, window);
        }
        if let Some(len) = attention.key_lengths.and_then(|lengths| lengths.get(job.entry)) {
            mask = mask.key_len(*len);
        }
        if let Some(tensor) = &self.mask {
            mask = tensor.add_to(mask, job.entry, job.head, self.n_q)?;
        }
        Ok(attention.describe(mask.rows(job.first, job.rows, self.n_q, self.n_k)))
    }
}
