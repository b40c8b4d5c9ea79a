use std::io;

use super::HeadId;

/// Why a file of attention maps, or of queries and keys, could not be opened, or its maps not be combined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system refused.
    #[error(transparent)]
    Io(#[from] io::Error),

    /// The file is not of the format that its first bytes promise.
    #[error("this is no {format} file that can be read: {reason}")]
    Format {
        /// safetensors, npy or npz.
        format: &'static str,
        /// What is wrong with it.
        reason: String,
    },

    /// The file ends before its numbers do.
    #[error(
        "tensor `{tensor}` ends too early: its shape {shape:?} needs {needed} bytes, but the file has {found}"
    )]
    Truncated {
        /// The tensor's name.
        tensor: String,
        /// Its shape, as declared.
        shape: Vec<usize>,
        /// The bytes that this shape needs.
        needed: u64,
        /// The bytes that there are, or that there can be at most where they are compressed.
        found: u64,
    },

    /// Numbers of a type that is not read.
    #[error(
        "tensor `{tensor}` is {found}, but F32, F16, BF16 or F64 in little-endian and row-major order is needed"
    )]
    Type {
        /// The tensor's name.
        tensor: String,
        /// Its type, as the file calls it.
        found: String,
    },

    /// Too many dimensions or too few.
    #[error("tensor `{tensor}` has the shape {shape:?}, but {needed} is needed")]
    Rank {
        /// The tensor's name.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
        /// The shapes that would do.
        needed: &'static str,
    },

    /// No layers, heads, queries or keys.
    #[error(
        "tensor `{tensor}` has the shape {shape:?}: it holds no attention, because one of its dimensions is 0"
    )]
    Empty {
        /// The tensor's name.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
    },

    /// Layers that do not fit together.
    #[error("tensor `{tensor}` is {found}, but `{first}` is {expected}: all layers must be alike")]
    Ragged {
        /// A tensor that differs.
        tensor: String,
        /// Its type and shape.
        found: String,
        /// The tensor of the first layer.
        first: String,
        /// Its type and shape.
        expected: String,
    },

    /// More numbers than there is memory for, or than can be counted.
    #[error("tensor `{tensor}` with the shape {shape:?} does not fit in memory")]
    TooLarge {
        /// The tensor's name.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
    },

    /// No tensor could be attention.
    #[error("the file has no attention: {}", if .names.is_empty() { "no tensor at all".to_owned() } else { format!("its tensors are {}", .names.join(", ")) })]
    NoAttention {
        /// The tensors of the file.
        names: Vec<String>,
    },

    /// Neither queries and keys, nor one tensor alone that could be both.
    #[error("the file has neither `q` and `k` nor one tensor alone: {}", if .names.is_empty() { "no tensor at all".to_owned() } else { format!("its tensors are {}", .names.join(", ")) })]
    NoQueriesAndKeys {
        /// The tensors of the file.
        names: Vec<String>,
    },

    /// Keys that do not go with the queries.
    #[error(
        "tensor `k` has the shape {keys:?}, which does not go with `q` {queries:?}: batch, tokens and dimensions must be the same, and the heads of `q` a multiple of those of `k`"
    )]
    Unlike {
        /// The shape of `k`.
        keys: Vec<usize>,
        /// The shape of `q`.
        queries: Vec<usize>,
    },

    /// A token alone has nothing to attend to, and without heads or dimensions there is nothing at all.
    #[error(
        "tensor `{tensor}` has the shape {shape:?}, but at least 2 tokens are needed, and at least 1 of everything else"
    )]
    TooFew {
        /// The tensor's name.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
    },

    /// Several tensors could be meant.
    #[error("the file has several attentions, and one must be named: {}", .names.join(", "))]
    Ambiguous {
        /// The names that would do.
        names: Vec<String>,
    },

    /// The tensor asked for is not there.
    #[error("the file has no `{name}`; it has {}", .names.join(", "))]
    Unknown {
        /// The name asked for.
        name: String,
        /// The names that would do.
        names: Vec<String>,
    },

    /// Tokens that cannot be read.
    #[error("the tokens in {place} cannot be read: {reason}")]
    Tokens {
        /// Where they are: a file, or a place in the attention file.
        place: String,
        /// What is wrong with them.
        reason: String,
    },

    /// More tokens or fewer than the matrix has.
    #[error("there are {found} tokens in {place}, but tensor `{tensor}` has {needed} {axis}")]
    TokenCount {
        /// Where the tokens are.
        place: String,
        /// How many there are.
        found: usize,
        /// The tensor of the attention.
        tensor: String,
        /// How many are needed.
        needed: usize,
        /// queries or keys.
        axis: &'static str,
    },

    /// A layer or head that the file has not.
    #[error("there is no {what} {number}: the file has {there_are}")]
    NoSuchHead {
        /// layer or head.
        what: &'static str,
        /// The number asked for.
        number: usize,
        /// The numbers that there are.
        there_are: String,
    },

    /// Rollout multiplies the attention of layers, which needs tokens that attend to each other.
    #[error(
        "rollout needs self-attention: as many queries as keys, of the same tokens, and here are {queries} queries and {keys} keys"
    )]
    NotSelfAttention {
        /// The number of queries.
        queries: usize,
        /// The number of keys.
        keys: usize,
    },

    /// A kernel refused its input.
    #[error(transparent)]
    Kernel(#[from] regard_kernels::Error),

    /// The caller wanted no more of it.
    #[error("cancelled")]
    Cancelled,
}

/// What a person should know of a file that can be opened all the same.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// Some numbers are NaN.
    #[error(
        "{rows} rows in {heads} heads hold NaN (the first in {first}); the measures leave these rows out"
    )]
    NotANumber {
        /// How many rows.
        rows: usize,
        /// In how many heads.
        heads: usize,
        /// The first of these heads.
        first: String,
    },

    /// Some numbers are no weights: scores, for instance.
    #[error(
        "{rows} rows in {heads} heads hold negative or infinite numbers (the first in {first}): these are no attention weights, and the measures leave these rows out"
    )]
    NotWeights {
        /// How many rows.
        rows: usize,
        /// In how many heads.
        heads: usize,
        /// The first of these heads.
        first: String,
    },

    /// Some rows do not sum to 1.
    #[error(
        "{rows} rows in {heads} heads do not sum to 1 (the first in {first}); the measures divide each by its sum"
    )]
    NotADistribution {
        /// How many rows.
        rows: usize,
        /// In how many heads.
        heads: usize,
        /// The first of these heads.
        first: String,
    },

    /// With one key there is nothing to choose from.
    #[error("there is one key only: all weight is on it, whatever the head")]
    OneKey,
}

impl Error {
    pub(super) fn format(format: &'static str, reason: &dyn ToString) -> Self {
        Self::Format { format, reason: reason.to_string() }
    }

    pub(super) fn tokens(place: &str, reason: &dyn ToString) -> Self {
        Self::Tokens { place: place.to_owned(), reason: reason.to_string() }
    }
}

impl core::fmt::Display for HeadId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "layer {}, head {}", self.layer, self.head)
    }
}
