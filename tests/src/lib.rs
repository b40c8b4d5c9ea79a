//! Code that tests of several crates share: golden data, generated files of attention, and bounds of rounding errors.

#![forbid(unsafe_code)]

pub mod attention_files;
pub mod models;
pub mod onnx;
pub mod rounding;
pub mod tensor;

/// The examples of the book's chapter on Rust.
#[cfg(doctest)]
#[doc = include_str!("../../docs/rust.md")]
struct Rust;
