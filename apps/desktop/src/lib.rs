#![forbid(unsafe_code)]
//! The program `regard`: attention computed before your eyes, in a window.

pub mod cli;
pub mod export;
pub mod heads;
mod npy;
pub mod palette;
pub mod token;
pub mod ui;
mod whole_file;
