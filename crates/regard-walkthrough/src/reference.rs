//! The same mathematics in double precision and plain loops, as the reference for the kernels' numbers.

use crate::Matrix;

pub(crate) fn matmul(a: &Matrix<f64>, b: &Matrix<f64>) -> Matrix<f64> {
    let mut out = Matrix::from_fn(a.rows(), b.cols(), |_, _| 0.0);
    for i in 0..a.rows() {
        for (t, x) in a.row(i).iter().enumerate() {
            for (sum, y) in out.row_mut(i).iter_mut().zip(b.row(t)) {
                *sum += x * y;
            }
        }
    }
    out
}

/// A·Bᵀ.
pub(crate) fn matmul_transposed(a: &Matrix<f64>, b: &Matrix<f64>) -> Matrix<f64> {
    Matrix::from_fn(a.rows(), b.rows(), |i, j| dot(a.row(i), b.row(j)))
}

pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(crate) fn norm(x: &[f64]) -> f64 {
    dot(x, x).sqrt()
}

/// cos θ, or 0 for a zero vector, as in the kernel.
pub(crate) fn cosine(x: &[f64], y: &[f64]) -> f64 {
    let lengths = norm(x) * norm(y);
    if lengths == 0.0 { 0.0 } else { dot(x, y) / lengths }
}

/// Layer norm of one row, with the variance of all its numbers: (x − mean) / √(variance + ε).
pub(crate) fn normalized(row: &mut [f64], epsilon: f64) {
    let [mean, variance] = moments(row);
    for x in row {
        *x = (*x - mean) / (variance + epsilon).sqrt();
    }
}

/// The mean and the variance of some numbers.
pub(crate) fn moments(x: &[f64]) -> [f64; 2] {
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    [mean, x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n]
}

/// Softmax of one row at temperature `t`, with 0 and ∞ as limits.
pub(crate) fn softmax(row: &mut [f64], t: f64) {
    let max = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for x in row.iter_mut() {
        *x = if *x == f64::NEG_INFINITY {
            0.0
        } else if t == 0.0 {
            f64::from(u8::from(*x == max))
        } else if t == f64::INFINITY {
            1.0
        } else {
            ((*x - max) / t).exp()
        };
    }
    let sum: f64 = row.iter().sum();
    if sum > 0.0 {
        for x in row {
            *x /= sum;
        }
    }
}
