//! Tensors and metadata of a GGUF file.
//!
//! ```text
//! "GGUF", version 2 or 3, number of tensors, number of settings
//! each setting: its name, the number of its type, its value
//! each tensor:  its name, number of dimensions, dimensions from the innermost, number of its type, offset
//! the tensors' numbers, each from a multiple of the alignment on
//! ```
//!
//! All integers are little-endian. Texts and lists have their length before them: memory for them is reserved only if the rest of
//! the file, and of the longest header that is read, has room for so many of them.

use std::collections::{BTreeMap, HashMap};
use std::io::{BufReader, Read};
use std::path::Path;

use super::TensorInFile;
use super::files::{Files, parts};
use crate::{Error, NumberFormat};

/// The most bytes of a header. In memory it takes up to 80 times as much: a token of one letter takes 9 bytes in the file, and
/// in memory a text and a place in each of the tokenizer's tables.
const LARGEST: u64 = 64 << 20;
/// The most dimensions of a tensor. ggml has 4.
const DIMENSIONS: u32 = 8;
/// The most lists that lie within one another.
const DEPTH: usize = 4;
/// The alignment of tensors if no setting tells it.
const ALIGNMENT: u64 = 32;
/// The types of tensors by their numbers in ggml. A number that ggml no longer uses has the name -.
const TYPES: &str = "F32 F16 Q4_0 Q4_1 - - Q5_0 Q5_1 Q8_0 Q8_1 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K IQ2_XXS IQ2_XS IQ3_XXS IQ1_S IQ4_NL \
                     IQ3_S IQ2_S IQ4_XS I8 I16 I32 I64 F64 IQ1_M BF16 - - - TQ1_0 TQ2_0 - - - MXFP4 NVFP4 Q1_0 Q2_0";

/// The types of settings that are not integers, by their numbers.
const FLOAT: u32 = 6;
const FLAG: u32 = 7;
const TEXT: u32 = 8;
const LIST: u32 = 9;
const DOUBLE: u32 = 12;

/// The settings and the tokenizer of a GGUF file, by key.
#[derive(Debug)]
pub(crate) struct Metadata(HashMap<String, MetadataValue>);

/// The value of a setting.
#[derive(Debug)]
enum MetadataValue {
    Integer(i64),
    Float(f64),
    Flag(bool),
    Text(String),
    Integers(Vec<i64>),
    Floats(Vec<f32>),
    Flags(Vec<bool>),
    Texts(Vec<String>),
    /// Lists of lists, which no model needs.
    Lists,
}

impl Metadata {
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// An integer that is not negative.
    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        match self.0.get(key)? {
            MetadataValue::Integer(x) => (*x).try_into().ok(),
            _ => None,
        }
    }

    pub(crate) fn float(&self, key: &str) -> Option<f64> {
        match self.0.get(key)? {
            MetadataValue::Float(x) => Some(*x),
            _ => self.number(key).map(|x| x as f64),
        }
    }

    pub(crate) fn flag(&self, key: &str) -> Option<bool> {
        match self.0.get(key)? {
            MetadataValue::Flag(x) => Some(*x),
            _ => None,
        }
    }

    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        match self.0.get(key)? {
            MetadataValue::Text(x) => Some(x),
            _ => None,
        }
    }

    pub(crate) fn texts(&self, key: &str) -> Option<&[String]> {
        match self.0.get(key)? {
            MetadataValue::Texts(x) => Some(x),
            _ => None,
        }
    }

    /// A list of numbers with fractions.
    pub(crate) fn floats(&self, key: &str) -> Option<&[f32]> {
        match self.0.get(key)? {
            MetadataValue::Floats(x) => Some(x),
            _ => None,
        }
    }

    /// A list of booleans.
    pub(crate) fn flags(&self, key: &str) -> Option<&[bool]> {
        match self.0.get(key)? {
            MetadataValue::Flags(x) => Some(x),
            _ => None,
        }
    }

    /// A list of integers.
    pub(crate) fn numbers(&self, key: &str) -> Option<&[i64]> {
        match self.0.get(key)? {
            MetadataValue::Integers(x) => Some(x),
            _ => None,
        }
    }
}

