//! The walkthroughs: their numbers, texts and checks, for the examples and for typed inputs.

mod arithmetic;
mod common;
mod explain;
mod golden;
mod inputs;
mod lessons;
mod settings;
mod uniform;
