//! Golden data for the tests of several crates.

#![forbid(unsafe_code)]

pub mod onnx;
