//! Dot product, norm and cosine similarity against `f64`.

use crate::common::{self, Random, U, assert_close, gamma};
use proptest::prelude::*;
use regard_kernels::{cosine_similarity, dot, internal::read_all, norm};

fn vector(len: usize, size: f32, seed: u64) -> Vec<f32> {
    let mut random = Random(seed);
    (0..len).map(|_| random.within(size)).collect()
}

#[test]
fn every_number_counts_once() {
    for len in [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 300, 1000] {
        let x: Vec<f32> = (0..len).map(|i| i as f32).collect(); // integers: the sum is exact in any order
        let sum = (0..len).sum::<usize>() as f32;
        assert_eq!(dot(&x, &vec![1.0; len]).unwrap(), sum, "{len} numbers");
        assert_eq!(read_all(&x), sum, "{len} numbers");
    }
    assert_eq!(dot(&[], &[]).unwrap().to_bits(), 0);
}

#[test]
fn nan_and_infinity_reach_the_result_from_every_place() {
    for len in [1, 16, 17, 64, 65, 80, 130] {
        for at in 0..len {
            let (mut x, ones) = (vec![1.0; len], vec![1.0; len]);
            x[at] = f32::NAN;
            assert!(dot(&x, &ones).unwrap().is_nan());
            assert!(norm(&x).is_nan());
            assert!(cosine_similarity(&x, &ones).unwrap().is_nan());
            x[at] = f32::NEG_INFINITY;
            assert_eq!(dot(&x, &ones).unwrap(), f32::NEG_INFINITY);
            assert_eq!(norm(&x), f32::INFINITY);
        }
    }
}

#[test]
fn norm_neither_overflows_nor_underflows() {
    assert_eq!(norm(&[]), 0.0);
    assert_eq!(norm(&[0.0, -0.0]), 0.0);
    assert_eq!(norm(&[f32::MAX]), f32::MAX);
    assert_eq!(norm(&[1e-45; 4]), 1e-45 * 2.0);
    assert_eq!(norm(&[f32::MAX, f32::MAX]), f32::INFINITY, "the true norm is no f32");
    assert_eq!(norm(&[3e-39, 4e-39]), 5e-39);
}

#[test]
fn cosine_of_known_angles() {
    assert_eq!(cosine_similarity(&[1.0, 0.0], &[0.0, 1.0]).unwrap(), 0.0);
    assert_eq!(cosine_similarity(&[3.0, 4.0], &[-3.0, -4.0]).unwrap(), -1.0);
    assert_eq!(cosine_similarity(&[0.0, 0.0], &[1.0, 1.0]).unwrap(), 0.0, "no direction");
    assert_eq!(cosine_similarity(&[], &[]).unwrap(), 0.0);
    // Roundings: 4u for the decimal numbers, 3 in the dot product, 2.5 in each norm, and 3 to combine them.
    let large = cosine_similarity(&[1e30, 2e30, 3e30], &[4e-30, 5e-30, 6e-30]).unwrap();
    assert_close(large, 32.0 / (14.0_f64 * 77.0).sqrt(), gamma(16), "cosine");
    let small = cosine_similarity(&[1e-44, 0.0], &[1e38, 1e38]).unwrap();
    assert_close(small, 0.5_f64.sqrt(), gamma(16), "cosine");
}

#[test]
fn the_cosine_of_parallel_vectors_is_not_rounded_above_one() {
    for seed in 0..200 {
        let a = vector(seed as usize + 1, 1.0, seed);
        let b: Vec<f32> = a.iter().map(|x| x * 3.0).collect();
        let opposite: Vec<f32> = b.iter().map(|x| -x).collect();
        let [along, against] = [b, opposite].map(|b| cosine_similarity(&a, &b).unwrap());
        // γₙ for the dot product, the same for both norms together, and a few roundings for products and roots.
        let least = 1.0 - gamma(2 * a.len() + 8) as f32;
        assert!((least..=1.0).contains(&along), "{along}");
        assert!((-1.0..=-least).contains(&against), "{against}");
    }
}

proptest! {
    #[test]
    fn dot_norm_and_cosine_are_within_their_bounds(
        len in 0_usize..300,
        seed: u64,
        size_a in -37_i32..37,
        size_b in -37_i32..37,
    ) {
        let (a, b) = (vector(len, 10_f32.powi(size_a), seed), vector(len, 10_f32.powi(size_b), !seed));
        let (exact, size) = common::dot(&a, &b);
        // Products below the normal range are rounded to a multiple of 2⁻¹⁴⁹ instead.
        let underflow = len as f64 * 1.5e-45;
        if size < 1e38 {
            assert_close(dot(&a, &b).unwrap(), exact, gamma(len + 1) * size + underflow, "dot");
        }

        // Half of γ from the square root, and the roundings of root and product. There is no underflow, whatever the size.
        let (norm_a, norm_b) = (common::dot(&a, &a).0.sqrt(), common::dot(&b, &b).0.sqrt());
        assert_close(norm(&a), norm_a, (gamma(len + 1) + 2.0 * U) * norm_a + 1e-45, "norm");

        if norm_a > 0.0 && norm_b > 0.0 {
            // All three sums run in f32: γ from the product, half of it from each norm, and five roundings.
            let cosine = cosine_similarity(&a, &b).unwrap();
            let exact = exact / (norm_a * norm_b);
            assert_close(cosine, exact, 2.0 * gamma(len + 6), "cosine");
            prop_assert!((-1.0..=1.0).contains(&cosine));
        }
    }

    #[test]
    fn dot_is_symmetric_and_linear_in_powers_of_two(len in 0_usize..300, seed: u64, power in -20_i32..20) {
        let (a, b) = (vector(len, 1.0, seed), vector(len, 1.0, !seed));
        let ab = dot(&a, &b).unwrap();
        prop_assert_eq!(ab.to_bits(), dot(&b, &a).unwrap().to_bits());
        // A power of two changes no mantissa, and nothing here is near underflow.
        let factor = 2_f32.powi(power);
        let scaled: Vec<f32> = a.iter().map(|x| x * factor).collect();
        prop_assert_eq!((ab * factor).to_bits(), dot(&scaled, &b).unwrap().to_bits());
    }
}
