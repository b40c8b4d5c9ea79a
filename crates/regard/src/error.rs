use regard_kernels::Error as KernelError;

/// Why an attention was refused. Every variant names the tensor at fault, and the shapes or numbers that do not fit.
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
    /// A tensor has another shape than the others ask for.
    #[error("{tensor} must have the shape {expected:?} ({why}), not {found:?}")]
    #[non_exhaustive]
    Shape {
        /// The tensor's name, such as `key`.
        tensor: &'static str,
        /// The shape as given.
        found: Vec<usize>,
        /// The shape as needed.
        expected: Vec<usize>,
        /// Where the need comes from.
        why: &'static str,
    },

    /// A slice has more or fewer elements than its shape says.
    #[error("{tensor} has {found} elements, which do not fill the shape {shape:?}")]
    #[non_exhaustive]
    Elements {
        /// The tensor's name.
        tensor: &'static str,
        /// Elements as given.
        found: usize,
        /// The shape as given.
        shape: Vec<usize>,
    },

    /// A tensor has too many dimensions.
    #[error("{tensor} has {} dimensions, {found:?}, but at most {most} are possible", found.len())]
    #[non_exhaustive]
    Rank {
        /// The tensor's name.
        tensor: &'static str,
        /// The shape as given.
        found: Vec<usize>,
        /// The most dimensions.
        most: usize,
    },

    /// An array has a layout in memory that cannot be borrowed.
    #[cfg(feature = "ndarray")]
    #[error("{tensor} of the shape {shape:?} has the strides {strides:?}, but {needed}")]
    #[non_exhaustive]
    Layout {
        /// The tensor's name.
        tensor: &'static str,
        /// The shape as given.
        shape: Vec<usize>,
        /// Elements from each index of an axis to the next, as given.
        strides: Vec<isize>,
        /// What they must be, in words.
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
        /// Which heads: `query`, `key/value`.
        of: &'static str,
        /// What is divided, in the plural.
        what: &'static str,
        /// The number that is divided.
        into: usize,
    },

    /// A key length is greater than the number of keys.
    #[error("{tensor} of batch entry {entry} is {found}, but key has {keys} tokens")]
    #[non_exhaustive]
    KeyLength {
        /// What the length is called.
        tensor: &'static str,
        /// The batch entry.
        entry: usize,
        /// The key length as given.
        found: usize,
        /// The number of keys.
        keys: usize,
    },

    /// Tokens stand after the last position of a table.
    #[error("{tensor} has {table} positions, but {needed} are needed")]
    #[non_exhaustive]
    Positions {
        /// The table's name.
        tensor: &'static str,
        /// Positions up to the last token.
        needed: usize,
        /// Positions of the table.
        table: usize,
    },

    /// A token that the vocabulary of an embedding does not have.
    #[error("token {index} has the id {id}, but the embedding has {tokens} tokens")]
    #[non_exhaustive]
    Token {
        /// The place of the token among those given.
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
        /// The tokens to append.
        tokens: usize,
        /// The tokens that it holds.
        len: usize,
        /// The most tokens.
        capacity: usize,
    },

    /// A mask places the newest tokens elsewhere than after the tokens in the cache.
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
        /// Tokens in the cache.
        cached: usize,
    },

    /// A thread pool could not be made.
    #[error("no pool of {count} threads: {reason}")]
    #[non_exhaustive]
    Threads {
        /// Threads asked for.
        count: usize,
        /// The reason that the system gave.
        reason: String,
    },

    /// A kernel refused its input.
    #[error(transparent)]
    Kernel(#[from] KernelError),
}

/// `Ok` if a table of so many positions reaches `n` tokens from `first` on.
pub(crate) fn check_positions(
    tensor: &'static str,
    first: usize,
    n: usize,
    table: usize,
) -> Result<(), Error> {
    let needed = first.saturating_add(n);
    if needed > table { Err(Error::Positions { tensor, needed, table }) } else { Ok(()) }
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
