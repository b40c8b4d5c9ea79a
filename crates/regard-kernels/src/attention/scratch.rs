//! The scratch memory of an attention: its size, and its division into parts.

use super::partial::CHUNK_KEYS;
use super::scores::{MC, NC};
use super::values::packed_values;
use crate::MatMut;
use crate::arch::{LANES, MR, Panel, TARGET};
use crate::error::Error;
use crate::invariant::Promised as _;

/// Elements of `f32` scratch memory that [`Attention::forward`](super::Attention::forward) and
/// [`Attention::scores`](super::Attention::scores) need (the latter with d_v = 0).
///
/// With t = min(n_k, 256) keys a tile, b queries a block and ⌈ ⌉₁₆ for rounding up to a multiple of 16:
/// - (⌈t⌉₁₆ + 16) × min(n_q, b) for the scores of a tile,
/// - ⌈t⌉₁₆ × d_k for its keys, transposed (for one query 16 × d_k are enough),
/// - t × ⌈d_v⌉₁₆ for a copy of its values for b′ or more queries; for fewer, t × 16 if d_v is no multiple of 16, else nothing,
/// - 2·n_q, and 15 to start at a multiple of 64 bytes,
/// - n_q × (d_v + 2) for the result of the next chunk, where there are more than [`CHUNK_KEYS`] keys.
///
/// Where there is an operating system, there are caches, and b = 36 and b′ = 12. On bare metal b = 6, and whole panels of
/// values are never copied. Cortex-M and RISC-V (b = 6) read keys and values where they lie, and need no memory for them.
#[must_use]
pub const fn attention_scratch_len(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    let [scores, keys, values] = scratch_parts(n_q, n_k, d_k, d_v);
    scores
        .saturating_add(keys)
        .saturating_add(values)
        .saturating_add(n_q.saturating_mul(2))
        .saturating_add(chunk_len(n_q, n_k, d_v))
        .saturating_add(ALIGNMENT - 1)
}

/// Bytes of RAM of one attention in `f32`.
///
/// Query \[n_q, d_k\], key \[n_k, d_k\], value \[n_k, d_v\], output \[n_q, d_v\] and the
/// [scratch memory](attention_scratch_len): 4·(n_q + n_k)·(d_k + d_v) and what the scratch takes.
///
/// ```
/// // The compiler checks that these shapes fit into 64 KiB.
/// const _: () = assert!(regard_kernels::attention_bytes(64, 64, 32, 32) <= 64 * 1024);
/// ```
#[must_use]
pub const fn attention_bytes(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    let scratch = attention_scratch_len(n_q, n_k, d_k, d_v);
    tensor_elements(n_q, n_k, d_k, d_v).saturating_add(scratch).saturating_mul(size_of::<f32>())
}

/// [`attention_scratch_len`] of a core without vectors.
pub(crate) const fn scalar_scratch_len(n_q: usize, n_k: usize, d_v: usize) -> usize {
    score_len(if n_q < MR { n_q } else { MR }, n_k)
        .saturating_add(n_q.saturating_mul(2))
        .saturating_add(chunk_len(n_q, n_k, d_v))
        .saturating_add(ALIGNMENT - 1)
}

/// Elements for the scores of a tile of `n_k` keys for `block` queries.
const fn score_len(block: usize, n_k: usize) -> usize {
    let tile = if n_k < NC { n_k } else { NC };
    // Rows whose distance is a power of two would compete for the same sets of a cache.
    block * (tile.next_multiple_of(LANES) + LANES)
}

/// Elements of query, key, value and output together.
pub(crate) const fn tensor_elements(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    n_q.saturating_add(n_k).saturating_mul(d_k.saturating_add(d_v))
}

/// Elements for the result of a chunk of keys.
const fn chunk_len(n_q: usize, n_k: usize, d_v: usize) -> usize {
    if n_k > CHUNK_KEYS { n_q.saturating_mul(d_v.saturating_add(2)) } else { 0 }
}

/// The elements of a cache line.
const ALIGNMENT: usize = 16;

/// Elements for the scores, the keys and the values of a tile.
const fn scratch_parts(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> [usize; 3] {
    let tile = if n_k < NC { n_k } else { NC };
    let block = if n_q < MC { n_q } else { MC };
    [
        score_len(block, n_k),
        match (TARGET.packs, n_q) {
            (false, _) => 0,
            (true, 1) if tile > LANES => LANES.saturating_mul(d_k),
            (true, _) => tile.next_multiple_of(LANES).saturating_mul(d_k),
        },
        packed_values(n_q, d_v).saturating_mul(tile * LANES),
    ]
}

/// The caller's scratch memory.
pub(super) struct Scratch<'t> {
    pub(super) tile: MatMut<'t>,
    pub(super) panels: &'t mut [Panel],
    pub(super) values: &'t mut [Panel],
    /// Two numbers for each query.
    pub(super) state: &'t mut [f32],
    /// The result of a chunk of keys, if there is more than one: two numbers for each query, and an output.
    pub(super) chunk: &'t mut [f32],
}

impl<'t> Scratch<'t> {
    pub(super) fn divide(
        scratch: &'t mut [f32],
        n_q: usize,
        (n_k, d_k): (usize, usize),
        d_v: usize,
    ) -> Result<Self, Error> {
        let needed = attention_scratch_len(n_q, n_k, d_k, d_v);
        let found = scratch.len();
        let scratch = scratch.get_mut(..needed).ok_or(Error::Scratch { found, needed })?;
        // If the alignment of the address is unknown, as in Miri, the parts begin at the start of the memory.
        let offset = scratch.as_ptr().align_offset(ALIGNMENT * size_of::<f32>()).min(ALIGNMENT - 1);
        let mut rest = scratch.get_mut(offset..).promised();
        let mut part = |len: usize| rest.split_off_mut(..len).promised();
        let [tile, panels, values] = scratch_parts(n_q, n_k, d_k, d_v);
        let block = MC.min(n_q);
        let width = tile.checked_div(block).unwrap_or(0);
        let (tile, panels, values) = (part(tile), part(panels), part(values));
        let (state, chunk) = (part(2 * n_q), part(chunk_len(n_q, n_k, d_v)));
        Ok(Self {
            tile: MatMut::new(tile, block, width)?,
            panels: panels.as_chunks_mut().0,
            values: values.as_chunks_mut().0,
            state,
            chunk,
        })
    }

    /// The same memory, borrowed, without the parts for the state and for chunks.
    pub(super) fn reborrow(&mut self) -> Scratch<'_> {
        let Self { tile, panels, values, .. } = self;
        Scratch { tile: tile.reborrow(), panels, values, state: &mut [], chunk: &mut [] }
    }
}
