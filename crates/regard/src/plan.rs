//! Checks an attention, divides it into blocks of queries, and runs these on threads.
//!
//! A [`Plan`] is an attention whose tensors fit: the shapes are compared once, and the mask is broadcast once. Then:
//!
//! ```text
//! rows ← block size                        whole heads on one thread; see `Plan::block`
//! for each batch entry e, head h, block b of `rows` queries     in parallel, the last block first
//!     M   ← the mask of (e, h), cut to the block's rows
//!     J   ← the keys that some query of the block sees by its place, in whole tiles of 256
//!     Q   ← rows of head h; K, V ← rows J of key/value head h / (heads / kv_heads), in f32
//!     out[e, h, b] ← kernel(Q, K, V, M)    one fused attention: no scores are kept
//! ```
//!
//! The division follows FlashAttention-2 (Dao 2023, arXiv 2307.08691, section 3.2): threads divide queries and heads, so a row
//! has the same bits for any number of threads. If the queries are too few to keep the threads busy, a block is all queries of a
//! head with a chunk of its keys: see `split`.
//!
//! The block size has three bounds:
//! - Each block transposes the keys that it sees into tiles, which takes as long as about 20 queries. If threads share a head,
//!   a block has at least 96 queries; otherwise it has all of them.
//! - Each thread should have about eight blocks. The other threads then wait at the end for at most an eighth of a thread's
//!   work. Under a causal mask the last queries see the most keys, so they are handed out first. If whole heads keep the
//!   threads as busy, as eight heads of 512 queries do with two threads, threads share no head.
//! - Each row of a mask tensor may lie in a page of its own. A processor caches the addresses of about 1000 pages, so with such
//!   a mask a block has at most 512 rows. Rows that are shorter than the keys are extended for each block, which then has 96
//!   queries.
//!
//! Each thread takes the next block from a shared list when its last one is done. Its scratch memory has room for the largest
//! block: for the kernel's tiles, and for the block's tensors in `f32` if they are stored in half precision.

use core::mem::take;
use core::ops::Range;
use core::slice;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::vec;

use regard_kernels::{
    Attention as Kernel, CHUNK_KEYS, Mat, MatMut, TILE_KEYS, attention_scratch_len,
};

use crate::error::{Error, check_shape};
use crate::mask::{ResolvedMask, ShortRows};
use crate::view::saturating_product;
use crate::{Attention, Element, Heads, Threads};

/// An attention that fits its tensors.
pub(crate) struct Plan<'a> {
    pub(crate) attention: &'a Attention<'a>,
    pub(crate) mask: ResolvedMask<'a>,
    pub(crate) batch: usize,
    pub(crate) n_q: usize,
    pub(crate) n_k: usize,
    pub(crate) heads: usize,
    pub(crate) kv_heads: usize,
    pub(crate) d_k: usize,
    part: Option<Part<'a>>,
}

/// Some of the queries and keys of an attention, which are computed alone.
#[derive(Clone, Copy)]
pub(crate) struct Part<'a> {
    /// The places of the queries among all queries.
    pub(crate) queries: &'a [Range<usize>],
    /// The place of the first key among all keys.
    pub(crate) first_key: usize,
    /// The total number of queries and of keys.
    pub(crate) all: [usize; 2],
}

/// Consecutive queries of one head, and consecutive keys for them.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) entry: usize,
    pub(crate) head: usize,
    pub(crate) first: usize,
    /// The place of the first query among all queries.
    place: usize,
    pub(crate) rows: usize,
    keys: Range<usize>,
}

/// A block, and its rows of the result.
pub(crate) struct Job<'o> {
    pub(crate) block: Block,
    /// Those of the block's keys that its queries may see by their positions, in whole tiles of the kernel.
    seen: Range<usize>,
    pub(crate) out: MatMut<'o>,
    /// The numbers for the block's rows; empty if none are wanted.
    pub(crate) of_rows: &'o mut [f32],
}

