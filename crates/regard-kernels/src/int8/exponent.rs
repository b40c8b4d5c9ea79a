//! The exponential of the integer softmax: the weight 2^−y of a score, from its distance to the row's largest score, in fixed
//! point.

use core::cell::Cell;

use super::ratio::MOST;

/// The score of a hidden key. Its distance to any score is larger than that of two scores can be.
pub(crate) const HIDDEN: i32 = i32::MIN;

/// The largest distance of two scores, which lie within ±2²⁹. The distance to [`HIDDEN`] is larger.
pub(crate) const FARTHEST: u32 = 1 << 30;

/// The weight 1. Weights are signed 16-bit numbers, because cores multiply and add pairs of such numbers.
const ONE: u32 = 1 << 14;

/// The factor from a distance of scores to a weight: y = (distance >> `shift`) · `multiplier` is the negated logarithm to base
/// 2 of the weight, with 28 bits after the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exponent {
    pub(crate) shift: u32,
    pub(crate) multiplier: u32,
    /// From this distance on y is at least 16, and the weight is 0.
    pub(crate) limit: u32,
}

impl Exponent {
    /// `log2_per_unit` is what one unit of distance adds to y. It is from 0 (all weights are equal) to ∞ (only the largest
    /// score has weight).
    pub(crate) const fn new(log2_per_unit: f64) -> Self {
        let mut multiplier = log2_per_unit * (1_u32 << 28) as f64;
        if multiplier >= u32::MAX as f64 {
            return Self { shift: 0, multiplier: 0, limit: 1 };
        }
        // 16 significant bits are enough: the bits of the distance that are shifted out are then worth less than 2⁻¹².
        let mut shift = 0;
        while multiplier < 32768.0 && shift < 30 {
            multiplier *= 2.0;
            shift += 1;
        }
        let multiplier = (multiplier + 0.5) as u32;
        // The largest distance whose product fits in 32 bits.
        let limit = match u32::MAX.checked_div(multiplier) {
            Some(last) if last < FARTHEST >> shift => (last + 1) << shift,
            _ => FARTHEST + 1,
        };
        Self { shift, multiplier, limit }
    }

    /// The weight, in units of 1 / [`ONE`], of a key whose score is `distance` below the largest.
    ///
    /// 2^−y = 2^−n · 2^−x with n whole and 0 ≤ x < 1, as in I-BERT (Kim et al. 2021, arXiv 2101.01321), in base 2 and with
    /// a polynomial of degree 3: 1 at 0, ½ at 1, within 1.1e-4 between, and never rising.
    #[inline(always)]
    fn weight(&self, distance: u32) -> u32 {
        let y = (distance >> self.shift).wrapping_mul(self.multiplier);
        let (n, x) = (y >> 28, (y >> 13) & 0x7fff);
        let p = 15107 - ((2565 * x) >> 15);
        let p = 45311 - ((p * x) >> 15);
        let p = 2 * ONE - ((p * x) >> 16);
        let weight = ((p >> n) + 1) >> 1;
        if distance < self.limit { weight } else { 0 }
    }
}

/// The largest of the scores numbered `r`, of which there is a multiple of four; 0 if no key is seen. Any number serves then,
/// because [`HIDDEN`] is far from all of them.
#[inline(always)]
fn largest<const R: usize>(scores: &[[i32; R]], r: usize) -> i32 {
    let mut max = HIDDEN;
    for [a, b, c, d] in scores.as_chunks().0 {
        max = max.max(a[r]).max(b[r]).max(c[r]).max(d[r]);
    }
    if max == HIDDEN { 0 } else { max }
}

/// Turns the scores numbered `r` into weights, two in a word, in the first half of the scores' memory. Returns the sum of the
/// weights.
#[inline(always)]
pub(crate) fn weigh<const R: usize>(exponent: &Exponent, scores: &mut [[i32; R]], r: usize) -> u32 {
    let r = r.min(R - 1); // tells the compiler that r < R
    let max = largest(scores, r);
    // A weight is written before the scores that are still to be read.
    let cells = Cell::from_mut(scores.as_flattened_mut()).as_slice_of_cells().as_chunks::<R>().0;
    let (fours, weights) = (cells.as_chunks::<4>().0, cells.as_chunks::<2>().0);
    let mut total = 0;
    for (scores, pairs) in fours.iter().zip(weights) {
        // Each pair is written before the next is read, which leaves registers for the constants.
        for (i, pair) in pairs.iter().enumerate() {
            let low = exponent.weight(max.wrapping_sub(scores[i][r].get()) as u32);
            let high = exponent.weight(max.wrapping_sub(scores[i + 2][r].get()) as u32);
            total += low + high;
            pair[r].set((low | (high << 16)) as i32);
        }
    }
    halve(total, scores, r)
}

/// The number of times that the weights of a row must be halved for their total to fall below half of [`MOST`]. Rounding up
/// adds at most half a unit for each of 2¹⁷ keys, so the total then stays below [`MOST`].
#[inline(always)]
fn excess(total: u32) -> u32 {
    (MOST / 2 - 1).leading_zeros().saturating_sub(total.leading_zeros())
}

/// A weight, halved `excess` times, at least once, and rounded to the nearest integer.
#[inline(always)]
fn halved(weight: u32, excess: u32) -> u32 {
    ((weight >> (excess - 1)) + 1) >> 1
}

/// Halves the weights numbered `r`, which lie two in a word in the first half of the memory that held the scores, as often as their
/// `total` requires. Returns the new total.
#[inline(always)]
fn halve<const R: usize>(total: u32, weights: &mut [[i32; R]], r: usize) -> u32 {
    let excess = excess(total);
    if excess == 0 {
        return total;
    }
    let (mut sum, words) = (0, weights.len() / 2);
    for word in weights.iter_mut().take(words).filter_map(|words| words.get_mut(r)) {
        let both = *word as u32;
        let (low, high) = (halved(both & 0xffff, excess), halved(both >> 16, excess));
        sum += low + high;
        *word = (low | (high << 16)) as i32;
    }
    debug_assert!(sum < MOST, "{sum}");
    sum
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
        // The polynomial is off by 1.2e-4, as the test above finds over all fractions. Three more errors change y; each counts
        // times ln 2. The multiplier has 16 significant bits (16 · 2⁻¹⁶ at y = 16). The bits of the distance that are shifted
        // out are worth less than 2¹⁶ · 2⁻²⁸. The fraction is cut to 15 bits.
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
