//! `story` is a transformer of 4 layers that writes short stories about who gives what to whom.
//!
//! The crate holds the files of a Hugging Face folder. A token is a word, so its attention is readable. README.md
//! is the model card: the data, the training, and the model's abilities and limits.
#![no_std]
#![forbid(unsafe_code)]

/// The files of the model, each with its name in a Hugging Face folder.
pub const FILES: [(&str, &[u8]); 3] = [
    ("config.json", include_bytes!("../config.json")),
    ("model.safetensors", include_bytes!("../model.safetensors")),
    ("tokenizer.json", include_bytes!("../tokenizer.json")),
];

/// A text whose next word is an indirect object: the recipient, "Mary" (after Wang et al. 2022, arXiv 2211.00593).
///
/// The stories for training never have Mary and John together, nor either of them in the store or with a drink.
pub const TEXT: &str =
    "Mary and John went to the store. John had a cold drink. John gave the drink to";
