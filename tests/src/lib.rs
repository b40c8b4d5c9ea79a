//! What the tests of several crates share: golden data, files of attention made for a test, and bounds of rounding errors.

#![forbid(unsafe_code)]

pub mod attention_files;
pub mod models;
pub mod onnx;
pub mod rounding;

/// The examples of the repository's page.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
