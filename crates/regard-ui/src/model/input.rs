//! The input of a model: a text, an image, or a recording; and the decoder's text.

use std::io::Cursor;
use std::path::Path;
use std::sync::Arc;

use egui::ColorImage;
use image::error::{LimitError, LimitErrorKind};
use image::{ColorType, DynamicImage, ImageDecoder as _, ImageError, ImageReader, Limits};
use regard_figure::Label;
use regard_heads::readable;
use regard_models::{
    Decoded, Description, Frames, Given, Input, Model, Prepared, ReadAs, read_wav,
};

use super::open::Loaded;
use super::pad::{self, Drawing};
use super::reads::Reads;
use super::request::Request;
use super::run::Unchanged;
use crate::Host;

/// The largest file of an image or of a recording, in bytes.
const LARGEST: u64 = 64 << 20;
/// The maximum number of pixels a side of an image on the screen.
const SIDE: u32 = 768;

/// An input, and its display.
pub(super) struct Displayed {
    pub(crate) input: Input,
    /// The tokens, or the class token and the patches of an image.
    pub(crate) tokens: Vec<Label>,
    /// The tokens of the decoder, if the model has an encoder and a decoder.
    pub(crate) decoder_tokens: Vec<Label>,
    /// The words that become the unknown token, and, if there are any, some that do not.
    pub(crate) unknown: [Vec<String>; 2],
    pub(crate) picture: Option<Arc<ColorImage>>,
}

impl Displayed {
    /// Prepares the input that `opened` reads for a request. `text` is the first text, or the second one. `ids` are its tokens,
    /// if they differ from the tokenizer's. `reader` tells the first image from the second, and `before` is the run before, whose
    /// recording may be the same.
    pub(crate) fn new(
        host: &dyn Host,
        opened: &Loaded,
        request: &Request,
        (reader, before): (usize, Option<&Unchanged>),
        text: &str,
        ids: Option<&[u32]>,
    ) -> Result<Self, String> {
        let model = &opened.model;
        let reads = Reads::of(model.description());
        let decoder = || match &request.decoder_ids {
            Some(ids) => Decoded::Ids(ids.clone()),
            None => Decoded::Text(request.decoder.clone()),
        };
        let read_as = ReadAs { decoder: reads.decodes().then(decoder), ..ReadAs::default() };
        let prepare = |given: Given<'_>| {
            opened.preparer.prepare(model, given, &read_as).map_err(|e| e.to_string())
        };
        let (prepared, picture) = match reads {
            Reads::Text | Reads::TextAndDecoder => {
                (prepare(ids.map_or(Given::Text(text), Given::Ids))?, None)
            }
            Reads::Recording => recording(host, model.description(), request, before, prepare)?,
            Reads::Image => {
                let pixels = image_of(host, model.description(), request, reader)?;
                let size = [pixels.height() as usize, pixels.width() as usize];
                let prepared = prepare(Given::Image { pixels: &pixels, size })?;
                (prepared, Some(Arc::new(small(pixels))))
            }
        };
        if !reads.is_file() && prepared.input.ids.is_empty() {
            return Err("Type a text for the model to read.".to_owned());
        }
        let Prepared { input, tokens, decoder_tokens, unknown } = prepared;
        let known = if unknown.is_empty() { Vec::new() } else { known(model) };
        let plain = |name: &String| Label::plain(name.trim_start_matches("patch "));
        let tokens =
            if reads.is_file() { tokens.iter().map(plain).collect() } else { readable(tokens) };
        let decoder_tokens = readable(decoder_tokens);
        Ok(Self { input, tokens, decoder_tokens, unknown: [unknown, known], picture })
    }
}

