#![doc = include_str!("../README.md")]
#![no_std]
#![deny(unsafe_code)] // `arch` alone allows it, block by block

#[cfg(any(test, feature = "std"))]
extern crate std;

mod activation;
mod arch;
mod attention;
mod dot;
mod elementwise;
mod error;
mod exp;
pub mod fixed;
mod gemm;
pub mod guide;
pub mod int8;
mod invariant;
mod layer_norm;
pub mod microcontroller;
pub mod naive;
mod peak;
mod rotary;
mod softmax;
mod temperature;
mod view;
mod words;

pub use self::activation::{gelu, gelu_tanh, relu, silu, tanh};
pub use self::arch::{Number, Tier, numbers, prefer_large_pages, with_default_environment};
pub use self::attention::{
    Attention, CHUNK_KEYS, Mask, Partial, Position, Stage, TILE_KEYS, Window, attention_bytes,
    attention_scratch_len, merge_finished,
};
pub use self::dot::{cosine_similarity, dot, norm};
pub use self::elementwise::{add, add_row, multiply};
pub use self::error::Error;
pub use self::exp::exp;
pub use self::gemm::{
    Half, PANEL_COLUMNS, Packed, PackedHalf, Quantization, Quantized, Store, matmul, matmul_packed,
    matmul_packed_half, matmul_transposed, pack_panel, pack_row, packed_column, packed_len,
    quantized_scratch_len,
};
pub use self::layer_norm::{layer_norm, rms_norm};
pub use self::rotary::{Pairing, rotate};
pub use self::softmax::{softmax, softmax_rows, softmax_with_log_sum_exp};
pub use self::temperature::Temperature;
pub use self::view::{Mat, MatMut};
pub use self::words::UnknownWord;

/// For the benches, tests and firmware of this repository. These items are no part of the API, and may change in every version.
#[doc(hidden)]
pub mod internal {
    pub use crate::arch::{f32_from_f16, with_other_environment};
    pub use crate::peak::{multiply_add_rounds, read_all};
}
