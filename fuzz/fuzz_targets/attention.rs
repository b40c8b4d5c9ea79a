//! A file of attention in safetensors, with tokens in its metadata.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|file: &[u8]| regard_fuzz::bounded(file.len(), || regard_fuzz::attention(
    "a.safetensors",
    file,
    None
)));
