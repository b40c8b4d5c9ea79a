//! A table as the bytes of a file, in each format.

use std::borrow::Cow;
use std::collections::HashMap;

use safetensors::tensor::{TensorView, serialize};
use safetensors::{Dtype, SafeTensorError};

use crate::{Error, Figure, Format, Label, Palette, Table, heatmap, lines, npy, png};

impl Table<'_> {
    /// The bytes of a file in this format. Only pictures have colours.
    ///
    /// # Errors
    /// [`Error::Shape`] if the number of values is not rows × columns, [`Error::Empty`] if there are none, and the errors of the formats.
    ///
    /// ```
    /// use regard_figure::{Format, Label, Look, Palette, Table};
    /// let tokens = [Label::plain("a,b"), Label::plain("c")];
    /// let values = [0.5, 0.5, 0.25, 0.75];
    /// let table =
    ///     Table { title: "Weights", name: "weights", values: &values, masked: f32::NEG_INFINITY, rows: &tokens, cols: &tokens, axes: ["query", "key"] };
    /// let palette = Palette::weights(1.0, Look::default());
    /// assert_eq!(table.encode(Format::Csv, palette)?, b"query \\ key,\"a,b\",c\n\"a,b\",0.5,0.5\nc,0.25,0.75\n");
    /// # Ok::<(), regard_figure::Error>(())
    /// ```
    pub fn encode(&self, format: Format, palette: Palette) -> Result<Vec<u8>, Error> {
        if format.is_picture() {
            return self.figure(palette)?.encode(format);
        }
        self.check()?;
        let numbers = self.numbers();
        let table = Table { values: &numbers, ..*self };
        match format {
            Format::Csv => csv(&table).map_err(Error::writer),
            Format::Npy => Ok(npy::write(table.rows.len(), table.cols.len(), table.values)),
            _ => safetensors(&table).map_err(Error::writer),
        }
    }

    /// The matrix as a picture: cells, labels and colour bar.
    ///
    /// # Errors
    /// [`Error::Shape`] or [`Error::Empty`].
    pub fn figure(&self, palette: Palette) -> Result<Figure, Error> {
        self.check()?;
        Ok(heatmap::figure(self, palette))
    }

    /// The matrix as lines from rows, at the left, to columns. Larger numbers have stronger lines.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Empty`], or [`Error::Tokens`] if there are more than 400 rows or columns.
    pub fn lines(&self) -> Result<Figure, Error> {
        self.check()?;
        lines::of_one(self)
    }

    /// A PNG of the cells alone. Each is a square of pixels, and text chunks explain the colours.
    ///
    /// # Errors
    /// [`Error::Shape`], [`Error::Empty`], or [`Error::Plain`] without colours.
    pub fn bare_png(&self, palette: Palette) -> Result<Vec<u8>, Error> {
        self.check()?;
        png::bare(self, palette)
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

impl Table<'_> {
    /// The numbers, with −∞ replaced by the number that it stands for.
    fn numbers(&self) -> Cow<'_, [f32]> {
        if self.masked == f32::NEG_INFINITY || !self.values.contains(&f32::NEG_INFINITY) {
            return Cow::Borrowed(self.values);
        }
        self.values.iter().map(|x| self.number(*x)).collect()
    }

    /// The number that a value stands for.
    pub(crate) fn number(&self, x: f32) -> f32 {
        if x == f32::NEG_INFINITY { self.masked } else { x }
    }
}

/// Writes a line of headings, then a line for each row: its label and its numbers.
fn csv(table: &Table<'_>) -> Result<Vec<u8>, csv::Error> {
    let corner = if table.axes == ["", ""] { String::new() } else { table.axes.join(" \\ ") };
    let mut out = csv::Writer::from_writer(Vec::new());
    out.write_record(core::iter::once(&corner).chain(table.cols.iter().map(|col| &col.raw)))?;
    for (label, row) in table.rows.iter().zip(table.values.chunks(table.cols.len())) {
        out.write_field(&label.raw)?;
        for x in row {
            out.write_field(x.to_string())?;
        }
        out.write_record(None::<&[u8]>)?;
    }
    out.into_inner().map_err(|e| e.into_error().into())
}

fn safetensors(table: &Table<'_>) -> Result<Vec<u8>, SafeTensorError> {
    let bytes: Vec<u8> = table.values.iter().flat_map(|x| x.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, vec![table.rows.len(), table.cols.len()], &bytes)?;
    let list = |tokens: &[Label]| {
        serde_json::Value::from(tokens.iter().map(|t| t.raw.as_str()).collect::<Vec<_>>())
            .to_string()
    };
    let (rows, cols) = if table.axes == ["query", "key"] {
        ("query_tokens", "key_tokens")
    } else {
        ("rows", "columns")
    };
    let metadata = HashMap::from([
        ("title".to_owned(), table.title.to_owned()),
        (rows.to_owned(), list(table.rows)),
        (cols.to_owned(), list(table.cols)),
    ]);
    serialize([(table.name, view)], Some(metadata))
}