impl Job<'_> {
    /// The block's queries, keys and values in `f32`, and the rest of the scratch memory.
    pub(crate) fn tensors<'s, Q: Element, T: Element>(
        &self,
        plan: &Plan<'_>,
        (q, k, v): (Heads<'s, Q>, Heads<'s, T>, Heads<'s, T>),
        scratch: &'s mut [f32],
    ) -> Result<([Mat<'s>; 3], &'s mut [f32]), Error> {
        let Block { entry, head, first, rows, keys, .. } = &self.block;
        let (entry, head, first, rows) = (*entry, *head, *first, *rows);
        let kv_head = plan.kv_head(head);
        let of_keys = |x: Heads<'s, T>| {
            Ok::<_, Error>(x.head(entry, kv_head)?.rows_from(keys.start, keys.len()))
        };
        let (q, (k, v)) = (q.head(entry, head)?.rows_from(first, rows), (of_keys(k)?, of_keys(v)?));
        let (q, scratch) = Q::widened(q, 0..rows, scratch)?;
        let (k, scratch) = T::widened(k, self.seen.clone(), scratch)?;
        let (v, scratch) = T::widened(v, self.seen.clone(), scratch)?;
        Ok(([q, k, v], scratch))
    }
}

/// The memory for a result, and the sizes that a job needs.
pub(crate) struct Output<'o> {
    /// \[batch, heads, n_q, cols\]; with chunks of keys \[batch, heads, chunks, n_q, cols\].
    pub(crate) out: &'o mut [f32],
    pub(crate) cols: usize,
    /// Numbers for each row of `out`, or none: the log-sum-exp, or the two numbers of a partial result.
    pub(crate) of_rows: &'o mut [f32],
    /// The most keys of a block. If there are more, a block has all queries of its head.
    pub(crate) most_keys: usize,
    /// The elements that a job needs for each query and for each key, in addition to the kernel's scratch memory.
    pub(crate) widened: [usize; 2],
    /// The columns of the values; 0 if only scores are computed.
    pub(crate) d_v: usize,
}

impl<'a> Plan<'a> {
    /// Checks everything but the values against each other.
    pub(crate) fn new<Q: Element, T: Element>(
        attention: &'a Attention<'a>,
        q: Heads<'_, Q>,
        k: Heads<'_, T>,
        part: Option<Part<'a>>,
    ) -> Result<Self, Error> {
        let ([batch, heads, n_q, d_k], [_, kv_heads, n_k, _]) = (q.shape(), k.shape());
        let expected = [batch, kv_heads, n_k, d_k];
        check_shape("key", &k.shape(), &expected, "the batch and head_dim of query")?;
        check_heads(heads, kv_heads)?;
        attention.check(heads)?;
        let [_, all_keys] = part.map_or([n_q, n_k], |part| part.all);
        let mask = attention.mask.resolve([batch, heads, n_q, all_keys])?;
        Ok(Self { attention, mask, batch, n_q, n_k, heads, kv_heads, d_k, part })
    }

    /// As [`new`](Self::new), and also checks the values.
    pub(crate) fn with_values<Q: Element, T: Element>(
        attention: &'a Attention<'a>,
        q: Heads<'_, Q>,
        k: Heads<'_, T>,
        v: Heads<'_, T>,
        part: Option<Part<'a>>,
    ) -> Result<Self, Error> {
        let plan = Self::new(attention, q, k, part)?;
        let ([batch, kv_heads, n_k, _], [_, _, _, d_v]) = (k.shape(), v.shape());
        let expected = [batch, kv_heads, n_k, d_v];
        check_shape("value", &v.shape(), &expected, "the batch, heads and tokens of key")?;
        Ok(plan)
    }

    pub(crate) fn kv_head(&self, head: usize) -> usize {
        head / (self.heads / self.kv_heads)
    }

