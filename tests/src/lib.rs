//! What the tests of several crates share: golden data, and files of attention made for a test.

#![forbid(unsafe_code)]

pub mod attention_files;
pub mod onnx;
