use std::sync::Arc;

use regard_kernels::{Mat, Quantization};

use crate::error::{Error, check_shape};
use crate::quantized::Blocks;
use crate::view::{check_elements, saturating_product};
use crate::weight::{Panels, Weight, multiply};
use crate::{Element, Sequences, Tensor, Threads};

/// A linear layer y = xW + b.
///
/// A weight comes with its shape in the order of the memory, so the shape in a file can be passed as it is:
///
/// | the weight in memory | here | elsewhere |
/// |---|---|---|
/// | \[outputs, inputs\] | [`from_pytorch`](Self::from_pytorch), [`quantized`](Self::quantized) | PyTorch's `nn.Linear` \[out_features, in_features\], candle's `Linear` \[out_dim, in_dim\], GGUF |
/// | \[inputs, outputs\] | [`from_conv1d`](Self::from_conv1d) | GPT-2's `Conv1D` \[nx, nf\], the `kernel` of Flax and Keras |
///
/// The shape alone does not tell which of the two a weight is. If they are confused, the first tensor that is passed to the
/// layer has the wrong number of features. For a square weight there is no error.
///
/// The weight is packed for the matrix product when the layer is made. It is kept in that layout alone, in the type in which it
/// was given: `f32`, `f16` or `bf16`. Products are computed in `f32` (see [`Element`]). Clones of a layer share its weight.
///
/// ```
/// use regard::{Linear, Sequences};
/// let difference = Linear::from_pytorch([2.0, -2.0], [1, 2])?.with_bias(vec![1.0])?;
/// let y = difference.forward(Sequences::new("x", &[3.0, 4.0], [1, 1, 2])?)?;
/// assert_eq!(y, [-1.0]);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Linear {
    weight: Arc<dyn Weight>,
    bias: Option<Arc<[f32]>>,
    inputs: usize,
    outputs: usize,
}

impl Linear {
    /// A layer without bias, from `weight` \[outputs, inputs\], row-major: as PyTorch's `nn.Linear` stores it.
    ///
    /// # Errors
    /// [`Error::Elements`] if `weight` has another number of elements, [`Error::Memory`] if the copy of it does not fit in memory.
    ///
    /// ```
    /// use regard::{Linear, Sequences};
    /// let layer = Linear::from_pytorch([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [3, 2])?;
    /// let y = layer.forward(Sequences::new("x", &[1.0, 10.0], [1, 1, 2])?)?;
    /// assert_eq!(y, [21.0, 43.0, 65.0]); // 1·1 + 2·10, 3·1 + 4·10 and 5·1 + 6·10
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[doc(alias = "from_transposed")]
    pub fn from_pytorch<T: Element>(
        weight: impl AsRef<[T]>,
        [outputs, inputs]: [usize; 2],
    ) -> Result<Self, Error> {
        let weight = weight.as_ref();
        check_elements("the weight", weight.len(), &[outputs, inputs])?;
        Ok(Self::of(Arc::new(Panels::from_columns(weight, inputs, outputs)?), inputs, outputs))
    }

    /// A layer without bias, from `weight` \[inputs, outputs\], row-major: the order of the formula xW, and of GPT-2's
    /// `Conv1D`. Most files have the transpose of it, which [`from_pytorch`](Self::from_pytorch) takes.
    ///
    /// # Errors
    /// As [`from_pytorch`](Self::from_pytorch).
    ///
    /// ```
    /// use regard::{Linear, Sequences};
    /// let layer = Linear::from_conv1d([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
    /// let y = layer.forward(Sequences::new("x", &[1.0, 10.0], [1, 1, 2])?)?;
    /// assert_eq!(y, [41.0, 52.0, 63.0]); // 1·1 + 4·10, 2·1 + 5·10 and 3·1 + 6·10
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn from_conv1d<T: Element>(
        weight: impl AsRef<[T]>,
        [inputs, outputs]: [usize; 2],
    ) -> Result<Self, Error> {
        let weight = weight.as_ref();
        check_elements("the weight", weight.len(), &[inputs, outputs])?;
        Ok(Self::of(Arc::new(Panels::from_rows(weight, inputs, outputs)?), inputs, outputs))
    }

    /// A layer without bias, from `blocks` of quantized numbers, which hold a weight \[outputs, inputs\] row by row. The blocks
    /// stay quantized in memory, and products are computed in `f32`.
    ///
    /// # Errors
    /// [`Error::Shape`] if `inputs` is not a multiple of a block's numbers, [`Error::Elements`] if there is another number of
    /// bytes than the blocks need.
    pub fn quantized(
        blocks: Vec<u8>,
        format: Quantization,
        [outputs, inputs]: [usize; 2],
    ) -> Result<Self, Error> {
        let weight = Blocks::new(blocks, format, inputs, outputs)?;
        Ok(Self::of(Arc::new(weight), inputs, outputs))
    }

