//! The walkthroughs: their numbers, texts and checks, for the examples and for typed inputs.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod arithmetic;
mod common;
mod explain;
mod golden;
mod inputs;
mod lessons;
mod settings;
mod uniform;
