use std::path::PathBuf;

/// An error of writing a matrix.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file's name has no ending of a known format.
    #[error("{} does not end in .png, .svg, .html, .csv, .npy or .safetensors", .0.display())]
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

    /// The matrix has no colours, for instance because its columns have different units. Bare cells need colours.
    #[error(
        "`{0}` is a table without colours, and bare cells show only colours: leave out --bare, or choose colours with --map"
    )]
    Plain(String),

    /// A picture has too many pixels, a page too many numbers, or lines too many tokens. The text says how many, and what to write
    /// instead.
    #[error("{0}")]
    TooLarge(String),

    /// The format cannot hold a picture that is more than a matrix.
    #[error("lines and grids are pictures: write them as .png, .svg or .html")]
    NoPicture,

    /// The format holds a matrix, not curves.
    #[error("curves are not a matrix: write them as .csv, .png, .svg or .html")]
    NoMatrix,

    /// The writer of a format failed.
    #[error("cannot write the file: {0}")]
    Writer(#[source] Box<dyn core::error::Error + Send + Sync>),
}

impl Error {
    pub(crate) fn writer(e: impl core::error::Error + Send + Sync + 'static) -> Self {
        Self::Writer(Box::new(e))
    }
}
