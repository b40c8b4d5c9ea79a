//! tokenizer.json of a small model.

const CONFIG: &[u8] = include_bytes!("../../../tests/golden/models/tiny-gpt2/config.json");
const WEIGHTS: &[u8] = include_bytes!("../../../tests/golden/models/tiny-gpt2/model.safetensors");

pub(crate) fn fuzz(tokenizer: &[u8]) {
    crate::bounded(tokenizer.len() + WEIGHTS.len(), || {
        crate::model([
            ("config.json", CONFIG.to_vec()),
            ("model.safetensors", WEIGHTS.to_vec()),
            ("tokenizer.json", tokenizer.to_vec()),
        ]);
    });
}