    /// A layer without bias, from a weight \[inputs, outputs\] that others may share.
    pub(crate) fn of(weight: Arc<dyn Weight>, inputs: usize, outputs: usize) -> Self {
        Self { weight, bias: None, inputs, outputs }
    }

    /// The weight, which others may share.
    pub(crate) fn weight(&self) -> Arc<dyn Weight> {
        Arc::clone(&self.weight)
    }

    /// The same layer with a bias \[outputs\].
    ///
    /// # Errors
    /// [`Error::Shape`] if `bias` has another length.
    pub fn with_bias(mut self, bias: Vec<f32>) -> Result<Self, Error> {
        check_shape("the bias", &[bias.len()], &[self.outputs], "a number for each output")?;
        self.bias = Some(bias.into());
        Ok(self)
    }

    /// The number of input features.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// The number of output features.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// The bias \[outputs\], if the layer has one.
    #[must_use]
    pub fn bias(&self) -> Option<&[f32]> {
        self.bias.as_deref()
    }

    /// The bytes of memory that the weight takes. Layers that share a weight each report all of its bytes.
    #[must_use]
    pub fn weight_bytes(&self) -> usize {
        self.weight.bytes()
    }

    /// y \[batch, tokens, outputs\] for x \[batch, tokens, inputs\]. Threads divide blocks of tokens, or the output features if
    /// there are few tokens.
    ///
    /// # Errors
    /// [`Error::Shape`] if x has another number of features.
    pub fn forward(&self, x: Sequences<'_>) -> Result<Tensor<3>, Error> {
        let mut out = Tensor::zeros("the output of the linear layer", self.check("the input", x)?)?;
        self.forward_then(x, out.as_mut_slice(), |_, _| Ok(()))?;
        Ok(out)
    }

    /// [`forward`](Self::forward) into `out` \[batch · tokens · outputs\], whatever it holds.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and [`Error::Elements`] if `out` has another number of elements.
    ///
    /// ```
    /// use regard::{Linear, Sequences};
    /// let double = Linear::from_pytorch([2.0], [1, 1])?;
    /// let mut y = [0.0; 2];
    /// double.forward_into(Sequences::new("x", &[3.0, 4.0], [1, 2, 1])?, &mut y)?;
    /// assert_eq!(y, [6.0, 8.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward_into(&self, x: Sequences<'_>, out: &mut [f32]) -> Result<(), Error> {
        let shape = self.check("the input", x)?;
        check_elements("the output of the linear layer", out.len(), &shape)?;
        self.forward_then(x, out, |_, _| Ok(()))
    }

    /// [`forward_into`](Self::forward_into) for shapes that fit. When a block of rows is done, it calls `then` with the number
    /// of the block's first row and the block.
    pub(crate) fn forward_then(
        &self,
        x: Sequences<'_>,
        out: &mut [f32],
        then: impl Fn(usize, &mut [f32]) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let rows = x.rows()?;
        let work = self.multiply_adds(rows.rows());
        let threads = Threads::current();
        // Reading the weights from memory takes longer than multiplying a few rows by them.
        let reading = self.multiply_adds(rows.rows().max(16));
        if rows.rows() <= Threads::ROWS && threads.helpers(reading) > 0 {
            threads.for_each_columns(out, rows.rows(), reading, |columns, out| {
                multiply(&*self.weight, columns, rows, self.bias.as_deref(), out)
            })?;
            return then(0, out);
        }
        threads.for_each_rows(
            out,
            self.outputs,
            Threads::ROWS,
            work,
            |_| 0,
            |_, first, out| {
                self.rows(rows.rows_from(first, out.len() / self.outputs), out)?;
                then(first, out)
            },
        )
    }

    /// The shape of the output for x, if x fits. `name` is the name of x in errors.
    pub(crate) fn check(&self, name: &'static str, x: Sequences<'_>) -> Result<[usize; 3], Error> {
        let [batch, n, features] = x.shape();
        check_shape(name, &[batch, n, features], &[batch, n, self.inputs], "the layer's inputs")?;
        Ok([batch, n, self.outputs])
    }

    /// `out` ← xW + b, for rows that fit.
    pub(crate) fn rows(&self, x: Mat<'_>, out: &mut [f32]) -> Result<(), Error> {
        multiply(&*self.weight, 0..self.outputs, x, self.bias.as_deref(), out)
    }

    /// The multiply-adds of a product with `rows` rows.
    pub(crate) fn multiply_adds(&self, rows: usize) -> usize {
        saturating_product(&[rows, self.inputs, self.outputs])
    }
}
