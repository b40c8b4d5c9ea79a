//! The integers of aarch64 with the dot products of ARMv8.2 (`sdot`): four multiply-adds of bytes a word. Without them, NEON
//! multiplies as many 8-bit numbers as single-precision ones at a time, and plain loops do as well.

use core::arch::aarch64::*;
use core::arch::asm;

use super::int8::blocks::{IntegerKernel, Integers};
use crate::int8::{Exponent, Factor};

/// Calls an intrinsic of NEON that works on registers alone.
macro_rules! registers {
    ($call:expr) => {
        // SAFETY: this file is compiled for targets with NEON; the intrinsic works on registers alone.
        unsafe { $call }
    };
}

/// Proof that this CPU has `sdot`.
#[derive(Clone, Copy)]
pub(crate) struct Neon(());

impl Neon {
    /// The proof, if the CPU has it: as the target says, or, with the feature `std`, as the operating system says.
    #[inline]
    pub(crate) fn new() -> Option<Self> {
        #[cfg(target_feature = "dotprod")]
        let found = true;
        #[cfg(all(not(target_feature = "dotprod"), any(test, feature = "std")))]
        let found = std::arch::is_aarch64_feature_detected!("dotprod");
        #[cfg(not(any(target_feature = "dotprod", test, feature = "std")))]
        let found = false;
        found.then_some(Self(()))
    }
}

/// Four registers of 4 words.
impl Integers for Neon {
    const PER_WORD: usize = 4;
    const WIDE: bool = false;
    type V = [int32x4_t; 4];

    #[inline(always)]
    fn call<K: IntegerKernel>(self, kernel: K) {
        #[inline(never)]
        #[target_feature(enable = "neon,dotprod")]
        fn inner<K: IntegerKernel>(kernel: K, integers: Neon) {
            kernel.run(integers);
        }
        // SAFETY: `self` proves that the CPU has these features.
        unsafe { inner(kernel, self) }
    }

    #[inline(always)]
    fn load(self, x: &[i32; 16]) -> Self::V {
        // SAFETY: the four loads are those of the array, and need no alignment.
        [0, 4, 8, 12].map(|first| unsafe { vld1q_s32(x.as_ptr().add(first)) })
    }

    #[inline(always)]
    fn store(self, v: Self::V, out: &mut [i32; 16]) {
        for (v, out) in v.into_iter().zip(out.as_chunks_mut::<4>().0) {
            // SAFETY: the store is that of the array, and needs no alignment.
            unsafe { vst1q_s32(out.as_mut_ptr(), v) };
        }
    }

    #[inline(always)]
    fn splat(self, x: i32) -> Self::V {
        registers!([vdupq_n_s32(x); 4])
    }

    #[inline(always)]
    fn max(self, a: Self::V, b: Self::V) -> Self::V {
        zip(a, b, |a, b| registers!(vmaxq_s32(a, b)))
    }

    #[inline(always)]
    fn add_products(self, sum: Self::V, query: Self::V, key: Self::V) -> Self::V {
        // SAFETY: `self` proves that the CPU has `sdot`.
        core::array::from_fn(|i| unsafe { sdot(sum[i], query[i], key[i]) })
    }

    /// The values are those of [`halves`](Self::halves): 16 lower halves, then 16 upper ones.
    #[inline(always)]
    fn add_halves(self, sum: Self::V, weight: Self::V, values: Self::V) -> Self::V {
        let [s0, s1, s2, s3] = sum;
        let ([low0, low1, high0, high1], weight) = (values, weight[0]);
        registers!({
            let [s0, s1] = add_products_of_halves::<0>([s0, s1], low0, weight);
            let [s2, s3] = add_products_of_halves::<0>([s2, s3], low1, weight);
            let [s0, s1] = add_products_of_halves::<1>([s0, s1], high0, weight);
            let [s2, s3] = add_products_of_halves::<1>([s2, s3], high1, weight);
            [s0, s1, s2, s3]
        })
    }

    #[inline(always)]
    fn add_weights(self, sum: Self::V, weights: Self::V) -> Self::V {
        zip(sum, weights, |sum, weights| {
            registers!(vpadalq_s16(sum, vreinterpretq_s16_s32(weights)))
        })
    }

    #[inline(always)]
    fn weights(self, exponent: &Exponent, max: Self::V, low: Self::V, high: Self::V) -> Self::V {
        core::array::from_fn(|i| registers!(weights(exponent, max[i], low[i], high[i])))
    }

    #[inline(always)]
    fn halves(self, low: &[i8; 16], high: &[i8; 16]) -> Self::V {
        // SAFETY: the loads are those of the arrays, and need no alignment.
        let (low, high) = unsafe { (vld1q_s8(low.as_ptr()), vld1q_s8(high.as_ptr())) };
        registers!(
            [
                vmovl_s8(vget_low_s8(low)),
                vmovl_high_s8(low),
                vmovl_s8(vget_low_s8(high)),
                vmovl_high_s8(high)
            ]
            .map(|v| vreinterpretq_s32_s16(v))
        )
    }

    #[inline(always)]
    fn rescale(self, sums: Self::V, factor: Factor, out: &mut [i8; 16]) {
        let packed = registers!({
            let [a, b, c, d] = sums.map(|sums| vqmovn_s32(rescaled(sums, factor)));
            vcombine_s8(vqmovn_s16(vcombine_s16(a, b)), vqmovn_s16(vcombine_s16(c, d)))
        });
        // SAFETY: the store is that of the array, and needs no alignment.
        unsafe { vst1q_s8(out.as_mut_ptr(), packed) }
    }
}

