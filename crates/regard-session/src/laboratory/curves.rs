//! The plots of the chosen row, and of the gradient over the number of dimensions.

use core::iter::successors;
use std::collections::BTreeSet;
use std::sync::Arc;

use regard::Temperature;
use regard_figure::{Curve, Plot, Scale};
use regard_kernels::softmax;

use super::LaboratoryOutcome;
use super::engine::hide_first;
use crate::memo::Memo;
use crate::message::SharedNumbers;
use crate::plots::PlotName;
use crate::{Cell, temperature};

/// The number of points of a curve over the temperature.
const POINTS: usize = 61;
/// If there are more weights than this, only some are plotted.
const MOST_POINTS: usize = 512;

/// The maximum number of rows for the gradient norm by d, evenly spaced.
const MOST_ROWS: usize = 25;

type Points = Vec<[f64; 2]>;

/// The quartiles of a measure over several rows, at one x.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quartiles {
    x: f64,
    low: f64,
    median: f64,
    high: f64,
}

impl Quartiles {
    /// The quartiles of some values. `None` if there are none.
    fn of(x: f64, mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let last = values.len().checked_sub(1)?;
        let at = |share: f64| values[(share * last as f64).round() as usize];
        Some(Self { x, low: at(0.25), median: at(0.5), high: at(0.75) })
    }
}

/// The gradient norm over d, without and with 1/√d. It depends on the scores alone, so it is kept while they stay.
pub type ByDim = Arc<[Vec<Quartiles>; 2]>;

/// Remembers the last such norms by their scores.
pub type ByDimMemo = Memo<ScoresKey, ByDim>;

#[derive(Clone)]
pub struct ScoresKey {
    scores: SharedNumbers,
    hides_first: bool,
}

impl PartialEq for ScoresKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.scores.0, &other.scores.0) && self.hides_first == other.hides_first
    }
}

/// The curves of a row, and those of all rows.
pub struct Curves {
    /// The row.
    pub row: usize,
    weights: Points,
    pinned: Option<Points>,
    entropy: Points,
    gradient: Points,
    /// The entropy and the gradient norm at the present temperature.
    now: (f64, f64),
    by_dim: ByDim,
}

impl Curves {
    /// The curves of a row. `known` holds the curves by d of the last scores.
    pub fn new(outcome: &LaboratoryOutcome, row: usize, known: &mut ByDimMemo) -> Self {
        let key = ScoresKey {
            scores: outcome.scores.clone(),
            hides_first: outcome.request.inputs.hide_first,
        };
        let by_dim = known.get(&key).unwrap_or_else(|| known.put(key, Arc::new(by_dim(outcome))));
        let n = outcome.request.inputs.tokens;
        let row = row.min(n - 1);
        let of_row = |numbers: &[f32], n: usize| {
            numbers.chunks_exact(n).nth(row).unwrap_or_default().to_vec()
        };
        let mut scores: Vec<f32> = of_row(&outcome.scores, n);
        hide_first(&outcome.request.inputs, &mut scores);
        let (exponents, temperatures) = temperature::sampled(POINTS);
        let mut weights = vec![0.0; n];
        let mut at = |t: Temperature| {
            weights.copy_from_slice(&scores);
            softmax(&mut weights, t);
            (entropy(&weights), gradient_norm(&weights, f64::from(t.get())))
        };
        let by_temperature: Vec<(f64, f64)> = temperatures.iter().map(|t| at(*t)).collect();
        let now = at(outcome.request.inputs.temperature);
        let over = |measure: &dyn Fn(&(f64, f64)) -> f64| {
            exponents
                .iter()
                .zip(&by_temperature)
                .map(|(e, m)| [10_f64.powf(*e), measure(m)])
                .collect()
        };
        let pinned = outcome.pinned.as_ref().zip(outcome.request.pinned.as_ref());
        Self {
            row,
            weights: ranked(&of_row(&outcome.weights, n)),
            pinned: pinned.map(|(weights, inputs)| ranked(&of_row(weights, inputs.tokens))),
            entropy: over(&|(entropy, _)| *entropy),
            gradient: over(&|(_, gradient)| *gradient),
            now,
            by_dim,
        }
    }

