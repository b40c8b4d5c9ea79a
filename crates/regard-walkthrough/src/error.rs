use crate::{StepKey, UnknownKey};

/// Why a walkthrough could not be shown.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that nothing here has.
    #[error("there is no {what} called \"{name}\"; choose one of {known}")]
    Unknown {
        /// What was looked for, such as "example".
        what: &'static str,
        /// The name as given.
        name: String,
        /// The names that there are.
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
        /// The row asked for.
        row: usize,
        /// The column asked for.
        col: usize,
        /// The rows that there are.
        rows: usize,
        /// The columns that there are.
        cols: usize,
    },

    /// A number that cannot be calculated with.
    #[error("{matrix} cannot hold {value}: enter a number from −{largest} to {largest}")]
    Value {
        /// The key of the matrix.
        matrix: StepKey,
        /// The number as given.
        value: f64,
        /// The largest absolute value that the example allows.
        largest: f64,
    },

    /// A size outside what a walkthrough can show.
    #[error("{what} is {found}, but must be {least} to {most}")]
    Size {
        /// What is counted, such as "the number of tokens".
        what: &'static str,
        /// The number as given.
        found: usize,
        /// The least there can be.
        least: usize,
        /// The most there can be.
        most: usize,
    },

    /// A number of heads that the example cannot be computed with.
    #[error("{example} cannot have {heads} heads; it can have {possible}")]
    Heads {
        /// The example's name.
        example: &'static str,
        /// The number as given.
        heads: usize,
        /// The numbers of heads that it can have.
        possible: String,
    },

    /// Saved inputs whose parts do not fit together.
    #[error("the saved inputs of {example} {problem}")]
    Saved {
        /// The example's name.
        example: &'static str,
        /// What is wrong with them.
        problem: &'static str,
    },

    /// A kernel refused its input.
    #[error(transparent)]
    Kernel(#[from] regard_kernels::Error),

    /// The multi-head layer refused its input.
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
