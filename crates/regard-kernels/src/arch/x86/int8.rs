//! The integers of x86-64: AVX2, AVX-512, and AVX-512 with VNNI.

use core::arch::x86_64::*;
use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::{Avx2, Avx512};
use crate::arch::int8::blocks::{IntegerKernel, Integers};
use crate::int8::{Exponent, Factor};

/// Calls an intrinsic that works on registers alone.
macro_rules! registers {
    ($call:expr) => {
        // SAFETY: `self` proves that the CPU has the features; the intrinsic works on registers alone.
        unsafe { $call }
    };
}

/// Two registers of 8 words.
impl Integers for Avx2 {
    const PER_WORD: usize = 2;
    const WIDE: bool = false;
    type V = [__m256i; 2];

    #[inline(always)]
    fn call<K: IntegerKernel>(self, kernel: K) {
        #[inline(never)]
        #[target_feature(enable = "avx2,fma")]
        fn inner<K: IntegerKernel>(kernel: K, integers: Avx2) {
            kernel.run(integers);
        }
        // SAFETY: `self` proves that the CPU has these features.
        unsafe { inner(kernel, self) }
    }

    #[expect(clippy::cast_ptr_alignment, reason = "the loads need no alignment")]
    #[inline(always)]
    fn load(self, x: &[i32; 16]) -> Self::V {
        let start = x.as_ptr().cast::<__m256i>();
        // SAFETY: `self` proves AVX2; both loads lie within the array, and need no alignment.
        unsafe { [_mm256_loadu_si256(start), _mm256_loadu_si256(start.add(1))] }
    }

    #[expect(clippy::cast_ptr_alignment, reason = "the stores need no alignment")]
    #[inline(always)]
    fn store(self, v: Self::V, out: &mut [i32; 16]) {
        let start = out.as_mut_ptr().cast::<__m256i>();
        // SAFETY: `self` proves AVX2; both stores lie within the array, and need no alignment.
        unsafe {
            _mm256_storeu_si256(start, v[0]);
            _mm256_storeu_si256(start.add(1), v[1]);
        }
    }

    #[inline(always)]
    fn splat(self, x: i32) -> Self::V {
        registers!([_mm256_set1_epi32(x); 2])
    }

    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        registers!([_mm256_max_epi32(a[0], b[0]), _mm256_max_epi32(a[1], b[1])])
    }

    #[inline(always)]
    fn add_products(self, sum: Self::V, query: Self::V, key: Self::V) -> Self::V {
        self.add_halves(sum, query, key)
    }

    #[inline(always)]
    fn add_halves(self, sum: Self::V, a: Self::V, b: Self::V) -> Self::V {
        registers!([
            _mm256_add_epi32(sum[0], _mm256_madd_epi16(a[0], b[0])),
            _mm256_add_epi32(sum[1], _mm256_madd_epi16(a[1], b[1])),
        ])
    }

    #[inline(always)]
    fn add_weights(self, sum: Self::V, weights: Self::V) -> Self::V {
        self.add_halves(sum, weights, self.splat(0x0001_0001))
    }

    #[inline(always)]
    fn weights(self, exponent: &Exponent, max: Self::V, low: Self::V, high: Self::V) -> Self::V {
        registers!([
            weights(exponent, max[0], low[0], high[0]),
            weights(exponent, max[1], low[1], high[1])
        ])
    }

    #[inline(always)]
    fn halves(self, low: &[i8; 16], high: &[i8; 16]) -> Self::V {
        registers!({
            let (low, high) = (widen(low), widen(high));
            // Pairs within the halves of a register, whose second quarters have changed places in `widen`.
            [_mm256_unpacklo_epi16(low, high), _mm256_unpackhi_epi16(low, high)]
        })
    }

    #[inline(always)]
    fn rescale(self, sums: Self::V, factor: Factor, out: &mut [i8; 16]) {
        let packed = registers!({
            let [low, high] = [rescaled(sums[0], factor), rescaled(sums[1], factor)];
            let halves = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(low, high));
            _mm_packs_epi16(_mm256_castsi256_si128(halves), _mm256_extracti128_si256::<1>(halves))
        });
        // SAFETY: the store is that of the array, and needs no alignment.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), packed) }
    }
}

