//! What is kept from one start to the next: the session, in a file of the user's.

use core::time::Duration;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context as _;
use directories::ProjectDirs;
use egui::Context;

use super::Session;

/// Changes are written so long after the last time, not at each move of a slider.
const PAUSE: Duration = Duration::from_secs(2);

/// Where the session is kept, if this system has a place for it.
pub fn place() -> Option<PathBuf> {
    Some(ProjectDirs::from("", "", "regard")?.data_local_dir().join("last.regard.json"))
}

/// The file, and what is in it.
pub struct Kept {
    path: PathBuf,
    written: Session,
    since: Instant,
}

impl Kept {
    /// Keeps what follows on a session in a file.
    pub fn new(path: PathBuf, session: &Session) -> Self {
        Self { path, written: session.clone(), since: Instant::now() }
    }

    /// Writes the session now and then, if it is another.
    ///
    /// # Errors
    /// Says which file cannot be written.
    pub fn note(&mut self, ctx: &Context, session: &Session) -> anyhow::Result<()> {
        if *session == self.written {
            return Ok(());
        }
        if self.since.elapsed() < PAUSE {
            ctx.request_repaint_after(PAUSE);
            return Ok(());
        }
        self.write(session)
    }

    /// Writes the session, if it is another.
    ///
    /// # Errors
    /// Says which file cannot be written.
    pub fn write(&mut self, session: &Session) -> anyhow::Result<()> {
        self.since = Instant::now();
        if *session == self.written {
            return Ok(());
        }
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        session.write(&self.path)?;
        self.written = session.clone();
        Ok(())
    }
}
