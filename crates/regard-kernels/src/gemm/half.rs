//! Few rows times a packed matrix of 16-bit floating-point numbers. Each number is read from memory once, and widened in
//! registers.
//!
//! A model that continues a text multiplies one row by every weight, so this product takes as long as reading the weights. The
//! loop is that of `arch::generic::tile` with a wider load. It is a loop of its own, because tiles that widen the numbers take
//! up to 46 % longer on AVX-512 for two to sixteen rows. The sums, their order and their bits are those of
//! [`matmul_packed`](crate::matmul_packed) with the same numbers in `f32`.

use core::ops::Range;

use super::{Store, check_product, packed_len, sum_steps};
use crate::arch::{Kernel, LANES, Simd, dispatch};
use crate::error::{Error, check_len};
use crate::invariant::{Promised as _, broken};
use crate::{Mat, MatMut};

/// A 16-bit floating-point type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Half {
    /// IEEE 754 binary16.
    F16,
    /// bfloat16, the upper half of an `f32`.
    Bf16,
}

/// A matrix \[rows, columns\] of 16-bit floating-point numbers, which are given by their bits.
///
/// The layout is that of [`Packed`](crate::Packed): panels of 16 columns, one row after another. Columns past the last one are
/// 0.
///
/// ```
/// use regard_kernels::{Half, Mat, MatMut, PackedHalf, Store, matmul_packed_half};
/// let mut bits = [0; 2 * 16]; // two rows, one column
/// (bits[0], bits[16]) = (0x4000, 0x3f80); // 2 and 1
/// let b = PackedHalf::new(&bits, Half::Bf16, 2, 1)?;
/// let mut out = [[0.0]];
/// matmul_packed_half(Mat::from(&[[3.0, 4.0]]), b, MatMut::from(&mut out), Store::Set)?;
/// assert_eq!(out, [[10.0]]);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PackedHalf<'a> {
    panels: &'a [[u16; LANES]],
    kind: Half,
    rows: usize,
    cols: usize,
}

impl<'a> PackedHalf<'a> {
    /// The matrix of these bits.
    ///
    /// # Errors
    /// [`Error::Length`] if `bits` does not have [`packed_len`]`(rows, cols)` elements.
    pub fn new(bits: &'a [u16], kind: Half, rows: usize, cols: usize) -> Result<Self, Error> {
        check_len("the packed matrix", bits.len(), packed_len(rows, cols))?;
        Ok(Self { panels: bits.as_chunks().0, kind, rows, cols })
    }
}

/// The product A·B into `out`, or added to it.
///
/// The bits are those of [`matmul_packed`](crate::matmul_packed). B is widened again for every four rows of A (on
/// microcontrollers for every row), so for many rows it is faster to widen B first and pack it. On Cortex-M with an FPU,
/// bfloat16 is fastest if the bits begin at a multiple of 4 bytes.
///
/// # Errors
/// [`Error::Shape`] if the shapes do not fit; `out` is then unchanged.
pub fn matmul_packed_half(
    a: Mat<'_>,
    b: PackedHalf<'_>,
    out: MatMut<'_>,
    store: Store,
) -> Result<(), Error> {
    check_product(a, (b.rows, b.cols), &out)?;
    dispatch(HalfProduct { a, b, out, add: store == Store::Add });
    Ok(())
}

struct HalfProduct<'a> {
    a: Mat<'a>,
    b: PackedHalf<'a>,
    out: MatMut<'a>,
    add: bool,
}

impl Kernel for HalfProduct<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        // A branch in the innermost loop would take as long as the widening.
        match self.b.kind {
            Half::F16 => simd.call(Widened::<false>(self)),
            Half::Bf16 => simd.call(Widened::<true>(self)),
        }
    }
}

/// A product whose B is bfloat16 if `BF16`, else binary16.
struct Widened<'a, const BF16: bool>(HalfProduct<'a>);

impl<const BF16: bool> Kernel for Widened<'_, BF16> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let rows = self.0.out.filled_rows();
        let mut row = 0;
        while row < rows {
            // A core without vectors has registers for one row of A and one panel.
            let count = if S::NARROW { 1 } else { (rows - row).min(4) };
            match count {
                _ if const { S::NARROW } => self.columns::<S, 1, 1>(simd, row),
                1 => self.columns::<S, 1, 4>(simd, row),
                2 => self.columns::<S, 2, 2>(simd, row),
                3 => self.columns::<S, 3, 2>(simd, row),
                _ => self.columns::<S, 4, 1>(simd, row),
            }
            row += count;
        }
    }
}

