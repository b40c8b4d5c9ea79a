//! The activations in integers against `f64`.

use regard_embed::int8::{gelu, silu};

/// Φ, by Simpson's rule from 0 on.
fn normal(x: f64) -> f64 {
    let density = |x: f64| (-0.5 * x * x).exp() / core::f64::consts::TAU.sqrt();
    let step = x / 512.0;
    let inner: f64 =
        (1..512).map(|i| (2 + 2 * (i % 2)) as f64 * density(f64::from(i) * step)).sum();
    0.5 + (density(0.0) + inner + density(x)) * step / 3.0
}

#[test]
fn activations_are_close_everywhere() {
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    // The factor σ or Φ has an error between the table's entries, and beyond the last one.
    for (of, function, factor, between) in [
        ("silu", silu as fn(i32) -> i32, &sigmoid as &dyn Fn(f64) -> f64, 4.7e-5),
        ("gelu", gelu, &normal, 1.2e-4),
    ] {
        for x in (-(40 << 12)..(40 << 12)).step_by(7) {
            let real = f64::from(x) / 4096.0;
            let exact = real * factor(real.clamp(-12.0, 12.0));
            // The factor also has an error of half a unit of 2⁻¹⁵ in an entry and in the fraction, and the result one of half a
            // unit of 2⁻¹².
            let bound = real.abs() * (between + 3.1e-5) + 1.3e-4;
            assert!((f64::from(function(x)) / 4096.0 - exact).abs() <= bound, "{of}({real})");
        }
    }
}
