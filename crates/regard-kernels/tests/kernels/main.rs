//! The kernels against their contracts, mostly in `f64`. What needs a process of its own, or runs on machines where the rest does
//! not, is a program of its own: `bits`, `memory` and `tiers`.
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

#[path = "../common/mod.rs"]
mod common;

mod activations;
mod attention;
mod environment;
mod int8;
mod int8_layers;
mod masks;
mod matrices;
mod narrow;
mod norms;
mod partial;
mod refusals;
mod softmax;
mod vectors;
