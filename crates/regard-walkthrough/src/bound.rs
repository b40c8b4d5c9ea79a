//! Bounds on the distance of numbers in single precision from the same numbers in double precision, for each element
//! of a matrix, computed alongside the numbers (running error analysis: Higham 2002, Accuracy and Stability of
//! Numerical Algorithms, sections 3.1 to 3.3).
//!
//! An operation in single precision gives its exact result times 1 + δ with |δ| ≤ u = 2⁻²⁴. A subnormal result has an additional
//! error of at most 2⁻¹⁵⁰. After n operations the factor is 1 + θ with |θ| ≤ γₙ = n·u/(1 − n·u). Each function below therefore adds
//! two parts: the propagated errors eₐ, e_b, … of its operands, and its own roundings:
//!
//! ```text
//! a ± b            eₐ + e_b                                   + u·|a ± b|
//! Σ aₜbₜ           Σ (eₐ|b| + |a|e_b + eₐe_b)                 + u·Σ (|aₜbₜ| + |partial sum t|)   in ascending order
//!                                                             + γₙ·Σ |aₜbₜ|                      in any order
//! softmax(s/T)ᵢ    every sⱼ/T may move by dⱼ = eⱼ/T + 8u·|sⱼ − max|/T + 4u: the largest and the smallest weight that this
//!                  allows are p·e^d / (p·e^d + Σ others·e^−d) and its mirror image         + γₙ₊₃·p for sum and division
//! layer norm       c = x − mean, v = mean(c²), z = c/√(v + ε): (d_c + |z|·d_√)/√(v − d_v + ε)
//! ```
//!
//! The errors of double precision are 2⁻²⁹ of these. A few more roundings are counted than occur, which covers them.

use crate::Matrix;

/// The unit roundoff u of single precision: the largest relative error of one operation.
pub(crate) const U: f64 = 1.0 / 16_777_216.0;
/// Twice the largest error of an operation whose result is subnormal: two roundings of a product and a sum.
const TINY: f64 = 1.401_298_464_324_817e-45;
/// Weights below this are flushed to 0.
const FLUSHED: f64 = 1.175_494_350_822_287_5e-38;

/// γₙ, the largest relative error of n successive operations.
pub(crate) fn gamma(n: usize) -> f64 {
    let nu = n as f64 * U;
    nu / (1.0 - nu)
}

/// The exact numbers of a matrix, and the bounds on the errors of those in single precision.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    pub exact: &'a Matrix<f64>,
    pub bound: &'a Matrix<f64>,
}

impl Known<'_> {
    /// The largest absolute value that element (i, j) may have in single precision.
    fn size(&self, i: usize, j: usize) -> f64 {
        self.exact.get(i, j).abs() + self.bound.get(i, j)
    }
}

/// One term a·b of an element of a product.
struct Term {
    /// a·b.
    value: f64,
    /// The largest |a·b| in single precision.
    size: f64,
    /// The error of a·b that follows from the errors of a and b.
    moved: f64,
}

/// Collects `add` over the terms of each element of A·B, in ascending order.
fn collected<T: Clone>(
    a: Known<'_>,
    b: Known<'_>,
    none: T,
    mut add: impl FnMut(&mut T, Term),
    result: impl Fn(&T) -> f64,
) -> Matrix<f64> {
    let mut out = Matrix::from_fn(a.exact.rows(), b.exact.cols(), |_, _| 0.0);
    let mut row = vec![none.clone(); b.exact.cols()];
    for i in 0..a.exact.rows() {
        row.fill(none.clone());
        for t in 0..a.exact.cols() {
            let (x, dx) = (a.exact.get(i, t), a.bound.get(i, t));
            for (state, (y, dy)) in row.iter_mut().zip(b.exact.row(t).iter().zip(b.bound.row(t))) {
                let y_size = y.abs() + dy;
                let moved = dx * y_size + x.abs() * dy;
                add(state, Term { value: x * y, size: (x.abs() + dx) * y_size, moved });
            }
        }
        for (out, state) in out.row_mut(i).iter_mut().zip(&row) {
            *out = result(state);
        }
    }
    out
}

