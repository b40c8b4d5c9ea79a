use core::f32::consts::LOG2_E;

use crate::Temperature;
use crate::simd::{
    Distance, Exp2ToZero, ExpToZero, Kernel, LANES, Lanes, Map, Panel, Simd, dispatch,
};

/// Softmax in place, xᵢ ← e^((xᵢ − max)/T) / Σⱼ e^((xⱼ − max)/T).
///
/// The largest score is subtracted first, so nothing overflows. The limits are computed as limits:
/// - T = 0: all weight on the largest score, shared evenly by ties; T = ∞: uniform over all scores but −∞;
/// - −∞ gets no weight; where every score is −∞, all weights are 0;
/// - +∞ takes all weight, shared evenly by ties;
/// - NaN makes the whole row NaN.
///
/// e^x is within 1 ULP, and 0 where it is below 2⁻¹²⁶ (1.2 ULP on tiers without fused multiply-add).
///
/// ```
/// use regard_kernels::{Temperature, softmax};
/// let mut x = [2.0, 1.0, 0.1];
/// softmax(&mut x, Temperature::ONE);
/// assert!((x[0] - 0.659).abs() < 1e-3);
/// ```
pub fn softmax(x: &mut [f32], temperature: Temperature) {
    dispatch(SoftmaxRow(x, temperature));
}

/// [`softmax`], and the row's log-sum-exp ln Σⱼ e^(xⱼ/T).
///
/// It is −∞ where every score is −∞. At T = 0 it is the limit of max/T + ln(ties): ±∞, or ln(ties) where the maximum is 0.
///
/// ```
/// use regard_kernels::{Temperature, softmax_with_log_sum_exp};
/// let log_sum_exp = softmax_with_log_sum_exp(&mut [2.0, 1.0, 0.1], Temperature::ONE);
/// assert!((log_sum_exp - 2.417).abs() < 1e-3);
/// ```
pub fn softmax_with_log_sum_exp(x: &mut [f32], temperature: Temperature) -> f32 {
    let (max, sum) = dispatch(SoftmaxRow(x, temperature));
    log_sum_exp(max, sum, temperature.factor(), temperature)
}

struct SoftmaxRow<'a>(&'a mut [f32], Temperature);

impl Kernel for SoftmaxRow<'_> {
    type Output = (f32, f32);

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> (f32, f32) {
        softmax_row(simd, self.0, self.1)
    }
}

/// [`softmax`] within a kernel. Returns the largest score and the sum that the weights were divided by.
#[inline(always)]
pub(crate) fn softmax_row<S: Simd>(
    simd: S,
    row: &mut [f32],
    temperature: Temperature,
) -> (f32, f32) {
    temperature.prepare(row);
    let (blocks, rest) = row.as_chunks_mut();
    let mut tail = [[f32::NEG_INFINITY; LANES]];
    let tail = if rest.is_empty() { &mut tail[..0] } else { &mut tail[..] };
    for lanes in tail.iter_mut() {
        simd.store(simd.load_or(rest, f32::NEG_INFINITY), lanes);
    }
    let (max, max_of_tail) = (simd.max_of(blocks), simd.max_of(tail));
    let max = if max_of_tail > max { max_of_tail } else { max };
    let weigher = Weigher::new(max, temperature.factor(), temperature);
    let sum = weigher.exp_row_sum(simd, blocks, tail);
    for lanes in tail.iter() {
        simd.store_first(simd.load(lanes), rest);
    }
    divide(simd, row, sum);
    (max, sum)
}

/// How the scores of one row become weights that are not yet divided.
#[derive(Clone, Copy)]
pub(crate) struct Weigher {
    distance: Distance,
    /// Only the largest score counts, because T = 0 or because it is ∞.
    limit: bool,
}

impl Weigher {
    /// Weights by the distance from `max`, times `factor`.
    #[inline(always)]
    pub(crate) fn new(max: f32, factor: f32, temperature: Temperature) -> Self {
        // While no key is seen, −∞ − (−∞) would be NaN; any finite number serves.
        let finite = if max == f32::NEG_INFINITY { 0.0 } else { max };
        let limit = finite == max && (temperature.is_zero() || max == f32::INFINITY);
        Self { distance: Distance { max: finite, factor }, limit }
    }

    fn limit(&self) -> Limit {
        Limit(self.distance.max)
    }

    /// Scores ← e^distance, within 1 ULP, and their sum.
    #[inline(always)]
    fn exp_row_sum<S: Simd>(&self, simd: S, row: &mut [Panel], tail: &mut [Panel]) -> f32 {
        if self.limit {
            simd.map_sum(row, tail, &self.limit())
        } else {
            simd.map_sum(row, tail, &ExpToZero(self.distance))
        }
    }

    /// Scores ← 2^distance, and their sum.
    #[inline(always)]
    fn exp2_row_sum<S: Simd>(&self, simd: S, row: &mut [Panel]) -> f32 {
        if self.limit {
            simd.map_sum(row, &mut [], &self.limit())
        } else {
            simd.map_sum(row, &mut [], &Exp2ToZero(self.distance))
        }
    }

