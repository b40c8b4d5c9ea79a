#![forbid(unsafe_code)]
//! The program `regard`: attention computed before your eyes, in a window.

mod bundled;
pub mod cli;
mod failure;
pub mod host;
mod hub;
mod model_files;
mod opened;
mod say;
mod whole_file;
#[cfg_attr(not(feature = "window"), path = "no_window.rs")]
mod window;
