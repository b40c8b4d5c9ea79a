use crate::Temperature;
use crate::simd::{Kernel, LANES, Simd, dispatch, exp};

/// Softmax in place, xᵢ ← e^((xᵢ − max)/T) / Σⱼ e^((xⱼ − max)/T), and the row's log-sum-exp ln Σⱼ e^(xⱼ/T).
///
/// The largest score is subtracted first, so nothing overflows. The limits are computed as limits:
/// - T = 0: all weight on the largest score, shared evenly by ties; T = ∞: uniform over all scores but −∞;
/// - −∞ gets no weight; where every score is −∞, all weights are 0 and the log-sum-exp is −∞;
/// - +∞ takes all weight, shared evenly by ties;
/// - NaN makes the whole row NaN.
///
/// At T = 0 the log-sum-exp is the limit of max/T + ln(ties): ±∞, or ln(ties) where the maximum is 0.
///
/// ```
/// use regard_kernels::{Temperature, softmax};
/// let mut x = [2.0, 1.0, 0.1];
/// let log_sum_exp = softmax(&mut x, Temperature::ONE);
/// assert!((x[0] - 0.659).abs() < 1e-3 && (log_sum_exp - 2.417).abs() < 1e-3);
/// ```
pub fn softmax(x: &mut [f32], temperature: Temperature) -> f32 {
    struct Softmax<'a>(&'a mut [f32], Temperature);
    impl Kernel for Softmax<'_> {
        type Output = f32;

        #[inline(always)]
        fn run<S: Simd>(self, simd: S) -> f32 {
            softmax_row(simd, self.0, self.1)
        }
    }
    dispatch(Softmax(x, temperature))
}

/// [`softmax`] within a kernel.
#[inline(always)]
pub(crate) fn softmax_row<S: Simd>(simd: S, row: &mut [f32], temperature: Temperature) -> f32 {
    flatten_if_infinite(row, temperature);
    let max = max(simd, row);
    let sum = weigh(simd, row, max, temperature);
    divide(simd, row, sum);
    log_sum_exp(max, sum, temperature)
}

/// At T = ∞, what may be seen gets one and the same score; −∞ and NaN stay.
#[inline(always)]
pub(crate) fn flatten_if_infinite(row: &mut [f32], temperature: Temperature) {
    if temperature.is_infinite() {
        for x in row {
            if *x > f32::NEG_INFINITY {
                *x = 0.0;
            }
        }
    }
}

/// The largest score, −∞ for none. With NaN among the scores, any value.
#[inline(always)]
pub(crate) fn max<S: Simd>(simd: S, row: &[f32]) -> f32 {
    let mut max = simd.splat(f32::NEG_INFINITY);
    for chunk in row.chunks(LANES) {
        max = simd.max(max, simd.load_or(chunk, f32::NEG_INFINITY));
    }
    simd.reduce_max(max)
}

/// Scores to weights that are not yet divided, e^((s − max)/T), and their sum. `max` must be at least the row's maximum.
#[inline(always)]
pub(crate) fn weigh<S: Simd>(simd: S, row: &mut [f32], max: f32, temperature: Temperature) -> f32 {
    let mut sum = simd.splat(0.0);
    let weigher = Weigher::new(simd, max, temperature);
    for chunk in row.chunks_mut(LANES) {
        let weight = weigher.weight(simd, simd.load_or(chunk, f32::NEG_INFINITY));
        simd.store_first(weight, chunk);
        sum = simd.add(sum, weight);
    }
    simd.reduce_add(sum)
}

/// e^((score − max)/T) of one score, in the bits that [`weigh`] gives: what earlier sums are multiplied by when the
/// maximum rises.
#[inline(always)]
pub(crate) fn rescale<S: Simd>(simd: S, old_max: f32, max: f32, temperature: Temperature) -> f32 {
    let mut lanes = [0.0; LANES];
    simd.store(Weigher::new(simd, max, temperature).weight(simd, simd.splat(old_max)), &mut lanes);
    let [rescale, ..] = lanes;
    rescale
}

/// How the scores of one row become weights.
#[derive(Clone, Copy)]
struct Weigher<S: Simd> {
    max: S::V,
    /// −max/2. Halves, because the difference of two scores may be no finite `f32` although (s − max)/T is.
    minus_half_max: S::V,
    /// 2/T.
    double_factor: S::V,
    /// Only the largest score counts, because T = 0 or because it is ∞.
    limit: bool,
}

impl<S: Simd> Weigher<S> {
    #[inline(always)]
    fn new(simd: S, max: f32, temperature: Temperature) -> Self {
        // With nothing to see yet, −∞ − (−∞) would be NaN: any finite number does.
        let nothing = max == f32::NEG_INFINITY;
        let finite_max = if nothing { 0.0 } else { max };
        Self {
            max: simd.splat(finite_max),
            minus_half_max: simd.splat(-0.5 * finite_max),
            double_factor: simd.splat(2.0 * temperature.factor()),
            limit: !nothing && (temperature.is_zero() || max == f32::INFINITY),
        }
    }

    #[inline(always)]
    fn weight(&self, simd: S, score: S::V) -> S::V {
        if self.limit {
            let weight = simd.select(simd.eq(score, self.max), simd.splat(1.0), simd.splat(0.0));
            // NaN is unequal to itself, and stays NaN.
            simd.select(simd.eq(score, score), weight, score)
        } else {
            let half = simd.mul_add(score, simd.splat(0.5), self.minus_half_max);
            exp(simd, simd.mul(half, self.double_factor))
        }
    }
}

/// row ← row / sum, and zeros where the sum is 0 (nothing to see).
#[inline(always)]
pub(crate) fn divide<S: Simd>(simd: S, row: &mut [f32], sum: f32) {
    if sum == 0.0 {
        row.fill(0.0);
        return;
    }
    let (sum, zero) = (simd.splat(sum), simd.splat(0.0));
    for chunk in row.chunks_mut(LANES) {
        // + 0 turns −0 into 0: whether a tile without weight was skipped or added must not show.
        let quotient = simd.add(simd.div(simd.load_or(chunk, 0.0), sum), zero);
        simd.store_first(quotient, chunk);
    }
}

/// ln Σ e^(s/T) from the largest score and the sum of e^((s − max)/T).
pub(crate) fn log_sum_exp(max: f32, sum: f32, temperature: Temperature) -> f32 {
    if sum == 0.0 {
        return f32::NEG_INFINITY;
    }
    let shift =
        if temperature.is_zero() && max != 0.0 { f32::INFINITY.copysign(max) } else { max * temperature.factor() };
    shift + libm::logf(sum)
}
