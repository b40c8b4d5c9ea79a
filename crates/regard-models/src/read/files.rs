//! Where the bytes of a model's files are: on the disk or in memory.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use crate::Error;

/// A file that is open.
pub(super) trait Reader: Read + Seek {}

impl<T: Read + Seek> Reader for T {}

/// A model's files.
#[derive(Debug)]
pub(super) enum Files {
    /// A folder, or one file.
    Disk { folder: bool },
    /// By their paths within a folder that no disk has.
    Memory(BTreeMap<PathBuf, Cow<'static, [u8]>>),
}

impl Files {
    pub(super) fn on_disk(path: &Path) -> Result<Self, Error> {
        let kind = fs::metadata(path).map_err(|e| Error::io(path, e))?;
        Ok(Self::Disk { folder: kind.is_dir() })
    }

    pub(super) fn in_memory<N: Into<String>, B: Into<Cow<'static, [u8]>>>(
        folder: &Path,
        files: impl IntoIterator<Item = (N, B)>,
    ) -> Self {
        let files = files.into_iter();
        Self::Memory(files.map(|(name, bytes)| (folder.join(name.into()), bytes.into())).collect())
    }

    /// The GGUF file, if that is what the model at `path` is.
    pub(super) fn gguf(&self, path: &Path) -> Option<PathBuf> {
        match self {
            Self::Disk { folder } => (!folder).then(|| path.to_owned()),
            Self::Memory(files) => files
                .keys()
                .find(|path| path.extension().is_some_and(|kind| kind == "gguf"))
                .cloned(),
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
                let file = File::open(path).map_err(|e| Error::io(path, e))?;
                let length = file.metadata().map_err(|e| Error::io(path, e))?.len();
                Ok((Box::new(file), length))
            }
            Self::Memory(files) => {
                let missing = || Error::io(path, io::ErrorKind::NotFound.into());
                let bytes = files.get(path).ok_or_else(missing)?;
                Ok((Box::new(Cursor::new(bytes.as_ref())), bytes.len() as u64))
            }
        }
    }

    pub(super) fn read(&self, path: &Path) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.open(path)?.0.read_to_end(&mut bytes).map_err(|e| Error::io(path, e))?;
        Ok(bytes)
    }

    /// The content of a JSON file, which is an object.
    pub(super) fn json(&self, path: &Path) -> Result<serde_json::Value, Error> {
        let json: serde_json::Value = serde_json::from_slice(&self.read(path)?)
            .map_err(|e| Error::file(path, format!("is no JSON: {e}")))?;
        if json.is_object() { Ok(json) } else { Err(Error::file(path, "holds no JSON object")) }
    }
}
