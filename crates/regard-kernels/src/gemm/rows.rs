//! Products with a matrix that lies by rows, or with its transpose.

use core::ops::Range;

use super::{BlockSizes, Source, check_product, multiply};
use crate::arch::{
    Epilogue, Kernel, LANES, Panel, Panels, Simd, TARGET, dispatch, gebp, matmul_by_4, matmul_by_8,
    matmul_by_16, pack_columns, pack_transposed,
};
use crate::error::{Error, check_shape};
use crate::invariant::Promised as _;
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
    check_product(a, b.shape(), &out)?;
    let mut product = Matmul { a, b, columns: b.cols(), transposed: false, out, done: 0 };
    dispatch(&mut product);
    product.pack();
    Ok(())
}

/// The matrix product A·Bᵀ into `out`: \[m, k\] · \[n, k\]ᵀ = \[m, n\]. With queries and keys it gives the scores.
///
/// The bits are those of [`matmul`] with B transposed. The call uses up to 256 KiB of stack (2 KiB on bare metal), as
/// [`matmul`] does if the rows of B are far apart.
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
    let mut product = Matmul { a, b, columns: b.rows(), transposed: true, out, done: 0 };
    dispatch(&mut product);
    product.pack();
    Ok(())
}

/// A·B for sizes that the compiler knows, without a choice at run time.
#[inline]
pub(crate) fn matmul_known<const M: usize, const K: usize, const N: usize>(
    a: &[[f32; K]; M],
    b: &[[f32; N]; K],
) -> [[f32; N]; M] {
    // The compiler knows N, and compiles one of these cases.
    if const { TARGET.knows_shapes && N == 4 } {
        matmul_by_4(a, b)
    } else if const { TARGET.knows_shapes && N == 8 } {
        matmul_by_8(a, b)
    } else if const { TARGET.knows_shapes && N.is_multiple_of(LANES) && N <= NEAR } {
        matmul_by_16(a, b)
    } else {
        let mut out = [[0.0; N]; M];
        let (a, b, view) = (a.into(), b.into(), (&mut out).into());
        let mut product = Matmul { a, b, columns: N, transposed: false, out: view, done: 0 };
        dispatch(&mut product);
        product.pack();
        out
    }
}

/// Rows of panels that are packed at a time. A large product packs 256 KiB. The memory is cleared in every call, so a smaller
/// product takes less.
const SMALL: usize = TARGET.panel_rows[0];
const MEDIUM: usize = TARGET.panel_rows[1];
const LARGE: usize = TARGET.panel_rows[2];
/// A product is large if it has more multiply-adds than this, counted in blocks of 16.
const MANY: usize = 1 << 20;
/// The least number of panels that a packed block of B has side by side. They lie together in a row of B.
const WIDTH: usize = TARGET.panels_side_by_side;
/// The elements of a block of A: as many as a block of B has.
const A_BLOCK: usize = LARGE * LANES;
/// B is read where it lies if its rows are at most this many elements apart.
const NEAR: usize = 64;

struct Matmul<'a> {
    a: Mat<'a>,
    b: Mat<'a>,
    /// The number of columns of the product.
    columns: usize,
    /// Whether the product is with Bᵀ.
    transposed: bool,
    out: MatMut<'a>,
    /// The number of panels of 16 columns that are computed. The others are [packed](Matmul::pack).
    done: usize,
}

/// Computes the columns that are read where they lie.
impl Kernel for &mut Matmul<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Matmul { a, b, columns, transposed, ref mut out, ref mut done } = *self;
        let (rows, depth) = a.shape();
        if rows == 0 {
            *done = columns.div_ceil(LANES); // nothing to compute, whatever the number of columns
        } else if S::NARROW {
            let panels = if transposed { Panels::transposed(b) } else { Panels::in_place(b) };
            gebp(simd, a, panels, out, 0, 1, 1, Epilogue::Set);
            *done = columns.div_ceil(LANES);
        } else if !transposed && b.stride() <= NEAR {
            *done = columns / LANES;
            let blocks = BlockSizes { rows, steps: depth.max(1), panels: (*done).max(1) };
            let panels = Panels::in_place(b);
            multiply(simd, a, panels, 0..*done, out, &blocks, [Epilogue::Set; 2]);
        }
    }
}

impl Matmul<'_> {
    /// Computes the other columns, packed into as much memory as pays for them.
    fn pack(self) {
        if !TARGET.packs {
            return; // all columns are computed
        }
        let panels = self.columns.div_ceil(LANES) - self.done;
        let panel_rows = self.a.cols() * panels;
        if panels == 0 {
        } else if panel_rows <= SMALL {
            dispatch(OnStack::<SMALL>(self));
        } else if panel_rows.saturating_mul(self.a.rows()) <= MANY {
            dispatch(OnStack::<MEDIUM>(self));
        } else {
            dispatch(OnStack::<LARGE>(self));
        }
    }
}

/// A product whose last columns are packed in memory on the stack. It is a kernel of its own, so that products that do not pack
/// need no such memory.
///
/// KC is as large as the memory allows for [`WIDTH`] panels, because C is read and written once for every KC steps. NC is then
/// as large as the memory allows. A block of B stays in the second-level cache and is packed once; a block of A stays there for
/// all panels of it. This is the order of GotoBLAS with A and B exchanged.
struct OnStack<'a, const ROOM: usize>(Matmul<'a>);

impl<const ROOM: usize> Kernel for OnStack<'_, ROOM> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Matmul { a, b, columns, transposed, mut out, done } = self.0;
        let panels = done..columns.div_ceil(LANES);
        let depth = a.cols();
        // The blocks have as equal lengths as possible, at least 1.
        let count = depth.div_ceil(ROOM / WIDTH.min(panels.len()).max(1)).max(1);
        let steps = depth.div_ceil(count).max(1);
        let rows = (A_BLOCK / steps).next_multiple_of(S::SHAPE.rows);
        let blocks = BlockSizes { rows, steps, panels: ROOM / steps };
        let mut memory = PanelBuffer([[0.0; LANES]; ROOM]);
        let b = Unpacked { b, transposed, memory: &mut memory.0 };
        let epilogues = [Epilogue::Set, Epilogue::Continue];
        multiply(simd, a, b, panels, &mut out, &blocks, epilogues);
    }
}

/// Memory that begins at a cache line.
#[repr(align(64))]
struct PanelBuffer<const ROOM: usize>([Panel; ROOM]);

/// A matrix by rows, which is packed block by block.
struct Unpacked<'a> {
    b: Mat<'a>,
    transposed: bool,
    memory: &'a mut [Panel],
}

impl Source for Unpacked<'_> {
    #[inline(always)]
    fn panels<S: Simd>(
        &mut self,
        simd: S,
        steps: Range<usize>,
        first: usize,
        count: usize,
    ) -> Panels<'_> {
        let (start, width, depth) = (first * LANES, count * LANES, steps.len());
        let memory = self.memory.get_mut(..count * depth).promised();
        if self.transposed {
            pack_transposed(simd, self.b.block(start, width, steps.start, depth), memory);
        } else {
            pack_columns(simd, self.b.block(steps.start, depth, start, width), 0, memory, depth);
        }
        Panels::packed(memory, depth)
    }
}
