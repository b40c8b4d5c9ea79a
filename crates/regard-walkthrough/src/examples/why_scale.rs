use std::sync::LazyLock;

use regard_kernels::Temperature;

use super::{Entry, Group, Start, torch_randn};
use crate::attend::Head;
use crate::bound;
use crate::origin::Origin;
use crate::pair::{Pair, effective};
use crate::random::TorchRng;
use crate::step::Kind;
use crate::trace::{Axes, Text, Trace, labels};
use crate::{Error, Matrix, Quantity, RowRole, reference};

pub(super) const ENTRY: Entry = Entry {
    title: "Why scale by √d?",
    summary: "Random queries and keys of 4 to 1024 numbers: how softmax behaves with and without 1/√d.",
    group: Group::Attention,
    tokens: "",
    start: Start::Given(Vec::new),
    run,
    ..Entry::PLAIN
};

const DIMENSIONS: [usize; 5] = [4, 16, 64, 256, 1024];
/// Each dimension has 256 queries and 10 keys, in groups with their own keys, for stable statistics.
const GROUPS: usize = 16;
const QUERIES: usize = 16;
const KEYS: usize = 10;
/// The dimension whose rows are shown, and their number.
const SHOWN: (usize, usize) = (256, 4);

/// Statistics of softmax over random queries and keys of one dimension, with and without 1/√d.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WhyScale {
    /// The number of elements of a query or key, each normal with mean 0 and variance 1.
    pub d: usize,
    /// Those of the scores q·k.
    pub raw: Statistics,
    /// Those of the scores q·k/√d.
    pub scaled: Statistics,
}

/// Statistics of scores and of their weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Standard deviation of the scores.
    pub std: f64,
    /// Mean of the largest of 10 weights.
    pub largest: f64,
    /// Mean entropy of 10 weights, in nats: ln 10 = 2.303 if all are equal, 0 if one weight is 1.
    pub entropy: f64,
    /// Mean Frobenius norm of softmax's Jacobian, (diag(w) − wwᵀ)/T: the share of a gradient that passes.
    pub gradient: f64,
}

/// The statistics at d = 4, 16, 64, 256 and 1024 at a temperature, from the kernels' scores and weights.
///
/// The scores are drawn once (seed 42) and kept: another temperature only repeats softmax.
///
/// # Errors
/// No error is known. Errors of the kernels are passed on.
///
/// ```
/// use regard_kernels::Temperature;
/// let rows = regard_walkthrough::why_scale(Temperature::ONE)?;
/// let d1024 = rows.last().expect("there are five");
/// assert!(d1024.raw.std > 30.0 && d1024.scaled.std < 1.1);
/// assert!(d1024.raw.largest > 0.9 && d1024.scaled.largest < 0.5);
/// # Ok::<(), regard_walkthrough::Error>(())
/// ```
pub fn why_scale(temperature: Temperature) -> Result<Vec<WhyScale>, Error> {
    let row = |sample: &Sample| {
        let [raw, scaled] = sample.statistics(temperature).map(|s| s.ours);
        WhyScale { d: sample.d, raw, scaled }
    };
    Ok(samples()?.iter().map(row).collect())
}

/// Adds the table over d, then four queries of d = 256 with all their steps.
pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let samples = samples()?;
    push_table(trace, samples);
    if let Some(sample) = samples.iter().find(|s| s.d == SHOWN.0) {
        let (queries, keys) = (labels("q", SHOWN.1), labels("k", KEYS));
        // Q and K are too wide to show. Their names still appear as operands.
        let dims = labels("d", sample.q.ours.cols());
        let q = sample.q.clone().named("Q", &queries, &dims);
        let k = sample.k.clone().named("K", &keys, &dims);
        Head { queries: &queries, ..Head::of_all(&keys) }.attend(trace, &q, &k, None)?;
    }
    Ok(())
}

/// Random scores of one dimension, and the queries and keys of the rows that are shown.
struct Sample {
    d: usize,
    raw: Pair,
    scaled: Pair,
    q: Pair,
    k: Pair,
}

fn samples() -> Result<&'static [Sample], Error> {
    static SAMPLES: LazyLock<Result<Vec<Sample>, Error>> = LazyLock::new(|| {
        let mut rng = TorchRng::seed(42);
        DIMENSIONS.into_iter().map(|d| Sample::draw(&mut rng, d)).collect()
    });
    SAMPLES.as_deref().map_err(Clone::clone)
}

impl Sample {
    fn draw(rng: &mut TorchRng, d: usize) -> Result<Self, Error> {
        let (mut raw, mut scaled, mut first) = (Vec::new(), Vec::new(), None);
        for _ in 0..GROUPS {
            let q = Pair::single(&torch_randn(rng, QUERIES, d));
            let k = Pair::single(&torch_randn(rng, KEYS, d));
            raw.push(q.times_transposed(&k)?);
            scaled.push(Pair::scores(&q, &k, true, None)?);
            first.get_or_insert((q, k));
        }
        let (q, k) = first.unwrap_or_else(|| (Pair::stacked(&[]), Pair::stacked(&[])));
        Ok(Self {
            d,
            raw: Pair::stacked(&raw),
            scaled: Pair::stacked(&scaled),
            q: q.rows(0, SHOWN.1),
            k,
        })
    }

    /// The statistics of the raw and of the scaled scores.
    fn statistics(&self, temperature: Temperature) -> [Both; 2] {
        let t = effective(temperature);
        [&self.raw, &self.scaled].map(|scores| {
            let weights = scores.softmax(temperature);
            Both {
                ours: Statistics::new(&scores.ours.map(f64::from), &weights.ours.map(f64::from), t),
                exact: Statistics::new(&scores.exact, &weights.exact, t),
                bound: Statistics::bound(&scores.bound, &weights.bound, t),
            }
        })
    }
}