/// The recording of a request, and the picture of its spectrogram. While the decoder's text changes, the file is not read again.
fn recording(
    host: &dyn Host,
    description: &Description,
    request: &Request,
    before: Option<&Unchanged>,
    prepare: impl Fn(Given<'_>) -> Result<Prepared, String>,
) -> Result<(Prepared, Option<Arc<ColorImage>>), String> {
    let frames = description.embedding.frames.ok_or("the model reads no recording")?;
    if let Some(run) = before.filter(|run| run.image.is_some() && run.image == request.image) {
        let (shape, data) = (&[frames.bands, frames.count], &run.input.features);
        return Ok((prepare(Given::Numbers { shape, data })?, run.picture.clone()));
    }
    let path = request.image.as_deref();
    let path = path.ok_or("Open a recording (WAV), or drop one onto the window.")?;
    let said = |what: &dyn core::fmt::Display| format!("{}: {what}", path.display());
    let bytes = host.read(path, LARGEST).map_err(|e| said(&e))?;
    let (samples, rate) = read_wav(&bytes).map_err(|e| said(&e))?;
    let prepared = prepare(Given::Sound { samples: &samples, rate }).map_err(|e| said(&e))?;
    let picture = spectrogram(&prepared.input.features, frames);
    Ok((prepared, Some(Arc::new(picture))))
}

/// The image of a request: one that is drawn, or that of a file.
fn image_of(
    host: &dyn Host,
    description: &Description,
    request: &Request,
    reader: usize,
) -> Result<image::RgbImage, String> {
    let [first, second] = &request.drawings;
    match (second.as_ref().filter(|_| reader == 1), &request.image, first) {
        (Some(drawing), ..) | (None, None, Some(drawing)) => drawn(drawing),
        (None, Some(path), _) => decoded(host, path),
        (None, None, None) => Err(if pad::size_for(description).is_some() {
            "Draw an image, or open one (PNG or JPEG)."
        } else {
            "Open an image (PNG or JPEG), or drop one onto the window."
        }
        .to_owned()),
    }
}

/// An image on the screen.
fn small(pixels: image::RgbImage) -> ColorImage {
    let small = if pixels.width().max(pixels.height()) > SIDE {
        let [width, height] = fitting(pixels.width(), pixels.height());
        image::imageops::thumbnail(&pixels, width, height)
    } else {
        pixels
    };
    ColorImage::from_rgb([small.width() as usize, small.height() as usize], small.as_raw())
}

/// A log-mel spectrogram \[bands, frames\] in shades of grey, the lowest band at the bottom.
fn spectrogram(features: &[f32], frames: Frames) -> ColorImage {
    let low = features.iter().copied().fold(f32::INFINITY, f32::min);
    let high = features.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shade = |x: &f32| (255.0 * (x - low) / (high - low).max(f32::MIN_POSITIVE)) as u8;
    let bands = features.chunks_exact(frames.count).rev();
    ColorImage::from_gray(
        [frames.count, frames.bands],
        &bands.flatten().map(shade).collect::<Vec<_>>(),
    )
}

fn drawn(drawing: &Drawing) -> Result<image::RgbImage, String> {
    let wrong = "the drawing has another number of pixels than its sides say";
    let [height, width] = drawing.size().ok_or(wrong)?.map(u32::try_from);
    let sides = height.ok().zip(width.ok());
    let image =
        sides.and_then(|(height, width)| image::RgbImage::from_raw(width, height, drawing.rgb()));
    image.ok_or_else(|| wrong.to_owned())
}

/// The red, green and blue bytes of a PNG or JPEG file.
fn decoded(host: &dyn Host, path: &Path) -> Result<image::RgbImage, String> {
    let said = |what: &dyn core::fmt::Display| format!("{}: {what}", path.display());
    let bytes = host.read(path, LARGEST).map_err(|e| said(&e))?;
    decode(&bytes).map_err(|e| said(&e))
}

/// The red, green and blue bytes of an image. Its pixels may take 3 × the file and 64 MiB in memory: a few kilobytes can
/// announce an image of gigabytes.
///
/// # Errors
/// If the bytes are not a PNG or JPEG file, or if the image is larger.
pub fn decode(bytes: &[u8]) -> image::ImageResult<image::RgbImage> {
    let reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format()?;
    let mut decoder = reader.into_decoder()?;
    let color = decoder.color_type();
    let copied = if color == ColorType::Rgb8 { 0 } else { 3 };
    let (width, height) = decoder.dimensions();
    let held = if comes_in_scans(bytes) { 8 } else { 0 };
    let pixel = u64::from(color.bytes_per_pixel()) + copied + held;
    let needed = (u64::from(width) * u64::from(height)).saturating_mul(pixel);
    let most = (bytes.len() as u64).saturating_mul(3).saturating_add(64 << 20);
    if needed > most {
        return Err(ImageError::Limits(LimitError::from_kind(LimitErrorKind::DimensionError)));
    }
    let mut limits = Limits::default();
    limits.max_alloc = Some(most);
    decoder.set_limits(limits)?;
    Ok(DynamicImage::from_decoder(decoder)?.into_rgb8())
}

/// Whether a JPEG file has several scans, as a progressive one has. Until the last scan the decoder holds the coefficients of the
/// whole image: 2 bytes for each of at most 4 components of a pixel.
fn comes_in_scans(bytes: &[u8]) -> bool {
    let (mut at, mut components) = (2, None);
    if !bytes.starts_with(&[0xFF, 0xD8]) {
        return false;
    }
    while let Some([0xFF, marker, high, low]) = bytes.get(at..at + 4) {
        match marker {
            0xC0 | 0xC1 => components = bytes.get(at + 9), // a frame that may have one scan
            0x00 | 0x01 | 0xD0..=0xD9 | 0xFF => return true, // no length follows, and no encoder writes these before a scan
            0xDA => return components.is_none() || components != bytes.get(at + 4),
            _ => {}
        }
        at += 2 + usize::from(u16::from_be_bytes([*high, *low]));
    }
    true
}

/// A size of the same shape, at most [`SIDE`] pixels wide and high.
fn fitting(width: u32, height: u32) -> [u32; 2] {
    let scale = f64::from(SIDE) / f64::from(width.max(height));
    [width, height].map(|side| ((f64::from(side) * scale) as u32).max(1))
}

/// A few words of a small vocabulary, spread over all of it.
fn known(model: &Model) -> Vec<String> {
    const SMALL: usize = 4096;
    const WORDS: usize = 12;
    let ids: Vec<u32> = (0..model.description().vocabulary.min(SMALL) as u32).collect();
    let is_word = |text: &String| text.len() > 2 && text.chars().all(char::is_alphabetic);
    let texts = readable(model.names(&ids)).into_iter().map(|label| label.text);
    let words: Vec<String> = texts.filter(is_word).collect();
    let stride = (words.len() / WORDS).max(1);
    words.into_iter().step_by(stride).take(WORDS).collect()
}

/// The rows and columns of an image's patches.
pub(super) fn grid(description: &Description) -> [usize; 2] {
    description.embedding.patches.map_or([0, 0], |patches| patches.grid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_tells_how_many_scans_it_has() {
        let frame = |kind: u8| [0xFF, kind, 0, 17, 8, 0, 7, 0, 9, 3, 1, 17, 0, 2, 17, 1, 3, 17, 1];
        let scan = |components: u8| [0xFF, 0xDA, 0, 12, components];
        let file = |kind: u8, components: u8| {
            [&[0xFF, 0xD8][..], &frame(kind), &scan(components)].concat()
        };
        assert!(
            !comes_in_scans(&file(0xC0, 3)),
            "all of a baseline frame's components in one scan"
        );
        assert!(comes_in_scans(&file(0xC0, 1)), "one component after the other");
        assert!(comes_in_scans(&file(0xC2, 3)), "progressive");
        let filled = [&[0xFF, 0xD8, 0xFF][..], &file(0xC0, 3)[2..]].concat();
        assert!(comes_in_scans(&filled), "what a byte before a marker hides");
        assert!(!comes_in_scans(b"\x89PNG\r\n\x1a\n"));
    }

    #[test]
    fn a_large_image_keeps_its_shape() {
        assert_eq!(fitting(1536, 768), [768, 384]);
        assert_eq!(fitting(1000, 3000), [256, 768]);
        assert_eq!(fitting(1, 100_000), [1, 768]);
    }
}
