//! A matrix as the bytes of a file, in each format.

use std::collections::HashMap;

use safetensors::tensor::{TensorView, serialize};
use safetensors::{Dtype, SafeTensorError};

use crate::{Error, Figure, Format, Label, LabelledMatrix, heatmap, lines, npy, png};

impl LabelledMatrix {
    /// The bytes of a file in this format. Only pictures have colours.
    ///
    /// # Errors
    /// [`Error::Shape`] if the number of values is not rows × columns, [`Error::Empty`] if there are none, and the errors of the formats.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use regard_figure::{Format, Label, Look, LabelledMatrix, Palette};
    /// let tokens = vec![Label::plain("a,b"), Label::plain("c")];
    /// let matrix = LabelledMatrix {
    ///     title: "Weights".to_owned(),
    ///     name: "weights".to_owned(),
    ///     values: Arc::new(vec![0.5, 0.5, 0.25, 0.75]),
    ///     masked: f32::NEG_INFINITY,
    ///     rows: tokens.clone(),
    ///     cols: tokens,
    ///     axes: ["query", "key"],
    ///     palette: Palette::weights(1.0, Look::default()),
    /// };
    /// assert_eq!(matrix.encode(Format::Csv)?, b"query \\ key,\"a,b\",c\n\"a,b\",0.5,0.5\nc,0.25,0.75\n");
    /// # Ok::<(), regard_figure::Error>(())
    /// ```
    pub fn encode(&self, format: Format) -> Result<Vec<u8>, Error> {
        self.check()?;
        if format.is_picture() {
            return heatmap::figure(self).encode(format);
        }
        let numbers: Vec<f32> = self.values.iter().map(|x| self.number(*x)).collect();
        match format {
            Format::Csv => csv(self, &numbers).map_err(Error::writer),
            Format::Npy => Ok(npy::write(self.rows.len(), self.cols.len(), &numbers)),
            _ => safetensors(self, &numbers).map_err(Error::writer),
        }
    }

    /// The matrix as CSV.
    ///
    /// # Errors
    /// [`Error::Empty`] if the matrix has no numbers.
    pub fn csv(&self) -> Result<String, Error> {
        Ok(String::from_utf8_lossy(&self.encode(Format::Csv)?).into_owned())
    }

    /// The matrix as lines from rows, at the left, to columns. Larger numbers have stronger lines.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Empty`], or [`Error::TooLarge`] if there are more than 400 rows or columns.
    pub fn lines(&self) -> Result<Figure, Error> {
        self.check()?;
        lines::figure(&[(self, lines::COLOR)])
    }

    /// A PNG of the cells alone. Each is a square of pixels, and text chunks explain the colours.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Empty`], or [`Error::Plain`] without colours.
    pub fn bare_png(&self) -> Result<Vec<u8>, Error> {
        self.check()?;
        png::bare(self)
    }
}

impl Figure {
    /// The bytes of a picture in this format.
    ///
    /// # Errors
    /// [`Error::NoPicture`] if the format holds numbers, and those of [`Figure::png`] and [`Figure::html`].
    pub fn encode(&self, format: Format) -> Result<Vec<u8>, Error> {
        match format {
            Format::Png => self.png(),
            Format::Svg => self.svg().map(String::into_bytes),
            Format::Html => self.html().map(String::into_bytes),
            _ => Err(Error::NoPicture),
        }
    }
}

/// Writes a line of headings, then a line for each row: its label and its numbers.
fn csv(matrix: &LabelledMatrix, numbers: &[f32]) -> Result<Vec<u8>, csv::Error> {
    let corner = if matrix.axes == ["", ""] { String::new() } else { matrix.axes.join(" \\ ") };
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(core::iter::once(&corner).chain(matrix.cols.iter().map(|col| &col.raw)))?;
    for (label, row) in matrix.rows.iter().zip(numbers.chunks(matrix.cols.len())) {
        out.write_field(&label.raw)?;
        for x in row {
            out.write_field(x.to_string())?;
        }
        out.write_record(None::<&[u8]>)?;
    }
    out.into_inner().map_err(|e| e.into_error().into())
}

fn safetensors(matrix: &LabelledMatrix, numbers: &[f32]) -> Result<Vec<u8>, SafeTensorError> {
    let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, vec![matrix.rows.len(), matrix.cols.len()], &bytes)?;
    let list = |tokens: &[Label]| {
        serde_json::Value::from(tokens.iter().map(|t| t.raw.as_str()).collect::<Vec<_>>())
            .to_string()
    };
    let (rows, cols) = if matrix.axes == ["query", "key"] {
        ("query_tokens", "key_tokens")
    } else {
        ("rows", "columns")
    };
    let metadata = HashMap::from([
        ("title".to_owned(), matrix.title.clone()),
        (rows.to_owned(), list(&matrix.rows)),
        (cols.to_owned(), list(&matrix.cols)),
    ]);
    serialize([(&matrix.name, view)], Some(metadata))
}