#[inline(always)]
fn zip(
    a: [int32x4_t; 4],
    b: [int32x4_t; 4],
    of: impl Fn(int32x4_t, int32x4_t) -> int32x4_t,
) -> [int32x4_t; 4] {
    core::array::from_fn(|i| of(a[i], b[i]))
}

/// An instruction of vectors. As assembly, because an intrinsic is not stable, or because LLVM takes its sums apart: then
/// more sums are alive than there are registers.
macro_rules! instruction {
    ($text:literal, $sum:ident, $a:ident, $b:ident: $class:ident) => {
        // SAFETY: the function that has the instruction has its feature; it works on registers alone.
        unsafe {
            asm!(
                $text,
                sum = inout(vreg) $sum,
                a = in(vreg) $a,
                b = in($class) $b,
                options(pure, nomem, nostack, preserves_flags),
            )
        }
    };
}

/// sum + the products of the four bytes of each word.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn sdot(mut sum: int32x4_t, a: int32x4_t, b: int32x4_t) -> int32x4_t {
    instruction!("sdot {sum:v}.4s, {a:v}.16b, {b:v}.16b", sum, a, b: vreg);
    sum
}

/// The sums of 8 words + the products of the 8 halves of `values` and half number `HALF` of `weight`.
#[inline]
#[target_feature(enable = "neon")]
fn add_products_of_halves<const HALF: usize>(
    [mut low, mut high]: [int32x4_t; 2],
    values: int32x4_t,
    weight: int32x4_t,
) -> [int32x4_t; 2] {
    if HALF == 0 {
        instruction!("smlal {sum:v}.4s, {a:v}.4h, {b:v}.h[0]", low, values, weight: vreg_low16);
        instruction!("smlal2 {sum:v}.4s, {a:v}.8h, {b:v}.h[0]", high, values, weight: vreg_low16);
    } else {
        instruction!("smlal {sum:v}.4s, {a:v}.4h, {b:v}.h[1]", low, values, weight: vreg_low16);
        instruction!("smlal2 {sum:v}.4s, {a:v}.8h, {b:v}.h[1]", high, values, weight: vreg_low16);
    }
    [low, high]
}

/// [`Factor::times`] before its clamp.
#[inline]
#[target_feature(enable = "neon")]
fn rescaled(sums: int32x4_t, factor: Factor) -> int32x4_t {
    let multiplier = vdupq_n_s32(factor.multiplier);
    let low = vmull_s32(vget_low_s32(sums), vget_low_s32(multiplier));
    let high = vmull_high_s32(sums, multiplier);
    // The upper halves of the products.
    let product = vuzp2q_s32(vreinterpretq_s32_s64(low), vreinterpretq_s32_s64(high));
    let doubled = vshlq_s32(product, vdupq_n_s32(1 - factor.shift as i32));
    vshrq_n_s32::<1>(vaddq_s32(doubled, vdupq_n_s32(1)))
}

/// [`Integers::weights`] of 4 words: [`Exponent::weight`], with all that follows the logarithm in halves. A fraction of
/// 15 bits is kept doubled, so that the upper half of a product is what the shift by 15 leaves.
#[inline]
#[target_feature(enable = "neon")]
fn weights(exponent: &Exponent, max: int32x4_t, low: int32x4_t, high: int32x4_t) -> int32x4_t {
    let (low, high) = (log2(exponent, max, low), log2(exponent, max, high));
    // The lower halves of both, then the upper ones: the fractions and the whole parts of the words in turns.
    let (low, high) = (vshrq_n_u32::<12>(low), vshrq_n_u32::<12>(high));
    let halves = |low, high| vreinterpretq_u16_u32(vsliq_n_u32::<16>(low, high));
    let x = vandq_u16(halves(low, high), vdupq_n_u16(0xfffe));
    let n = halves(vshrq_n_u32::<16>(low), vshrq_n_u32::<16>(high));
    let p = upper_products(x, vdupq_n_u16(2565));
    let p = upper_products(x, vsubq_u16(vdupq_n_u16(15107), p));
    let p = vsubq_u16(vdupq_n_u16(45311), p);
    let p = upper_products(vshrq_n_u16::<1>(x), p);
    let p = vsubq_u16(vdupq_n_u16(1 << 15), p);
    let shifted = vshlq_u16(p, vnegq_s16(vreinterpretq_s16_u16(n)));
    vreinterpretq_s32_u16(vrhaddq_u16(shifted, vdupq_n_u16(0)))
}

/// The upper halves of the products of halves.
#[inline]
#[target_feature(enable = "neon")]
fn upper_products(a: uint16x8_t, b: uint16x8_t) -> uint16x8_t {
    let low = vmull_u16(vget_low_u16(a), vget_low_u16(b));
    let high = vmull_high_u16(a, b);
    vuzp2q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high))
}

/// The logarithm to base 2, negated, with 28 bits after the point; all bits are set where the weight is 0, which is what they
/// lead to.
#[inline]
#[target_feature(enable = "neon")]
fn log2(exponent: &Exponent, max: int32x4_t, scores: int32x4_t) -> uint32x4_t {
    let distance = vreinterpretq_u32_s32(vsubq_s32(max, scores));
    let shifted = vshlq_u32(distance, vdupq_n_s32(-(exponent.shift as i32)));
    let y = vmulq_n_u32(shifted, exponent.multiplier);
    vorrq_u32(y, vcgeq_u32(distance, vdupq_n_u32(exponent.limit)))
}
