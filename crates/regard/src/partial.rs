//! An attention whose keys arrive a chunk at a time, from a file or from other machines.
//!
//! ```text
//! P ← no key seen              for each query: output, largest score, sum of weights
//! for each chunk of keys, in order:
//!     for each batch entry, head and block of queries      in parallel
//!         C ← kernel(Q, keys, values)                      in scratch memory
//!         P ← P merged with C
//! output ← P / sums
//! ```
//!
//! [`Attention::forward`] takes the same steps when all keys are there, so the bits are the same.

use core::ops::Range;

use regard_kernels::{Attention as Kernel, MatMut};

use crate::error::{Error, check_place, check_shape};
use crate::forward::widened;
use crate::plan::{Block, Job, Output, Part, Plan};
use crate::view::{check_elements, zeros};
use crate::{Attention, Element, Heads, Tensor};

/// [`regard_kernels::Partial`] for all heads of a batch: the result for some queries over the keys so far.
///
/// If each call adds the keys and values of [`CHUNK_KEYS`](crate::CHUNK_KEYS) tokens, in order, the output has the bits of
/// [`Attention::forward`]. Chunks that no query [sees](Self::sees) may be left out.
///
/// ```
/// use regard::{Attention, CHUNK_KEYS, Heads, Mask};
/// let (n, first) = (CHUNK_KEYS + 2, CHUNK_KEYS);
/// let x: Vec<f32> = (0..n).map(|i| (i as f32).sin()).collect();
/// let tokens = |range: core::ops::Range<usize>| Heads::new("x", &x[range.clone()], [1, 1, range.len(), 1]);
/// let attention = Attention::new().mask(Mask::CAUSAL);
///
/// // The last three of n queries, and n keys in two chunks:
/// let queries = [n - 3..n];
/// let mut partial = attention.partial(tokens(n - 3..n)?, &queries, [n, n], 1)?;
/// partial.add(0, tokens(0..first)?, tokens(0..first)?)?;
/// partial.add(first, tokens(first..n)?, tokens(first..n)?)?;
/// let (out, _log_sum_exp) = partial.finish()?;
///
/// let all = tokens(0..n)?;
/// assert_eq!(out.as_slice(), &attention.forward(all, all, all)?.as_slice()[n - 3..]);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Debug)]
pub struct Partial<'a, Q = f32> {
    attention: &'a Attention<'a>,
    q: Heads<'a, Q>,
    queries: &'a [Range<usize>],
    all: [usize; 2],
    /// Sums of weights times values, which are not yet divided: \[batch, heads, queries, d_v\].
    out: Tensor<4>,
    /// Two numbers for each query, block by block.
    state: Vec<f32>,
}

impl Attention<'_> {
    /// An attention of `q` \[batch, heads, n, d_k\], to which keys and values of `d_v` numbers can be added. `queries` are the
    /// places of these n queries among all queries, in order. `all` is the total number of queries and of keys.
    ///
    /// Positions in the mask refer to these places. A mask tensor has rows for the n queries and columns for all keys.
    ///
    /// # Errors
    /// An error names the part that does not fit, or for which there is no memory.
    pub fn partial<'p, Q: Element>(
        &'p self,
        q: Heads<'p, Q>,
        queries: &'p [Range<usize>],
        all: [usize; 2],
        d_v: usize,
    ) -> Result<Partial<'p, Q>, Error> {
        let [batch, heads, n, _] = q.shape();
        let found = queries.iter().fold(0_usize, |sum, range| sum.saturating_add(range.len()));
        check_shape("the places of the queries", &[found], &[n], "one a query")?;
        let end = queries.iter().map(|range| range.end).max().unwrap_or(0);
        let [n_q, _] = all;
        check_place("a query", end, n_q)?;
        let out = Tensor::zeros("the output", [batch, heads, n, d_v])?;
        let state = zeros("the state of the output", &[batch, heads, n, 2])?;
        let mut partial = Partial { attention: self, q, queries, all, out, state };
        let (k, v) = partial.no_keys();
        partial.run(0, k, v, |plan, kernel, job, scratch| {
            let ([q, k, v], scratch) = job.tensors(plan, (q, k, v), scratch)?;
            let mut own = kernel.partial(plan.d_k, job.out, job.of_rows)?;
            Ok(kernel.forward_partial(q, k, v, &mut own, scratch)?)
        })?;
        Ok(partial)
    }
}

