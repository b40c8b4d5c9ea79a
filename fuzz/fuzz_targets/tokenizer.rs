//! tokenizer.json of a small model.
#![no_main]

use libfuzzer_sys::fuzz_target;

const CONFIG: &[u8] = include_bytes!("../../tests/golden/models/tiny-gpt2/config.json");
const WEIGHTS: &[u8] = include_bytes!("../../tests/golden/models/tiny-gpt2/model.safetensors");

fuzz_target!(|tokenizer: &[u8]| {
    regard_fuzz::bounded(tokenizer.len() + WEIGHTS.len(), || {
        regard_fuzz::model([
            ("config.json", CONFIG.to_vec()),
            ("model.safetensors", WEIGHTS.to_vec()),
            ("tokenizer.json", tokenizer.to_vec()),
        ]);
    });
});
