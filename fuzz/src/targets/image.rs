//! A PNG or JPEG file, which is read for a model of images.

use regard_models::ImageProcessor;

const CONFIG: &[u8] = include_bytes!("../../../tests/golden/models/tiny-vit/config.json");
const WEIGHTS: &[u8] = include_bytes!("../../../tests/golden/models/tiny-vit/model.safetensors");

pub(crate) fn fuzz(file: &[u8]) -> crate::Outcome {
    let mut decoded = None;
    crate::bounded(file.len(), || {
        decoded = Some(regard_models::read_image(file)?);
        Ok(())
    })?;
    let Some((pixels, size)) = decoded else { return Ok(()) };
    crate::bounded(pixels.len() + WEIGHTS.len(), || read(b"{}", &pixels, size))
}

/// Prepares an image as preprocessor_config.json describes, and runs the model.
pub(super) fn read(preprocessor: &[u8], pixels: &[u8], size: [usize; 2]) -> crate::Outcome {
    let (checkpoint, model) = crate::prepared(CONFIG, WEIGHTS, preprocessor);
    let processor = ImageProcessor::of(&checkpoint, model.description())?;
    crate::run(&model, &processor.read(pixels, size)?)
}