/// The metadata and the tensors of a file, or of all parts of one that is split. Then the first part has the metadata.
pub(super) fn open(
    files: &Files,
    path: &Path,
) -> Result<(Metadata, BTreeMap<String, TensorInFile>), Error> {
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

/// The metadata and the tensors of one file.
fn part(files: &Files, path: &Path) -> Result<(Metadata, BTreeMap<String, TensorInFile>), Error> {
    let (file, length) = files.open(path)?;
    let mut header = HeaderReader { file: BufReader::new(file), length, at: 0 };
    let is_gguf = path.extension().is_some_and(|kind| kind == "gguf");
    let else_what =
        if is_gguf { "" } else { "; a model is a folder of Hugging Face, or a GGUF file" };
    let refuse = |e| Error::file(path, format!("is no GGUF file that can be read: {e}{else_what}"));
    let (metadata, infos) = header.read().map_err(refuse)?;
    let metadata = Metadata(metadata);
    let alignment = metadata.number("general.alignment").unwrap_or(ALIGNMENT);
    if !alignment.is_power_of_two() {
        return Err(refuse(format!("its alignment of {alignment} is no power of two")));
    }
    let start = header.at.next_multiple_of(alignment);
    let mut tensors = BTreeMap::new();
    for Info { name, kind, shape, offset } in infos {
        let wrong = |what: String| Error::tensor(path, &name, what);
        if !offset.is_multiple_of(alignment) {
            return Err(wrong(format!(
                "begins at byte {offset}, which is no multiple of {alignment}"
            )));
        }
        let bytes = match NumberFormat::named(&kind) {
            Some(format) => {
                let cols = shape.last().copied().unwrap_or(1);
                let mut rows = shape.iter().rev().skip(1);
                let rows = rows.try_fold(1_usize, |product, n| product.checked_mul(*n));
                let bytes = format.row_bytes(cols).zip(rows);
                let bytes =
                    bytes.and_then(|(row, rows)| row.checked_mul(rows)).ok_or_else(|| {
                        let (block, _) = format.block();
                        wrong(format!(
                            "of the shape {shape:?} has rows that are not blocks of {block} numbers"
                        ))
                    })?;
                bytes as u64
            }
            None => 0, // it cannot be read
        };
        let offset = start.saturating_add(offset);
        let end = offset.saturating_add(bytes);
        if end > length {
            return Err(wrong(format!("ends at byte {end} of {length}: the file is cut short")));
        }
        let file = path.to_owned();
        let stored = TensorInFile { file, kind, shape, offset, bytes, scales: None };
        if tensors.insert(name.clone(), stored).is_some() {
            return Err(Error::tensor(path, &name, "is in the file twice"));
        }
    }
    let mut spans: Vec<_> = tensors.iter().map(|(name, x)| (x.offset, x.bytes, name)).collect();
    spans.sort_unstable();
    for pair in spans.windows(2) {
        if let [(first, bytes, name), (second, _, other)] = pair
            && first + bytes > *second
        {
            return Err(Error::tensor(path, name, format!("overlaps the tensor {other}")));
        }
    }
    Ok((metadata, tensors))
}

/// A tensor as the header tells it.
struct Info {
    name: String,
    kind: String,
    /// The outermost dimension first.
    shape: Vec<usize>,
    /// From the first tensor's place on.
    offset: u64,
}

/// The header of a file, which is read up to byte `at` of `length`.
struct HeaderReader<F> {
    file: F,
    length: u64,
    at: u64,
}

impl<F: Read> HeaderReader<F> {
    fn read(&mut self) -> Result<(HashMap<String, MetadataValue>, Vec<Info>), String> {
        let magic = self.take()?;
        if &magic != b"GGUF" {
            return Err(format!("it begins with {:?}", String::from_utf8_lossy(&magic)));
        }
        let version = u32::from_le_bytes(self.take()?);
        if !(2..=3).contains(&version) {
            // A file of another byte order has a huge one.
            return Err(format!("its version is {version}, and 2 and 3 are read"));
        }
        let [tensors, settings] = [self.long()?, self.long()?];
        let mut metadata = HashMap::new();
        for _ in 0..settings {
            let (key, kind) = (self.text()?, u32::from_le_bytes(self.take()?));
            let value = self.value(kind)?;
            if let Some(twice) = metadata.insert(key.clone(), value).map(|_| key) {
                return Err(format!("the setting {twice} is in the file twice"));
            }
        }
        let mut infos = Vec::new();
        for _ in 0..tensors {
            infos.push(self.info()?);
        }
        Ok((metadata, infos))
    }

    fn info(&mut self) -> Result<Info, String> {
        let (name, dimensions) = (self.text()?, u32::from_le_bytes(self.take()?));
        if dimensions > DIMENSIONS {
            return Err(format!("the tensor {name} has {dimensions} dimensions"));
        }
        let mut shape = vec![0; dimensions as usize];
        for n in shape.iter_mut().rev() {
            let found = self.long()?;
            *n = usize::try_from(found)
                .map_err(|_e| format!("the tensor {name} has a dimension of {found}"))?;
        }
        let number = u32::from_le_bytes(self.take()?);
        let kind = TYPES.split_whitespace().nth(number as usize).filter(|kind| *kind != "-");
        let kind = kind.map_or_else(|| number.to_string(), str::to_owned);
        Ok(Info { name, kind, shape, offset: self.long()? })
    }

    /// The next bytes.
    fn take<const N: usize>(&mut self) -> Result<[u8; N], String> {
        self.room(1, N as u64)?;
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes).map_err(|e| e.to_string())?;
        self.at += N as u64;
        Ok(bytes)
    }

    fn long(&mut self) -> Result<u64, String> {
        self.take().map(u64::from_le_bytes)
    }

    /// `Ok` if there is room for so many parts of at least so many bytes each.
    fn room(&self, count: u64, bytes: u64) -> Result<(), String> {
        let end = self.at.saturating_add(count.saturating_mul(bytes));
        if end > self.length {
            return Err(format!("its header ends after byte {}, where the file ends", self.length));
        }
        if end > LARGEST {
            return Err(format!("its header has more than {LARGEST} bytes"));
        }
        Ok(())
    }

    fn text(&mut self) -> Result<String, String> {
        let count = self.long()?;
        self.room(count, 1)?;
        let mut bytes = vec![0; count as usize];
        self.file.read_exact(&mut bytes).map_err(|e| e.to_string())?;
        self.at += count;
        String::from_utf8(bytes)
            .map_err(|e| format!("the text before byte {} is no UTF-8: {e}", self.at))
    }

    fn value(&mut self, kind: u32) -> Result<MetadataValue, String> {
        Ok(match kind {
            FLAG => MetadataValue::Flag(self.flag()?),
            TEXT => MetadataValue::Text(self.text()?),
            LIST => self.list(DEPTH)?,
            FLOAT | DOUBLE => MetadataValue::Float(self.float(kind)?),
            kind => MetadataValue::Integer(self.integer(kind)?),
        })
    }

    /// A list that may have lists within one another to this depth.
    fn list(&mut self, depth: usize) -> Result<MetadataValue, String> {
        let (kind, count) = (u32::from_le_bytes(self.take()?), self.long()?);
        // A text has at least its length, and a list its type too.
        let least = match kind {
            TEXT => 8,
            LIST => 12,
            _ => 1,
        };
        self.room(count, least)?;
        let count = count as usize;
        Ok(match kind {
            FLAG => MetadataValue::Flags(self.items(count, Self::flag)?),
            TEXT => MetadataValue::Texts(self.items(count, Self::text)?),
            LIST => {
                let depth = depth.checked_sub(1).ok_or("a setting has too many lists in lists")?;
                for _ in 0..count {
                    self.list(depth)?;
                }
                MetadataValue::Lists
            }
            FLOAT | DOUBLE => {
                MetadataValue::Floats(self.items(count, |header| Ok(header.float(kind)? as f32))?)
            }
            kind => MetadataValue::Integers(self.items(count, |header| header.integer(kind))?),
        })
    }

    fn items<T>(
        &mut self,
        count: usize,
        item: impl Fn(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn flag(&mut self) -> Result<bool, String> {
        match self.take()? {
            [byte @ 0..=1] => Ok(byte == 1),
            [byte] => Err(format!("byte {} is {byte}, which is no boolean", self.at - 1)),
        }
    }

    fn float(&mut self, kind: u32) -> Result<f64, String> {
        Ok(match kind {
            FLOAT => f32::from_le_bytes(self.take()?).into(),
            _ => f64::from_le_bytes(self.take()?),
        })
    }

    /// An integer. One that is too large for the result becomes the largest.
    fn integer(&mut self, kind: u32) -> Result<i64, String> {
        Ok(match kind {
            0 => u8::from_le_bytes(self.take()?).into(),
            1 => i8::from_le_bytes(self.take()?).into(),
            2 => u16::from_le_bytes(self.take()?).into(),
            3 => i16::from_le_bytes(self.take()?).into(),
            4 => u32::from_le_bytes(self.take()?).into(),
            5 => i32::from_le_bytes(self.take()?).into(),
            10 => self.long()?.try_into().unwrap_or(i64::MAX),
            11 => i64::from_le_bytes(self.take()?),
            _ => return Err(format!("the setting before byte {} has the type {kind}", self.at)),
        })
    }
}
