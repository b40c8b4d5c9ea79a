//! Files that are written whole or not at all.

use std::io::{self, Write as _};
use std::path::Path;

/// Writes `bytes` to a temporary file beside `path`, and gives it that name once it is whole.
///
/// # Errors
/// Where the folder is missing or may not be written to, or the disk is full. What was at `path` is then still there.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder =
        path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    let mut builder = tempfile::Builder::new();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        // A temporary file is its owner's alone; a result has the rights of other new files, by the umask.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let mut temporary = builder.prefix(".regard-").tempfile_in(folder)?;
    temporary.write_all(bytes)?;
    temporary.as_file().sync_all()?;
    temporary.persist(path)?;
    Ok(())
}
