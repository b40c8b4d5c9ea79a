//! Layers in integers. Linear layers and embeddings are compared bit for bit with the same definition in wide integers, and
//! requantization and norms with `f64` within a bound.

use crate::common::Random;
use proptest::prelude::*;
use regard_kernels::int8::{Embedding, Linear, Norm, divide_by_power, narrow, requantize};

/// gemmlowp's definition of [`requantize`] in wide integers: `SaturatingRoundingDoublingHighMul` of the saturated x · 2^e, then
/// `RoundingDivideByPOT`.
fn gemmlowp(x: i32, mantissa: i32, exponent: i32) -> i32 {
    let saturated = |x: i128| x.clamp(i128::from(i32::MIN), i128::from(i32::MAX));
    let shifted = saturated(i128::from(x) << exponent.clamp(0, 31));
    let high = saturated((shifted * i128::from(mantissa) + (1 << 30)).div_euclid(1 << 31));
    let divisor = 1_i128 << exponent.saturating_neg().clamp(0, 31);
    let (magnitude, sign) = (high.abs(), high.signum());
    ((magnitude + divisor / 2) / divisor * sign) as i32
}

#[test]
fn products_are_within_a_unit_of_the_real_ones() {
    let mut random = numbers(1);
    for _ in 0..100_000 {
        let (x, mantissa, exponent) = (random() >> 8, random(), random() % 7);
        let exact = f64::from(x) * f64::from(mantissa) * f64::from(exponent - 31).exp2();
        // The error is half a unit of the first rounding, which the second one divides by a power of two or leaves, and half a
        // unit of the second.
        assert!((f64::from(requantize(x, mantissa, exponent)) - exact).abs() <= 1.0);
    }
}

#[test]
fn products_stay_within_32_bits() {
    assert_eq!(requantize(i32::MAX, i32::MAX, 31), i32::MAX - 1);
    assert_eq!(requantize(i32::MIN, i32::MIN, 0), i32::MAX);
    assert_eq!(requantize(i32::MIN, i32::MAX, 5), -i32::MAX);
    assert_eq!(requantize(1, i32::MAX, i32::MIN), 0);
    assert_eq!(requantize(0, i32::MAX, i32::MAX), 0);
}

#[test]
fn quotients_round_halves_away_from_zero() {
    for (x, quotient) in [(-6, -2), (-5, -1), (-2, -1), (-1, 0), (1, 0), (2, 1), (5, 1), (6, 2)] {
        assert_eq!(divide_by_power(x, 2), quotient, "{x}");
    }
    assert_eq!(divide_by_power(i32::MIN, 0), i32::MIN);
}

