//! The session that is kept from one start to the next, in a file of the user.

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use egui::Context;
use web_time::Instant;

use super::Session;
use crate::Host;
use crate::work::Once;

/// The least time between two writes. A moving slider is not written at each step.
const PAUSE: Duration = Duration::from_secs(2);

/// The least time between a failed write and the next.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(30);

/// Renames a session that cannot be read, so that it is not overwritten. Returns the new name.
pub(crate) fn put_aside(host: &dyn Host, path: &Path) -> std::io::Result<PathBuf> {
    let free = |i: &u32| path.with_extension(format!("unreadable-{i}.json"));
    let aside = (1..1000).map(|i| free(&i)).find(|path| !host.exists(path)).unwrap_or_default();
    host.rename(path, &aside)?;
    Ok(aside)
}

pub(crate) struct Kept {
    host: Arc<dyn Host>,
    path: PathBuf,
    /// The text that was written last.
    written: Vec<u8>,
    /// The content of the file when this window last read or wrote it. Any other content is that of another window.
    known: Option<Vec<u8>>,
    /// The session at the last check.
    seen: Session,
    since: Instant,
    writes: Writes,
    /// The write in progress. It has a thread, because a disk can be slow.
    writer: Option<Once<WriteResult>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    /// The last write, if there was one, has succeeded.
    Good,
    /// The last write has failed, and the user has been told. Later ones may succeed.
    Failed,
    /// Another window keeps its session in the file, and the user has been told.
    Taken,
}

enum WriteResult {
    /// The file now holds this text.
    Written(Vec<u8>),
    /// Another window has written the file.
    Taken,
}

impl Kept {
    pub(crate) fn new(host: Arc<dyn Host>, path: PathBuf, session: &Session) -> Self {
        let written = session.text().unwrap_or_default();
        let known = host.read(&path, Session::LARGEST).ok();
        let (seen, since) = (session.clone(), Instant::now());
        Self { host, path, written, known, seen, since, writes: Writes::Good, writer: None }
    }

    /// Writes the session in a thread, if it has changed and the last write was long enough ago. After a failure it tries again
    /// after a longer time. The error is the first failure after a success, and names the file.
    pub(crate) fn note(&mut self, ctx: &Context, session: &Session) -> anyhow::Result<()> {
        if self.writer.as_ref().is_some_and(|writer| !writer.is_running()) {
            let known = self.writes;
            let outcome = self.finish();
            if known == Writes::Good {
                outcome?;
            }
        }
        let pause = match self.writes {
            Writes::Good if *session == self.seen => return Ok(()),
            Writes::Good => PAUSE,
            Writes::Failed => PAUSE_AFTER_FAILURE,
            Writes::Taken => return Ok(()),
        };
        if self.since.elapsed() < pause || self.writer.is_some() {
            ctx.request_repaint_after(pause);
            return Ok(());
        }
        self.seen = session.clone();
        self.since = Instant::now();
        if let Some(text) = self.news(session)? {
            let (host, path, known) =
                (Arc::clone(&self.host), self.path.clone(), self.known.clone());
            self.writer = Some(Once::start(&*self.host, ctx, "session", move |_| {
                write(&*host, &path, text, known.as_deref()).map_err(|e| format!("{e:#}"))
            }));
        }
        Ok(())
    }

    /// Writes the session, if it has changed since the last write that succeeded. It is an error if
    /// another window has written the file.
    pub(crate) fn write(&mut self, session: &Session) -> anyhow::Result<()> {
        // The file may have become writable since.
        drop(self.finish());
        let Some(text) = self.news(session)? else { return Ok(()) };
        let outcome = write(&*self.host, &self.path, text, self.known.as_deref());
        self.take(outcome)
    }

    /// The session as text, if it differs from the text that was written last. The position of the pointer is not part of it.
    fn news(&self, session: &Session) -> anyhow::Result<Option<Vec<u8>>> {
        Ok(Some(session.text()?).filter(|text| *text != self.written))
    }

