use crate::error::{Error, check_shape};
use crate::simd::{Kernel, LANES, Panel, Simd, dispatch, multiply_tile, pack_panel};
use crate::{Mat, MatMut};

/// The matrix product A·B into `out`: \[m, k\] · \[k, n\] = \[m, n\].
///
/// Each element is one chain of multiply-adds over k in ascending order, so its bits depend on its row and column alone.
///
/// # Errors
/// [`Error::Shape`] if the shapes do not fit; `out` is then as it was.
///
/// ```
/// use regard_kernels::{Mat, MatMut, matmul};
/// let (a, b) = ([[1.0, 2.0], [3.0, 4.0]], [[2.0, 0.0], [1.0, 2.0]]);
/// let mut out = [[0.0; 2]; 2];
/// matmul(Mat::from(&a), Mat::from(&b), MatMut::from(&mut out))?;
/// assert_eq!(out, [[4.0, 4.0], [10.0, 8.0]]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn matmul(a: Mat<'_>, b: Mat<'_>, out: MatMut<'_>) -> Result<(), Error> {
    check_shape("B", b.shape(), (a.cols(), b.cols()), "a row for each column of A")?;
    check_shape("the product", out.shape(), (a.rows(), b.cols()), "rows of A × columns of B")?;
    dispatch(Product { a, b, out });
    Ok(())
}

/// The matrix product A·Bᵀ into `out`: \[m, k\] · \[n, k\]ᵀ = \[m, n\]. Queries times keys, as they lie in memory.
///
/// The same bits as [`matmul`] with B transposed. Uses 2 KiB of stack.
///
/// # Errors
/// [`Error::Shape`] if the shapes do not fit; `out` is then as it was.
///
/// ```
/// use regard_kernels::{Mat, MatMut, matmul_transposed};
/// let (q, k) = ([[1.0, 1.0, 1.0]], [[2.0, 1.0, 1.0], [1.0, 2.0, 1.0]]);
/// let mut scores = [[0.0; 2]; 1];
/// matmul_transposed(Mat::from(&q), Mat::from(&k), MatMut::from(&mut scores))?;
/// assert_eq!(scores, [[4.0, 4.0]]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn matmul_transposed(a: Mat<'_>, b: Mat<'_>, out: MatMut<'_>) -> Result<(), Error> {
    check_shape("B", b.shape(), (b.rows(), a.cols()), "as many columns as A")?;
    check_shape("the product", out.shape(), (a.rows(), b.rows()), "rows of A × rows of B")?;
    dispatch(ProductTransposed { a, b, out });
    Ok(())
}

/// Calls `$body` for consecutive groups of 6, 4, 2 and 1 rows, with `R` as a constant in scope:
/// 6 × 16 is what the registers hold, and the smaller groups leave no row over.
macro_rules! for_row_groups {
    ($rows:expr, |$start:ident, $group:ident| $body:expr) => {{
        let rows: usize = $rows;
        let mut $start = 0;
        while rows - $start >= 6 {
            const $group: usize = 6;
            $body;
            $start += $group;
        }
        if rows - $start >= 4 {
            const $group: usize = 4;
            $body;
            $start += $group;
        }
        if rows - $start >= 2 {
            const $group: usize = 2;
            $body;
            $start += $group;
        }
        if rows - $start >= 1 {
            const $group: usize = 1;
            $body;
        }
    }};
}
pub(crate) use for_row_groups;

struct Product<'a> {
    a: Mat<'a>,
    b: Mat<'a>,
    out: MatMut<'a>,
}

impl Kernel for Product<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let (a, depth) = (self.a, self.a.cols());
        for col in (0..self.b.cols()).step_by(LANES) {
            let panel = self.b.block(0, depth, col, LANES);
            for_row_groups!(a.rows(), |row, R| {
                let acc = multiply_tile::<S, R>(simd, a.rows_from(row, R), panel, [simd.splat(0.0); R]);
                store_rows(simd, acc, &mut self.out, row, col);
            });
        }
    }
}

struct ProductTransposed<'a> {
    a: Mat<'a>,
    b: Mat<'a>,
    out: MatMut<'a>,
}

impl Kernel for ProductTransposed<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        // B is transposed 16 rows × 32 columns at a time, and each piece is used for all rows of A.
        const DEPTH: usize = 32;
        let mut packed: [Panel; DEPTH] = [[0.0; LANES]; DEPTH];
        let (a, depth) = (self.a, self.a.cols());
        for col in (0..self.b.rows()).step_by(LANES) {
            // At least once, so that a product over no column at all is written as zeros.
            for t in (0..depth.max(1)).step_by(DEPTH) {
                pack_panel(self.b.block(col, LANES, t, DEPTH), &mut packed);
                let panel = Mat::from(&packed).rows_from(0, depth - t);
                for_row_groups!(a.rows(), |row, R| {
                    let acc = if t == 0 { [simd.splat(0.0); R] } else { load_rows(simd, &mut self.out, row, col) };
                    let acc = multiply_tile::<S, R>(simd, a.block(row, R, t, DEPTH), panel, acc);
                    store_rows(simd, acc, &mut self.out, row, col);
                });
            }
        }
    }
}

/// Up to 16 columns from `col` on of `R` rows from `row` on.
#[inline(always)]
pub(crate) fn load_rows<S: Simd, const R: usize>(simd: S, out: &mut MatMut<'_>, row: usize, col: usize) -> [S::V; R] {
    let mut acc = [simd.splat(0.0); R];
    for (r, acc) in acc.iter_mut().enumerate() {
        *acc = simd.load_or(out.row_mut(row + r).get(col..).unwrap_or_default(), 0.0);
    }
    acc
}

/// The inverse of [`load_rows`].
#[inline(always)]
pub(crate) fn store_rows<S: Simd, const R: usize>(
    simd: S,
    acc: [S::V; R],
    out: &mut MatMut<'_>,
    row: usize,
    col: usize,
) {
    for (r, acc) in acc.into_iter().enumerate() {
        simd.store_first(acc, out.row_mut(row + r).get_mut(col..).unwrap_or_default());
    }
}
