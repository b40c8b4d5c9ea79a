/// Why a walkthrough could not be shown.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A name that nothing here has.
    #[error("there is no {what} \"{name}\"; there are {known}")]
    Unknown {
        /// What was looked for, such as "example".
        what: &'static str,
        /// The name as given.
        name: String,
        /// The names that there are.
        known: String,
    },

    /// A kernel refused its input.
    #[error(transparent)]
    Kernel(#[from] regard_kernels::Error),

    /// The multi-head layer refused its input.
    #[error(transparent)]
    Layer(#[from] regard::Error),
}

impl Error {
    pub(crate) fn unknown(what: &'static str, name: &str, known: impl IntoIterator<Item = &'static str>) -> Self {
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        Self::Unknown { what, name: name.to_owned(), known }
    }
}
