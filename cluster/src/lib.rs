#![doc = include_str!("../README.md")]

mod exchange;

use core::mem::swap;
use core::ops::Range;

use mpi::collective::SystemOperation;
use mpi::traits::{Communicator, CommunicatorCollectives as _};
use regard::{Attention, CHUNK_KEYS, Heads, Partial};

use self::exchange::{Chunk, Division, Layout, compute_meanwhile, gather};
pub use self::exchange::{Error, agree};

/// Some tokens of a tensor, which a rank holds.
#[derive(Clone, Copy, Debug)]
pub struct RankTokens<'a> {
    /// \[batch, heads, tokens, head_dim\].
    pub heads: Heads<'a>,
    /// The places of the tokens among the tokens of all ranks, in the order of `heads`.
    pub places: &'a [Range<usize>],
}

/// The places of a rank's tokens. Out of every 2·ranks blocks of `block` tokens, rank r holds the blocks r and 2·ranks − 1 − r.
///
/// Under a causal mask later queries see more keys. The two blocks together see the same number of keys on each rank.
///
/// ```
/// assert_eq!(regard_mpi::share(100, 10, 2, 0), [0..10, 30..40, 40..50, 70..80, 80..90]);
/// assert_eq!(regard_mpi::share(100, 10, 2, 1), [10..20, 20..30, 50..60, 60..70, 90..100]);
/// ```
#[must_use]
pub fn share(tokens: usize, block: usize, ranks: usize, rank: usize) -> Vec<Range<usize>> {
    let blocks = (0..tokens).step_by(block.max(1)).enumerate();
    let owner = |index: usize| (index % (2 * ranks)).min(2 * ranks - 1 - index % (2 * ranks));
    let own = blocks.filter(|(index, _)| owner(*index) == rank);
    own.map(|(_, first)| first..tokens.min(first + block.max(1))).collect()
}

/// The length of the blocks of queries for [`share`]. It is about 500 tokens, so that each chunk of keys is seen by about the
/// same number of queries of each rank. All ranks have the same number of blocks.
///
/// ```
/// assert_eq!(regard_mpi::query_block(1_000_000, 4), 500);
/// assert_eq!(regard_mpi::query_block(100, 4), 13); // eight blocks, two a rank
/// ```
#[must_use]
pub fn query_block(queries: usize, ranks: usize) -> usize {
    let rounds = queries / (2 * ranks * 500);
    queries.div_ceil(2 * ranks * rounds.max(1)).max(1)
}

