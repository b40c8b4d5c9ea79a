//! The random numbers of PyTorch and of NumPy, so that a learner who types a notebook's seed sees its matrices.
//!
//! Both turn a Mersenne twister's integers into normal numbers, each in its own way.

mod cephes;
mod numpy;
mod torch;

pub use self::numpy::NumpyRng;
pub use self::torch::TorchRng;
