//! The weights of a Hugging Face folder: header, offsets, types and shapes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    regard_fuzz::bounded(file.len(), || {
        let config = br#"{"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 8, "vocab_size": 8}"#;
        regard_fuzz::model([
            ("config.json", config.to_vec()),
            ("model.safetensors", file.to_vec()),
        ]);
    });
});
