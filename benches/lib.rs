//! What the benchmarks share.

#![forbid(unsafe_code)]

/// Numbers between −1 and 1 that do not repeat soon (Weyl's sequence): inputs whose values do not matter.
pub fn numbers(len: usize, seed: f64) -> Vec<f32> {
    (0..len).map(|i| ((i as f64 * 0.618_033_988_75 + seed).fract() * 2.0 - 1.0) as f32).collect()
}
