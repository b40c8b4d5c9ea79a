//! The session that is kept from one start to the next, in a file of the user.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use egui::Context;
use web_time::Instant;

use super::Session;
use crate::Host;
use crate::task::Task;

/// The least time between two writes. A moving slider is not written at each step.
const PAUSE: Duration = Duration::from_secs(2);

/// Renames a session that cannot be read, so that it is not overwritten. Returns the new name.
///
/// # Errors
/// If the folder cannot be changed.
pub fn put_aside(host: &dyn Host, path: &Path) -> std::io::Result<PathBuf> {
    let free = |i: &u32| path.with_extension(format!("unreadable-{i}.json"));
    let aside = (1..1000).map(|i| free(&i)).find(|path| !host.exists(path)).unwrap_or_default();
    host.rename(path, &aside)?;
    Ok(aside)
}

/// The file and its contents.
pub struct Kept {
    host: Arc<dyn Host>,
    path: PathBuf,
    written: Vec<u8>,
    /// The session at the last check.
    seen: Session,
    since: Instant,
    /// Disks can be slow, but frames must not be.
    writer: Option<Task<()>>,
}

impl Kept {
    /// Keeps the later states of a session in a file.
    pub fn new(host: Arc<dyn Host>, path: PathBuf, session: &Session) -> Self {
        let written = session.text().unwrap_or_default();
        Self { host, path, written, seen: session.clone(), since: Instant::now(), writer: None }
    }

    /// Writes the session in a thread, if it has changed and the last write was long enough ago.
    ///
    /// # Errors
    /// If the last write failed. The error names the file.
    pub fn note(&mut self, ctx: &Context, session: &Session) -> anyhow::Result<()> {
        if self.writer.as_ref().is_some_and(|writer| !writer.is_running()) {
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
            let (host, path) = (Arc::clone(&self.host), self.path.clone());
            self.writer = Some(Task::start(&*self.host, ctx, "session", move |_| {
                write(&*host, &path, &text).map_err(|e| format!("{e:#}"))
            }));
        }
        Ok(())
    }

    /// Writes the session, if it has changed.
    ///
    /// # Errors
    /// If the file cannot be written. The error names it.
    pub fn write(&mut self, session: &Session) -> anyhow::Result<()> {
        self.finish()?;
        self.news(session)?.map_or(Ok(()), |text| write(&*self.host, &self.path, &text))
    }

    /// The session as text, if it differs from the text that was written last. The position of the pointer is not part of it.
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
        writer.wait();
        writer.take().unwrap_or(Ok(())).map_err(|e| anyhow!(e))
    }
}

fn write(host: &dyn Host, path: &Path, text: &[u8]) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        host.create_folder(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    host.write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use regard_walkthrough::Quantity;

    use std::fs;

    use super::*;
    use crate::test_host::TestHost;
    use crate::walkthrough::At;

    #[test]
    fn where_the_pointer_is_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("last.regard.json");
        let mut session = Session::default();
        let mut kept = Kept::new(Arc::new(TestHost::DEFAULT), path.clone(), &session);
        session.walkthrough.hovered = Some(At { step: Quantity::X.into(), cell: (0, 0) });
        kept.write(&session).unwrap();
        assert!(!path.exists());
        session.walkthrough.settings.causal = true;
        kept.write(&session).unwrap();
        assert!(Session::read(&TestHost::DEFAULT, &path).unwrap().walkthrough.settings.causal);
    }

    #[test]
    fn what_is_put_aside_replaces_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("last.regard.json");
        let put = |text: &str| {
            fs::write(&path, text).unwrap();
            put_aside(&TestHost::DEFAULT, &path).unwrap()
        };
        let (first, second) = (put("one"), put("two"));
        assert_eq!(
            [fs::read_to_string(first).unwrap(), fs::read_to_string(second).unwrap()],
            ["one", "two"]
        );
    }
}
