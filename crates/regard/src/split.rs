//! Few queries on many keys: threads divide the keys (Flash-Decoding, Dao et al. 2023).
//!
//! The keys are divided into chunks of [`CHUNK_KEYS`]. Each chunk of each head is a job, which computes an output, and the
//! largest score and the sum of exponentials of each query. Then the chunks of a head are merged in order. If the keys are not
//! divided, the kernel computes the same chunks one after the other, so the bits are the same.

use core::sync::atomic::{AtomicUsize, Ordering};

use regard_kernels::{CHUNK_KEYS, MatMut, attention_scratch_len};

use crate::error::Error;
use crate::mask::ShortRows;
use crate::plan::{Plan, Workspace, pairs, whole_tiles};
use crate::slices;
use crate::view::{grown, saturating_product};
use crate::{Element, Heads, Threads};

impl Plan<'_> {
    /// Whether the keys can be divided, and the heads are too few to keep the threads busy.
    pub(crate) fn is_worth_splitting(&self) -> bool {
        /// More queries than this fill blocks, and the blocks are divided instead of the keys.
        const MOST_QUERIES: usize = 32;
        if self.n_k <= CHUNK_KEYS || self.n_q > MOST_QUERIES {
            return false;
        }
        let threads = Threads::current().count();
        threads > 1 && self.batch * self.heads < 4 * threads
    }

    /// Computes the chunks in parallel, then merges those of each head.
    pub(crate) fn run_split<Q: Element, T: Element>(
        &self,
        (q, k, v): (Heads<'_, Q>, Heads<'_, T>, Heads<'_, T>),
        out: &mut [f32],
        mut log_sum_exp: Option<&mut [f32]>,
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        let ([batch, heads, n_q, d_k], [_, _, n_k, d_v]) = (q.shape(), v.shape());
        if out.is_empty() && log_sum_exp.as_ref().is_none_or(|l| l.is_empty()) {
            return Ok(()); // nothing to compute, whatever the number of keys
        }
        let chunks = n_k.div_ceil(CHUNK_KEYS);
        // The output of each chunk, and two numbers for each query.
        let size = n_q.saturating_mul(d_v.saturating_add(2));
        let memory = grown(&mut workspace.partial, &[batch, heads, chunks, size])?;

        let width = d_k.saturating_add(d_v);
        let scratch = attention_scratch_len(n_q, CHUNK_KEYS, d_k, d_v)
            .saturating_add(saturating_product(&[n_q, d_k, Q::MEMORY]))
            .saturating_add(saturating_product(&[CHUNK_KEYS, width, T::MEMORY]));
        let multiply_adds = saturating_product(&[batch, heads, pairs(n_q, n_k), width]);
        let (done, all) = (AtomicUsize::new(0), batch * heads * chunks);
        let jobs = memory.chunks_exact_mut(size.max(1)).enumerate();
        Threads::current().for_each(jobs, multiply_adds, scratch, |scratch, (index, memory)| {
            let (row, chunk) = (index / chunks, index % chunks);
            let (entry, head, first) = (row / heads, row % heads, chunk * CHUNK_KEYS);
            let kv_head = self.kv_head(head);
            let keys = CHUNK_KEYS.min(n_k - first);
            let (mut short, block) = (ShortRows::default(), [0..n_q, first..first + keys]);
            let mask = self.mask.of_block((entry, head), 0, block, [n_q, n_k], &mut short)?;
            let seen = whole_tiles(mask.seen(n_q, keys), keys);
            let kernel = self.attention.describe(mask, head);
            let (out, state) = slices::split(memory, n_q * d_v);
            let mut part = kernel.partial(d_k, MatMut::new(out, n_q, d_v)?, state)?;
            let (q, scratch) = Q::widened(q.head(entry, head)?, 0..n_q, scratch)?;
            let (k, scratch) =
                T::widened(k.head(entry, kv_head)?.rows_from(first, keys), seen.clone(), scratch)?;
            let (v, scratch) =
                T::widened(v.head(entry, kv_head)?.rows_from(first, keys), seen, scratch)?;
            kernel.forward_partial(q, k, v, &mut part, scratch)?;
            self.attention.report(done.fetch_add(1, Ordering::Relaxed) + 1, all);
            Ok(())
        })?;

        for row in 0..batch * heads {
            let of_row = row * chunks * size..(row + 1) * chunks * size;
            let (first, rest) = slices::split(slices::part_mut(memory, of_row), size);
            let head = row % heads;
            // The merged result sees no more keys, but the unit of its sums depends on the parts of the mask.
            let (mut short, block) = (ShortRows::default(), [0..n_q, 0..0]);
            let mask = self.mask.of_block((row / heads, head), 0, block, [n_q, n_k], &mut short)?;
            let kernel = self.attention.describe(mask, head);
            let (sums, state) = slices::split(first, n_q * d_v);
            let mut whole = kernel.partial(d_k, MatMut::new(sums, n_q, d_v)?, state)?;
            for other in rest.chunks_exact_mut(size.max(1)) {
                let (other, state) = slices::split(other, n_q * d_v);
                whole.merge(&kernel.partial(d_k, MatMut::new(other, n_q, d_v)?, state)?)?;
            }
            let range = |width: usize| row * n_q * width..(row + 1) * n_q * width;
            whole.finish(log_sum_exp.as_deref_mut().map(|l| slices::part_mut(l, range(1))))?;
            slices::part_mut(out, range(d_v)).copy_from_slice(sums);
        }
        Ok(())
    }
}
