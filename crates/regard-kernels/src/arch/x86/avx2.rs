//! x86-64 with AVX2 and FMA, found at run time. A block of 16 lanes is two registers.

use core::arch::x86_64::*;

use crate::arch::{Kernel, LANES, Lanes, Panel, Shape, Simd, operations};

cpufeatures::new!(detect, "avx2", "fma");

/// Proof that this CPU has AVX2 and FMA. Only [`Avx2::new`] makes one.
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// The proof, if the CPU has both. The first call asks the CPU; later calls read the stored answer.
    #[inline]
    pub(crate) fn new() -> Option<Self> {
        detect::get().then_some(Self(()))
    }
}

/// Calls an intrinsic on both halves of its operands.
macro_rules! halves {
    ($intrinsic:ident $(::<$constant:ident>)? ($($operand:expr),+)) => {
        // SAFETY: a value of `Avx2` exists, so the CPU has AVX2 and FMA; the intrinsic works on registers alone.
        unsafe {
            [
                $intrinsic$(::<$constant>)?($($operand[0]),+),
                $intrinsic$(::<$constant>)?($($operand[1]),+),
            ]
        }
    };
}

/// v·2ⁿ. 2ⁿ is two factors, so that neither leaves the range of normal numbers and only the last product rounds.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn scale_half(v: __m256, n: __m256) -> __m256 {
    let n = _mm256_cvtps_epi32(n);
    let half = _mm256_srai_epi32::<1>(n);
    let bias = _mm256_set1_epi32(127);
    let low = _mm256_slli_epi32::<23>(_mm256_add_epi32(half, bias));
    let high = _mm256_slli_epi32::<23>(_mm256_add_epi32(_mm256_sub_epi32(n, half), bias));
    _mm256_mul_ps(_mm256_mul_ps(v, _mm256_castsi256_ps(low)), _mm256_castsi256_ps(high))
}

#[inline]
#[target_feature(enable = "avx2,fma")]
fn exponent_half(v: __m256) -> __m256 {
    _mm256_castsi256_ps(_mm256_slli_epi32::<23>(_mm256_castps_si256(v)))
}

/// Exchanges pairs and fours of elements within the halves of a register, and then the halves.
#[inline]
#[target_feature(enable = "avx2,fma")]
fn transpose(rows: [&[f32; 8]; 8], panel: &mut [Panel; 8], second: bool) {
    let mut fours = [_mm256_setzero_ps(); 8];
    for (fours, rows) in fours.as_chunks_mut::<4>().0.iter_mut().zip(rows.as_chunks::<4>().0) {
        // SAFETY: each load reads an array of 8 numbers.
        let [a, b, c, d] = unsafe {
            let [a, b, c, d] = rows;
            [
                _mm256_loadu_ps(a.as_ptr()),
                _mm256_loadu_ps(b.as_ptr()),
                _mm256_loadu_ps(c.as_ptr()),
                _mm256_loadu_ps(d.as_ptr()),
            ]
        };
        let (ab_low, ab_high) = (_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
        let (cd_low, cd_high) = (_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
        *fours = [
            _mm256_shuffle_ps::<0b01_00_01_00>(ab_low, cd_low),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab_low, cd_low),
            _mm256_shuffle_ps::<0b01_00_01_00>(ab_high, cd_high),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab_high, cd_high),
        ];
    }
    for i in 0..4 {
        let (upper, lower) = (fours[i], fours[i + 4]);
        let columns = [
            _mm256_permute2f128_ps::<0x20>(upper, lower),
            _mm256_permute2f128_ps::<0x31>(upper, lower),
        ];
        for (half, column) in columns.into_iter().enumerate() {
            // SAFETY: the store writes one half of a row of 16.
            unsafe {
                _mm256_storeu_ps(
                    panel[4 * half + i].as_mut_ptr().add(8 * usize::from(second)),
                    column,
                );
            };
        }
    }
}

/// Folds each of four blocks with `$combine`, as a tree: first the quarters of two blocks at a time, then the numbers of all
/// four.
macro_rules! fold_each {
    ($v:expr, $combine:ident, $combine_quarters:ident) => {{
        let [a, b, c, d] = $v;
        let mut folded = [0.0; 4];
        // SAFETY: a value of `Avx2` exists, so the CPU has AVX2. The store writes to the array.
        unsafe {
            let (a, b) = ($combine(a[0], a[1]), $combine(b[0], b[1]));
            let (c, d) = ($combine(c[0], c[1]), $combine(d[0], d[1]));
            // The quarters of a, and then those of c.
            let ac = $combine(
                _mm256_permute2f128_ps::<0x20>(a, c),
                _mm256_permute2f128_ps::<0x31>(a, c),
            );
            let bd = $combine(
                _mm256_permute2f128_ps::<0x20>(b, d),
                _mm256_permute2f128_ps::<0x31>(b, d),
            );
            // Two numbers each of a and b, and then of c and d.
            let all = $combine(
                _mm256_shuffle_ps::<0b01_00_01_00>(ac, bd),
                _mm256_shuffle_ps::<0b11_10_11_10>(ac, bd),
            );
            let (ab, cd) = (_mm256_castps256_ps128(all), _mm256_extractf128_ps::<1>(all));
            let all = $combine_quarters(
                _mm_shuffle_ps::<0b10_00_10_00>(ab, cd),
                _mm_shuffle_ps::<0b11_01_11_01>(ab, cd),
            );
            _mm_storeu_ps(folded.as_mut_ptr(), all);
        }
        folded
    }};
}

