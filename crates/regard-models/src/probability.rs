//! From logits to probabilities.

/// softmax(logits) in f64, with the largest logit subtracted. Empty for no logits.
///
/// ```
/// use regard_models::probabilities;
/// assert_eq!(probabilities(&[2.0, 2.0]), [0.5, 0.5]);
/// ```
pub fn probabilities(logits: &[f32]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> = logits.iter().map(|x| f64::from(x - largest).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}
