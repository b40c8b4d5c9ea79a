#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod attention;
mod error;
mod linear;
mod mask;
mod multi_head;
mod threads;
mod view;

pub use regard_kernels::{Mask, Position, Stage, Temperature, Window};

pub use self::attention::Attention;
pub use self::error::Error;
pub use self::linear::Linear;
pub use self::mask::{MaskTensor, MaskValues};
pub use self::multi_head::MultiHeadAttention;
pub use self::threads::Threads;
pub use self::view::{Heads, Sequences};
