//! The file that a command writes, checked before anything is computed.

use std::path::Path;

use anyhow::{Context as _, anyhow};

use super::failure::{BadInput as _, Failure};
use crate::say::tell;
use crate::whole_file;

/// Checks that the folder of `to` exists, and that `to` is none of the files that are read unless `force` is given.
pub(crate) fn check<'p>(
    to: &Path,
    inputs: impl IntoIterator<Item = &'p Path>,
    force: bool,
) -> Result<(), Failure> {
    whole_file::check_folder(to).with_context(|| format!("writing {}", to.display()))?;
    // Only the identity of a regular file is asked for: that opens the file, and would wait for the other end of a FIFO.
    let is_input = |input: &&Path| {
        let are_files = [to, *input].iter().all(|path| path.is_file());
        are_files && same_file::is_same_file(to, input).unwrap_or(false)
    };
    if let Some(input) = inputs.into_iter().find(is_input).filter(|_| !force) {
        let (to, input) = (to.display(), input.display());
        return Err(anyhow!(
            "writing {to} would overwrite {input}, which is read; --force allows it"
        ))
        .bad_input();
    }
    Ok(())
}

/// Writes a file, and says where and what.
pub(crate) fn write(to: &Path, bytes: &[u8], what: &str) -> Result<(), Failure> {
    whole_file::write(to, bytes).with_context(|| format!("writing {}", to.display()))?;
    tell(format_args!("wrote {}: {what}", to.display()));
    Ok(())
}
