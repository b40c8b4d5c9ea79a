use std::path::PathBuf;

use crate::{Format, Label, Palette, format, npy, png, svg};

/// A matrix with what a reader needs to understand it.
#[derive(Clone, Copy, Debug)]
pub struct Table<'a> {
    /// What it is.
    pub title: &'a str,
    /// The tensor's name in a safetensors file.
    pub name: &'a str,
    /// The numbers, row by row.
    pub values: &'a [f32],
    /// What each row is.
    pub rows: &'a [Label],
    /// What each column is.
    pub cols: &'a [Label],
    /// What rows and columns are: "query" and "key", for instance. May be empty.
    pub axes: [&'a str; 2],
}

/// Why a matrix could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name of the file does not say what to write.
    #[error("{} does not end in .png, .svg, .csv, .npy or .safetensors", .0.display())]
    Extension(PathBuf),

    /// The labels do not fit the numbers.
    #[error("{values} numbers are not {rows} rows of {cols}")]
    Shape {
        /// How many numbers there are.
        values: usize,
        /// How many labels the rows have.
        rows: usize,
        /// How many labels the columns have.
        cols: usize,
    },

    /// A matrix without a number has no picture.
    #[error("the matrix is empty")]
    Empty,

    /// Numbers that have no colours, such as those of several units, have no picture of colours alone.
    #[error(
        "the numbers of `{0}` have no colours: write them as .svg or as numbers, or choose colours (--map)"
    )]
    Plain(String),

    /// The picture could not be made.
    #[error("making the picture: {0}")]
    Picture(#[from] ::png::EncodingError),

    /// The file could not be laid out.
    #[error("laying out the file: {0}")]
    Safetensors(#[from] safetensors::SafeTensorError),
}

impl Table<'_> {
    /// The bytes of a file in this format. Colours matter to pictures alone.
    ///
    /// # Errors
    /// [`Error::Shape`] if labels and numbers do not fit, [`Error::Empty`] if there are none, [`Error::Plain`] for a PNG
    /// without colours.
    ///
    /// ```
    /// use regard_figure::{Format, Label, Look, Palette, Table};
    /// let tokens = [Label::plain("a,b"), Label::plain("c")];
    /// let values = [0.5, 0.5, 0.25, 0.75];
    /// let table =
    ///     Table { title: "Weights", name: "weights", values: &values, rows: &tokens, cols: &tokens, axes: ["query", "key"] };
    /// let palette = Palette::weights(1.0, Look::default());
    /// assert_eq!(table.encode(Format::Csv, palette)?, b"query \\ key,\"a,b\",c\n\"a,b\",0.5,0.5\nc,0.25,0.75\n");
    /// # Ok::<(), regard_figure::Error>(())
    /// ```
    pub fn encode(&self, format: Format, palette: Palette) -> Result<Vec<u8>, Error> {
        let (rows, cols) = (self.rows.len(), self.cols.len());
        if rows.checked_mul(cols) != Some(self.values.len()) {
            return Err(Error::Shape { values: self.values.len(), rows, cols });
        }
        if self.values.is_empty() {
            return Err(Error::Empty);
        }
        match format {
            Format::Png => png::png(self, palette),
            Format::Svg => Ok(svg::svg(self, palette)?.into_bytes()),
            Format::Csv => Ok(format::csv(self).into_bytes()),
            Format::Npy => Ok(npy::write(rows, cols, self.values)),
            Format::Safetensors => format::safetensors(self),
        }
    }
}
