//! A GGUF file: header, metadata, tensors, tokenizer and a forward pass.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| {
    regard_fuzz::bounded(file.len(), || regard_fuzz::model([("model.gguf", file.to_vec())]));
});
