//! Exponentials, lane by lane.

use super::{Lanes, Map};

/// eˣ, by [`exp`].
pub(crate) struct Exp;

/// e to the power of a distance, by [`exp_to_zero`].
pub(crate) struct ExpToZero(pub(crate) Distance);

/// 2 to the power of a distance, by [`exp2_to_zero`].
pub(crate) struct Exp2ToZero(pub(crate) Distance);

/// The distance of a score from `max`, times `factor`.
#[derive(Clone, Copy)]
pub(crate) struct Distance {
    pub(crate) max: f32,
    pub(crate) factor: f32,
}

impl Distance {
    /// The subtraction comes first, so that the largest score's weight is exactly 1, and a query that sees one key gets exactly
    /// its value.
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, score: L::V) -> L::V {
        let distance = lanes.sub(score, lanes.splat(self.max));
        lanes.mul(distance, lanes.splat(self.factor))
    }
}

impl Map for Exp {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, x: L::V) -> L::V {
        exp(lanes, x)
    }
}

impl Map for ExpToZero {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, score: L::V) -> L::V {
        exp_to_zero(lanes, self.0.of(lanes, score))
    }

    #[cfg(all(fused, target_arch = "arm"))]
    #[inline(always)]
    fn each<L: Lanes<V = f32>>(&self, _: L, row: &mut [f32]) {
        super::bare::exp_to_zero(row, self.0);
    }
}

impl Map for Exp2ToZero {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, score: L::V) -> L::V {
        exp2_to_zero(lanes, self.0.of(lanes, score))
    }

    #[cfg(all(fused, target_arch = "arm"))]
    #[inline(always)]
    fn each<L: Lanes<V = f32>>(&self, _: L, row: &mut [f32]) {
        super::bare::exp2_to_zero(row, self.0);
    }
}

/// Adding 1.5·2²³ rounds to an integer. Adding 127 more leaves n + 127, the exponent field of 2ⁿ, in the low bits of the sum.
/// The sum is even where n is odd, so ties round to odd n.
pub(super) const ROUND: f32 = 12_582_912.0 + 127.0;
/// The power at which the exponent field is 0, which stands for the factor 0.
const LOWEST_POWER: f32 = -127.0;

/// Beyond these bounds eˣ is 0 or ∞ in `f32`. Within them, n stays in the range of `scale_exp2`.
const LOWEST: f32 = -104.0;
const HIGHEST: f32 = 89.0;
/// The same bound for powers of e.
const LOWEST_OF_E: f32 = LOWEST_POWER * core::f32::consts::LN_2;

/// eˣ within 1 ULP for every `x`, subnormal results included. NaN gives NaN, −∞ gives 0, ∞ gives ∞.
///
/// Over all floats the largest error is 0.875 ULP with fused multiply-add, 0.894 without.
#[inline(always)]
pub(crate) fn exp<S: Lanes>(simd: S, x: S::V) -> S::V {
    let x = simd.max(simd.splat(LOWEST), x); // NaN passes: `max` returns its second operand
    let highest = simd.splat(HIGHEST);
    let x = simd.select(simd.gt(x, highest), highest, x);
    let Reduced { biased, high, low, r } = reduce(simd, x);
    // r is rounded to 2⁻²⁶, but high and low are exact. Adding these separately keeps the error below 0.9 ULP.
    let tail = simd.polynomial(&[C6, C5, C4, C3, C2], r, simd.mul(r, r), low);
    let power = simd.add(simd.add(high, tail), simd.splat(1.0));
    simd.scale_exp2(power, simd.sub(biased, simd.splat(ROUND)))
}

/// eˣ for x ≤ 0, in fewer steps: exactly 1 at 0, and 0 where eˣ is below 2⁻¹²⁶. NaN gives NaN.
///
/// Over all such floats the largest error is 0.89 ULP with fused multiply-add, 1.18 without.
#[inline(always)]
pub(crate) fn exp_to_zero<S: Lanes>(simd: S, x: S::V) -> S::V {
    let Reduced { biased, r, .. } = reduce(simd, simd.max(simd.splat(LOWEST_OF_E), x));
    let power = simd.exponent(biased);
    simd.polynomial(&[C6, C5, C4, C3, C2, 1.0], r, simd.mul(power, r), power)
}

