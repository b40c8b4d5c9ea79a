use std::collections::BTreeMap;
use std::io::{self, Read};

use safetensors::tensor::{Metadata, TensorInfo};
use serde_json::Value;

/// The factor by which a header may grow in memory: at least 50 bytes of text name a tensor without elements, which takes a
/// place in the list of the crate `safetensors` and in the list of a reader.
const EXPANSION: u64 = 24;
/// The bytes of the header's length.
const START: u64 = size_of::<u64>() as u64;

/// What the headers of several files take together.
///
/// In memory they take at most three times the files and 64 MiB.
#[derive(Clone, Copy, Debug, Default)]
pub struct Budget {
    files: u64,
    headers: u64,
}

impl Budget {
    /// Adds a file and its header. `Err` has the most bytes that the header may have.
    fn add(&mut self, file: u64, header: u64) -> Result<(), u64> {
        let files = self.files.saturating_add(file);
        let most = (files.saturating_mul(3).saturating_add(64 << 20) / EXPANSION)
            .saturating_sub(self.headers);
        if header > most {
            return Err(most);
        }
        *self = Self { files, headers: self.headers + header };
        Ok(())
    }
}

/// This error says why a header cannot be read. Its sentence follows the name of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The file has less bytes than its header.
    #[error("it ends before its header does: the file is cut short")]
    Short,

    /// The header would take too much memory.
    #[error(
        "its first 8 bytes announce a header of {found} bytes, and {most} are the most for a file of its length"
    )]
    Long {
        /// The bytes of the header.
        found: u64,
        /// The most bytes that it may have.
        most: u64,
    },

    /// The header is no JSON, or its tensors contradict each other.
    #[error("its header cannot be read: {0}")]
    Json(#[from] serde_json::Error),

    /// The file does not end where its last tensor does.
    #[error("it has {found} bytes, but its header announces {announced}")]
    Length {
        /// The bytes of the file.
        found: u64,
        /// The bytes of the header and of all tensors.
        announced: u64,
    },

    /// An error of the operating system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The header of a safetensors file: the names, types, shapes and places of its tensors.
///
/// The tensors lie one after another without gaps. A name has one tensor.
#[derive(Debug)]
pub struct Header {
    metadata: Metadata,
    start: u64,
}

impl Header {
    /// Reads a header from the beginning of a file. `length` is that of the file, if it is known: a pipe may end anywhere.
    ///
    /// # Errors
    /// [`HeaderError`], but for [`HeaderError::Length`]: see [`check_length`](Self::check_length).
    pub fn read(
        file: &mut (impl Read + ?Sized),
        length: Option<u64>,
        budget: &mut Budget,
    ) -> Result<Self, HeaderError> {
        let mut size = [0; START as usize];
        read_all(file, &mut size)?;
        let size = u64::from_le_bytes(size);
        budget
            .add(length.unwrap_or(0), size)
            .map_err(|most| HeaderError::Long { found: size, most })?;
        if length.is_some_and(|length| size > length.saturating_sub(START)) {
            return Err(HeaderError::Short);
        }
        let mut text = vec![0; size as usize];
        read_all(file, &mut text)?;
        Ok(Self { metadata: serde_json::from_slice(&text)?, start: START + size })
    }

    /// The place of the first tensor in the file.
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// The place after the last tensor, which is the length of the file.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.metadata.data_len() as u64)
    }

    /// `Ok` if a file of `found` bytes ends where its last tensor does.
    ///
    /// # Errors
    /// [`HeaderError::Length`].
    pub fn check_length(&self, found: u64) -> Result<(), HeaderError> {
        let announced = self.end();
        if found == announced { Ok(()) } else { Err(HeaderError::Length { found, announced }) }
    }

    /// A tensor's type, shape, and place after [`start`](Self::start).
    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.metadata.info(name)
    }

    /// The tensors in the order of their places.
    pub fn tensors(&self) -> impl Iterator<Item = (String, &TensorInfo)> {
        let names = self.metadata.offset_keys().into_iter();
        names.filter_map(|name| Some((name.clone(), self.metadata.info(&name)?)))
    }

    /// The texts of the header, sorted by their keys.
    pub fn texts(&self) -> Vec<(String, String)> {
        let texts = self.metadata.metadata().iter().flatten();
        let mut texts: Vec<_> = texts.map(|(key, text)| (key.clone(), text.clone())).collect();
        texts.sort();
        texts
    }
}

fn read_all(file: &mut (impl Read + ?Sized), bytes: &mut [u8]) -> Result<(), HeaderError> {
    file.read_exact(bytes).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => HeaderError::Short,
        _ => e.into(),
    })
}

