//! Half precision as `f32`.

use super::one_by_one;

/// The number whose bits as IEEE 754 binary16 are `x`. There is no branch, so a compiler can vectorize it.
///
/// The bits of the exponent and of the fraction move to their places in `f32`. The result is 2¹¹² times too small. The product
/// with 2¹¹² is exact, also for subnormal numbers.
///
/// ```
/// assert_eq!(regard_kernels::internal::f32_from_f16(0xc000), -2.0);
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
