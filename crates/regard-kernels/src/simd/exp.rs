use super::Simd;

/// eˣ, lane by lane, within 1 ULP for every `x`, subnormal results included. NaN gives NaN, −∞ gives 0, ∞ gives ∞.
///
/// x = n·ln 2 + r with |r| ≤ ln 2 / 2 (Cody and Waite's two-part reduction: n·`LN2_HI` is exact without fused
/// multiply-add too), eʳ ≈ 1 + r + r²·q(r) with a minimax polynomial of degree 6 in all (largest relative error 3.1e-9,
/// 0.05 ULP), times 2ⁿ. Over all floats the largest error is 0.875 ULP with fused multiply-add, 0.894 without.
#[inline(always)]
pub(crate) fn exp<S: Simd>(simd: S, x: S::V) -> S::V {
    const LN2_HI: f32 = 355.0 / 512.0; // nine bits
    const LN2_LO: f32 = -2.121_944_4e-4;
    // 1.5·2²³: adding it rounds to an integer, ties to even, for |t| < 2²².
    const ROUND: f32 = 12_582_912.0;
    // Behind these the result is 0 and ∞ all the same; within them n stays in the range of `scale_exp2`.
    const LOWEST: f32 = -104.0;
    const HIGHEST: f32 = 89.0;

    // NaN passes: `max` gives its second operand, and NaN > HIGHEST is false.
    let x = simd.max(simd.splat(LOWEST), x);
    let highest = simd.splat(HIGHEST);
    let x = simd.select(simd.gt(x, highest), highest, x);

    let round = simd.splat(ROUND);
    let n = simd.sub(simd.mul_add(x, simd.splat(core::f32::consts::LOG2_E), round), round);
    let high = simd.mul_add(n, simd.splat(-LN2_HI), x); // exact
    let low = simd.mul(n, simd.splat(-LN2_LO));
    let r = simd.add(high, low);

    let mut q = simd.splat(0.001_381_453_9);
    for c in [0.008_368_745, 0.041_668_39, 0.166_665_21, 0.499_999_94] {
        q = simd.mul_add(q, r, simd.splat(c));
    }
    // r was rounded to 2⁻²⁶, high and low were not: adding them apart is what keeps the error below 1 ULP.
    let tail = simd.mul_add(simd.mul(r, r), q, low);
    let p = simd.add(simd.add(high, tail), simd.splat(1.0));
    simd.scale_exp2(p, n)
}

/// 2ᵗ for t ≤ 126, lane by lane, for weights: exactly 1 at 0, and 0 below 2⁻¹²⁶·⁵ (so at −∞). NaN gives NaN.
///
/// t = n + f with |f| ≤ ½, 2ᶠ by a minimax polynomial of degree 6 (largest relative error 2.6e-9), times 2ⁿ by its
/// exponent's bits. A multiply-subtract in base 2 stands for the two steps of Cody and Waite's reduction: the error of
/// the weight e^x is that of rounding x·log₂e, |t|·2⁻²⁴ of it, which no sum of weights up to 1 can tell.
#[inline(always)]
pub(crate) fn exp2_to_zero<S: Simd>(simd: S, t: S::V) -> S::V {
    // 1.5·2²³ rounds to an integer when it is added; 127 more leaves n + 127 in the sum's low bits.
    const ROUND: f32 = 12_582_912.0 + 127.0;
    const LOWEST: f32 = -127.0; // where n + 127 = 0 stands for the factor 0

    let t = simd.max(simd.splat(LOWEST), t); // NaN passes
    let biased = simd.add(t, simd.splat(ROUND));
    let f = simd.sub(t, simd.sub(biased, simd.splat(ROUND)));
    let power = simd.exponent(biased);
    let mut q = simd.splat(1.559_467_8e-4);
    for c in [0.001_340_664_3, 0.009_617_693, 0.055_503_104, 0.240_226_52, 0.693_147_24] {
        q = simd.mul_add(q, f, simd.splat(c));
    }
    simd.mul_add(q, simd.mul(power, f), power)
}
