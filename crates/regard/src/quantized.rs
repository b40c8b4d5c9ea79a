//! Weights in blocks of quantized numbers, as files store them.
//!
//! The blocks stay as they are in memory. A product with one token or a few decodes them in registers. For more tokens, a
//! strip of rows of W at a time is widened to `f32` and packed as panels, which stay in a second-level cache:
//!
//! ```text
//! few tokens:    y ← x · Wᵀ
//! many tokens:   for each strip of rows of W:    y ← x · pack(widen(strip))
//! ```

use core::ops::Range;
use std::sync::Arc;

use regard_kernels::{
    Mat, MatMut, Packed, Quantization, Quantized, matmul_packed, matmul_packed_add, packed_len,
};

use crate::error::{Error, check_shape};
use crate::slices;
use crate::threads::with_scratch;
use crate::view::check_elements;
use crate::weight::{Panels, Weight};

/// W \[inputs, outputs\], whose columns are rows of blocks.
#[derive(Debug)]
pub(crate) struct Blocks {
    bytes: Vec<u8>,
    format: Quantization,
    inputs: usize,
    outputs: usize,
}

/// Rows of blocks that are widened at a time.
const STRIP: usize = 64;

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
        Ok(Self { bytes, format, inputs, outputs })
    }

    /// Some rows of blocks.
    fn rows(&self, rows: Range<usize>) -> Result<Quantized<'_>, Error> {
        let (numbers, size) = self.format.block();
        let row = self.inputs / numbers * size;
        let bytes = slices::part(&self.bytes, rows.start * row..rows.end * row);
        Ok(Quantized::new(bytes, self.format, rows.len(), self.inputs)?)
    }

    /// Calls `each` with every strip of these columns in `f32`, the number of its first column, and `more` memory.
    fn for_each_strip(
        &self,
        columns: Range<usize>,
        mut each: impl FnMut(usize, Mat<'_>, &mut [f32]) -> Result<(), Error>,
        more: usize,
    ) -> Result<(), Error> {
        with_scratch(STRIP.min(columns.len()) * self.inputs + more, |scratch| {
            for first in columns.clone().step_by(STRIP) {
                let strip = first..columns.end.min(first + STRIP);
                let count = strip.len();
                let (wide, rest) = slices::split(scratch, count * self.inputs);
                self.rows(strip)?.widen(MatMut::new(wide, count, self.inputs)?)?;
                each(first - columns.start, Mat::new(wide, count, self.inputs)?, rest)?;
            }
            Ok(())
        })
    }
}

impl Weight for Blocks {
    fn multiply(
        &self,
        columns: Range<usize>,
        x: Mat<'_>,
        out: &mut [f32],
        add: bool,
    ) -> Result<(), Error> {
        /// More rows of x are multiplied by weights that are widened once for all of them.
        const FEW: usize = 4;
        let (rows, count) = (x.rows(), columns.len());
        if rows > FEW {
            let packed = packed_len(self.inputs, STRIP);
            let multiply = if add { matmul_packed_add } else { matmul_packed };
            let strip = |first: usize, wide: Mat<'_>, rest: &mut [f32]| {
                let (memory, _) = slices::split(rest, packed_len(self.inputs, wide.rows()));
                let panels = Packed::pack_transposed(wide, memory)?;
                let out = out.get_mut(first..).unwrap_or_default();
                Ok(multiply(x, panels, MatMut::strided(out, rows, wide.rows(), count)?)?)
            };
            return self.for_each_strip(columns, strip, packed);
        }
        let w = self.rows(columns)?;
        if !add {
            return Ok(w.multiply(x, MatMut::new(out, rows, count)?)?);
        }
        with_scratch(rows * count, |product| {
            w.multiply(x, MatMut::new(product, rows, count)?)?;
            out.iter_mut().zip(product).for_each(|(y, product)| *y += *product);
            Ok(())
        })
    }

    fn column(&self, column: usize, out: &mut [f32]) {
        let row = self.rows(column..column + 1);
        let widened = row.and_then(|row| Ok(row.widen(MatMut::new(out, 1, self.inputs)?)?));
        debug_assert!(widened.is_ok(), "a row widens: {widened:?}");
    }

    /// The parts are in `f32`.
    fn columns(&self, columns: &[usize]) -> Result<Arc<dyn Weight>, Error> {
        let mut rows =
            crate::view::zeros("the parts of the weight", &[columns.len(), self.inputs])?;
        for (row, column) in rows.chunks_exact_mut(self.inputs.max(1)).zip(columns) {
            self.column(*column, row);
        }
        Ok(Arc::new(Panels::from_columns(&rows, self.inputs, columns.len())?))
    }

    fn unpack(&self, out: &mut [f32]) -> Result<(), Error> {
        let strip = |first: usize, wide: Mat<'_>, _: &mut [f32]| {
            for r in 0..wide.rows() {
                let column = out.iter_mut().skip(first + r).step_by(self.outputs);
                column.zip(wide.row(r)).for_each(|(to, from)| *to = *from);
            }
            Ok(())
        };
        self.for_each_strip(0..self.outputs, strip, 0)
    }

    fn bytes(&self) -> usize {
        self.bytes.len()
    }
}
