//! Measures of a row of weights.

/// The entropy in nats, where 0·ln 0 is 0. Masked cells do not count. The entropy of a row with NaN is NaN.
pub(crate) fn entropy(weights: &[f32]) -> f64 {
    -seen(weights).filter(|p| *p != 0.0).map(|p| p * p.ln()).sum::<f64>()
}

/// The share of a gradient that passes softmax: the Frobenius norm of its Jacobian. Masked cells do not count.
pub(crate) fn gradient_norm(weights: &[f32], t: f64) -> f64 {
    regard_walkthrough::softmax_gradient_norm(seen(weights), t)
}

/// The weights from the largest to the smallest, without masked cells.
pub(crate) fn sorted(weights: &[f32]) -> Vec<f32> {
    let mut sorted: Vec<f32> = weights.iter().copied().filter(|p| *p >= 0.0).collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted
}

fn seen(weights: &[f32]) -> impl Iterator<Item = f64> {
    weights.iter().filter(|p| **p != f32::NEG_INFINITY).map(|p| f64::from(*p))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASKED: f32 = f32::NEG_INFINITY;

    #[test]
    fn entropy_of_even_weights_is_the_logarithm_of_their_number() {
        assert!((entropy(&[0.25; 4]) - 4_f64.ln()).abs() < 1e-12);
        assert!((entropy(&[0.5, MASKED, 0.5, 0.0]) - 2_f64.ln()).abs() < 1e-12);
        assert_eq!(entropy(&[1.0, 0.0]), 0.0);
    }

    #[test]
    fn the_norm_is_that_of_the_jacobian() {
        for (weights, t) in
            [(vec![0.7, 0.2, 0.1], 0.5_f32), (vec![0.25; 4], 2.0), (vec![1.0, 0.0], 1.0)]
        {
            let temperature = regard::Temperature::new(t).unwrap_or_default();
            let jacobian = regard::softmax_jacobian(&weights, temperature).unwrap_or_default();
            let norm = jacobian.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            assert!((gradient_norm(&weights, f64::from(t)) - norm).abs() < 1e-6, "{weights:?}");
        }
        assert_eq!(gradient_norm(&[1.0, 0.0], 0.0), 0.0);
    }

    #[test]
    fn a_row_with_nan_is_not_taken_for_a_sharp_one() {
        assert!(entropy(&[f32::NAN, 0.5]).is_nan() && gradient_norm(&[f32::NAN; 3], 1.0).is_nan());
    }

    #[test]
    fn masked_weights_are_not_sorted_in() {
        assert_eq!(sorted(&[0.1, MASKED, 0.6, 0.3]), [0.6, 0.3, 0.1]);
    }
}
