//! What is kept from one start to the next: the session, in a file of the user's.

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use directories::ProjectDirs;
use egui::Context;

use super::Session;
use regard_figure::whole_file;

/// Changes are written so long after the last time, not at each move of a slider.
const PAUSE: Duration = Duration::from_secs(2);

/// Where the session is kept, if this system has a place for it.
pub fn place() -> Option<PathBuf> {
    Some(ProjectDirs::from("", "", "regard")?.data_local_dir().join("last.regard.json"))
}

/// Gives a session that cannot be read another name, which it returns, so that it is not written over.
///
/// # Errors
/// Where the folder may not be changed.
pub fn put_aside(path: &Path) -> std::io::Result<PathBuf> {
    let free = |i: &u32| path.with_extension(format!("unreadable-{i}.json"));
    let aside = (1..1000).map(|i| free(&i)).find(|path| !path.exists()).unwrap_or_default();
    fs::rename(path, &aside)?;
    Ok(aside)
}

/// The file, and what is in it.
pub struct Kept {
    path: PathBuf,
    written: Vec<u8>,
    /// The session when it was last looked at.
    seen: Session,
    since: Instant,
    /// Disks can be slow, and frames must not be.
    writer: Option<JoinHandle<anyhow::Result<()>>>,
}

impl Kept {
    /// Keeps what follows on a session in a file.
    pub fn new(path: PathBuf, session: &Session) -> Self {
        let written = session.text().unwrap_or_default();
        Self { path, written, seen: session.clone(), since: Instant::now(), writer: None }
    }

    /// Writes the session now and then, if it is another, in a thread of its own.
    ///
    /// # Errors
    /// Says which file could not be written.
    pub fn note(&mut self, ctx: &Context, session: &Session) -> anyhow::Result<()> {
        if self.writer.as_ref().is_some_and(JoinHandle::is_finished) {
            self.finish()?;
        }
        if *session == self.seen {
            return Ok(());
        }
        if self.since.elapsed() < PAUSE || self.writer.is_some() {
            ctx.request_repaint_after(PAUSE);
            return Ok(());
        }
        self.seen = session.clone();
        self.since = Instant::now();
        if let Some(text) = self.news(session)? {
            let (path, ctx) = (self.path.clone(), ctx.clone());
            let work = move || {
                let written = write(&path, &text);
                ctx.request_repaint();
                written
            };
            self.writer = Some(thread::Builder::new().name("session".to_owned()).spawn(work)?);
        }
        Ok(())
    }

    /// Writes the session, if it is another.
    ///
    /// # Errors
    /// Says which file cannot be written.
    pub fn write(&mut self, session: &Session) -> anyhow::Result<()> {
        self.finish()?;
        self.news(session)?.map_or(Ok(()), |text| write(&self.path, &text))
    }

    /// The session as text, if it is not the one that was written last. Where the pointer is, is not written.
    fn news(&mut self, session: &Session) -> anyhow::Result<Option<Vec<u8>>> {
        let text = session.text()?;
        if text == self.written {
            return Ok(None);
        }
        self.written.clone_from(&text);
        Ok(Some(text))
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.join().map_err(|_panic| anyhow!("the thread that writes the session ended early"))?
    }
}

fn write(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    whole_file::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use regard_walkthrough::Quantity;

    use super::*;
    use crate::walkthrough::At;

    #[test]
    fn where_the_pointer_is_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("last.regard.json");
        let mut session = Session::default();
        let mut kept = Kept::new(path.clone(), &session);
        session.walkthrough.hovered = Some(At { step: Quantity::X.into(), cell: (0, 0) });
        kept.write(&session).unwrap();
        assert!(!path.exists());
        session.walkthrough.settings.causal = true;
        kept.write(&session).unwrap();
        assert!(Session::read(&path).unwrap().walkthrough.settings.causal);
    }

    #[test]
    fn what_is_put_aside_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("last.regard.json");
        let put = |text: &str| {
            fs::write(&path, text).unwrap();
            put_aside(&path).unwrap()
        };
        let (first, second) = (put("one"), put("two"));
        assert_eq!(
            [fs::read_to_string(first).unwrap(), fs::read_to_string(second).unwrap()],
            ["one", "two"]
        );
    }
}
