//! The conversion of logits to probabilities.

use crate::{Description, Error, OutputHead, Problem};

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

impl Description {
    /// The probability of each token or of each class, from the logits of one position: their softmax in f64, with the largest
    /// logit subtracted. Classes of which several may hold, and a single class, have the sigmoid of their own logit each, as in
    /// transformers' pipelines. `None` for a regression, whose logits are the numbers that it predicts.
    ///
    /// ```
    /// use regard_models::{Checkpoint, Description, Problem, OutputHead};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let mut vit = Description::of(&Checkpoint::open(format!("{models}/tiny-vit"))?)?;
    /// assert_eq!(vit.probabilities(&[2.0, 2.0]).unwrap(), [0.5, 0.5]);
    /// let OutputHead::Classes { problem, .. } = &mut vit.head else { unreachable!() };
    /// *problem = Problem::AnyOf;
    /// assert_eq!(vit.probabilities(&[0.0, 1e9]).unwrap(), [0.5, 1.0]);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn probabilities(&self, logits: &[f32]) -> Option<Vec<f64>> {
        match self.head {
            OutputHead::Classes { problem: Problem::Regression, .. } => None,
            OutputHead::Classes { problem, .. }
                if problem == Problem::AnyOf || logits.len() == 1 =>
            {
                Some(logits.iter().map(|x| (1.0 + f64::from(-x).exp()).recip()).collect())
            }
            _ => Some(softmax(logits)),
        }
    }
}

fn softmax(logits: &[f32]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let weights: Vec<f64> =
        logits.iter().map(|x| (f64::from(*x) - f64::from(largest)).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}
