use core::array;
use std::sync::Arc;

use regard_kernels::{Mat, Quantization};

use crate::error::{Error, check_shape};
use crate::quantized::Blocks;
use crate::view::{check_elements, saturating_product};
use crate::weight::{Panels, Weight, multiply};
use crate::{Element, Sequences, Tensor, Threads};

/// A linear layer y = xW + b.
///
/// The layer is made with [`from_pytorch`](Self::from_pytorch) from a weight \[outputs, inputs\], which is how PyTorch and
/// almost every file of weights store it, or with [`new`](Self::new) from a weight \[inputs, outputs\]. A square weight fits
/// both, and the wrong one of them raises no error: see [`new`](Self::new).
///
/// The weight is laid out for the matrix product when the layer is made, and is kept in that layout alone, in the type in
/// which it was given: `f32`, `f16` or `bf16`. Products are computed in `f32` (see [`Element`]). Clones of a layer share its
/// weight.
///
/// ```
/// use regard::{Linear, Sequences};
/// let difference = Linear::from_pytorch([2.0, -2.0], 2, 1)?.with_bias(vec![1.0])?;
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
    /// let layer = Linear::from_pytorch([1.0, 2.0, 3.0, 4.0], 2, 2)?;
    /// let y = layer.forward(Sequences::new("x", &[1.0, 10.0], [1, 1, 2])?)?;
    /// assert_eq!(y, [21.0, 43.0]); // 1·1 + 2·10 and 3·1 + 4·10
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[doc(alias = "from_transposed")]
    pub fn from_pytorch<T: Element>(
        weight: impl AsRef<[T]>,
        inputs: usize,
        outputs: usize,
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
    /// let layer = Linear::new([1.0, 2.0, 3.0, 4.0], 2, 2)?;
    /// let y = layer.forward(Sequences::new("x", &[1.0, 10.0], [1, 1, 2])?)?;
    /// assert_eq!(y, [31.0, 42.0]); // 1·1 + 3·10 and 2·1 + 4·10
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn new<T: Element>(
        weight: impl AsRef<[T]>,
        inputs: usize,
        outputs: usize,
    ) -> Result<Self, Error> {
        let weight = weight.as_ref();
        check_elements("the weight", weight.len(), &[inputs, outputs])?;
        Ok(Self::of(Arc::new(Panels::from_rows(weight, inputs, outputs)?), inputs, outputs))
    }

    /// A layer without bias, from `blocks` of quantized numbers, which hold a weight \[outputs, inputs\] row by row. They stay as
    /// they are in memory, and products are computed in `f32`.
    ///
    /// # Errors
    /// [`Error::Shape`] if `inputs` is no multiple of a block's numbers, [`Error::Elements`] if there are not as many bytes as
    /// the blocks have.
    pub fn quantized(
        blocks: Vec<u8>,
        format: Quantization,
        inputs: usize,
        outputs: usize,
    ) -> Result<Self, Error> {
        let weight = Blocks::new(blocks, format, inputs, outputs)?;
        Ok(Self::of(Arc::new(weight), inputs, outputs))
    }

    /// A layer without bias, of a weight \[inputs, outputs\] that others may share.
    pub(crate) fn of(weight: Arc<dyn Weight>, inputs: usize, outputs: usize) -> Self {
        Self { weight, bias: None, inputs, outputs }
    }

    /// The weight, shared.
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

    /// Splits a fused projection into its parts, which lie one after another among the outputs: queries, keys and values as
    /// in GPT-2 and Phi-3, or a gate and an up projection. Each part has its columns of the weight and its part of the bias,
    /// in the same element type.
    ///
    /// # Errors
    /// [`Error::Shape`] if the parts' outputs do not sum to the layer's, [`Error::Memory`] if the parts do not fit in memory.
    ///
    /// ```
    /// use regard::{Linear, Sequences};
    /// let fused = Linear::new([1.0, 2.0, 3.0], 1, 3)?.with_bias(vec![0.1, 0.2, 0.3])?;
    /// let [query, rest] = fused.split([1, 2])?;
    /// let x = Sequences::new("x", &[10.0], [1, 1, 1])?;
    /// assert_eq!(query.forward(x)?, [10.1]);
    /// assert_eq!(rest.forward(x)?, [20.2, 30.3]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn split<const N: usize>(&self, outputs: [usize; N]) -> Result<[Self; N], Error> {
        let sum = outputs.iter().fold(0, |sum: usize, n| sum.saturating_add(*n));
        let why = "the sum of the parts' outputs";
        check_shape("the fused projection's outputs", &[self.outputs], &[sum], why)?;
        let mut first = 0;
        self.parts(|part| {
            let columns = (first..first + outputs[part]).collect();
            first += outputs[part];
            columns
        })
    }

    /// Splits a fused projection whose outputs are interleaved by head, \[heads, N, head_dim\]: the queries, keys and values of
    /// GPT-NeoX, where each head has its own three side by side.
    ///
    /// # Errors
    /// [`Error::Heads`] if the outputs are not `heads` · N parts of equal size, [`Error::Memory`] if the parts do
    /// not fit in memory.
    ///
    /// ```
    /// use regard::{Linear, Sequences};
    /// let fused = Linear::new([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 1, 6)?; // q, k, v of one head, then of another
    /// let [query, key, value] = fused.split_by_head(2)?;
    /// let x = Sequences::new("x", &[10.0], [1, 1, 1])?;
    /// assert_eq!(query.forward(x)?, [10.0, 40.0]);
    /// assert_eq!(key.forward(x)?, [20.0, 50.0]);
    /// assert_eq!(value.forward(x)?, [30.0, 60.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn split_by_head<const N: usize>(&self, heads: usize) -> Result<[Self; N], Error> {
        let parts = heads.saturating_mul(N);
        if parts == 0 || !self.outputs.is_multiple_of(parts) {
            let (of, what) = ("fused", "outputs of the fused projection");
            return Err(Error::Heads { heads: parts, of, what, into: self.outputs });
        }
        let head_dim = self.outputs / parts;
        self.parts(|part| {
            let first = |head: usize| (head * N + part) * head_dim;
            (0..heads).flat_map(|head| first(head)..first(head) + head_dim).collect()
        })
    }

    /// A layer for each part, of its `columns`.
    fn parts<const N: usize>(
        &self,
        mut columns: impl FnMut(usize) -> Vec<usize>,
    ) -> Result<[Self; N], Error> {
        let mut parts = array::from_fn(|_| self.clone());
        for (i, part) in parts.iter_mut().enumerate() {
            let columns = columns(i);
            part.weight = self.weight.columns(&columns)?;
            part.bias = self.bias.as_ref().map(|bias| columns.iter().map(|c| bias[*c]).collect());
            part.outputs = columns.len();
        }
        Ok(parts)
    }

    /// The number of input features.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// The number of output features.
    pub fn outputs(&self) -> usize {
        self.outputs
    }

    /// What is added to each output, \[outputs\], if the layer has a bias.
    pub fn bias(&self) -> Option<&[f32]> {
        self.bias.as_deref()
    }

    /// The bytes of memory that the weight takes. Layers that share a weight give the same bytes.
    pub fn weight_bytes(&self) -> usize {
        self.weight.bytes()
    }

    /// y \[batch, tokens, outputs\] for x \[batch, tokens, inputs\], in parallel over blocks of tokens; few tokens are
    /// divided by output features instead.
    ///
    /// # Errors
    /// [`Error::Shape`] if x has another number of features.
    pub fn forward(&self, x: Sequences<'_>) -> Result<Tensor<3>, Error> {
        let mut out = Tensor::zeros("the output of the linear layer", self.check("the input", x)?)?;
        self.forward_then(x, &mut out, |_, _| Ok(()))?;
        Ok(out)
    }

    /// As [`forward`](Self::forward), into `out` \[batch, tokens, outputs\]. On one thread, a call after the first of its shape
    /// allocates nothing.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and [`Error::Elements`] if `out` has another number of elements.
    ///
    /// ```
    /// use regard::{Linear, Sequences};
    /// let (double, mut y) = (Linear::new([2.0], 1, 1)?, [0.0; 3]);
    /// double.forward_into(Sequences::new("x", &[1.0, 2.0, 3.0], [1, 3, 1])?, &mut y)?;
    /// assert_eq!(y, [2.0, 4.0, 6.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward_into(&self, x: Sequences<'_>, out: &mut [f32]) -> Result<(), Error> {
        check_elements("the output of the linear layer", out.len(), &self.check("the input", x)?)?;
        self.forward_then(x, out, |_, _| Ok(()))
    }

    /// [`forward`](Self::forward) into `out`, and `then` for each block of its rows, with the number of the block's first row.
    pub(crate) fn forward_then(
        &self,
        x: Sequences<'_>,
        out: &mut [f32],
        then: impl Fn(usize, &mut [f32]) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let rows = x.rows()?;
        let work = self.multiply_adds(rows.rows());
        let threads = Threads::current();
        // Weights come from memory, which takes longer than to multiply a few rows by them.
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

    /// The shape of the output for x, if x fits. `name` is what errors call x.
    pub(crate) fn check(&self, name: &'static str, x: Sequences<'_>) -> Result<[usize; 3], Error> {
        let [batch, n, features] = x.shape();
        check_shape(name, &[batch, n, features], &[batch, n, self.inputs], "the layer's inputs")?;
        Ok([batch, n, self.outputs])
    }

    /// `out` ← xW + b, for rows that fit.
    pub(crate) fn rows(&self, x: Mat<'_>, out: &mut [f32]) -> Result<(), Error> {
        multiply(&*self.weight, 0..self.outputs, x, self.bias.as_deref(), out)
    }

    /// The multiply-adds of the product with so many rows.
    pub(crate) fn multiply_adds(&self, rows: usize) -> usize {
        saturating_product(&[rows, self.inputs, self.outputs])
    }
}
