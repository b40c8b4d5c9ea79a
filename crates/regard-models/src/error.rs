use std::io;
use std::path::{Path, PathBuf};

use crate::Place;

/// This error says why a model, an input or a change is refused. The message is one line, and names the file and
/// the tensor at fault.
///
/// ```
/// use regard_models::Checkpoint;
/// let error = Checkpoint::open("no/such/model").unwrap_err();
/// assert!(error.to_string().starts_with("no/such/model: "));
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refuses to read a file.
    #[error("{}: {reason}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        reason: io::Error,
    },

    /// A file does not have the content that its kind must have.
    #[error("{}: {what}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The fault, in words.
        what: String,
    },

    /// A tensor is missing, or it does not fit the model.
    #[error("{}: the tensor {tensor} {what}", path.display())]
    Tensor {
        /// The file that holds the tensor, or should hold it.
        path: PathBuf,
        /// The tensor's name in the file.
        tensor: String,
        /// The fault, as the end of a sentence whose subject is the tensor.
        what: String,
    },

    /// The model has no place of that name.
    #[error("the model has no place {place:?}; the nearest is {nearest}")]
    #[non_exhaustive]
    Place {
        /// The name or the pattern as given.
        place: String,
        /// The most similar name of a place.
        nearest: String,
    },

    /// The model or the input has no such head, position, token or logit. The message says how many there are.
    #[error("{0}")]
    Missing(String),

    /// Two lengths or shapes that must agree do not: those of an input and the model, or of inputs that run together.
    #[error("{0}")]
    Shape(String),

    /// A number or a name is not valid: a temperature, a number of tokens, or the name of a crate.
    #[error("{0}")]
    Range(String),

    /// The model's family has no such part, or the request is not computed for it.
    #[error("{0}")]
    Unsupported(String),

    /// The model needs more flash or RAM than the [part](crate::embed::BoardMemory) has.
    #[error("{0}")]
    Part(String),

    /// The model's chat template does not apply to these messages.
    #[error("{0}")]
    Template(String),

    /// Logits are NaN, so none of them is the largest.
    #[error(
        "{count} of {of} logits are NaN, the first that of {first}: its weights hold NaN, or its numbers grow beyond the largest one"
    )]
    Nan {
        /// The number of logits that are NaN.
        count: usize,
        /// The number of logits.
        of: usize,
        /// The first token, or the first class, whose logit is NaN.
        first: usize,
    },

    /// A hook, or the caller of a sweep, has ended the run, and knows the reason.
    #[error("the run was stopped")]
    Stopped,

    /// Memory has no room for a computation.
    #[error(transparent)]
    Compute(#[from] regard::Error),
}

impl Error {
    /// No place of that name is among `places`. Of equally similar ones the first is named.
    pub(crate) fn place(place: &str, places: impl IntoIterator<Item = Place>) -> Self {
        let mut nearest = (f64::NEG_INFINITY, String::new());
        for known in places.into_iter().map(|known| known.to_string()) {
            let likeness = strsim::jaro_winkler(place, &known);
            if likeness > nearest.0 {
                nearest = (likeness, known);
            }
        }
        Self::Place { place: place.to_owned(), nearest: nearest.1 }
    }

    /// The same error once more, of a file that was read before.
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Io { path, reason } => {
                Self::io(path, io::Error::new(reason.kind(), reason.to_string()))
            }
            Self::File { path, what } => Self::file(path, what.as_str()),
            other => Self::Unsupported(other.to_string()),
        }
    }

    pub(crate) fn io(path: &Path, reason: io::Error) -> Self {
        Self::Io { path: path.to_owned(), reason }
    }

    pub(crate) fn file(path: &Path, what: impl Into<String>) -> Self {
        Self::File { path: path.to_owned(), what: one_line(&what.into()) }
    }

    pub(crate) fn tensor(path: &Path, tensor: &str, what: impl Into<String>) -> Self {
        let (tensor, what) = (one_line(tensor), one_line(&what.into()));
        Self::Tensor { path: path.to_owned(), tensor, what }
    }
}

/// Names and messages come from files and from other libraries: line breaks in them become spaces.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control())
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}
