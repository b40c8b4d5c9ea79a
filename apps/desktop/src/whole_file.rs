//! Files that are written whole or not at all.
//!
//! ```text
//! target ← the file that the path leads to, through symbolic links
//! device, FIFO or socket:        write the bytes straight into it
//! file with several hard links:  write in place, so that every name shows the result
//! otherwise:                     remove temporary files that earlier runs left in the folder
//!                                temporary file ← bytes, with the mode and the owner of the target
//!                                rename the temporary file to the target
//! ```
//!
//! A run holds a lock on its temporary file. A temporary file without a lock belongs to a run that was killed.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

use tempfile::NamedTempFile;

/// Temporary files that exist now. The signal that ends the program removes them.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// The beginning and the end of the name of a temporary file. Six random characters are between them.
const PREFIX: &str = ".regard-";
const SUFFIX: &str = ".part";

/// Writes `bytes` to the file at `path`: whole or not at all, unless it is not a regular file or has several hard links.
///
/// An existing file keeps its mode. A symbolic link stays a link, and the file to which it leads is written.
///
/// # Errors
/// If the folder is missing or read-only, the file is read-only, or the disk is full. A regular file then has its old content,
/// unless it has several hard links.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    match existing(path)? {
        Some(mut file) if !file.metadata()?.is_file() => file.write_all(bytes),
        Some(file) if links(&file)? > 1 => overwrite(file, bytes),
        _ => Staged::new(path, bytes)?.put(),
    }
}

/// A file whose bytes are on the disk, but under a temporary name. If it is dropped, it is removed. So several files are
/// written all or not at all, except by a run that is killed while it renames them.
pub(crate) struct Staged {
    temporary: NamedTempFile,
    listed: Listed,
    target: PathBuf,
}

impl Staged {
    /// Writes `bytes` beside the file at `path`, with its mode and owner if it exists.
    pub(crate) fn new(path: &Path, bytes: &[u8]) -> io::Result<Self> {
        let (old, target) = (existing(path)?, target(path)?);
        let folder = folder(&target);
        remove_left_files(folder);
        let (temporary, listed) = Listed::create(folder)?;
        let mut file = temporary.as_file();
        if let Some(old) = old {
            keep_owner_and_mode(&old, file)?;
        }
        file.write_all(bytes)?;
        file.sync_all()?;
        Ok(Self { temporary, listed, target })
    }

    /// Gives the file its name.
    pub(crate) fn put(self) -> io::Result<()> {
        let Self { temporary, listed, target } = self;
        temporary.persist(target).map_err(|e| e.error)?;
        drop(listed);
        Ok(())
    }
}

/// The file at a path, opened to write, if there is one.
fn existing(path: &Path) -> io::Result<Option<File>> {
    match OpenOptions::new().write(true).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Writes a file in place.
fn overwrite(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.set_len(0)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// The file to which symbolic links lead. It need not exist.
fn target(path: &Path) -> io::Result<PathBuf> {
    /// The number of links that Linux follows.
    const MOST_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(link) => path = folder(&path).join(link),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("there are too many symbolic links"))
}

#[cfg(unix)]
fn links(file: &File) -> io::Result<u64> {
    Ok(std::os::unix::fs::MetadataExt::nlink(&file.metadata()?))
}

#[cfg(not(unix))]
fn links(_file: &File) -> io::Result<u64> {
    Ok(1)
}

/// Gives `new` the mode of `old`, and its owner if the system allows it.
fn keep_owner_and_mode(old: &File, new: &File) -> io::Result<()> {
    let metadata = old.metadata()?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, fchown};
        // Only root may give a file away.
        drop(fchown(new, Some(metadata.uid()), Some(metadata.gid())));
    }
    new.set_permissions(metadata.permissions())
}

/// Removes the temporary files in a folder that no run holds a lock on.
fn remove_left_files(folder: &Path) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let middle = name.to_str().and_then(|n| n.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
        let is_ours = middle.is_some_and(|middle| middle.len() == 6);
        if is_ours
            && entry.file_type().is_ok_and(|kind| kind.is_file())
            && let Ok(file) = File::open(entry.path())
            && file.try_lock().is_ok()
        {
            drop(fs::remove_file(entry.path()));
        }
    }
}

/// Checks that the folder of a file exists, before the content of the file is computed.
///
/// # Errors
/// If there is no such folder.
pub(crate) fn check_folder(path: &Path) -> io::Result<()> {
    // With the dot, the system refuses a path that is not a folder.
    folder(&target(path)?).join(".").metadata().map(drop)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// A temporary file that is listed as long as it exists.
struct Listed(PathBuf);

impl Listed {
    /// Creates a temporary file in a folder, locks it and lists it. A signal between the steps waits for the list.
    fn create(folder: &Path) -> io::Result<(NamedTempFile, Self)> {
        static HANDLER: Once = Once::new();
        // Without a handler, Ctrl-C would leave the file behind. If the caller lets the program ignore Ctrl-C (`nohup`, a
        // script's background job), the program continues to ignore it.
        HANDLER.call_once(|| drop(ctrlc::try_set_handler(remove_and_exit)));
        let mut listed = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
        let temporary = loop {
            let mut builder = tempfile::Builder::new();
            let named = builder.prefix(PREFIX).suffix(SUFFIX);
            // The umask changes this mode. `tempfile_in` would create a file that only its owner can read.
            let new = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
            let temporary = named.make_in(folder, new)?;
            // Some file systems have no locks. Another run cannot lock the file there either, and leaves it alone.
            let is_taken = matches!(temporary.as_file().try_lock(), Err(TryLockError::WouldBlock));
            // Between creating and locking the file, another run may have removed it as one that was left.
            if !is_taken && temporary.path().exists() {
                break temporary;
            }
        };
        let path = temporary.path();
        let path = std::path::absolute(path).unwrap_or_else(|_e| path.to_owned());
        listed.push(path.clone());
        Ok((temporary, Self(path)))
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut listed = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
        listed.retain(|path| *path != self.0);
    }
}

/// Removes the temporary files and ends the program as Ctrl-C does.
#[expect(clippy::exit, reason = "a signal ends the program")]
fn remove_and_exit() {
    for path in TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        drop(fs::remove_file(path));
    }
    std::process::exit(130);
}
