#![doc = include_str!("../README.md")]
#![no_std]
#![deny(unsafe_code)] // `simd` alone allows it, block by block

#[cfg(test)]
extern crate std;

mod attention;
mod dot;
mod error;
mod exp;
pub mod fixed;
mod fused;
pub mod guide;
pub mod int8;
mod mask;
mod matmul;
pub mod naive;
mod partial;
mod scores;
mod simd;
mod small;
mod softmax;
mod temperature;
mod view;

pub use self::attention::{Attention, Stage, attention_bytes, attention_scratch_len};
pub use self::dot::{cosine_similarity, dot, norm};
pub use self::error::Error;
pub use self::exp::exp;
pub use self::mask::{Mask, Position, Window};
pub use self::matmul::{matmul, matmul_transposed};
pub use self::partial::{CHUNK_KEYS, Partial, merge};
pub use self::simd::{Tier, multiply_add_rounds};
pub use self::softmax::{softmax, softmax_with_log_sum_exp};
pub use self::temperature::Temperature;
pub use self::view::{Mat, MatMut};
