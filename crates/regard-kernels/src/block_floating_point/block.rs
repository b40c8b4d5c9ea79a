//! Numbers that share an exponent.

use crate::Mat;
use crate::error::Error;

/// The exponent that a block of numbers shares: the exponent field of its largest magnitude, from [`LEAST`] to 254.
///
/// All magnitudes are below 2^(`field` − 126). A mantissa of 2¹⁵ would stand for that.
#[derive(Clone, Copy)]
pub(super) struct Block {
    pub(super) field: u32,
}

/// The exponent field of 2⁻⁶³. Numbers whose field is 0, the subnormal ones, are then shifted out wholly, and an output's factor is
/// a normal number.
const LEAST: u32 = 64;

/// The exponent field of ∞ and NaN.
const NOT_FINITE: u32 = 255;

impl Block {
    /// That of all rows of a matrix, which `name` tells.
    ///
    /// # Errors
    /// [`Error::Range`] if a number is not finite.
    pub(super) fn of(name: &'static str, m: Mat<'_>) -> Result<Self, Error> {
        let mut largest = 0;
        for i in 0..m.rows() {
            largest = largest.max(largest_magnitude(m.row(i)));
        }
        let block = Self::below(largest);
        if block.field == NOT_FINITE {
            return Err(Error::Range { name, value: f32::from_bits(largest), range: "finite" });
        }
        Ok(block)
    }

    /// That of one row whose numbers are finite.
    pub(super) fn of_row(row: &[f32]) -> Self {
        Self::below(largest_magnitude(row))
    }

    fn below(magnitude: u32) -> Self {
        Self { field: (magnitude >> 23).max(LEAST) }
    }

    /// The mantissas of a row of this block, rounded to the nearest (halves away from 0), within ±32767; 0 for columns that do not
    /// exist.
    #[inline(never)]
    pub(super) fn mantissas(self, row: &[f32], out: &mut [i32]) {
        for (out, x) in out.iter_mut().zip(row) {
            let bits = x.to_bits();
            let below = (self.field + 8).wrapping_sub((bits >> 23) & 0xff).min(31);
            // 24 bits are shifted to 16: 15 and one for rounding.
            let twice = ((bits & 0x7f_ffff) | 0x80_0000) >> below;
            let magnitude = ((twice + 1) >> 1).min(0x7fff) as i32;
            let sign = bits as i32 >> 31;
            *out = (magnitude ^ sign) - sign;
        }
        out.get_mut(row.len()..).unwrap_or_default().fill(0);
    }
}

/// The bits of the largest magnitude. Magnitudes are in the order of their bits, NaN after ∞.
#[inline(never)]
fn largest_magnitude(row: &[f32]) -> u32 {
    let mut largest = 0;
    for x in row {
        largest = largest.max(x.to_bits() << 1);
    }
    largest >> 1
}
