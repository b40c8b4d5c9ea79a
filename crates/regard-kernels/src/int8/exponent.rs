//! From the distance of a score to its row's largest, to a weight: 2^−y in fixed point.

/// The score of a key that may not be seen: it lies further below any score than two scores can be apart.
pub(crate) const HIDDEN: i32 = i32::MIN;

/// Scores lie within ±2²⁹, so their distances within 2³⁰; to [`HIDDEN`] it is farther.
pub(crate) const FARTHEST: u32 = 1 << 30;

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
}
