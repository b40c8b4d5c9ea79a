//! `story` is a transformer of 4 layers that writes short stories about who gives what to whom.
//!
//! The crate holds the files of a Hugging Face folder. A token is a word, so its attention can be
//! read. README.md is the model card: the data, the training, and what the model can and cannot do.
#![no_std]
#![forbid(unsafe_code)]

/// The files of the model, each with its name in a Hugging Face folder.
pub const FILES: [(&str, &[u8]); 3] = [
    ("config.json", include_bytes!("../config.json")),
    ("model.safetensors", include_bytes!("../model.safetensors")),
    ("tokenizer.json", include_bytes!("../tokenizer.json")),
];

/// A text whose next word is an indirect object: the person who gets the thing, "Mia".
///
/// The stories for training never have Mia and Tom together, nor either of them in the park.
pub const TEXT: &str = "Mia and Tom went to the park. Tom had a red ball. Tom gave the ball to";
