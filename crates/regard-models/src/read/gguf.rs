//! Tensors and metadata of a GGUF file.
//!
//! The header is read by `anamnesis`, which bounds what a file can make it allocate and needs no memory map.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anamnesis::{
    GgufMetadataArray, GgufMetadataValue, ParseLimits,
    parse_gguf_front_matter_from_reader_with_limits,
};

use super::Stored;
use super::files::{Files, parts};
use crate::{Error, Format};

/// The most bytes of a header. In memory it takes up to 80 times as much: a token of one letter takes 9 bytes in the file, and
/// in memory a text and a place in each of the tokenizer's tables.
const LARGEST: u64 = 64 << 20;

/// The settings and the tokenizer of a GGUF file, by key.
#[derive(Debug)]
pub(crate) struct Metadata(HashMap<String, GgufMetadataValue>);

impl Metadata {
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// An integer that is not negative.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        match self.0.get(key)? {
            GgufMetadataValue::U8(x) => Some((*x).into()),
            GgufMetadataValue::U16(x) => Some((*x).into()),
            GgufMetadataValue::U32(x) => Some((*x).into()),
            GgufMetadataValue::U64(x) => Some(*x),
            GgufMetadataValue::I8(x) => (*x).try_into().ok(),
            GgufMetadataValue::I16(x) => (*x).try_into().ok(),
            GgufMetadataValue::I32(x) => (*x).try_into().ok(),
            GgufMetadataValue::I64(x) => (*x).try_into().ok(),
            _ => None,
        }
    }

    pub(crate) fn float(&self, key: &str) -> Option<f64> {
        match self.0.get(key)? {
            GgufMetadataValue::F32(x) => Some((*x).into()),
            GgufMetadataValue::F64(x) => Some(*x),
            _ => self.number(key).map(|x| x as f64),
        }
    }

    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        match self.0.get(key)? {
            GgufMetadataValue::Bool(x) => Some(*x),
            _ => None,
        }
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_string()
    }

    pub(crate) fn texts(&self, key: &str) -> Option<&[String]> {
        match self.array(key)? {
            GgufMetadataArray::String(x) => Some(x),
            _ => None,
        }
    }

    /// A list of numbers with fractions.
    pub(crate) fn floats(&self, key: &str) -> Option<&[f32]> {
        match self.array(key)? {
            GgufMetadataArray::F32(x) => Some(x),
            _ => None,
        }
    }

    /// A list of booleans.
    pub(crate) fn flags(&self, key: &str) -> Option<&[bool]> {
        match self.array(key)? {
            GgufMetadataArray::Bool(x) => Some(x),
            _ => None,
        }
    }

    /// A list of integers.
    pub(crate) fn numbers(&self, key: &str) -> Option<Vec<i64>> {
        match self.array(key)? {
            GgufMetadataArray::I32(x) => Some(x.iter().map(|x| (*x).into()).collect()),
            GgufMetadataArray::U32(x) => Some(x.iter().map(|x| (*x).into()).collect()),
            _ => None,
        }
    }

    fn array(&self, key: &str) -> Option<&GgufMetadataArray> {
        match self.0.get(key)? {
            GgufMetadataValue::Array(x) => Some(x),
            _ => None,
        }
    }
}

/// The metadata and the tensors of a file, or of all parts of one that is split. Then the first part has the metadata.
pub(super) fn open(
    files: &Files,
    path: &Path,
) -> Result<(Metadata, BTreeMap<String, Stored>), Error> {
    let parts = parts(path);
    let (first, others) = parts.split_first().map_or((path, &[][..]), |(x, others)| (x, others));
    let (metadata, mut tensors) = part(files, first)?;
    for other in others {
        if !files.has(other) {
            let what = format!("the part {} of the split file is missing", other.display());
            return Err(Error::file(first, what));
        }
        for (name, stored) in part(files, other)?.1 {
            if tensors.insert(name.clone(), stored).is_some() {
                return Err(Error::tensor(other, &name, "is also in another part"));
            }
        }
    }
    match metadata.number("split.count") {
        Some(count) if count > parts.len() as u64 => {
            let what = format!(
                "is one of {count} parts of a split file, whose names end with -00001-of-{count:05}.gguf"
            );
            Err(Error::file(path, what))
        }
        _ => Ok((metadata, tensors)),
    }
}

/// The metadata and the tensors of one file. `anamnesis` checks that each tensor ends within the file.
fn part(files: &Files, path: &Path) -> Result<(Metadata, BTreeMap<String, Stored>), Error> {
    let (file, length) = files.open(path)?;
    // The bounds of the header's memory. A text of n bytes takes n + 24 bytes. The list of tensors and the tokenizer are
    // copies.
    let limits = ParseLimits::unbounded()
        .with_max_single_alloc(length.saturating_mul(8))
        .with_max_total_bytes(length.saturating_mul(16).min(16 * LARGEST));
    let front = parse_gguf_front_matter_from_reader_with_limits(file, &limits).map_err(|e| {
        let is_gguf = path.extension().is_some_and(|kind| kind == "gguf");
        let else_what =
            if is_gguf { "" } else { "; a model is a folder of Hugging Face, or a GGUF file" };
        Error::file(path, format!("is no GGUF file that can be read: {e}{else_what}"))
    })?;
    let header = front.tensor_infos.iter().map(|info| info.data_offset).min().unwrap_or(length);
    if header > LARGEST {
        let what = format!("has a header of {header} bytes, and {LARGEST} are the most");
        return Err(Error::file(path, what));
    }
    let mut tensors = BTreeMap::new();
    for info in front.tensor_infos {
        let mut shape = info.shape;
        shape.reverse();
        let kind = info.dtype.to_string();
        let bytes = match Format::named(&kind) {
            Some(format) => {
                let cols = shape.last().copied().unwrap_or(1);
                let rows = shape
                    .iter()
                    .rev()
                    .skip(1)
                    .try_fold(1_usize, |product, n| product.checked_mul(*n));
                let bytes =
                    format.row_bytes(cols).zip(rows).and_then(|(row, rows)| row.checked_mul(rows));
                bytes.ok_or_else(|| {
                    let (block, _) = format.block();
                    let what = format!(
                        "of the shape {shape:?} has rows that are not blocks of {block} numbers"
                    );
                    Error::tensor(path, &info.name, what)
                })? as u64
            }
            None => info.byte_len.unwrap_or_default(),
        };
        let (file, offset) = (path.to_owned(), info.data_offset);
        let stored = Stored { file, kind, shape, offset, bytes, scales: None };
        if tensors.insert(info.name.clone(), stored).is_some() {
            return Err(Error::tensor(path, &info.name, "is in the file twice"));
        }
    }
    Ok((Metadata(front.metadata), tensors))
}
