use std::borrow::Cow;
use std::path::Path;
use std::sync::Arc;

use regard_walkthrough::{Step, Walkthrough};

use super::{Error, Format, Table};
use crate::heads::{AttentionMaps, Part};
use crate::palette::{Look, Map, Palette};
use crate::token::Token;
use crate::whole_file;

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
    pub rows: Vec<Token>,
    /// What each column is.
    pub cols: Vec<Token>,
    /// What rows and columns are.
    pub axes: [&'static str; 2],
    /// Their colours, as the window has them.
    pub palette: Palette,
}

impl Matrix {
    /// A step of an example.
    pub fn of_step(walkthrough: &Walkthrough, step: &Step, look: Look) -> Self {
        let (rows, cols) = step.matrix.shape();
        // A label for each row and column, even where the step has fewer.
        let labels = |labels: &[String], n: usize| -> Vec<Token> {
            (0..n).map(|i| Token::plain(labels.get(i).map_or("", String::as_str))).collect()
        };
        let attention = rows == cols
            && step.row_labels == walkthrough.tokens
            && step.col_labels == walkthrough.tokens;
        Self {
            title: format!("{}: {}", walkthrough.example.title(), step.name),
            name: step.key.to_string(),
            values: Arc::new(step.matrix.as_slice().to_vec()),
            masked: f32::NEG_INFINITY,
            rows: labels(&step.row_labels, rows),
            cols: labels(&step.col_labels, cols),
            axes: if attention { ["query", "key"] } else { ["", ""] },
            palette: Palette::with_look(step.kind, step.matrix.as_slice(), look),
        }
    }

    /// A part of a model's attention: `values`, which [`AttentionMaps::part`] has computed.
    pub fn of_part(
        maps: &AttentionMaps,
        part: Part,
        values: Arc<Vec<f32>>,
        palette: Palette,
    ) -> Self {
        let [rows, cols] = maps.tokens();
        Self {
            title: maps.title(part),
            name: "attention".to_owned(),
            values,
            masked: f32::NEG_INFINITY,
            rows,
            cols,
            axes: ["query", "key"],
            palette,
        }
    }

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

    /// Writes it in the format that the name of the file says, whole or not at all.
    ///
    /// # Errors
    /// [`Error`], by what failed.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let bytes = self.encode(Format::of(path)?)?;
        whole_file::write(path, &bytes)
            .map_err(|source| Error::Write { path: path.to_owned(), source })
    }

    /// It as CSV.
    ///
    /// # Errors
    /// [`Error::Empty`], if it is empty.
    pub fn csv(&self) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.encode(Format::Csv)?).into_owned())
    }
}
