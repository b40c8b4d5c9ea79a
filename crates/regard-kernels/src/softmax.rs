//! Softmax of rows, and the weights of attention, which are a softmax in parts.
//!
//! The way of a call from [`softmax`] to its innermost loops:
//!
//! 1. `dispatch` (`crate::arch`) picks the tier, and runs a [`Softmax`] on it.
//! 2. [`Softmax`] computes up to four rows side by side: `max_lanes` (`arch/vector.rs`) finds each row's maximum;
//!    [`weigh_each`] turns the scores into weights and adds them up; [`divide`] divides them by their sum. On a narrow tier
//!    `softmax_narrow` does the same in place.
//! 3. The weights are e^((x − max)/T). A [`Powers`] holds the maximum and the factor 1/T. `map_add` (`arch/vector.rs`) loops
//!    over the blocks of 16 lanes, and `exp_to_zero` (`arch/exp.rs`) is the exponential of a block.
//!
//! Attention computes its weights from 2 instead of e (`exp2_to_zero`), with scale · log₂(e) / T as the factor
//! (`attention/weights.rs`).

use core::f32::consts::LOG2_E;

use crate::arch::{
    Distance, Exp2ToZero, ExpToZero, Kernel, Lanes, Map, Panel, Simd, dispatch, largest, map_add,
    max_lanes, scale_plus_zero, shared, with_default_environment,
};
use crate::invariant::broken;
use crate::{MatMut, Temperature};

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
    dispatch(Softmax([x], temperature));
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
    let [(max, sum)] = dispatch(Softmax([x], temperature));
    with_default_environment(|| log_sum_exp(max, sum, temperature.factor(), temperature))
}

/// [`softmax`] of each row of a matrix, with the same bits. Short rows take half of the time of single calls: while a row waits
/// for its maximum and for its sum, the next rows are computed.
///
/// ```
/// use regard_kernels::{MatMut, Temperature, softmax_rows};
/// let mut x = [[0.0, 0.0], [3_f32.ln(), 0.0]];
/// softmax_rows(MatMut::from(&mut x), Temperature::ONE);
/// assert_eq!(x[0], [0.5, 0.5]);
/// assert!((x[1][0] - 0.75).abs() < 1e-6);
/// ```
pub fn softmax_rows(x: MatMut<'_>, temperature: Temperature) {
    dispatch(SoftmaxRows(x, temperature));
}

struct SoftmaxRows<'a>(MatMut<'a>, Temperature);

impl Kernel for SoftmaxRows<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        /// Rows of at most this many numbers are computed side by side. A longer row keeps the processor busy alone.
        const SHORT: usize = 256;
        const SIDE_BY_SIDE: usize = 4;
        let Self(mut x, temperature) = self;
        let mut row = 0;
        if const { S::SHAPE.side_by_side == SIDE_BY_SIDE } && x.cols() <= SHORT {
            while row + SIDE_BY_SIDE <= x.filled_rows() {
                Softmax::<SIDE_BY_SIDE>(x.rows_mut(row), temperature).run(simd);
                row += SIDE_BY_SIDE;
            }
        }
        for row in row..x.filled_rows() {
            Softmax([x.row_mut(row)], temperature).run(simd);
        }
    }
}

/// [`softmax`] of `R` rows of the same length, at most four, side by side. The result of each is the largest score and the sum by
/// which the weights were divided.
pub(crate) struct Softmax<'a, const R: usize>(
    pub(crate) [&'a mut [f32]; R],
    pub(crate) Temperature,
);

