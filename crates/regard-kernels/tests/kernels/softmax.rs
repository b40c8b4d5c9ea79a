//! Softmax with temperature against `f64`, and its limits.

use crate::common::{self, Random, U, assert_close, gamma};
use proptest::prelude::*;
use regard_kernels::{
    MatMut, Temperature, fixed, naive, softmax, softmax_rows, softmax_with_log_sum_exp,
};

const INF: f32 = f32::INFINITY;

fn run(x: &[f32], t: f32) -> (Vec<f32>, f32) {
    let mut x = x.to_vec();
    let log_sum_exp = softmax_with_log_sum_exp(&mut x, Temperature::new(t).unwrap());
    (x, log_sum_exp)
}

#[track_caller]
fn check(x: &[f32], t: f32) {
    let exact: Vec<f64> = x.iter().map(|x| f64::from(*x)).collect();
    let (weights, lse) = common::softmax(&exact, f64::from(t));
    let (found, found_lse) = run(x, t);
    let max = exact.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let n = x.len();
    // The exponent is rounded three times (difference, reciprocal, product), relative to its size. Beyond 104 the weight is 0
    // and has no error.
    let exponent =
        |x: f64| 4.0 * U * if x < max { ((max - x) / f64::from(t)).min(104.0) } else { 0.0 };
    let mean: f64 = weights.iter().zip(&exact).map(|(w, x)| w * exponent(*x)).sum();
    for ((found, weight), x) in found.iter().zip(&weights).zip(&exact) {
        // The errors of `exp` (2u each), of n sums and of the quotient. A subnormal weight may become 0.
        let tolerance = weight * (exponent(*x).exp_m1() + mean.exp_m1() + gamma(n + 8))
            + f64::from(f32::MIN_POSITIVE);
        assert_close(*found, *weight, tolerance, format_args!("weight of {x} at T = {t}"));
    }
    let size = if max.is_finite() && lse.is_finite() {
        (max / f64::from(t)).abs() + lse.abs()
    } else {
        0.0
    };
    assert_close(
        found_lse,
        lse,
        4.0 * U * size + mean.exp_m1() + gamma(n + 8),
        format_args!("log-sum-exp at T = {t}"),
    );
}

#[test]
fn a_known_row() {
    let (x, lse) = run(&[2.0, 1.0, 0.1], 1.0);
    for (x, exact) in x.iter().zip([0.659_001_1, 0.242_432_97, 0.098_565_89]) {
        // The bound of `check` with exponents up to 1.9: 4·1.9·u twice and γ₁₁, and half of the last digit of the expected
        // number.
        assert_close(*x, exact, gamma(11 + 16) * exact + 5e-8, "weight");
    }
    assert_close(lse, 2.417_03, gamma(11 + 16 + 4 * 5) + 5e-6, "log-sum-exp");
    check(&[2.0, 1.0, 0.1], 1.0);
    check(&[2.0, 1.0, 0.1], 2.0);
}

#[test]
fn no_score_and_one_score() {
    assert_eq!(run(&[], 1.0), (vec![], -INF));
    for t in [0.0, 1e-40, 0.5, 1.0, 3e38, INF] {
        assert_eq!(run(&[3.0], t).0, [1.0]);
        assert_eq!(run(&[-INF], t), (vec![0.0], -INF));
        assert_eq!(run(&[INF], t).0, [1.0]);
        assert!(run(&[f32::NAN], t).0[0].is_nan());
    }
}

#[test]
fn the_limit_of_no_temperature_is_all_weight_on_the_largest() {
    for t in [0.0, -0.0, 1e-45, 1.1e-38] {
        assert_eq!(run(&[1.0, 3.0, 2.0], t).0, [0.0, 1.0, 0.0]);
        assert_eq!(run(&[3.0, 3.0, 2.0, 3.0, 3.0], t).0, [0.25, 0.25, 0.0, 0.25, 0.25]);
        assert_eq!(run(&[-INF, -7.0], t).0, [0.0, 1.0]);
        assert_eq!(run(&[-INF, -INF], t), (vec![0.0, 0.0], -INF));
        assert_eq!(run(&[INF, 1.0, INF], t).0, [0.5, 0.0, 0.5]);
        assert_eq!(run(&[0.0, -0.0, -1.0], t).0, [0.5, 0.5, 0.0], "zeros tie, whatever their sign");
        assert!(run(&[1.0, f32::NAN, 3.0], t).0.iter().all(|x| x.is_nan()));
    }
    // max/T + ln(ties), in the limit.
    assert_eq!(run(&[1.0, 3.0], 0.0).1, INF);
    assert_eq!(run(&[-1.0, -3.0], 0.0).1, -INF);
    assert_eq!(run(&[0.0, 0.0], 0.0).1, core::f32::consts::LN_2);
}

