//! A table as the bytes of a file, in each format.

use std::borrow::Cow;
use std::collections::HashMap;

use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize};

use crate::{Error, Format, Label, Palette, Table, npy, png, svg};

impl Table<'_> {
    /// The bytes of a file in this format. Only pictures have colours.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are not rows × columns numbers, [`Error::Empty`] if there are none, [`Error::Plain`] for a
    /// PNG without colours.
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
        let (rows, cols) = (self.rows.len(), self.cols.len());
        if rows.checked_mul(cols) != Some(self.values.len()) {
            return Err(Error::Shape { values: self.values.len(), rows, cols });
        }
        if self.values.is_empty() {
            return Err(Error::Empty);
        }
        let numbers = self.numbers();
        let table = if format.is_picture() { *self } else { Table { values: &numbers, ..*self } };
        match format {
            Format::Png => png::png(&table, palette),
            Format::Svg => Ok(svg::svg(&table, palette)?.into_bytes()),
            Format::Csv => csv(&table),
            Format::Npy => Ok(npy::write(rows, cols, table.values)),
            Format::Safetensors => safetensors(&table),
        }
    }
}

impl Table<'_> {
    /// The numbers, with those that −∞ stands for in its place.
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

/// A line of headings, then a line for each row: its label and its numbers.
fn csv(table: &Table<'_>) -> Result<Vec<u8>, Error> {
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
    out.into_inner().map_err(|e| csv::Error::from(e.into_error()).into())
}

fn safetensors(table: &Table<'_>) -> Result<Vec<u8>, Error> {
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
    Ok(serialize([(table.name, view)], Some(metadata))?)
}