    /// Waits for the write in the thread.
    fn finish(&mut self) -> anyhow::Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        writer.wait();
        writer.take().map_or(Ok(()), |outcome| self.take(outcome.map_err(|e| anyhow!(e))))
    }

    /// Notes the result of a write.
    fn take(&mut self, outcome: anyhow::Result<WriteResult>) -> anyhow::Result<()> {
        match outcome {
            Ok(WriteResult::Written(text)) => {
                self.known = Some(text.clone());
                self.written = text;
                self.writes = Writes::Good;
                Ok(())
            }
            Ok(WriteResult::Taken) => {
                self.writes = Writes::Taken;
                Err(anyhow!("another window keeps its session in {}", self.path.display()))
            }
            Err(e) => {
                self.writes = Writes::Failed;
                Err(e)
            }
        }
    }
}

/// Writes the text, unless the file holds something else than `known`.
fn write(
    host: &dyn Host,
    path: &Path,
    text: Vec<u8>,
    known: Option<&[u8]>,
) -> anyhow::Result<WriteResult> {
    if let Some(folder) = path.parent() {
        host.create_folder(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
    }
    // A file that has been deleted is written again.
    if host.read(path, Session::LARGEST).is_ok_and(|found| Some(&*found) != known) {
        return Ok(WriteResult::Taken);
    }
    host.write(path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(WriteResult::Written(text))
}

#[cfg(test)]
mod tests {
    use regard_walkthrough::Quantity;

    use core::sync::atomic::{AtomicBool, Ordering};
    use std::{fs, io};

    use super::*;
    use crate::host::Work;
    use crate::walkthrough::At;
    use crate::window::TestHost;

    #[test]
    fn the_position_of_the_pointer_is_not_written() {
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

    struct Disk {
        is_full: AtomicBool,
    }

    impl Host for Disk {
        fn spawn(&self, name: &str, work: Work) -> io::Result<()> {
            TestHost::DEFAULT.spawn(name, work)
        }

        fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
            if self.is_full.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::StorageFull.into());
            }
            TestHost::DEFAULT.write(path, bytes)
        }
    }

    /// Lets the window draw until the thread has written.
    fn settle(kept: &mut Kept, session: &Session) -> anyhow::Result<()> {
        kept.since = Instant::now().checked_sub(2 * PAUSE_AFTER_FAILURE).unwrap();
        kept.note(&Context::default(), session)?;
        if let Some(writer) = &kept.writer {
            writer.wait();
        }
        kept.note(&Context::default(), session)
    }

    #[test]
    fn a_session_that_a_full_disk_refused_is_written_when_there_is_room() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("last.regard.json");
        let mut session = Session::default();
        let disk = Arc::new(Disk { is_full: true.into() });
        let host: Arc<dyn Host> = Arc::<Disk>::clone(&disk);
        let mut kept = Kept::new(host, path.clone(), &session);
        session.walkthrough.settings.causal = true;
        let error = settle(&mut kept, &session).unwrap_err();
        assert!(error.to_string().contains("cannot write"), "{error:#}");
        settle(&mut kept, &session).unwrap(); // the user has been told
        assert!(kept.write(&session).is_err() && !path.exists());
        disk.is_full.store(false, Ordering::Relaxed);
        settle(&mut kept, &session).unwrap();
        let read = || Session::read(&TestHost::DEFAULT, &path).unwrap();
        assert!(read().walkthrough.settings.causal);

        disk.is_full.store(true, Ordering::Relaxed);
        session.walkthrough.settings.causal = false;
        settle(&mut kept, &session).unwrap_err();
        disk.is_full.store(false, Ordering::Relaxed);
        kept.write(&session).unwrap(); // the window closes
        assert!(!read().walkthrough.settings.causal);
    }

    #[test]
    fn the_session_of_another_window_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("last.regard.json");
        let mut session = Session::default();
        let window = || Kept::new(Arc::new(TestHost::DEFAULT), path.clone(), &Session::default());
        let (mut first, mut second) = (window(), window());
        session.walkthrough.settings.causal = true;
        first.write(&session).unwrap();
        session.walkthrough.settings.causal = false;
        first.write(&session).unwrap(); // its own file
        let kept = fs::read(&path).unwrap();
        session.look.logarithmic = Some(true);
        let error = settle(&mut second, &session).unwrap_err().to_string();
        assert!(error.contains("another window"), "{error}");
        settle(&mut second, &session).unwrap();
        assert!(second.write(&session).is_err());
        assert_eq!(fs::read(&path).unwrap(), kept);
    }

    #[test]
    fn a_session_that_is_put_aside_replaces_no_file() {
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
