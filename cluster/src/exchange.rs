//! The messages between ranks: errors, shapes, tokens and partial results.

use core::fmt::Display;
use core::hash::{Hash, Hasher};
use core::ops::Range;
use core::time::Duration;
use std::{panic, thread};

use mpi::datatype::PartitionMut;
use mpi::request::{LocalScope, Request};
use mpi::traits::{Communicator, CommunicatorCollectives as _, Equivalence, Root as _};
use regard::{CHUNK_KEYS, Heads, Threads};

use crate::RankTokens;

/// This error says why an attention over many machines was refused. All ranks get the same error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A rank failed.
    #[error("rank {rank}: {reason}")]
    #[non_exhaustive]
    Rank {
        /// The first such rank.
        rank: usize,
        /// The rank's error.
        reason: String,
    },

    /// The attention of a rank differs from that of rank 0.
    #[error("rank {rank} computes with {found}, but rank 0 with {expected}")]
    #[non_exhaustive]
    Differs {
        /// The first such rank.
        rank: usize,
        /// Its shapes and options.
        found: String,
        /// The shapes and options of rank 0.
        expected: String,
    },

    /// The places of the ranks' tokens overlap, or a place has no token.
    #[error("token {token} of {tensor} is held by {} rank", if *missing { "no" } else { "more than one" })]
    #[non_exhaustive]
    Place {
        /// The tensor's name.
        tensor: &'static str,
        /// The first such token.
        token: usize,
        /// Whether no rank has this token.
        missing: bool,
    },
}

/// Returns the rank's own result, or on all ranks the first error of any rank. So no rank waits for one that has stopped.
///
/// # Errors
/// [`Error::Rank`].
pub fn agree<T, E: Display>(
    communicator: &impl Communicator,
    result: Result<T, E>,
) -> Result<T, Error> {
    let own = result.as_ref().err().map(|e| format!("{e:#}")).unwrap_or_default();
    let failed = gather(communicator, own.as_bytes())
        .into_iter()
        .enumerate()
        .find(|(_, reason)| !reason.is_empty());
    let rank = |(rank, reason): (usize, Vec<u8>)| Error::Rank {
        rank,
        reason: String::from_utf8_lossy(&reason).into_owned(),
    };
    match (failed, result) {
        (None, Ok(result)) => Ok(result),
        (Some(failed), _) => Err(rank(failed)),
        (None, Err(_)) => Err(rank((communicator.rank() as usize, own.into()))),
    }
}

/// `Ok` if all ranks have the same `values`, else an error with what two of them `say`.
pub(crate) fn compare(
    communicator: &impl Communicator,
    values: &impl Hash,
    say: impl FnOnce() -> String,
) -> Result<(), Error> {
    let mut bytes = Bytes::default();
    values.hash(&mut bytes);
    let of_ranks = gather(communicator, &bytes.0);
    // All ranks have gathered the same, so all of them return here or none does.
    let Some(rank) = of_ranks.iter().position(|other| *other != of_ranks[0]) else { return Ok(()) };
    let texts = gather(communicator, say().as_bytes());
    let text = |rank: usize| String::from_utf8_lossy(&texts[rank]).into_owned();
    Err(Error::Differs { rank, found: text(rank), expected: text(0) })
}

/// The bytes that a value hashes. Values whose bytes are the same are the same.
#[derive(Default)]
struct Bytes(Vec<u8>);

impl Hasher for Bytes {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        self.0.len() as u64 // nobody asks for it
    }
}

/// Gathers the values of each rank on all ranks.
pub(crate) fn gather<T: Equivalence + Clone + Default>(
    communicator: &impl Communicator,
    own: &[T],
) -> Vec<Vec<T>> {
    // An empty vector may have the address 1, which has another meaning for MPI.
    let none = [T::default()];
    let own = if own.is_empty() { &none[..0] } else { own };
    let mut counts = vec![0; communicator.size() as usize];
    communicator.all_gather_into(&(own.len() as i32), &mut counts[..]);
    let starts: Vec<i32> = counts
        .iter()
        .scan(0, |end, count| {
            *end += count;
            Some(*end - count)
        })
        .collect();
    let total = counts.iter().map(|count| *count as usize).sum::<usize>();
    let mut all = vec![T::default(); total.max(1)];
    let mut parts = PartitionMut::new(&mut all[..], &counts[..], &starts[..]);
    communicator.all_gather_varcount_into(own, &mut parts);
    let mut all = all.into_iter();
    counts.iter().map(|count| all.by_ref().take(*count as usize).collect()).collect()
}

