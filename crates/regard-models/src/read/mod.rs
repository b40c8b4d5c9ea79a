//! The files of a model: which tensors are there, and their numbers.

mod gguf;
mod safetensors;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

pub(crate) use self::gguf::Metadata;
use crate::{Error, Format, Tensor};

/// A model's files: the list of its tensors, which are read one at a time.
///
/// It is made of a folder as Hugging Face has them (`config.json`, and `model.safetensors` or its shards with their index),
/// or of a GGUF file. Headers are read and checked against the files' sizes; the numbers stay on the disk until
/// [`read`](Self::read).
///
/// ```
/// use regard_models::Checkpoint;
/// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/models");
/// let checkpoint = Checkpoint::open(format!("{models}/tiny-phi3"))?;
/// let norm = checkpoint.read("model.norm.weight")?;
/// assert_eq!((norm.shape(), norm.format().to_string()), (&[48][..], "F16".to_owned()));
/// # Ok::<(), regard_models::Error>(())
/// ```
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    settings: Settings,
    tensors: BTreeMap<String, Stored>,
}

/// What a checkpoint says of its model besides the tensors.
#[derive(Debug)]
pub(crate) enum Settings {
    /// The content of config.json.
    Config(serde_json::Value),
    /// The metadata of a GGUF file.
    Gguf(Metadata),
}

/// A tensor as it lies in a file.
#[derive(Clone, Debug)]
struct Stored {
    file: PathBuf,
    /// The type's name in the file, and the format if numbers of this type can be read.
    kind: (String, Option<Format>),
    /// The outermost dimension first.
    shape: Vec<usize>,
    offset: u64,
    bytes: u64,
}

impl Checkpoint {
    /// Reads the headers of a folder or of a GGUF file.
    ///
    /// # Errors
    /// Names the file: if it is missing, cut short, or not what its name says.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let kind = fs::metadata(path).map_err(|e| Error::io(path, e))?;
        let (settings, tensors) = if kind.is_dir() {
            (Settings::Config(config(path)?), safetensors::open(path)?)
        } else {
            let (metadata, tensors) = gguf::open(path)?;
            (Settings::Gguf(metadata), tensors)
        };
        Ok(Self { path: path.to_owned(), settings, tensors })
    }

    /// The folder or file that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The names of all tensors, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The shape of a tensor, the outermost dimension first, if there is one of this name.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|stored| stored.shape.as_slice())
    }

    /// The bytes of all tensors in the files, which is what they take in memory.
    pub fn bytes(&self) -> u64 {
        self.tensors.values().map(|stored| stored.bytes).fold(0, u64::saturating_add)
    }

    /// The file that holds a tensor.
    pub(crate) fn file_of(&self, name: &str) -> PathBuf {
        self.tensors.get(name).map_or_else(|| self.path.clone(), |stored| stored.file.clone())
    }

    /// Reads a tensor's numbers, and keeps them in the type in which they are stored.
    ///
    /// # Errors
    /// Names the tensor: if there is none of this name, if its type is none of [`Format::KNOWN`], or if memory has no room
    /// for it; and what the operating system says.
    pub fn read(&self, name: &str) -> Result<Tensor, Error> {
        let stored =
            self.tensors.get(name).ok_or_else(|| Error::tensor(&self.path, name, "is missing"))?;
        let Stored { file: path, kind: (kind, format), shape, offset, .. } = stored;
        let format = format.ok_or_else(|| {
            let what = format!("has the type {kind}; known are {}", Format::KNOWN);
            Error::tensor(path, name, what)
        })?;
        let mut file = File::open(path).map_err(|e| Error::io(path, e))?;
        let read = Tensor::filled(format, shape.clone(), |bytes| {
            file.seek(SeekFrom::Start(*offset))?;
            file.read_exact(bytes)
        });
        let tensor = read.map_err(|e| Error::tensor(path, name, format!("cannot be read: {e}")))?;
        tensor.ok_or_else(|| {
            Error::tensor(path, name, format!("of the shape {shape:?} does not fit in memory"))
        })
    }
}

/// The content of a folder's config.json, which is an object.
fn config(folder: &Path) -> Result<serde_json::Value, Error> {
    let path = folder.join("config.json");
    let text = fs::read(&path).map_err(|e| Error::io(&path, e))?;
    let config: serde_json::Value = serde_json::from_slice(&text)
        .map_err(|e| Error::file(&path, format!("is no JSON: {e}")))?;
    if config.is_object() { Ok(config) } else { Err(Error::file(&path, "holds no JSON object")) }
}
