//! Multiplication of integers by a real number, in fixed point and with gemmlowp's rounding.
//!
//! ```text
//! x · m · 2^(e − 31),  m a 32-bit mantissa:
//! x ← x · 2^e                      if e > 0, kept within 32 bits
//! x ← round(x · m / 2³¹)           gemmlowp's SaturatingRoundingDoublingHighMul: halves away from zero, up where x · m < 0
//! x ← round(x / 2^−e)              if e < 0, gemmlowp's RoundingDivideByPOT: halves away from zero
//! ```
//!
//! (Jacob et al. 2018, arXiv 1712.05877, and gemmlowp's `fixedpoint.h`.)

/// x · `mantissa` · 2^(`exponent` − 31), rounded as above.
///
/// ```
/// use regard_embed::int8::multiply;
/// assert_eq!(multiply(1000, 1 << 30, 0), 500); // ½
/// assert_eq!(multiply(-5, 1 << 30, 0), -2); // halves of the first rounding go up
/// assert_eq!(multiply(-5, i32::MAX, -1), -3); // those of the second go away from zero
/// assert_eq!(multiply(3, 1 << 30, 5), 48);
/// ```
#[must_use]
#[inline]
pub fn multiply(x: i32, mantissa: i32, exponent: i32) -> i32 {
    let left = exponent.clamp(0, 31) as u32;
    let shifted = (i64::from(x) << left).clamp(i64::from(i32::MIN), i64::from(i32::MAX));
    let product = shifted * i64::from(mantissa);
    // −2³¹ · −2³¹ is the one product that leaves 32 bits.
    let high = ((product + (1 << 30)) >> 31).min(i64::from(i32::MAX)) as i32;
    divide_by_power(high, exponent.saturating_neg().clamp(0, 31) as u32)
}

/// x / 2^`power`, rounded to the nearest integer, halves away from zero.
#[must_use]
#[inline]
pub fn divide_by_power(x: i32, power: u32) -> i32 {
    let mask = ((1_i64 << power.min(31)) - 1) as i32;
    let (rest, threshold) = (x & mask, (mask >> 1) + i32::from(x < 0));
    (x >> power.min(31)) + i32::from(rest > threshold)
}
