use core::fmt::Write as _;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;

use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize};

use crate::{Error, Label, Table};

/// How a matrix can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// A picture of the cells alone, each a square of pixels; what they mean is in its text chunks.
    Png,
    /// A figure to publish: cells, labels, colour bar.
    Svg,
    /// A table with the raw tokens as headings; each number is the shortest that reads back as the same `f32`.
    Csv,
    /// NumPy: \[rows, cols\] of `f32`.
    Npy,
    /// A tensor of `f32` with the raw tokens in the metadata, which opens as attention again.
    Safetensors,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Png, Self::Svg, Self::Csv, Self::Npy, Self::Safetensors];

    /// Whether it has colours.
    pub fn is_picture(self) -> bool {
        matches!(self, Self::Png | Self::Svg)
    }

    /// The ending of such a file's name.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Png => "png",
            Self::Svg => "svg",
            Self::Csv => "csv",
            Self::Npy => "npy",
            Self::Safetensors => "safetensors",
        }
    }

    /// The format that a file's name asks for.
    ///
    /// # Errors
    /// [`Error::Extension`] if it asks for none of them.
    pub fn of(path: &Path) -> Result<Self, Error> {
        let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
        let format = Self::ALL.into_iter().find(|format| format.extension() == extension);
        format.ok_or_else(|| Error::Extension(path.to_owned()))
    }
}

pub(super) fn csv(table: &Table<'_>) -> String {
    let corner = if table.axes == ["", ""] { String::new() } else { table.axes.join(" \\ ") };
    let mut out = quoted(&corner).into_owned();
    for label in table.cols {
        out.push(',');
        out.push_str(&quoted(&label.raw));
    }
    out.push('\n');
    for (label, row) in table.rows.iter().zip(table.values.chunks(table.cols.len())) {
        out.push_str(&quoted(&label.raw));
        for x in row {
            // Writing to a string cannot fail.
            let _ = write!(out, ",{x}");
        }
        out.push('\n');
    }
    out
}

/// A field of a CSV file, by RFC 4180: in quotes where it needs them, with quotes doubled.
fn quoted(field: &str) -> Cow<'_, str> {
    if field.contains([',', '"', '\n', '\r']) || field.trim() != field {
        format!("\"{}\"", field.replace('"', "\"\"")).into()
    } else {
        field.into()
    }
}

pub(super) fn safetensors(table: &Table<'_>) -> Result<Vec<u8>, Error> {
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
