//! Matrix products with a matrix that is packed once and used often, such as weights.

use super::{BlockSizes, Store, check_product, multiply, sum_steps};
use crate::arch::{
    Epilogue, Kernel, LANES, Panel, Panels, Simd, dispatch, pack_columns, pack_transposed,
};
use crate::error::{Error, check_len, check_shape};
use crate::invariant::Promised as _;
use crate::{Mat, MatMut};

/// The elements that a `rows` × `cols` matrix takes as [`Packed`]. Its columns are padded to a multiple of 16.
///
/// ```
/// assert_eq!(regard_kernels::packed_len(384, 1536), 384 * 1536);
/// assert_eq!(regard_kernels::packed_len(3, 17), 3 * 32);
/// ```
#[must_use]
pub const fn packed_len(rows: usize, cols: usize) -> usize {
    cols.div_ceil(LANES).saturating_mul(LANES).saturating_mul(rows)
}

/// The columns of a panel, in the layout of [`Packed`] and [`PackedHalf`](crate::PackedHalf).
pub const PANEL_COLUMNS: usize = LANES;

/// Column `column` of a matrix of `rows` rows that is packed, from its first element to its last, in any type of elements. It is
/// empty if there is no such column.
///
/// ```
/// use regard_kernels::{Mat, Packed, packed_column, packed_len};
/// let mut memory = [0.0; packed_len(2, 3)];
/// Packed::pack(Mat::from(&[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), &mut memory)?;
/// assert!(packed_column(&memory, 2, 1).eq(&[2.0, 5.0]));
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn packed_column<T>(panels: &[T], rows: usize, column: usize) -> impl Iterator<Item = &T> {
    let first = packed_len(rows, column / LANES * LANES).saturating_add(column % LANES);
    panels.get(first..).unwrap_or(&[]).iter().step_by(LANES).take(rows)
}

/// Writes a row to the panels of a matrix of `rows` rows, as its row `t`, in any type of elements. What lies outside of the panels
/// is left out.
///
/// ```
/// let mut panels = [0_u16; 2 * 16];
/// regard_kernels::pack_row(&[7, 8], 1, 2, &mut panels);
/// assert_eq!(panels[16..18], [7, 8]);
/// ```
pub fn pack_row<T: Copy>(row: &[T], t: usize, rows: usize, panels: &mut [T]) {
    let lines = panels.as_chunks_mut::<LANES>().0.iter_mut().skip(t).step_by(rows.max(1));
    for (part, line) in row.chunks(LANES).zip(lines) {
        for (to, from) in line.iter_mut().zip(part) {
            *to = *from;
        }
    }
}

/// Writes up to 16 columns of `rows` elements, which lie one after another, to a panel, in any type of elements. The other columns
/// of the panel become the default of the type, which is 0 for numbers.
///
/// Squares of 16 × 16 elements are transposed in the nearest cache.
///
/// ```
/// let mut panel = [9_u16; 2 * 16];
/// regard_kernels::pack_panel(&[1, 2, 3, 4], 2, &mut panel); // the columns (1, 2) and (3, 4)
/// assert_eq!((&panel[..3], &panel[16..19]), (&[1, 3, 0][..], &[2, 4, 0][..]));
/// ```
pub fn pack_panel<T: Copy + Default>(columns: &[T], rows: usize, panel: &mut [T]) {
    let mut square = [[T::default(); LANES]; LANES];
    for (i, lines) in panel.chunks_mut(LANES * LANES).enumerate() {
        for (c, column) in columns.chunks_exact(rows.max(1)).enumerate() {
            let part = column.get(i * LANES..).unwrap_or(&[]);
            for (line, x) in square.iter_mut().zip(part) {
                if let Some(place) = line.get_mut(c) {
                    *place = *x;
                }
            }
        }
        for (to, from) in lines.iter_mut().zip(square.as_flattened()) {
            *to = *from;
        }
    }
}

/// A matrix B \[k, n\] in panels of 16 columns, the layout that the loops of a product read. [`matmul`](crate::matmul) packs B
/// again in each call.
///
/// Panel p holds the columns 16p to 16p + 15, one row after the other. Columns that do not exist are 0. The memory belongs to
/// the caller. Products are fastest if it begins at a multiple of 64 bytes.
///
/// ```
/// use regard_kernels::{Mat, MatMut, Packed, Store, matmul_packed, packed_len};
/// let mut memory = [0.0; packed_len(2, 2)];
/// let b = Packed::pack(Mat::from(&[[2.0, 0.0], [1.0, 2.0]]), &mut memory)?;
/// let mut out = [[0.0; 2]; 1];
/// matmul_packed(Mat::from(&[[3.0, 4.0]]), b, MatMut::from(&mut out), Store::Set)?;
/// assert_eq!(out, [[10.0, 8.0]]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Packed<'a> {
    panels: &'a [Panel],
    rows: usize,
    cols: usize,
}

impl<'a> Packed<'a> {
    /// Packs `b` \[k, n\] into `memory`, which has [`packed_len`]`(k, n)` elements.
    ///
    /// # Errors
    /// [`Error::Length`] if `memory` has another length.
    pub fn pack(b: Mat<'_>, memory: &'a mut [f32]) -> Result<Self, Error> {
        let (rows, cols) = b.shape();
        Self::fill(b, false, memory, rows, cols)
    }

