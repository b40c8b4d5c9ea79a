//! The host of tests: real files and threads, but no dialogs.

use std::fs;
use std::io;
use std::path::Path;

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

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // Other threads read the file as soon as it exists, so it must be whole then.
        let part = path.with_extension("part");
        fs::write(&part, bytes)?;
        fs::rename(part, path)
    }

    fn browse(&self, _question: Question<'_>, answer: Answer) {
        answer(None);
    }
}