    /// The curves of a plot. `None` for a plot of another room.
    pub fn plot(&self, outcome: &LaboratoryOutcome, name: PlotName) -> Option<Plot> {
        let inputs = &outcome.request.inputs;
        let t = Some(f64::from(inputs.temperature.get()));
        let plot = |title: &str, axes, scale, mark, curves| {
            Some(Plot { title: title.to_owned(), axes, scale, mark, curves })
        };
        match name {
            PlotName::Sorted => {
                let title = "Weights, sorted";
                let name = if self.pinned.is_some() { "B" } else { "weight" };
                // The dashes of A lie on the line of B, so that both are visible where they are equal.
                let pinned = self.pinned.iter().map(|points| curve("A", points, 2, true));
                let curves = core::iter::once(curve(name, &self.weights, 0, false)).chain(pinned);
                plot(title, ["rank", "weight"], Scale::Whole, None, curves.collect())
            }
            PlotName::Entropy => {
                let curves = vec![Curve {
                    marked: Some(self.now.0),
                    ..curve("entropy", &self.entropy, 0, false)
                }];
                plot("Entropy by temperature", ["T", "entropy (nats)"], Scale::Decades, t, curves)
            }
            PlotName::Gradient => {
                let (title, name) = ("Gradient norm by temperature", "gradient norm");
                let curves = vec![Curve {
                    marked: Some(self.now.1),
                    ..curve(name, &self.gradient, 0, false)
                }];
                plot(title, ["T", name], Scale::Decades, t, curves)
            }
            PlotName::GradientByDim => {
                let [without, with] = &*self.by_dim;
                let mark = inputs.dim as f64;
                let curves = vec![
                    of_quartiles(WITHOUT, without, 2, mark),
                    of_quartiles(WITH, with, 0, mark),
                ];
                let axes = ["d", "gradient norm"];
                plot("Gradient norm by d", axes, Scale::Doublings, Some(mark), curves)
            }
            PlotName::Weights | PlotName::WhyScale(_) => None,
        }
    }
}

/// The curves of one of the laboratory's plots, to export them. Without a chosen cell they are those of the last row. `None` if
/// another room shows the plot.
pub fn plot(outcome: &LaboratoryOutcome, chosen: Option<Cell>, name: PlotName) -> Option<Plot> {
    Curves::new(outcome, row(outcome, chosen), &mut Memo::default()).plot(outcome, name)
}

/// The row whose curves are shown: that of the chosen cell, or the last one.
pub fn row(outcome: &LaboratoryOutcome, chosen: Option<Cell>) -> usize {
    let last = outcome.request.inputs.tokens - 1;
    chosen.map_or(last, |(row, _)| row.min(last))
}

fn curve(name: &str, points: &Points, color: usize, dashed: bool) -> Curve {
    let (name, points, color) =
        (name.to_owned(), points.clone(), regard_figure::curve_color(color));
    Curve { name, points, band: Vec::new(), color, dashed, marked: None }
}

/// The median, with a band from the lower to the upper quartile. `mark` is the d of the present state.
fn of_quartiles(name: &str, quartiles: &[Quartiles], color: usize, mark: f64) -> Curve {
    let points = quartiles.iter().map(|q| [q.x, q.median]).collect();
    let band = quartiles.iter().map(|q| [q.low, q.high]).collect();
    let marked = quartiles.iter().find(|q| q.x == mark).map(|q| q.median);
    Curve { band, marked, ..curve(name, &points, color, name == WITHOUT) }
}

/// The names of the curves by d.
pub const WITH: &str = "with 1/√d";
/// The curve by d of scores that are not divided by √d.
pub const WITHOUT: &str = "without 1/√d";

/// Rank and weight, from the largest to the smallest.
fn ranked(weights: &[f32]) -> Points {
    let sorted = sorted(weights);
    let step = sorted.len().div_ceil(MOST_POINTS).max(1);
    sorted.iter().enumerate().step_by(step).map(|(i, w)| [(i + 1) as f64, f64::from(*w)]).collect()
}

