//! Quantized weights in blocks, as files store them.
//!
//! The blocks stay quantized in memory. A product decodes a few rows of them at a time into the nearest cache.

use core::ops::Range;

use regard_kernels::{Mat, MatMut, Quantization, Quantized, Store, quantized_scratch_len};

use crate::error::{Error, check_shape};
use crate::threads::Scratch;
use crate::view::check_elements;
use crate::weight::Weight;

/// W \[inputs, outputs\]. A column of W is a row of blocks.
#[derive(Debug)]
pub(crate) struct Blocks {
    bytes: Vec<u8>,
    format: Quantization,
    inputs: usize,
}

impl Blocks {
    pub(crate) fn new(
        bytes: Vec<u8>,
        format: Quantization,
        inputs: usize,
        outputs: usize,
    ) -> Result<Self, Error> {
        let (numbers, size) = format.block();
        let blocks = inputs / numbers;
        let whole = [outputs, blocks * numbers];
        check_shape("the quantized weight", &[outputs, inputs], &whole, "whole blocks")?;
        check_elements("the bytes of the weight", bytes.len(), &[outputs, blocks, size])?;
        Ok(Self { bytes, format, inputs })
    }

    /// A range of the rows of blocks.
    fn rows(&self, rows: Range<usize>) -> Result<Quantized<'_>, Error> {
        let (numbers, size) = self.format.block();
        let row = self.inputs / numbers * size;
        let bytes = &self.bytes[rows.start * row..rows.end * row];
        Ok(Quantized::new(bytes, self.format, rows.len(), self.inputs)?)
    }
}

impl Weight for Blocks {
    fn multiply(
        &self,
        columns: Range<usize>,
        x: Mat<'_>,
        out: &mut [f32],
        stride: usize,
        store: Store,
    ) -> Result<(), Error> {
        let (rows, w) = (x.rows(), self.rows(columns.clone())?);
        let out = MatMut::strided(out, rows, columns.len(), stride)?;
        Ok(w.multiply(x, out, store, &mut Scratch::of(quantized_scratch_len(rows))?)?)
    }

    fn column(&self, column: usize, out: &mut [f32]) {
        let row = self.rows(column..column + 1);
        let widened = row.and_then(|row| Ok(row.widen(MatMut::new(out, 1, self.inputs)?)?));
        debug_assert!(widened.is_ok(), "a row widens: {widened:?}");
    }

    fn bytes(&self) -> usize {
        self.bytes.len()
    }
}
