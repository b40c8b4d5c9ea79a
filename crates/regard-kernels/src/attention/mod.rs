//! Scaled dot-product attention: the door to the fused kernel.
//!
//! - [`describe`]: what a user composes, [`Attention`].
//! - [`resolve`]: what follows from a description for the tensors of one call, worked out once: the
//!   checks, the factor of the softmax, the bounds of the mask and the parts of the scratch memory.
//! - [`drive`]: how a call runs: whole, in chunks of keys, or in registers ([`small`]).
//! - [`scratch`]: how much memory that takes, and how it is divided.

mod describe;
mod drive;
mod resolve;
mod scratch;
mod small;

pub use self::describe::{Attention, Stage};
pub use self::scratch::{attention_bytes, attention_scratch_len};
pub(crate) use self::scratch::{scalar_scratch_len, tensor_elements};
