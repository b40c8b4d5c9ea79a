use crate::Temperature;
use crate::simd::{Kernel, LANES, Lanes, Map, Panel, Simd, dispatch, exp_to_zero, exp2_to_zero};

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
    dispatch(Softmax(x, temperature));
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
    let (max, sum) = dispatch(Softmax(x, temperature));
    log_sum_exp(max, sum, temperature.factor(), temperature)
}

struct Softmax<'a>(&'a mut [f32], Temperature);

impl Kernel for Softmax<'_> {
    type Output = (f32, f32);

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> (f32, f32) {
        softmax_row(simd, self.0, self.1)
    }
}

/// [`softmax`] within a kernel. Returns the largest score and the sum that the weights were divided by.
#[inline(always)]
pub(crate) fn softmax_row<S: Simd>(simd: S, row: &mut [f32], temperature: Temperature) -> (f32, f32) {
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
    let sum = weigher.weigh(simd, blocks, simd.splat(0.0));
    let sum = simd.reduce_add(weigher.weigh(simd, tail, sum));
    for lanes in tail.iter() {
        simd.store_first(simd.load(lanes), rest);
    }
    divide(simd, row, sum);
    (max, sum)
}

/// How the scores of one row become weights that are not yet divided.
#[derive(Clone, Copy)]
pub(crate) struct Weigher {
    max: f32,
    factor: f32,
    /// Only the largest score counts, because T = 0 or because it is ∞.
    limit: bool,
}

impl Weigher {
    /// Weights by the distance from `max`, times `factor`.
    #[inline(always)]
    pub(crate) fn new(max: f32, factor: f32, temperature: Temperature) -> Self {
        // With nothing to see yet, −∞ − (−∞) would be NaN: any finite number does.
        let finite = if max == f32::NEG_INFINITY { 0.0 } else { max };
        let limit = finite == max && (temperature.is_zero() || max == f32::INFINITY);
        Self { max: finite, factor, limit }
    }

    /// Subtracted first, so that the largest score's weight is exactly 1, and a query with one key to see gets its value.
    #[inline(always)]
    fn distance<L: Lanes>(&self, lanes: L, score: L::V) -> L::V {
        lanes.mul(lanes.sub(score, lanes.splat(self.max)), lanes.splat(self.factor))
    }

    /// Scores ← e^distance, within 1 ULP, which are added to `sum`, lane by lane.
    #[inline(always)]
    fn weigh<S: Simd>(&self, simd: S, row: &mut [Panel], sum: S::V) -> S::V {
        if self.limit { simd.map_sum(row, &Limit(self.max), sum) } else { simd.map_sum(row, &ByE(self), sum) }
    }

    /// Scores ← 2^distance, and their sum.
    #[inline(always)]
    pub(crate) fn weigh_by_2<S: Simd>(&self, simd: S, row: &mut [Panel]) -> f32 {
        let zero = simd.splat(0.0);
        simd.reduce_add(if self.limit {
            simd.map_sum(row, &Limit(self.max), zero)
        } else {
            simd.map_sum(row, &By2(self), zero)
        })
    }

    /// 2^distance of one block.
    #[inline(always)]
    pub(crate) fn by_2<S: Simd>(&self, simd: S, scores: S::V) -> S::V {
        if self.limit { Limit(self.max).of(simd, scores) } else { By2(self).of(simd, scores) }
    }

    /// The weight of one score: what sums that referred to a lower maximum are multiplied by.
    #[inline(always)]
    pub(crate) fn weight_by_2<S: Simd>(&self, simd: S, score: f32) -> f32 {
        let mut weight = [score];
        if self.limit {
            simd.map(&mut weight, &Limit(self.max));
        } else {
            simd.map(&mut weight, &By2(self));
        }
        let [weight] = weight;
        weight
    }
}

/// e^distance.
struct ByE<'a>(&'a Weigher);

impl Map for ByE<'_> {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, score: L::V) -> L::V {
        exp_to_zero(lanes, self.0.distance(lanes, score))
    }
}

/// 2^distance.
struct By2<'a>(&'a Weigher);

impl Map for By2<'_> {
    #[inline(always)]
    fn of<L: Lanes>(&self, lanes: L, score: L::V) -> L::V {
        exp2_to_zero(lanes, self.0.distance(lanes, score))
    }
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

/// row ← row / sum, as [`normalize`].
#[inline(always)]
pub(crate) fn divide<S: Simd>(simd: S, row: &mut [f32], sum: f32) {
    struct Divide(f32);
    impl Map for Divide {
        #[inline(always)]
        fn of<L: Lanes>(&self, lanes: L, x: L::V) -> L::V {
            normalize(lanes, x, self.0)
        }
    }
    simd.map(row, &Divide(sum));
}

/// x / sum, and zeros where the sum is 0 (nothing to see, whatever `x` holds).
#[inline(always)]
pub(crate) fn normalize<L: Lanes>(lanes: L, x: L::V, sum: f32) -> L::V {
    let zero = lanes.splat(0.0);
    // + 0 turns −0 into 0: whether a tile without weight was skipped or added must not show.
    if sum == 0.0 { zero } else { lanes.add(lanes.mul(x, lanes.splat(1.0 / sum)), zero) }
}

/// ln Σ e^(s/T) from a reference score and the sum of e^((s − reference)·factor).
pub(crate) fn log_sum_exp(reference: f32, sum: f32, factor: f32, temperature: Temperature) -> f32 {
    if sum == 0.0 {
        return f32::NEG_INFINITY;
    }
    let shift =
        if temperature.is_zero() && reference != 0.0 { f32::INFINITY.copysign(reference) } else { reference * factor };
    shift + libm::logf(sum)
}
