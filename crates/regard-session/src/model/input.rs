//! The input of a model: a text, an image, or a recording; and the decoder's text.

use std::path::Path;
use std::sync::Arc;

use regard_figure::Label;
use regard_heads::readable;
use regard_models::{
    Decoded, Description, Frames, Given, Input, Model, Prepared, ReadAs, read_image, read_wav,
};
use serde::{Deserialize, Serialize};

use super::drawing::{self, Drawing};
use super::open::Loaded;
use super::reads::Reads;
use super::request::Request;
use super::run::Unchanged;
use crate::Host;
use crate::message::Shared;

/// The largest file of an image or of a recording, in bytes.
const LARGEST: u64 = 64 << 20;
/// The maximum number of pixels a side of an image on the screen.
const SIDE: u32 = 768;

/// The pixels of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pixels {
    /// Its height and width.
    pub size: [usize; 2],
    /// The red, green and blue bytes, row by row.
    #[serde(with = "bytes")]
    pub rgb: Vec<u8>,
}

/// Bytes that a binary format writes as they are.
mod bytes {
    use regard_heads::packed::Bytes;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        Bytes(bytes.to_vec()).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        Bytes::deserialize(deserializer).map(|Bytes(bytes)| bytes)
    }
}

/// An input, and its display.
pub struct Displayed {
    pub input: Input,
    /// The tokens, or the class token and the patches of an image.
    pub tokens: Vec<Label>,
    /// The tokens of the decoder, if the model has an encoder and a decoder.
    pub decoder_tokens: Vec<Label>,
    /// The words that become the unknown token, and, if there are any, some that do not.
    pub unknown: [Vec<String>; 2],
    pub picture: Option<Shared<Pixels>>,
}

impl Displayed {
    /// Prepares the input that `opened` reads for a request. `text` is the first text, or the second one. `ids` are its tokens,
    /// if they differ from the tokenizer's. `reader` tells the first image from the second, and `before` is the run before, whose
    /// recording may be the same.
    pub fn new(
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
                let Pixels { rgb, size } = &pixels;
                let prepared = prepare(Given::Image { pixels: rgb, size: *size })?;
                (prepared, Some(Shared(Arc::new(small(pixels)))))
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
) -> Result<(Prepared, Option<Shared<Pixels>>), String> {
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
    Ok((prepared, Some(Shared(Arc::new(picture)))))
}

/// The image of a request: one that is drawn, or that of a file.
fn image_of(
    host: &dyn Host,
    description: &Description,
    request: &Request,
    reader: usize,
) -> Result<Pixels, String> {
    let [first, second] = &request.drawings;
    match (second.as_ref().filter(|_| reader == 1), &request.image, first) {
        (Some(drawing), ..) | (None, None, Some(drawing)) => drawn(drawing),
        (None, Some(path), _) => decoded(host, path),
        (None, None, None) => Err(if drawing::size_for(description).is_some() {
            "Draw an image, or open one (PNG or JPEG)."
        } else {
            "Open an image (PNG or JPEG), or drop one onto the window."
        }
        .to_owned()),
    }
}

/// An image on the screen.
fn small(pixels: Pixels) -> Pixels {
    let [height, width] = pixels.size.map(|side| side as u32);
    if height.max(width) <= SIDE {
        return pixels;
    }
    let Pixels { size, rgb } = pixels;
    let Some(image) = image::RgbImage::from_raw(width, height, rgb) else {
        return Pixels { size, rgb: Vec::new() };
    };
    let [width, height] = fitting(width, height);
    let small = image::imageops::thumbnail(&image, width, height);
    Pixels { size: [height as usize, width as usize], rgb: small.into_raw() }
}

/// A log-mel spectrogram \[bands, frames\] in shades of grey, the lowest band at the bottom.
fn spectrogram(features: &[f32], frames: Frames) -> Pixels {
    let low = features.iter().copied().fold(f32::INFINITY, f32::min);
    let high = features.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let shade = |x: &f32| (255.0 * (x - low) / (high - low).max(f32::MIN_POSITIVE)) as u8;
    let bands = features.chunks_exact(frames.count).rev();
    let rgb = bands.flatten().flat_map(|x| [shade(x); 3]).collect();
    Pixels { size: [frames.bands, frames.count], rgb }
}

fn drawn(drawing: &Drawing) -> Result<Pixels, String> {
    let wrong = "the drawing has another number of pixels than its sides say";
    Ok(Pixels { size: drawing.size().ok_or(wrong)?, rgb: drawing.rgb() })
}

/// The image of a PNG or JPEG file.
fn decoded(host: &dyn Host, path: &Path) -> Result<Pixels, String> {
    let said = |what: &dyn core::fmt::Display| format!("{}: {what}", path.display());
    let bytes = host.read(path, LARGEST).map_err(|e| said(&e))?;
    let (rgb, size) = read_image(&bytes).map_err(|e| said(&e))?;
    Ok(Pixels { size, rgb })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_image_keeps_its_shape() {
        assert_eq!(fitting(1536, 768), [768, 384]);
        assert_eq!(fitting(1000, 3000), [256, 768]);
        assert_eq!(fitting(1, 100_000), [1, 768]);
    }
}
