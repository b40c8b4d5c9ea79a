//! Products with quantized weights: whole numbers, with a scale and a minimum for each [`QUANTIZED`] of them.

use crate::error::{Error, check_len, check_shape};
use crate::simd::{Kernel, LANES, Simd, dispatch};
use crate::{Mat, MatMut};

/// The whole numbers that share a scale and a minimum.
pub const QUANTIZED: usize = LANES;

/// Rows of a quantized matrix W \[rows, columns\]: element (r, c) is n·s − m, with its own whole number n, and the scale s and
/// the minimum m of the 16 columns from ⌊c/16⌋·16 on.
///
/// ```
/// use regard_kernels::{Mat, MatMut, Quantized};
/// let (numbers, scales) = ([3; 16], [0.5]);
/// let row = Quantized::new(&numbers, &scales, &[], 1, 16)?; // 16 times 1.5
/// let mut w = [[0.0; 16]];
/// row.widen(MatMut::from(&mut w))?;
/// assert_eq!(w, [[1.5; 16]]);
/// let mut y = [[0.0]];
/// row.multiply(Mat::from(&[[2.0; 16]]), MatMut::from(&mut y))?;
/// assert_eq!(y, [[48.0]]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Quantized<'a> {
    numbers: &'a [[i8; LANES]],
    scales: &'a [f32],
    minima: &'a [f32],
    rows: usize,
    cols: usize,
}

impl<'a> Quantized<'a> {
    /// Rows of whole `numbers` \[rows, cols\], `scales` \[rows, cols / 16\], and `minima` \[rows, cols / 16\], or none if all
    /// are 0.
    ///
    /// # Errors
    /// [`Error::Length`] if one of them has another length, or if the columns are no multiple of 16.
    pub fn new(
        numbers: &'a [i8],
        scales: &'a [f32],
        minima: &'a [f32],
        rows: usize,
        cols: usize,
    ) -> Result<Self, Error> {
        let blocks = cols / LANES;
        let all = rows.saturating_mul(blocks);
        check_len("the quantized numbers", numbers.len(), rows.saturating_mul(cols))?;
        check_len("the columns of a quantized row", cols, blocks * LANES)?;
        check_len("the scales", scales.len(), all)?;
        if !minima.is_empty() {
            check_len("the minima", minima.len(), all)?;
        }
        Ok(Self { numbers: numbers.as_chunks().0, scales, minima, rows, cols })
    }

    /// Writes W to `out` \[rows, columns\].
    ///
    /// # Errors
    /// [`Error::Shape`] if `out` has another shape.
    pub fn widen(self, out: MatMut<'_>) -> Result<(), Error> {
        check_shape("the widened rows", out.shape(), (self.rows, self.cols), "the rows' shape")?;
        dispatch(WidenRows { w: self, out });
        Ok(())
    }

    /// `out` ← xWᵀ: \[m, columns\] · \[rows, columns\]ᵀ = \[m, rows\]. For few rows of x, because W is widened anew for each.
    ///
    /// An element is the sum of s·(n·x) − m·x in each of 16 lanes, and the lanes are folded as a tree: a fixed order.
    ///
    /// # Errors
    /// [`Error::Shape`] if the shapes do not fit; `out` is then unchanged.
    pub fn multiply(self, x: Mat<'_>, out: MatMut<'_>) -> Result<(), Error> {
        check_shape("x", x.shape(), (x.rows(), self.cols), "as many columns as W")?;
        check_shape("the product", out.shape(), (x.rows(), self.rows), "rows of x × rows of W")?;
        dispatch(Multiply { w: self, x, out });
        Ok(())
    }

    /// The numbers, scales and minima of a row.
    #[inline(always)]
    fn row(&self, r: usize) -> (&'a [[i8; LANES]], &'a [f32], &'a [f32]) {
        let blocks = self.cols / LANES;
        let range = r * blocks..(r + 1) * blocks;
        (
            self.numbers.get(range.clone()).unwrap_or_default(),
            self.scales.get(range.clone()).unwrap_or_default(),
            self.minima.get(range).unwrap_or_default(),
        )
    }
}

struct WidenRows<'a> {
    w: Quantized<'a>,
    out: MatMut<'a>,
}

impl Kernel for WidenRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        for r in 0..self.out.filled_rows() {
            let (numbers, scales, minima) = self.w.row(r);
            let (out, _) = self.out.row_mut(r).as_chunks_mut();
            for (i, ((out, numbers), scale)) in out.iter_mut().zip(numbers).zip(scales).enumerate()
            {
                let wide = simd.mul(simd.widen_i8(numbers), simd.splat(*scale));
                let minimum = minima.get(i).copied().unwrap_or(0.0);
                simd.store(simd.sub(wide, simd.splat(minimum)), out);
            }
        }
    }
}

struct Multiply<'a> {
    w: Quantized<'a>,
    x: Mat<'a>,
    out: MatMut<'a>,
}

/// Rows of W at a time: as many chains of multiply-adds hide their latency.
const ROWS: usize = 4;

impl Kernel for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        for row in 0..self.out.filled_rows() {
            let x = self.x.row(row).as_chunks().0;
            let out = self.out.row_mut(row);
            let whole = self.w.rows / ROWS * ROWS;
            for r in (0..whole).step_by(ROWS) {
                self.w.dots::<S, ROWS>(simd, x, r, out);
            }
            for r in whole..self.w.rows {
                self.w.dots::<S, 1>(simd, x, r, out);
            }
        }
    }
}

impl Quantized<'_> {
    /// `out`\[r..r + N\] ← x · rows r to r + N.
    #[inline(always)]
    fn dots<S: Simd, const N: usize>(
        &self,
        simd: S,
        x: &[[f32; LANES]],
        r: usize,
        out: &mut [f32],
    ) {
        let blocks = self.cols / LANES;
        let mut rows = [([].as_slice(), [].as_slice(), [].as_slice()); N];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = self.row(r + i);
        }
        let has_minima = !self.minima.is_empty();
        let mut sums = [simd.splat(0.0); N];
        for (b, x) in x.iter().enumerate().take(blocks) {
            let lanes = simd.load(x);
            for ((numbers, scales, _), sum) in rows.iter().zip(&mut sums) {
                if let (Some(numbers), Some(scale)) = (numbers.get(b), scales.get(b)) {
                    let products = simd.mul(simd.widen_i8(numbers), lanes);
                    *sum = simd.mul_add(products, simd.splat(*scale), *sum);
                }
            }
            if has_minima {
                for ((_, _, minima), sum) in rows.iter().zip(&mut sums) {
                    if let Some(minimum) = minima.get(b) {
                        *sum = simd.mul_add(lanes, simd.splat(-minimum), *sum);
                    }
                }
            }
        }
        for (sum, out) in sums.into_iter().zip(out.get_mut(r..).unwrap_or_default()) {
            *out = simd.reduce_add(sum);
        }
    }
}
