//! Gradients of softmax alone.

use regard_kernels::{Temperature, dot, with_default_environment};

use crate::error::{Error, check_shape};
use crate::gradient::inverse;
use crate::view::zeros;

/// The gradient of a loss with respect to scores \[n\], from its gradient with respect to their softmax.
///
/// With the weights p, which are the softmax of the scores at temperature t, dsᵢ = pᵢ·(dpᵢ − Σⱼ pⱼ·dpⱼ) / t. This is the
/// product of dp with the [Jacobian](softmax_jacobian).
///
/// # Errors
/// [`Error::Shape`] if the two differ in length. A temperature below 2⁻¹²⁶ is refused, because softmax has no slope at 0.
///
/// ```
/// use regard::Temperature;
/// let d_scores = regard::softmax_backward(&[0.5, 0.5], &[1.0, 0.0], Temperature::ONE)?;
/// assert_eq!(d_scores, [0.25, -0.25]);
/// # Ok::<(), regard::Error>(())
/// ```
pub fn softmax_backward(
    weights: &[f32],
    d_weights: &[f32],
    t: Temperature,
) -> Result<Vec<f32>, Error> {
    check_shape(
        "the gradient of the weights",
        &[d_weights.len()],
        &[weights.len()],
        "as many as weights",
    )?;
    with_default_environment(|| {
        let (inverse, mean) = (inverse(t)?, dot(weights, d_weights)?);
        Ok(weights.iter().zip(d_weights).map(|(p, d)| p * (d - mean) * inverse).collect())
    })
}

/// The Jacobian \[n, n\] of softmax at temperature t, from its weights \[n\]: ∂pᵢ/∂sⱼ = pᵢ·(δᵢⱼ − pⱼ) / t. It is symmetric, and
/// each row adds up to 0.
///
/// # Errors
/// [`Error::Memory`] if n² numbers do not fit in memory. A temperature is refused as in [`softmax_backward`].
///
/// ```
/// use regard::Temperature;
/// assert_eq!(regard::softmax_jacobian(&[0.5, 0.5], Temperature::ONE)?, [0.25, -0.25, -0.25, 0.25]);
/// # Ok::<(), regard::Error>(())
/// ```
pub fn softmax_jacobian(weights: &[f32], t: Temperature) -> Result<Vec<f32>, Error> {
    let n = weights.len();
    let mut jacobian = zeros("the Jacobian", &[n, n])?;
    with_default_environment(|| {
        let inverse = inverse(t)?;
        for (i, (row, p)) in jacobian.chunks_exact_mut(n.max(1)).zip(weights).enumerate() {
            for (j, (x, other)) in row.iter_mut().zip(weights).enumerate() {
                *x = p * (if i == j { 1.0 } else { 0.0 } - other) * inverse;
            }
        }
        Ok(jacobian)
    })
}
