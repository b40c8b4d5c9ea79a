//! Blocks of narrower numbers, widened to `f32` in registers.

use super::{LANES, Lanes, Simd, one_by_one};
use crate::Half;

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
            *lane = f32_from_bf16(*x);
        }
        self.load(&lanes)
    }

    /// Σₜ x\[t\]·panel\[t\] of as many rows as both have: a chain of multiply-adds for each lane, in ascending order. `None` on
    /// a tier that has no better loop for one row and one panel than one that widens row by row.
    #[inline(always)]
    fn row_times_panel(self, half: Half, x: &[f32], panel: &[[u16; LANES]]) -> Option<Self::V> {
        let _ = (half, x, panel);
        None
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

    /// Whether to pick an element of a table is faster than to compute it.
    const PICKS: bool = false;

    /// For each byte, the lane of `values` whose number is its low four bits, or its `high` ones.
    #[inline(always)]
    fn pick(self, values: Self::V, bytes: &[u8; LANES], high: bool) -> Self::V
    where
        Self: Simd,
    {
        let (mut table, mut lanes) = ([0.0; LANES], [0.0; LANES]);
        self.store(values, &mut table);
        for (lane, byte) in lanes.iter_mut().zip(bytes) {
            let number = if high { byte >> 4 } else { byte & 15 };
            *lane = table.get(usize::from(number)).copied().unwrap_or_default();
        }
        self.load(&lanes)
    }

    /// For each number below 32, the lane of the two `values` of that number.
    #[inline(always)]
    fn pick_of_two(self, values: [Self::V; 2], numbers: &[u8; LANES]) -> Self::V
    where
        Self: Simd,
    {
        let (mut table, mut lanes) = ([[0.0; LANES]; 2], [0.0; LANES]);
        for (table, values) in table.iter_mut().zip(values) {
            self.store(values, table);
        }
        for (lane, number) in lanes.iter_mut().zip(numbers) {
            *lane = table.as_flattened().get(usize::from(*number)).copied().unwrap_or_default();
        }
        self.load(&lanes)
    }

    /// A byte for each of 32 bits, from the lowest on: 16 where the bit is set, and 0 elsewhere.
    #[inline(always)]
    fn fifth_bits(self, bits: u32) -> [u8; 2 * LANES] {
        let mut bytes = [0; 2 * LANES];
        for (bytes, byte) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(bits.to_le_bytes()) {
            // The byte in each of 8 bytes, of which byte i keeps bit i. Adding 127 carries any bit into the highest one.
            let bits = (u64::from(byte) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
            let bits = ((bits + 0x7f7f_7f7f_7f7f_7f7f) >> 3) & 0x1010_1010_1010_1010;
            *bytes = bits.to_le_bytes();
        }
        bytes
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
    let mut finite = (f32::from_bits(rest) * f32::from_bits((127 + 112) << 23)).to_bits();
    one_by_one(&mut finite);
    let rest = if rest >= INFINITE { rest | 0x7f80_0000 } else { finite };
    f32::from_bits(sign | rest)
}

/// The number whose bits as bfloat16 are `x`: the upper half of an `f32`.
#[inline(always)]
pub(super) fn f32_from_bf16(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}

#[cfg(not(scalar))]
impl Widen for super::portable::Portable {}
#[cfg(any(scalar, test))]
impl Widen for super::scalar::Scalar {
    #[inline(always)]
    fn row_times_panel(self, half: Half, x: &[f32], panel: &[[u16; LANES]]) -> Option<Self::V> {
        Some(match half {
            Half::F16 => super::scalar::row_times_panel(x, panel, f32_from_f16),
            Half::Bf16 => super::scalar::row_times_panel_bf16(x, panel),
        })
    }
}

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

        #[inline(always)]
        fn fifth_bits(self, bits: u32) -> [u8; 2 * LANES] {
            let mut bytes = [0; 2 * LANES];
            // SAFETY: `self` proves AVX2; the store is that of the array.
            unsafe {
                // Each byte of the bits eight times, and of each time one bit.
                let eights = _mm256_setr_epi64x(
                    0,
                    0x0101_0101_0101_0101,
                    0x0202_0202_0202_0202,
                    0x0303_0303_0303_0303,
                );
                let eights = _mm256_shuffle_epi8(_mm256_set1_epi32(bits.cast_signed()), eights);
                let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64.cast_signed());
                let set = _mm256_cmpeq_epi8(_mm256_and_si256(eights, bit), bit);
                let numbers = _mm256_and_si256(set, _mm256_set1_epi8(16));
                _mm256_storeu_si256(bytes.as_mut_ptr().cast(), numbers);
            }
            bytes
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

        const PICKS: bool = true;

        /// A permutation reads the low four bits of an index, and ignores the others.
        #[inline(always)]
        fn pick(self, values: Self::V, bytes: &[u8; LANES], high: bool) -> Self::V {
            // SAFETY: as above.
            unsafe {
                let bytes = _mm512_cvtepu8_epi32(_mm_loadu_si128(bytes.as_ptr().cast()));
                let index = if high { _mm512_srli_epi32::<4>(bytes) } else { bytes };
                _mm512_permutexvar_ps(index, values)
            }
        }

        #[inline(always)]
        fn pick_of_two(self, [low, high]: [Self::V; 2], numbers: &[u8; LANES]) -> Self::V {
            // SAFETY: as above.
            unsafe {
                let index = _mm512_cvtepu8_epi32(_mm_loadu_si128(numbers.as_ptr().cast()));
                _mm512_permutex2var_ps(low, index, high)
            }
        }

        #[inline(always)]
        fn fifth_bits(self, bits: u32) -> [u8; 2 * LANES] {
            let mut bytes = [0; 2 * LANES];
            // SAFETY: `self` proves AVX-512; the store is that of the array.
            unsafe {
                let numbers = _mm256_maskz_set1_epi8(bits, 16);
                _mm256_storeu_si256(bytes.as_mut_ptr().cast(), numbers);
            }
            bytes
        }
    }
}