impl Lanes for Avx2 {
    type V = [__m256; 2];
    type M = [__m256; 2];

    #[inline(always)]
    fn splat(self, x: f32) -> Self::V {
        // SAFETY: `self` proves AVX2.
        unsafe { [_mm256_set1_ps(x); 2] }
    }

    operations! {
        add(a, b) -> V { halves!(_mm256_add_ps(a, b)) }
        sub(a, b) -> V { halves!(_mm256_sub_ps(a, b)) }
        mul(a, b) -> V { halves!(_mm256_mul_ps(a, b)) }
        div(a, b) -> V { halves!(_mm256_div_ps(a, b)) }
        mul_add(a, b, c) -> V { halves!(_mm256_fmadd_ps(a, b, c)) }
        // MAXPS returns its second operand for NaN and for equal zeros, as the trait asks.
        max(a, b) -> V { halves!(_mm256_max_ps(a, b)) }
        gt(a, b) -> M { halves!(_mm256_cmp_ps::<_CMP_GT_OQ>(a, b)) }
        eq(a, b) -> M { halves!(_mm256_cmp_ps::<_CMP_EQ_OQ>(a, b)) }
        scale_exp2(v, n) -> V { halves!(scale_half(v, n)) }
        exponent(v) -> V { halves!(exponent_half(v)) }
    }

    #[inline(always)]
    fn select(self, mask: Self::M, yes: Self::V, no: Self::V) -> Self::V {
        halves!(_mm256_blendv_ps(no, yes, mask))
    }
}

impl Simd for Avx2 {
    const SHAPE: Shape = Shape { unrolled: 4, ..Shape::SIXTEEN_REGISTERS };

    #[inline(always)]
    fn widen_bf16(self, x: &[u16; LANES]) -> Self::V {
        // SAFETY: `self` proves AVX2. Each load reads half of the array.
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
        // SAFETY: `self` proves AVX2. The store writes to the array.
        unsafe {
            // Copies each byte of the bits eight times, and keeps one bit of each copy.
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

    #[inline(never)]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn enter<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[cfg(not(miri))] // Miri does not know the instruction.
    #[inline(always)]
    fn prefetch(self, address: *const f32) {
        // SAFETY: a prefetch of an address without memory does nothing.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(address.cast());
        }
    }

    #[cfg(not(miri))]
    #[inline(always)]
    fn prefetch_later(self, address: *const f32) {
        // SAFETY: a prefetch of an address without memory does nothing.
        unsafe {
            _mm_prefetch::<_MM_HINT_T1>(address.cast());
        }
    }

    #[inline(always)]
    fn load(self, x: &[f32; LANES]) -> Self::V {
        // SAFETY: `self` proves AVX2; both loads lie within the array, and need no alignment.
        unsafe { [_mm256_loadu_ps(x.as_ptr()), _mm256_loadu_ps(x.as_ptr().add(8))] }
    }

    #[inline(always)]
    fn store(self, v: Self::V, out: &mut [f32; LANES]) {
        // SAFETY: `self` proves AVX2; both stores lie within the array, and need no alignment.
        unsafe {
            _mm256_storeu_ps(out.as_mut_ptr(), v[0]);
            _mm256_storeu_ps(out.as_mut_ptr().add(8), v[1]);
        }
    }

    #[inline(always)]
    fn transpose(self, rows: [&[f32; 8]; 8], panel: &mut [Panel; 8], second: bool) {
        // SAFETY: `self` proves AVX2.
        unsafe { transpose(rows, panel, second) }
    }

    #[inline(always)]
    fn reduce_add(self, v: Self::V) -> f32 {
        // SAFETY: `self` proves AVX2; registers alone.
        unsafe {
            let x = _mm256_add_ps(v[0], v[1]);
            let x = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let x = _mm_add_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)))
        }
    }

    #[inline(always)]
    fn reduce_add_each(self, v: [Self::V; 4]) -> [f32; 4] {
        fold_each!(v, _mm256_add_ps, _mm_add_ps)
    }

    #[inline(always)]
    fn reduce_max_each(self, v: [Self::V; 4]) -> [f32; 4] {
        fold_each!(v, _mm256_max_ps, _mm_max_ps)
    }

    #[inline(always)]
    fn reduce_max(self, v: Self::V) -> f32 {
        // SAFETY: `self` proves AVX2; registers alone.
        unsafe {
            let x = _mm256_max_ps(v[0], v[1]);
            let x = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x));
            let x = _mm_max_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_max_ss(x, _mm_movehdup_ps(x)))
        }
    }
}
