use std::io;

use serde::{Deserialize, Serialize};

/// An error of opening a file of attention maps or of queries and keys, or of combining maps.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file system reports an error.
    #[error(transparent)]
    Io(#[from] io::Error),

    /// The file does not have the format that its first bytes announce.
    #[error("it is not a readable {format} file: {reason}")]
    Format {
        /// safetensors, npy or npz.
        format: &'static str,
        /// The reason.
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
        /// The bytes that the file has, or can have at most if they are compressed.
        found: u64,
    },

    /// The numbers have a type that is not supported.
    #[error(
        "tensor `{tensor}` is {found}; F32, F16, BF16 or F64 in little-endian and row-major order is needed"
    )]
    Type {
        /// The tensor's name.
        tensor: String,
        /// Its type, as the file calls it.
        found: String,
    },

    /// The tensor has too many dimensions or too few.
    #[error("tensor `{tensor}` has the shape {shape:?}, but {needed} is needed")]
    Rank {
        /// The tensor's name.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
        /// The shapes that are possible.
        needed: &'static str,
    },

    /// A dimension of the tensor is 0.
    #[error(
        "tensor `{tensor}` has the shape {shape:?}: it holds no attention, because a dimension is 0"
    )]
    Empty {
        /// The tensor's name.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
    },

    /// The layers differ in type or shape.
    #[error(
        "tensor `{tensor}` is {found}, but `{first}` is {expected}: all layers must be alike in type and shape"
    )]
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

    /// The number of weights or tokens does not match the shape, or is 0.
    #[error(
        "{weights} weights, {} query tokens and {} key tokens do not fit the shape {shape:?}", tokens[0], tokens[1]
    )]
    Unfit {
        /// Layers, heads, queries and keys.
        shape: [usize; 4],
        /// The number of weights.
        weights: usize,
        /// The number of query tokens and of key tokens.
        tokens: [usize; 2],
    },

    /// The tensor does not fit in memory.
    #[error("tensor `{tensor}` with the shape {shape:?} does not fit in memory")]
    TooLarge {
        /// The tensor's name.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
    },

    /// The file has no tensor that can be attention.
    #[error("the file has no attention: {}", if .names.is_empty() { "it has no tensors".to_owned() } else { format!("its tensors are {}", .names.join(", ")) })]
    NoAttention {
        /// The tensors of the file.
        names: Vec<String>,
    },

    /// The file has neither queries and keys nor a single tensor that can be both.
    #[error("the file has neither `q` and `k` nor a single tensor: {}", if .names.is_empty() { "it has no tensors".to_owned() } else { format!("its tensors are {}", .names.join(", ")) })]
    NoQueriesAndKeys {
        /// The tensors of the file.
        names: Vec<String>,
    },

    /// The keys do not fit the queries.
    #[error(
        "tensor `k` has the shape {keys:?}, which does not fit `q` {queries:?}: batch, tokens and dimensions must be the same, and the number of heads of `q` a multiple of that of `k`"
    )]
    Unlike {
        /// The shape of `k`.
        keys: Vec<usize>,
        /// The shape of `q`.
        queries: Vec<usize>,
    },

    /// There are fewer than two tokens, or another dimension is 0.
    #[error(
        "tensor `{tensor}` has the shape {shape:?}, but at least 2 tokens are needed, and at least 1 of everything else"
    )]
    TooFew {
        /// The tensor's name.
        tensor: String,
        /// Its shape.
        shape: Vec<usize>,
    },

    /// The file has several tensors that can be attention.
    #[error("the file has several attentions; name one of {}", .names.join(", "))]
    Ambiguous {
        /// The names to choose from.
        names: Vec<String>,
    },

    /// The file lacks the requested tensor.
    #[error("the file has no tensor `{name}`; it has {}", .names.join(", "))]
    Unknown {
        /// The requested name.
        name: String,
        /// The names to choose from.
        names: Vec<String>,
    },

    /// The tokens cannot be read.
    #[error("the tokens in {place} cannot be read: {reason}")]
    Tokens {
        /// The file that they are in, or the place in the attention file.
        place: String,
        /// The reason.
        reason: String,
    },

    /// The number of tokens does not fit the matrix.
    #[error("there are {found} tokens in {place}, but tensor `{tensor}` has {needed} {axis}")]
    TokenCount {
        /// The place of the tokens.
        place: String,
        /// The number of tokens.
        found: usize,
        /// The tensor of the attention.
        tensor: String,
        /// The number of queries or keys.
        needed: usize,
        /// queries or keys.
        axis: &'static str,
    },

    /// The file has no such layer or head.
    #[error("there is no {what} {number}: the file has {there_are}")]
    NoSuchHead {
        /// layer or head.
        what: &'static str,
        /// The requested number.
        number: usize,
        /// The numbers to choose from.
        there_are: String,
    },

    /// Rollout multiplies the attention of layers. It needs as many queries as keys, of the same tokens.
    #[error(
        "rollout needs self-attention, with as many queries as keys, of the same tokens; the matrices of the file are {queries} × {keys}"
    )]
    NotSelfAttention {
        /// The number of queries.
        queries: usize,
        /// The number of keys.
        keys: usize,
    },

    /// A kernel refuses its input.
    #[error(transparent)]
    Kernel(#[from] regard_kernels::Error),

    /// The caller cancelled the work.
    #[error("cancelled")]
    Cancelled,
}

/// A defect of a file that can nevertheless be opened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// Some numbers are NaN.
    #[error(
        "{} NaN (the first in {first}); the measures leave {} out",
        contain(*rows, *heads),
        if *rows == 1 { "it" } else { "them" }
    )]
    NotANumber {
        /// The number of rows.
        rows: usize,
        /// The number of heads that these rows are in.
        heads: usize,
        /// The first of these heads.
        first: String,
    },

    /// Some numbers are not weights but, for instance, scores.
    #[error(
        "{} negative or infinite numbers (the first in {first}), which are not attention weights; the measures leave {} out",
        contain(*rows, *heads),
        if *rows == 1 { "it" } else { "them" }
    )]
    NotWeights {
        /// The number of rows.
        rows: usize,
        /// The number of heads that these rows are in.
        heads: usize,
        /// The first of these heads.
        first: String,
    },

    /// Some rows do not sum to 1.
    #[error(
        "{} {} not sum to 1 (the first in {first}); the measures divide each row by its sum",
        counted(*rows, *heads),
        if *rows == 1 { "does" } else { "do" }
    )]
    NotADistribution {
        /// The number of rows.
        rows: usize,
        /// The number of heads that these rows are in.
        heads: usize,
        /// The first of these heads.
        first: String,
    },

    /// There is only one key to attend to.
    #[error("there is only one key: every head puts all its weight on it")]
    OneKey,
}

/// "1 row in 1 head", "3 rows in 2 heads".
fn counted(rows: usize, heads: usize) -> String {
    let plural = |n: usize| if n == 1 { "" } else { "s" };
    format!("{rows} row{} in {heads} head{}", plural(rows), plural(heads))
}

/// "1 row in 1 head contains", "3 rows in 2 heads contain".
fn contain(rows: usize, heads: usize) -> String {
    format!("{} contain{}", counted(rows, heads), if rows == 1 { "s" } else { "" })
}

impl Error {
    pub(super) fn format(format: &'static str, reason: &dyn ToString) -> Self {
        Self::Format { format, reason: reason.to_string() }
    }

    pub(super) fn tokens(place: &str, reason: &dyn ToString) -> Self {
        Self::Tokens { place: place.to_owned(), reason: reason.to_string() }
    }
}
