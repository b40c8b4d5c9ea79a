#![forbid(unsafe_code)]
//! The program `regard`: attention computed before your eyes, in a window.

mod bundled;
pub mod cli;
pub mod host;
mod hub;
mod opened;
mod say;
mod whole_file;
#[cfg_attr(not(feature = "window"), path = "no_window.rs")]
mod window;
