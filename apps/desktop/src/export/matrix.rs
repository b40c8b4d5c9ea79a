use std::path::Path;
use std::sync::Arc;

use regard_walkthrough::{Kind, Step, Walkthrough};

use super::{Error, Format, Table};
use crate::palette::{Colors, Map, Scale};
use crate::token::Token;

/// A matrix that owns what a [`Table`] borrows.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// What it is.
    pub title: String,
    /// The tensor's name in a safetensors file.
    pub name: String,
    /// The numbers, row by row.
    pub values: Arc<Vec<f32>>,
    /// What each row is.
    pub rows: Vec<Token>,
    /// What each column is.
    pub cols: Vec<Token>,
    /// What rows and columns are.
    pub axes: [&'static str; 2],
    /// What the numbers are, which tells their colours.
    pub kind: Kind,
}

impl Matrix {
    /// A step of an example.
    pub fn of_step(walkthrough: &Walkthrough, step: &Step) -> Self {
        let (rows, cols) = step.matrix.shape();
        // A label for each row and column, even where the step has fewer.
        let labels = |labels: &[String], n: usize| -> Vec<Token> {
            (0..n).map(|i| Token::plain(labels.get(i).map_or("", String::as_str))).collect()
        };
        let attention = rows == cols && step.row_labels == walkthrough.tokens && step.col_labels == walkthrough.tokens;
        Self {
            title: format!("{}: {}", walkthrough.example.title(), step.name),
            name: step.key.clone(),
            values: Arc::new(step.matrix.as_slice().to_vec()),
            rows: labels(&step.row_labels, rows),
            cols: labels(&step.col_labels, cols),
            axes: if attention { ["query", "key"] } else { ["", ""] },
            kind: step.kind,
        }
    }

    /// It, to be encoded.
    pub fn table(&self) -> Table<'_> {
        let Self { title, name, values, rows, cols, axes, kind: _ } = self;
        Table { title, name, values, rows, cols, axes: *axes }
    }

    /// The colours of its numbers; by default those of its kind.
    pub fn colors(&self, map: Option<Map>, scale: Scale) -> Colors {
        Colors::new(self.kind, map, scale, &self.values)
    }

    /// Writes it in the format that the name of the file says.
    ///
    /// # Errors
    /// [`Error`], by what failed.
    pub fn write(&self, path: &Path, map: Option<Map>, scale: Scale) -> Result<(), Error> {
        self.table().write(path, self.colors(map, scale))
    }

    /// It as CSV.
    ///
    /// # Errors
    /// [`Error::Empty`], if it is empty.
    pub fn csv(&self) -> Result<String, Error> {
        let bytes = self.table().encode(Format::Csv, self.colors(None, Scale::Linear))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