/// Attention whose tokens are divided among the ranks of a communicator, in any way. Each rank passes its own queries, keys and
/// values, and receives the output \[batch, heads, own queries, d_v\] for its queries and their log-sum-exp \[batch, heads, own
/// queries\]. The values belong to its keys.
///
/// All ranks describe the same attention. A mask tensor has rows for the rank's own queries and columns for all keys.
///
/// # Errors
/// If the shapes or options of a rank differ from those of the others, or if a rank cannot compute. All ranks get the same error.
///
/// ```no_run
/// use mpi::traits::Communicator as _;
/// use regard::{Attention, CHUNK_KEYS, Heads, Mask};
/// use regard_mpi::{RankTokens, attend, share};
///
/// let universe = mpi::initialize().ok_or("MPI runs already")?;
/// let world = universe.world();
/// // Self-attention over 100,000 tokens of 8 heads of 64 numbers:
/// let places = share(100_000, CHUNK_KEYS, world.size() as usize, world.rank() as usize);
/// let n = places.iter().map(|range| range.len()).sum();
/// let x = vec![0.5; 8 * n * 64];
/// let heads = Heads::new("x", &x, [1, 8, n, 64])?;
/// let own = RankTokens { heads, places: &places };
/// let (out, _log_sum_exp) = attend(&world, &Attention::new().mask(Mask::CAUSAL), own, own, heads)?;
/// assert_eq!(out.len(), x.len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn attend<C: Communicator>(
    communicator: &C,
    attention: &Attention<'_>,
    q: RankTokens<'_>,
    k: RankTokens<'_>,
    v: Heads<'_>,
) -> Result<(Vec<f32>, Vec<f32>), Error> {
    let ([batch, heads, _, d_k], [key_batch, kv_heads, _, key_dim]) =
        (q.heads.shape(), k.heads.shape());
    let [_, _, _, d_v] = v.shape();
    let sizes = [heads, kv_heads, d_k, key_dim, d_v, batch, key_batch];
    exchange::compare(communicator, &(sizes, attention), || {
        format!(
            "{heads} heads of query and {kv_heads} of key, vectors of {d_k}, {key_dim} and (value) {d_v} numbers, \
             batches of {batch} and {key_batch}, and {attention:?}"
        )
    })?;
    let (queries, keys) =
        (Division::new(communicator, "query", q)?, Division::new(communicator, "key", k)?);
    let (all, own) = ([queries.tokens, keys.tokens], [k.heads, v]);
    let mut partial = agree(communicator, begin(attention, q, own, all))?;

    let layout = Layout { batch, kv_heads, d_k, d_v };
    let chunks: Vec<_> =
        (0..keys.tokens).step_by(CHUNK_KEYS).map(|first| keys.chunk(first, layout)).collect();
    let seen = chunks.iter().map(|chunk| Ok(u8::from(partial.sees(chunk.keys.clone())?)));
    let seen = agree(communicator, seen.collect::<Result<Vec<u8>, regard::Error>>())?;
    let mut by_any = seen.clone();
    if !seen.is_empty() {
        communicator.all_reduce_into(&seen[..], &mut by_any[..], SystemOperation::max());
    }
    let mut by_any = by_any.into_iter();
    let chunks: Vec<_> = chunks.into_iter().filter(|_| by_any.next() == Some(1)).collect();

    // The results of a few queries over all chunks take less memory than two chunks of keys.
    let results = [batch, heads, queries.tokens, d_v + 2, chunks.len()].iter().product::<usize>();
    let room = (2 * CHUNK_KEYS * layout.width()).min(i32::MAX as usize);
    let whole = chunks.iter().all(|chunk| chunk.owner().is_some());
    if partial.is_by_places() && whole && results <= room {
        return move_queries(
            communicator,
            attention,
            (q.heads, &queries),
            own,
            all,
            &chunks,
            layout,
        );
    }
    let moved = move_keys(communicator, &mut partial, own, &chunks, layout);
    let finished = moved.and_then(|()| partial.finish());
    agree(communicator, finished.map(|(out, sums)| (out.into_vec(), sums.into_vec())))
}

/// An empty result, if the tensors fit each other.
fn begin<'a>(
    attention: &'a Attention<'a>,
    q: RankTokens<'a>,
    [k, v]: [Heads<'_>; 2],
    all: [usize; 2],
) -> Result<Partial<'a>, String> {
    let ([key_batch, kv_heads, n, d_k], [value_batch, value_heads, values, d_v]) =
        (k.shape(), v.shape());
    if n != values {
        return Err(format!("value has {values} tokens, but key has {n}"));
    }
    let checked = || {
        let mut partial = attention.partial(q.heads, q.places, all, d_v)?;
        let none = Heads::<f32>::new("key", &[], [key_batch, kv_heads, 0, d_k])?;
        partial.add(0, none, Heads::new("value", &[], [value_batch, value_heads, 0, d_v])?)?;
        Ok(partial)
    };
    checked().map_err(|e: regard::Error| e.to_string())
}

