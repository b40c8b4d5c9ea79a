//! The computations of the images, the same on microcontrollers and on the desktop: worked examples and pseudo-random attentions,
//! whose bits are compared, and the kernels' costs.

#![no_std]
#![deny(unsafe_code)] // `stack` alone allows it, to look at memory that belongs to no variable

pub mod cases;
pub mod costs;
mod hash;
#[cfg(target_os = "none")]
pub mod image;
mod int8_cases;
mod line;
mod memory;
mod numbers;
#[cfg(target_os = "none")]
pub mod stack;
mod subnormal_cases;

pub use self::hash::{Bits, FIRST_TOKEN, hash};
pub use self::line::{LineNumbers, WriteLine};
pub use self::memory::MEMORY;
#[cfg(target_os = "none")]
pub use self::memory::statics::memory;
