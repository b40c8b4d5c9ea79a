//! Reads an image or a recording for a model.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use regard_models::{AudioProcessor, Checkpoint, Description, ImageProcessor, Input, read_wav};
use regard_ui::model::decode_image;
use safetensors::SafeTensors;

use super::super::tensors;
use crate::opened;

/// Reads a PNG or JPEG file, or the tensor `pixel_values` [channels, height, width] of a safetensors file, which must be
/// normalized.
pub(super) fn image(
    path: &Path,
    checkpoint: &Checkpoint,
    description: &Description,
) -> Result<Input> {
    let name = || path.display().to_string();
    if is_tensors(path) {
        let patches = description.embedding.patches;
        let shape = patches.map(|p| [p.channels, p.height, p.width]);
        return Ok(Input::image(tensor(path, "pixel_values", shape).with_context(name)?));
    }
    let processor = ImageProcessor::of(checkpoint, description)?;
    let image = decode_image(&bytes(path)?).with_context(name)?;
    let (width, height) = (image.width() as usize, image.height() as usize);
    Ok(processor.read(&image, [height, width])?)
}

/// Reads the file of an image or of a recording: whichever the model reads.
pub(crate) fn image_or_audio(
    path: &Path,
    checkpoint: &Checkpoint,
    description: &Description,
) -> Result<Input> {
    let read = if description.embedding.frames.is_some() { audio } else { image };
    read(path, checkpoint, description)
}

/// Reads a WAV file, or the tensor `input_features` [bands, frames] of a safetensors file: a log-mel spectrogram.
pub(super) fn audio(
    path: &Path,
    checkpoint: &Checkpoint,
    description: &Description,
) -> Result<Input> {
    let name = || path.display().to_string();
    if is_tensors(path) {
        let shape = description.embedding.frames.map(|f| [f.bands, f.count]);
        return Ok(Input::audio(tensor(path, "input_features", shape).with_context(name)?));
    }
    let processor = AudioProcessor::of(checkpoint, description)?;
    let (recording, rate) = read_wav(&bytes(path)?).with_context(name)?;
    processor.read(&recording, rate).with_context(name)
}

fn is_tensors(path: &Path) -> bool {
    path.extension().is_some_and(|kind| kind == "safetensors")
}

fn bytes(path: &Path) -> Result<Vec<u8>> {
    let name = || path.display().to_string();
    let is_file = fs::metadata(path).with_context(name)?.is_file();
    ensure!(is_file, "{} is not a regular file", path.display());
    opened::read(path).with_context(name)
}

/// The numbers of a tensor of this shape, if the model reads one, or of a batch of one.
fn tensor<const N: usize>(
    path: &Path,
    tensor: &str,
    shape: Option<[usize; N]>,
) -> Result<Vec<f32>> {
    let bytes = tensors::read(path)?;
    let numbers = tensors::required(&SafeTensors::deserialize(&bytes)?, tensor)?;
    let numbers = tensors::numbers(tensor, &numbers)?;
    let found = match numbers.shape.as_slice() {
        [1, one @ ..] if one.len() == N => one,
        shape => shape,
    };
    ensure!(
        shape.is_none_or(|shape| shape == found),
        "tensor `{tensor}` has the shape {found:?}, but the model reads {:?}",
        shape.as_ref().map_or(&[][..], |shape| shape)
    );
    Ok(numbers.data)
}

#[cfg(test)]
mod tests {
    use regard_tests::attention_files::{Folder, safetensors};
    use safetensors::Dtype;

    use super::tensor;

    #[test]
    fn an_image_of_one_channel_is_no_batch_of_one() {
        let folder = Folder::new();
        for shape in [vec![1, 12, 12], vec![1, 1, 12, 12]] {
            let pixels = [("pixel_values", Dtype::F32, shape, vec![0; 4 * 144])];
            let file = folder.file("pixels.safetensors", safetensors(&pixels, &[]));
            assert_eq!(tensor(&file, "pixel_values", Some([1, 12, 12])).unwrap().len(), 144);
        }
    }
}
