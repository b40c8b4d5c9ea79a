//! Helpers for several tests.

/// The unit roundoff of `f32`: the rounding error of one operation, relative to its result.
pub const U: f64 = f32::EPSILON as f64 / 2.0;

/// Pseudo-random numbers between −1 and 1, the same on every machine.
pub fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| 2.0 * random.f32() - 1.0).collect()
}

pub fn bits(x: &(impl AsRef<[f32]> + ?Sized)) -> Vec<u32> {
    x.as_ref().iter().map(|x| x.to_bits()).collect()
}