#[test]
fn the_limit_of_infinite_temperature_is_uniform_over_what_may_be_seen() {
    assert_eq!(run(&[1.0, -1e38, 3e38, 0.0], INF), (vec![0.25; 4], 2.0 * core::f32::consts::LN_2));
    assert_eq!(run(&[1.0, -INF, 3.0], INF), (vec![0.5, 0.0, 0.5], core::f32::consts::LN_2));
    assert_eq!(run(&[1.0, INF], INF).0, [0.5, 0.5]);
    assert!(run(&[1.0, f32::NAN], INF).0.iter().all(|x| x.is_nan()));
}

#[test]
fn infinite_scores_follow_the_limit() {
    assert_eq!(run(&[1.0, INF, 3e38, INF], 1.0), (vec![0.0, 0.5, 0.0, 0.5], INF));
    assert_eq!(run(&[-INF, 5.0, -INF], 1.0), (vec![0.0, 1.0, 0.0], 5.0));
    assert_eq!(run(&[-INF; 40], 1.0), (vec![0.0; 40], -INF));
    assert_eq!(run(&[INF, -INF], 1.0).0, [1.0, 0.0]);
}

#[test]
fn nan_makes_the_row_nan_wherever_it_stands() {
    for len in [1, 15, 16, 17, 33, 50] {
        for at in 0..len {
            for other in [1.0, -INF, INF] {
                for t in [0.0, 1.0, INF] {
                    let mut x = vec![other; len];
                    x[at] = f32::NAN;
                    let (x, lse) = run(&x, t);
                    assert!(
                        x.iter().all(|x| x.is_nan()) && lse.is_nan(),
                        "{len} scores of {other}, NaN at {at}, T = {t}"
                    );
                }
            }
        }
    }
}

#[test]
fn large_and_tiny_scores() {
    check(&[3e38, 3e38, -3e38], 1.0);
    check(&[3.4e38, 3.3e38], 1.0);
    check(&[1e-45, -1e-45, 0.0], 1.0);
    check(&[1e-40, 3e-40], 2e-38);
    check(&[88.0, 89.0, -104.0, 1000.0], 1.0);
    check(&[0.0, -103.0, -103.9, -104.1, -200.0], 1.0);
}

#[test]
fn a_difference_that_is_no_f32_is_still_divided_by_the_temperature() {
    // 6e38 is not a finite `f32`, but 6e38 / 1e38 is.
    check(&[3e38, -3e38], 1e38);
    check(&[3.4e38, -3.4e38, 0.0, 1e38], 3.4e38);
    check(&[f32::MAX, f32::MIN], f32::MAX);
}

#[test]
fn temperatures_from_end_to_end() {
    for t in [f32::MIN_POSITIVE, 1e-30, 1e-3, 0.5, 2.0, 1e3, 1e30, f32::MAX] {
        check(&[1.0, 0.5, 0.0, -2.0], t);
        check(&[1.0 * t, 0.5 * t, 0.0, -2.0 * t], t);
    }
}

#[test]
fn a_temperature_of_minus_zero_is_zero() {
    assert_eq!(Temperature::new(-0.0).unwrap().get().to_bits(), 0);
    assert_eq!(Temperature::new(INF).unwrap(), Temperature::INFINITE);
}

#[test]
fn the_fixed_door_and_the_naive_loops_agree() {
    let x: [f32; 37] = core::array::from_fn(|i| (i as f32 * 0.7).sin() * 4.0);
    let (expected, _) = run(&x, 1.0);
    assert_eq!(fixed::softmax(&x, Temperature::ONE).as_slice(), expected);
    let mut naive = x;
    naive::softmax(&mut naive);
    for (a, b) in naive.iter().zip(expected) {
        // Both are within the bound of `check`, with exponents up to 8: 4·8·u twice and γ₄₅.
        assert_close(*a, f64::from(b), 2.0 * gamma(45 + 64) * f64::from(b), "weight");
    }
}

