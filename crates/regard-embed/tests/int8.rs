//! The activation in integers against `f64`.

use regard_embed::int8::silu;

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