/// The tokens that each rank holds.
pub(crate) struct Division {
    /// Ranges of places in ascending order, without gaps. Each has its rank, and the index of its first token among the rank's
    /// tokens.
    ranges: Vec<(Range<usize>, usize, usize)>,
    /// The total number of tokens.
    pub(crate) tokens: usize,
}

impl Division {
    pub(crate) fn new(
        communicator: &impl Communicator,
        tensor: &'static str,
        own: RankTokens<'_>,
    ) -> Result<Self, Error> {
        let [_, _, n, _] = own.heads.shape();
        let found = own.places.iter().map(|range| range.len()).sum::<usize>();
        let said = || format!("{tensor} has {n} tokens at {found} places");
        agree(communicator, (found == n).then_some(()).ok_or_else(said))?;
        let bounds: Vec<u64> =
            own.places.iter().flat_map(|range| [range.start as u64, range.end as u64]).collect();
        let mut ranges = Vec::new();
        for (rank, bounds) in gather(communicator, &bounds).into_iter().enumerate() {
            let mut at = 0;
            for [start, end] in bounds.as_chunks().0 {
                let range = *start as usize..*end as usize;
                let n = range.len();
                ranges.push((range, rank, at));
                at += n;
            }
        }
        ranges.retain(|(range, _, _)| !range.is_empty());
        ranges.sort_unstable_by_key(|(range, _, _)| range.start);
        let mut tokens = 0;
        for (range, _, _) in &ranges {
            if range.start != tokens {
                let (missing, token) = (range.start > tokens, range.start.min(tokens));
                return Err(Error::Place { tensor, token, missing });
            }
            tokens = range.end;
        }
        Ok(Self { ranges, tokens })
    }

    /// The places of all tokens, rank by rank.
    pub(crate) fn by_rank(&self) -> Vec<Range<usize>> {
        let mut ranges = self.ranges.clone();
        ranges.sort_unstable_by_key(|(_, rank, at)| (*rank, *at));
        ranges.into_iter().map(|(range, _, _)| range).collect()
    }

    pub(crate) fn tokens_before(&self, rank: usize) -> usize {
        self.ranges
            .iter()
            .filter(|(_, owner, _)| *owner < rank)
            .map(|(range, _, _)| range.len())
            .sum()
    }

    /// The chunk of keys that begins at place `first`.
    pub(crate) fn chunk(&self, first: usize, layout: Layout) -> Chunk {
        let keys = first..self.tokens.min(first + CHUNK_KEYS);
        let most = i32::MAX as usize / layout.width().max(1); // MPI counts the numbers of a message in an i32
        let begin = self.ranges.partition_point(|(range, _, _)| range.end <= first);
        let mut pieces = Vec::new();
        for (range, rank, at) in
            self.ranges.iter().skip(begin).take_while(|(range, _, _)| range.start < keys.end)
        {
            let (start, end) = (range.start.max(first), range.end.min(keys.end));
            for start in (start..end).step_by(most.max(1)) {
                let tokens = most.min(end - start);
                pieces.push(Piece { rank: *rank, at: at + start - range.start, tokens });
            }
        }
        Chunk { keys, pieces }
    }
}

/// The layout of a token in a message: the key of each head of each batch entry, and then the value of each.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    pub(crate) batch: usize,
    pub(crate) kv_heads: usize,
    pub(crate) d_k: usize,
    pub(crate) d_v: usize,
}

impl Layout {
    /// The number of elements of a token.
    pub(crate) fn width(self) -> usize {
        self.batch * self.kv_heads * (self.d_k + self.d_v)
    }