/// The gradient norm over d, without and with 1/√d, of the keys visible to each row: at every power of two, at the present
/// d, and at all dimensions of the tokens.
fn by_dim(outcome: &LaboratoryOutcome) -> [Vec<Quartiles>; 2] {
    let inputs = &outcome.request.inputs;
    let (n, most) = (inputs.tokens, outcome.tokens.width);
    let rows: Vec<usize> = (0..n).step_by(n.div_ceil(MOST_ROWS)).collect();
    let powers = successors(Some(1), |dim| Some(2 * dim)).take_while(|dim| *dim < most);
    let dims: BTreeSet<usize> = powers.chain([inputs.dim.min(most), most]).collect();
    let mut curves = [Vec::new(), Vec::new()];
    for dim in dims {
        let mut norms = [Vec::new(), Vec::new()];
        for row in &rows {
            let Some(scores) = outcome.scores.chunks_exact(n).nth(*row) else { continue };
            let products = outcome.tokens.products(*row, dim);
            let is_visible = |(key, score): (usize, &f32)| {
                *score != f32::NEG_INFINITY && !(inputs.hide_first && key == 0)
            };
            let visible: Vec<f32> = products
                .iter()
                .zip(scores.iter().enumerate())
                .filter(|(_, at)| is_visible(*at))
                .map(|(product, _)| *product)
                .collect();
            // A single key has the weight 1 at every scale.
            if visible.len() < 2 {
                continue;
            }
            for (norms, scale) in norms.iter_mut().zip([1.0, 1.0 / (dim as f32).sqrt()]) {
                let mut weights: Vec<f32> = visible.iter().map(|product| product * scale).collect();
                softmax(&mut weights, Temperature::ONE);
                norms.push(gradient_norm(&weights, 1.0));
            }
        }
        for (curve, norms) in curves.iter_mut().zip(norms) {
            curve.extend(Quartiles::of(dim as f64, norms));
        }
    }
    curves
}

/// The entropy in nats, where 0·ln 0 is 0. Masked cells do not count. The entropy of a row with NaN is NaN.
fn entropy(weights: &[f32]) -> f64 {
    -seen(weights).filter(|p| *p != 0.0).map(|p| p * p.ln()).sum::<f64>()
}

/// The share of a gradient that passes softmax: the Frobenius norm of its Jacobian. Masked cells do not count.
fn gradient_norm(weights: &[f32], t: f64) -> f64 {
    regard_walkthrough::softmax_gradient_norm(seen(weights), t)
}

/// The weights from the largest to the smallest, without masked cells.
fn sorted(weights: &[f32]) -> Vec<f32> {
    let mut sorted: Vec<f32> = weights.iter().copied().filter(|p| *p >= 0.0).collect();
    sorted.sort_by(|a, b| b.total_cmp(a));
    sorted
}

fn seen(weights: &[f32]) -> impl Iterator<Item = f64> {
    weights.iter().filter(|p| **p != f32::NEG_INFINITY).map(|p| f64::from(*p))
}

#[cfg(test)]
mod tests {
    use regard_tests::attention_files::{Folder, attention};

    use super::*;
    use crate::host::Disk;
    use crate::laboratory::{
        Engine, LaboratoryInputs, LaboratoryMatrix, LaboratoryRequest, TokenSource,
    };

    const MASKED: f32 = f32::NEG_INFINITY;

    #[test]
    fn the_dimensions_of_a_file_are_plotted_as_far_as_they_go() {
        let (n, d) = (3, 6);
        let x: Vec<f32> = (0..n * d).map(|i| ((i * 7 % 11) as f32 - 5.0) / 4.0).collect();
        let folder = Folder::new();
        let path = folder.file("x.safetensors", attention(&[n, d], &x));
        let inputs = LaboratoryInputs {
            source: TokenSource::File { path, head: 0 },
            tokens: n,
            dim: 2,
            ..LaboratoryInputs::default()
        };
        let request = LaboratoryRequest { inputs, pinned: None, shown: LaboratoryMatrix::Weights };
        let outcome = Engine::new(Arc::new(Disk)).run(request, &|_| ()).unwrap();

        let curves = Curves::new(&outcome, n - 1, &mut Memo::default());
        for (curve, is_scaled) in curves.by_dim.iter().zip([false, true]) {
            let dims: Vec<usize> = curve.iter().map(|q| q.x as usize).collect();
            assert_eq!(dims, [1, 2, 4, 6]);
            for (found, dim) in curve.iter().zip(dims) {
                let number = |token: usize, t: usize| f64::from(x[token * d + t]);
                // The causal mask leaves the first query one key, which has no gradient.
                let norm = |query: usize| {
                    let score = |key: usize| -> f64 {
                        let product: f64 =
                            (0..dim).map(|t| number(query, t) * number(key, t)).sum();
                        if is_scaled { product / (dim as f64).sqrt() } else { product }
                    };
                    let exps: Vec<f64> = (0..=query).map(|key| score(key).exp()).collect();
                    let sum: f64 = exps.iter().sum();
                    // The Jacobian itself, diag(p) − p·pᵀ.
                    let jacobian = |i: usize, j: usize| {
                        let own = if i == j { exps[i] / sum } else { 0.0 };
                        own - exps[i] * exps[j] / (sum * sum)
                    };
                    let m = exps.len();
                    (0..m * m).map(|at| jacobian(at / m, at % m).powi(2)).sum::<f64>().sqrt()
                };
                let right = Quartiles::of(found.x, vec![norm(1), norm(2)]).unwrap();
                let numbers = |q: &Quartiles| [q.low, q.median, q.high];
                for (found, right) in numbers(found).into_iter().zip(numbers(&right)) {
                    assert!((found - right).abs() < 1e-6, "{dim}: {found} {right}");
                }
            }
        }
    }

