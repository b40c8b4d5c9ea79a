//! The plots of the chosen row, and of the gradient over the number of dimensions.

use core::iter::successors;
use std::sync::Arc;

use egui::Ui;
use egui_plot::{
    AxisHints, FilledArea, GridInput, GridMark, HoverPosition, Line, LineStyle, PlotPoints, VLine,
};
use regard::Temperature;
use regard_kernels::softmax;

use super::engine::hide_first;
use super::{Outcome, measures};
use crate::explain::title;
use crate::memo::Memo;
use crate::style::remark;
use crate::{colors, plots, temperature};

/// Of points over the temperature.
const POINTS: usize = 61;
/// More weights than this are plotted by some of them.
const MOST_POINTS: usize = 512;

/// The most rows that the gradient norm by d is measured on, evenly spaced.
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

/// The gradient norm over log₂ d, without and with 1/√d. It depends on the scores alone, so it is kept while they stay.
pub type ByDim = Arc<[Vec<Quartiles>; 2]>;

/// Remembers the last [`ByDim`] by its scores.
pub type ByDimMemo = Memo<ScoresKey, ByDim>;

/// The identity of some scores.
#[derive(Clone)]
pub struct ScoresKey {
    scores: Arc<Vec<f32>>,
    hides_first: bool,
}

impl PartialEq for ScoresKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.scores, &other.scores) && self.hides_first == other.hides_first
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
    by_dim: ByDim,
}