    /// Runs `each` over all jobs, in parallel.
    pub(crate) fn run(
        &self,
        output: Output<'_>,
        each: impl Fn(&Kernel<'_>, Job<'_>, &mut [f32]) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let Output { out, cols, of_rows, most_keys, widened: [of_query, of_key], d_v } = output;
        if out.is_empty() && of_rows.is_empty() {
            return Ok(()); // nothing to compute, whatever the number of rows
        }
        let (n_q, n_k) = (self.n_q, self.n_k);
        let (pairs, d) = (pairs(n_q, n_k), self.d_k.saturating_add(d_v));
        let multiply_adds = saturating_product(&[self.batch, pairs, self.heads, d]);
        let threads = Threads::current();
        let most_rows = match self.part {
            Some(_) => PART_BLOCK,
            None if n_k > most_keys => usize::MAX,
            None => self.block(threads.helpers(multiply_adds)),
        };
        let blocks = self.blocks(most_rows, most_keys);

        let (rows, keys) =
            (blocks.iter().map(|block| block.rows).max().unwrap_or(0), n_k.min(most_keys));
        let scratch = attention_scratch_len(rows, keys, self.d_k, d_v)
            .saturating_add(rows.saturating_mul(of_query))
            .saturating_add(keys.saturating_mul(of_key));
        let (done, all) = (AtomicUsize::new(0), blocks.len());
        let width = of_rows.len() / blocks.iter().map(|block| block.rows).sum::<usize>().max(1);
        let (first_key, full) =
            self.part.map_or((0, [n_q, n_k]), |part| (part.first_key, part.all));
        let jobs = Jobs { blocks: blocks.into_iter(), out, cols, of_rows, width };
        threads.for_each(jobs, multiply_adds, scratch, |scratch, (block, out, of_rows)| {
            let mut block = block;
            // Keys that a rule hides from the whole block. The kernel's chunks must begin at the same keys.
            if self.part.is_none() && d_v != 0 {
                let span = self.mask.span(block.entry, block.place, block.rows, [n_q, n_k]);
                let start = (span.start / CHUNK_KEYS * CHUNK_KEYS).max(block.keys.start);
                block.keys = start.min(block.keys.end)..block.keys.end;
                block.keys.end = block.keys.end.min(span.end).max(block.keys.start);
            }
            let Block { entry, head, first, place, rows, keys } = block.clone();
            let of_mask = [first..first + rows, first_key + keys.start..first_key + keys.end];
            let mut short = ShortRows::default();
            let mask = self.mask.of_block((entry, head), place, of_mask, full, &mut short)?;
            let seen = whole_tiles(mask.seen(rows, keys.len()), keys.len());
            let job = Job { seen, out: MatMut::new(out, rows, cols)?, of_rows, block };
            each(&self.attention.describe(mask, head), job, scratch)?;
            let done = done.fetch_add(1, Ordering::Relaxed) + 1;
            match self.part {
                None => self.attention.report(done, all),
                Some(_) if n_k == 0 => {}
                Some(part) => self.attention.report(first_key + n_k * done / all, part.all[1]),
            }
            Ok(())
        })
    }

    /// The number of queries in a block, as the top of this file describes.
    fn block(&self, helpers: usize) -> usize {
        const SMALLEST: usize = 96;
        const ROWS_OF_MASK: usize = 512;
        /// A block transposes its keys in the time of so many queries.
        const TRANSPOSED: usize = 20;
        if self.mask.has_short_rows() {
            return SMALLEST; // short rows are extended for each block
        }
        let whole = if self.attention.mask.has_tensor() { ROWS_OF_MASK } else { usize::MAX };
        if helpers == 0 {
            return whole;
        }
        let threads = helpers + 1;
        let heads = saturating_product(&[self.batch, self.heads]);
        let blocks_of_each = (8 * threads).div_ceil(heads.max(1));
        let rows = self.n_q.div_ceil(blocks_of_each).next_multiple_of(SMALLEST / 4).max(SMALLEST);
        // The time of the thread with the most blocks, and its wait for a quarter of a block at the end.
        let time = |count: usize| {
            let blocks = heads.saturating_mul(count).div_ceil(threads);
            (4 * blocks + 1).saturating_mul(self.n_q.div_ceil(count) + TRANSPOSED)
        };
        if time(self.n_q.div_ceil(rows).max(1)) < time(1) { rows } else { whole }
    }