    /// Scores ← 2^distance.
    #[inline(always)]
    fn exp2_row<S: Simd>(&self, simd: S, row: &mut [f32]) {
        if self.limit {
            simd.map(row, &self.limit());
        } else {
            simd.map(row, &Exp2ToZero(self.distance));
        }
    }

    /// 2^distance of one block.
    #[inline(always)]
    pub(crate) fn exp2<S: Simd>(&self, simd: S, scores: S::V) -> S::V {
        if self.limit {
            self.limit().of(simd, scores)
        } else {
            Exp2ToZero(self.distance).of(simd, scores)
        }
    }
}

/// Scores ← 2^((score − max)·factor), and their sum.
#[inline(always)]
pub(crate) fn exp2_row_sum<S: Simd>(
    simd: S,
    row: &mut [Panel],
    max: f32,
    factor: f32,
    temperature: Temperature,
) -> f32 {
    if S::NARROW {
        exp2_row(simd, row.as_flattened_mut(), max, factor, temperature);
        simd.sum(row)
    } else {
        Weigher::new(max, factor, temperature).exp2_row_sum(simd, row)
    }
}

/// 2^((score − max)·factor): the factor for sums that refer to the lower maximum `score`.
#[inline(always)]
pub(crate) fn exp2_one<S: Simd>(
    simd: S,
    score: f32,
    max: f32,
    factor: f32,
    temperature: Temperature,
) -> f32 {
    let mut weight = [score];
    exp2_row(simd, &mut weight, max, factor, temperature);
    let [weight] = weight;
    weight
}

/// On bare metal a function of its own, because the code of each call would add up.
#[cfg_attr(target_os = "none", inline(never))]
#[cfg_attr(not(target_os = "none"), inline(always))]
fn exp2_row<S: Simd>(simd: S, row: &mut [f32], max: f32, factor: f32, temperature: Temperature) {
    Weigher::new(max, factor, temperature).exp2_row(simd, row);
}

/// The share of all weight that the keys have beside an attention sink with the score `sink`. `sum` is
/// the sum of the keys' weights e^((score − max)/T).
#[inline(always)]
pub(crate) fn share_beside_sink<S: Simd>(
    simd: S,
    max: f32,
    sum: f32,
    sink: f32,
    temperature: Temperature,
) -> f32 {
    let mut score = [sink];
    temperature.prepare(&mut score);
    let [score] = score;
    let largest = if score > max { score } else { max };
    let weight = |x: f32| exp2_one(simd, x, largest, temperature.factor() * LOG2_E, temperature);
    let keys = sum * weight(max);
    if keys == 0.0 { 0.0 } else { keys / (keys + weight(score)) }
}

/// The limit: 1 for the largest score, 0 for the others. NaN is unequal to itself, and stays NaN.
struct Limit(f32);

impl Map for Limit {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, score: L::V) -> L::V {
        let is_largest = lanes.eq(score, lanes.splat(self.0));
        let weight = lanes.select(is_largest, lanes.splat(1.0), lanes.splat(0.0));
        lanes.select(lanes.eq(score, score), weight, score)
    }
}

/// row ← row · factor.
#[inline(always)]
pub(crate) fn scale_row<S: Simd>(simd: S, row: &mut [f32], factor: f32) {
    struct Scale(f32);
    impl Map for Scale {
        #[inline(always)]
        fn of<L: Lanes>(&self, lanes: L, x: L::V) -> L::V {
            lanes.mul(x, lanes.splat(self.0))
        }
    }
    simd.map(row, &Scale(factor));
}

/// row ← row / sum, as [`Divide`].
#[inline(always)]
pub(crate) fn divide<S: Simd>(simd: S, row: &mut [f32], sum: f32) {
    simd.map(row, &Divide::by(sum));
}

/// Whether a sum of weights is still −0: no key was seen, not even one whose weight is 0.
#[inline(always)]
pub(crate) fn nothing_seen(sum: f32) -> bool {
    sum.to_bits() == (-0.0_f32).to_bits()
}

/// x / sum. Zeros where [`nothing_seen`], whatever `x` holds. Where all weights are 0, `x` holds zeros, or NaN in the columns
/// in which a value is not finite, and stays as it is.
pub(crate) struct Divide {
    reciprocal: f32,
    none: bool,
}

impl Divide {
    #[inline(always)]
    pub(crate) fn by(sum: f32) -> Self {
        Self { reciprocal: if sum == 0.0 { 0.0 } else { 1.0 / sum }, none: nothing_seen(sum) }
    }
}

impl Map for Divide {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, x: L::V) -> L::V {
        let zero = lanes.splat(0.0);
        // + 0 turns −0 into 0: whether a tile without weight was skipped or added must not show.
        if self.none { zero } else { lanes.add(lanes.mul(x, lanes.splat(self.reciprocal)), zero) }
    }
}

/// ln Σ e^(s/T) from a reference score and the sum of e^((s − reference)·factor).
pub(crate) fn log_sum_exp(reference: f32, sum: f32, factor: f32, temperature: Temperature) -> f32 {
    if sum == 0.0 {
        return f32::NEG_INFINITY;
    }
    let shift = if temperature.is_zero() && reference != 0.0 {
        f32::INFINITY.copysign(reference)
    } else {
        reference * factor
    };
    shift + libm::logf(sum)
}
