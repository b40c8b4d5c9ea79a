//! Weights as constants, in the types that may be stored in flash.

use core::fmt::Debug;

use regard_kernels::{
    Error, Half, Mat, MatMut, Packed, PackedHalf, Store, matmul_packed, matmul_packed_half,
    packed_column,
};

/// A weight \[inputs, outputs\] in panels of 16 columns, as [`Packed`] describes them.
pub trait WeightMatrix: Copy + Debug + 'static {
    /// `out` ← xW, or `out` ← `out` + xW. x is \[rows, inputs\], and `out` is \[rows, outputs\].
    ///
    /// # Errors
    /// [`Error::Shape`] if x or `out` has another length.
    fn multiply(&self, x: &[f32], out: &mut [f32], store: Store) -> Result<(), Error>;

    /// Writes column `column` to `out` \[inputs\]. A column of a table of tokens is a token's embedding.
    fn column(&self, column: usize, out: &mut [f32]);

    /// The number of columns. For a table of tokens this is the size of the vocabulary.
    fn columns(&self) -> usize;

    /// The number of rows of an output of this length.
    fn rows_of(&self, out: &[f32]) -> usize {
        out.len().checked_div(self.columns()).unwrap_or(0)
    }
}

/// A [`WeightMatrix`] of `f32`.
#[derive(Clone, Copy, Debug)]
pub struct F32 {
    packed: Packed<'static>,
    panels: &'static [f32],
}

impl F32 {
    /// The matrix with these panels.
    ///
    /// # Panics
    /// If the number of elements is not that of the shape.
    #[must_use]
    pub const fn new(panels: &'static [f32], inputs: usize, outputs: usize) -> Self {
        match Packed::new(panels, inputs, outputs) {
            Ok(packed) => Self { packed, panels },
            Err(_) => panic!("the panels have another number of elements"),
        }
    }
}

impl WeightMatrix for F32 {
    fn multiply(&self, x: &[f32], out: &mut [f32], store: Store) -> Result<(), Error> {
        let (rows, (inputs, outputs)) = (self.rows_of(out), self.packed.shape());
        let (x, out) = (Mat::new(x, rows, inputs)?, MatMut::new(out, rows, outputs)?);
        matmul_packed(x, self.packed, out, store)
    }

    fn column(&self, column: usize, out: &mut [f32]) {
        for (to, from) in
            out.iter_mut().zip(packed_column(self.panels, self.packed.shape().0, column))
        {
            *to = *from;
        }
    }

    fn columns(&self) -> usize {
        self.packed.shape().1
    }
}

/// A [`WeightMatrix`] of bfloat16 numbers, given by their bits. A product widens them in registers, and has the bits of the same
/// numbers in `f32`.
#[derive(Clone, Copy, Debug)]
pub struct Bf16 {
    panels: &'static [u16],
    inputs: usize,
    outputs: usize,
}

impl Bf16 {
    /// The matrix with these panels.
    ///
    /// # Panics
    /// If the number of elements is not that of the shape.
    #[must_use]
    pub const fn new(panels: &'static [u16], inputs: usize, outputs: usize) -> Self {
        let expected = regard_kernels::packed_len(inputs, outputs);
        assert!(panels.len() == expected, "the panels have another number of elements");
        Self { panels, inputs, outputs }
    }
}

impl WeightMatrix for Bf16 {
    fn multiply(&self, x: &[f32], out: &mut [f32], store: Store) -> Result<(), Error> {
        let packed = PackedHalf::new(self.panels, Half::Bf16, self.inputs, self.outputs)?;
        let rows = self.rows_of(out);
        let (x, out) = (Mat::new(x, rows, self.inputs)?, MatMut::new(out, rows, self.outputs)?);
        matmul_packed_half(x, packed, out, store)
    }

    fn column(&self, column: usize, out: &mut [f32]) {
        for (to, from) in out.iter_mut().zip(packed_column(self.panels, self.inputs, column)) {
            *to = f32::from_bits(u32::from(*from) << 16);
        }
    }

    fn columns(&self) -> usize {
        self.outputs
    }
}

/// A linear layer y = xW + b.
#[derive(Clone, Copy, Debug)]
pub struct Linear<W> {
    /// \[inputs, outputs\].
    pub weight: W,
    /// \[outputs\].
    pub bias: Option<&'static [f32]>,
}

impl<W: WeightMatrix> Linear<W> {
    /// `out` ← xW + b. x is \[rows, inputs\], and `out` is \[rows, outputs\].
    pub(crate) fn forward(&self, x: &[f32], out: &mut [f32]) -> Result<(), Error> {
        if let Some(bias) = self.bias {
            for out in out.chunks_exact_mut(bias.len().max(1)) {
                for (out, bias) in out.iter_mut().zip(bias) {
                    *out = *bias;
                }
            }
        }
        self.weight.multiply(x, out, if self.bias.is_some() { Store::Add } else { Store::Set })
    }
}
