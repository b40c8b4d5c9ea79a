//! Additions and products of floats for cores without an FPU, with the bits of IEEE 754.
//!
//! There the compiler calls functions that take every operand apart, ask for each special case, multiply 64 bits and count leading
//! zeros. Here the common case, normal numbers and zeros, takes half of the instructions or less. Anything else is left to the compiler's functions.
//!
//! ```text
//! a · b:  the 48 bits of the product of two mantissas of 24, rounded to the nearest of 24 (ties to even)
//! a + b:  the smaller mantissa, shifted to the larger one's exponent with three bits more, of which the last stands for all that
//!         are lost; the sum, with its highest bit moved to the place of a mantissa's; rounded alike
//! ```
//!
//! A mantissa that rounding carries to 2²⁴ raises the exponent when it is added to its field.

use super::Nearest;
use super::exp::ROUND;

const SIGN: u32 = 1 << 31;
/// The bits of ∞; those of NaN are greater.
const INFINITE: u32 = 255 << 23;
/// The bit of a mantissa that the format leaves out.
const LEADING: u32 = 1 << 23;

/// a + b.
#[inline(always)]
pub(crate) fn add(a: f32, b: f32) -> f32 {
    // For lanes that hold nothing, and where the compiler knows that b is +0.
    if b.to_bits() == 0 {
        return if a.to_bits() == SIGN { 0.0 } else { a };
    }
    add_call(a, b)
}

/// a + b, in less code: no look at b before the call.
#[inline(always)]
pub(crate) fn add_call(a: f32, b: f32) -> f32 {
    f32::from_bits(add_bits(a.to_bits(), b.to_bits()))
}

/// a · b.
#[inline(always)]
pub(crate) fn multiply(a: f32, b: f32) -> f32 {
    f32::from_bits(multiply_bits(a.to_bits(), b.to_bits()))
}

/// a · b + c, rounded twice.
#[inline(always)]
pub(crate) fn multiply_add(a: f32, b: f32, c: f32) -> f32 {
    f32::from_bits(multiply_add_bits(a.to_bits(), b.to_bits(), c.to_bits()))
}

/// 2ⁿ · x, where `power` is 2ⁿ or 0.
#[inline(always)]
pub(crate) fn scale(power: f32, x: f32) -> f32 {
    let (power_bits, bits) = (power.to_bits(), x.to_bits());
    let (n, field) = (exponent(power_bits), exponent(bits));
    if n != 0 && is_normal(field) && is_normal((n + field).wrapping_sub(127)) {
        return f32::from_bits(bits.wrapping_add(power_bits).wrapping_sub(127 << 23));
    }
    multiply(power, x)
}

/// Whether a > b.
#[inline(never)]
pub(crate) fn greater(a: f32, b: f32) -> bool {
    let (a, b) = (a.to_bits(), b.to_bits());
    if a & !SIGN > INFINITE || b & !SIGN > INFINITE {
        return false;
    }
    // The bits of magnitudes are in their order; those of negative numbers are turned around. −0 is +0.
    let order = |x: u32| if x & SIGN == 0 { x as i32 } else { -((x & !SIGN) as i32) };
    order(a) > order(b)
}

/// [`Lanes::nearest`](super::Lanes::nearest), without the additions.
#[inline(never)]
pub(crate) fn nearest(t: f32) -> Nearest<f32> {
    let bits = t.to_bits();
    let (size, field) = (bits & !SIGN, exponent(bits));
    if field > 127 + 6 {
        let biased = t + ROUND;
        return Nearest { n: biased - ROUND, biased };
    }
    // Bits of the magnitude after the point. From ½ to 1 the leading bit is one of them. `ROUND` is odd, so halves go to odd n.
    let after = 150 - field;
    let (n, rounded) = match field {
        0..126 => (0, 0),
        126 => (1, 127 << 23),
        _ => {
            let half = (1 << (after - 1)) - ((size >> after) & 1);
            // A carry into the exponent's field is what it should be.
            ((mantissa(bits) + half) >> after, (size + half) >> after << after)
        }
    };
    let biased = if bits & SIGN == 0 { ROUND.to_bits() + n } else { ROUND.to_bits() - n };
    // x − x is +0.
    let sign = if n == 0 { 0 } else { bits & SIGN };
    Nearest { n: f32::from_bits(rounded | sign), biased: f32::from_bits(biased) }
}

// These see no floats, lest the compiler make comparisons of floats of the tests for zeros. What is rare is a function of its own
// at the end, so that they need to save no registers.

