//! Activation functions against `f64`, in units of the last place.

#![expect(clippy::print_stdout, reason = "errors are measured")]

use crate::common::{Random, bits, is_fused};
use regard_kernels::{Tier, gelu, gelu_tanh, relu, silu, tanh};

const INF: f32 = f32::INFINITY;
/// The largest relative size of one ULP.
const ULP: f64 = 1.192_092_895_507_812_5e-7;

/// The distance in ULP from the exact value. A result that is subnormal, or whose factor is, may be 0.
fn error(found: f32, exact: f64, share: f64) -> f64 {
    if found == 0.0 && share < f64::from(f32::MIN_POSITIVE) {
        return 0.0;
    }
    let exponent = exact.abs().max(f64::from(f32::MIN_POSITIVE)).log2().floor() as i32;
    (f64::from(found) - exact).abs() / 2_f64.powi(exponent - 23)
}

/// The finite floats whose bits are multiples of a prime, and many of the size that networks produce.
fn sample() -> Vec<f32> {
    let random = &mut Random(11);
    let all =
        (0..=u32::MAX).step_by(if cfg!(miri) { 99_999_989 } else { 4999 }).map(f32::from_bits);
    let seen = (0..if cfg!(miri) { 20 } else { 400_000 }).map(|_| random.within(20.0));
    all.filter(|x| x.is_finite()).chain(seen).collect()
}

fn check(name: &str, f: fn(&mut [f32]), share: fn(f64) -> f64, limit: impl Fn(f64) -> f64) {
    check_at(&sample(), name, f, share, limit);
}

/// The largest error of `f`, as a share of the limit. The limit is in ULP.
fn check_at(
    x: &[f32],
    name: &str,
    f: fn(&mut [f32]),
    share: fn(f64) -> f64,
    limit: impl Fn(f64) -> f64,
) {
    let mut found = x.to_vec();
    f(&mut found);
    let (mut largest, mut at) = (0.0, 0.0);
    for (x, found) in x.iter().zip(&found) {
        let exact = f64::from(*x);
        let share = share(exact);
        let error = error(*found, exact * share, share) / limit(exact);
        if error > largest || error.is_nan() {
            (largest, at) = (error, *x);
        }
    }
    println!(
        "{}: {name} is within {largest:.3} of its limit, which it comes closest to at {at:e}",
        Tier::active().name()
    );
    assert!(largest <= 1.0, "{name}({at:e})");
}

fn gelu_share(x: f64) -> f64 {
    0.5 * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2)
}

fn sigmoid(x: f64) -> f64 {
    if x > 0.0 { 1.0 / (1.0 + (-x).exp()) } else { x.exp() / (1.0 + x.exp()) }
}

fn tanh_argument(x: f64) -> f64 {
    2.0 * (2.0 / core::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)
}

fn gelu_limit() -> impl Fn(f64) -> f64 {
    let fused = is_fused();
    // Without fused multiply-add the rounding error of the square is lost.
    move |x| 7.0 + if fused || x > 0.0 { 0.0 } else { x * x / 2.0 }
}

#[test]
fn gelu_is_within_7_ulp() {
    check("GELU", gelu, gelu_share, gelu_limit());
}

#[test]
#[ignore = "3·10⁸ floats: half a minute in release"]
fn gelu_is_within_7_ulp_everywhere() {
    // Below this range σ is ½ to all but two bits, and above it 0 or 1.
    for start in (2_f32.powi(-14).to_bits()..16_f32.to_bits()).step_by(1 << 20) {
        let x: Vec<f32> = (start..start + (1 << 20))
            .flat_map(|bits| [bits, bits | (1 << 31)])
            .map(f32::from_bits)
            .collect();
        check_at(&x, "GELU", gelu, gelu_share, gelu_limit());
    }
}

#[test]
fn silu_is_within_4_ulp() {
    check("SiLU", silu, sigmoid, |_| 4.0);
}

#[test]
fn the_tanh_form_of_gelu_is_as_exact_as_its_argument() {
    check(
        "GELU by tanh",
        gelu_tanh,
        |x| sigmoid(tanh_argument(x)),
        |x| 4.0 + 3.0 * tanh_argument(x).abs(),
    );
    // The result also fits the formula ½x·(1 + tanh …).
    for i in -600..600 {
        let x = f64::from(i) / 100.0;
        let formula = 0.5 * x * (1.0 + (tanh_argument(x) / 2.0).tanh());
        let mut found = [x as f32];
        gelu_tanh(&mut found);
        assert!((f64::from(found[0]) - formula).abs() <= 4.0 * ULP * x.abs(), "{x}");
    }
}

#[test]
fn tanh_is_within_2_ulp() {
    check("tanh", tanh, |x| if x == 0.0 { 1.0 } else { x.tanh() / x }, |_| 2.0);
    let mut x = [0.0, -0.0, INF, -INF, f32::NAN, f32::MAX, f32::MIN, 1e-40];
    tanh(&mut x);
    assert_eq!(x[..4], [0.0, 0.0, 1.0, -1.0]);
    assert!(x[1].is_sign_negative() && x[4].is_nan());
    assert_eq!(x[5..], [1.0, -1.0, 1e-40]);
}

#[test]
fn special_values() {
    type Function = fn(&mut [f32]);
    for f in [gelu as Function, gelu_tanh, silu, relu] {
        let mut x = [0.0, INF, -INF, f32::NAN, f32::MAX, f32::MIN, -1e20, 1e20];
        f(&mut x);
        assert_eq!(x[..3], [0.0, INF, 0.0]);
        assert!(x[3].is_nan());
        assert_eq!(x[4..], [f32::MAX, 0.0, 0.0, 1e20]);
        f(&mut []);
    }
    let mut x = [-2.0, -0.0, 0.5];
    relu(&mut x);
    assert_eq!(x, [0.0, 0.0, 0.5]);
}

#[test]
fn an_element_is_the_same_among_any_number_of_elements() {
    let random = &mut Random(12);
    let x: Vec<f32> = (0..50).map(|_| random.within(8.0)).collect();
    for f in [gelu, gelu_tanh, silu, relu, tanh] {
        let mut whole = x.clone();
        f(&mut whole);
        for len in 0..x.len() {
            let mut some = x[..len].to_vec();
            f(&mut some);
            assert_eq!(bits(&some), bits(&whole[..len]), "{len} elements");
        }
    }
}
