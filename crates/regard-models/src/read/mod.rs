//! The files of a model: the list of its tensors, and their numbers.

mod beside;
mod blocks;
mod files;
mod gguf;
mod safetensors;

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

pub(crate) use self::beside::Beside;
use self::files::Files;
pub(crate) use self::files::room;
pub(crate) use self::gguf::Metadata;
use crate::towers;
use crate::{Error, NumberFormat, Tensor};

/// A file of at most so many bytes is hashed whole, and of another one so many bytes of each tensor.
const WHOLE: u64 = 64 << 20;
const SAMPLE: u64 = 4096;

/// A model's files: the list of its tensors, which are read one at a time.
///
/// It is made from a folder of Hugging Face (`config.json`, and `model.safetensors` or its shards with their index), or from a
/// GGUF file. Headers are read and checked against the files' sizes; the numbers stay on the disk until [`read`](Self::read).
///
/// ```
/// use regard_models::Checkpoint;
/// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
/// let checkpoint = Checkpoint::open(format!("{models}/tiny-phi3"))?;
/// let norm = checkpoint.read("model.norm.weight")?;
/// assert_eq!((norm.shape(), norm.format().to_string()), (&[48][..], "F16".to_owned()));
/// # Ok::<(), regard_models::Error>(())
/// ```
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    files: Files,
    settings: Settings,
    tensors: BTreeMap<String, TensorInFile>,
    bytes_read: AtomicU64,
    told: Option<Told>,
}

/// A function that takes the number of bytes of tensors that have been read so far.
struct Told(Box<dyn Fn(u64) + Send + Sync>);

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Told")
    }
}

/// The settings of a checkpoint's model.
#[derive(Debug)]
pub(crate) enum Settings {
    /// The content of config.json.
    Config(serde_json::Value),
    /// The metadata of a GGUF file.
    Gguf(Metadata),
}

/// A name, and the part of a model that it names after a `#`.
///
/// ```
/// use std::path::Path;
/// use regard_models::split_part;
/// assert_eq!(split_part(Path::new("openai/clip#text")), (Path::new("openai/clip"), Some("text")));
/// assert_eq!(split_part(Path::new("gpt2")), (Path::new("gpt2"), None));
/// ```
pub fn split_part(path: &Path) -> (&Path, Option<&str>) {
    let parts = path.to_str().and_then(|path| path.rsplit_once('#'));
    parts.map_or((path, None), |(whole, part)| (Path::new(whole), Some(part)))
}

/// A tensor in a file.
#[derive(Clone, Debug)]
struct TensorInFile {
    file: PathBuf,
    /// The type's name in the file.
    kind: String,
    /// The outermost dimension first.
    shape: Vec<usize>,
    offset: u64,
    /// With those of the scales.
    bytes: u64,
    /// The scales of blocks of MXFP4 that a file has as a tensor of their own.
    scales: Option<Box<Self>>,
}

impl TensorInFile {
    /// The format, if numbers of this type can be read.
    fn format(&self) -> Option<NumberFormat> {
        NumberFormat::named(&self.kind)
    }

    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        core::iter::once(&self.file).chain(self.scales.iter().map(|scales| &scales.file))
    }
}

