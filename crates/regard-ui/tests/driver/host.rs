//! The system around the window in tests: real files and threads, and no dialogs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use regard_ui::host::{Answer, Host, Question, Work};

pub struct TestHost {
    pub has_threads: bool,
}

impl TestHost {
    pub const DEFAULT: Self = Self { has_threads: true };
}

impl Host for TestHost {
    fn spawn(&self, name: &str, work: Work) -> io::Result<()> {
        if !self.has_threads {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        std::thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
    }

    fn read(&self, path: &Path, largest: u64) -> io::Result<Vec<u8>> {
        assert!(fs::metadata(path)?.len() <= largest);
        fs::read(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // Other threads wait for the file and read it at once: it must never be there in part.
        let part = path.with_extension("part");
        fs::write(&part, bytes)?;
        fs::rename(part, path)
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn folder(&self) -> PathBuf {
        std::env::current_dir().unwrap_or_default()
    }

    fn session_file(&self) -> Option<PathBuf> {
        None
    }

    fn browse(&self, _question: Question<'_>, answer: Answer) {
        answer(None);
    }
}
