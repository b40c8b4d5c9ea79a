//! The innermost loop: a few rows of A times a panel of 16 columns of B.

use super::{LANES, Simd};
use crate::Mat;

/// A panel: 16 columns of B, a row of them for each step of the sum.
pub(crate) type Panel = [f32; LANES];

/// acc\[r\] + Σₜ a\[r\]\[t\] · b\[t\], for the first `R` rows of `a` and up to 16 columns of `b`, t in ascending order.
///
/// `a` must have `R` rows and `b` a row for each column of `a`, else `acc` comes back as it was.
/// Lanes behind the columns of `b` are unspecified.
///
/// Each lane is one chain of multiply-adds, so a result's bits do not depend on the rows or columns computed beside it.
#[inline(always)]
pub(crate) fn multiply_tile<S: Simd, const R: usize>(simd: S, a: Mat<'_>, b: Mat<'_>, mut acc: [S::V; R]) -> [S::V; R] {
    let depth = a.cols();
    if R == 0 || a.rows() < R || b.rows() < depth || b.cols() == 0 {
        debug_assert!(depth == 0 || b.cols() == 0, "a tile of {R} rows from {:?} times {:?}", a.shape(), b.shape());
        return acc;
    }
    let (a_start, a_stride) = (a.as_ptr(), a.stride());
    if b.cols() >= LANES {
        let (b_start, b_stride) = (b.as_ptr(), b.stride());
        for t in 0..depth {
            // SAFETY: t < depth ≤ b.rows() and 16 ≤ b.cols(), and a view holds all of its rows: the 16 elements
            // from b_start + t·b_stride on lie within its slice.
            let row = simd.load(unsafe { &*b_start.add(t * b_stride).cast::<Panel>() });
            for (r, acc) in acc.iter_mut().enumerate() {
                // SAFETY: r < R ≤ a.rows() and t < depth = a.cols(): within the view's slice.
                let x = unsafe { *a_start.add(r * a_stride + t) };
                *acc = simd.mul_add(simd.splat(x), row, *acc);
            }
        }
    } else {
        for t in 0..depth {
            let row = simd.load_or(b.row(t), 0.0);
            for (r, acc) in acc.iter_mut().enumerate() {
                // SAFETY: as above.
                let x = unsafe { *a_start.add(r * a_stride + t) };
                *acc = simd.mul_add(simd.splat(x), row, *acc);
            }
        }
    }
    acc
}

/// Transposes up to 16 rows of `b` into `panel`: element (t, l) becomes b\[l\]\[t\], and 0 where `b` has no row l.
#[inline(always)]
pub(crate) fn pack_panel(b: Mat<'_>, panel: &mut [Panel]) {
    for l in 0..LANES {
        if l < b.rows() {
            for (lanes, x) in panel.iter_mut().zip(b.row(l)) {
                lanes[l] = *x;
            }
        } else {
            for lanes in panel.iter_mut() {
                lanes[l] = 0.0;
            }
        }
    }
}
