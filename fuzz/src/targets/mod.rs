//! The targets. Each takes any bytes, and must return without a panic.

use crate::Outcome;

mod attention;
mod audio;
mod chat;
mod config;
mod gguf;
mod image;
mod kernels;
mod npy;
mod npz;
mod preprocessor;
mod safetensors;
mod session;
mod text;
mod tokenizer;
mod tokens;

/// A function that takes any bytes. It panics if Regard has an error.
pub type Target = fn(&[u8]) -> Outcome;

/// Every target with its name, which is also that of its folder in `corpus`.
pub const TARGETS: &[(&str, Target)] = &[
    ("attention", attention::fuzz),
    ("audio", audio::fuzz),
    ("chat", chat::fuzz),
    ("config", config::fuzz),
    ("gguf", gguf::fuzz),
    ("image", image::fuzz),
    ("kernels", kernels::fuzz),
    ("npy", npy::fuzz),
    ("npz", npz::fuzz),
    ("preprocessor", preprocessor::fuzz),
    ("safetensors", safetensors::fuzz),
    ("session", session::fuzz),
    ("text", text::fuzz),
    ("tokenizer", tokenizer::fuzz),
    ("tokens", tokens::fuzz),
];
