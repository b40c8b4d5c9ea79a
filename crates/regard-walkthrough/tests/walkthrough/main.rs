//! The walkthroughs: their numbers, texts and checks, for the examples and for what a learner types.

mod arithmetic;
mod common;
mod explain;
mod golden;
mod inputs;
mod lessons;
mod settings;
mod uniform;