    /// Packs the transpose of `b` \[n, k\] into `memory`, which has [`packed_len`]`(k, n)` elements. Weights \[outputs,
    /// inputs\] have this form.
    ///
    /// # Errors
    /// [`Error::Length`] if `memory` has another length.
    pub fn pack_transposed(b: Mat<'_>, memory: &'a mut [f32]) -> Result<Self, Error> {
        let (cols, rows) = b.shape();
        Self::fill(b, true, memory, rows, cols)
    }

    fn fill(
        b: Mat<'_>,
        transposed: bool,
        memory: &'a mut [f32],
        rows: usize,
        cols: usize,
    ) -> Result<Self, Error> {
        check_len("the packed matrix", memory.len(), packed_len(rows, cols))?;
        // Rows without columns take no memory, whatever their number.
        if !memory.is_empty() {
            dispatch(Pack { b, transposed, panels: memory.as_chunks_mut().0, depth: rows });
        }
        Self::new(memory, rows, cols)
    }

    /// A matrix of `rows` × `cols` that [`pack`](Self::pack) has written to `memory`.
    ///
    /// # Errors
    /// [`Error::Length`] unless `memory` has [`packed_len`]`(rows, cols)` elements.
    pub const fn new(memory: &'a [f32], rows: usize, cols: usize) -> Result<Self, Error> {
        let expected = packed_len(rows, cols);
        if memory.len() != expected {
            return Err(Error::Length {
                tensor: "the packed matrix",
                found: memory.len(),
                expected,
            });
        }
        Ok(Self { panels: memory.as_chunks().0, rows, cols })
    }

    /// Writes the matrix to `out` \[k, n\], row by row.
    ///
    /// # Errors
    /// [`Error::Shape`] if `out` has another shape.
    pub fn unpack(&self, mut out: MatMut<'_>) -> Result<(), Error> {
        check_shape("the unpacked matrix", out.shape(), self.shape(), "that of the packed one")?;
        for t in 0..out.filled_rows() {
            let lines = self.panels.get(t..).promised().iter().step_by(self.rows.max(1));
            for (x, lanes) in out.row_mut(t).chunks_mut(LANES).zip(lines) {
                for (x, lane) in x.iter_mut().zip(lanes) {
                    *x = *lane;
                }
            }
        }
        Ok(())
    }

    /// (rows, columns) of the matrix.
    #[must_use]
    pub const fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }
}

struct Pack<'a> {
    b: Mat<'a>,
    transposed: bool,
    panels: &'a mut [Panel],
    depth: usize,
}

impl Kernel for Pack<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        if self.transposed {
            pack_transposed(simd, self.b, self.panels);
        } else {
            pack_columns(simd, self.b, 0, self.panels, self.depth);
        }
    }
}

/// The matrix product A·B into `out`, or added to it: \[m, k\] · \[k, n\] = \[m, n\].
///
/// A product that is stored has the bits of [`matmul`](crate::matmul). One that is added, to a bias or to a residual connection,
/// is a sum of chains of multiply-adds in ascending order. A chain has at most 384 steps; for more, the chains are as equal in
/// length as possible. Adding the product takes no separate pass over `out`.
///
/// # Errors
/// [`Error::Shape`] if the shapes do not fit; `out` is then unchanged.
///
/// ```
/// use regard_kernels::{Mat, MatMut, Packed, Store, matmul_packed, packed_len};
/// let mut memory = [0.0; packed_len(2, 1)];
/// let b = Packed::pack_transposed(Mat::from(&[[2.0, 5.0]]), &mut memory)?;
/// let mut out = [[100.0]];
/// matmul_packed(Mat::from(&[[3.0, 4.0]]), b, MatMut::from(&mut out), Store::Add)?;
/// assert_eq!(out, [[126.0]]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn matmul_packed(
    a: Mat<'_>,
    b: Packed<'_>,
    out: MatMut<'_>,
    store: Store,
) -> Result<(), Error> {
    check_product(a, b.shape(), &out)?;
    dispatch(PackedProduct { a, b, out, add: store == Store::Add });
    Ok(())
}

struct PackedProduct<'a> {
    a: Mat<'a>,
    b: Packed<'a>,
    out: MatMut<'a>,
    add: bool,
}

impl Kernel for PackedProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { a, b, mut out, add } = self;
        // A narrow tier reads B row by row, whatever the length of its columns, and its tiles do not continue a sum.
        let steps = if S::NARROW && !add { a.cols().max(1) } else { sum_steps(a.cols()) };
        let rows = if b.cols == 0 { 0 } else { a.rows() }; // nothing to write, whatever the number of rows
        let panels = b.cols.div_ceil(LANES);
        let blocks = BlockSizes { rows: MC, steps, panels: panels.max(1) };
        let b = Panels::packed(b.panels, b.rows);
        let epilogues = match add {
            true => [Epilogue::Add; 2],
            false if S::NARROW => [Epilogue::Set; 2],
            false => [Epilogue::Set, Epilogue::Continue],
        };
        for row in (0..rows).step_by(MC) {
            let (a, out) = (a.rows_from(row, MC), &mut out.rows_from(row));
            multiply(simd, a, b, 0..panels, out, &blocks, epilogues);
        }
    }
}

/// Rows of A in a block: MC rows of KC columns stay in a second-level cache while all columns of B are read.
const MC: usize = 256;
