use regard_kernels::{Temperature, softmax};

use crate::Matrix;

/// Softmax at several temperatures, for a plot: a row for each temperature, a column for each score.
///
/// ```
/// use regard_kernels::Temperature;
/// let curve = regard_walkthrough::softmax_curve(&[2.0, 1.0], &[Temperature::ZERO, Temperature::INFINITE]);
/// assert_eq!(curve.as_slice(), [1.0, 0.0, 0.5, 0.5]);
/// ```
pub fn softmax_curve(scores: &[f32], temperatures: &[Temperature]) -> Matrix {
    let mut curve = Matrix::from_fn(temperatures.len(), scores.len(), |_, j| scores[j]);
    for (i, temperature) in temperatures.iter().enumerate() {
        softmax(curve.row_mut(i), *temperature);
    }
    curve
}
