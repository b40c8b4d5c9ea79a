use crate::view::zeros;
use crate::{Error, Heads, Sequences};

/// The result of a computation, with its shape, dense and row-major. The next computation can borrow it.
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
    /// Zeros of a shape. `name` is the tensor's name in errors.
    pub(crate) fn zeros(name: &'static str, shape: [usize; N]) -> Result<Self, Error> {
        Ok(Self { data: zeros(name, &shape)?, shape })
    }

    /// The shape. The elements of the last dimension are contiguous.
    #[must_use]
    pub fn shape(&self) -> [usize; N] {
        self.shape
    }

    /// The numbers.
    #[must_use]
    pub fn as_slice(&self) -> &[f32] {
        &self.data
    }

    /// The numbers, mutable.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [f32] {
        &mut self.data
    }

    /// The numbers, without the shape.
    #[must_use]
    pub fn into_vec(self) -> Vec<f32> {
        self.data
    }
}

impl Tensor<4> {
    /// The tensor as \[batch, heads, tokens, head_dim\], the input of an attention.
    #[must_use]
    pub fn heads(&self) -> Heads<'_> {
        Heads::dense(&self.data, self.shape)
    }

    /// The tensor as \[batch, tokens, heads · head_dim\]. The heads of each token lie side by side, as the projection after an
    /// attention needs them. This is the inverse of [`Heads::split`].
    ///
    /// # Errors
    /// [`Error::Memory`] if there is no memory for the copy.
    pub fn join(&self) -> Result<Tensor<3>, Error> {
        let [batch, heads, tokens, d] = self.shape;
        let mut out = Tensor::zeros("the joined heads", [batch, tokens, heads.saturating_mul(d)])?;
        self.heads().join_rows(0, &mut out.data);
        Ok(out)
    }
}

impl Tensor<3> {
    /// The tensor as \[batch, tokens, features\], the input of the next layer.
    #[must_use]
    pub fn sequences(&self) -> Sequences<'_> {
        Sequences::dense(&self.data, self.shape)
    }
}

impl<const N: usize> AsRef<[f32]> for Tensor<N> {
    fn as_ref(&self) -> &[f32] {
        &self.data
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
