//! Requantization: converts integers from one scale to another by a fixed-point factor, with gemmlowp's rounding.
//!
//! ```text
//! x · m · 2^(e − 31),  m a 32-bit mantissa:
//! x ← x · 2^e                      if e > 0, kept within 32 bits
//! x ← round(x · m / 2³¹)           gemmlowp's SaturatingRoundingDoublingHighMul: the nearest integer, halves up
//! x ← round(x / 2^−e)              if e < 0, gemmlowp's RoundingDivideByPOT: halves away from zero
//! ```
//!
//! (Jacob et al. 2018, arXiv 1712.05877, and gemmlowp's `fixedpoint.h`.)

/// x · `mantissa` · 2^(`exponent` − 31): an integer in another scale. `mantissa` · 2^(`exponent` − 31) is the old scale divided
/// by the new one.
///
/// The rounding is gemmlowp's. The product with the mantissa is rounded to the nearest integer, halves up. If `exponent` is
/// negative, the quotient by a power of two is then rounded, halves away from zero ([`divide_by_power`]). The result is less
/// than 1 away from the real product, unless it is clipped to 32 bits.
///
/// ```
/// use regard_kernels::int8::requantize;
/// assert_eq!(requantize(1000, 1 << 30, 0), 500); // ½
/// assert_eq!(requantize(-5, 1 << 30, 0), -2); // the first rounding rounds halves up
/// assert_eq!(requantize(-5, i32::MAX, -1), -3); // the second rounds halves away from zero
/// assert_eq!(requantize(3, 1 << 30, 5), 48);
/// ```
#[must_use]
#[inline]
pub fn requantize(x: i32, mantissa: i32, exponent: i32) -> i32 {
    // The exponent is the same for all numbers of a layer: its branches cost less than shifts by nothing.
    let shifted = if exponent > 0 {
        let left = exponent.min(31);
        if x << left >> left == x { x << left } else { (x >> 31) ^ i32::MAX }
    } else {
        x
    };
    let product = i64::from(shifted) * i64::from(mantissa);
    let high = ((product + (1 << 30)) >> 31) as i32;
    // −2³¹ · −2³¹ is the only product that leaves 32 bits, and the only one that gives −2³¹ here.
    let high = if high == i32::MIN { i32::MAX } else { high };
    if exponent < 0 { divide_by_power(high, exponent.unsigned_abs()) } else { high }
}

/// x / 2^`power`, rounded to the nearest integer, halves away from zero. A `power` above 31 counts as 31.
///
/// ```
/// use regard_kernels::int8::divide_by_power;
/// assert_eq!([-6, -5, 5, 6].map(|x| divide_by_power(x, 2)), [-2, -1, 1, 2]);
/// ```
#[must_use]
#[inline]
pub fn divide_by_power(x: i32, power: u32) -> i32 {
    let power = power.min(31);
    let mask = !(-1_i32 << power);
    let (rest, threshold) = (x & mask, (mask >> 1) + i32::from(x < 0));
    (x >> power) + i32::from(rest > threshold)
}

/// x, clipped to 8 bits.
///
/// ```
/// assert_eq!(regard_kernels::int8::narrow(-1000), -128);
/// ```
#[must_use]
#[inline]
pub fn narrow(x: i32) -> i8 {
    x.clamp(i32::from(i8::MIN), i32::from(i8::MAX)) as i8
}
