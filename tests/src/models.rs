//! The tiny models whose golden numbers transformers computed.

use std::path::{Path, PathBuf};

/// The folders, one for each family and two for t5.
pub const FAMILIES: [&str; 14] = [
    "tiny-bert",
    "tiny-distilbert",
    "tiny-gemma2",
    "tiny-gpt2",
    "tiny-gpt_neox",
    "tiny-llama",
    "tiny-mistral",
    "tiny-phi3",
    "tiny-qwen2",
    "tiny-qwen3",
    "tiny-roberta",
    "tiny-t5",
    "tiny-t5-gated",
    "tiny-vit",
];

/// The path of a folder or a file.
pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/models").join(name)
}
