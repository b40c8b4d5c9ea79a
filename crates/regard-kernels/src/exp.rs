use crate::simd::{Kernel, Simd, dispatch, exp as exp_of_lanes};

/// eˣ of every element, in place: within 1 ULP for every `f32`, subnormal results included.
///
/// The largest error over all floats is 0.875 ULP with fused multiply-add, 0.894 without. NaN stays NaN.
///
/// ```
/// let mut x = [0.0, 1.0, f32::NEG_INFINITY, 100.0];
/// regard_kernels::exp(&mut x);
/// assert_eq!(x, [1.0, core::f32::consts::E, 0.0, f32::INFINITY]);
/// ```
pub fn exp(x: &mut [f32]) {
    struct Exp<'a>(&'a mut [f32]);
    impl Kernel for Exp<'_> {
        type Output = ();

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) {
            let (blocks, rest) = self.0.as_chunks_mut();
            for lanes in blocks {
                simd.store(exp_of_lanes(simd, simd.load(lanes)), lanes);
            }
            if !rest.is_empty() {
                simd.store_first(exp_of_lanes(simd, simd.load_or(rest, 0.0)), rest);
            }
        }
    }
    dispatch(Exp(x));
}
