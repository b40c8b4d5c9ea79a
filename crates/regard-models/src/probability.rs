//! The conversion of logits to probabilities.

use crate::Error;

/// `Ok` if no logit is NaN.
///
/// # Errors
/// [`Error::Nan`].
///
/// ```
/// use regard_models::check_logits;
/// assert!(check_logits(&[1.0, f32::NEG_INFINITY]).is_ok());
/// assert!(check_logits(&[1.0, f32::NAN]).is_err());
/// ```
pub fn check_logits(logits: &[f32]) -> Result<(), Error> {
    let Some(first) = logits.iter().position(|x| x.is_nan()) else { return Ok(()) };
    let count = logits.iter().filter(|x| x.is_nan()).count();
    Err(Error::Nan { count, of: logits.len(), first })
}

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
