use serde::{Deserialize, Serialize};

use super::largest;

/// The share of the sum of all numbers that is reached where the colours end.
const SHARE: f64 = 0.9;
/// Colours end below the largest number only if it exceeds the number that reaches the share by this factor.
const OUTSHONE: f32 = 10.0;
/// Numbers below this share of where the colours end look like 0 on a linear map.
const FAINT: f32 = 0.03;
/// Numbers are faint as a whole if those that look like 0 hold more than this share of the sum.
const LOST: f64 = 0.25;
/// A matrix with more numbers than this is sampled.
const SAMPLE: usize = 1 << 16;

/// The magnitude of the numbers of a matrix.
///
/// If a few cells are far larger than the rest, colours that extend to the largest number leave the rest blank: in uniform
/// causal attention over 4096 tokens, the first row has the weight 1 and the last one 1/4096. Colours then end at a smaller
/// number: cells up to it hold 90 % of the sum of all absolute values, and larger numbers have the last colour. If each row
/// attends to one token, the large cells themselves hold most of the sum, and colours extend to them. If more than a
/// quarter of the sum would look like 0 even so, the numbers are faint, and a logarithmic map shows more.
///
/// ```
/// use regard_figure::Extent;
/// let n = 1000;
/// let even: Vec<f32> =
///     (0..n * n).map(|i| if i % n <= i / n { 1.0 / (i / n + 1) as f32 } else { 0.0 }).collect();
/// let extent = Extent::of(&even);
/// assert_eq!(extent.largest, 1.0);
/// assert!(extent.end < 0.02);
/// let to_itself: Vec<f32> = (0..n * n).map(|i| if i % n == i / n { 1.0 } else { 1e-6 }).collect();
/// assert_eq!(Extent::of(&to_itself).end, 1.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Extent {
    /// The largest absolute value among finite numbers.
    pub largest: f32,
    /// The number where linear colours end.
    pub end: f32,
    /// Whether linear colours would hide more than a quarter of the sum.
    pub is_faint: bool,
}

impl Extent {
    /// The extent of these numbers.
    pub fn of(numbers: &[f32]) -> Self {
        Self::up_to(largest(numbers), numbers)
    }

    /// The extent of numbers whose largest absolute value is known.
    pub fn up_to(largest: f32, numbers: &[f32]) -> Self {
        // With an odd stride the sample has all columns of a matrix whose width is a power of two.
        let stride = (numbers.len() / SAMPLE) | 1;
        let sample = numbers.iter().step_by(stride).map(|x| x.abs());
        let mut sample: Vec<f32> = sample.filter(|x| x.is_finite() && *x > 0.0).collect();
        sample.sort_unstable_by(f32::total_cmp);
        let sum = |numbers: &[f32]| numbers.iter().copied().map(f64::from).sum::<f64>();
        let all = sum(&sample);
        let mut reached = 0.0;
        let share = sample.iter().copied().find(|x| {
            reached += f64::from(*x);
            reached >= SHARE * all
        });
        let end = share.filter(|share| share * OUTSHONE < largest).unwrap_or(largest);
        let faint = sample.partition_point(|x| *x < FAINT * end);
        Self { largest, end, is_faint: sum(&sample[..faint]) > LOST * all }
    }
}
