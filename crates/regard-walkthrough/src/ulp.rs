//! Errors in units of the last place.

use crate::Matrix;
use crate::check::largest;

/// A cell that is smaller than this share of the largest number of its row is measured as if it had that size.
const FLOOR: f64 = 1.0 / 1024.0;

/// The distance of `x` from `r` in units of the last place of `r`: |x − r| / ulp(max(|r|, floor)).
///
/// ulp(r) is the gap between neighbouring `f32` at r: 2^(e − 23) for 2^e ≤ |r| < 2^(e + 1), and 2^−149 below the normal numbers.
/// r is not rounded first, so a correctly rounded result is at most ½ away.
///
/// If large terms cancel, the small number that remains keeps the rounding errors of those terms, however good the arithmetic
/// is. In units of its own last place, its error would be millions. So r counts as at least `floor`. For a cell of a step this
/// is 2⁻¹⁰ of the largest number of its row: rows are computed independently, and three decimals do not show a thousandth of a
/// neighbour. A loss of up to three digits still shows: a sum that cancels to a thousandth of its row can have an error of a
/// thousand units.
///
/// ```
/// use regard_walkthrough::ulps;
/// assert_eq!(ulps(1.0 + f32::EPSILON, 1.0, 0.0), 1.0);
/// assert_eq!(ulps(1.0, 1.0 + f64::from(f32::EPSILON) / 4.0, 0.0), 0.25);
/// // 1 + 1e-7 − 1 in f32, in a row whose largest number is 1: millions of units of its own last place.
/// assert_eq!(ulps(1.0 + 1e-7 - 1.0, 1e-7, 1.0 / 1024.0).round(), 165.0);
/// assert_eq!(ulps(f32::NEG_INFINITY, f64::NEG_INFINITY, 0.0), 0.0);
/// ```
pub fn ulps(x: f32, r: f64, floor: f64) -> f64 {
    let x = f64::from(x);
    if x == r { 0.0 } else { (x - r).abs() / ulp(r.abs().max(floor)) }
}

/// The gap between neighbouring `f32` at a positive number.
fn ulp(r: f64) -> f64 {
    // The exponent of an f64 is in its bits. A tiny subnormal gets f32's smallest exponent.
    let exponent = ((r.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    f64::from(exponent.clamp(-126, 127) - 23).exp2()
}

pub(crate) fn floor(exact: &Matrix<f64>, i: usize) -> f64 {
    largest(exact.row(i).iter().copied()) * FLOOR
}

/// The largest distance of all cells.
pub(crate) fn max_ulp(ours: &Matrix, exact: &Matrix<f64>) -> f64 {
    let row = |i| {
        let floor = floor(exact, i);
        ours.row(i).iter().zip(exact.row(i)).map(move |(x, r)| ulps(*x, *r, floor))
    };
    (0..ours.rows())
        .flat_map(row)
        .fold(0.0, |worst: f64, e| if e.is_nan() || e > worst { e } else { worst })
}