impl<const R: usize> Kernel for Softmax<'_, R> {
    type Output = [(f32, f32); R];

    /// On a tier with vectors: the maximum of each row, then the weights and their sum ([`weigh_each`]), then the division
    /// ([`divide`]).
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> [(f32, f32); R] {
        let Self(mut rows, temperature) = self;
        let mut results = [(0.0, 0.0); R];
        if S::NARROW {
            for (row, result) in rows.into_iter().zip(&mut results) {
                *result = softmax_narrow(simd, row, temperature);
            }
            return results;
        }
        let mut blocks: [&mut [Panel]; R] = core::array::from_fn(|_| Default::default());
        let mut rests: [&mut [f32]; R] = core::array::from_fn(|_| Default::default());
        let mut lanes = [simd.splat(f32::NEG_INFINITY); R];
        for (r, row) in rows.iter_mut().enumerate() {
            temperature.prepare(row);
            (blocks[r], rests[r]) = row.as_chunks_mut();
            lanes[r] = max_lanes(simd, blocks[r]);
            if !rests[r].is_empty() {
                lanes[r] = simd.max(simd.load_or(rests[r], f32::NEG_INFINITY), lanes[r]);
            }
        }
        let max = reduce_max_each(simd, lanes);
        let each_powers = Powers::each(max, temperature.factor(), temperature);
        let mut lanes = weigh_each(simd, blocks, each_powers, ExpToZero);
        for (r, rest) in rests.into_iter().enumerate() {
            if !rest.is_empty() {
                let weights =
                    each_powers[r].of(simd, simd.load_or(rest, f32::NEG_INFINITY), ExpToZero);
                simd.store_first(weights, rest);
                lanes[r] = simd.add(lanes[r], weights);
            }
        }
        let sums = reduce_add_each(simd, lanes);
        for (r, row) in rows.into_iter().enumerate() {
            divide(simd, row, sums[r]);
            results[r] = (max[r], sums[r]);
        }
        results
    }
}

/// [`Softmax`] of one row on narrow tiers, which compute no more weights than the row has.
#[inline(always)]
fn softmax_narrow<S: Simd>(simd: S, row: &mut [f32], temperature: Temperature) -> (f32, f32) {
    temperature.prepare(row);
    let max = largest(row);
    Powers::new(max, temperature.factor(), temperature).exp_row(simd, row);
    let sum = simd.sum(row);
    divide(simd, row, sum);
    (max, sum)
}

/// Scores ← weights, for `R` rows of equally many blocks, side by side. `f` computes a weight from a distance. Returns the sums
/// of the weights, lane by lane.
#[inline(always)]
pub(crate) fn weigh_each<S: Simd, F: Map, const R: usize>(
    simd: S,
    mut rows: [&mut [Panel]; R],
    each_powers: [Powers; R],
    f: impl Fn(Distance) -> F,
) -> [S::V; R] {
    let mut sums = [simd.splat(0.0); R];
    if R == 1 || each_powers.iter().any(|powers| powers.limit) {
        for ((row, powers), sum) in rows.into_iter().zip(each_powers).zip(&mut sums) {
            *sum = if powers.limit {
                map_add(simd, row, &powers.limit(), *sum)
            } else {
                map_add(simd, row, &f(powers.distance), *sum)
            };
        }
        return sums;
    }
    for i in 0..rows.first().map_or(0, |row| row.len()) {
        for ((row, powers), sum) in rows.iter_mut().zip(&each_powers).zip(&mut sums) {
            let Some(lanes) = row.get_mut(i) else {
                broken();
                return sums;
            };
            let weights = f(powers.distance).of(simd, simd.load(lanes));
            simd.store(weights, lanes);
            *sum = simd.add(*sum, weights);
        }
    }
    sums
}

/// [`Simd::reduce_max`] of at most four blocks.
#[inline(always)]
pub(crate) fn reduce_max_each<S: Simd, const R: usize>(simd: S, lanes: [S::V; R]) -> [f32; R] {
    if R == 1 {
        return [simd.reduce_max(lanes[0]); R];
    }
    first_of_four(simd.reduce_max_each(padded_to_four(lanes)))
}

/// [`Simd::reduce_add`] of at most four blocks.
#[inline(always)]
pub(crate) fn reduce_add_each<S: Simd, const R: usize>(simd: S, lanes: [S::V; R]) -> [f32; R] {
    if R == 1 {
        return [simd.reduce_add(lanes[0]); R];
    }
    first_of_four(simd.reduce_add_each(padded_to_four(lanes)))
}

/// At most four blocks, padded to four with copies of the first one.
#[inline(always)]
fn padded_to_four<V: Copy, const R: usize>(lanes: [V; R]) -> [V; 4] {
    let mut padded = [lanes[0]; 4];
    for (padded, lanes) in padded.iter_mut().zip(lanes) {
        *padded = lanes;
    }
    padded
}