/// A·B, where each element is one chain of multiply-adds in ascending order, as `regard_kernels::matmul` promises.
pub(crate) fn product(a: Known<'_>, b: Known<'_>) -> Matrix<f64> {
    let add = |[sum, error]: &mut [f64; 2], term: Term| {
        *sum += term.value;
        *error += term.moved + U * term.size;
        *error += U * (sum.abs() + *error) + TINY;
    };
    collected(a, b, [0.0; 2], add, |[_, error]| *error)
}

/// Σ |aₜ|·|bₜ| of each element of A·B, in single precision.
pub(crate) fn magnitude(a: Known<'_>, b: Known<'_>) -> Matrix<f64> {
    collected(a, b, 0.0, |sum, term| *sum += term.size, |sum| *sum)
}

/// A·B in any order of summation, with `more` extra roundings of each term and sum.
pub(crate) fn sums(a: Known<'_>, b: Known<'_>, more: usize) -> Matrix<f64> {
    let n = a.exact.cols() + more;
    let gamma = gamma(n);
    let add = |error: &mut f64, term: Term| *error += term.moved + gamma * term.size;
    collected(a, b, n as f64 * TINY, add, |error| *error)
}

/// A·B + b, where the row b is added to each row, in any order of summation.
pub(crate) fn affine(a: Known<'_>, b: Known<'_>, bias: Known<'_>) -> Matrix<f64> {
    let (sums, n) = (sums(a, b, 1), a.exact.cols() + 1);
    Matrix::from_fn(sums.rows(), sums.cols(), |i, j| {
        sums.get(i, j) + bias.bound.get(0, j) + gamma(n) * bias.size(0, j)
    })
}

/// The error of a given number x, rounded to single precision.
pub(crate) fn of_given(x: f64) -> f64 {
    if f64::from(x as f32) == x { 0.0 } else { rounded(x, 0.0) }
}

/// The error of a number x with the error `error` after one more rounding.
pub(crate) fn rounded(x: f64, error: f64) -> f64 {
    error + U * (x.abs() + error) + TINY
}

/// The error of x/y, where the quotient has `more` further roundings. It is infinite where y may be 0.
pub(crate) fn quotient([x, x_error]: [f64; 2], [y, y_error]: [f64; 2], more: usize) -> f64 {
    let (least, q) = (y.abs() - y_error, (x / y).abs());
    if least <= 0.0 {
        return f64::INFINITY;
    }
    let moved = (x_error + q * y_error) / least;
    moved + gamma(more + 1) * (q + moved) + TINY
}

pub(crate) fn root(x: f64, error: f64) -> f64 {
    let (root, least) = (x.sqrt(), (x - error).max(0.0).sqrt());
    let moved = if error == 0.0 { 0.0 } else { error / (root + least) };
    rounded(root, moved)
}

