#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod activation;
mod attention;
mod block;
mod decoding;
mod element;
mod error;
mod feed_forward;
mod forward;
mod gradient;
mod kv_cache;
mod layer_gradient;
mod linear;
mod mask;
mod multi_head;
#[cfg(feature = "ndarray")]
mod ndarray;
mod norm;
mod plan;
mod position;
mod softmax_gradient;
mod split;
mod stack;
mod threads;
mod view;

pub use half;
pub use regard_kernels::{Error as KernelError, Pairing, Position, Stage, Temperature, Window};

pub use self::activation::Activation;
pub use self::attention::{Attention, alibi_slopes};
pub use self::block::{DecoderBlock, EncoderBlock};
pub use self::element::Element;
pub use self::error::Error;
pub use self::feed_forward::FeedForward;
pub use self::gradient::Gradients;
pub use self::kv_cache::KvCache;
pub use self::layer_gradient::{LinearGradients, MultiHeadGradients};
pub use self::linear::Linear;
pub use self::mask::{Mask, MaskElement, MaskTensor};
pub use self::multi_head::MultiHeadAttention;
pub use self::norm::Norm;
pub use self::plan::Workspace;
pub use self::position::{PositionTable, Rotary};
pub use self::softmax_gradient::{softmax_backward, softmax_jacobian};
pub use self::stack::{Decoder, Encoder};
pub use self::threads::Threads;
pub use self::view::{Heads, Packed, Sequences};

/// The examples of the repository's page.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
