//! One query times keys that lie in memory by rows. The keys are transposed in registers, without memory for panels.

use super::pack::{SIDE, square};
use crate::Mat;
use crate::arch::{Kernel, LANES, Panel, Simd};
use crate::invariant::Promised as _;

/// `out`\[i\] ← `q` · row i of `k`, for a multiple of 16 rows, with the bits that [`gebp`](crate::arch::gebp) gives for
/// transposed panels. Memory for the panels would not pay, because a single query reads each of them once.
#[inline(always)]
pub(crate) fn gemv<S: Simd>(simd: S, q: &[f32], k: Mat<'_>, out: &mut [f32]) {
    debug_assert!(
        k.rows().is_multiple_of(LANES) && q.len() == k.cols(),
        "{} times {:?}",
        q.len(),
        k.shape()
    );
    if q.len() == k.cols() {
        simd.call(Dots { q, k, out: out.as_chunks_mut().0 });
    }
}

struct Dots<'a> {
    q: &'a [f32],
    k: Mat<'a>,
    out: &'a mut [Panel],
}

impl Kernel for Dots<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { q, k, out } = self;
        let (whole, rest) = q.as_chunks::<SIDE>();
        let stride = k.stride();
        for (p, out) in out.iter_mut().enumerate().take(k.rows() / LANES) {
            let start = p * LANES * stride;
            let mut sum = simd.splat(0.0);
            for (t, q) in whole.iter().enumerate() {
                let (low, prefetch) = (start + t * SIDE, t.is_multiple_of(2)); // a cache line holds two squares side by side
                let high = low + SIDE * stride;
                let mut panel = [[0.0; LANES]; SIDE];
                // SAFETY: `k` has (p + 1) · 16 rows, and as many columns as `q` has elements; the
                // data of a view holds all of its rows.
                unsafe {
                    simd.transpose(
                        square(simd, k.data(), low, stride, prefetch),
                        &mut panel,
                        false,
                    );
                    simd.transpose(
                        square(simd, k.data(), high, stride, prefetch),
                        &mut panel,
                        true,
                    );
                }
                for (q, lanes) in q.iter().zip(&panel) {
                    sum = simd.mul_add(simd.splat(*q), simd.load(lanes), sum);
                }
            }
            for (t, q) in rest.iter().enumerate() {
                let mut lanes = [0.0; LANES];
                for (l, lane) in lanes.iter_mut().enumerate() {
                    *lane = k.row(p * LANES + l).get(whole.len() * SIDE + t).copied().promised();
                }
                sum = simd.mul_add(simd.splat(*q), simd.load(&lanes), sum);
            }
            simd.store(sum, out);
        }
    }
}
