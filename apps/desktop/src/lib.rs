#![forbid(unsafe_code)]
//! The program `regard`: attention computed before your eyes, in a window.

pub mod cli;
pub mod host;
mod whole_file;
mod window;
