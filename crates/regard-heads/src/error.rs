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

    /// A tensor ends too early, does not fit in memory, or has a type or a shape that is not supported.
    #[error("tensor `{tensor}` {reason}")]
    Tensor {
        /// The tensor's name.
        tensor: String,
        /// What is wrong with it, beside what is needed.
        reason: String,
    },

    /// The file lacks the requested tensor, layer or head, or has none or several that can be meant. The text names those that
    /// it has.
    #[error("{0}")]
    Missing(String),

    /// The numbers of weights, queries, keys and tokens do not fit each other.
    #[error("{0}")]
    Unfit(String),

    /// The tokens cannot be read.
    #[error("the tokens in {place} cannot be read: {reason}")]
    Tokens {
        /// The file that they are in, or the place in the attention file.
        place: String,
        /// The reason.
        reason: String,
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
    #[error("{} NaN (the first in {}); the measures leave {} out", .0.contain(), .0.first, .0.them())]
    NotANumber(DefectiveRows),

    /// Some numbers are not weights but, for instance, scores.
    #[error(
        "{} negative or infinite numbers (the first in {}), which are not attention weights; the measures leave {} out",
        .0.contain(), .0.first, .0.them()
    )]
    NotWeights(DefectiveRows),

    /// Some rows do not sum to 1.
    #[error(
        "{} {} not sum to 1 (the first in {}); the measures divide each row by its sum",
        .0.counted(), if .0.rows == 1 { "does" } else { "do" }, .0.first
    )]
    NotADistribution(DefectiveRows),

    /// There is only one key to attend to.
    #[error("there is only one key: every head puts all its weight on it")]
    OneKey,
}

/// The rows that have a defect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DefectiveRows {
    /// The number of rows.
    pub rows: usize,
    /// The number of heads that these rows are in.
    pub heads: usize,
    /// The first of these heads.
    pub first: String,
}

impl DefectiveRows {
    /// "1 row in 1 head", "3 rows in 2 heads".
    fn counted(&self) -> String {
        format!("{} in {}", counted(self.rows, "row"), counted(self.heads, "head"))
    }

    /// "1 row in 1 head contains", "3 rows in 2 heads contain".
    fn contain(&self) -> String {
        format!("{} contain{}", self.counted(), if self.rows == 1 { "s" } else { "" })
    }

    fn them(&self) -> &'static str {
        if self.rows == 1 { "it" } else { "them" }
    }
}

/// A number of things: "1 row", "3 rows".
pub(super) fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

impl Error {
    pub(super) fn format(format: &'static str, reason: &dyn ToString) -> Self {
        Self::Format { format, reason: reason.to_string() }
    }

    pub(super) fn tokens(place: &str, reason: &dyn ToString) -> Self {
        Self::Tokens { place: place.to_owned(), reason: reason.to_string() }
    }

    /// The error of a list of tokens that are not as many as the queries or keys of a tensor.
    pub(super) fn token_count(
        place: &str,
        found: usize,
        tensor: &str,
        needed: usize,
        axis: &str,
    ) -> Self {
        let tokens = counted(found, "token");
        let are = if found == 1 { "is" } else { "are" };
        Self::Unfit(format!(
            "there {are} {tokens} in {place}, but tensor `{tensor}` has {needed} {axis}"
        ))
    }
}