/// 16 halves, numbers 4 to 7 and 8 to 11 of which have changed places.
#[inline]
#[target_feature(enable = "avx2")]
fn widen(numbers: &[i8; 16]) -> __m256i {
    // SAFETY: the load is that of the array, and needs no alignment.
    let bytes = unsafe { _mm_loadu_si128(numbers.as_ptr().cast()) };
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_cvtepi8_epi16(bytes))
}

/// [`Factor::times`] before its clamp.
#[inline]
#[target_feature(enable = "avx2")]
fn rescaled(sums: __m256i, factor: Factor) -> __m256i {
    let multiplier = _mm256_set1_epi32(factor.multiplier);
    // The upper halves of the even words' products, and of the odd words'.
    let even = _mm256_srli_epi64::<32>(_mm256_mul_epi32(sums, multiplier));
    let odd = _mm256_mul_epi32(_mm256_srli_epi64::<32>(sums), multiplier);
    let product = _mm256_blend_epi32::<0b1010_1010>(even, odd);
    let doubled = _mm256_sra_epi32(product, _mm_cvtsi32_si128(factor.shift as i32 - 1));
    _mm256_srai_epi32::<1>(_mm256_add_epi32(doubled, _mm256_set1_epi32(1)))
}

/// [`Integers::weights`] of 8 words: [`Exponent::weight`], with all that follows the logarithm in halves. A fraction of
/// 15 bits is kept doubled, so that the upper half of a product is what the shift by 15 leaves.
#[inline]
#[target_feature(enable = "avx2")]
fn weights(exponent: &Exponent, max: __m256i, low: __m256i, high: __m256i) -> __m256i {
    let (low, high) = (log2(exponent, max, low), log2(exponent, max, high));
    let x = _mm256_blend_epi16::<0xaa>(_mm256_srli_epi32::<12>(low), _mm256_slli_epi32::<4>(high));
    let x = _mm256_and_si256(x, _mm256_set1_epi16(-2));
    let p = _mm256_mulhi_epu16(x, _mm256_set1_epi16(2565));
    let p = _mm256_mulhi_epu16(x, _mm256_sub_epi16(_mm256_set1_epi16(15107), p));
    let p = _mm256_sub_epi16(_mm256_set1_epi16(45311_u16 as i16), p);
    let p = _mm256_mulhi_epu16(_mm256_srli_epi16::<1>(x), p);
    let p = _mm256_sub_epi16(_mm256_set1_epi16(i16::MIN), p);
    let lower = _mm256_and_si256(p, _mm256_set1_epi32(0xffff));
    let lower = _mm256_srlv_epi32(lower, _mm256_srli_epi32::<28>(low));
    let upper = _mm256_srlv_epi32(p, _mm256_srli_epi32::<28>(high));
    _mm256_avg_epu16(_mm256_blend_epi16::<0xaa>(lower, upper), _mm256_setzero_si256())
}

/// The logarithm to base 2, negated, with 28 bits after the point; all bits are set where the weight is 0, which is what they
/// lead to.
#[inline]
#[target_feature(enable = "avx2")]
fn log2(exponent: &Exponent, max: __m256i, scores: __m256i) -> __m256i {
    let distance = _mm256_sub_epi32(max, scores);
    let shifted = _mm256_srlv_epi32(distance, _mm256_set1_epi32(exponent.shift as i32));
    let y = _mm256_mullo_epi32(shifted, _mm256_set1_epi32(exponent.multiplier as i32));
    let limit = _mm256_set1_epi32(exponent.limit as i32);
    let far = _mm256_cmpeq_epi32(_mm256_max_epu32(distance, limit), distance);
    _mm256_or_si256(y, far)
}

