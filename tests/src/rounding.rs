//! How far `f32` may be from exact arithmetic: the limits that tests compare with.

/// γₙ = n·u / (1 − n·u), the largest relative error of n roundings to `f32`; u is 2⁻²⁴.
///
/// They change a sum of products by at most γₙ·Σ |aᵢbᵢ|, in whatever order they are added (Higham, Accuracy and Stability of
/// Numerical Algorithms, 3.1).
pub fn gamma(n: usize) -> f64 {
    let nu = n as f64 * f64::from(f32::EPSILON) / 2.0;
    nu / (1.0 - nu)
}

/// The largest relative error of a softmax weight among `keys`, for dot products over `d` features whose sum of magnitudes is
/// at most `size` after the scale.
///
/// A score takes d products, d additions and the scale, and loses three more roundings on its way into the exponential
/// (difference, temperature, product). It stands in the numerator and in the sum. Two exponentials of at most one ULP (2 u), the
/// sum's additions and the division follow.
pub fn weight_error(keys: usize, d: usize, size: f64) -> f64 {
    4.0 * gamma(d + 5) * size + gamma(keys + 5)
}

/// Whether softmax weights sum to 1, but for rounding: the kernel's own sum, this one, and a division for each weight.
pub fn sums_to_one(weights: &[f32]) -> bool {
    (weights.iter().sum::<f32>() - 1.0).abs() <= gamma(2 * weights.len() + 2) as f32
}
