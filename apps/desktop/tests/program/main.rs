//! What the program reads and writes: models, exported files, hostile files, downloads; and what Ctrl-C leaves.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(unix)]
mod attacks;
#[path = "../common/mod.rs"]
mod common;
mod download;
mod export;
#[cfg(unix)]
mod interrupt;
#[cfg(unix)] // the commands are those of a shell
mod microcontroller;
mod models;