/// Implements [`Integers`] on registers of 512 bits for `$proof`, of whose type `$integers` is.
macro_rules! integers_of_512_bits {
    ($proof:ty, $features:literal, $per_word:literal, $key_bias:literal, $add_products:expr, $add_halves:expr) => {
        impl Integers for $proof {
            const PER_WORD: usize = $per_word;
            const KEY_BIAS: u8 = $key_bias;
            const WIDE: bool = true;
            type V = __m512i;

            #[inline(always)]
            fn call<K: IntegerKernel>(self, kernel: K) {
                #[inline(never)]
                #[target_feature(enable = $features)]
                fn inner<K: IntegerKernel>(kernel: K, integers: $proof) {
                    kernel.run(integers);
                }
                // SAFETY: `self` proves that the CPU has these features.
                unsafe { inner(kernel, self) }
            }

            #[inline(always)]
            fn load(self, x: &[i32; 16]) -> __m512i {
                // SAFETY: `self` proves AVX-512; the load is that of the array, and needs no alignment.
                unsafe { _mm512_loadu_si512(x.as_ptr().cast()) }
            }

            #[inline(always)]
            fn store(self, v: __m512i, out: &mut [i32; 16]) {
                // SAFETY: `self` proves AVX-512; the store is that of the array, and needs no alignment.
                unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), v) }
            }

            #[inline(always)]
            fn splat(self, x: i32) -> __m512i {
                registers!(_mm512_set1_epi32(x))
            }

            #[inline(always)]
            fn max(self, a: __m512i, b: __m512i) -> __m512i {
                registers!(_mm512_max_epi32(a, b))
            }

            #[inline(always)]
            fn add_products(self, sum: __m512i, query: __m512i, key: __m512i) -> __m512i {
                registers!($add_products(sum, query, key))
            }

            #[inline(always)]
            fn add_halves(self, sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
                registers!($add_halves(sum, a, b))
            }

            #[inline(always)]
            fn add_weights(self, sum: __m512i, weights: __m512i) -> __m512i {
                self.add_halves(sum, weights, self.splat(0x0001_0001))
            }

            #[inline(always)]
            fn weights(
                self,
                exponent: &Exponent,
                max: __m512i,
                low: __m512i,
                high: __m512i,
            ) -> __m512i {
                registers!(weights_512(exponent, max, low, high))
            }

            #[inline(always)]
            fn halves(self, low: &[i8; 16], high: &[i8; 16]) -> __m512i {
                registers!(halves_512(low, high))
            }

            #[inline(always)]
            fn rescale(self, sums: __m512i, factor: Factor, out: &mut [i8; 16]) {
                let packed = registers!(_mm512_cvtsepi32_epi8(rescaled_512(sums, factor)));
                // SAFETY: the store is that of the array, and needs no alignment.
                unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), packed) }
            }
        }
    };
}

integers_of_512_bits!(
    Avx512,
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma",
    2,
    0,
    add_halves_512,
    add_halves_512
);
integers_of_512_bits!(
    Vnni,
    "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma",
    4,
    128,
    add_bytes_512,
    _mm512_dpwssd_epi32
);

/// Proof that this CPU has AVX-512 with VNNI, multiply-adds of 8-bit integers.
#[derive(Clone, Copy)]
pub(crate) struct Vnni(());