    /// One row of 64 falls and rises with d; the median of all rows shows the effect of 1/√d.
    #[test]
    fn the_median_over_rows_falls_without_scaling_and_stays_with_it() {
        let request = LaboratoryInputs { causal: false, alike: 0.0, ..LaboratoryInputs::default() };
        let request =
            LaboratoryRequest { inputs: request, pinned: None, shown: LaboratoryMatrix::Weights };
        let outcome = Engine::new(Arc::new(Disk)).run(request, &|_| ()).unwrap();
        let [without, with] = by_dim(&outcome);
        let medians =
            |curve: &[Quartiles]| curve.iter().skip(3).map(|q| q.median).collect::<Vec<_>>();
        let (without, with) = (medians(&without), medians(&with));
        assert!(without.first() > without.last(), "{without:?}");
        let spread = |values: &[f64]| {
            let most = values.iter().copied().fold(0.0, f64::max);
            most / values.iter().copied().fold(f64::INFINITY, f64::min)
        };
        assert!(spread(&with) < 2.0 && spread(&without) > 2.0, "{with:?} {without:?}");
    }

    #[test]
    fn quartiles_leave_out_the_noisiest_rows() {
        let quartiles = Quartiles::of(1.0, vec![9.0, 1.0, 3.0, 2.0, 4.0]).unwrap();
        assert_eq!((quartiles.low, quartiles.median, quartiles.high), (2.0, 3.0, 4.0));
        assert_eq!(Quartiles::of(1.0, Vec::new()), None);
    }

    #[test]
    fn entropy_of_even_weights_is_the_logarithm_of_their_number() {
        assert!((entropy(&[0.25; 4]) - 4_f64.ln()).abs() < 1e-12);
        assert!((entropy(&[0.5, MASKED, 0.5, 0.0]) - 2_f64.ln()).abs() < 1e-12);
        assert_eq!(entropy(&[1.0, 0.0]), 0.0);
    }

    #[test]
    fn the_norm_is_that_of_the_jacobian() {
        for (weights, t) in
            [(vec![0.7, 0.2, 0.1], 0.5_f32), (vec![0.25; 4], 2.0), (vec![1.0, 0.0], 1.0)]
        {
            let temperature = regard::Temperature::new(t).unwrap_or_default();
            let jacobian = regard::softmax_jacobian(&weights, temperature).unwrap_or_default();
            let norm = jacobian.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
            assert!((gradient_norm(&weights, f64::from(t)) - norm).abs() < 1e-6, "{weights:?}");
        }
        assert_eq!(gradient_norm(&[1.0, 0.0], 0.0), 0.0);
    }

    #[test]
    fn a_row_with_nan_is_not_taken_for_a_sharp_one() {
        assert!(entropy(&[f32::NAN, 0.5]).is_nan() && gradient_norm(&[f32::NAN; 3], 1.0).is_nan());
    }

    #[test]
    fn masked_weights_are_not_sorted_in() {
        assert_eq!(sorted(&[0.1, MASKED, 0.6, 0.3]), [0.6, 0.3, 0.1]);
    }
}
