//! The tiny models whose golden numbers transformers computed.

use std::path::{Path, PathBuf};

/// The folders, one for each family, two for t5, gpt_oss and falcon, and one with a text model in a model of images.
pub const FAMILIES: [&str; 40] = [
    "tiny-bert",
    "tiny-bloom",
    "tiny-distilbert",
    "tiny-falcon",
    "tiny-falcon-40b",
    "tiny-gemma",
    "tiny-gemma2",
    "tiny-gemma3",
    "tiny-gemma3_text",
    "tiny-gpt2",
    "tiny-gpt_bigcode",
    "tiny-gpt_neo",
    "tiny-gpt_neox",
    "tiny-gpt_oss",
    "tiny-gpt_oss-mxfp4",
    "tiny-gptj",
    "tiny-granite",
    "tiny-llama",
    "tiny-mistral",
    "tiny-mixtral",
    "tiny-modernbert",
    "tiny-mpt",
    "tiny-olmo",
    "tiny-olmo2",
    "tiny-olmo3",
    "tiny-olmoe",
    "tiny-opt",
    "tiny-phi",
    "tiny-phi3",
    "tiny-qwen2",
    "tiny-qwen3",
    "tiny-qwen3_moe",
    "tiny-roberta",
    "tiny-smollm3",
    "tiny-stablelm",
    "tiny-starcoder2",
    "tiny-t5",
    "tiny-t5-gated",
    "tiny-vit",
    "tiny-whisper",
];

/// The path of a folder or a file.
pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/models").join(name)
}
