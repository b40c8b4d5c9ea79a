#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

#[cfg(feature = "attend")]
pub mod attend;
mod header;

pub use self::header::{Budget, Header, HeaderError, shards};
pub use safetensors; // its types are in signatures
