//! What the window asks of the system that it runs on.

use std::io;
use std::path::{Path, PathBuf};

/// Work that [`Host::spawn`] runs beside the window.
pub type Work = Box<dyn FnOnce() + Send>;

/// Takes the file that the user chose in the system's dialog; `None` if there was no dialog or no choice.
pub type Answer = Box<dyn FnOnce(Option<PathBuf>) + Send>;

/// The system around the window: its threads, files and dialogs.
///
/// Everything else in this crate is the same on every system, wasm32 in a browser included.
pub trait Host: Send + Sync {
    /// Runs `work` beside the window, in a thread with this name or in something like it.
    ///
    /// # Errors
    /// If no thread can be started. `work` is dropped then.
    fn spawn(&self, name: &str, work: Work) -> io::Result<()>;

    /// Reads a whole file of at most `largest` bytes.
    ///
    /// # Errors
    /// If there is no such file, if it cannot be read, or if it is larger.
    fn read(&self, path: &Path, largest: u64) -> io::Result<Vec<u8>>;

    /// Writes a whole file. After an error the old file, if there was one, is still there.
    ///
    /// # Errors
    /// If the folder is missing or cannot be written to, or if the disk is full.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Whether there is a file or a folder at this path.
    fn exists(&self, path: &Path) -> bool;

    /// Gives a file another name.
    ///
    /// # Errors
    /// If the folder cannot be written to.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Creates a folder and those that it is in, if they are missing.
    ///
    /// # Errors
    /// If a folder cannot be created.
    fn create_folder(&self, path: &Path) -> io::Result<()>;

    /// The folder in which the user starts to look for files.
    fn folder(&self) -> PathBuf;

    /// The file that keeps the session from one start to the next, if this system has a place for it.
    fn session_file(&self) -> Option<PathBuf>;

    /// Opens the system's own dialog, and calls `answer` when the user has closed it.
    fn browse(&self, question: Question<'_>, answer: Answer);
}

/// What the system's dialog asks.
#[derive(Clone, Copy, Debug)]
pub struct Question<'a> {
    /// The heading.
    pub heading: &'a str,
    /// The endings of names to choose from, without a dot.
    pub extensions: &'a [&'a str],
    /// Whether the file is read; else it is written.
    pub opens: bool,
    /// Where the user is so far: a file in a folder.
    pub path: &'a Path,
    /// The name of a new file, if `path` has none.
    pub name: &'a str,
}
