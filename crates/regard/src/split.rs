//! Few queries on many keys: threads divide the keys (Flash-Decoding, Dao et al. 2023).
//!
//! The keys are divided into chunks of [`CHUNK_KEYS`]. Each chunk of each head is a job, which computes an output, and the
//! largest score and the sum of exponentials of each query. Then the chunks of a head are merged in order. If the keys are not
//! divided, the kernel computes the same chunks one after the other, so the bits are the same.

use regard_kernels::{CHUNK_KEYS, MatMut};

use crate::error::Error;
use crate::forward::widened;
use crate::mask::ShortRows;
use crate::plan::{Output, Plan};
use crate::view::zeros;
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
        log_sum_exp: &mut [f32],
    ) -> Result<(), Error> {
        let ([batch, heads, n_q, d_k], [_, _, n_k, d_v]) = (q.shape(), v.shape());
        if out.is_empty() && log_sum_exp.is_empty() {
            return Ok(()); // nothing to compute, whatever the number of keys
        }
        let chunks = n_k.div_ceil(CHUNK_KEYS);
        // The output of each chunk, and two numbers for each query.
        let shape = [batch, heads, chunks, n_q, d_v.saturating_add(2)];
        let mut memory = zeros("the results of the chunks", &shape)?;
        let (parts, states) = memory.split_at_mut(batch * heads * chunks * n_q * d_v);
        let output = Output {
            out: &mut *parts,
            cols: d_v,
            of_rows: &mut *states,
            most_keys: CHUNK_KEYS,
            widened: widened::<Q, T>(d_k, d_v),
            d_v,
        };
        self.run(output, |kernel, job, scratch| {
            let ([q, k, v], scratch) = job.tensors(self, (q, k, v), scratch)?;
            let mut part = kernel.partial(d_k, job.out, job.of_rows)?;
            Ok(kernel.forward_partial(q, k, v, &mut part, scratch)?)
        })?;

        for row in 0..batch * heads {
            let head = row % heads;
            // The merged result sees no more keys, but the unit of its sums depends on the parts of the mask.
            let (mut short, none) = (ShortRows::default(), [0..n_q, 0..0]);
            let mask = self.mask.of_block((row / heads, head), 0, none, [n_q, n_k], &mut short)?;
            let kernel = self.attention.describe(mask, head);
            let (of_part, of_state) = (n_q * d_v, 2 * n_q);
            let (first, others) =
                parts[row * chunks * of_part..][..chunks * of_part].split_at_mut(of_part);
            let (state, states) =
                states[row * chunks * of_state..][..chunks * of_state].split_at_mut(of_state);
            let mut whole = kernel.partial(d_k, MatMut::new(&mut *first, n_q, d_v)?, state)?;
            for (i, state) in states.chunks_exact_mut(of_state).enumerate() {
                let other = MatMut::new(&mut others[i * of_part..][..of_part], n_q, d_v)?;
                whole.merge(&kernel.partial(d_k, other, state)?)?;
            }
            whole.finish(log_sum_exp.get_mut(row * n_q..(row + 1) * n_q))?;
            out[row * of_part..][..of_part].copy_from_slice(first);
        }
        Ok(())
    }
}