impl<const BF16: bool> Widened<'_, BF16> {
    /// Computes `R` rows of the product: `P` panels at a time, and then the panels that are left.
    #[inline(always)]
    fn columns<S: Simd, const R: usize, const P: usize>(&mut self, simd: S, row: usize) {
        let panels = self.0.b.cols.div_ceil(LANES);
        let whole = panels / P * P;
        for p in (0..whole).step_by(P) {
            self.tile::<S, R, P>(simd, row, p);
        }
        for p in whole..panels {
            self.tile::<S, R, 1>(simd, row, p);
        }
    }

    /// Multiplies `R` rows by `P` panels from number `p` on.
    #[inline(always)]
    fn tile<S: Simd, const R: usize, const P: usize>(&mut self, simd: S, row: usize, p: usize) {
        let HalfProduct { a, b, out, add } = &mut self.0;
        let depth = b.rows;
        let mut x = [[].as_slice(); R];
        for (r, x) in x.iter_mut().enumerate() {
            *x = a.row(row + r);
        }
        let mut panels = [[].as_slice(); P];
        for (i, panel) in panels.iter_mut().enumerate() {
            *panel = b.panels.get((p + i) * depth..(p + i + 1) * depth).promised();
        }
        let mut total = [[simd.splat(0.0); P]; R];
        if *add {
            for (r, total) in total.iter_mut().enumerate() {
                for (i, total) in total.iter_mut().enumerate() {
                    let old = out.row_mut(row + r).get((p + i) * LANES..).promised();
                    *total = simd.load_or(old, 0.0);
                }
            }
        }
        let step = if *add { sum_steps(depth) } else { depth.max(1) };
        for start in (0..depth).step_by(step) {
            let steps = start..depth.min(start + step);
            let sums = chains::<S, BF16, R, P>(simd, &x, &panels, steps);
            for (total, sums) in total.iter_mut().zip(sums) {
                for (total, sum) in total.iter_mut().zip(sums) {
                    *total = if *add { simd.add(*total, sum) } else { sum };
                }
            }
        }
        for (r, total) in total.into_iter().enumerate() {
            for (i, total) in total.into_iter().enumerate() {
                let new = out.row_mut(row + r).get_mut((p + i) * LANES..).promised();
                simd.store_first(total, new);
            }
        }
    }
}

/// Extends chains of multiply-adds over these steps, in ascending order.
#[inline(always)]
fn chains<S: Simd, const BF16: bool, const R: usize, const P: usize>(
    simd: S,
    x: &[&[f32]; R],
    panels: &[&[[u16; LANES]]; P],
    steps: Range<usize>,
) -> [[S::V; P]; R] {
    let mut sums = [[simd.splat(0.0); P]; R];
    // The slices have equal lengths, so that the loop needs no checks.
    let count = steps.len();
    let mut rows = [[].as_slice(); R];
    for (row, x) in rows.iter_mut().zip(x) {
        *row = x.get(steps.clone()).promised();
    }
    let mut columns = [[].as_slice(); P];
    for (column, panel) in columns.iter_mut().zip(panels) {
        *column = panel.get(steps.clone()).promised();
    }
    if rows.iter().any(|row| row.len() != count) || columns.iter().any(|c| c.len() != count) {
        broken();
        return sums;
    }
    if let ([row], [column]) = (rows.as_slice(), columns.as_slice())
        && let Some(sum) = simd.row_times_panel::<BF16>(row, column)
    {
        return [[sum; P]; R];
    }
    for t in 0..count {
        for (p, column) in columns.iter().enumerate() {
            let Some(bits) = column.get(t) else {
                broken();
                continue;
            };
            // A hardware prefetcher does not foresee several streams of a few kilobytes each.
            simd.prefetch(bits.as_ptr().wrapping_add(AHEAD).cast());
            let lanes = if BF16 { simd.widen_bf16(bits) } else { simd.widen_f16(bits) };
            for (row, sums) in rows.iter().zip(&mut sums) {
                if let (Some(x), Some(sum)) = (row.get(t), sums.get_mut(p)) {
                    *sum = simd.mul_add(simd.splat(*x), lanes, *sum);
                }
            }
        }
    }
    sums
}

/// The distance of a prefetch from the numbers that are being multiplied.
const AHEAD: usize = 1024;