#[inline(never)]
fn add_bits(a: u32, b: u32) -> u32 {
    match sum(a, b) {
        Some(sum) => sum,
        None => any_sum(a, b),
    }
}

#[inline(never)]
fn multiply_bits(a: u32, b: u32) -> u32 {
    match product(a, b) {
        Some(product) => product,
        None => any_product(a, b),
    }
}

#[inline(never)]
fn multiply_add_bits(a: u32, b: u32, c: u32) -> u32 {
    let Some(product) = product(a, b) else { return any_product_and_sum(a, b, c) };
    match sum(product, c) {
        Some(sum) => sum,
        None => any_sum(product, c),
    }
}

#[cold]
#[inline(never)]
fn any_sum(a: u32, b: u32) -> u32 {
    (f32::from_bits(a) + f32::from_bits(b)).to_bits()
}

#[cold]
#[inline(never)]
fn any_product(a: u32, b: u32) -> u32 {
    (f32::from_bits(a) * f32::from_bits(b)).to_bits()
}

#[cold]
#[inline(never)]
fn any_product_and_sum(a: u32, b: u32, c: u32) -> u32 {
    add_bits(any_product(a, b), c)
}

fn is_zero(x: u32) -> bool {
    x << 1 == 0
}

fn exponent(x: u32) -> u32 {
    (x >> 23) & 0xff
}

/// The 24 bits of a normal number's mantissa.
fn mantissa(x: u32) -> u32 {
    (x & (LEADING - 1)) | LEADING
}

/// Whether an exponent field is that of normal numbers: from 1 to 254.
fn is_normal(exponent: u32) -> bool {
    exponent.wrapping_sub(1) < 254
}

/// The product of two normal numbers, where it is one or ∞; or of 0 and a finite number.
#[inline(always)]
fn product(a: u32, b: u32) -> Option<u32> {
    let (of_a, of_b) = (exponent(a), exponent(b));
    if !is_normal(of_a) || !is_normal(of_b) {
        let zero = (is_zero(a) && of_b < 255) || (is_zero(b) && of_a < 255);
        return zero.then_some((a ^ b) & SIGN);
    }
    let (high, low) = multiply_mantissas(mantissa(a), mantissa(b));
    // The highest bit is that of 2²⁹ or 2³⁰. The lowest one stands for all that are lost.
    let (mut bits, mut exponent) = (high, (of_a + of_b).wrapping_sub(126));
    if high >> 30 == 0 {
        bits <<= 1;
        exponent = exponent.wrapping_sub(1);
    }
    if !is_normal(exponent) {
        return None;
    }
    bits |= u32::from(low != 0);
    let rounded = (bits + 0x3f + ((bits >> 7) & 1)) >> 7;
    Some((((exponent - 1) << 23) + rounded) | ((a ^ b) & SIGN))
}

/// A product of two mantissas, which has 48 bits, without the lower 17; and a number that is 0 where all of these are.
#[inline(always)]
fn multiply_mantissas(a: u32, b: u32) -> (u32, u32) {
    // Cortex-M0 has no instruction for products of 64 bits.
    if cfg!(target_arch = "arm") { multiply_by_halves(a, b) } else { multiply_to_64_bits(a, b) }
}

/// [`multiply_mantissas`] by products of 16 and 8 bits.
#[inline(always)]
fn multiply_by_halves(a: u32, b: u32) -> (u32, u32) {
    let ([a_low, a_high], [b_low, b_high]) = ([a & 0xffff, a >> 16], [b & 0xffff, b >> 16]);
    let low = a_low * b_low;
    let middle = a_low * b_high + a_high * b_low + (low >> 16);
    let high = ((a_high * b_high) << 16) + middle;
    (high >> 1, (low << 16) | (high & 1))
}

/// [`multiply_mantissas`] by one product.
#[inline(always)]
fn multiply_to_64_bits(a: u32, b: u32) -> (u32, u32) {
    let high = (u64::from(a << 8) * u64::from(b << 7)) >> 32;
    (high as u32, a.wrapping_mul(b) << 15)
}