proptest! {
    #[test]
    fn any_row_at_any_temperature(len in 0_usize..200, seed: u64, size in -38_i32..38, t in -37_i32..38, hide in 0_usize..50) {
        let random = &mut Random(seed);
        let size = 10_f32.powi(size);
        let x: Vec<f32> = (0..len).map(|_| if random.chance(hide) { -INF } else { random.within(size) }).collect();
        check(&x, 10_f32.powi(t));
        check(&x, 0.0);
        check(&x, INF);
    }

    #[test]
    fn rows_sum_to_one(len in 1_usize..500, seed: u64, size in 0.0_f32..200.0, t in 0.01_f32..100.0) {
        let random = &mut Random(seed);
        let x: Vec<f32> = (0..len).map(|_| random.within(size)).collect();
        let sum: f64 = run(&x, t).0.iter().map(|x| f64::from(*x)).sum();
        // The divisor has an error of γ, and each quotient half an ULP.
        prop_assert!((sum - 1.0).abs() <= gamma(len + 1), "{}", sum - 1.0);
    }

    #[test]
    fn a_shift_of_all_scores_changes_nothing(len in 1_usize..100, seed: u64, shift in -1000_i32..1000) {
        // The scores are multiples of 2⁻¹⁰ below 2¹⁰. Shifting them is exact, so the weights must have the same bits.
        let random = &mut Random(seed);
        let x: Vec<f32> = (0..len).map(|_| (random.within(8.0) * 1024.0).round() / 1024.0).collect();
        let shifted: Vec<f32> = x.iter().map(|x| x + shift as f32).collect();
        let ((a, lse), (b, shifted_lse)) = (run(&x, 0.7), run(&shifted, 0.7));
        prop_assert_eq!(common::bits(&a), common::bits(&b));
        // ln Σ is the same too. 1/T, its product with the maximum, and the sum are rounded in both results, each relative to
        // its size.
        let moved = f64::from(shift) / f64::from(0.7_f32);
        let sizes = 2.0 * 8.0 / 0.7 + moved.abs() + f64::from(lse.abs() + shifted_lse.abs());
        assert_close(shifted_lse, f64::from(lse) + moved, 4.0 * U * sizes, "log-sum-exp");
    }

    #[test]
    fn larger_scores_get_no_smaller_weights(len in 2_usize..100, seed: u64, t in 0.01_f32..100.0) {
        let random = &mut Random(seed);
        let mut x: Vec<f32> = (0..len).map(|_| random.within(30.0)).collect();
        x.sort_by(f32::total_cmp);
        let (weights, _) = run(&x, t);
        // Differences, products and quotients are monotonic. `exp` is not: its error is within 1 ULP, which is 2u of each
        // weight. The sum is the same for both, and the product here is rounded once more.
        let limit = 1.0 + gamma(6) as f32;
        prop_assert!(weights.windows(2).all(|w| w[0] <= w[1] * limit));
    }
}

#[test]
fn rows_of_a_matrix_have_the_bits_of_softmax_alone() {
    let mut random = Random(5);
    // All remainders of rows side by side, with and without numbers after the last whole block, and rows that are too long to
    // be computed side by side.
    for (rows, cols) in [(0, 5), (3, 0), (1, 64), (4, 64), (9, 17), (6, 100), (5, 256), (7, 257)] {
        for t in [1.0, 0.3, 0.0, INF, f32::MAX] {
            let temperature = Temperature::new(t).unwrap();
            let stride = cols + 3;
            let mut x: Vec<f32> = (0..rows * stride).map(|_| random.within(4.0)).collect();
            // A row of each kind of limit.
            for (i, special) in [f32::NAN, INF, -INF].into_iter().enumerate() {
                if i < rows && cols > 0 {
                    x[i * stride + cols / 2] = special;
                }
            }
            if rows > 3 {
                x[3 * stride..][..cols].fill(-INF);
            }
            let mut expected = x.clone();
            for row in 0..if cols == 0 { 0 } else { rows } {
                softmax(&mut expected[row * stride..][..cols], temperature);
            }
            softmax_rows(MatMut::strided(&mut x, rows, cols, stride).unwrap(), temperature);
            assert_eq!(common::bits(&x), common::bits(&expected), "{rows} × {cols} at T = {t}");
        }
    }
}
