//! The exponential of the integer softmax: the weight 2^−y of a score, from its distance to the row's largest score, in fixed
//! point.

/// The score of a hidden key. Its distance to any score is larger than that of two scores can be.
pub(crate) const HIDDEN: i32 = i32::MIN;

/// The largest distance of two scores, which lie within ±2²⁹. The distance to [`HIDDEN`] is larger.
pub(crate) const FARTHEST: u32 = 1 << 30;

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
}
