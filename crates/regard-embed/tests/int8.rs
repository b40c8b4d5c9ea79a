//! The integer arithmetic against `f64`.

use regard_embed::int8::{divide_by_power, multiply, silu};

#[test]
fn products_are_within_a_unit_of_the_real_ones() {
    let mut state = 1_u64;
    let mut random = || {
        // Knuth's MMIX.
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 32) as i32
    };
    for _ in 0..100_000 {
        let (x, mantissa, exponent) = (random() >> 8, random(), random() % 7);
        let exact = f64::from(x) * f64::from(mantissa) * f64::from(exponent - 31).exp2();
        // Half a unit of the first rounding, which the second one divides by a power of two or leaves, and half of the second.
        assert!((f64::from(multiply(x, mantissa, exponent)) - exact).abs() <= 1.0);
    }
}

#[test]
fn products_stay_within_32_bits() {
    assert_eq!(multiply(i32::MAX, i32::MAX, 31), i32::MAX - 1);
    assert_eq!(multiply(i32::MIN, i32::MIN, 0), i32::MAX);
    assert_eq!(multiply(i32::MIN, i32::MAX, 5), -i32::MAX);
    assert_eq!(multiply(1, i32::MAX, i32::MIN), 0);
    assert_eq!(multiply(0, i32::MAX, i32::MAX), 0);
}

#[test]
fn quotients_round_halves_away_from_zero() {
    for (x, quotient) in [(-6, -2), (-5, -1), (-2, -1), (-1, 0), (1, 0), (2, 1), (5, 1), (6, 2)] {
        assert_eq!(divide_by_power(x, 2), quotient, "{x}");
    }
    assert_eq!(divide_by_power(i32::MIN, 0), i32::MIN);
}

#[test]
fn silu_is_close_everywhere() {
    for x in (-(40 << 12)..(40 << 12)).step_by(7) {
        let real = f64::from(x) / 4096.0;
        let exact = real / (1.0 + (-real).exp());
        // σ is off by 4.7e-5 between entries, by half a unit of 2⁻¹⁵ in an entry and in the fraction, or by 4.6e-5 beyond ±10;
        // the result by half a unit of 2⁻¹².
        let bound = real.abs() * (4.7e-5 + 3.1e-5) + 1.3e-4;
        assert!((f64::from(silu(x)) / 4096.0 - exact).abs() <= bound, "{real}");
    }
}
