use core::ops::Range;

use crate::arch::{
    Ahead, Continue, Epilogue, Kernel, LANES, Panel, Panels, Set, Simd, TARGET, dispatch, gebp,
    matmul_by_4, matmul_by_8, matmul_by_16, next_groups, pack_columns, pack_transposed,
    panels_at_once,
};
use crate::error::{Error, check_shape};
use crate::{Mat, MatMut};

/// The matrix product A·B into `out`: \[m, k\] · \[k, n\] = \[m, n\].
///
/// Each element is one chain of multiply-adds over k in ascending order, so its bits depend on its row and column alone.
///
/// # Errors
/// [`Error::Shape`] if the shapes do not fit; `out` is then unchanged.
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
    dispatch(Matmul { a, b, columns: b.cols(), transposed: false, out });
    Ok(())
}

/// The matrix product A·Bᵀ into `out`: \[m, k\] · \[n, k\]ᵀ = \[m, n\]. Queries times keys, as they lie in memory.
///
/// The same bits as [`matmul`] with B transposed. Uses up to 256 KiB of stack (2 KiB on bare metal), as [`matmul`] does for wide B.
///
/// # Errors
/// [`Error::Shape`] if the shapes do not fit; `out` is then unchanged.
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
    dispatch(Matmul { a, b, columns: b.rows(), transposed: true, out });
    Ok(())
}

/// A·B of sizes that the compiler knows, without the cost of finding out at run time.
#[inline]
pub(crate) fn matmul_known<const M: usize, const K: usize, const N: usize>(
    a: &[[f32; K]; M],
    b: &[[f32; N]; K],
) -> [[f32; N]; M] {
    // The compiler knows N, and keeps one of these.
    match N {
        4 if TARGET.knows_shapes => matmul_by_4(a, b),
        8 if TARGET.knows_shapes => matmul_by_8(a, b),
        _ if N.is_multiple_of(LANES) && N <= NEAR && TARGET.knows_shapes => matmul_by_16(a, b),
        _ => {
            let mut out = [[0.0; N]; M];
            dispatch(Matmul {
                a: a.into(),
                b: b.into(),
                columns: N,
                transposed: false,
                out: (&mut out).into(),
            });
            out
        }
    }
}

/// Rows of panels that are packed at a time. A large product takes 256 KiB. The memory is cleared in every call, so that a smaller
/// product takes less.
const SMALL: usize = TARGET.panel_rows[0];
const MEDIUM: usize = TARGET.panel_rows[1];
const LARGE: usize = TARGET.panel_rows[2];
/// A product is large if it has more multiply-adds than this, in blocks of 16.
const MANY: usize = 1 << 20;
/// A block of B has at least so many panels beside each other, which lie together in a row of B.
const WIDTH: usize = TARGET.panels_side_by_side;
/// The elements of A's blocks: as many as those of B's blocks.
const A_BLOCK: usize = LARGE * LANES;
/// B is read where it lies if its rows are at most this many elements apart.
const NEAR: usize = 64;

struct Matmul<'a> {
    a: Mat<'a>,
    b: Mat<'a>,
    /// The columns of the product.
    columns: usize,
    /// The columns of the product are those of Bᵀ.
    transposed: bool,
    out: MatMut<'a>,
}

impl Kernel for Matmul<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let rows = self.a.rows();
        if rows == 0 {
            return; // a product without numbers may have any number of columns
        }
        let mut first = 0;
        if S::SHAPE.in_place {
            let panels =
                if self.transposed { Panels::transposed(self.b) } else { Panels::in_place(self.b) };
            gebp::<S, Set>(simd, self.a, panels, &mut self.out, 0, 1, 1);
            return;
        }
        if !self.transposed && self.b.stride() <= NEAR {
            let whole = self.columns / LANES;
            self.panels::<S, Set, Continue>(simd, Panels::in_place(self.b), whole, 0..rows, 0, 0);
            first = whole * LANES;
        }
        if first < self.columns {
            let panel_rows = self.a.cols() * (self.columns - first).div_ceil(LANES);
            if panel_rows <= SMALL {
                simd.call(MatmulByPanels::<SMALL> { matmul: self, first });
            } else if panel_rows.saturating_mul(rows) <= MANY {
                simd.call(MatmulByPanels::<MEDIUM> { matmul: self, first });
            } else {
                simd.call(MatmulByPanels::<LARGE> { matmul: self, first });
            }
        }
    }
}

