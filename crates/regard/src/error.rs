use regard_kernels::Error as KernelError;

/// Why an attention was refused. Every variant names the tensor at fault, and both shapes.
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

    /// A slice has not as many elements as its shape says.
    #[error("{tensor} has {found} elements, which do not fill the shape {shape:?}")]
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
    Rank {
        /// The tensor's name.
        tensor: &'static str,
        /// The shape as given.
        found: Vec<usize>,
        /// The most dimensions.
        most: usize,
    },

    /// An array whose numbers do not lie in memory as they must.
    #[cfg(feature = "ndarray")]
    #[error("{tensor} of the shape {shape:?} has the strides {strides:?}, but {needed}")]
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
    Memory {
        /// The result's name.
        tensor: &'static str,
        /// Its shape.
        shape: Vec<usize>,
    },

    /// A number of heads that does not divide what it should evenly.
    #[error("{into} {what} cannot be divided evenly among {heads} {of} heads")]
    Heads {
        /// The number of heads.
        heads: usize,
        /// Which heads: `query`, `key/value`.
        of: &'static str,
        /// What is divided, in the plural.
        what: &'static str,
        /// How many there are of it.
        into: usize,
    },

    /// A key length behind the end of the keys.
    #[error("the key length of batch entry {entry} is {found}, but there are {keys} keys")]
    KeyLength {
        /// The batch entry.
        entry: usize,
        /// The key length as given.
        found: usize,
        /// The number of keys.
        keys: usize,
    },

    /// Tokens behind the last position.
    #[error("{needed} positions are needed, but there are {table}")]
    Positions {
        /// Positions up to the last token.
        needed: usize,
        /// Positions that there are.
        table: usize,
    },

    /// A token that the vocabulary of an embedding does not have.
    #[error("token {index} has the id {id}, but the embedding has {tokens} tokens")]
    Token {
        /// The place of the token among those given.
        index: usize,
        /// The token's id.
        id: u32,
        /// The size of the vocabulary.
        tokens: usize,
    },

    /// A cache of keys and values without room.
    #[error("{tokens} tokens do not fit behind the {len} of a cache for {capacity}")]
    CacheFull {
        /// The tokens to append.
        tokens: usize,
        /// The tokens there are.
        len: usize,
        /// The most tokens.
        capacity: usize,
    },

    /// A mask that places the newest tokens elsewhere than after the tokens in the cache.
    #[error(
        "the {part} mask places the first query at key {first}, but it stands after {cached} cached keys; \
         use Mask::CAUSAL, or Position::BottomRight"
    )]
    CachePosition {
        /// The part of the mask: `causal`, `window`, `ALiBi`.
        part: &'static str,
        /// The key at which it places the first query.
        first: isize,
        /// Tokens in the cache.
        cached: usize,
    },

    /// Packed values of other sequences than the keys.
    #[error("the lengths of value are {found:?}, but those of key are {expected:?}")]
    Lengths {
        /// The lengths of value.
        found: Vec<usize>,
        /// The lengths of key.
        expected: Vec<usize>,
    },

    /// What packed sequences cannot have, because it speaks of a batch whose sequences are equally long.
    #[error("packed sequences have no {what}")]
    Packed {
        /// What was asked for.
        what: &'static str,
    },

    /// A layer with a part whose gradient is not implemented.
    #[error("the gradient of a layer with {what} is not implemented")]
    NoGradient {
        /// The part, in the plural.
        what: &'static str,
    },

    /// A thread pool could not be made.
    #[error("no pool of {count} threads: {reason}")]
    Threads {
        /// Threads asked for.
        count: usize,
        /// What stood in the way.
        reason: String,
    },

    /// A kernel refused its input.
    #[error(transparent)]
    Kernel(#[from] KernelError),
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