/// eʳ ≈ 1 + r + r²·(C2 + C3·r + …): a minimax polynomial, with a largest relative error of 3.1e-9, 0.05 ULP.
const C2: f32 = 0.499_999_94;
const C3: f32 = 0.166_665_21;
const C4: f32 = 0.041_668_39;
const C5: f32 = 0.008_368_745;
const C6: f32 = 0.001_381_453_9;

/// ln 2 in two parts, of which the first has nine bits.
const LN2_HI: f32 = 355.0 / 512.0;
const LN2_LO: f32 = -2.121_944_4e-4;

/// x = n·ln 2 + r with |r| ≤ ln 2 / 2.
struct Reduced<V> {
    /// n, with [`ROUND`] added.
    biased: V,
    /// r is high + low, rounded.
    high: V,
    low: V,
    r: V,
}

/// Cody and Waite's two-part reduction. n·`LN2_HI` is exact even without fused multiply-add.
#[inline(always)]
fn reduce<S: Lanes>(simd: S, x: S::V) -> Reduced<S::V> {
    let log2_e = simd.splat(core::f32::consts::LOG2_E);
    let biased = simd.mul_add(x, log2_e, simd.splat(ROUND));
    let n = simd.sub(biased, simd.splat(ROUND));
    let high = simd.mul_add(n, simd.splat(-LN2_HI), x); // exact
    let low = simd.mul(n, simd.splat(-LN2_LO));
    let r = simd.mul_add(n, simd.splat(-LN2_LO), high);
    Reduced { biased, high, low, r }
}

/// 2ᵗ for t ≤ 126, lane by lane, for weights: exactly 1 at 0, and 0 below 2⁻¹²⁶·⁵ (so at −∞). NaN gives NaN.
/// t = n + f with |f| ≤ ½. A minimax polynomial of degree 6 gives 2ᶠ (largest relative error 2.6e-9), and the exponent's bits
/// give 2ⁿ. In base 2 a multiply-subtract replaces the two steps of Cody and Waite's reduction. The error of the weight e^x is
/// then that of rounding x·log₂e, |t|·2⁻²⁴ of the weight, which a sum of weights up to 1 does not show.
#[inline(always)]
pub(crate) fn exp2_to_zero<S: Lanes>(simd: S, t: S::V) -> S::V {
    let t = simd.max(simd.splat(LOWEST_POWER), t); // NaN passes
    let biased = simd.add(t, simd.splat(ROUND));
    let f = simd.sub(t, simd.sub(biased, simd.splat(ROUND)));
    let power = simd.exponent(biased);
    simd.polynomial(&POWERS_OF_2, f, simd.mul(power, f), power)
}

const POWERS_OF_2: [f32; 6] =
    [1.559_467_8e-4, 0.001_340_664_3, 0.009_617_693, 0.055_503_104, 0.240_226_52, 0.693_147_24];

/// The constants of the loops in assembly: those that are loaded once, and those that are loaded in each round, in the order of
/// their use.
#[cfg(all(fused, target_arch = "arm"))]
pub(super) mod tables {
    use super::{
        C2, C3, C4, C5, C6, LN2_HI, LN2_LO, LOWEST_OF_E, LOWEST_POWER, POWERS_OF_2, ROUND,
    };
    use core::f32::consts::LOG2_E;

    /// [`ROUND`] without the 127.
    const UNBIASED: f32 = ROUND - 127.0;

    pub(in super::super) static EXP_TO_ZERO: [f32; 13] =
        [ROUND, UNBIASED, LOG2_E, -LN2_HI, -LN2_LO, LOWEST_OF_E, ROUND, C6, C5, C4, C3, C2, 1.0];
    pub(in super::super) static EXP2_TO_ZERO: ([f32; 3], [f32; 6]) =
        ([ROUND, UNBIASED, LOWEST_POWER], POWERS_OF_2);
}
