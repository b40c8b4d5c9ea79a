//! Files that are written whole or not at all.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

use tempfile::NamedTempFile;

/// Temporary files that are there now. The signal that ends the program removes them.
static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Writes `bytes` to a temporary file beside `path`, and gives it that name once it is whole.
///
/// # Errors
/// Where the folder is missing or may not be written to, or the disk is full. What was at `path` is then still there.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // A temporary file is its owner's alone; a result has the rights of other new files, by the umask.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let create = || builder.prefix(".regard-").tempfile_in(folder(path));
    let (mut temporary, listed) = Listed::create(create)?;
    temporary.write_all(bytes)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path)?;
    drop(listed);
    Ok(())
}

/// Whether the folder of a file that is to be written is there, before what is to be written is computed.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] if it is not.
pub(crate) fn check_folder(path: &Path) -> io::Result<()> {
    folder(path).metadata().map(drop)
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."))
}

/// A temporary file that is listed as long as it is there.
struct Listed(PathBuf);

impl Listed {
    /// Creates a temporary file and lists it. A signal between the two waits for the list.
    fn create(
        create: impl FnOnce() -> io::Result<NamedTempFile>,
    ) -> io::Result<(NamedTempFile, Self)> {
        static HANDLER: Once = Once::new();
        // Without a handler, Ctrl-C would leave the file.
        HANDLER.call_once(|| drop(ctrlc::set_handler(remove_and_exit)));
        let mut listed = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
        let temporary = create()?;
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
        drop(std::fs::remove_file(path));
    }
    std::process::exit(130);
}
