//! A GGUF file: header, metadata, tensors, tokenizer and a forward pass.

pub(crate) fn fuzz(file: &[u8]) -> crate::Outcome {
    crate::bounded(file.len(), || crate::model([("model.gguf", file.to_vec())], "The cat sat."))
}
