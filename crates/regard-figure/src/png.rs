//! PNG: figures drawn pixel by pixel, and bare cells.

mod draw;
mod letters;

use std::collections::HashMap;

use ::png::{BitDepth, ColorType, Encoder, EncodingError, Filter};

use crate::figure::Figure;
use crate::{Error, Ground, LabelledMatrix};

/// The longer side of a picture of few bare cells, in pixels.
const WIDTH: usize = 768;
/// The pixels per CSS pixel of a figure, unless its cells need more.
const SCALE: f64 = 2.0;
/// The largest figure in pixels: 512 MiB of memory.
const MOST_PIXELS: f64 = 1.7e8;

impl Figure {
    /// The figure as PNG, on white. Text is set in [`fonts::SANS`](crate::fonts::SANS) and DejaVu Sans, which have the alphabets of
    /// Europe and the Middle East and the signs of mathematics. A missing character is an empty box.
    ///
    /// A CSS pixel is 2 × 2 pixels, or more if each cell of a large matrix needs its own.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the picture has more than 170 million pixels, [`Error::Writer`] if it cannot be encoded.
    pub fn png(&self) -> Result<Vec<u8>, Error> {
        let smallest = self.matrices().flat_map(|cells| cells.cell).fold(f64::INFINITY, f64::min);
        let scale = SCALE.max(1.0 / smallest);
        let [width, height] = self.size.map(|side| (side * scale).ceil());
        if width * height > MOST_PIXELS {
            return Err(Error::TooLarge(format!(
                "a picture of {width} × {height} pixels is too large: write it as .svg, or bare"
            )));
        }
        let size = [width as usize, height as usize];
        let image = draw::draw(self, size, scale)?;
        let texts = [("Title", self.title.as_str()), ("Description", &self.note)];
        encode(size, &image, &texts)
    }
}

/// A picture of the cells as equal squares of pixels, without labels or hatch. In a large matrix, each cell is a pixel.
pub(super) fn bare(matrix: &LabelledMatrix) -> Result<Vec<u8>, Error> {
    let palette = matrix.palette.on(Ground::Paper);
    if palette.is_plain() {
        return Err(Error::Plain(matrix.name.clone()));
    }
    let [rows, cols] = matrix.shape();
    let side = (WIDTH / rows.max(cols)).max(1);
    let mut image = Vec::with_capacity(rows * cols * side * side * 3);
    for row in matrix.values.chunks(cols) {
        let line: Vec<u8> = row
            .iter()
            .flat_map(|x| core::iter::repeat_n(palette.rgb(*x), side))
            .flatten()
            .collect();
        (0..side).for_each(|_| image.extend_from_slice(&line));
    }
    let texts = [("Title", matrix.title.as_str()), ("Description", &palette.to_string())];
    encode([cols * side, rows * side], &image, &texts)
}

/// A pixel for each colour. Up to 256 colours have a table, which takes a third of the bytes.
pub(super) fn cells(size: [usize; 2], colors: &[[u8; 3]]) -> Result<Vec<u8>, Error> {
    let (mut table, mut places) = (Vec::new(), HashMap::new());
    let index = |color: &[u8; 3]| {
        let next = places.len();
        let place = *places.entry(*color).or_insert(next);
        if place == next {
            table.extend_from_slice(color);
        }
        u8::try_from(place).ok()
    };
    let Some(indices) = colors.iter().map(index).collect::<Option<Vec<u8>>>() else {
        return encode(size, colors.as_flattened(), &[]);
    };
    let encoded = || -> Result<Vec<u8>, EncodingError> {
        let mut bytes = Vec::new();
        let [width, height] = size.map(|side| side as u32);
        let mut encoder = Encoder::new(&mut bytes, width, height);
        encoder.set_color(ColorType::Indexed);
        encoder.set_depth(BitDepth::Eight);
        encoder.set_palette(table);
        encoder.set_filter(Filter::NoFilter);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&indices)?;
        writer.finish()?;
        Ok(bytes)
    };
    encoded().map_err(Error::writer)
}

/// Red, green and blue bytes as PNG: `size` pixels wide and high, with text chunks.
pub(super) fn encode(
    size: [usize; 2],
    image: &[u8],
    texts: &[(&str, &str)],
) -> Result<Vec<u8>, Error> {
    encoded(size, image, texts).map_err(Error::writer)
}

fn encoded(
    size: [usize; 2],
    image: &[u8],
    texts: &[(&str, &str)],
) -> Result<Vec<u8>, EncodingError> {
    let mut bytes = Vec::new();
    let [width, height] = size.map(|side| side as u32);
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(ColorType::Rgb);
    encoder.set_depth(BitDepth::Eight);
    for (key, text) in texts {
        encoder.add_itxt_chunk((*key).to_owned(), (*text).to_owned())?;
    }
    let mut writer = encoder.write_header()?;
    writer.write_image_data(image)?;
    writer.finish()?;
    Ok(bytes)
}