/// Sends each chunk to all ranks. The next chunk is sent while this one is computed.
fn move_keys(
    communicator: &impl Communicator,
    partial: &mut Partial<'_>,
    own: [Heads<'_>; 2],
    chunks: &[Chunk],
    layout: Layout,
) -> Result<(), regard::Error> {
    let rank = communicator.rank() as usize;
    let longest = chunks.iter().map(|chunk| chunk.keys.len()).max().unwrap_or(0);
    let [mut now, mut next] = [(); 2].map(|()| vec![0.0; longest * layout.width()]);
    let mut result = Ok(());
    for sent in 0..=chunks.len() {
        let (computed, now_ref) = (sent.checked_sub(1).and_then(|i| chunks.get(i)), &now);
        mpi::request::scope(|scope| {
            let requests = chunks.get(sent).map(|chunk| {
                chunk.pack(rank, layout, own, &mut next);
                chunk.broadcast(communicator, scope, layout, &mut next)
            });
            compute_meanwhile(requests.unwrap_or_default(), || {
                // A rank that has failed continues to pass the messages on. The others receive its error at the end.
                if let (Some(chunk), Ok(())) = (computed, &result) {
                    let added = layout.heads(now_ref, chunk.keys.len());
                    result = added.and_then(|[k, v]| partial.add(chunk.keys.start, k, v));
                }
            });
        });
        swap(&mut now, &mut next);
    }
    result
}

/// Sends the queries to all ranks, which compute with their own chunks. Then sends the results to all ranks, which merge them
/// in order.
fn move_queries(
    communicator: &impl Communicator,
    attention: &Attention<'_>,
    (q, queries): (Heads<'_>, &Division),
    own: [Heads<'_>; 2],
    all: [usize; 2],
    chunks: &[Chunk],
    layout: Layout,
) -> Result<(Vec<f32>, Vec<f32>), Error> {
    let ([batch, heads, n, d_k], rank) = (q.shape(), communicator.rank() as usize);
    let of_queries = Layout { batch, kv_heads: heads, d_k, d_v: 0 };
    let mut packed = vec![0.0; n * of_queries.width()];
    let pack = Heads::new("value", &[], [batch, heads, n, 0])
        .map(|none| of_queries.pack(0, [q, none], &mut packed));
    agree(communicator, pack)?;
    let packed = gather(communicator, &packed).concat();
    let places = queries.by_rank();

    let begin = || {
        let [q, _] = of_queries.heads(&packed, queries.tokens)?;
        attention.partial(q, &places, all, layout.d_v)
    };
    let mut numbers = Vec::new();
    let mut buffer = vec![0.0; CHUNK_KEYS * layout.width()];
    let mut compute = |chunk: &Chunk| {
        let mut partial = begin()?;
        chunk.pack(rank, layout, own, &mut buffer);
        let [k, v] = layout.heads(&buffer, chunk.keys.len())?;
        partial.add(chunk.keys.start, k, v)?;
        partial.numbers().iter().for_each(|part| numbers.extend_from_slice(part));
        Ok::<_, regard::Error>(())
    };
    let computed =
        chunks.iter().filter(|chunk| chunk.owner() == Some(rank)).try_for_each(&mut compute);
    agree(communicator, computed)?;
    let results = gather(communicator, &numbers);

    let merge = || {
        let mut partial = begin()?;
        let sizes = partial.numbers().map(<[f32]>::len);
        let mut rest: Vec<&[f32]> = results.iter().map(Vec::as_slice).collect();
        for owner in chunks.iter().filter_map(Chunk::owner) {
            let (of_chunk, others) = rest[owner].split_at(sizes[0] + sizes[1]);
            rest[owner] = others;
            partial.merge(of_chunk.split_at(sizes[0]).into())?;
        }
        partial.finish()
    };
    let first = queries.tokens_before(rank);
    let rows = |x: &[f32], width: usize| -> Vec<f32> {
        let of_heads = x.chunks_exact((queries.tokens * width).max(1));
        of_heads.flat_map(|x| &x[first * width..(first + n) * width]).copied().collect()
    };
    agree(
        communicator,
        merge().map(|(out, sums)| (rows(out.as_slice(), layout.d_v), rows(sums.as_slice(), 1))),
    )
}
