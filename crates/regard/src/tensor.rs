use core::ops::{Deref, DerefMut};
use std::vec;

use crate::view::zeros;
use crate::{Error, Heads, Sequences};

/// A result with its shape, dense and row-major: what a computation returns, and the next one can borrow.
///
/// It is used like the slice of its numbers.
///
/// ```
/// use regard::{Attention, Heads};
/// let x = Heads::new("x", &[1.0; 6], [1, 1, 3, 2])?;
/// let out = Attention::new().forward(x, x, x)?;
/// assert_eq!(out.shape(), [1, 1, 3, 2]);
/// assert_eq!(out, [1.0; 6]);
/// let again = Attention::new().forward(out.heads(), x, x)?; // the next one borrows it
/// assert_eq!(again.into_vec(), vec![1.0; 6]);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor<const N: usize> {
    data: Vec<f32>,
    shape: [usize; N],
}

impl<const N: usize> Tensor<N> {
    /// Zeros of a shape. `name` is what an error calls the tensor.
    pub(crate) fn zeros(name: &'static str, shape: [usize; N]) -> Result<Self, Error> {
        Ok(Self { data: zeros(name, &shape)?, shape })
    }

    /// Its shape, the last dimension contiguous.
    pub fn shape(&self) -> [usize; N] {
        self.shape
    }

    /// Its numbers, without the shape.
    pub fn into_vec(self) -> Vec<f32> {
        self.data
    }
}

impl Tensor<4> {
    /// The tensor as \[batch, heads, tokens, head_dim\], to be attended to.
    pub fn heads(&self) -> Heads<'_> {
        Heads::dense(&self.data, self.shape)
    }
}

impl Tensor<3> {
    /// The tensor as \[batch, tokens, features\], the input of the next layer.
    pub fn sequences(&self) -> Sequences<'_> {
        Sequences::dense(&self.data, self.shape)
    }
}

impl<const N: usize> Deref for Tensor<N> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.data
    }
}

impl<const N: usize> DerefMut for Tensor<N> {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.data
    }
}

impl<const N: usize> IntoIterator for Tensor<N> {
    type Item = f32;
    type IntoIter = vec::IntoIter<f32>;

    fn into_iter(self) -> Self::IntoIter {
        self.data.into_iter()
    }
}

impl<'a, const N: usize> IntoIterator for &'a Tensor<N> {
    type Item = &'a f32;
    type IntoIter = core::slice::Iter<'a, f32>;

    fn into_iter(self) -> Self::IntoIter {
        self.data.iter()
    }
}

impl<const N: usize> From<Tensor<N>> for Vec<f32> {
    fn from(tensor: Tensor<N>) -> Self {
        tensor.data
    }
}

impl<const N: usize, const M: usize> PartialEq<[f32; M]> for Tensor<N> {
    fn eq(&self, other: &[f32; M]) -> bool {
        self.data == other
    }
}

impl<const N: usize> PartialEq<[f32]> for Tensor<N> {
    fn eq(&self, other: &[f32]) -> bool {
        self.data == other
    }
}

impl<const N: usize> PartialEq<Vec<f32>> for Tensor<N> {
    fn eq(&self, other: &Vec<f32>) -> bool {
        self.data == *other
    }
}
