//! The same decoder in integers alone: weights and activations of 8 bits, sums of 32.
//!
//! ```text
//! x, the residual stream              32 bits, one unit for the model
//! inputs of a product                 8 bits, one scale a tensor, measured when the crate is written
//! weights                             8 bits, a scale a row (an output); sums in 32 bits
//! sum → output                        times (scale of the input · scale of the row / scale of the output), by `multiply`
//! keys and values                     8 bits; attention is that of `regard_kernels::int8`
//! ```
//!
//! Integers round the same way everywhere: the logits have the same bits on every core, with or without an FPU, and on the
//! desktop.

mod activation;
mod decoder;
mod linear;
mod multiplier;
mod norm;

pub use self::activation::{relu, silu};
pub use self::decoder::{Activation, Decoder, Layer, Rotary, State};
pub use self::linear::{Linear, Table};
pub use self::multiplier::{divide_by_power, multiply};
pub use self::norm::Norm;
pub use regard_kernels::int8::{Attention, Scales, attention_scratch_len};

/// x, kept within 8 bits.
fn narrow(x: i32) -> i8 {
    x.clamp(-128, 127) as i8
}