proptest! {
    #[test]
    fn requantization_is_that_of_gemmlowp(
        x in any::<i32>(),
        mantissa in any::<i32>(),
        exponent in -40..40_i32,
    ) {
        prop_assert_eq!(requantize(x, mantissa, exponent), gemmlowp(x, mantissa, exponent));
    }

    /// Inputs with and without whole words and parts, outputs with and without whole blocks, and rows with and without whole
    /// groups.
    #[test]
    fn linear_layers_are_exact(
        (rows, inputs, outputs) in (1_usize..8, 0_usize..300, 0_usize..40),
        biased in any::<bool>(),
        exponent in -12..3_i32,
        seed in any::<u64>(),
    ) {
        let mut random = numbers(seed);
        let x: Vec<i8> = (0..rows * inputs).map(|_| random() as i8).collect();
        let weight: Vec<i8> = (0..inputs * outputs).map(|_| random() as i8).collect();
        let bias: Vec<i32> = (0..if biased { outputs } else { 0 }).map(|_| random() >> 12).collect();
        let mantissas: Vec<i32> = (0..outputs).map(|_| random()).collect();
        let mut out = vec![7; rows * outputs];
        let layer = Linear { weight: &weight, bias: &bias, mantissas: &mantissas, exponent };
        layer.forward(&x, &mut out).unwrap();
        for (place, out) in out.iter().enumerate() {
            let (row, i) = (place / outputs, place % outputs);
            let (x, w) = (&x[row * inputs..][..inputs], &weight[i * inputs..][..inputs]);
            let products: i32 = x.iter().zip(w).map(|(x, w)| i32::from(*x) * i32::from(*w)).sum();
            let sum = products + bias.get(i).unwrap_or(&0);
            prop_assert_eq!(*out, gemmlowp(sum, mantissas[i], exponent), "row {}, output {}", row, i);
        }
    }

    /// RMS norms and layer norms, of two rows.
    #[test]
    fn norms_are_close(width in 1_usize..80, centers in any::<bool>(), seed in any::<u64>()) {
        let mut random = numbers(seed);
        let x: Vec<i32> = (0..2 * width).map(|_| random() >> 8).collect();
        let mantissas: Vec<i32> = (0..width).map(|_| random() >> 1).collect();
        let beta: Vec<i32> = (0..if centers { width } else { 0 }).map(|_| random() >> 18).collect();
        let mut out = vec![0; x.len()];
        // γ / scale is up to 32.
        let exponent = if centers { -3 } else { -11 };
        let norm = Norm { mantissas: &mantissas, exponent, epsilon: 9, beta: &beta };
        norm.apply(&x, &mut out).unwrap();
        let mut in_place = x.clone();
        norm.apply_in_place(&mut in_place).unwrap();
        let rows = x.chunks(width).zip(out.chunks(width)).zip(in_place.chunks(width));
        for ((x, out), in_place) in rows {
            let center = if centers { x.iter().map(|x| f64::from(*x)).sum::<f64>() / width as f64 } else { 0.0 };
            let mean = x.iter().map(|x| (f64::from(*x) - center).powi(2)).sum::<f64>() / width as f64;
            let root = (mean + 9.0).sqrt();
            for (i, (x, out)) in x.iter().zip(out).enumerate() {
                let factor = f64::from(mantissas[i]) * 2_f64.powi(-31 - 11 + 16);
                let normed = (f64::from(*x) - center) / root;
                let beta = beta.get(i).map_or(0.0, |beta| f64::from(*beta) / 256.0);
                let unclipped = normed * factor + beta;
                let exact = unclipped.clamp(-128.0, 127.0);
                // The mean of x is rounded by less than 1; the mean of squares is rounded down by less than 1, and so is the
                // root. The error of the reciprocal is a unit of 2⁻⁴⁶, that of the quotient half a unit of 2⁻¹⁶, and that of
                // the result twice ½.
                let (center, squares) = if centers { (1.0 / root, 1.0) } else { (0.0, 0.5) };
                let relative =
                    1.0 / (root - 1.0).max(1.0) + squares / mean.max(1.0) + root * 2_f64.powi(-46);
                let bound =
                    (normed * factor).abs() * relative + factor.abs() * (center + 2_f64.powi(-17)) + 1.0;
                prop_assert!((f64::from(*out) - exact).abs() <= bound, "{} instead of {}", out, exact);
                // In place, the outputs of a layer norm have the unit of β, and only the results of `requantize` are rounded.
                let unit = if centers { 256.0 } else { 1.0 };
                let (exact, bound) = (unclipped * unit, (bound - 1.0) * unit + 1.0);
                let found = f64::from(in_place[i]);
                prop_assert!((found - exact).abs() <= bound, "{} instead of {}", found, exact);
            }
        }
    }
}

fn numbers(seed: u64) -> impl FnMut() -> i32 {
    let mut random = Random(seed);
    move || random.next() as i32
}

#[test]
fn an_embedding_is_a_row_in_its_scale() {
    let rows: Vec<i8> = (0_i32..15).map(|i| (i * 17 - 120) as i8).collect();
    let mantissas = [1 << 30, -1 << 29, i32::MAX];
    let table = Embedding { rows: &rows, mantissas: &mantissas, exponent: 3 };
    for (token, mantissa) in mantissas.into_iter().enumerate() {
        let mut out = [9; 5];
        table.row(token, &mut out).unwrap();
        let row = &rows[5 * token..5 * token + 5];
        assert_eq!(
            out.to_vec(),
            row.iter().map(|x| gemmlowp(i32::from(*x), mantissa, 3)).collect::<Vec<_>>()
        );
    }
    let mut out = [9; 5];
    table.row(3, &mut out).unwrap();
    assert_eq!(out, [0; 5], "a token that does not exist");
}

#[test]
fn numbers_are_kept_within_8_bits() {
    assert_eq!([i32::MIN, -129, -128, 0, 127, 128].map(narrow), [-128, -128, -128, 0, 127, 127]);
}