/// The errors of the softmax of a row of scores at temperature `t`. A score of −∞ is hidden. `weights` are the exact weights.
///
/// At T = 0 only the order of the scores counts. A weight is certain if the scores are further apart than their errors.
/// Otherwise it can be anything from 0 to 1.
pub(crate) fn softmax(scores: &[f64], errors: &[f64], weights: &[f64], t: f64) -> Vec<f64> {
    let is_seen = |i: usize| scores[i] > f64::NEG_INFINITY;
    let seen = || (0..scores.len()).filter(|i| is_seen(*i));
    if t == 0.0 {
        return largest_takes_all(scores, errors, weights);
    }
    let max = seen().map(|i| scores[i]).fold(f64::NEG_INFINITY, f64::max);
    let worst = seen().map(|i| errors[i]).fold(0.0, f64::max);
    // The largest error of sᵢ/T.
    let moved = |i: usize| {
        if t.is_infinite() {
            return 4.0 * U;
        }
        (errors[i] + 8.0 * U * (max - scores[i] + errors[i] + worst)) / t + 4.0 * U
    };
    let power = |i: usize, sign: f64| {
        let distance = if t.is_infinite() { 0.0 } else { (scores[i] - max) / t };
        (distance + sign * moved(i)).exp()
    };
    let [low, high] = [-1.0, 1.0].map(|sign| {
        (0..scores.len()).map(|i| if is_seen(i) { power(i, sign) } else { 0.0 }).collect::<Vec<_>>()
    });
    let [all_low, all_high] = [&low, &high].map(|powers| powers.iter().sum::<f64>());
    let share = |own: f64, others: f64| own / (own + others.max(0.0));
    let more = gamma(seen().count() + 3);
    let bound = |i: usize| {
        if !is_seen(i) {
            return 0.0;
        }
        let most = share(high[i], all_low - low[i]);
        let least = share(low[i], all_high - high[i]);
        // Powers that overflow f64 give no bound.
        let most = if most.is_nan() { 1.0 } else { most };
        let least = if least.is_nan() { 0.0 } else { least };
        (most - weights[i]).max(weights[i] - least).max(0.0) + more * most + FLUSHED
    };
    (0..scores.len()).map(bound).collect()
}

fn largest_takes_all(scores: &[f64], errors: &[f64], weights: &[f64]) -> Vec<f64> {
    let certain = (scores.iter().zip(errors)).map(|(s, e)| s - e).fold(f64::NEG_INFINITY, f64::max);
    let may_be_largest =
        |i: &usize| scores[*i] > f64::NEG_INFINITY && scores[*i] + errors[*i] >= certain;
    let largest: Vec<usize> = (0..scores.len()).filter(may_be_largest).collect();
    let are_ties = largest.iter().all(|i| errors[*i] == 0.0);
    let bound = |i: usize| match largest.contains(&i) {
        true if largest.len() > 1 && !are_ties => 1.0,
        true => U * weights[i],
        false => 0.0,
    };
    (0..scores.len()).map(bound).collect()
}

/// The mean and the variance of some numbers, each with its error: \[\[mean, error\], \[variance, error\]\].
pub(crate) fn moments(x: &[f64], errors: &[f64]) -> [[f64; 2]; 2] {
    let n = x.len() as f64;
    let [mean, variance] = crate::reference::moments(x);
    let size = x.iter().zip(errors).map(|(x, e)| x.abs() + e).sum::<f64>() / n;
    let mean_error = errors.iter().sum::<f64>() / n + gamma(2 * x.len() + 8) * size + TINY;
    let squares = |(x, e): (&f64, &f64)| {
        let (centred, error) = ((x - mean).abs(), centred(x - mean, *e, mean_error));
        [2.0 * centred * error + error * error, (centred + error) * (centred + error)]
    };
    let sums = x.iter().zip(errors).map(squares).fold([0.0; 2], |a, b| [a[0] + b[0], a[1] + b[1]]);
    [[mean, mean_error], [variance, (sums[0] + gamma(x.len() + 4) * sums[1]) / n + TINY]]
}

/// The error of x − mean, from those of x and of the mean.
fn centred(x: f64, error: f64, mean_error: f64) -> f64 {
    let moved = error + mean_error;
    moved + 2.0 * U * (x.abs() + moved)
}

/// The errors of the layer norm of one row: γ·(x − mean)/√(variance + ε) + β.
pub(crate) fn layer_norm(
    x: [&[f64]; 2],
    gamma_row: [&[f64]; 2],
    beta: [&[f64]; 2],
    epsilon: f64,
) -> Vec<f64> {
    let [[mean, mean_error], [variance, variance_error]] = moments(x[0], x[1]);
    let variance_error = rounded(variance + epsilon, variance_error);
    let deviation = (variance + epsilon).sqrt();
    let least = ((variance - variance_error).max(0.0) + epsilon).sqrt();
    let deviation_error = root(variance + epsilon, variance_error);
    let bound = |j: usize| {
        let centred_x = x[0][j] - mean;
        let z = centred_x / deviation;
        let moved = (centred(centred_x, x[1][j], mean_error) + z.abs() * deviation_error) / least;
        let z_error = moved + gamma(4) * (z.abs() + moved);
        let (gain, gain_error) = (gamma_row[0][j].abs(), gamma_row[1][j]);
        let scaled = z_error * (gain + gain_error) + z.abs() * gain_error;
        let size = z.abs() * gain + scaled + beta[0][j].abs() + beta[1][j];
        scaled + beta[1][j] + gamma(3) * size + TINY
    };
    (0..x[0].len()).map(bound).collect()
}

