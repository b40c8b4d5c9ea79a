//! Reads an image for a model.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use regard_models::{Checkpoint, Description, ImageProcessor, Input};
use regard_ui::model::decode_image;
use safetensors::SafeTensors;

use super::super::tensors;
use crate::opened;

/// Reads a PNG or JPEG file, or the tensor `pixel_values` [channels, height, width] of a safetensors file, which must be
/// normalized.
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
    let bytes = opened::read(path).with_context(name)?;
    let image = decode_image(&bytes).with_context(name)?;
    let (width, height) = (image.width() as usize, image.height() as usize);
    Ok(processor.read(&image, [height, width])?)
}

fn normalized(path: &Path, description: &Description) -> Result<Input> {
    let bytes = tensors::read(path)?;
    let pixels = tensors::required(&SafeTensors::deserialize(&bytes)?, "pixel_values")?;
    let pixels = tensors::numbers("pixel_values", &pixels)?;
    let shape = description.embedding.patches.map(|p| [p.channels, p.height, p.width]);
    // A batch of one image counts as the image.
    let found = match pixels.shape.as_slice() {
        [1, image @ ..] if image.len() == 3 => image,
        shape => shape,
    };
    ensure!(
        shape.is_none_or(|shape| shape == found),
        "tensor `pixel_values` has the shape {found:?}, but the model reads {:?}",
        shape.unwrap_or_default()
    );
    Ok(Input::image(pixels.data))
}

#[cfg(test)]
mod tests {
    use regard_models::{Checkpoint, Description};
    use regard_tests::attention_files::Folder;
    use regard_tests::models::golden;
    use safetensors::{Dtype, tensor::TensorView};

    use super::normalized;

    #[test]
    fn an_image_of_one_channel_is_no_batch_of_one() {
        let checkpoint = Checkpoint::open(golden("tiny-vit")).unwrap();
        let mut description = Description::of(&checkpoint).unwrap();
        if let Some(patches) = &mut description.embedding.patches {
            patches.channels = 1;
        }
        let folder = Folder::new();
        let file = folder.path("pixels.safetensors");
        for shape in [vec![1, 12, 12], vec![1, 1, 12, 12]] {
            let view = TensorView::new(Dtype::F32, shape, &[0; 4 * 144]).unwrap();
            safetensors::serialize_to_file([("pixel_values", view)], None, &file).unwrap();
            assert_eq!(normalized(&file, &description).unwrap().pixels.len(), 144);
        }
    }
}
