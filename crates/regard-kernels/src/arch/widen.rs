//! Half precision as `f32`.

/// The number whose bits as IEEE 754 binary16 are `x`, in every floating-point environment. There is no branch that a compiler
/// cannot turn into a selection, so a loop can be vectorized.
///
/// The bits of a normal number's exponent and fraction move to their places in `f32`, and the exponent's bias of 15 becomes 127. A
/// subnormal number is an integer times 2⁻²⁴. It is converted as an integer, because a processor may count a subnormal `f32` as 0;
/// the integer, the product and 2⁻²⁴ are normal numbers.
///
/// ```
/// assert_eq!(regard_kernels::internal::f32_from_f16(0xc000), -2.0);
/// assert_eq!(regard_kernels::internal::f32_from_f16(1), 2_f32.powi(-24));
/// ```
#[inline(always)]
#[must_use]
pub fn f32_from_f16(x: u16) -> f32 {
    const BIAS: u32 = (127 - 15) << 23;
    const LEAST_NORMAL: u16 = 0x400;
    const INFINITE: u16 = 0x7c00;
    const UNIT: f32 = 1.0 / (1 << 24) as f32;
    let (sign, size) = (u32::from(x & 0x8000) << 16, x & 0x7fff);
    let normal = (u32::from(size) << 13) + BIAS;
    let bits = if size < LEAST_NORMAL {
        (f32::from(size) * UNIT).to_bits()
    } else if size < INFINITE {
        normal
    } else {
        normal + BIAS // the exponents of ∞ and NaN: 31 becomes 255
    };
    f32::from_bits(sign | bits)
}

/// The number whose bits as bfloat16 are `x`: the upper half of an `f32`.
#[inline(always)]
pub(super) fn f32_from_bf16(x: u16) -> f32 {
    f32::from_bits(u32::from(x) << 16)
}
