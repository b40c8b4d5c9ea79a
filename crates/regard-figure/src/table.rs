use std::path::PathBuf;

use crate::Label;

/// A matrix with a title and labels for its rows and columns.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// The title of the figure.
    pub title: &'a str,
    /// The tensor's name in a safetensors file.
    pub name: &'a str,
    /// The numbers, row by row.
    pub values: &'a [f32],
    /// The number that −∞ stands for: 0 in a matrix of weights whose masked cells are marked by −∞, −∞ in any other.
    pub masked: f32,
    /// One label for each row.
    pub rows: &'a [Label],
    /// One label for each column.
    pub cols: &'a [Label],
    /// What the rows and the columns stand for, such as "query" and "key". Both may be empty.
    pub axes: [&'a str; 2],
}

/// Why a matrix could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file's name has no ending of a known format.
    #[error("{} does not end in .png, .svg, .csv, .npy or .safetensors", .0.display())]
    Extension(PathBuf),

    /// The number of values is not rows × columns.
    #[error("{values} numbers do not fill {rows} rows of {cols}")]
    Shape {
        /// The number of values.
        values: usize,
        /// The number of row labels.
        rows: usize,
        /// The number of column labels.
        cols: usize,
    },

    /// The matrix has no numbers.
    #[error("the matrix is empty")]
    Empty,

    /// The matrix has no colours, for instance because its columns have different units. A PNG needs colours.
    #[error(
        "`{0}` is a table without colours: write it as .svg, .csv, .npy or .safetensors, or choose colours with --map"
    )]
    Plain(String),

    /// The PNG encoder failed.
    #[error("cannot encode the picture: {0}")]
    Picture(#[from] ::png::EncodingError),

    /// The CSV writer failed.
    #[error("cannot write the table: {0}")]
    Csv(#[from] csv::Error),

    /// The safetensors writer failed.
    #[error("cannot write the tensor: {0}")]
    Safetensors(#[from] safetensors::SafeTensorError),
}
