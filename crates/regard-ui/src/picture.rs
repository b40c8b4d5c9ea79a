//! Files that are written in the background, and the picture of the window as PNG.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, anyhow};
use egui::{ColorImage, Context};
use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder as _};

use crate::Host;
use crate::work::Once;

/// The files that are being written. A result is a message that names the file.
pub(crate) struct Pending {
    host: Arc<dyn Host>,
    files: Vec<Once<String>>,
    /// Pictures of frames that have not been drawn yet.
    pictures: Vec<Once<String>>,
}

impl Pending {
    pub(crate) fn new(host: Arc<dyn Host>) -> Self {
        Self { host, files: Vec::new(), pictures: Vec::new() }
    }

    /// Writes a picture of the next frame to a file.
    pub(crate) fn ask(&mut self, ctx: &Context, path: PathBuf) {
        let (once, doing) = Once::promise(ctx);
        let host = Arc::clone(&self.host);
        ctx.request_screenshot(move |image| {
            let written = write(&*host, &image, &path);
            doing.fulfil(written.map(|()| saved(&path)).map_err(|e| format!("{e:#}")));
        });
        self.pictures.push(once);
    }

    /// Writes the bytes that `encode` returns to a file, in a thread.
    pub(crate) fn run(
        &mut self,
        ctx: &Context,
        path: PathBuf,
        encode: impl FnOnce() -> anyhow::Result<Vec<u8>> + Send + 'static,
    ) {
        let host = Arc::clone(&self.host);
        self.files.push(Once::start(&*self.host, ctx, "file", move |_| {
            let written = encode().and_then(|bytes| {
                host.write(&path, &bytes)
                    .with_context(|| format!("cannot write {}", path.display()))
            });
            written.map(|()| saved(&path)).map_err(|e| format!("{e:#}"))
        }));
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.files.iter().any(Once::is_running)
    }

    /// Waits until every file is written.
    pub(crate) fn finish(&mut self) {
        for once in self.files.drain(..) {
            once.wait();
        }
    }

    /// The result of a file that has been written since the last call.
    pub(crate) fn take(&mut self) -> Option<anyhow::Result<String>> {
        for all in [&mut self.files, &mut self.pictures] {
            let done = all.iter().enumerate().find_map(|(i, once)| Some((i, once.take()?)));
            if let Some((i, done)) = done {
                all.remove(i);
                return Some(done.map_err(|e| anyhow!(e)));
            }
        }
        None
    }
}

fn saved(path: &Path) -> String {
    format!("Saved {}", path.display())
}

/// Writes an image as a PNG.
pub(crate) fn write(host: &dyn Host, image: &ColorImage, path: &Path) -> anyhow::Result<()> {
    let pixels: Vec<u8> =
        image.pixels.iter().flat_map(egui::Color32::to_srgba_unmultiplied).collect();
    let [width, height] = image.size.map(|side| side as u32);
    let mut bytes = Vec::new();
    PngEncoder::new(&mut bytes)
        .write_image(&pixels, width, height, ExtendedColorType::Rgba8)
        .context("cannot make a PNG of the window")?;
    host.write(path, &bytes).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use egui::Color32;

    use super::*;
    use crate::window::TestHost;

    #[test]
    fn files_are_written_before_the_window_closes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("slow");
        let mut pending = Pending::new(Arc::new(TestHost::DEFAULT));
        pending.run(&Context::default(), path.clone(), || {
            std::thread::sleep(core::time::Duration::from_millis(30));
            Ok(b"whole".to_vec())
        });
        pending.finish();
        assert!(path.exists() && !pending.is_busy());
    }

    #[test]
    fn a_picture_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("window.png");
        let pixels: Vec<Color32> = (0..6).map(|i| Color32::from_rgb(40 * i, 7, 255 - i)).collect();
        write(&TestHost::DEFAULT, &ColorImage::new([3, 2], pixels.clone()), &path).unwrap();
        let file = std::io::BufReader::new(std::fs::File::open(&path).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut read = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut read).unwrap();
        assert_eq!((info.width, info.height), (3, 2));
        assert_eq!(read, pixels.iter().flat_map(|c| c.to_array()).collect::<Vec<u8>>());
    }
}
