//! Textbook loops, one scalar at a time. Read them first, and compare the kernels' speed with them.
//!
//! They take the same arguments as the kernels and compute the same results. Unlike the kernels, they keep a whole row of
//! scores, know no mask but the causal one, and may panic on wrong shapes.

use crate::{Mat, MatMut};

/// Σ aᵢbᵢ over the shorter length.
///
/// ```
/// assert_eq!(regard_kernels::naive::dot(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 32.0);
/// ```
#[must_use]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sum = 0.0;
    for (a, b) in a.iter().zip(b) {
        sum += a * b;
    }
    sum
}

/// A·B, three nested loops over plain slices.
///
/// # Panics
/// If the shapes do not fit.
///
/// ```
/// let (a, b) = ([[1.0, 2.0], [3.0, 4.0]], [[2.0, 0.0], [1.0, 2.0]]);
/// let mut out = [[0.0; 2]; 2];
/// regard_kernels::naive::matmul((&a).into(), (&b).into(), (&mut out).into());
/// assert_eq!(out, [[4.0, 4.0], [10.0, 8.0]]);
/// ```
pub fn matmul(a: Mat<'_>, b: Mat<'_>, mut out: MatMut<'_>) {
    let ((m, k), n) = (a.shape(), b.cols());
    assert_eq!((b.rows(), out.shape()), (k, (m, n)), "the shapes do not fit");
    let (a_stride, b_stride, out_stride) = (a.stride(), b.stride(), out.stride());
    let (a, b, out) = (a.data(), b.data(), out.data_mut());
    for i in 0..m {
        for j in 0..n {
            let mut sum = 0.0;
            for t in 0..k {
                sum += a[i * a_stride + t] * b[t * b_stride + j];
            }
            out[i * out_stride + j] = sum;
        }
    }
}

/// Softmax in place. The maximum is subtracted first.
///
/// ```
/// let mut x = [1.0, 1.0];
/// regard_kernels::naive::softmax(&mut x);
/// assert_eq!(x, [0.5, 0.5]);
/// ```
pub fn softmax(x: &mut [f32]) {
    let max = x.iter().fold(f32::NEG_INFINITY, |max, x| max.max(*x));
    let mut sum = 0.0;
    for x in x.iter_mut() {
        *x = libm::expf(*x - max);
        sum += *x;
    }
    for x in x.iter_mut() {
        *x /= sum;
    }
}

/// softmax(QKᵀ/√d_k)·V, row by row. Query i sees the first `seen(i)` keys; `scores` holds one row of n_k elements.
///
/// # Panics
/// If the shapes do not fit.
///
/// ```
/// let mut out = [[0.0; 1]; 1];
/// let (q, k, v) = ([[1.0]], [[3.0], [3.0]], [[0.0], [1.0]]);
/// regard_kernels::naive::attention((&q).into(), (&k).into(), (&v).into(), (&mut out).into(), |_| 2, &mut [0.0; 2]);
/// assert_eq!(out, [[0.5]]);
/// ```
pub fn attention(
    q: Mat<'_>,
    k: Mat<'_>,
    v: Mat<'_>,
    mut out: MatMut<'_>,
    seen: impl Fn(usize) -> usize,
    scores: &mut [f32],
) {
    let scale = 1.0 / libm::sqrtf(q.cols() as f32);
    for i in 0..q.rows() {
        let scores = &mut scores[..seen(i)];
        for (j, score) in scores.iter_mut().enumerate() {
            *score = dot(q.row(i), k.row(j)) * scale;
        }
        softmax(scores);
        let out = out.row_mut(i);
        out.fill(0.0);
        for (j, weight) in scores.iter().enumerate() {
            for (out, v) in out.iter_mut().zip(v.row(j)) {
                *out += weight * v;
            }
        }
    }
}
