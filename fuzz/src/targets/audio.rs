//! A WAV file, as a model of sound reads it.

use regard_models::{AudioProcessor, read_wav};

const CONFIG: &[u8] = include_bytes!("../../../tests/golden/models/tiny-whisper/config.json");
const WEIGHTS: &[u8] =
    include_bytes!("../../../tests/golden/models/tiny-whisper/model.safetensors");
const PREPROCESSOR: &[u8] =
    include_bytes!("../../../tests/golden/models/tiny-whisper/preprocessor_config.json");

pub(crate) fn fuzz(file: &[u8]) -> crate::Outcome {
    crate::bounded(file.len(), || {
        let (recording, rate) = read_wav(file)?;
        read(PREPROCESSOR, &recording, rate)
    })
}

/// Prepares a recording as preprocessor_config.json says, and runs the model.
pub(super) fn read(preprocessor: &[u8], recording: &[f32], rate: u32) -> crate::Outcome {
    let (checkpoint, model) = crate::prepared(CONFIG, WEIGHTS, preprocessor);
    let processor = AudioProcessor::of(&checkpoint, model.description())?;
    let input = processor.read(recording, rate)?;
    crate::run(&model, &input.decoder(model.description().decoder_start.clone()))
}
