//! The temperatures of sliders and of curves.

use core::ops::RangeInclusive;

use regard_kernels::Temperature;

/// The range of the slider and of the curves, in powers of ten.
pub const DECADES: RangeInclusive<f64> = -2.0..=2.0;
/// `points` temperatures over the range [`DECADES`], with their exponents.
pub fn sampled(points: usize) -> (Vec<f64>, Vec<Temperature>) {
    let exponents = (0..points).map(|i| {
        let share = i as f64 / (points - 1) as f64;
        (1.0 - share) * DECADES.start() + share * DECADES.end()
    });
    exponents.filter_map(|e| Some((e, Temperature::new(10f64.powf(e) as f32).ok()?))).unzip()
}
