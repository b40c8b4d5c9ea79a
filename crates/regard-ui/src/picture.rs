//! Files that are written while the window goes on; and the window's picture, as a PNG.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use anyhow::Context as _;
use egui::{ColorImage, Context};

use regard_figure::encode_png;
use regard_figure::whole_file;

/// What was asked for, and what came of it.
pub struct Pending {
    sender: Sender<anyhow::Result<String>>,
    done: Receiver<anyhow::Result<String>>,
    at_work: Vec<JoinHandle<()>>,
}

impl Default for Pending {
    fn default() -> Self {
        let (sender, done) = channel();
        Self { sender, done, at_work: Vec::new() }
    }
}

impl Pending {
    /// Writes the next frame to a file, once it is drawn.
    pub fn ask(&self, ctx: &Context, path: PathBuf) {
        let (sender, wake) = (self.sender.clone(), ctx.clone());
        ctx.request_screenshot(move |image| {
            let written = write(&image, &path).map(|()| format!("Saved {}", path.display()));
            // Nobody to tell: the window is gone.
            drop(sender.send(written));
            wake.request_repaint();
        });
    }

    /// Does some work in a thread of its own, and tells what came of it.
    pub fn run(
        &mut self,
        ctx: &Context,
        work: impl FnOnce() -> anyhow::Result<String> + Send + 'static,
    ) {
        let (sender, wake) = (self.sender.clone(), ctx.clone());
        let started = std::thread::Builder::new().name("file".to_owned()).spawn(move || {
            drop(sender.send(work()));
            wake.request_repaint();
        });
        self.at_work.retain(|thread| !thread.is_finished());
        match started {
            Ok(thread) => self.at_work.push(thread),
            Err(e) => drop(
                self.sender.send(Err(anyhow::Error::from(e).context("no thread could be started"))),
            ),
        }
    }

    /// Whether a thread is at work.
    pub fn is_busy(&self) -> bool {
        self.at_work.iter().any(|thread| !thread.is_finished())
    }

    /// Waits until every file is written.
    pub fn finish(&mut self) {
        for thread in self.at_work.drain(..) {
            // One that panicked has said so.
            drop(thread.join());
        }
    }

    /// What came of the last one.
    pub fn take(&self) -> Option<anyhow::Result<String>> {
        self.done.try_recv().ok()
    }
}

/// Writes an image as a PNG.
///
/// # Errors
/// Says which file cannot be written.
pub fn write(image: &ColorImage, path: &Path) -> anyhow::Result<()> {
    let pixels: Vec<u8> =
        image.pixels.iter().flat_map(egui::Color32::to_srgba_unmultiplied).collect();
    let bytes = encode_png(png::ColorType::Rgba, image.size, &pixels, &[])
        .context("cannot make a PNG of the window")?;
    whole_file::write(path, &bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use egui::Color32;

    use super::*;

    #[test]
    fn what_is_begun_is_ended_before_the_window_closes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("slow");
        let mut pending = Pending::default();
        let theirs = path.clone();
        pending.run(&Context::default(), move || {
            std::thread::sleep(core::time::Duration::from_millis(30));
            std::fs::write(&theirs, "whole")?;
            Ok(String::new())
        });
        pending.finish();
        assert!(path.exists() && !pending.is_busy());
    }

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("window.png");
        let pixels: Vec<Color32> = (0..6).map(|i| Color32::from_rgb(40 * i, 7, 255 - i)).collect();
        write(&ColorImage::new([3, 2], pixels.clone()), &path).unwrap();
        let file = std::io::BufReader::new(std::fs::File::open(&path).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut read = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut read).unwrap();
        assert_eq!((info.width, info.height), (3, 2));
        assert_eq!(read, pixels.iter().flat_map(|c| c.to_array()).collect::<Vec<u8>>());
    }
}
