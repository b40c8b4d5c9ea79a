//! The conversion of a weighted sum of values to an output of 8 bits.

use core::num::NonZeroU32;

use crate::Error;
use crate::arch::int8::Factor;

/// The largest sum of a row's weights for which no weighted sum of 8-bit values leaves 32 bits.
pub(crate) const MOST: u32 = 1 << 24;

/// One unit of the values in units of the output: `mantissa` · 2^`exponent`, with a mantissa from 2²⁹ to 2³⁰.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ratio {
    mantissa: u32,
    exponent: i32,
}

impl Ratio {
    pub(crate) const fn new(ratio: f64) -> Result<Self, Error> {
        // Beyond these bounds all outputs would be 0, or each output that is not 0 would be clipped.
        if !(ratio >= 1.0 / 256.0 && ratio < 4096.0) {
            let range = "at least 1/256 and less than 4096";
            return Err(Error::Range {
                name: "the scale of value / that of the output",
                value: ratio as f32,
                range,
            });
        }
        let (mut mantissa, mut exponent) = (ratio, 0);
        while mantissa < 536_870_912.0 {
            mantissa *= 2.0;
            exponent -= 1;
        }
        Ok(Self { mantissa: mantissa as u32, exponent })
    }

    /// The factor from a weighted sum to an output, for weights whose `total` is at most [`MOST`]. A total of 0 gives the
    /// factor 0.
    #[inline]
    pub(crate) fn divided_by(self, total: u32) -> Factor {
        let zeros = total.leading_zeros();
        let Some(divisor) = NonZeroU32::new(total << (zeros - 8)) else { return Factor::ZERO };
        // Long division in steps of 8 bits, because many cores have no division of 64 bits.
        let (mut quotient, mut rest) = (0, self.mantissa);
        for _ in 0..4 {
            quotient = (quotient << 8) | (rest / divisor);
            rest = (rest % divisor) << 8;
        }
        // ratio / total = quotient · 2^(exponent − 24 + zeros − 8).
        Factor { multiplier: quotient as i32, shift: (-self.exponent) as u32 - zeros }
    }
}
