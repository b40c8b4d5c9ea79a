#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![warn(clippy::must_use_candidate, clippy::return_self_not_must_use)]

mod activation;
#[cfg(feature = "ndarray")]
mod arrays;
mod attention;
mod decoding;
mod element;
mod embedding;
mod error;
mod feed_forward;
mod forward;
mod gradient;
mod kv_cache;
mod linear;
mod mask;
mod multi_head;
mod norm;
mod partial;
mod plan;
mod position;
mod quantized;
mod rotary;
mod rule;
mod softmax_gradient;
mod split;
mod tensor;
mod threads;
mod view;
mod weight;

pub use half;
#[cfg(feature = "ndarray")]
pub use ndarray;
pub use regard_kernels::{
    CHUNK_KEYS, Error as KernelError, Pairing, Position, Quantization, Stage, Temperature,
    UnknownWord, Window,
};

pub use self::activation::Activation;
pub use self::attention::{Attention, alibi_slopes};
pub use self::element::Element;
pub use self::embedding::Embedding;
pub use self::error::Error;
pub use self::feed_forward::{FeedForward, GatedParts};
pub use self::gradient::Gradients;
pub use self::kv_cache::{KvCache, KvCacheShape};
pub use self::linear::Linear;
pub use self::mask::{Mask, MaskElement, MaskTensor};
pub use self::multi_head::{MultiHeadAttention, Projections};
pub use self::norm::Norm;
pub use self::partial::Partial;
pub use self::position::PositionTable;
pub use self::rotary::{Rotary, RotaryFrequencies, RotaryScaling};
pub use self::rule::{Documents, Rule};
pub use self::softmax_gradient::{softmax_backward, softmax_jacobian};
pub use self::tensor::Tensor;
pub use self::threads::Threads;
pub use self::view::{Heads, Sequences};

/// These types can be shared between threads. Otherwise this does not compile.
const _: () = {
    const fn is_shared<T: Send + Sync>() {}
    is_shared::<Attention<'_>>();
    is_shared::<MultiHeadAttention>();
    is_shared::<FeedForward>();
    is_shared::<Embedding>();
    is_shared::<KvCache>();
    is_shared::<Rotary>();
    is_shared::<Tensor<4>>();
    is_shared::<Threads>();
    is_shared::<Error>();
};
