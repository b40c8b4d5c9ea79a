use std::borrow::Cow;
use std::sync::Arc;

use crate::{Error, Format, Label, Map, Palette, Table};

/// A matrix that owns what a [`Table`] borrows, and has the colours in which the window shows it.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// What it is.
    pub title: String,
    /// The tensor's name in a safetensors file.
    pub name: String,
    /// The numbers, row by row.
    pub values: Arc<Vec<f32>>,
    /// What a file of numbers has in the place of −∞: 0 for weights, whose masked cells are −∞ to be seen as such.
    pub masked: f32,
    /// What each row is.
    pub rows: Vec<Label>,
    /// What each column is.
    pub cols: Vec<Label>,
    /// What rows and columns are.
    pub axes: [&'static str; 2],
    /// Their colours, as the window has them.
    pub palette: Palette,
}

impl Matrix {
    /// It in the colours of another map than the window's.
    #[must_use]
    pub fn with_map(self, map: Map) -> Self {
        Self { palette: self.palette.with_map(map, &self.values), ..self }
    }

    /// The bytes of a file in this format.
    ///
    /// # Errors
    /// [`Error`], by what failed.
    pub fn encode(&self, format: Format) -> Result<Vec<u8>, Error> {
        let Self { title, name, rows, cols, axes, palette, .. } = self;
        let values =
            if format.is_picture() { Cow::Borrowed(&self.values[..]) } else { self.numbers() };
        Table { title, name, values: &values, rows, cols, axes: *axes }.encode(format, *palette)
    }

    /// The numbers without −∞ for what is masked, if that is to be.
    fn numbers(&self) -> Cow<'_, [f32]> {
        let masked = f32::NEG_INFINITY;
        if self.masked == masked || !self.values.contains(&masked) {
            return Cow::Borrowed(&self.values);
        }
        self.values.iter().map(|x| if *x == masked { self.masked } else { *x }).collect()
    }

    /// It as CSV.
    ///
    /// # Errors
    /// [`Error::Empty`], if it is empty.
    pub fn csv(&self) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.encode(Format::Csv)?).into_owned())
    }
}
