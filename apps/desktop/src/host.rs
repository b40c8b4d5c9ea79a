//! The system around the window: its threads, files and dialogs.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use directories::ProjectDirs;
use regard_heads::Stream;
use regard_models::Checkpoint;
#[cfg(feature = "window")]
use regard_session::host::{BOOK, Chosen, FileDialog};
use regard_session::host::{Cached, Host, Work};

use crate::{hub, model_files, opened, whole_file};

/// The host of a window on this machine.
pub struct Native;

impl Host for Native {
    fn spawn(&self, name: &str, work: Work) -> io::Result<()> {
        thread::Builder::new().name(name.to_owned()).spawn(work).map(drop)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Stream>> {
        opened::stream(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        whole_file::write(path, bytes)
    }

    /// Also finds models in the local Hugging Face cache. Refuses a model for which memory has no room.
    fn checkpoint(&self, name: &str) -> Result<Checkpoint, String> {
        let opened = model_files::checkpoint(Path::new(name), false).and_then(|checkpoint| {
            model_files::allow("the weights take", checkpoint.bytes())?;
            Ok(checkpoint)
        });
        opened.map_err(|failure| format!("{:#}", failure.error))
    }

    fn cached(&self) -> Vec<Cached> {
        let names = hub::Cache::of_environment().map(|cache| cache.names()).unwrap_or_default();
        let cached = |name: String| {
            let opened = model_files::checkpoint(Path::new(&name), false);
            let opened = opened.map_err(|failure| format!("{:#}", failure.error));
            Cached::new(name, opened)
        };
        names.into_iter().map(cached).collect()
    }

    #[cfg(feature = "window")]
    fn open_book(&self) -> io::Result<()> {
        ::open::that_detached(BOOK)
    }

    fn session_file(&self) -> Option<PathBuf> {
        Some(ProjectDirs::from("", "", "regard")?.data_local_dir().join("last.regard.json"))
    }

    /// The dialog answers from a thread, so the window keeps running.
    #[cfg(feature = "window")]
    fn browse(&self, dialog: FileDialog<'_>, chosen: Chosen) {
        let FileDialog { heading, extensions, opens, path, name } = dialog;
        let mut dialog =
            rfd::AsyncFileDialog::new().set_title(heading).add_filter(heading, extensions);
        if let Some(folder) = path.parent().filter(|folder| folder.is_dir()) {
            dialog = dialog.set_directory(folder);
        }
        let answer =
            |file: Option<rfd::FileHandle>| chosen(file.map(|file| file.path().to_owned()));
        // macOS requires that this thread makes dialogs. Another thread waits for them.
        let spawned = if opens {
            let dialog = dialog.pick_file();
            self.spawn("dialog", Box::new(move || answer(pollster::block_on(dialog))))
        } else {
            let name = path.file_name().map_or_else(|| name.into(), |name| name.to_string_lossy());
            let dialog = dialog.set_file_name(name).save_file();
            self.spawn("dialog", Box::new(move || answer(pollster::block_on(dialog))))
        };
        // If no thread starts, the answer is dropped, which counts as no choice.
        drop(spawned);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_model_is_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let message = Native.checkpoint(folder.path().to_str().unwrap()).unwrap_err();
        assert!(message.contains("config.json"), "{message}");
        assert_eq!(message.matches("os error").count(), 1, "{message}");
    }

    #[test]
    fn a_file_that_is_too_large_is_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large");
        Native.write(&path, &[7; 100]).unwrap();
        assert_eq!(Native.read(&path, 100).unwrap(), [7; 100]);
        assert!(Native.read(&path, 99).unwrap_err().to_string().contains("more than 99 bytes"));
    }
}
