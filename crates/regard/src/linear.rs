use regard_kernels::{Mat, MatMut, Packed, add_row, matmul_packed, matmul_packed_add, packed_len};

use crate::error::{Error, check_shape};
use crate::view::{check_elements, saturating_product, zeros};
use crate::{Sequences, Threads};

/// A linear layer y = xW + b.
///
/// W is laid out for the matrix product when the layer is made, and kept in that layout alone.
///
/// ```
/// use regard::{Linear, Sequences};
/// let double_sum = Linear::new(vec![2.0, 2.0], 2, 1)?.with_bias(vec![1.0])?;
/// let y = double_sum.forward(Sequences::new("x", &[3.0, 4.0], [1, 1, 2])?)?;
/// assert_eq!(y, [15.0]);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    weight: Aligned,
    bias: Option<Vec<f32>>,
    inputs: usize,
    outputs: usize,
}

impl Linear {
    /// A layer without bias. `weight` is \[inputs, outputs\], row-major: the transpose of what PyTorch stores.
    ///
    /// # Errors
    /// [`Error::Elements`] if `weight` has another number of elements.
    pub fn new(weight: impl AsRef<[f32]>, inputs: usize, outputs: usize) -> Result<Self, Error> {
        let weight = weight.as_ref();
        check_elements("the weight", weight.len(), &[inputs, outputs])?;
        Self::packed(inputs, outputs, |memory| {
            Packed::pack(Mat::new(weight, inputs, outputs)?, memory)
        })
    }

    /// A layer without bias, from `weight` \[outputs, inputs\], row-major: as PyTorch stores it.
    ///
    /// # Errors
    /// [`Error::Elements`] if `weight` has another number of elements.
    ///
    /// ```
    /// use regard::{Linear, Sequences};
    /// let layer = Linear::from_transposed([1.0, 2.0, 3.0, 4.0], 2, 2)?;
    /// let y = layer.forward(Sequences::new("x", &[1.0, 10.0], [1, 1, 2])?)?;
    /// assert_eq!(y, [21.0, 43.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn from_transposed(
        weight: impl AsRef<[f32]>,
        inputs: usize,
        outputs: usize,
    ) -> Result<Self, Error> {
        let weight = weight.as_ref();
        check_elements("the weight", weight.len(), &[outputs, inputs])?;
        Self::packed(inputs, outputs, |memory| {
            Packed::pack_transposed(Mat::new(weight, outputs, inputs)?, memory)
        })
    }

    fn packed(
        inputs: usize,
        outputs: usize,
        pack: impl FnOnce(&mut [f32]) -> Result<Packed<'_>, regard_kernels::Error>,
    ) -> Result<Self, Error> {
        let mut weight = Aligned::zeros(packed_len(inputs, outputs))?;
        pack(weight.as_mut_slice())?;
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

    /// y \[batch, tokens, outputs\] for x \[batch, tokens, inputs\], in parallel over blocks of tokens.
    ///
    /// # Errors
    /// [`Error::Shape`] if x has another number of features.
    pub fn forward(&self, x: Sequences<'_>) -> Result<Vec<f32>, Error> {
        let mut out = zeros("the output of the linear layer", &self.check("the input", x)?)?;
        self.forward_into(x, &mut out, |_, _| Ok(()))?;
        Ok(out)
    }

    /// [`forward`](Self::forward) into `out`, and `then` for each block of rows of it, with the number of its first row.
    pub(crate) fn forward_into(
        &self,
        x: Sequences<'_>,
        out: &mut [f32],
        then: impl Fn(usize, &mut [f32]) -> Result<(), Error> + Sync,
    ) -> Result<(), Error> {
        let rows = x.rows()?;
        let work = self.multiply_adds(rows.rows());
        Threads::current().for_each_rows(
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

    /// The shape of the output for x, if that fits. `name` is what errors call x.
    pub(crate) fn check(&self, name: &'static str, x: Sequences<'_>) -> Result<[usize; 3], Error> {
        let [batch, n, features] = x.shape();
        check_shape(name, &[batch, n, features], &[batch, n, self.inputs], "the layer's inputs")?;
        Ok([batch, n, self.outputs])
    }

    /// `out` ← xW + b, for rows that fit.
    pub(crate) fn rows(&self, x: Mat<'_>, out: &mut [f32]) -> Result<(), Error> {
        if let Some(bias) = &self.bias {
            for row in out.chunks_exact_mut(self.outputs.max(1)) {
                row.copy_from_slice(bias);
            }
            return Ok(matmul_packed_add(
                x,
                self.weight()?,
                MatMut::new(out, x.rows(), self.outputs)?,
            )?);
        }
        Ok(matmul_packed(x, self.weight()?, MatMut::new(out, x.rows(), self.outputs)?)?)
    }

    /// `out` ← `out` + xW + b, for rows that fit.
    pub(crate) fn add_rows(&self, x: Mat<'_>, out: &mut [f32]) -> Result<(), Error> {
        if let Some(bias) = &self.bias {
            add_row(MatMut::new(out, x.rows(), self.outputs)?, bias)?;
        }
        Ok(matmul_packed_add(x, self.weight()?, MatMut::new(out, x.rows(), self.outputs)?)?)
    }

    /// The weight \[inputs, outputs\] as it was given.
    pub(crate) fn unpacked(&self) -> Result<Vec<f32>, Error> {
        let mut weight = zeros("the weight", &[self.inputs, self.outputs])?;
        self.weight()?.unpack(MatMut::new(&mut weight, self.inputs, self.outputs)?)?;
        Ok(weight)
    }

    fn weight(&self) -> Result<Packed<'_>, Error> {
        Ok(Packed::new(self.weight.as_slice(), self.inputs, self.outputs)?)
    }

    /// The work of so many rows.
    pub(crate) fn multiply_adds(&self, rows: usize) -> usize {
        saturating_product(&[rows, self.inputs, self.outputs])
    }
}

/// Numbers that begin with a line of the cache: products read them in whole lines.
#[derive(Debug)]
struct Aligned {
    memory: Vec<f32>,
    start: usize,
    len: usize,
}

impl Aligned {
    const LINE: usize = 64;

    fn zeros(len: usize) -> Result<Self, Error> {
        let memory: Vec<f32> =
            zeros("the packed weight", &[len.saturating_add(Self::LINE / size_of::<f32>())])?;
        let start = memory.as_ptr().align_offset(Self::LINE).min(memory.len() - len);
        Ok(Self { memory, start, len })
    }

    fn as_slice(&self) -> &[f32] {
        self.memory.get(self.start..).and_then(|x| x.get(..self.len)).unwrap_or_default()
    }

    fn as_mut_slice(&mut self) -> &mut [f32] {
        self.memory.get_mut(self.start..).and_then(|x| x.get_mut(..self.len)).unwrap_or_default()
    }
}

impl Clone for Aligned {
    /// The copy lies elsewhere, and so its line begins elsewhere; no memory for one is no memory for anything.
    fn clone(&self) -> Self {
        let memory = vec![0.0; self.memory.len()];
        let start = memory.as_ptr().align_offset(Self::LINE).min(memory.len() - self.len);
        let mut copy = Self { memory, start, len: self.len };
        copy.as_mut_slice().copy_from_slice(self.as_slice());
        copy
    }
}

impl PartialEq for Aligned {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}
