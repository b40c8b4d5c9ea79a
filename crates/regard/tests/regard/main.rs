//! Attention and the layers around it: against their formulas in `f64`, against the bits of their parts, and their errors.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod bounded;
mod common;
mod decoding;
mod environment;
mod errors;
mod gradients;
mod heads;
mod layers;
mod multi_head;
#[cfg(feature = "ndarray")]
mod ndarray;
mod partial;
mod rotary;
mod rules;
mod slopes;
mod storage;
mod weights;