impl<'a, Q: Element> Partial<'a, Q> {
    /// Whether some query sees one of the `keys` by its position. `keys` are places among all keys. A key that only a mask
    /// tensor hides counts as seen.
    ///
    /// # Errors
    /// An error names the part of the mask that does not fit.
    pub fn sees(&self, keys: Range<usize>) -> Result<bool, Error> {
        let ([batch, heads, n, _], [n_q, n_k]) = (self.q.shape(), self.all);
        let mask = self.attention.mask.resolve([batch, heads, n, n_k])?;
        Ok((0..batch).any(|entry| {
            let mask = mask.of_places(entry, 0);
            self.queries.iter().any(|range| {
                let (first, rows) = (range.start, range.len());
                let of_rows = mask.rows(first, rows, n_q, n_k);
                let of_keys = of_rows.columns(keys.start, keys.len(), rows, n_k);
                !of_keys.seen(rows, keys.len()).is_empty()
            })
        }))
    }

    /// Whether the mask depends on places alone. A mask tensor has rows for these queries only.
    #[must_use]
    pub fn is_by_places(&self) -> bool {
        !self.attention.mask.has_tensor()
    }

    /// Adds the keys `k` \[batch, kv_heads, n, d_k\] and values `v` \[batch, kv_heads, n, d_v\]. `first` is the place of the
    /// first of them among all keys.
    ///
    /// # Errors
    /// An error names the tensor that does not fit the others. The result is then unchanged.
    pub fn add<T: Element>(
        &mut self,
        first: usize,
        k: Heads<'_, T>,
        v: Heads<'_, T>,
    ) -> Result<(), Error> {
        let ([_, _, keys, _], [_, n_k]) = (k.shape(), self.all);
        let end = first.saturating_add(keys);
        check_place("a key", end, n_k)?;
        let ([_, _, _, d_v], [batch, kv_heads, n, _]) = (self.out.shape(), v.shape());
        check_shape("value", &v.shape(), &[batch, kv_heads, n, d_v], "as the output")?;
        let q = self.q;
        self.run(first, k, v, |plan, kernel, job, scratch| {
            let rows = job.block.rows;
            let (out, scratch) = scratch.split_at_mut(rows * d_v);
            let (state, scratch) = scratch.split_at_mut(2 * rows);
            let ([q, k, v], scratch) = job.tensors(plan, (q, k, v), scratch)?;
            let out = MatMut::new(out, rows, d_v)?;
            let mut other = kernel.partial(plan.d_k, out, state)?;
            kernel.forward_partial(q, k, v, &mut other, scratch)?;
            let mut own = kernel.partial(plan.d_k, job.out, job.of_rows)?;
            Ok(own.merge(&other)?)
        })
    }

    /// The numbers of the result, to [`merge`](Self::merge) elsewhere: the sums \[batch, heads, queries, d_v\], which are not
    /// yet divided, and two numbers for each query.
    #[must_use]
    pub fn numbers(&self) -> [&[f32]; 2] {
        [self.out.as_slice(), &self.state]
    }