/// The first `R` of four numbers.
#[inline(always)]
fn first_of_four<const R: usize>(four: [f32; 4]) -> [f32; R] {
    let mut first = [0.0; R];
    for (first, x) in first.iter_mut().zip(four) {
        *first = x;
    }
    first
}

/// The weights of a row, which are not yet divided by their sum: powers of e or 2 whose exponents are distances from the maximum.
#[derive(Clone, Copy)]
pub(crate) struct Powers {
    distance: Distance,
    /// Only the largest score counts, because T = 0 or because that score is ∞.
    limit: bool,
}

impl Powers {
    /// Weights by the distance from `max`, times `factor`.
    #[inline(always)]
    pub(crate) fn new(max: f32, factor: f32, temperature: Temperature) -> Self {
        // While no key is seen, −∞ − (−∞) would be NaN. Any finite number serves.
        let finite = if max == f32::NEG_INFINITY { 0.0 } else { max };
        let limit = finite == max && (temperature.is_zero() || max == f32::INFINITY);
        Self { distance: Distance { max: finite, factor }, limit }
    }

    /// [`new`](Self::new) for each of `R` rows.
    #[inline(always)]
    pub(crate) fn each<const R: usize>(
        max: [f32; R],
        factor: f32,
        temperature: Temperature,
    ) -> [Self; R] {
        let mut each_powers = [Self::new(0.0, factor, temperature); R];
        for (powers, max) in each_powers.iter_mut().zip(max) {
            *powers = Self::new(max, factor, temperature);
        }
        each_powers
    }

    fn limit(&self) -> Limit {
        Limit(self.distance.max)
    }

    /// The weights of one block: `f` of the distances.
    #[inline(always)]
    pub(crate) fn of<S: Simd, F: Map>(
        &self,
        simd: S,
        scores: S::V,
        f: impl Fn(Distance) -> F,
    ) -> S::V {
        if self.limit { self.limit().of(simd, scores) } else { f(self.distance).of(simd, scores) }
    }

    /// Scores ← e^distance, within 1 ULP, on narrow tiers.
    #[inline(always)]
    fn exp_row<S: Simd>(&self, simd: S, row: &mut [f32]) {
        if self.limit {
            simd.map(row, &self.limit());
        } else {
            simd.map(row, &ExpToZero(self.distance));
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

shared! { inline(always),
/// Scores ← 2^((score − max)·factor). On bare metal this is a function of its own, because the code of each call would add up.
pub(crate) fn exp2_row<S: Simd>(
    simd: S,
    row: &mut [f32],
    max: f32,
    factor: f32,
    temperature: Temperature,
) {
    Powers::new(max, factor, temperature).exp2_row(simd, row);
}
}

/// The share of all weight that the keys have if there is an attention sink with the score `sink`. `sum` is the sum of the
/// keys' weights e^((score − max)/T).
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

/// The limit: the largest score has weight 1, and the others 0. NaN is unequal to itself, and stays NaN.
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

/// The sum of weights of a row that has seen no key, not even one whose weight is 0. It is −0: the first weight that is added makes
/// it +0 or more, and as a number it is 0 from the start.
pub(crate) const NOTHING_SEEN: f32 = -0.0;

/// Whether a sum of weights is [`NOTHING_SEEN`].
#[inline(always)]
pub(crate) fn nothing_seen(sum: f32) -> bool {
    sum.to_bits() == NOTHING_SEEN.to_bits()
}

/// x / sum. The result is 0 if [`nothing_seen`], whatever `x` holds. If all weights are 0, `x` stays as it is: it holds zeros,
/// or NaN in the columns in which a value is not finite.
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
        // + 0 turns −0 into 0. A tile without weight gives the same bits whether it is skipped or added.
        if self.none { zero } else { lanes.add(lanes.mul(x, lanes.splat(self.reciprocal)), zero) }
    }

    #[inline(always)]
    fn each<L: Lanes<V = f32>>(&self, lane: L, row: &mut [f32]) {
        if self.none {
            row.fill(0.0);
        } else {
            scale_plus_zero(lane, row, self.reciprocal);
        }
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
