//! An image as a model reads it.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use regard_models::{Checkpoint, Description, ImageProcessor, Input};
use regard_ui::model::decode_image;
use safetensors::SafeTensors;

use super::super::tensors;

/// Reads a PNG or JPEG file, or the tensor `pixel_values` [channels, height, width] of a safetensors file, which is normalized
/// already.
pub(super) fn read(
    path: &Path,
    checkpoint: &Checkpoint,
    description: &Description,
) -> Result<Input> {
    let name = || path.display().to_string();
    if path.extension().is_some_and(|kind| kind == "safetensors") {
        return normalized(path, description).with_context(name);
    }
    let processor = ImageProcessor::of(checkpoint, description)?;
    let is_file = fs::metadata(path).with_context(name)?.is_file();
    ensure!(is_file, "{} is not a regular file", path.display());
    let bytes = fs::read(path).with_context(name)?;
    let image = decode_image(&bytes).with_context(name)?;
    let (width, height) = (image.width() as usize, image.height() as usize);
    Ok(processor.read(&image, [height, width])?)
}

fn normalized(path: &Path, description: &Description) -> Result<Input> {
    let bytes = tensors::read(path)?;
    let pixels = tensors::required(&SafeTensors::deserialize(&bytes)?, "pixel_values")?;
    let pixels = tensors::numbers("pixel_values", &pixels)?;
    let shape = description.embedding.patches.map(|p| [p.channels, p.height, p.width]);
    let found = pixels.shape.strip_prefix(&[1]).unwrap_or(&pixels.shape);
    ensure!(
        shape.is_none_or(|shape| shape == found),
        "tensor `pixel_values` has the shape {found:?}, but the model reads {:?}",
        shape.unwrap_or_default()
    );
    Ok(Input::image(pixels.data))
}
