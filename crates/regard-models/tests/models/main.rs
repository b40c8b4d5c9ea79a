//! Models against transformers and against themselves.
#![expect(clippy::unwrap_used, reason = "a test fails with a panic")]

mod attribution;
mod audio;
mod calibration;
mod chats;
mod classes;
mod common;
mod embed;
mod experts;
mod families;
mod gguf;
mod golden;
mod images;
mod page;
mod places;
mod read;
mod reading;
mod refusals;
mod rope;
mod scores;
mod tokenizers;
