use regard_kernels::Error as KernelError;

/// This error says why an attention was refused. Every variant names the tensor at fault, and the shapes or numbers
/// that do not fit.
///
/// ```
/// use regard::{Attention, Heads};
/// let (q, k) = (Heads::new("query", &[0.0; 8], [1, 1, 2, 4])?, Heads::new("key", &[0.0; 9], [1, 1, 3, 3])?);
/// let error = Attention::new().forward(q, k, k).unwrap_err();
/// let said = "key must have the shape [1, 1, 3, 4] (the batch and head_dim of query), not [1, 1, 3, 3]";
/// assert_eq!(error.to_string(), said);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A tensor does not have the shape that the other tensors need.
    #[error("{tensor} must have the shape {expected:?} ({why}), not {found:?}")]
    #[non_exhaustive]
    Shape {
        /// The tensor's name, such as `key`.
        tensor: &'static str,
        /// The shape that was given.
        found: Vec<usize>,
        /// The shape that is needed.
        expected: Vec<usize>,
        /// The reason for the expected shape.
        why: &'static str,
    },

    /// A token has a place after the last of all tokens.
    #[error("{tensor} has the place {place}, but there are {all} in all")]
    #[non_exhaustive]
    Place {
        /// The token: `a query` or `a key`.
        tensor: &'static str,
        /// Its place, counted from 0.
        place: usize,
        /// The number of all such tokens.
        all: usize,
    },

    /// A slice has more or fewer elements than its shape says.
    #[error("{tensor} has {found} elements, which do not fill the shape {shape:?}")]
    #[non_exhaustive]
    Elements {
        /// The tensor's name.
        tensor: &'static str,
        /// The number of elements that was given.
        found: usize,
        /// The shape that was given.
        shape: Vec<usize>,
    },

    /// A tensor has too many dimensions.
    #[error("{tensor} has {} dimensions, {found:?}, but at most {most} are possible", found.len())]
    #[non_exhaustive]
    Rank {
        /// The tensor's name.
        tensor: &'static str,
        /// The shape that was given.
        found: Vec<usize>,
        /// The most dimensions that it may have.
        most: usize,
    },

    /// An array has a layout in memory that cannot be borrowed.
    #[cfg(feature = "ndarray")]
    #[error("{tensor} of the shape {shape:?} has the strides {strides:?}, but {needed}")]
    #[non_exhaustive]
    Layout {
        /// The tensor's name.
        tensor: &'static str,
        /// The shape that was given.
        shape: Vec<usize>,
        /// For each axis, the elements from one index to the next, as given.
        strides: Vec<isize>,
        /// The layout that is needed, in words.
        needed: &'static str,
    },

    /// A result does not fit in memory.
    #[error("{tensor} of the shape {shape:?} does not fit in memory")]
    #[non_exhaustive]
    Memory {
        /// The result's name.
        tensor: &'static str,
        /// Its shape.
        shape: Vec<usize>,
    },

    /// A number of heads does not divide another number evenly.
    #[error("{into} {what} cannot be divided evenly among {heads} {of} heads")]
    #[non_exhaustive]
    Heads {
        /// The number of heads.
        heads: usize,
        /// The kind of heads: `query`, `key/value`.
        of: &'static str,
        /// The things that are divided, in the plural.
        what: &'static str,
        /// The number that is divided.
        into: usize,
    },

    /// A key length is greater than the number of keys.
    #[error("{tensor} of batch entry {entry} is {found}, but key has {keys} tokens")]
    #[non_exhaustive]
    KeyLength {
        /// The name of the length.
        tensor: &'static str,
        /// The batch entry.
        entry: usize,
        /// The key length that was given.
        found: usize,
        /// The number of keys.
        keys: usize,
    },

    /// Some tokens have positions after the end of a table.
    #[error("{tensor} has {table} positions, but {needed} are needed")]
    #[non_exhaustive]
    Positions {
        /// The table's name.
        tensor: &'static str,
        /// The number of positions up to the last token.
        needed: usize,
        /// The number of positions in the table.
        table: usize,
    },

    /// A token is not in the vocabulary of an embedding.
    #[error("token {index} has the id {id}, but the embedding has {tokens} tokens")]
    #[non_exhaustive]
    Token {
        /// The index of the token among the given ones.
        index: usize,
        /// The token's id.
        id: u32,
        /// The size of the vocabulary.
        tokens: usize,
    },

    /// A cache of keys and values has no room for more tokens.
    #[error(
        "cannot append {tokens} tokens to {tensor}: it holds {len} and has room for {capacity}"
    )]
    #[non_exhaustive]
    CacheFull {
        /// The cache's name.
        tensor: &'static str,
        /// The number of tokens to append.
        tokens: usize,
        /// The number of tokens that the cache holds.
        len: usize,
        /// The most tokens that the cache can hold.
        capacity: usize,
    },

    /// A mask places the new tokens elsewhere than after the tokens in the cache.
    #[error(
        "the {part} mask places the first query at key {first}, but it stands after {cached} cached keys; \
         use Mask::CAUSAL, or Position::BottomRight"
    )]
    #[non_exhaustive]
    CachePosition {
        /// The part of the mask: `causal`, `window`, `ALiBi`.
        part: &'static str,
        /// The key at which it places the first query.
        first: isize,
        /// The number of tokens in the cache.
        cached: usize,
    },

    /// A thread pool could not be made.
    #[error("no pool of {count} threads: {reason}")]
    #[non_exhaustive]
    Threads {
        /// The number of threads that was asked for.
        count: usize,
        /// The reason that the system gave.
        reason: String,
    },

    /// A kernel refused its input.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// `Ok` if a table of this many positions has positions for `n` tokens from `first` on.
pub(crate) fn check_positions(
    tensor: &'static str,
    first: usize,
    n: usize,
    table: usize,
) -> Result<(), Error> {
    let needed = first.saturating_add(n);
    if needed > table { Err(Error::Positions { tensor, needed, table }) } else { Ok(()) }
}

/// `Ok` if places that end at `end` lie among `all` tokens.
pub(crate) fn check_place(tensor: &'static str, end: usize, all: usize) -> Result<(), Error> {
    if end > all { Err(Error::Place { tensor, place: end - 1, all }) } else { Ok(()) }
}

/// `Ok` if `found` is `expected`, else an error that names the tensor.
pub(crate) fn check_shape(
    tensor: &'static str,
    found: &[usize],
    expected: &[usize],
    why: &'static str,
) -> Result<(), Error> {
    if found == expected {
        Ok(())
    } else {
        Err(Error::Shape { tensor, found: found.to_vec(), expected: expected.to_vec(), why })
    }
}