struct Both {
    ours: Statistics,
    exact: Statistics,
    bound: Statistics,
}

impl Statistics {
    fn new(scores: &Matrix<f64>, weights: &Matrix<f64>, t: f64) -> Self {
        let all = scores.as_slice();
        let [_, variance] = reference::moments(all);
        Self {
            std: variance.sqrt(),
            largest: mean_of(weights, &|w| w.iter().copied().fold(0.0, f64::max)),
            entropy: mean_of(weights, &entropy),
            gradient: mean_of(weights, &|w| softmax_gradient_norm(w.iter().copied(), t)),
        }
    }

    /// The bound of each statistic, from those of scores and weights. With η(w) = −w·ln w, |η(a) − η(b)| ≤ η(|a − b|) up to
    /// a distance of ½. The Jacobian diag(p) − p·pᵀ moves by |dp|·(1 + |p| + |p + dp|) at most, with |p| ≤ 1; cancellation
    /// in the square of its norm leaves the root of a few roundings of double precision.
    fn bound(scores: &Matrix<f64>, weights: &Matrix<f64>, t: f64) -> Self {
        let length = |x: &[f64]| reference::norm(x);
        let eta = |e: &f64| if *e == 0.0 { 0.0 } else { -e * e.min(0.5).ln() };
        let jacobian = |e: &[f64]| length(e) * (3.0 + length(e)) + (8.0 * f64::EPSILON).sqrt();
        Self {
            std: length(scores.as_slice()) / (scores.as_slice().len() as f64).sqrt(),
            largest: mean_of(weights, &|e| e.iter().copied().fold(0.0, f64::max)),
            entropy: mean_of(weights, &|e| e.iter().map(eta).sum()),
            gradient: if t == 0.0 || t.is_infinite() {
                0.0
            } else {
                mean_of(weights, &jacobian) / t
            },
        }
    }

    fn as_row(&self) -> [f64; 4] {
        [self.std, self.largest, self.entropy, self.gradient]
    }
}

/// The mean of `f` over the rows.
fn mean_of(weights: &Matrix<f64>, f: &dyn Fn(&[f64]) -> f64) -> f64 {
    (0..weights.rows()).map(|i| f(weights.row(i))).sum::<f64>() / weights.rows() as f64
}

/// −Σ w·ln w, in nats.
pub(crate) fn entropy(weights: &[f64]) -> f64 {
    -weights.iter().filter(|w| **w > 0.0).map(|w| w * w.ln()).sum::<f64>()
}

/// The share of a gradient that passes through softmax: the Frobenius norm of its Jacobian by the scores, (diag(p) − p·pᵀ)/T,
/// at the weights p of a row and the temperature T that gave them.
///
/// The squares of all elements of diag(p) − p·pᵀ sum to Σp² − 2·Σp³ + (Σp²)². At T = 0 and T = ∞ the weights do not change with
/// the scores, and the norm is 0; a subnormal T counts as 0, as in the kernels.
///
/// ```
/// use regard_walkthrough::softmax_gradient_norm;
/// assert_eq!(softmax_gradient_norm([0.5, 0.5], 1.0), 0.5); // four elements of ±1/4
/// assert_eq!(softmax_gradient_norm([0.5, 0.5], 0.25), 2.0);
/// assert_eq!(softmax_gradient_norm([0.5, 0.5], f64::INFINITY), 0.0);
/// ```
pub fn softmax_gradient_norm(weights: impl IntoIterator<Item = f64>, t: f64) -> f64 {
    if Temperature::new(t as f32).is_ok_and(Temperature::is_zero) || t.is_infinite() {
        return 0.0;
    }
    let (squares, cubes) =
        weights.into_iter().fold((0.0, 0.0), |(two, three), p| (two + p * p, three + p * p * p));
    let square = squares - 2.0 * cubes + squares * squares;
    // If one weight is 1, rounding may give a negative number. NaN stays NaN.
    if square < 0.0 { 0.0 } else { square.sqrt() / t }
}

fn push_table(trace: &mut Trace<'_>, samples: &[Sample]) {
    let temperature = trace.settings.temperature;
    let statistics: Vec<[Both; 2]> = samples.iter().map(|s| s.statistics(temperature)).collect();
    let columns = [
        ("spread", "standard deviation of the scores"),
        ("largest", "mean of the largest of 10 weights"),
        ("entropy", "mean entropy of 10 weights in nats (ln 10 = 2.303 if all are equal)"),
        ("gradient", "mean norm of the gradient through softmax"),
    ];
    let cols: Vec<String> =
        columns.iter().flat_map(|(c, _)| [(*c).to_owned(), format!("{c}, /√d")]).collect();
    let meanings = columns
        .iter()
        .flat_map(|(_, m)| [format!("{m}, unscaled"), format!("{m}, scores over √d")])
        .collect();
    let rows: Vec<String> = samples.iter().map(|s| format!("d = {}", s.d)).collect();
    let both = |i: usize, j: usize| &statistics[i][j % 2];
    let of = |statistics: &Statistics, j: usize| statistics.as_row()[j / 2];
    let (n, m) = (rows.len(), cols.len());
    let pair = Pair::new(
        Matrix::from_fn(n, m, |i, j| of(&both(i, j).ours, j) as f32),
        Matrix::from_fn(n, m, |i, j| of(&both(i, j).exact, j)),
        Matrix::from_fn(n, m, |i, j| {
            bound::rounded(of(&both(i, j).exact, j), of(&both(i, j).bound, j))
        }),
    );
    let text = Text::of(Quantity::ByDimension);
    let axes = Axes::new(RowRole::Other, &rows, &cols);
    trace.push(&text, pair, Kind::Table, axes, Origin::measured(meanings));
}
