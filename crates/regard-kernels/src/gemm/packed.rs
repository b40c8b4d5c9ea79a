//! Matrix products with a matrix that is laid out once and used often: weights.

use super::{Blocks, check_product, multiply, sum_steps};
use crate::arch::{
    Epilogue, Kernel, LANES, Panel, Panels, Simd, dispatch, pack_columns, pack_transposed,
};
use crate::error::{Error, check_len, check_shape};
use crate::{Mat, MatMut};

/// The elements that a `rows` × `cols` matrix takes as [`Packed`]: its columns are filled up to a multiple of 16.
///
/// ```
/// assert_eq!(regard_kernels::packed_len(384, 1536), 384 * 1536);
/// assert_eq!(regard_kernels::packed_len(3, 17), 3 * 32);
/// ```
#[must_use]
pub const fn packed_len(rows: usize, cols: usize) -> usize {
    cols.div_ceil(LANES).saturating_mul(LANES).saturating_mul(rows)
}

/// A matrix B \[k, n\] in panels of 16 columns: the layout that products want, which [`matmul`](crate::matmul) otherwise makes
/// anew in each call.
///
/// Panel p holds columns 16p to 16p + 15, one row after the other, with zeros for columns that do not exist. The memory is the
/// caller's; products are fastest where it begins at a multiple of 64 bytes.
///
/// ```
/// use regard_kernels::{Mat, MatMut, Packed, matmul_packed, packed_len};
/// let mut memory = [0.0; packed_len(2, 2)];
/// let b = Packed::pack(Mat::from(&[[2.0, 0.0], [1.0, 2.0]]), &mut memory)?;
/// let mut out = [[0.0; 2]; 1];
/// matmul_packed(Mat::from(&[[3.0, 4.0]]), b, MatMut::from(&mut out))?;
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
    /// Lays `b` \[k, n\] out in `memory`, of [`packed_len`]`(k, n)` elements.
    ///
    /// # Errors
    /// [`Error::Length`] if `memory` has another length.
    pub fn pack(b: Mat<'_>, memory: &'a mut [f32]) -> Result<Self, Error> {
        let (rows, cols) = b.shape();
        Self::fill(b, false, memory, rows, cols)
    }

    /// Lays the transpose of `b` \[n, k\] out in `memory`, of [`packed_len`]`(k, n)` elements: for weights \[outputs, inputs\].
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
        // Rows without columns take no memory, however many there are.
        if !memory.is_empty() {
            dispatch(Pack { b, transposed, panels: memory.as_chunks_mut().0, depth: rows });
        }
        Self::new(memory, rows, cols)
    }

    /// The matrix of `rows` × `cols` that [`pack`](Self::pack) has written to `memory`.
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

    /// Lays the matrix out as it was, in `out` \[k, n\].
    ///
    /// # Errors
    /// [`Error::Shape`] if `out` has another shape.
    pub fn unpack(&self, mut out: MatMut<'_>) -> Result<(), Error> {
        check_shape("the unpacked matrix", out.shape(), self.shape(), "that of the packed one")?;
        for t in 0..out.filled_rows() {
            let lines = self.panels.get(t..).unwrap_or_default().iter().step_by(self.rows.max(1));
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

/// The matrix product A·B into `out`: \[m, k\] · \[k, n\] = \[m, n\], with the bits of [`matmul`](crate::matmul).
///
/// # Errors
/// [`Error::Shape`] if the shapes do not fit; `out` is then unchanged.
///
/// An example is at [`Packed`].
pub fn matmul_packed(a: Mat<'_>, b: Packed<'_>, out: MatMut<'_>) -> Result<(), Error> {
    packed_matmul(a, b, out, false)
}

/// `out` ← `out` + A·B: a product on top of a bias or of a residual connection.
///
/// The sum that is added is a chain of multiply-adds for each 384 steps (for more, parts of as equal lengths as possible), in ascending
/// order: the sum costs no pass of its own.
///
/// # Errors
/// [`Error::Shape`] if the shapes do not fit; `out` is then unchanged.
///
/// ```
/// use regard_kernels::{Mat, MatMut, Packed, matmul_packed_add, packed_len};
/// let mut memory = [0.0; packed_len(2, 1)];
/// let b = Packed::pack_transposed(Mat::from(&[[2.0, 5.0]]), &mut memory)?;
/// let mut out = [[100.0]];
/// matmul_packed_add(Mat::from(&[[3.0, 4.0]]), b, MatMut::from(&mut out))?;
/// assert_eq!(out, [[126.0]]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn matmul_packed_add(a: Mat<'_>, b: Packed<'_>, out: MatMut<'_>) -> Result<(), Error> {
    packed_matmul(a, b, out, true)
}

fn packed_matmul(a: Mat<'_>, b: Packed<'_>, out: MatMut<'_>, add: bool) -> Result<(), Error> {
    check_product(a, b.shape(), &out)?;
    dispatch(Product { a, b, out, add });
    Ok(())
}

struct Product<'a> {
    a: Mat<'a>,
    b: Packed<'a>,
    out: MatMut<'a>,
    add: bool,
}

impl Kernel for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { a, b, mut out, add } = self;
        // A narrow tier reads B row by row, however long its columns are, and its tiles do not go on where others ended.
        let steps = if S::SHAPE.in_place && !add { a.cols().max(1) } else { sum_steps(a.cols()) };
        let rows = if b.cols == 0 { 0 } else { a.rows() }; // however many rows of nothing there are
        let panels = b.cols.div_ceil(LANES);
        let blocks = Blocks { rows: MC, steps, panels: panels.max(1) };
        let b = Panels::packed(b.panels, b.rows);
        let epilogues = match add {
            true => [Epilogue::Add; 2],
            false if S::SHAPE.in_place => [Epilogue::Set; 2],
            false => [Epilogue::Set, Epilogue::Continue],
        };
        for row in (0..rows).step_by(MC) {
            let (a, out) = (a.rows_from(row, MC), &mut out.rows_from(row));
            multiply(simd, a, b, 0..panels, out, &blocks, epilogues);
        }
    }
}

/// Rows of A, KC columns of them, that stay in a second-level cache while all columns of B pass.
const MC: usize = 256;
