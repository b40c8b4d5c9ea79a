//! The files of a model by the name that a user gives, and the memory that it takes.

use std::path::Path;

use anyhow::anyhow;
use indicatif::DecimalBytes;
use regard_models::{Checkpoint, available_memory, split_part};

use crate::failure::{BadInput as _, Failure};
use crate::say::tell;
use crate::{hub, opened};

/// For a model of at least this many bytes, the memory that it takes is reported.
const LARGE: u64 = 1 << 30;

/// The files of a model by its name. Only their headers are read.
pub(crate) fn checkpoint(path: &Path, download: bool) -> Result<Checkpoint, Failure> {
    let checkpoint = find(path, download)?;
    opened::record(checkpoint.files());
    Ok(checkpoint)
}

fn find(path: &Path, download: bool) -> Result<Checkpoint, Failure> {
    if let Some(bundled) = crate::bundled::checkpoint(path) {
        return bundled.bad_input();
    }
    if path.exists() {
        return Checkpoint::open(path).bad_input();
    }
    let (path, part) = split_part(path);
    if path.exists() {
        return Checkpoint::open_part(path, part).bad_input();
    }
    let name = path.display();
    let Some(repository) = repository(path) else {
        return Err(anyhow!("{name}: there is no such file or folder")).bad_input();
    };
    let cache = hub::Cache::of_environment().bad_input()?;
    let folder = match cache.snapshot(&repository) {
        Some(folder) if !download || hub::is_complete(&folder) => folder,
        _ if download => hub::download(&repository, &cache)?,
        _ => {
            let place = cache.folder(&repository);
            return Err(anyhow!(
                    "{name}: there is no such file or folder, and {} is not in the cache; --download fetches it",
                    place.display()
                ))
                .bad_input();
        }
    };
    Checkpoint::open_part(hub::model_in(&folder), part).bad_input()
}

/// The repository for a name on the command line, if it is a name in UTF-8.
fn repository(path: &Path) -> Option<hub::Repository> {
    hub::Repository::named(path.to_str()?)
}

/// Whether a name on the command line is that of a model, and not of a session or a file of attention.
pub(crate) fn is_model(path: &Path) -> bool {
    if path.exists() {
        return path.is_dir()
            || path.extension().is_some_and(|kind| kind.eq_ignore_ascii_case("gguf"));
    }
    let Some(repository) = repository(path) else { return false };
    let is_cached =
        hub::Cache::of_environment().is_ok_and(|cache| cache.snapshot(&repository).is_some());
    // A name with a slash is that of a repository if the folder before the slash does not exist.
    let is_in_no_folder =
        path.parent().is_some_and(|parent| !parent.as_os_str().is_empty() && !parent.exists());
    crate::bundled::is_name(path) || is_cached || is_in_no_folder
}

/// Reports the memory that a large model or a long text takes, and refuses it if memory has no room for it.
pub(crate) fn allow(what: &str, bytes: u64) -> Result<(), Failure> {
    let needed = DecimalBytes(bytes);
    if let Some(available) = available_memory().filter(|available| *available < bytes) {
        let available = DecimalBytes(available);
        return Err(anyhow!("{what} {needed}, and the machine has {available} of memory left"))
            .bad_input();
    }
    if bytes >= LARGE {
        tell(format_args!("note: {what} {needed} of memory"));
    }
    Ok(())
}
