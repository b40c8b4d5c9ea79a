//! From the distance of a score to its row's largest, to a weight: 2^−y as a mantissa and a power of two.

use core::f64::consts::LOG2_E;

use super::block::Block;
use crate::Temperature;

/// How weights fall as scores do: y, the logarithm of a weight to base 2, negated, is a difference of scores times
/// `multiplier` · 2^`exponent`. The multiplier's highest bit is set, unless all weights are
/// equal: then it is 0, and the exponent low.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decay {
    multiplier: u32,
    exponent: i32,
}

impl Decay {
    pub(super) const fn new(softmax_scale: f32, temperature: Temperature) -> Self {
        // Exponents beyond all that scores can undo.
        const LIMIT: Decay = Decay { multiplier: u32::MAX, exponent: 1024 };
        const EQUAL: Decay = Decay { multiplier: 0, exponent: -1024 };
        if softmax_scale == 0.0 || temperature.is_infinite() {
            return EQUAL;
        }
        if temperature.is_zero() {
            return LIMIT;
        }
        // A normal number: no quotient of two f32 leaves the range of f64.
        let bits = (softmax_scale as f64 * LOG2_E / temperature.get() as f64).to_bits();
        Self {
            multiplier: (((bits << 11) | (1 << 63)) >> 32) as u32,
            exponent: (bits >> 52) as i32 - 1023 - 31,
        }
    }

    /// The decay for the scores of a query, of which a unit is 2^`shift` products of mantissas.
    pub(super) fn steps(self, query: Block, key: Block, shift: u32) -> Steps {
        // The unit of each block is 2^(field − 141). y has 24 bits after the point; a product of 64 bits loses 32.
        let fields = (query.field + key.field + shift) as i32;
        let power = self.exponent + fields - 2 * 141 + POINT as i32 + 32;
        let left = power.clamp(0, 31) as u32;
        Steps {
            multiplier: self.multiplier,
            left,
            right: (-power).clamp(0, 31) as u32,
            limit: u32::MAX >> left,
        }
    }
}

/// Bits of y after the point.
const POINT: u32 = 24;

/// A [`Decay`] for distances in units of the scores: y = (distance · 2^`left` · `multiplier`) >> 32 >> `right`.
pub(super) struct Steps {
    multiplier: u32,
    left: u32,
    right: u32,
    /// Beyond this distance its product with 2^`left` is none of 32 bits, and y is at least 64.
    limit: u32,
}

/// A weight p · 2^−(16 + n), which is at most 1: p from 2¹⁵ to 2¹⁶ − 1, and n up to 31. Or no weight at all.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Weight(u32);

impl Weight {
    pub(super) const NONE: Self = Self(0);

    /// The weight that [`to_word`](Self::to_word) has made a word.
    pub(super) const fn from_word(word: i32) -> Self {
        Self(word as u32)
    }

    /// p · 2⁸ + n.
    pub(super) const fn to_word(self) -> i32 {
        self.0 as i32
    }

    pub(super) const fn p(self) -> u32 {
        self.0 >> 8
    }

    pub(super) const fn n(self) -> u32 {
        self.0 & 0xff
    }
}

/// 2^(−i / 16), with 31 bits after the point.
static POWERS: [u32; 16] = [
    2_147_483_648,
    2_056_437_387,
    1_969_251_188,
    1_885_761_398,
    1_805_811_301,
    1_729_250_827,
    1_655_936_265,
    1_585_730_000,
    1_518_500_250,
    1_454_120_821,
    1_392_470_869,
    1_333_434_672,
    1_276_901_417,
    1_222_764_986,
    1_170_923_762,
    1_121_280_436,
];

/// 2^−x ≈ 1 − x · (A − B · x) for 0 ≤ x ≤ 1/16, with 16 bits after the point: within 1.1e-6, a minimax polynomial.
const A: u32 = 45424;
const B: u32 = 15496;

impl Steps {
    /// The weight of a key whose score is `distance` below the largest.
    #[inline(always)]
    pub(super) fn weight(&self, distance: u32) -> Weight {
        if distance > self.limit {
            return Weight::NONE;
        }
        let product = u64::from(distance << self.left) * u64::from(self.multiplier);
        Self::power((product >> 32) as u32 >> self.right)
    }

    /// 2^−y.
    #[inline(always)]
    fn power(y: u32) -> Weight {
        let n = y >> POINT;
        if n > 31 {
            return Weight::NONE;
        }
        let (i, x) = ((y >> (POINT - 4)) & 15, (y >> 4) & 0xffff); // x has 20 bits after the point
        let high = POWERS[i as usize];
        let drop = (x * (A - ((B * x) >> 20))) >> 16;
        let p = high - (((high >> 15) * drop) >> 5);
        let p = ((p + (1 << 14)) >> 15).min(0xffff);
        Weight((p << 8) | n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_weight_is_near_two_to_the_minus_y() {
        for y in (0..1 << POINT).step_by(if cfg!(miri) { 65521 } else { 15 }) {
            let weight = Steps::power(y);
            let found = f64::from(weight.p()) / 65536.0 / f64::from(weight.n()).exp2();
            let exact = (-f64::from(y) / f64::from(1 << POINT)).exp2();
            // Rounding p costs 2⁻¹⁶ of a p of ½, the polynomial 1.1e-6, its products and the bits of y that are not looked at 2⁻¹⁹
            // together.
            let bound = (-16.0_f64).exp2() + 1.1e-6 + (-19.0_f64).exp2();
            assert!((found / exact - 1.0).abs() <= bound, "{found} at {y}, which is {exact}");
        }
        assert!(Steps::power((31 << POINT) | 0xff_ffff).n() == 31);
        assert!(Steps::power(1 << POINT) == Weight((0xffff << 8) | 1));
        assert!(Steps::power(32 << POINT) == Weight::NONE);
    }
}