impl Vnni {
    /// The proof, if the CPU has it. The first call asks the CPU, later ones read the answer.
    #[inline]
    pub(crate) fn new(_: Avx512) -> Option<Self> {
        /// 0 until somebody asks, then 1 for no and 2 for yes.
        static ANSWER: AtomicU8 = AtomicU8::new(0);
        /// `cpufeatures` does not know VNNI. Leaf 7 exists, because it tells of AVX-512.
        #[cold]
        fn ask() -> u8 {
            // As a pointer, because the compiler's version decides whether the function itself is unsafe.
            let cpuid: unsafe fn(u32, u32) -> CpuidResult = __cpuid_count;
            // SAFETY: every x86-64 has the instruction.
            let answer = 1 + ((unsafe { cpuid(7, 0) }.ecx >> 11) & 1) as u8;
            ANSWER.store(answer, Relaxed);
            answer
        }
        let answer = match ANSWER.load(Relaxed) {
            0 => ask(),
            known => known,
        };
        (answer == 2).then_some(Self(()))
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn add_halves_512(sum: __m512i, a: __m512i, b: __m512i) -> __m512i {
    _mm512_add_epi32(sum, _mm512_madd_epi16(a, b))
}

/// The keys' bytes are the unsigned ones.
#[inline]
#[target_feature(enable = "avx512f,avx512vnni")]
fn add_bytes_512(sum: __m512i, query: __m512i, key: __m512i) -> __m512i {
    _mm512_dpbusd_epi32(sum, key, query)
}

/// [`rescaled`] of 16 words.
#[inline]
#[target_feature(enable = "avx512f")]
fn rescaled_512(sums: __m512i, factor: Factor) -> __m512i {
    let multiplier = _mm512_set1_epi32(factor.multiplier);
    let even = _mm512_srli_epi64::<32>(_mm512_mul_epi32(sums, multiplier));
    let odd = _mm512_mul_epi32(_mm512_srli_epi64::<32>(sums), multiplier);
    let product = _mm512_mask_mov_epi32(even, 0xaaaa, odd);
    let doubled = _mm512_sra_epi32(product, _mm_cvtsi32_si128(factor.shift as i32 - 1));
    _mm512_srai_epi32::<1>(_mm512_add_epi32(doubled, _mm512_set1_epi32(1)))
}

/// Two numbers a word.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn halves_512(low: &[i8; 16], high: &[i8; 16]) -> __m512i {
    // SAFETY: the loads are those of the arrays, and need no alignment.
    let (low, high) =
        unsafe { (_mm_loadu_si128(low.as_ptr().cast()), _mm_loadu_si128(high.as_ptr().cast())) };
    let high = _mm512_slli_epi32::<16>(_mm512_cvtepi8_epi32(high));
    _mm512_mask_mov_epi16(_mm512_cvtepi8_epi32(low), 0xaaaa_aaaa, high)
}

/// [`weights`] of 16 words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn weights_512(exponent: &Exponent, max: __m512i, low: __m512i, high: __m512i) -> __m512i {
    const UPPER: __mmask32 = 0xaaaa_aaaa;
    let (low, high) = (log2_512(exponent, max, low), log2_512(exponent, max, high));
    let x =
        _mm512_mask_mov_epi16(_mm512_srli_epi32::<12>(low), UPPER, _mm512_slli_epi32::<4>(high));
    let n =
        _mm512_mask_mov_epi16(_mm512_srli_epi32::<28>(low), UPPER, _mm512_srli_epi32::<12>(high));
    let x = _mm512_and_si512(x, _mm512_set1_epi16(-2));
    let p = _mm512_mulhi_epu16(x, _mm512_set1_epi16(2565));
    let p = _mm512_mulhi_epu16(x, _mm512_sub_epi16(_mm512_set1_epi16(15107), p));
    let p = _mm512_sub_epi16(_mm512_set1_epi16(45311_u16 as i16), p);
    let p = _mm512_mulhi_epu16(_mm512_srli_epi16::<1>(x), p);
    let p = _mm512_sub_epi16(_mm512_set1_epi16(i16::MIN), p);
    _mm512_avg_epu16(_mm512_srlv_epi16(p, n), _mm512_setzero_si512())
}

/// [`log2`] of 16 words.
#[inline]
#[target_feature(enable = "avx512f")]
fn log2_512(exponent: &Exponent, max: __m512i, scores: __m512i) -> __m512i {
    let distance = _mm512_sub_epi32(max, scores);
    let near = _mm512_cmplt_epu32_mask(distance, _mm512_set1_epi32(exponent.limit as i32));
    let shifted = _mm512_srlv_epi32(distance, _mm512_set1_epi32(exponent.shift as i32));
    let multiplier = _mm512_set1_epi32(exponent.multiplier as i32);
    _mm512_mask_mullo_epi32(_mm512_set1_epi32(-1), near, shifted, multiplier)
}