/// The shards that an index (`model.safetensors.index.json`) lists, each with the names of its tensors.
///
/// A shard is in the folder of the index. A name that leads elsewhere, or to a file of another kind, is refused.
///
/// # Errors
/// A tensor and what is wrong with its shard; without a tensor, what is wrong with the index.
///
/// ```
/// use regard_tensors::shards;
/// let index = serde_json::json!({ "weight_map": { "a": "1.safetensors", "b": "1.safetensors" } });
/// assert_eq!(shards(&index).unwrap()["1.safetensors"], ["a", "b"]);
/// let index = serde_json::json!({ "weight_map": { "a": "../1.safetensors" } });
/// let (tensor, said) = shards(&index).unwrap_err();
/// assert_eq!(tensor, Some("a".into()));
/// assert_eq!(said, "is in the shard \"../1.safetensors\", which is not a file of the same folder");
/// ```
pub fn shards(index: &Value) -> Result<BTreeMap<String, Vec<String>>, (Option<String>, String)> {
    let map = index.get("weight_map").and_then(Value::as_object);
    let map = map.ok_or_else(|| (None, "has no object weight_map".to_owned()))?;
    let mut shards: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (tensor, shard) in map {
        let wrong = match shard.as_str() {
            None => "which is no text",
            Some(name) if name.contains(['/', '\\', ':']) || name.contains("..") => {
                "which is not a file of the same folder"
            }
            Some(name) if !name.ends_with(".safetensors") => "which is no .safetensors file",
            Some(name) => {
                shards.entry(name.to_owned()).or_default().push(tensor.clone());
                continue;
            }
        };
        return Err((Some(tensor.clone()), format!("is in the shard {shard}, {wrong}")));
    }
    Ok(shards)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with this header and so many bytes of tensors.
    fn file(header: &[u8], tensors: usize) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes()[..], header, &vec![0; tensors]].concat()
    }

    fn read(file: &[u8]) -> Result<Header, HeaderError> {
        let length = file.len() as u64;
        let header = Header::read(&mut &*file, Some(length), &mut Budget::default())?;
        header.check_length(length).map(|()| header)
    }

    fn said(file: &[u8]) -> String {
        read(file).unwrap_err().to_string()
    }

    fn tensor(name: &str, shape: &str, from: u64, to: u64) -> String {
        format!(r#""{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{from},{to}]}}"#)
    }

    #[test]
    fn a_header_tells_its_tensors_in_their_order() {
        let both = [tensor("b", "[2]", 0, 8), tensor("a", "[1,1]", 8, 12)].join(",");
        let header = read(&file(format!("{{{both}}}").as_bytes(), 12)).unwrap();
        let tensors: Vec<_> = header.tensors().map(|(name, info)| (name, &info.shape)).collect();
        assert_eq!(tensors, [("b".to_owned(), &vec![2]), ("a".to_owned(), &vec![1, 1])]);
        assert_eq!(header.info("a").unwrap().data_offsets, (8, 12));
    }

    #[test]
    fn a_wrong_header_is_refused_before_memory_is_reserved() {
        for (bytes, part) in [
            (Vec::new(), "ends before its header"),
            (vec![1; 7], "ends before its header"),
            (100_u64.to_le_bytes().to_vec(), "ends before its header"),
            (u64::MAX.to_le_bytes().to_vec(), "announce a header of 18446744073709551615 bytes"),
            ((1_u64 << 40).to_le_bytes().to_vec(), "announce a header of 1099511627776 bytes"),
            (file(b"[", 0), "its header cannot be read"),
            (file(b"{\"\xff\":1}", 0), "its header cannot be read"),
        ] {
            assert!(said(&bytes).contains(part), "{}", said(&bytes));
        }
        let one = |tensor: String, bytes| said(&file(format!("{{{tensor}}}").as_bytes(), bytes));
        for (tensors, bytes) in [
            (tensor("a", "[2]", 4, 12), 12), // a gap before it
            (tensor("a", "[2]", 0, 4), 8),   // too few bytes
            (tensor("a", "[4294967296,4294967296,9]", 0, 64), 64), // more than memory
            (tensor("a", "[18446744073709551616]", 0, 8), 8), // no usize
            (tensor("a", "[2]", 8, 0), 8),   // backwards
            ([tensor("a", "[2]", 0, 8), tensor("b", "[2]", 4, 12)].join(","), 12), // overlap
            ([tensor("a", "[2]", 0, 8), tensor("a", "[2]", 8, 16)].join(","), 16), // one name twice
        ] {
            let said = one(tensors.clone(), bytes);
            assert!(said.contains("its header cannot be read"), "{tensors}: {said}");
        }
        for bytes in [7, 9] {
            let said = one(tensor("a", "[2]", 0, 8), bytes);
            assert!(said.contains("but its header announces"), "{said}");
        }
    }

    #[test]
    fn the_headers_of_all_shards_share_one_limit() {
        let mut budget = Budget::default();
        let most = (64 << 20) / EXPANSION;
        assert_eq!(budget.add(0, most + 1), Err(most));
        assert_eq!(budget.add(0, most), Ok(()));
        assert_eq!(budget.add(0, 1), Err(0));
        assert_eq!(budget.add(EXPANSION, 3), Ok(()), "a larger file may have a larger header");
    }

    #[test]
    fn a_shard_is_a_file_beside_its_index() {
        for (shard, part) in [
            (serde_json::json!(1), "which is no text"),
            (serde_json::json!("/etc/a.safetensors"), "not a file of the same folder"),
            (serde_json::json!("model.safetensors.index.json"), "which is no .safetensors file"),
        ] {
            let (tensor, said) =
                shards(&serde_json::json!({"weight_map": {"x": shard}})).unwrap_err();
            assert!(tensor.as_deref() == Some("x") && said.contains(part), "{said}");
        }
        let (tensor, said) = shards(&serde_json::json!([])).unwrap_err();
        assert_eq!((tensor, said.as_str()), (None, "has no object weight_map"));
    }
}
