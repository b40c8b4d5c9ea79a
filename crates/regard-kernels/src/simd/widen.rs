//! Blocks of narrower numbers, widened to `f32` in registers.

use super::{LANES, Lanes, Simd};

/// Loads of 16 narrower numbers. The plain code of each method is what every tier computes; a tier whose compiler finds no
/// better instructions for it has its own.
pub(crate) trait Widen: Lanes {
    /// The bits of bfloat16: the upper half of an `f32`.
    #[inline(always)]
    fn widen_bf16(self, x: &[u16; LANES]) -> Self::V
    where
        Self: Simd,
    {
        let mut lanes = [0.0; LANES];
        for (lane, x) in lanes.iter_mut().zip(x) {
            *lane = f32::from_bits(u32::from(*x) << 16);
        }
        self.load(&lanes)
    }

    /// The bits of IEEE 754 binary16.
    #[inline(always)]
    fn widen_f16(self, x: &[u16; LANES]) -> Self::V
    where
        Self: Simd,
    {
        let mut lanes = [0.0; LANES];
        for (lane, x) in lanes.iter_mut().zip(x) {
            *lane = f32_from_f16(*x);
        }
        self.load(&lanes)
    }

    /// Whole numbers.
    #[inline(always)]
    fn widen_i8(self, x: &[i8; LANES]) -> Self::V
    where
        Self: Simd,
    {
        let mut lanes = [0.0; LANES];
        for (lane, x) in lanes.iter_mut().zip(x) {
            *lane = f32::from(*x);
        }
        self.load(&lanes)
    }
}

/// The number whose bits as IEEE 754 binary16 are `x`, without a branch, so that a compiler can take several together.
///
/// The bits of the exponent and of the fraction move to where `f32` has them, which is 2¹¹² times too small; the product with
/// 2¹¹² is exact, of subnormal numbers too.
///
/// ```
/// assert_eq!(regard_kernels::f32_from_f16(0xc000), -2.0);
/// ```
#[inline(always)]
#[must_use]
pub fn f32_from_f16(x: u16) -> f32 {
    const INFINITE: u32 = 0x7c00 << 13;
    let (sign, rest) = (u32::from(x & 0x8000) << 16, u32::from(x & 0x7fff) << 13);
    let finite = (f32::from_bits(rest) * f32::from_bits((127 + 112) << 23)).to_bits();
    let rest = if rest >= INFINITE { rest | 0x7f80_0000 } else { finite };
    f32::from_bits(sign | rest)
}

#[cfg(not(scalar))]
impl Widen for super::portable::Portable {}
#[cfg(any(scalar, test))]
impl Widen for super::scalar::Scalar {}

#[cfg(all(target_arch = "x86_64", not(feature = "portable")))]
mod x86_64 {
    use core::arch::x86_64::*;

    use super::super::avx2::Avx2;
    use super::super::avx512::Avx512;
    use super::{LANES, Widen};

    impl Widen for Avx2 {
        #[inline(always)]
        fn widen_bf16(self, x: &[u16; LANES]) -> Self::V {
            // SAFETY: `self` proves AVX2; each load is that of half of the array.
            core::array::from_fn(|i| unsafe {
                let bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(x.as_ptr().add(8 * i).cast()));
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(bits))
            })
        }

        #[inline(always)]
        fn widen_i8(self, x: &[i8; LANES]) -> Self::V {
            // SAFETY: as above.
            core::array::from_fn(|i| unsafe {
                let whole = _mm256_cvtepi8_epi32(_mm_loadl_epi64(x.as_ptr().add(8 * i).cast()));
                _mm256_cvtepi32_ps(whole)
            })
        }
    }

    impl Widen for Avx512 {
        #[inline(always)]
        fn widen_bf16(self, x: &[u16; LANES]) -> Self::V {
            // SAFETY: `self` proves AVX-512; the load is that of the array.
            unsafe {
                let bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(x.as_ptr().cast()));
                _mm512_castsi512_ps(_mm512_slli_epi32::<16>(bits))
            }
        }

        #[inline(always)]
        fn widen_f16(self, x: &[u16; LANES]) -> Self::V {
            // SAFETY: as above.
            unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(x.as_ptr().cast())) }
        }

        #[inline(always)]
        fn widen_i8(self, x: &[i8; LANES]) -> Self::V {
            // SAFETY: as above.
            unsafe { _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(x.as_ptr().cast()))) }
        }
    }
}
