//! Decodes images of PNG and JPEG files.

use std::io::Cursor;

use image::error::{LimitError, LimitErrorKind};
use image::{ColorType, DynamicImage, ImageDecoder as _, ImageError, ImageReader, Limits};

use crate::Error;

/// The red, green and blue bytes of an image, row by row, and its height and width.
///
/// The pixels may take 3 × the file and 64 MiB in memory: a few kilobytes can announce an image of gigabytes.
///
/// # Errors
/// [`Error::Shape`] with the reason, if the bytes are not a PNG or JPEG file, or if the image is larger.
///
/// ```
/// let error = regard_models::read_image(b"GIF89a").unwrap_err();
/// assert!(error.to_string().contains("Gif"), "{error}");
/// ```
pub fn read_image(bytes: &[u8]) -> Result<(Vec<u8>, [usize; 2]), Error> {
    let image = decode(bytes).map_err(|e| Error::Shape(e.to_string()))?;
    let size = [image.height() as usize, image.width() as usize];
    Ok((image.into_raw(), size))
}

fn decode(bytes: &[u8]) -> image::ImageResult<image::RgbImage> {
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
