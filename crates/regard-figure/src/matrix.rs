use std::sync::Arc;

use crate::{Error, Label, Map, Palette};

/// A matrix with a title, labels for its rows and columns, and the colours in which the window shows it.
#[derive(Clone, Debug)]
pub struct LabelledMatrix {
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
    /// The meaning of the rows and of the columns, such as "query" and "key". Both may be empty.
    pub axes: [&'static str; 2],
    /// The colours of the numbers in the window.
    pub palette: Palette,
}

impl LabelledMatrix {
    /// The matrix in the colours of another map.
    #[must_use]
    pub fn with_map(self, map: Map) -> Self {
        Self { palette: self.palette.with_map(map, &self.values), ..self }
    }

    /// The numbers of rows and of columns.
    pub(crate) fn shape(&self) -> [usize; 2] {
        [self.rows.len(), self.cols.len()]
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let (rows, cols) = (self.rows.len(), self.cols.len());
        if rows.checked_mul(cols) != Some(self.values.len()) {
            return Err(Error::Shape { values: self.values.len(), rows, cols });
        }
        if self.values.is_empty() { Err(Error::Empty) } else { Ok(()) }
    }

    /// The number that a value stands for.
    pub(crate) fn number(&self, x: f32) -> f32 {
        if x == f32::NEG_INFINITY { self.masked } else { x }
    }
}