    /// The keys and values of the tokens in a buffer.
    pub(crate) fn heads(
        self,
        buffer: &[f32],
        tokens: usize,
    ) -> Result<[Heads<'_>; 2], regard::Error> {
        let Self { batch, kv_heads, d_k, d_v } = self;
        let strides = [kv_heads * (d_k + d_v), d_k + d_v, self.width()];
        let values = buffer.get(d_k..).unwrap_or_default();
        Ok([
            Heads::strided("key", buffer, [batch, kv_heads, tokens, d_k], strides)?,
            Heads::strided("value", values, [batch, kv_heads, tokens, d_v], strides)?,
        ])
    }

    /// Copies the tokens from index `at` on into a buffer.
    pub(crate) fn pack(self, at: usize, [k, v]: [Heads<'_>; 2], buffer: &mut [f32]) {
        let Self { batch, kv_heads, d_k, d_v } = self;
        let tokens = at..at + buffer.len() / self.width().max(1);
        let mut places = buffer.chunks_exact_mut((d_k + d_v).max(1));
        for token in tokens {
            for (entry, head) in
                (0..batch).flat_map(|entry| (0..kv_heads).map(move |head| (entry, head)))
            {
                let numbers = [k, v].map(|x| x.token([entry, head, token]).unwrap_or_default());
                if let Some(place) = places.next() {
                    place[..d_k].copy_from_slice(numbers[0]);
                    place[d_k..].copy_from_slice(numbers[1]);
                }
            }
        }
    }
}

/// Consecutive keys that are computed together.
pub(crate) struct Chunk {
    pub(crate) keys: Range<usize>,
    pieces: Vec<Piece>,
}

/// Tokens of a chunk that are consecutive in the tokens of a rank.
struct Piece {
    rank: usize,
    at: usize,
    tokens: usize,
}

impl Chunk {
    /// The rank that holds the whole chunk, if there is one.
    pub(crate) fn owner(&self) -> Option<usize> {
        let owner = self.pieces.first()?.rank;
        self.pieces.iter().all(|piece| piece.rank == owner).then_some(owner)
    }

    /// Copies this rank's tokens of the chunk into `buffer`.
    pub(crate) fn pack(
        &self,
        rank: usize,
        layout: Layout,
        own: [Heads<'_>; 2],
        buffer: &mut [f32],
    ) {
        let mut rest = buffer;
        for piece in &self.pieces {
            let (part, others) = rest.split_at_mut(piece.tokens * layout.width());
            if piece.rank == rank {
                layout.pack(piece.at, own, part);
            }
            rest = others;
        }
    }

    /// Starts to send the chunk from its ranks to all ranks.
    pub(crate) fn broadcast<'a, 's>(
        &self,
        communicator: &impl Communicator,
        scope: &'s LocalScope<'a>,
        layout: Layout,
        buffer: &'a mut [f32],
    ) -> Vec<Request<'a, [f32], &'s LocalScope<'a>>> {
        let mut rest = buffer;
        let mut requests = Vec::new();
        for piece in &self.pieces {
            let (part, others) = rest.split_at_mut(piece.tokens * layout.width());
            let root = communicator.process_at_rank(piece.rank as i32);
            requests.push(root.immediate_broadcast_into(scope, part));
            rest = others;
        }
        requests
    }
}

/// Computes on the threads chosen here, and meanwhile advances the messages of `requests`, because MPI moves messages only when
/// it is called.
pub(crate) fn compute_meanwhile<'a, R: Send>(
    mut requests: Vec<Request<'a, [f32], &LocalScope<'a>>>,
    compute: impl FnOnce() -> R + Send,
) -> R {
    /// About 50 calls in the time in which a network moves 100 MB.
    const PAUSE: Duration = Duration::from_micros(200);
    let threads = Threads::current();
    let computed = thread::scope(|scope| {
        let work = scope.spawn(|| threads.install(compute));
        while !work.is_finished() && !requests.is_empty() {
            thread::sleep(PAUSE);
            requests = requests.drain(..).filter_map(|request| request.test().err()).collect();
        }
        let computed = work.join();
        requests.drain(..).for_each(Request::wait_without_status);
        computed
    });
    computed.unwrap_or_else(|panic| panic::resume_unwind(panic))
}
