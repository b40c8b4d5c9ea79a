//! The bytes of a model's files, on the disk or in memory.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use super::Beside;
use crate::Error;

/// The most bytes of a JSON file of settings.
///
/// A list of digits has one element for 2 bytes of text, so at most 2^19 elements. An element takes 72 bytes if objects keep
/// the order of their keys, which any crate of a program may request. While the list grows, its last half is held twice: 1.5 ·
/// 2^19 · 72 bytes are 54 MiB, within [`room`].
const LARGEST_JSON: u64 = 1 << 20;

/// The most bytes of memory that the contents of headers may take, for files of this size: 3 × the files plus 64 MiB.
pub(crate) fn room(bytes: u64) -> u64 {
    bytes.saturating_mul(3).saturating_add(64 << 20)
}

/// The files of a GGUF model, of which `path` is one: all parts of a split file `model-00001-of-00003.gguf`, or the file alone.
pub(super) fn parts(path: &Path) -> Vec<PathBuf> {
    let split = || {
        let stem = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
        let (before, count) = stem.rsplit_once("-of-")?;
        let (name, number) = before.rsplit_once('-')?;
        let digits = |text: &str| text.parse::<usize>().ok().filter(|n| text.len() == 5 && *n > 0);
        let (number, count) = (digits(number)?, digits(count)?);
        let part = |i: usize| path.with_file_name(format!("{name}-{i:05}-of-{count:05}.gguf"));
        (number <= count).then(|| (1..=count).map(part).collect())
    };
    split().unwrap_or_else(|| vec![path.to_owned()])
}

/// A file that is open.
pub(super) trait Reader: Read + Seek {}

impl<T: Read + Seek> Reader for T {}

/// The bytes of a file in memory, which another owner may share.
pub(super) struct Bytes(Box<dyn AsRef<[u8]> + Send + Sync>);

impl core::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} bytes", (*self.0).as_ref().len())
    }
}

/// A model's files.
#[derive(Debug)]
pub(super) enum Files {
    /// A folder, or one file.
    Disk { folder: bool },
    /// Files by their paths within a folder that does not exist on the disk.
    Memory(BTreeMap<PathBuf, Bytes>),
}

impl Files {
    pub(super) fn on_disk(path: &Path) -> Result<Self, Error> {
        let kind = fs::metadata(path).map_err(|e| Error::io(path, e))?;
        Ok(Self::Disk { folder: kind.is_dir() })
    }

    pub(super) fn in_memory<N: Into<String>, B: AsRef<[u8]> + Send + Sync + 'static>(
        folder: &Path,
        files: impl IntoIterator<Item = (N, B)>,
    ) -> Self {
        let file = |(name, bytes): (N, B)| (folder.join(name.into()), Bytes(Box::new(bytes)));
        Self::Memory(files.into_iter().map(file).collect())
    }

    /// The GGUF file, if the model at `path` is one, or a folder with one and without a config.json. Of a file that is split,
    /// any of its parts.
    pub(super) fn gguf(&self, path: &Path) -> Option<PathBuf> {
        let is_gguf = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "gguf");
        match self {
            Self::Disk { folder: false } => Some(path.to_owned()),
            Self::Disk { folder: true } if self.has(&path.join(Beside::CONFIG.name())) => None,
            Self::Disk { folder: true } => {
                let files = fs::read_dir(path).ok()?.flatten().map(|entry| entry.path());
                let mut files: Vec<PathBuf> = files.filter(is_gguf).collect();
                files.sort_unstable();
                let first = files.first()?.clone();
                (parts(&first) == files).then_some(first)
            }
            Self::Memory(files) => files.keys().find(|path| is_gguf(path)).cloned(),
        }
    }

    pub(super) fn has(&self, path: &Path) -> bool {
        match self {
            Self::Disk { .. } => path.exists(),
            Self::Memory(files) => files.contains_key(path),
        }
    }

    /// A file and its length in bytes.
    pub(super) fn open(&self, path: &Path) -> Result<(Box<dyn Reader + '_>, u64), Error> {
        match self {
            Self::Disk { .. } => {
                let about = fs::metadata(path).map_err(|e| Error::io(path, e))?;
                if !about.is_file() {
                    // Opening a FIFO would wait for its other end.
                    return Err(Error::file(path, "is not a regular file"));
                }
                let file = File::open(path).map_err(|e| Error::io(path, e))?;
                Ok((Box::new(file), about.len()))
            }
            Self::Memory(files) => {
                let missing = || Error::io(path, io::ErrorKind::NotFound.into());
                let bytes = (*files.get(path).ok_or_else(missing)?.0).as_ref();
                Ok((Box::new(Cursor::new(bytes)), bytes.len() as u64))
            }
        }
    }

    /// The content of a file, which may have at most `most` bytes.
    pub(super) fn read(&self, path: &Path, most: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let file = self.open(path)?.0;
        let read = file.take(most.saturating_add(1)).read_to_end(&mut bytes);
        if read.map_err(|e| Error::io(path, e))? as u64 > most {
            return Err(Error::file(path, format!("has more than the {most} bytes that are read")));
        }
        Ok(bytes)
    }

    /// The content of a JSON file, which must be an object.
    pub(super) fn json(&self, path: &Path) -> Result<serde_json::Value, Error> {
        let json: serde_json::Value = serde_json::from_slice(&self.read(path, LARGEST_JSON)?)
            .map_err(|e| Error::file(path, format!("is no JSON: {e}")))?;
        if json.is_object() { Ok(json) } else { Err(Error::file(path, "holds no JSON object")) }
    }
}