    /// All blocks of so many rows and keys, in the order of the result. A head without keys has a block without keys.
    fn blocks(&self, most_rows: usize, most_keys: usize) -> Vec<Block> {
        let whole = 0..self.n_q;
        let ranges =
            self.part.as_ref().map_or_else(|| slice::from_ref(&whole), |part| part.queries);
        let mut blocks = Vec::new();
        for (entry, head) in
            (0..self.batch).flat_map(|entry| (0..self.heads).map(move |head| (entry, head)))
        {
            let mut first = 0;
            for range in ranges {
                for place in range.clone().step_by(most_rows) {
                    let rows = most_rows.min(range.end - place);
                    for start in (0..self.n_k.max(1)).step_by(most_keys) {
                        let keys = start..self.n_k.min(start.saturating_add(most_keys));
                        blocks.push(Block { entry, head, first, place, rows, keys });
                    }
                    first += rows;
                }
            }
        }
        blocks
    }

    /// Copies the first number of each row to `out`. `numbers` are those of a [`Part`], which has two numbers for each row, block
    /// by block: in a block first the first number of all rows, and then the second.
    pub(crate) fn first_of_rows(&self, mut numbers: &[f32], mut out: &mut [f32]) {
        for Block { rows, .. } in self.blocks(PART_BLOCK, usize::MAX) {
            let (of_block, rest) = numbers.split_at(2 * rows);
            let (to, others) = out.split_at_mut(rows);
            to.copy_from_slice(&of_block[..rows]);
            (numbers, out) = (rest, others);
        }
    }
}

/// The most queries of a block of a [`Part`], whose blocks are the same for any number of threads. Transposing the keys takes a
/// twentieth of the time of such a block. The number is a multiple of 36, the queries that the kernel computes together.
const PART_BLOCK: usize = 504;

/// The number of pairs of a query and a key that would take as long if many queries shared the keys. A single query waits for
/// its keys and values to arrive from memory: 524,288 multiply-adds then take 52 µs, and 11 µs if the query is one of many
/// (Xeon, AVX-512).
pub(crate) fn pairs(n_q: usize, n_k: usize) -> usize {
    const FEW: usize = 4;
    if n_q == 0 { 0 } else { n_q.max(FEW).saturating_mul(n_k) }
}

/// `Ok` if the query heads can be shared evenly among the key/value heads.
fn check_heads(heads: usize, kv_heads: usize) -> Result<(), Error> {
    if heads != 0 && (kv_heads == 0 || !heads.is_multiple_of(kv_heads)) {
        let (of, what) = ("key/value", "query heads");
        return Err(Error::Heads { heads: kv_heads, of, what, into: heads });
    }
    Ok(())
}

/// `keys`, extended to whole tiles within `n_k`: the kernel reads exactly the tiles in which a key is seen.
pub(crate) fn whole_tiles(keys: Range<usize>, n_k: usize) -> Range<usize> {
    if keys.is_empty() {
        return 0..0;
    }
    keys.start / TILE_KEYS * TILE_KEYS..keys.end.next_multiple_of(TILE_KEYS).min(n_k)
}

/// Hands out the blocks with their rows of the result, from the last block to the first. Under a causal mask the last queries
/// take the longest.
struct Jobs<'o> {
    blocks: vec::IntoIter<Block>,
    out: &'o mut [f32],
    cols: usize,
    of_rows: &'o mut [f32],
    /// The number of numbers for each row.
    width: usize,
}

impl<'o> Iterator for Jobs<'o> {
    type Item = (Block, &'o mut [f32], &'o mut [f32]);

    fn next(&mut self) -> Option<Self::Item> {
        let block = self.blocks.next_back()?;
        let split = |all: &'o mut [f32], width: usize| {
            let rest = all.len() - block.rows * width;
            all.split_at_mut(rest)
        };
        let (rest, out) = split(take(&mut self.out), self.cols);
        self.out = rest;
        let (rest, of_rows) = split(take(&mut self.of_rows), self.width);
        self.of_rows = rest;
        Some((block, out, of_rows))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.blocks.size_hint()
    }
}

impl ExactSizeIterator for Jobs<'_> {}