    /// Adds the [`numbers`](Self::numbers) of a result of the same queries over the keys that follow.
    ///
    /// # Errors
    /// [`Error::Elements`] if the number of these differs from that of this result.
    pub fn merge(&mut self, [out, state]: [&[f32]; 2]) -> Result<(), Error> {
        let [batch, heads, n, d_v] = self.out.shape();
        check_elements("the output of the other part", out.len(), &[batch, heads, n, d_v])?;
        check_elements("the state of the other part", state.len(), &[batch, heads, n, 2])?;
        let (k, v) = self.no_keys();
        self.run(0, k, v, |plan, kernel, job, scratch| {
            let Block { entry, head, first, rows, .. } = job.block;
            let row = (entry * heads + head) * n + first;
            let (other, scratch) = scratch.split_at_mut(rows * d_v);
            let other_state = &mut scratch[..2 * rows];
            other.copy_from_slice(&out[row * d_v..][..rows * d_v]);
            other_state.copy_from_slice(&state[2 * row..][..2 * rows]);
            let other = MatMut::new(other, rows, d_v)?;
            let other = kernel.partial(plan.d_k, other, other_state)?;
            let mut own = kernel.partial(plan.d_k, job.out, job.of_rows)?;
            Ok(own.merge(&other)?)
        })
    }

    /// The output \[batch, heads, n, d_v\] over all keys that were added, and the log-sum-exp \[batch, heads, n\]: see
    /// [`Attention::forward_with_log_sum_exp`].
    ///
    /// # Errors
    /// [`Error::Memory`] if there is no memory for the log-sum-exp.
    pub fn finish(mut self) -> Result<(Tensor<4>, Tensor<3>), Error> {
        let [batch, heads, n, _] = self.out.shape();
        let (k, v) = self.no_keys();
        self.run(0, k, v, |plan, kernel, job, scratch| {
            let (sums, state) = (&mut scratch[..job.block.rows], job.of_rows);
            kernel.partial(plan.d_k, job.out, state)?.finish(Some(&mut *sums))?;
            state[..sums.len()].copy_from_slice(sums);
            Ok(())
        })?;
        self.attention.report(self.all[1], self.all[1]);
        let mut log_sum_exp = Tensor::zeros("the log-sum-exp", [batch, heads, n])?;
        self.plan(0, k, v)?.first_of_rows(&self.state, log_sum_exp.as_mut_slice());
        Ok((self.out, log_sum_exp))
    }

    /// Keys and values without tokens.
    fn no_keys(&self) -> (Heads<'static>, Heads<'static>) {
        let ([batch, heads, _, d_k], [_, _, _, d_v]) = (self.q.shape(), self.out.shape());
        (Heads::dense(&[], [batch, heads, 0, d_k]), Heads::dense(&[], [batch, heads, 0, d_v]))
    }

    /// Calls `each` for all blocks of queries, in parallel, with keys from place `first` on. Each call gets scratch memory for
    /// the tensors and the result of its block.
    fn run<T: Element>(
        &mut self,
        first_key: usize,
        k: Heads<'_, T>,
        v: Heads<'_, T>,
        each: impl Fn(&Plan<'_>, &Kernel<'_>, Job<'_>, &mut [f32]) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let plan = self.plan(first_key, k, v)?;
        let ([_, _, _, d_k], [_, _, _, d_v]) = (self.q.shape(), v.shape());
        let [of_query, of_key] = widened::<Q, T>(d_k, d_v);
        let widened = [of_query.saturating_add(d_v).saturating_add(2), of_key];
        let (out, of_rows) = (self.out.as_mut_slice(), &mut self.state[..]);
        let output = Output { out, cols: d_v, of_rows, most_keys: usize::MAX, widened, d_v };
        plan.run(output, |kernel, job, scratch| each(&plan, kernel, job, scratch))
    }

    /// The plan for these queries and keys from place `first_key` on.
    fn plan<T: Element>(
        &self,
        first_key: usize,
        k: Heads<'_, T>,
        v: Heads<'_, T>,
    ) -> Result<Plan<'a>, Error> {
        let part = Part { queries: self.queries, first_key, all: self.all };
        Plan::with_values(self.attention, self.q, k, v, Some(part))
    }
}
