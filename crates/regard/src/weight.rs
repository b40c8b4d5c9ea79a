//! Weight matrices in the layout that products read, in the type in which they were given.

use core::fmt::Debug;
use core::ops::Range;

use regard_kernels::{
    Mat, MatMut, PANEL_COLUMNS, Packed, PackedHalf, Store, matmul_packed, matmul_packed_half,
    pack_panel, pack_row, packed_column, packed_len,
};

use crate::error::Error;
use crate::threads::Scratch;
use crate::view::{saturating_product, zeros};
use crate::{Element, Threads};

/// A matrix W \[inputs, outputs\] of one of the element types. Layers share it through an [`Arc`]: neither a clone of a layer
/// nor an output head that is tied to an embedding copies a weight.
pub(crate) trait Weight: Debug + Send + Sync {
    /// `out` ← xW, or `out` ← `out` + xW, for a range of the columns of W that begins at a multiple of 16. `out` is
    /// \[rows, columns\], has at least one row, and its rows lie `stride` elements apart. The shapes must fit.
    fn multiply(
        &self,
        columns: Range<usize>,
        x: Mat<'_>,
        out: &mut [f32],
        stride: usize,
        store: Store,
    ) -> Result<(), Error>;

    /// Writes column `column`, which PyTorch stores as a row, to `out` \[inputs\].
    fn column(&self, column: usize, out: &mut [f32]);

    /// The bytes that the matrix takes in memory.
    fn bytes(&self) -> usize;
}

/// `out` ← xW (+ bias), for a range of columns.
///
/// The product is computed in blocks of [`BLOCK_ROWS`] rows and [`BLOCK_COLUMNS`] columns. The bias is written to a block, and each
/// part of a long sum is added to it. Then the block's rows go to `out`. The block stays in a near cache meanwhile, where its rows
/// lie together. The rows of `out` may be far apart, and if their distance is a multiple of 4 KiB, they share a few places of a
/// cache and push each other out.
pub(crate) fn multiply(
    weight: &dyn Weight,
    columns: Range<usize>,
    x: Mat<'_>,
    bias: Option<&[f32]>,
    out: &mut [f32],
) -> Result<(), Error> {
    let (rows, count) = (x.rows(), columns.len());
    // Blocks of equal heights, so that none of them has few rows.
    let height = rows.div_ceil(rows.div_ceil(BLOCK_ROWS).max(1));
    let apart = height > FEW_ROWS && count > BLOCK_COLUMNS;
    let near = &mut *Scratch::of(if apart { height * BLOCK_COLUMNS } else { 0 })?;
    for first in columns.clone().step_by(BLOCK_COLUMNS) {
        let group = first..columns.end.min(first + BLOCK_COLUMNS);
        let (start, width) = (first - columns.start, group.len());
        for row in (0..rows).step_by(height.max(1)) {
            let x = x.rows_from(row, height);
            let out = &mut out[row * count + start..];
            let (block, stride) =
                if apart { (&mut *near, BLOCK_COLUMNS) } else { (&mut *out, count) };
            let store = match bias.and_then(|bias| bias.get(group.clone())) {
                Some(bias) => {
                    let rows = block.chunks_mut(stride).take(x.rows());
                    rows.for_each(|row| row[..width].copy_from_slice(bias));
                    Store::Add
                }
                None => Store::Set,
            };
            weight.multiply(group.clone(), x, block, stride, store)?;
            for (to, from) in out.chunks_mut(count).zip(near.chunks(BLOCK_COLUMNS)).take(x.rows()) {
                to[..width].copy_from_slice(&from[..width]);
            }
        }
    }
    Ok(())
}

/// The columns of a block.
const BLOCK_COLUMNS: usize = 256;
/// The most rows of a block, which is 512 KiB then.
const BLOCK_ROWS: usize = 512;
/// So few rows go to `out` at once: they do not fill the places of the cache that they share.
const FEW_ROWS: usize = 12;

/// W \[inputs, outputs\] in panels of 16 columns, in the layout of [`Packed`]: panel p holds the columns 16p to 16p + 15, one
/// row after another. Columns past the last one are 0.
///
/// Weights in half precision stay in half precision. A product widens a group of panels at a time into the thread's scratch
/// memory. The group stays in a second-level cache while it is multiplied. The bits are those of the same weights in `f32`,
/// because no output element depends on other columns.
#[derive(Debug)]
pub(crate) struct Panels<T> {
    /// The panels, and less than a line of a cache before them.
    memory: Vec<T>,
    /// Where the first panel begins: at a line of a cache, because products read whole lines.
    start: usize,
    inputs: usize,
    outputs: usize,
}

