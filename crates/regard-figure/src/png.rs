use ::png::{BitDepth, ColorType, Encoder, EncodingError};

use crate::{Error, Palette, Table};

/// The longer side of a picture of few cells, in pixels.
const WIDTH: usize = 768;

/// A picture of the cells as equal squares of pixels. Where there are many cells, each is a pixel.
pub(super) fn png(table: &Table<'_>, palette: Palette) -> Result<Vec<u8>, Error> {
    if palette.is_plain() {
        return Err(Error::Plain(table.name.to_owned()));
    }
    let side = (WIDTH / table.rows.len().max(table.cols.len())).max(1);
    cells(table, palette, side, &[("Title", table.title), ("Description", &palette.to_string())])
}

/// A picture with one pixel a cell.
pub(super) fn pixels(table: &Table<'_>, palette: Palette) -> Result<Vec<u8>, Error> {
    cells(table, palette, 1, &[])
}

fn cells(
    table: &Table<'_>,
    palette: Palette,
    side: usize,
    texts: &[(&str, &str)],
) -> Result<Vec<u8>, Error> {
    let (rows, cols) = (table.rows.len(), table.cols.len());
    let mut image = Vec::with_capacity(rows * cols * side * side * 3);
    for row in table.values.chunks(cols) {
        let line: Vec<u8> = row
            .iter()
            .flat_map(|x| core::iter::repeat_n(palette.rgb(*x), side))
            .flatten()
            .collect();
        (0..side).for_each(|_| image.extend_from_slice(&line));
    }
    Ok(encode(ColorType::Rgb, [cols * side, rows * side], &image, texts)?)
}

/// A PNG of these bytes: `size` pixels wide and high, 8 bits a channel, with these text chunks.
///
/// # Errors
/// If `image` does not have as many bytes as `size` and `color` need.
pub fn encode(
    color: ColorType,
    size: [usize; 2],
    image: &[u8],
    texts: &[(&str, &str)],
) -> Result<Vec<u8>, EncodingError> {
    let mut bytes = Vec::new();
    let [width, height] = size.map(|side| side as u32);
    let mut encoder = Encoder::new(&mut bytes, width, height);
    encoder.set_color(color);
    encoder.set_depth(BitDepth::Eight);
    for (key, text) in texts {
        encoder.add_itxt_chunk((*key).to_owned(), (*text).to_owned())?;
    }
    let mut writer = encoder.write_header()?;
    writer.write_image_data(image)?;
    writer.finish()?;
    Ok(bytes)
}
