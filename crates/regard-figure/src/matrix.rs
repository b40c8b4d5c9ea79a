use std::sync::Arc;

use crate::{Error, Figure, Format, Label, Map, Palette, Table};

/// A matrix that owns what a [`Table`] borrows, with the colours in which the window shows it.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// The title of the figure.
    pub title: String,
    /// The tensor's name in a safetensors file.
    pub name: String,
    /// The numbers, row by row.
    pub values: Arc<Vec<f32>>,
    /// The number that −∞ stands for: 0 in a matrix of weights whose masked cells are marked by −∞, −∞ in any other.
    pub masked: f32,
    /// One label for each row.
    pub rows: Vec<Label>,
    /// One label for each column.
    pub cols: Vec<Label>,
    /// The meaning of the rows and of the columns.
    pub axes: [&'static str; 2],
    /// The colours of the numbers in the window.
    pub palette: Palette,
}

impl Matrix {
    /// The matrix in the colours of another map.
    #[must_use]
    pub fn with_map(self, map: Map) -> Self {
        Self { palette: self.palette.with_map(map, &self.values), ..self }
    }

    /// The bytes of a file in this format.
    ///
    /// # Errors
    /// Those of [`Table::encode`].
    pub fn encode(&self, format: Format) -> Result<Vec<u8>, Error> {
        self.table().encode(format, self.palette)
    }

    /// A PNG of the cells alone.
    ///
    /// # Errors
    /// Those of [`Table::bare_png`].
    pub fn bare_png(&self) -> Result<Vec<u8>, Error> {
        self.table().bare_png(self.palette)
    }

    /// The matrix as lines from rows to columns.
    ///
    /// # Errors
    /// Those of [`Table::lines`].
    pub fn lines(&self) -> Result<Figure, Error> {
        self.table().lines()
    }

    pub(crate) fn table(&self) -> Table<'_> {
        let Self { title, name, values, masked, rows, cols, axes, .. } = self;
        Table { title, name, values, masked: *masked, rows, cols, axes: *axes }
    }

    /// The matrix as CSV.
    ///
    /// # Errors
    /// [`Error::Empty`] if the matrix has no numbers.
    pub fn csv(&self) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.encode(Format::Csv)?).into_owned())
    }
}