impl<T: Element> Panels<T> {
    /// Packs `weight` \[inputs, outputs\], row-major.
    pub(crate) fn from_rows(weight: &[T], inputs: usize, outputs: usize) -> Result<Self, Error> {
        let mut panels = Self::zeros(inputs, outputs)?;
        for (t, row) in weight.chunks_exact(outputs.max(1)).enumerate() {
            pack_row(row, t, inputs, panels.as_mut_slice());
        }
        Ok(panels)
    }

    /// Packs `weight` \[outputs, inputs\], row-major. Threads share the panels.
    pub(crate) fn from_columns(weight: &[T], inputs: usize, outputs: usize) -> Result<Self, Error> {
        let mut panels = Self::zeros(inputs, outputs)?;
        let size = PANEL_COLUMNS * inputs.max(1);
        let jobs = panels.as_mut_slice().chunks_exact_mut(size).zip(weight.chunks(size));
        Threads::current().for_each(jobs, weight.len(), 0, |_, (panel, columns)| {
            pack_panel(columns, inputs, panel);
            Ok(())
        })?;
        Ok(panels)
    }

    fn zeros(inputs: usize, outputs: usize) -> Result<Self, Error> {
        const LINE: usize = 64;
        let len = packed_len(inputs, outputs);
        let memory: Vec<T> =
            zeros("the packed weight", &[len.saturating_add(LINE / size_of::<T>())])?;
        let start = memory.as_ptr().align_offset(LINE).min(memory.len() - len);
        Ok(Self { memory, start, inputs, outputs })
    }

    fn as_slice(&self) -> &[T] {
        &self.memory[self.start..][..packed_len(self.inputs, self.outputs)]
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        &mut self.memory[self.start..][..packed_len(self.inputs, self.outputs)]
    }

    /// The panels of a range of columns that begins at a multiple of 16.
    fn part(&self, columns: &Range<usize>) -> &[T] {
        let start = columns.start * self.inputs;
        &self.as_slice()[start..][..packed_len(self.inputs, columns.len())]
    }

    /// Calls `each` with groups of panels in `f32`, and with the index of each group's first column within the range.
    fn for_each_group(
        &self,
        columns: Range<usize>,
        mut each: impl FnMut(usize, Packed<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        /// The elements of a group, which take 256 KiB when they are widened.
        const GROUP: usize = 64 * 1024;
        if T::MEMORY == 0 {
            let part = self.part(&columns);
            let (whole, _) = T::widened(Mat::new(part, 1, part.len())?, 0..1, &mut [])?;
            return each(0, Packed::new(whole.row(0), self.inputs, columns.len())?);
        }
        let group = (GROUP / self.inputs.max(1) / PANEL_COLUMNS).max(1) * PANEL_COLUMNS;
        let scratch = &mut Scratch::of(packed_len(self.inputs, group.min(columns.len())))?;
        for first in columns.clone().step_by(group) {
            let panels = first..columns.end.min(first + group);
            let (outputs, panels) = (panels.len(), self.part(&panels));
            let len = panels.len();
            let (wide, _) = T::widened(Mat::new(panels, 1, len)?, 0..1, &mut *scratch)?;
            each(first - columns.start, Packed::new(wide.row(0), self.inputs, outputs)?)?;
        }
        Ok(())
    }
}

impl<T: Element> Weight for Panels<T> {
    fn multiply(
        &self,
        columns: Range<usize>,
        x: Mat<'_>,
        out: &mut [f32],
        stride: usize,
        store: Store,
    ) -> Result<(), Error> {
        /// For more rows of x than this, weights are widened once for all rows.
        const FEW: usize = 4;
        let (rows, count) = (x.rows(), columns.len());
        if let (true, Some((bits, kind))) = (rows <= FEW, T::half(self.part(&columns))) {
            let weight = PackedHalf::new(bits, kind, self.inputs, count)?;
            let out = MatMut::strided(out, rows, count, stride)?;
            return Ok(matmul_packed_half(x, weight, out, store)?);
        }
        self.for_each_group(columns, |first, group| {
            let (_, columns) = group.shape();
            let out = MatMut::strided(&mut out[first..], rows, columns, stride)?;
            Ok(matmul_packed(x, group, out, store)?)
        })
    }

    fn column(&self, column: usize, out: &mut [f32]) {
        for (to, from) in out.iter_mut().zip(packed_column(self.as_slice(), self.inputs, column)) {
            *to = (*from).into();
        }
    }

    fn bytes(&self) -> usize {
        saturating_product(&[self.as_slice().len(), size_of::<T>()])
    }
}
