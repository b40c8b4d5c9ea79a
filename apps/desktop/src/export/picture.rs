use super::{Error, Table};
use crate::palette::Colors;

/// Pixels that a picture of few cells has at least in its longer direction.
const WIDTH: usize = 768;

/// The cells as squares of equally many pixels; a pixel each, where there are many.
pub(super) fn png(table: &Table<'_>, colors: Colors) -> Result<Vec<u8>, Error> {
    let side = (WIDTH / table.rows.len().max(table.cols.len())).max(1);
    let range = format!("{} to {}, {}, {:?}", colors.low, colors.high, colors.map.name(), colors.scale);
    encode(table, colors, side, &[("Title", table.title), ("Description", &range)])
}

/// A pixel a cell.
pub(super) fn pixels(table: &Table<'_>, colors: Colors) -> Result<Vec<u8>, Error> {
    encode(table, colors, 1, &[])
}

fn encode(table: &Table<'_>, colors: Colors, side: usize, texts: &[(&str, &str)]) -> Result<Vec<u8>, Error> {
    let (rows, cols) = (table.rows.len(), table.cols.len());
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, (cols * side) as u32, (rows * side) as u32);
    encoder.set_color(png::ColorType::Rgb);
    for (key, text) in texts {
        encoder.add_itxt_chunk((*key).to_owned(), (*text).to_owned())?;
    }
    let mut image = Vec::with_capacity(rows * cols * side * side * 3);
    for row in table.values.chunks(cols) {
        let line: Vec<u8> = row.iter().flat_map(|x| core::iter::repeat_n(colors.at(*x), side)).flatten().collect();
        (0..side).for_each(|_| image.extend_from_slice(&line));
    }
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&image)?;
    writer.finish()?;
    Ok(bytes)
}
