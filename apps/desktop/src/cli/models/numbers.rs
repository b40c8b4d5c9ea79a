//! Reads an image or a recording for a model.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use regard_models::{Error, Given, read_image, read_wav};

use super::super::tensors;
use crate::opened;

/// Prepares the image of a PNG or JPEG file, or the tensor `pixel_values` [channels, height, width] of a safetensors file, which
/// must be normalized.
pub(crate) fn image<T>(
    path: &Path,
    prepare: impl FnOnce(Given<'_>) -> Result<T, Error>,
) -> Result<T> {
    let name = || path.display().to_string();
    if is_tensors(path) {
        return tensor(path, "pixel_values", prepare).with_context(name);
    }
    let (pixels, size) = read_image(&bytes(path)?).with_context(name)?;
    Ok(prepare(Given::Image { pixels: &pixels, size })?)
}

/// Prepares the recording of a WAV file, or the tensor `input_features` [bands, frames] of a safetensors file: a log-mel
/// spectrogram.
pub(super) fn audio<T>(
    path: &Path,
    prepare: impl FnOnce(Given<'_>) -> Result<T, Error>,
) -> Result<T> {
    let name = || path.display().to_string();
    if is_tensors(path) {
        return tensor(path, "input_features", prepare).with_context(name);
    }
    let (samples, rate) = read_wav(&bytes(path)?).with_context(name)?;
    prepare(Given::Sound { samples: &samples, rate }).with_context(name)
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

/// Prepares the numbers of a tensor.
fn tensor<T>(
    path: &Path,
    tensor: &str,
    prepare: impl FnOnce(Given<'_>) -> Result<T, Error>,
) -> Result<T> {
    let file = tensors::TensorsOfFile::read(path)?;
    let view = tensors::required(&file, tensor)?;
    let tensors::Tensor { shape, data, .. } = tensors::numbers(tensor, &view)?;
    prepare(Given::Numbers { shape: &shape, data: &data })
        .with_context(|| format!("tensor `{tensor}`"))
}

#[cfg(test)]
mod tests {
    use regard_models::{Model, Preparer, ReadAs};
    use regard_tests::attention_files::{Folder, safetensors};
    use safetensors::Dtype;

    use super::image;

    #[test]
    fn an_image_of_one_channel_is_no_batch_of_one() {
        let checkpoint = crate::bundled::checkpoint("digits".as_ref()).unwrap().unwrap();
        let model = Model::load(&checkpoint).unwrap();
        let preparer = Preparer::of(&checkpoint, model.description());
        let folder = Folder::new();
        let read = |shape: &[usize]| {
            let pixels = [("pixel_values", Dtype::F32, shape.to_vec(), vec![0; 4 * 64])];
            let file = folder.file("pixels.safetensors", safetensors(&pixels, &[]));
            image(&file, |given| preparer.prepare(&model, given, &ReadAs::default()))
        };
        for shape in [&[1, 8, 8][..], &[1, 1, 8, 8]] {
            assert_eq!(read(shape).unwrap().input.pixels.len(), 64);
        }
        let said = format!("{:#}", read(&[8, 8]).unwrap_err());
        assert!(said.ends_with("numbers of the shape [1, 8, 8], not [8, 8]"), "{said}");
    }
}
