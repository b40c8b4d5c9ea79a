//! The weights of a Hugging Face folder: header, offsets, types and shapes.

pub(crate) fn fuzz(file: &[u8]) -> crate::Outcome {
    crate::bounded(file.len(), || {
        let config = br#"{"model_type": "gpt2", "n_embd": 8, "n_head": 2, "n_layer": 1, "n_positions": 8, "vocab_size": 8}"#;
        crate::model([("config.json", config.to_vec()), ("model.safetensors", file.to_vec())], "")
    })
}
