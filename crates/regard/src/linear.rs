use regard_kernels::{Mat, MatMut, matmul};

use crate::error::{Error, check_shape};
use crate::view::{check_elements, saturating_product, zeros};
use crate::{Sequences, Threads};

/// A linear layer y = xW + b, with W \[inputs, outputs\] (the transpose of what PyTorch stores).
///
/// ```
/// use regard::{Linear, Sequences, Threads};
/// let double_sum = Linear::new(vec![2.0, 2.0], 2, 1)?.with_bias(vec![1.0])?;
/// let y = double_sum.forward(Sequences::new(&[3.0, 4.0], [1, 1, 2])?, &Threads::ONE)?;
/// assert_eq!(y, [15.0]);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    weight: Vec<f32>,
    bias: Option<Vec<f32>>,
    inputs: usize,
    outputs: usize,
}

impl Linear {
    /// A layer without bias. `weight` is \[inputs, outputs\], row-major.
    ///
    /// # Errors
    /// [`Error::Elements`] if `weight` has another number of elements.
    pub fn new(weight: Vec<f32>, inputs: usize, outputs: usize) -> Result<Self, Error> {
        check_elements("the weight", weight.len(), &[inputs, outputs])?;
        Ok(Self { weight, bias: None, inputs, outputs })
    }

    /// The same layer with a bias \[outputs\].
    ///
    /// # Errors
    /// [`Error::Shape`] if `bias` has another length.
    pub fn with_bias(mut self, bias: Vec<f32>) -> Result<Self, Error> {
        check_shape("the bias", &[bias.len()], &[self.outputs], "a number for each output")?;
        self.bias = Some(bias);
        Ok(self)
    }

    /// The number of input features.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// The number of output features.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    pub(crate) fn weight(&self) -> Result<Mat<'_>, Error> {
        Ok(Mat::new(&self.weight, self.inputs, self.outputs)?)
    }

    pub(crate) fn check_input(&self, x: Sequences<'_>) -> Result<(), Error> {
        let [batch, n, features] = x.shape();
        check_shape("the input", &[batch, n, features], &[batch, n, self.inputs], "the layer's inputs")
    }

    /// y \[batch, tokens, outputs\] for x \[batch, tokens, inputs\], in parallel over blocks of tokens.
    ///
    /// # Errors
    /// [`Error::Shape`] if x has another number of features.
    pub fn forward(&self, x: Sequences<'_>, threads: &Threads) -> Result<Vec<f32>, Error> {
        // Enough rows that the weights are read from memory only a few times.
        const BLOCK: usize = 96;
        self.check_input(x)?;
        let (rows, weight) = (x.rows()?, self.weight()?);
        let mut out = zeros("the output of the linear layer", &[rows.rows(), self.outputs])?;
        let blocks = out.chunks_mut(saturating_product(&[BLOCK, self.outputs]).max(1)).enumerate();
        threads.for_each(blocks, saturating_product(&[rows.rows(), self.inputs, self.outputs]), 0, |_, (b, out)| {
            let x = rows.rows_from(b * BLOCK, BLOCK);
            matmul(x, weight, MatMut::new(out, x.rows(), self.outputs)?)?;
            if let Some(bias) = &self.bias {
                for row in out.chunks_exact_mut(self.outputs) {
                    for (y, b) in row.iter_mut().zip(bias) {
                        *y += b;
                    }
                }
            }
            Ok(())
        })?;
        Ok(out)
    }
}
