//! From the distance of a score to its row's largest, to a weight: 2^−y in fixed point.

/// A weight of 1. Weights are 16-bit numbers with a sign, because multiply-adds of pairs of those are what cores have.
#[cfg(any(not(dsp), test))] // there in assembly
pub(crate) const ONE: u32 = 1 << 14;

/// The score of a key that may not be seen: it lies further below any score than two scores can be apart.
pub(crate) const HIDDEN: i32 = i32::MIN;

/// Scores lie within ±2²⁹, so their distances within 2³⁰; to [`HIDDEN`] it is farther.
const FARTHEST: u32 = 1 << 30;

/// How a distance of scores becomes a weight: y = (distance >> `shift`) · `multiplier` is the logarithm to base 2, negated,
/// with 28 bits after the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exponent {
    pub(crate) shift: u32,
    pub(crate) multiplier: u32,
    /// From this distance on y is 16 or more, and the weight 0.
    pub(crate) limit: u32,
}

impl Exponent {
    /// `log2_per_unit`: what one unit of a score's distance adds to y, from 0 (all weights are equal) to ∞ (only the
    /// largest score has weight).
    pub(crate) const fn new(log2_per_unit: f64) -> Self {
        let mut multiplier = log2_per_unit * (1_u32 << 28) as f64;
        if multiplier >= u32::MAX as f64 {
            return Self { shift: 0, multiplier: 0, limit: 1 };
        }
        // 16 significant bits are enough: those of the distance that are shifted out count for less than 2⁻¹² then.
        let mut shift = 0;
        while multiplier < 32768.0 && shift < 30 {
            multiplier *= 2.0;
            shift += 1;
        }
        let multiplier = (multiplier + 0.5) as u32;
        // The distances whose product fits in 32 bits.
        let limit = match u32::MAX.checked_div(multiplier) {
            Some(last) if last < FARTHEST >> shift => (last + 1) << shift,
            _ => FARTHEST + 1,
        };
        Self { shift, multiplier, limit }
    }

    /// The weight of a key whose score is `distance` below the largest, of [`ONE`].
    ///
    /// 2^−y = 2^−n · 2^−x with n whole and 0 ≤ x < 1, as in I-BERT (Kim et al. 2021, arXiv 2101.01321), in base 2 and with
    /// a polynomial of degree 3: 1 at 0, ½ at 1, within 1.1e-4 between, and never rising.
    #[cfg(any(not(dsp), test))]
    #[inline(always)]
    pub(crate) fn weight(&self, distance: u32) -> u32 {
        let y = (distance >> self.shift).wrapping_mul(self.multiplier);
        let (n, x) = (y >> 28, (y >> 13) & 0x7fff);
        let p = 15107 - ((2565 * x) >> 15);
        let p = 45311 - ((p * x) >> 15);
        let p = 2 * ONE - ((p * x) >> 16);
        let weight = ((p >> n) + 1) >> 1;
        if distance < self.limit { weight } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_weight_is_near_two_to_the_minus_y_and_none_rises() {
        // A unit is 2⁻¹⁵ of y: every pair of whole part and fraction that the polynomial sees.
        let exponent = Exponent { shift: 0, multiplier: 1 << 13, limit: 1 << 19 };
        let mut last = ONE;
        for distance in (0..1 << 19).step_by(if cfg!(miri) { 1 << 10 } else { 1 }) {
            let exact = f64::from(ONE) * (-f64::from(distance) / 32768.0).exp2();
            let weight = exponent.weight(distance);
            let error = (f64::from(weight) - exact).abs();
            assert!(error <= 1.2e-4 * exact + 1.0, "{weight} at {distance}, which is {exact}");
            assert!(weight <= last, "rises at {distance}");
            last = weight;
        }
        assert_eq!((exponent.weight(0), exponent.weight(1 << 15), last), (ONE, ONE / 2, 0));
        assert_eq!(exponent.weight(1 << 19), 0);
    }

    #[test]
    fn whatever_a_unit_means_the_weight_is_near() {
        // Beside the polynomial's 1.2e-4, which the test above finds for all fractions, three parts move y, each by what
        // follows times ln 2: the multiplier has 16 significant bits (16 · 2⁻¹⁶ where y = 16), the bits of the distance that
        // are shifted out are worth less than 2¹⁶ · 2⁻²⁸, and the fraction is cut to 15 bits.
        let bound = 1.2e-4 + core::f64::consts::LN_2 * (2.0 / 4096.0 + 1.0 / 32768.0);
        for log2 in [1e-12, 3e-9, 4.1e-6, 1e-4, 2.0_f64.powi(-12), 3e-4, 0.01, 0.7, 1.0, 3.3, 15.9]
        {
            let exponent = Exponent::new(log2);
            let mut last = ONE;
            let mut distance = 0;
            while distance <= FARTHEST {
                let exact = f64::from(ONE) * (-f64::from(distance) * log2).exp2();
                let weight = exponent.weight(distance);
                let error = (f64::from(weight) - exact).abs();
                assert!(
                    error <= bound * exact + 1.0,
                    "{weight} at {distance} · {log2}, which is {exact}"
                );
                assert!(weight <= last, "rises at {distance} · {log2}");
                last = weight;
                distance += 1 + distance / 64;
            }
        }
    }

    #[test]
    fn hidden_scores_are_too_far_for_any_weight() {
        for log2 in [0.0, 1e-300, 1e-12, 1.0, f64::INFINITY] {
            let exponent = Exponent::new(log2);
            for max in [-(1 << 29), 0, 1 << 29] {
                assert_eq!(exponent.weight(HIDDEN.abs_diff(max)), 0, "{log2}");
            }
            assert_eq!(exponent.weight(0), ONE, "{log2}");
        }
    }
}
