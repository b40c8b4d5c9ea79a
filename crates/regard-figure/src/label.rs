use serde::{Deserialize, Serialize};

/// The name of a row or a column: its text in a file, and its text in a picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Label {
    /// The text that a file of numbers keeps, such as `Ġcat`.
    pub raw: String,
    /// The text that a picture shows, such as `␣cat`.
    pub text: String,
}

impl Label {
    /// A label that is shown as it is written.
    pub fn plain(label: &str) -> Self {
        Self { raw: label.to_owned(), text: label.to_owned() }
    }

    /// The labels 0, 1, … n − 1, for rows or columns without a name.
    pub fn numbers(n: usize) -> Vec<Self> {
        (0..n).map(|i| Self::plain(&i.to_string())).collect()
    }
}
