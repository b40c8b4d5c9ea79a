//! Dot product, norm and cosine similarity.

use crate::arch::{Kernel, LANES, Simd, dispatch, with_default_environment};
use crate::error::{Error, check_len};

/// The dot product a·b = Σ aᵢbᵢ.
///
/// Element i goes to lane i mod 64, and the 64 sums are folded as a tree. This order is the same on every tier.
///
/// # Errors
/// [`Error::Length`] if the lengths differ.
///
/// ```
/// let a = [1.0, 2.0, 3.0];
/// let b = [4.0, 5.0, 6.0];
/// assert_eq!(regard_kernels::dot(&a, &b)?, 32.0);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn dot(a: &[f32], b: &[f32]) -> Result<f32, Error> {
    check_len("b", b.len(), a.len())?;
    Ok(dispatch(Dot(a, b)))
}

/// The Euclidean norm ‖x‖ = √(x·x), without overflow or underflow on the way.
///
/// ```
/// assert_eq!(regard_kernels::norm(&[3.0, 4.0]), 5.0);
/// assert_eq!(regard_kernels::norm(&[3e30, 4e30]), 5e30);
/// ```
#[must_use]
pub fn norm(x: &[f32]) -> f32 {
    with_default_environment(|| {
        let square = dispatch(Dot(x, x));
        if in_safe_range(square) { libm::sqrtf(square) } else { libm::sqrt(dot_f64(x, x)) as f32 }
    })
}

/// The cosine of the angle between a and b, a·b / (‖a‖·‖b‖), in [−1, 1]; 0 where a or b is zero and has no direction.
///
/// # Errors
/// [`Error::Length`] if the lengths differ.
///
/// ```
/// let cosine = regard_kernels::cosine_similarity(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0])?;
/// assert!((cosine - 0.9746).abs() < 1e-4);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn cosine_similarity(a: &[f32], b: &[f32]) -> Result<f32, Error> {
    check_len("b", b.len(), a.len())?;
    Ok(cosine_equal(a, b))
}

pub(crate) fn cosine_equal(a: &[f32], b: &[f32]) -> f32 {
    with_default_environment(|| {
        let (aa, bb) = (dispatch(Dot(a, a)), dispatch(Dot(b, b)));
        let cosine = if in_safe_range(aa) && in_safe_range(bb) {
            dispatch(Dot(a, b)) / (libm::sqrtf(aa) * libm::sqrtf(bb))
        } else {
            let length = libm::sqrt(dot_f64(a, a)) * libm::sqrt(dot_f64(b, b));
            if length == 0.0 { 0.0 } else { (dot_f64(a, b) / length) as f32 }
        };
        cosine.clamp(-1.0, 1.0)
    })
}

/// Whether no square lost a significant term to underflow, and none overflowed.
fn in_safe_range(square: f32) -> bool {
    (1e-20..1e38).contains(&square)
}

/// For squares outside the range of `f32`. They are rare, so the loop is a plain one.
fn dot_f64(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}

/// The dot product of two slices of the same length.
pub(crate) struct Dot<'a>(pub(crate) &'a [f32], pub(crate) &'a [f32]);

impl Kernel for Dot<'_> {
    type Output = f32;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> f32 {
        // Four chains cover the latency of the multiply-add.
        const CHAINS: usize = 4;
        let mut sums = [simd.splat(0.0); CHAINS];
        let (a, a_rest) = self.0.as_chunks::<{ CHAINS * LANES }>();
        let (b, b_rest) = self.1.as_chunks::<{ CHAINS * LANES }>();
        for (a, b) in a.iter().zip(b) {
            let (a, b) = (a.as_chunks::<LANES>().0, b.as_chunks::<LANES>().0);
            for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                *sum = simd.mul_add(simd.load(a), simd.load(b), *sum);
            }
        }
        let ((a, a_rest), (b, b_rest)) = (a_rest.as_chunks(), b_rest.as_chunks());
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum = simd.mul_add(simd.load(a), simd.load(b), *sum);
        }
        if let (Some(sum), [_, ..]) = (sums.get_mut(a.len()), a_rest) {
            *sum = simd.mul_add(simd.load_or(a_rest, 0.0), simd.load_or(b_rest, 0.0), *sum);
        }
        let [s0, s1, s2, s3] = sums;
        simd.reduce_add(simd.add(simd.add(s0, s1), simd.add(s2, s3)))
    }
}
