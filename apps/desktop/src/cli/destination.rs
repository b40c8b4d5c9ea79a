//! The file that a command writes.

use std::path::Path;

use anyhow::{Context as _, anyhow};

use crate::failure::{BadInput as _, Failure};
use crate::say::tell;
use crate::{opened, whole_file};

/// A file to write. The run must not have read it, unless the user allows this.
pub(crate) struct Destination<'p> {
    to: &'p Path,
    force: bool,
}

impl<'p> Destination<'p> {
    /// Checks that the folder of the file exists, before anything is read.
    pub(crate) fn new(to: &'p Path, force: bool) -> Result<Self, Failure> {
        whole_file::check_folder(to).with_context(|| format!("writing {}", to.display()))?;
        Ok(Self { to, force })
    }

    /// Checks that the run has not read the file so far. [`write`](Self::write) checks this again; a check before a long
    /// computation saves its time.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let input = opened::same_as(self.to).filter(|_| !self.force);
        input.map_or(Ok(()), |input| {
            let (to, input) = (self.to.display(), input.display());
            Err(anyhow!("writing {to} would overwrite {input}, which is read; --force allows it"))
                .bad_input()
        })
    }

    /// Writes the file, whole or not at all.
    pub(crate) fn write(&self, bytes: &[u8]) -> Result<(), Failure> {
        self.check()?;
        let written = whole_file::write(self.to, bytes);
        Ok(written.with_context(|| format!("writing {}", self.to.display()))?)
    }

    /// Writes the file, and prints its path and its contents in a few words.
    pub(crate) fn write_and_tell(&self, bytes: &[u8], what: &str) -> Result<(), Failure> {
        self.write(bytes)?;
        self.tell(what);
        Ok(())
    }

    /// Prints what was written.
    pub(crate) fn tell(&self, what: &str) {
        tell(format_args!("wrote {}: {what}", self.to.display()));
    }
}
