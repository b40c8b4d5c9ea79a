//! The same layers in integers alone: weights and activations have 8 bits, and sums have 32.
//!
//! ```text
//! x, the residual stream              32 bits, one unit for the model
//! inputs of a product                 8 bits, one scale for each tensor, measured when the crate is written
//! weights                             8 bits, one scale for each row (an output); sums in 32 bits
//! sum → output                        times (scale of the input · scale of the row / scale of the output), by `requantize`
//! keys and values                     8 bits
//! ```
//!
//! The layers are those of [`regard_kernels::int8`].
//!
//! Integers round the same way everywhere: the logits have the same bits on every core, with or without an FPU, and on the
//! desktop.

mod activation;
mod numbers;

pub use self::activation::{gelu, relu, silu, tanh};
pub use self::numbers::{Activation, Integers, Read, Rotary};
pub use regard_kernels::int8::{
    Attention, Embedding, Linear, Norm, Scales, attention_scratch_len, divide_by_power, narrow,
    quantize, requantize,
};
