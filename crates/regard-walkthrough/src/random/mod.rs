//! The random numbers of PyTorch and of NumPy. A learner who types a notebook's seed sees the notebook's matrices.
//!
//! Both libraries turn the integers of a Mersenne twister into normal numbers, each with its own method.

mod cephes;
mod numpy;
mod torch;

pub use self::numpy::NumpyRng;
pub use self::torch::TorchRng;
