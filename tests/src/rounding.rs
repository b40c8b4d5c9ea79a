//! Bounds on the distance of `f32` from exact arithmetic, for tests.

/// γₙ = n·u / (1 − n·u), the largest relative error of n roundings to `f32`; u is 2⁻²⁴.
///
/// They change a sum of products by at most γₙ·Σ |aᵢbᵢ|, in any order of addition (Higham, Accuracy and Stability of
/// Numerical Algorithms, 3.1).
pub fn gamma(n: usize) -> f64 {
    let nu = n as f64 * f64::from(f32::EPSILON) / 2.0;
    nu / (1.0 - nu)
}

/// The largest relative error of a softmax weight among `keys`, for dot products over `d` features whose sum of magnitudes is
/// at most `size` after the scale.
///
/// A score has d products, d additions and the scale, and three more roundings before the exponential (difference, temperature,
/// product). It occurs in the numerator and in the sum. Two exponentials of at most one ULP (2 u), the sum's additions and the
/// division follow.
pub fn weight_error(keys: usize, d: usize, size: f64) -> f64 {
    4.0 * gamma(d + 5) * size + gamma(keys + 5)
}

/// Whether softmax weights sum to 1 up to rounding: the kernel's own sum, this one, and a division for each weight.
pub fn sums_to_one(weights: &[f32]) -> bool {
    (weights.iter().sum::<f32>() - 1.0).abs() <= gamma(2 * weights.len() + 2) as f32
}
