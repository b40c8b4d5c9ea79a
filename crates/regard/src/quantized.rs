//! Weights in blocks of quantized numbers, as files store them.
//!
//! The blocks stay as they are in memory. A product takes some rows of W at a time and turns them into whole numbers with
//! scales and minima, which stay in the nearest cache. One token or a few are multiplied by those directly. For more tokens they
//! are widened to `f32` once, and packed as panels:
//!
//! ```text
//! for each strip of rows of W:
//!     numbers, scales, minima ← expand(strip)            the file's format alone knows how
//!     few tokens:    y ← x · (numbers·scales − minima)ᵀ   in registers
//!     many tokens:   y ← x · pack(widen(strip))
//! ```

use core::fmt::Debug;
use core::ops::Range;
use std::sync::Arc;

use bytemuck::cast_slice_mut;
use regard_kernels::{
    Mat, MatMut, Packed, QUANTIZED, Quantized, matmul_packed, matmul_packed_add, packed_len,
};

use crate::error::{Error, check_shape};
use crate::slices;
use crate::threads::with_scratch;
use crate::weight::{Panels, Weight};

/// The rows of a matrix \[outputs, inputs\] that is stored in blocks of quantized numbers.
pub trait QuantizedRows: Debug + Send + Sync {
    /// Writes some rows as whole numbers n, and for each 16 of them a scale s and a minimum m: an element is n·s − m.
    /// `minima` is empty if the format [has none](Self::has_minima).
    fn expand(
        &self,
        rows: Range<usize>,
        numbers: &mut [i8],
        scales: &mut [f32],
        minima: &mut [f32],
    );

    /// Whether minima other than 0 occur.
    fn has_minima(&self) -> bool;

    /// The bytes that the blocks take in memory.
    fn bytes(&self) -> usize;
}

/// W \[inputs, outputs\], whose columns are the rows of `rows`.
#[derive(Debug)]
pub(crate) struct Blocks<R> {
    rows: R,
    inputs: usize,
    outputs: usize,
}

/// Rows of W that are expanded at a time: their numbers stay in a first-level cache.
const FEW_STRIP: usize = 16;
/// Rows of W that are widened at a time: they stay in a second-level cache.
const STRIP: usize = 64;

impl<R: QuantizedRows> Blocks<R> {
    pub(crate) fn new(rows: R, inputs: usize, outputs: usize) -> Result<Self, Error> {
        let whole = inputs / QUANTIZED * QUANTIZED;
        check_shape("the quantized weight", &[outputs, inputs], &[outputs, whole], "blocks of 16")?;
        Ok(Self { rows, inputs, outputs })
    }

    /// The elements of `f32` memory that so many rows take in [`expanded`](Self::expanded).
    fn memory(&self, rows: usize) -> usize {
        let scales = self.inputs / QUANTIZED;
        rows * (self.inputs / size_of::<f32>() + scales * (1 + usize::from(self.rows.has_minima())))
    }

    /// Some rows, expanded into `memory`, and the rest of it.
    fn expanded<'m>(
        &self,
        rows: Range<usize>,
        memory: &'m mut [f32],
    ) -> Result<(Quantized<'m>, &'m mut [f32]), Error> {
        let count = rows.len();
        let scales = count * (self.inputs / QUANTIZED);
        let (numbers, rest) = slices::split(memory, count * self.inputs / size_of::<f32>());
        let (scales, rest) = slices::split(rest, scales);
        let (minima, rest) =
            slices::split(rest, if self.rows.has_minima() { scales.len() } else { 0 });
        let numbers: &mut [i8] = cast_slice_mut(numbers);
        self.rows.expand(rows, numbers, scales, minima);
        Ok((Quantized::new(numbers, scales, minima, count, self.inputs)?, rest))
    }

    /// Calls `each` with the numbers of every strip of these columns, and the number of its first column.
    fn for_each_strip(
        &self,
        columns: Range<usize>,
        mut each: impl FnMut(usize, Mat<'_>, &mut [f32]) -> Result<(), Error>,
        more: usize,
    ) -> Result<(), Error> {
        let strip = STRIP.min(columns.len());
        let len = self.memory(strip) + strip * self.inputs + more;
        with_scratch(len, |scratch| {
            for first in columns.clone().step_by(STRIP) {
                let rows = first..columns.end.min(first + STRIP);
                let count = rows.len();
                let (strip, rest) = self.expanded(rows, scratch)?;
                let (wide, rest) = slices::split(rest, count * self.inputs);
                strip.widen(MatMut::new(wide, count, self.inputs)?)?;
                each(first - columns.start, Mat::new(wide, count, self.inputs)?, rest)?;
            }
            Ok(())
        })
    }
}

impl<R: QuantizedRows> Weight for Blocks<R> {
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
        with_scratch(self.memory(FEW_STRIP) + FEW * FEW_STRIP, |scratch| {
            for first in columns.clone().step_by(FEW_STRIP) {
                let strip = first..columns.end.min(first + FEW_STRIP);
                let at = first - columns.start;
                let len = strip.len();
                let (strip, rest) = self.expanded(strip, scratch)?;
                let (product, _) = slices::split(rest, rows * len);
                strip.multiply(x, MatMut::new(product, rows, len)?)?;
                for (out, product) in out.chunks_exact_mut(count).zip(product.chunks_exact(len)) {
                    for (y, product) in out[at..].iter_mut().zip(product) {
                        *y = if add { *y + product } else { *product };
                    }
                }
            }
            Ok(())
        })
    }

    fn column(&self, column: usize, out: &mut [f32]) {
        let copied = self.for_each_strip(
            column..column + 1,
            |_, wide, _| {
                out.copy_from_slice(wide.row(0));
                Ok(())
            },
            0,
        );
        debug_assert!(copied.is_ok(), "a row widens: {copied:?}");
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
        self.rows.bytes()
    }
}