/// The distance of two numbers. Two hidden scores are equal, although −∞ − (−∞) is NaN.
pub(crate) fn distance(a: f64, b: f64) -> f64 {
    if a == b { 0.0 } else { (a - b).abs() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rounding_error_of_a_known_size_is_within_its_bound_and_near_it() {
        // 1 + 2⁻²⁴ in f32 is 1: half a unit in the last place, the largest error that an addition can have.
        let a = Matrix::from_rows(&[[1.0, 2.0_f64.powi(-24)]]);
        let b = Matrix::from_rows(&[[1.0], [1.0]]);
        let none = |m: &Matrix<f64>| m.map(|_| 0.0);
        let (a_bound, b_bound) = (none(&a), none(&b));
        let (a, b) = (Known { exact: &a, bound: &a_bound }, Known { exact: &b, bound: &b_bound });
        for bound in [product(a, b), sums(a, b, 0)] {
            assert!((U..4.1 * U).contains(&bound.get(0, 0)), "{}", bound.get(0, 0) / U);
        }
    }

    #[test]
    fn a_weight_moves_no_further_than_its_scores_allow() {
        let (scores, error) = ([1.0, 0.0, -2.0], 0.125);
        let weights = |s: [f64; 3]| {
            let powers = s.map(f64::exp);
            powers.map(|p| p / powers.iter().sum::<f64>())
        };
        let exact = weights(scores);
        let bounds = softmax(&scores, &[error; 3], &exact, 1.0);
        let mut worst = [0.0_f64; 3];
        for signs in 0..8 {
            let moved =
                [0, 1, 2].map(|i| scores[i] + if (signs >> i) & 1 == 1 { error } else { -error });
            for (worst, (w, e)) in worst.iter_mut().zip(weights(moved).iter().zip(exact)) {
                *worst = worst.max((w - e).abs());
            }
        }
        for (worst, bound) in worst.iter().zip(bounds) {
            assert!((*worst..worst * 1.001).contains(&bound), "{worst} {bound}");
        }
    }

    #[test]
    fn at_zero_a_weight_is_certain_where_scores_are_further_apart_than_their_errors() {
        let at_zero = |scores: [f64; 3], error, weights: [f64; 3]| {
            softmax(&scores, &[error; 3], &weights, 0.0)
        };
        assert_eq!(at_zero([1.0, 2.0, f64::NEG_INFINITY], 0.4, [0.0, 1.0, 0.0]), [0.0, U, 0.0]);
        assert_eq!(at_zero([1.0, 2.0, 0.0], 0.5, [0.0, 1.0, 0.0]), [1.0, 1.0, 0.0]);
        assert_eq!(at_zero([2.0, 2.0, 0.0], 0.0, [0.5, 0.5, 0.0]), [U / 2.0, U / 2.0, 0.0]);
    }

    #[test]
    fn layer_norm_is_badly_conditioned_where_the_variance_is_small() {
        let row = |x: &[f64]| {
            let none = [0.0; 2];
            layer_norm([x, &[1e-6; 2]], [&[1.0; 2], &none], [&[0.0; 2], &none], 1e-12)[0]
        };
        let (wide, narrow) = (row(&[-1.0, 1.0]), row(&[-1e-3, 1e-3]));
        assert!(wide < 1e-5 && narrow > 1e-4, "{wide} {narrow}");
    }
}