impl Curves {
    /// Computes the curves of a row.
    pub fn new(outcome: &Outcome, row: usize, known: &mut ByDimMemo) -> Self {
        let key = ScoresKey {
            scores: Arc::clone(&outcome.scores),
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
        let by_temperature: Vec<(f64, f64)> = temperatures
            .iter()
            .map(|t| {
                weights.copy_from_slice(&scores);
                softmax(&mut weights, *t);
                (measures::entropy(&weights), measures::gradient_norm(&weights, f64::from(t.get())))
            })
            .collect();
        let over = |measure: &dyn Fn(&(f64, f64)) -> f64| {
            exponents.iter().zip(&by_temperature).map(|(e, m)| [*e, measure(m)]).collect()
        };
        let pinned = outcome.pinned.as_ref().zip(outcome.request.pinned.as_ref());
        Self {
            row,
            weights: ranked(&of_row(&outcome.weights, n)),
            pinned: pinned.map(|(weights, inputs)| ranked(&of_row(weights, inputs.tokens))),
            entropy: over(&|(entropy, _)| *entropy),
            gradient: over(&|(_, gradient)| *gradient),
            by_dim,
        }
    }

    /// Shows all of them, in as many columns as are asked for.
    pub fn show(&self, ui: &mut Ui, outcome: &Outcome, columns: usize) {
        let now = outcome.request.inputs.temperature;
        let dim = outcome.request.inputs.dim;
        let by_dim = |ui: &mut Ui| self.by_dim(ui, dim);
        let plots: [&dyn Fn(&mut Ui); 4] = [
            &|ui| self.weights(ui),
            &|ui| self.entropy(ui, now),
            &|ui| self.gradient(ui, now),
            &by_dim,
        ];
        for line in plots.chunks(columns) {
            ui.columns(columns, |uis| {
                for (ui, plot) in uis.iter_mut().zip(line) {
                    plot(ui);
                }
            });
        }
    }

    fn weights(&self, ui: &mut Ui) {
        title(
            ui,
            "Weights, sorted",
            "The weights of the chosen row, from the largest to the smallest. A steep curve is sharp attention, a flat one even \
            attention. The dashed curve is that of A.",
        );
        let rank = Named { name: "rank", value: |x| format!("{x}") };
        frame(ui, "Weights, sorted", top([&self.weights]), rank, plots::few, |plot| {
            plot.line(line(if self.pinned.is_some() { "B" } else { "weight" }, &self.weights, 0));
            // The dashes of A lie on the line of B, so that both are seen where they are equal.
            if let Some(pinned) = &self.pinned {
                plot.line(line("A", pinned, 2).style(LineStyle::dashed_dense()));
            }
        });
    }

    fn entropy(&self, ui: &mut Ui, now: Temperature) {
        title(
            ui,
            "Entropy by temperature",
            "How widely the chosen row spreads its attention, in nats: 0 means one token, and ln k means k tokens with equal \
            weights.",
        );
        Self::by_temperature(ui, "Entropy by temperature", &self.entropy, now);
    }

    fn gradient(&self, ui: &mut Ui, now: Temperature) {
        title(
            ui,
            "Gradient norm by temperature",
            "The Frobenius norm of softmax's Jacobian for the chosen row: how much of a gradient reaches the scores. It is 0 \
            where one token has all the weight.",
        );
        Self::by_temperature(ui, "Gradient norm by temperature", &self.gradient, now);
    }

    fn by_temperature(ui: &mut Ui, name: &'static str, points: &Points, now: Temperature) {
        let marker = ui.visuals().text_color();
        frame(
            ui,
            name,
            top([points]),
            Named { name: "T", value: |x| plots::rounded(10f64.powf(x)) },
            temperature::decades,
            |plot| {
                plot.vline(
                    VLine::new("T", temperature::position(now))
                        .color(marker)
                        .width(1.0)
                        .allow_hover(false),
                );
                plot.line(line(name, points, 0));
            },
        );
    }

    fn by_dim(&self, ui: &mut Ui, dim: usize) {
        title(
            ui,
            "Gradient norm by d",
            "The gradient norm over the number of dimensions d, from the dot products alone at T = 1. A line is the median over \
            the rows, and its band holds the middle half of them. Without 1/√d (dashed) the norm falls as d grows; with 1/√d \
            (solid) it stays nearly constant. This is what the scaling is for.",
        );
        let [without, with] = &*self.by_dim;
        let marker = ui.visuals().text_color();
        let highest = without.iter().chain(with).map(|q| q.high).fold(0.0, f64::max);
        frame(
            ui,
            "Gradient norm by d",
            if highest > 0.0 { 0.0 } else { 1.0 },
            Named { name: "d", value: |x| plots::rounded(x.exp2()) },
            doublings,
            |plot| {
                plot.vline(
                    VLine::new("d", (dim as f64).log2())
                        .color(marker)
                        .width(1.0)
                        .allow_hover(false),
                );
                for (name, quartiles, color) in [(WITHOUT, without, 2), (WITH, with, 0)] {
                    let [xs, low, high] =
                        [|q: &Quartiles| q.x, |q: &Quartiles| q.low, |q: &Quartiles| q.high]
                            .map(|part| quartiles.iter().map(part).collect::<Vec<f64>>());
                    let fill = colors::curve(color).gamma_multiply(0.25);
                    plot.add(
                        FilledArea::new(name, &xs, &low, &high).fill_color(fill).allow_hover(false),
                    );
                    let points: Points = quartiles.iter().map(|q| [q.x, q.median]).collect();
                    let style =
                        if color == 2 { LineStyle::dashed_dense() } else { LineStyle::Solid };
                    plot.line(line(name, &points, color).style(style));
                }
            },
        );
        ui.horizontal_wrapped(|ui| {
            for (name, color) in [(WITH, 0), (WITHOUT, 2)] {
                ui.label(remark("■".to_owned()).color(colors::curve(color)));
                ui.label(remark(name.to_owned()));
            }
        });
    }
}

const WITH: &str = "with 1/√d";
const WITHOUT: &str = "without 1/√d";

/// Rank and weight, from the largest to the smallest.
fn ranked(weights: &[f32]) -> Points {
    let sorted = measures::sorted(weights);
    let step = sorted.len().div_ceil(MOST_POINTS).max(1);
    sorted.iter().enumerate().step_by(step).map(|(i, w)| [(i + 1) as f64, f64::from(*w)]).collect()
}

/// The gradient norm over log₂ d, without and with 1/√d, of the keys that each row sees: at every power of two, and at all
/// dimensions that the tokens have.
fn by_dim(outcome: &Outcome) -> [Vec<Quartiles>; 2] {
    let inputs = &outcome.request.inputs;
    let (n, most) = (inputs.tokens, outcome.tokens.width);
    let rows: Vec<usize> = (0..n).step_by(n.div_ceil(MOST_ROWS)).collect();
    let powers = successors(Some(1), |dim| Some(2 * dim)).take_while(|dim| *dim < most);
    let mut curves = [Vec::new(), Vec::new()];
    for dim in powers.chain([most]) {
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
            // One key alone has the weight 1 at every scale.
            if visible.len() < 2 {
                continue;
            }
            for (norms, scale) in norms.iter_mut().zip([1.0, 1.0 / (dim as f32).sqrt()]) {
                let mut weights: Vec<f32> = visible.iter().map(|product| product * scale).collect();
                softmax(&mut weights, Temperature::ONE);
                norms.push(measures::gradient_norm(&weights, 1.0));
            }
        }
        for (curve, norms) in curves.iter_mut().zip(norms) {
            curve.extend(Quartiles::of((dim as f64).log2(), norms));
        }
    }
    curves
}

fn line(name: &'static str, points: &Points, color: usize) -> Line<'static> {
    let points: PlotPoints<'static> = points.iter().copied().collect();
    Line::new(name, points).color(colors::curve(color)).width(2.0)
}

/// Every second power of two.
fn doublings(_: GridInput) -> Vec<GridMark> {
    (0..=4).map(|e| GridMark { value: 2.0 * f64::from(e), step_size: 2.0 }).collect()
}

/// The top of the axis, where all points are at 0: else the plot would go as far below as above.
fn top<'a>(points: impl IntoIterator<Item = &'a Points>) -> f64 {
    if points.into_iter().flatten().all(|[_, y]| *y <= 0.0) { 1.0 } else { 0.0 }
}

