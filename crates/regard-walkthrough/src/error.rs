use crate::{StepKey, UnknownKey};

/// An error of computing a walkthrough.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that does not exist.
    #[error("there is no {what} called \"{name}\"; choose one of {known}")]
    Unknown {
        /// The kind of thing, such as "example".
        what: &'static str,
        /// The name as given.
        name: String,
        /// The existing names.
        known: String,
    },

    /// A text that is not the key of any step.
    #[error(transparent)]
    Key(#[from] UnknownKey),

    /// A cell outside its matrix.
    #[error("{matrix} has {rows} rows and {cols} columns: there is no cell ({row}, {col})")]
    Cell {
        /// The key of the matrix.
        matrix: StepKey,
        /// The requested row.
        row: usize,
        /// The requested column.
        col: usize,
        /// The number of rows.
        rows: usize,
        /// The number of columns.
        cols: usize,
    },

    /// A number that a cell cannot hold.
    #[error("{matrix} cannot hold {value}: enter a number from −{largest} to {largest}")]
    Value {
        /// The key of the matrix.
        matrix: StepKey,
        /// The number as given.
        value: f64,
        /// The largest absolute value that the example allows.
        largest: f64,
    },

    /// A size that a walkthrough cannot show.
    #[error("{what} is {found}, but must be {least} to {most}")]
    Size {
        /// The counted things, such as "the number of tokens".
        what: &'static str,
        /// The number as given.
        found: usize,
        /// The smallest possible number.
        least: usize,
        /// The largest possible number.
        most: usize,
    },

    /// A number of heads that does not suit the example.
    #[error("{example} cannot have {heads} heads; it can have {possible}")]
    Heads {
        /// The example's name.
        example: &'static str,
        /// The number as given.
        heads: usize,
        /// The possible numbers of heads.
        possible: String,
    },

    /// Saved inputs whose parts do not fit together.
    #[error("the saved inputs of {example} {problem}")]
    Saved {
        /// The example's name.
        example: &'static str,
        /// The problem.
        problem: &'static str,
    },

    /// A kernel refuses its input.
    #[error(transparent)]
    Kernel(#[from] regard_kernels::Error),

    /// The multi-head layer refuses its input.
    #[error(transparent)]
    Layer(#[from] regard::Error),
}

impl Error {
    pub(crate) fn unknown(
        what: &'static str,
        name: &str,
        known: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        let known = known.into_iter().map(Into::into).collect::<Vec<_>>().join(", ");
        Self::Unknown { what, name: name.to_owned(), known }
    }
}
