//! The interface between a front end and the system that it runs on.

use core::ops::ControlFlow;
use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use regard_heads::Stream;
use regard_models::{Checkpoint, Description};

use crate::message::Message;

/// The address of the book's chapters, which explain the mathematics of attention.
pub const BOOK: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/blob/main/docs/SUMMARY.md");

/// Work that [`Host::spawn`] runs beside the window.
pub type Work = Box<dyn FnOnce() + Send>;

/// Takes the file that the user chose in the system's dialog. `None` means that there was no dialog or no choice.
pub type Chosen = Box<dyn FnOnce(Option<PathBuf>) + Send>;

/// A worker's reply to a question.
pub enum Reply {
    /// The share of the work that is done, from 0 to 1.
    Progress(f32),
    /// An intermediate answer, which is shown until the next arrives.
    Shown(Message),
    /// The answer or the error. This reply is the last one.
    Done(Result<Message, String>),
}

/// Takes a worker's replies to a question. `Break` means that the work is cancelled.
pub type Replies = Box<dyn FnMut(Reply) -> ControlFlow<()> + Send>;

/// The system around the window: its threads, files and dialogs.
///
/// The rest of this crate is the same on every system, including wasm32 in a browser. The methods with a default use the
/// standard library. A browser has no file system: its host answers them from the files that the user dropped.
pub trait Host: Send + Sync {
    /// Runs `work` beside the window: in a thread with this name, or between two frames if the system has no threads.
    ///
    /// # Errors
    /// If no thread can be started. `work` is dropped then.
    fn spawn(&self, name: &str, work: Work) -> io::Result<()>;

    /// Whether a worker that shares no memory with the window answers the questions. A host whose [`spawn`](Self::spawn) has no
    /// threads needs one.
    fn has_worker(&self) -> bool {
        false
    }

    /// Gives the worker a question for its background. `replies` is called with each reply.
    fn ask_worker(&self, question: Message, replies: Replies) {
        let _ = (question, replies);
    }

    /// Opens a file for reading. An error of the kind [`NotFound`](io::ErrorKind::NotFound) means that there is no such file.
    ///
    /// # Errors
    /// If there is no such file, or if it cannot be opened.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Stream>> {
        regard_heads::from_disk(path)
    }

    /// Reads a whole file of at most `largest` bytes.
    ///
    /// # Errors
    /// If there is no such file, if it cannot be read, or if it is larger.
    fn read(&self, path: &Path, largest: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(path)?.take(largest.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > largest {
            let reason = format!("the file has more than {largest} bytes");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
        }
        Ok(bytes)
    }

    /// Writes a whole file. After an error the old file, if there was one, is still there.
    ///
    /// # Errors
    /// If the folder is missing or cannot be written to, or if the disk is full.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Whether there is a file or a folder at this path.
    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    /// Whether there is a folder at this path.
    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    /// Opens a model and reads its headers: a bundled one, a Hugging Face folder, or a GGUF file.
    ///
    /// # Errors
    /// If its files cannot be read. The message names the file.
    fn checkpoint(&self, name: &str) -> Result<Checkpoint, String> {
        let opened =
            regard_bundled::checkpoint(name).unwrap_or_else(|| Checkpoint::open(Path::new(name)));
        opened.map_err(|e| e.to_string())
    }

    /// The share of a model's files that is here, while they are being fetched; the first call begins it. `None`: nothing is
    /// fetched, and [`checkpoint`](Self::checkpoint) finds the model or says why not.
    fn arriving(&self, name: &str) -> Option<f32> {
        let _ = name;
        None
    }

    /// The models in the local Hugging Face cache, by name. A system without a cache has none.
    fn cached(&self) -> Vec<Cached> {
        Vec::new()
    }

    /// Renames a file.
    ///
    /// # Errors
    /// If the folder cannot be written to.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    /// Creates a folder and its missing parents.
    ///
    /// # Errors
    /// If a folder cannot be created.
    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    /// The folder in which dialogs start.
    fn folder(&self) -> PathBuf {
        std::env::current_dir().unwrap_or_default()
    }

    /// Shows the [book](BOOK) in a browser.
    ///
    /// # Errors
    /// If no browser opens.
    fn open_book(&self) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// What opens a view elsewhere, and what it is in words, given the [end of an address](crate::Session::link).
    fn link(&self, end: &str) -> (String, &'static str) {
        let what = "a command for the terminal that opens this view. “Open session” takes it too";
        (format!("regard \"{end}\""), what)
    }

    /// The file that keeps the session from one start to the next. `None` if the system has no place for it.
    fn session_file(&self) -> Option<PathBuf> {
        None
    }

    /// Opens the system's own dialog and calls `chosen` when the user has closed it, or at once if the system has none.
    fn browse(&self, _: FileDialog<'_>, chosen: Chosen) {
        chosen(None);
    }
}

/// A model in the cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cached {
    /// Its name, such as `openai-community/gpt2`.
    pub name: String,
    /// Its family and size, or the reason why it cannot be opened here.
    pub kind: Result<String, String>,
}

impl Cached {
    /// The model of this name, whose headers have been read.
    pub fn new(name: String, checkpoint: Result<Checkpoint, String>) -> Self {
        let kind = checkpoint.and_then(|checkpoint| {
            let description = Description::of(&checkpoint).map_err(|e| e.to_string())?;
            let megabytes = checkpoint.bytes() as f64 / 1e6;
            Ok(format!("{}, {megabytes:.1} MB", description.family))
        });
        Self { name, kind }
    }
}

/// The system's dialog for a file.
#[derive(Clone, Copy, Debug)]
pub struct FileDialog<'a> {
    /// The heading.
    pub heading: &'a str,
    /// The endings of the names to choose from, without a dot.
    pub extensions: &'a [&'a str],
    /// Whether the file is to be read. Otherwise it is to be written.
    pub opens: bool,
    /// The path to start from: a file in a folder.
    pub path: &'a Path,
    /// The name of a new file, if `path` has none.
    pub name: &'a str,
}

/// The host of tests: the files of this machine.
#[cfg(test)]
pub(crate) struct Disk;

#[cfg(test)]
impl Host for Disk {
    fn spawn(&self, name: &str, work: Work) -> io::Result<()> {
        std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        fs::write(path, bytes)
    }
}
