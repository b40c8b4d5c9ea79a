//! The host of tests: real files and threads, but no dialogs.

use std::fs;
use std::io;
use std::path::Path;

use regard_ui::host::{Cached, Host, Work};

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

    /// Opens this machine's regular files. A test needs a file whose reader waits for ever, and names it like this.
    fn open(&self, path: &Path) -> io::Result<Box<dyn regard_heads::Stream>> {
        if path.file_name().is_some_and(|name| name == "pipe.safetensors") {
            return Ok(Box::new(fs::File::open(path)?));
        }
        regard_heads::from_disk(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        // Other threads read the file as soon as it exists, so it must be whole then.
        let part = path.with_extension("part");
        fs::write(&part, bytes)?;
        fs::rename(part, path)
    }

    /// Two of the tiny models, and one that cannot be opened.
    fn cached(&self) -> Vec<Cached> {
        let models = ["tiny-gpt2", "tiny-vit"]
            .map(|name| format!("{}/../../tests/golden/models/{name}", env!("CARGO_MANIFEST_DIR")));
        let mut models: Vec<Cached> =
            models.map(|path| Cached::new(path.clone(), self.checkpoint(&path))).into();
        let why = "mamba is not a family that is known".to_owned();
        models.push(Cached { name: "someone/unknown".to_owned(), kind: Err(why) });
        models
    }
}