/// What stands on the x axis: its name, and the text of a place on it.
#[derive(Clone, Copy)]
struct Named {
    name: &'static str,
    value: fn(f64) -> String,
}

impl Named {
    /// The name and the number of the curve under the pointer: `with 1/√d: 0.214 at d = 64`.
    fn told(self, at: &HoverPosition<'_>) -> Option<String> {
        match at {
            HoverPosition::NearDataPoint { plot_name, position, .. } => Some(format!(
                "{plot_name}: {} at {} = {}",
                plots::rounded(position.y),
                self.name,
                (self.value)(position.x)
            )),
            HoverPosition::Elsewhere { .. } => None,
        }
    }
}

fn frame(
    ui: &mut Ui,
    name: &'static str,
    top: f64,
    x: Named,
    marks: fn(GridInput) -> Vec<GridMark>,
    content: impl FnOnce(&mut egui_plot::PlotUi<'_>),
) {
    plots::still(name)
        .min_size(egui::vec2(120.0, 96.0))
        .height(112.0)
        .width(ui.available_width())
        .include_y(0.0)
        .include_y(top)
        .x_grid_spacer(marks)
        .y_grid_spacer(plots::few)
        .label_formatter(move |at| x.told(at))
        .custom_x_axes(vec![
            plots::ticks(ui, AxisHints::new_x()).formatter(move |mark, _| (x.value)(mark.value)),
        ])
        .custom_y_axes(vec![
            plots::ticks(ui, AxisHints::new_y()).formatter(|mark, _| plots::plain(mark.value)),
        ])
        .show(ui, |plot| content(plot))
        .response
        .accessible_name(name);
}

#[cfg(test)]
mod tests {
    use safetensors::Dtype;
    use safetensors::tensor::TensorView;

    use std::sync::Arc;

    use super::*;
    use crate::laboratory::{Engine, LaboratoryInputs, Request, Shown, TokenSource};
    use crate::test_host::TestHost;

    #[test]
    fn the_dimensions_of_a_file_are_plotted_as_far_as_they_go() {
        let (n, d) = (3, 6);
        let x: Vec<f32> = (0..n * d).map(|i| ((i * 7 % 11) as f32 - 5.0) / 4.0).collect();
        let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_le_bytes()).collect();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.safetensors");
        let tensor = TensorView::new(Dtype::F32, vec![n, d], &bytes).unwrap();
        safetensors::serialize_to_file([("x", tensor)], None, &path).unwrap();
        let inputs = LaboratoryInputs {
            source: TokenSource::File { path, head: 0 },
            tokens: n,
            dim: 2,
            ..LaboratoryInputs::default()
        };
        let request = Request { inputs, pinned: None, shown: Shown::Weights };
        let outcome = Engine::new(Arc::new(TestHost::DEFAULT)).run(request, &|_| ()).unwrap();

        let curves = Curves::new(&outcome, n - 1, &mut Memo::default());
        for (curve, is_scaled) in curves.by_dim.iter().zip([false, true]) {
            let dims: Vec<usize> = curve.iter().map(|q| q.x.exp2().round() as usize).collect();
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
                for (found, right) in [found.low, found.median, found.high].into_iter().zip([
                    right.low,
                    right.median,
                    right.high,
                ]) {
                    assert!((found - right).abs() < 1e-6, "{dim}: {found} {right}");
                }
            }
        }
    }

    /// One row of 64 falls and rises with d; the median of all rows shows what 1/√d is for.
    #[test]
    fn the_median_over_rows_falls_without_scaling_and_stays_with_it() {
        let request = LaboratoryInputs { causal: false, alike: 0.0, ..LaboratoryInputs::default() };
        let request = Request { inputs: request, pinned: None, shown: Shown::Weights };
        let outcome = Engine::new(Arc::new(TestHost::DEFAULT)).run(request, &|_| ()).unwrap();
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
    fn the_curve_under_the_pointer_tells_its_name_and_its_number() {
        let d = Named { name: "d", value: |x| plots::rounded(x.exp2()) };
        let position = egui_plot::PlotPoint::new(6.0, 0.214_34);
        let at = HoverPosition::NearDataPoint { plot_name: WITH, position, index: 3 };
        assert_eq!(d.told(&at).as_deref(), Some("with 1/√d: 0.2143 at d = 64"));
        assert_eq!(d.told(&HoverPosition::Elsewhere { position }), None);
    }

    #[test]
    fn quartiles_leave_out_the_noisiest_rows() {
        let quartiles = Quartiles::of(1.0, vec![9.0, 1.0, 3.0, 2.0, 4.0]).unwrap();
        assert_eq!((quartiles.low, quartiles.median, quartiles.high), (2.0, 3.0, 4.0));
        assert_eq!(Quartiles::of(1.0, Vec::new()), None);
    }
}