/// The columns of the product from `first` on, by panels that are packed on the stack.
///
/// ```text
/// for each block of columns:
///     for each block of KC steps of the sum:             in ascending order
///         pack KC × NC elements of B                     they stay in L2, and are packed once
///         for each block of MC rows of A:                they stay in L2 for all panels
///             gebp: add their product to that of the steps before
/// ```
///
/// KC is as large as the memory allows for [`WIDTH`] panels, because C is read and written for every block of KC steps. NC is
/// as large as the memory allows for KC steps. This is the order of GotoBLAS with A and B exchanged: the block that stays in
/// L2 is one of B.
///
/// It is a function of its own, so that products that need no such memory do not pay for it.
struct MatmulByPanels<'a, const ROOM: usize> {
    matmul: Matmul<'a>,
    first: usize,
}

impl<const ROOM: usize> Kernel for MatmulByPanels<'_, ROOM> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { mut matmul, first } = self;
        let (rows, depth) = matmul.a.shape();
        let count = (matmul.columns - first).div_ceil(LANES);
        let mut packed = PanelBuffer([[0.0; LANES]; ROOM]);
        // Blocks of as equal lengths as possible, but never of 0.
        let blocks = depth.div_ceil(ROOM / WIDTH.min(count).max(1)).max(1);
        let kc = depth.div_ceil(blocks).max(1);
        let (width, mc) = (ROOM / kc, (A_BLOCK / kc).next_multiple_of(S::SHAPE.rows));
        for start in (first..matmul.columns).step_by(width * LANES) {
            // At least once, so that a product over no column at all is written as zeros.
            for t in (0..depth.max(1)).step_by(kc) {
                let steps = kc.min(depth - t);
                let memory = packed.0.get_mut(..width * steps).unwrap_or_default();
                if matmul.transposed {
                    let b = matmul.b.block(start, width * LANES, t, steps);
                    pack_transposed(simd, b, memory);
                } else {
                    let b = matmul.b.block(t, steps, start, width * LANES);
                    pack_columns(simd, b, 0, memory, steps);
                }
                let panels = Panels::packed(&packed.0, steps);
                let count = (matmul.columns - start).div_ceil(LANES).min(width);
                for row in (0..rows).step_by(mc) {
                    let rows = row..rows.min(row + mc);
                    if ROOM == LARGE {
                        matmul.panels::<S, Ahead<Set>, Ahead<Continue>>(
                            simd, panels, count, rows, t, start,
                        );
                    } else {
                        matmul.panels::<S, Set, Continue>(simd, panels, count, rows, t, start);
                    }
                }
            }
        }
    }
}

/// In whole cache lines.
#[repr(align(64))]
struct PanelBuffer<const ROOM: usize>([Panel; ROOM]);

impl Matmul<'_> {
    /// The product of `rows` of A, from their column `t` on, with the first `count` panels: by `First`, or for `t` > 0 added
    /// to the product of the columns before `t`, by `Next`.
    #[inline(always)]
    fn panels<S: Simd, First: Epilogue, Next: Epilogue>(
        &mut self,
        simd: S,
        panels: Panels<'_>,
        count: usize,
        rows: Range<usize>,
        t: usize,
        col: usize,
    ) {
        let a = self.a.block(rows.start, rows.len(), t, self.a.cols());
        let mut out = self.out.rows_from(rows.start);
        if t == 0 {
            gebp_rows::<S, First>(simd, a, panels, count, &mut out, col);
        } else {
            gebp_rows::<S, Next>(simd, a, panels, count, &mut out, col);
        }
    }
}

/// [`gebp`] for any number of rows, in as few groups as possible, by so many panels that they stay in the nearest cache. The
/// first of them read A, which is [near](Epilogue::Near) for the others.
#[inline(always)]
pub(crate) fn gebp_rows<S: Simd, F: Epilogue>(
    simd: S,
    a: Mat<'_>,
    b: Panels<'_>,
    panels: usize,
    out: &mut MatMut<'_>,
    col: usize,
) {
    // A narrow tier reads the columns of B by one stride, which leads from panel to panel only where B is not packed.
    let at_once = if S::SHAPE.in_place {
        1
    } else {
        panels_at_once::<S>(next_groups::<S>(a.rows()).0.max(1))
    };
    let at_once = at_once.max(1); // or `step_by` could panic
    for first in (0..panels).step_by(at_once) {
        let panels = at_once.min(panels - first);
        let (b, col) = (b.from(first).first(panels), col + first * LANES);
        let mut row = 0;
        while row < a.rows() {
            let (size, count) = next_groups::<S>(a.rows() - row);
            let (a, out) = (a.rows_from(row, size * count), &mut out.rows_from(row));
            if S::SHAPE.reads_ahead && F::AHEAD && first == 0 {
                gebp::<S, F>(simd, a, b, out, col, size, panels);
            } else {
                gebp::<S, F::Near>(simd, a, b, out, col, size, panels);
            }
            row += size * count;
        }
    }
}
