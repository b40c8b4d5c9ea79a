//! The files that this run reads. They are recorded where they are opened, so that a command overwrites none of them by mistake.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use regard_heads::Stream;

static OPENED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Opens a file that the run reads.
pub(crate) fn file(path: &Path) -> io::Result<File> {
    record([path.to_owned()]);
    File::open(path)
}

/// Reads a whole file.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    record([path.to_owned()]);
    fs::read(path)
}

/// Opens a regular file that the run reads: a device or a FIFO is refused.
pub(crate) fn stream(path: &Path) -> io::Result<Box<dyn Stream>> {
    record([path.to_owned()]);
    regard_heads::from_disk(path)
}

/// Records files that a library opens.
pub(crate) fn record(paths: impl IntoIterator<Item = PathBuf>) {
    OPENED.lock().unwrap_or_else(PoisonError::into_inner).extend(paths);
}

/// The path under which this run has read the file `to`, if it has.
pub(crate) fn same_as(to: &Path) -> Option<PathBuf> {
    // Only a regular file is opened to ask for its identity. Opening a FIFO would wait for its other end.
    let is_same =
        |path: &&PathBuf| path.is_file() && same_file::is_same_file(to, path).unwrap_or(false);
    let opened = OPENED.lock().unwrap_or_else(PoisonError::into_inner);
    if to.is_file() { opened.iter().find(is_same).cloned() } else { None }
}
