//! `english` is a transformer of 6 layers that reads any English.
//!
//! The crate holds one GGUF file. README.md is the model card: the data, the training, what each head does, and the limits.
#![no_std]
#![forbid(unsafe_code)]

/// The file of the model, with its name.
#[expect(clippy::large_include_file, reason = "the weights are the crate")]
pub const FILES: [(&str, &[u8]); 1] = [("english.gguf", include_bytes!("../english.gguf"))];

/// A text whose next word is an indirect object: the recipient, "Mary" (after Wang et al. 2022, arXiv 2211.00593).
pub const TEXT: &str = "When Mary and John went to the store, John gave a drink to";