/// The sum of two numbers that are normal or 0, where it is normal, 0 or ∞; or of a subnormal one and 0.
#[inline(always)]
fn sum(a: u32, b: u32) -> Option<u32> {
    let (large, small) = if a & !SIGN >= b & !SIGN { (a, b) } else { (b, a) };
    let (mut top, below) = (exponent(large), exponent(small));
    if top == 255 {
        return None;
    }
    if below == 0 {
        return is_zero(small).then_some(if is_zero(large) { large & small } else { large });
    }
    let apart = top - below;
    let (first, second) = (mantissa(large) << 3, mantissa(small) << 3);
    let second = if apart < 27 {
        let shifted = second >> apart;
        shifted | u32::from(shifted << apart != second)
    } else {
        1
    };
    let mut bits;
    if (large ^ small) & SIGN == 0 {
        bits = first + second;
        if bits >> 27 != 0 {
            bits = (bits >> 1) | (bits & 1);
            top += 1;
            if top == 255 {
                return None;
            }
        }
    } else {
        bits = first - second;
        if bits == 0 {
            return Some(0);
        }
        while bits >> 26 == 0 {
            bits <<= 1;
            top = top.wrapping_sub(1);
        }
        if !is_normal(top) {
            return None;
        }
    }
    let rounded = (bits + 3 + ((bits >> 3) & 1)) >> 3;
    Some((((top - 1) << 23) + rounded) | (large & SIGN))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    /// Bits of all kinds: any, small exponents' differences, mantissas of few bits, and the ends of each range.
    fn numbers(state: &mut u32) -> [f32; 3] {
        [(); 3].map(|()| {
            let mut next = || {
                *state ^= *state << 13;
                *state ^= *state >> 17;
                *state ^= *state << 5;
                *state
            };
            let (bits, kind) = (next(), next() >> 8);
            f32::from_bits(match kind & 7 {
                0 => bits,
                1 => bits & 0xff80_0000,
                2 => (bits & 0x807f_ffff) | (1 << 23),
                3 => (bits & 0x807f_ffff) | (254 << 23),
                4 => bits & 0x807f_ffff,
                5 => (bits & 0x8000_000f) | ((124 + (bits >> 4) % 6) << 23),
                _ => (bits & 0x807f_ffff) | ((110 + (kind >> 3) % 30) << 23),
            })
        })
    }

    #[test]
    fn both_products_of_mantissas_are_those_of_64_bits() {
        let state = &mut 0x9abc_def0;
        let random = (0..if cfg!(miri) { 500 } else { 100_000 })
            .flat_map(|_| numbers(state))
            .map(|x| mantissa(x.to_bits()));
        let mantissas: Vec<_> =
            [LEADING, LEADING + 1, 2 * LEADING - 1].into_iter().chain(random).collect();
        for pair in mantissas.windows(2) {
            let [a, b] = [pair[0], pair[1]];
            let whole = u64::from(a) * u64::from(b);
            for (high, low) in [multiply_by_halves(a, b), multiply_to_64_bits(a, b)] {
                let expected = (whole >> 17, whole & 0x1_ffff != 0);
                assert_eq!((u64::from(high), low != 0), expected, "{a:#x} · {b:#x}");
            }
        }
    }

    #[test]
    fn the_bits_are_those_of_the_machine() {
        fn same(found: f32, expected: f32, what: &str, of: [f32; 3]) {
            let same =
                found.to_bits() == expected.to_bits() || (found.is_nan() && expected.is_nan());
            assert!(same, "{what} of {of:x?} is {found:e}, not {expected:e}");
        }
        let state = &mut 0x1234_5678;
        let halves = (-260..260).map(|i| i as f32 / 2.0);
        let near = halves.flat_map(|x| [x.next_down(), x, x.next_up(), x + 0.3]);
        for t in near.chain([0.0, -0.0, 1e-40, -1e-9, f32::NAN, 1e30]) {
            let (found, biased) = (nearest(t), t + ROUND);
            same(found.biased, biased, "the nearest integer, biased,", [t; 3]);
            same(found.n, biased - ROUND, "the nearest integer", [t; 3]);
        }
        for _ in 0..if cfg!(miri) { 2_000 } else { 3_000_000 } {
            let of @ [a, b, c] = numbers(state);
            assert_eq!(greater(a, b), a > b, "{a:e} > {b:e}");
            same(add(a, b), a + b, "the sum", of);
            let power = f32::from_bits(c.to_bits() & INFINITE);
            if power.is_finite() {
                same(scale(power, a), power * a, "the product with a power", [power, a, 0.0]);
            }
            same(multiply(a, b), a * b, "the product", of);
            same(multiply_add(a, b, c), a * b + c, "the product and sum", of);
            // Sums that nearly or wholly vanish.
            let near = f32::from_bits((a * b).to_bits() ^ SIGN ^ (c.to_bits() & 1));
            same(multiply_add(a, b, near), a * b + near, "the difference", of);
        }
    }
}