impl Checkpoint {
    /// Reads the headers of a folder or of a GGUF file.
    ///
    /// # Errors
    /// An error names the file: if it is missing, ends too early, or is not of the kind that its name says.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        match split_part(path) {
            (whole, Some(part)) if !path.exists() => Self::open_part(whole, Some(part)),
            _ => Self::open_part(path, None),
        }
    }

    /// Opens the part of a model that compares images with texts (CLIP, SigLIP): `vision`, which opens unless a part is named, or
    /// `text`. [`open`](Self::open) takes it after a `#`.
    ///
    /// # Errors
    /// The same as those of [`open`](Self::open), and [`Error::File`] if the model has no such part.
    ///
    /// ```
    /// use regard_models::Checkpoint;
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let said = Checkpoint::open(format!("{models}/tiny-gpt2#text")).unwrap_err().to_string();
    /// assert!(said.contains("the family \"gpt2\" has no part \"text\""));
    /// ```
    pub fn open_part(path: impl AsRef<Path>, part: Option<&str>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::new(path, Files::on_disk(path)?, part)
    }

    /// Reads the headers of files that are in memory: those of a Hugging Face folder by their names, or one GGUF file.
    ///
    /// Messages call the model `name`.
    ///
    /// # Errors
    /// The same as those of [`open`](Self::open).
    ///
    /// ```
    /// use regard_models::{Checkpoint, Input, Model};
    /// # let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/models/tiny-gpt2");
    /// # let read = |name: &str| std::fs::read(format!("{folder}/{name}")).unwrap();
    /// let (config, weights) = (read("config.json"), read("model.safetensors"));
    /// let files = [("config.json", config), ("model.safetensors", weights)];
    /// let model = Model::load(&Checkpoint::from_files("tiny", files)?)?;
    /// assert_eq!(model.generate(&Input::tokens([7, 8, 9]), 4, &[])?.len(), 4);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn from_files<N: Into<String>, B: AsRef<[u8]> + Send + Sync + 'static>(
        name: &str,
        files: impl IntoIterator<Item = (N, B)>,
    ) -> Result<Self, Error> {
        let path = Path::new(name);
        Self::new(path, Files::in_memory(path, files), None)
    }

    fn new(path: &Path, files: Files, part: Option<&str>) -> Result<Self, Error> {
        let (path, settings, tensors) = if let Some(path) = files.gguf(path) {
            let (metadata, tensors) = gguf::open(&files, &path)?;
            if let Some(part) = part {
                return Err(Error::file(&path, format!("a GGUF file has no part {part:?}")));
            }
            let first = files::parts(&path).into_iter().next();
            (first.unwrap_or(path), Settings::Gguf(metadata), tensors)
        } else {
            let config = path.join(Beside::CONFIG.name());
            if !files.has(&config) && files.has(&path.join(safetensors::ADAPTER)) {
                let what = format!("the folder is an adapter{}", safetensors::merge(path));
                return Err(Error::file(path, what));
            }
            let config = files.json(&config)?;
            let tower = towers::of(&config, part).map_err(|what| Error::file(path, what))?;
            let config = Settings::Config(tower.unwrap_or(config));
            let mut tensors = safetensors::open(&files, path)?;
            blocks::join(&mut tensors)?;
            (path.to_owned(), config, tensors)
        };
        Ok(Self { path, files, settings, tensors, bytes_read: AtomicU64::new(0), told: None })
    }

    /// The folder or file that was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The files on the disk that belong to the model: those that hold its tensors, and those of the folder that
    /// describe it. There are none if the files are in memory.
    pub fn files(&self) -> Vec<PathBuf> {
        if matches!(self.files, Files::Memory(_)) {
            return Vec::new();
        }
        let mut files: BTreeSet<_> =
            self.tensors.values().flat_map(TensorInFile::files).cloned().collect();
        let beside = Beside::ALL.map(|file| self.path.join(file.name()));
        files.extend(beside.into_iter().filter(|path| path.is_file()));
        files.into_iter().collect()
    }

    /// Reads the files of the model in parts, in the order of their names: the tensors', `config.json` and those of the tokenizer's
    /// vocabulary. Of a file of more than 64 MiB, these are its length, its header and the first 4096 bytes of each tensor: reading all of a
    /// large model takes as long as opening it. A hash of the parts tells whether two models have the same files, unless they
    /// differ in single numbers.
    ///
    /// # Errors
    /// Those of the operating system.
    ///
    /// ```
    /// use regard_models::Checkpoint;
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let file = format!("{models}/gguf/tiny-gpt2.Q8_0.gguf");
    /// let mut bytes = Vec::new();
    /// Checkpoint::open(&file)?.for_each_part(&mut |part| bytes.extend_from_slice(part))?;
    /// assert_eq!(bytes, std::fs::read(file).unwrap());
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn for_each_part(&self, part: &mut dyn FnMut(&[u8])) -> Result<(), Error> {
        let mut files: BTreeSet<_> =
            self.tensors.values().flat_map(TensorInFile::files).cloned().collect();
        let beside = Beside::DESCRIBE.map(|file| self.path.join(file.name()));
        files.extend(beside.into_iter().filter(|path| self.files.has(path)));
        let mut buffer = vec![0; 1 << 20];
        for path in files {
            let (mut file, length) = self.files.open(&path)?;
            let io = |e| Error::io(&path, e);
            let spans = if length <= WHOLE { vec![(0, length)] } else { self.samples(&path) };
            if length > WHOLE {
                part(&length.to_le_bytes());
            }
            for (start, count) in spans {
                file.seek(SeekFrom::Start(start)).map_err(io)?;
                let mut rest = file.by_ref().take(count);
                loop {
                    let count = rest.read(&mut buffer).map_err(io)?;
                    if count == 0 {
                        break;
                    }
                    part(&buffer[..count]);
                }
            }
        }
        Ok(())
    }

    /// The starts and the lengths of the header of a file and of the first bytes of each of its tensors.
    fn samples(&self, path: &Path) -> Vec<(u64, u64)> {
        let stored = self.tensors.values();
        let stored =
            stored.flat_map(|stored| core::iter::once(stored).chain(stored.scales.as_deref()));
        let stored = stored.filter(|stored| stored.file == path);
        let mut spans: Vec<_> = stored.map(|x| (x.offset, x.bytes.min(SAMPLE))).collect();
        spans.sort_unstable();
        let header = spans.first().map_or(0, |(start, _)| *start);
        spans.insert(0, (0, header));
        spans
    }

    /// Reads all tensors, and returns the error that names the first one with a number that is not finite, if there is one.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    ///
    /// ```
    /// use regard_models::Checkpoint;
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let checkpoint = Checkpoint::open(format!("{models}/tiny-gpt2"))?;
    /// assert!(checkpoint.not_finite()?.is_none());
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn not_finite(&self) -> Result<Option<Error>, Error> {
        for (name, stored) in &self.tensors {
            let numbers =
                if stored.format().is_some() { self.read(name)?.to_f32() } else { Vec::new() };
            if let Some((at, x)) = numbers.iter().enumerate().find(|(_, x)| !x.is_finite()) {
                let what = format!("holds {x}, which is number {at} of {}", numbers.len());
                return Ok(Some(Error::tensor(&stored.file, name, what)));
            }
        }
        Ok(None)
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The content of a file of the folder, which may have at most `most` bytes, or `None` if the folder lacks the file.
    pub(crate) fn file(&self, file: Beside, most: u64) -> Result<Option<Vec<u8>>, Error> {
        let path = self.path.join(file.name());
        if !self.files.has(&path) {
            return Ok(None);
        }
        self.files.read(&path, most).map(Some)
    }

    /// Whether the folder has a file.
    pub(crate) fn has(&self, file: Beside) -> bool {
        self.files.has(&self.path.join(file.name()))
    }

    /// The content of a JSON file of the folder, or `None` if the folder lacks the file.
    pub(crate) fn json(&self, file: Beside) -> Result<Option<serde_json::Value>, Error> {
        let path = self.path.join(file.name());
        if self.files.has(&path) { self.files.json(&path).map(Some) } else { Ok(None) }
    }

    /// The settings with which an image ("image_processor") or a recording ("feature_extractor", "audio_processor") is prepared,
    /// and their file. `processor_config.json` may have them, as transformers 5 writes it, and they count before those of
    /// `preprocessor_config.json`.
    pub(crate) fn preparation(
        &self,
        keys: &[&str],
    ) -> Result<(PathBuf, Option<serde_json::Value>), Error> {
        if let Some(mut all) = self.json(Beside::PROCESSOR_CONFIG)?
            && let Some(key) = keys.iter().find(|key| all[**key].is_object())
        {
            let path = self.path.join(Beside::PROCESSOR_CONFIG.name());
            return Ok((path, Some(all[*key].take())));
        }
        let file = Beside::PREPROCESSOR_CONFIG;
        Ok((self.path.join(file.name()), self.json(file)?))
    }

    /// The bytes of tensors that have been read so far. Tensors that are read twice count twice. At the end it is about
    /// [`bytes`](Self::bytes).
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// Calls `told` with [`bytes_read`](Self::bytes_read) after each tensor that is read.
    ///
    /// ```
    /// use core::sync::atomic::{AtomicU64, Ordering};
    /// use std::sync::Arc;
    /// use regard_models::{Checkpoint, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let mut checkpoint = Checkpoint::open(format!("{models}/tiny-gpt2"))?;
    /// let read = Arc::new(AtomicU64::new(0));
    /// let told = Arc::clone(&read);
    /// checkpoint.on_read(move |bytes| told.store(bytes, Ordering::Relaxed));
    /// Model::load(&checkpoint)?;
    /// assert_eq!(read.load(Ordering::Relaxed), checkpoint.bytes_read());
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn on_read(&mut self, told: impl Fn(u64) + Send + Sync + 'static) {
        self.told = Some(Told(Box::new(told)));
    }

    /// The names of all tensors, in alphabetical order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The shape of a tensor, the outermost dimension first, if there is one of this name.
    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.tensors.get(name).map(|stored| stored.shape.as_slice())
    }

    /// Whether a tensor's numbers are in blocks.
    pub(crate) fn is_in_blocks(&self, name: &str) -> bool {
        let format = self.tensors.get(name).and_then(TensorInFile::format);
        matches!(format, Some(NumberFormat::Blocks(_)))
    }

    /// The bytes of all tensors in the files, which is what they take in memory.
    pub fn bytes(&self) -> u64 {
        self.tensors.values().map(|stored| stored.bytes).fold(0, u64::saturating_add)
    }

    /// The file that holds a tensor.
    pub(crate) fn file_of(&self, name: &str) -> PathBuf {
        self.tensors.get(name).map_or_else(|| self.path.clone(), |stored| stored.file.clone())
    }

    /// Reads a tensor's numbers, and keeps them in the type of the file.
    ///
    /// # Errors
    /// An error names the tensor: if it does not exist, if its type is not one of [`NumberFormat::KNOWN`], or if memory has no room
    /// for it. The errors of the operating system are passed on.
    pub fn read(&self, name: &str) -> Result<Tensor, Error> {
        self.read_part(name, None)
    }

    fn stored(&self, name: &str) -> Result<&TensorInFile, Error> {
        self.tensors.get(name).ok_or_else(|| Error::tensor(&self.path, name, "is missing"))
    }

    /// The format of a tensor.
    ///
    /// # Errors
    /// An error names the tensor: if it does not exist, or if its type is not one of [`NumberFormat::KNOWN`].
    pub(crate) fn format(&self, name: &str) -> Result<NumberFormat, Error> {
        let stored = self.stored(name)?;
        stored.format().ok_or_else(|| {
            let what = format!("has the type {}; known are {}", stored.kind, NumberFormat::KNOWN);
            Error::tensor(&stored.file, name, what)
        })
    }

    /// Reads a tensor, or the entry of this index along its first dimension.
    pub(crate) fn read_part(&self, name: &str, entry: Option<usize>) -> Result<Tensor, Error> {
        let TensorInFile { file: path, shape, offset, scales, .. } = self.stored(name)?;
        let shape = match (entry, shape.as_slice()) {
            (Some(entry), [count, shape @ ..]) if entry < *count => shape,
            (Some(entry), _) => {
                return Err(Error::tensor(path, name, format!("has no entry {entry}")));
            }
            (None, shape) => shape,
        };
        let before = |bytes: usize| (entry.unwrap_or(0) * bytes) as u64;
        let format = self.format(name)?;
        let (mut file, _) = self.files.open(path)?;
        let read = Tensor::filled(format, shape.to_vec(), |bytes| {
            let Some(scales) = scales else {
                file.seek(SeekFrom::Start(offset + before(bytes.len())))?;
                return file.read_exact(bytes);
            };
            let [of_numbers, of_scale] =
                blocks::PARTS.map(|part| before(bytes.len() / blocks::BYTES * part));
            file.seek(SeekFrom::Start(offset + of_numbers))?;
            let mut of_scales = match self.files.open(&scales.file) {
                Ok((file, _)) => file,
                Err(e) => return Err(io::Error::other(e.to_string())),
            };
            of_scales.seek(SeekFrom::Start(scales.offset + of_scale))?;
            blocks::read(file, of_scales, bytes)
        });
        let tensor = read.map_err(|e| Error::tensor(path, name, format!("cannot be read: {e}")))?;
        let tensor = tensor.ok_or_else(|| {
            Error::tensor(path, name, format!("of the shape {shape:?} does not fit in memory"))
        })?;
        let bytes = tensor.bytes() as u64;
        let before = self.bytes_read.fetch_add(bytes, Ordering::Relaxed);
        if let Some(Told(told)) = &self.told {
            told(before + bytes);
        }
        Ok(tensor)
    }
}
