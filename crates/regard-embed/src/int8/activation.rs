//! Activation functions of fixed-point numbers.

/// The bits after the point in the input and the output of an activation function.
pub(super) const POINT: u32 = 12;
/// log₂ of the distance between two entries of the table, in units of the input: 1/16 is 2⁸ units.
const STEP: u32 = POINT - 4;

/// σ(i/16) = 1 / (1 + e^(−i/16)) for i from 0 to 160, in units of 2⁻¹⁵.
#[rustfmt::skip]
const SIGMOID: [u16; 161] = [
    16384, 16896, 17407, 17916, 18421, 18923, 19420, 19912, 20397, 20874, 21344, 21804, 22255, 22696,
    23127, 23547, 23955, 24352, 24737, 25110, 25471, 25819, 26155, 26479, 26790, 27090, 27377, 27653,
    27917, 28169, 28411, 28642, 28862, 29072, 29272, 29462, 29644, 29816, 29979, 30135, 30282, 30422,
    30555, 30680, 30799, 30912, 31018, 31119, 31214, 31304, 31389, 31469, 31545, 31616, 31684, 31747,
    31807, 31864, 31917, 31968, 32015, 32060, 32102, 32141, 32179, 32214, 32247, 32278, 32307, 32335,
    32361, 32385, 32408, 32430, 32450, 32469, 32487, 32504, 32520, 32535, 32549, 32562, 32574, 32586,
    32597, 32607, 32617, 32626, 32635, 32643, 32650, 32657, 32664, 32670, 32676, 32682, 32687, 32692,
    32696, 32701, 32705, 32709, 32712, 32716, 32719, 32722, 32725, 32727, 32730, 32732, 32734, 32736,
    32738, 32740, 32742, 32743, 32745, 32746, 32747, 32749, 32750, 32751, 32752, 32753, 32754, 32755,
    32756, 32756, 32757, 32758, 32758, 32759, 32759, 32760, 32760, 32761, 32761, 32762, 32762, 32762,
    32763, 32763, 32763, 32764, 32764, 32764, 32764, 32765, 32765, 32765, 32765, 32765, 32766, 32766,
    32766, 32766, 32766, 32766, 32766, 32766, 32767,
];

/// Φ(i/16) = (1 + erf(i / (16 √2))) / 2 for i from 0 to 72, in units of 2⁻¹⁵.
#[rustfmt::skip]
const NORMAL: [u16; 73] = [
    16384, 17201, 18014, 18821, 19618, 20404, 21174, 21926, 22658, 23367, 24052, 24711, 25342,
    25944, 26516, 27058, 27569, 28049, 28499, 28917, 29306, 29666, 29997, 30301, 30579, 30832,
    31061, 31269, 31455, 31623, 31772, 31905, 32023, 32126, 32218, 32298, 32367, 32428, 32480,
    32526, 32565, 32598, 32626, 32650, 32670, 32687, 32702, 32714, 32724, 32732, 32739, 32744,
    32749, 32753, 32756, 32758, 32760, 32762, 32763, 32764, 32765, 32766, 32766, 32767, 32767,
    32767, 32767, 32767, 32767, 32767, 32767, 32767, 32767,
];

/// x·σ(x), with 12 bits after the point.
///
/// σ is interpolated between table entries that are 1/16 apart. Its error is at most (1/16)²/8 · max |σ''| = 4.7e-5, and half a
/// unit of 2⁻¹⁵ for each entry. Beyond ±10 it is the entry at ±10, which is 4.5e-5 from the limit.
///
/// ```
/// let silu = |x: f64| regard_embed::int8::silu((x * 4096.0) as i32) as f64 / 4096.0;
/// for x in [-20.0, -3.0, -0.1, 0.0, 0.7, 5.0, 20.0] {
///     assert!((silu(x) - x / (1.0 + (-x).exp())).abs() < 1.2e-4 * x.abs() + 2.5e-4, "{x}");
/// }
/// ```
#[must_use]
pub fn silu(x: i32) -> i32 {
    times(x, &SIGMOID)
}

/// x·Φ(x), GELU, with 12 bits after the point. The tanh form of GELU differs from it by at most 5e-4.
///
/// Φ is interpolated like σ in [`silu`]. Its error is at most (1/16)²/8 · max |Φ''| = 1.2e-4. Beyond ±4.5 it is the entry at
/// ±4.5, which is 3.4e-6 from the limit.
///
/// ```
/// let gelu = |x: f64| regard_embed::int8::gelu((x * 4096.0) as i32) as f64 / 4096.0;
/// assert!((gelu(1.0) - 0.841345).abs() < 4e-4);
/// assert!(gelu(-6.0).abs() < 4e-4 && (gelu(6.0) - 6.0).abs() < 4e-4);
/// ```
#[must_use]
pub fn gelu(x: i32) -> i32 {
    times(x, &NORMAL)
}

/// tanh x = 2 σ(2x) − 1, with 12 bits after the point.
///
/// σ is interpolated as in [`silu`]: the error is at most 1.6e-4, and half a unit of 2⁻¹².
///
/// ```
/// let tanh = |x: f64| regard_embed::int8::tanh((x * 4096.0) as i32) as f64 / 4096.0;
/// for x in [-20.0, -3.0, -0.125, 0.0, 0.75, 5.0, 20.0] {
///     assert!((tanh(x) - f64::tanh(x)).abs() < 3e-4, "{x}");
/// }
/// ```
#[must_use]
pub fn tanh(x: i32) -> i32 {
    (2 * factor(x.saturating_mul(2), &SIGMOID) - (1 << 15) + (1 << 2)) >> 3
}

/// x·f(x) for a function with f(−x) = 1 − f(x). `table` holds f at multiples of 1/16, from 0 on.
fn times<const N: usize>(x: i32, table: &[u16; N]) -> i32 {
    ((i64::from(x) * i64::from(factor(x, table)) + (1 << 14)) >> 15) as i32
}

/// f(x) in units of 2⁻¹⁵, as [`times`] describes it.
fn factor<const N: usize>(x: i32, table: &[u16; N]) -> i32 {
    let last = N.saturating_sub(1);
    let magnitude = x.unsigned_abs().min((last as u32) << STEP);
    let (i, fraction) = ((magnitude >> STEP) as usize, (magnitude & ((1 << STEP) - 1)) as i32);
    let at = |i: usize| table.get(i).map_or(1 << 15, |x| i32::from(*x));
    // At the end of the table the fraction is 0.
    let (low, high) = (at(i), at(i + 1));
    let above = low + ((((high - low) * fraction) + (1 << (STEP - 1))) >> STEP);
    if x < 0 { (1 << 15) - above } else { above }
}

/// max(x, 0).
#[must_use]
pub fn relu(x: i32) -> i32 {
    x.max(0)
}
