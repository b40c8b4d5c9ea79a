//! What is plotted of the chosen row.

use core::iter::successors;

use egui::Ui;
use egui_plot::{AxisHints, GridInput, GridMark, Line, LineStyle, PlotPoints, VLine};
use regard::Temperature;
use regard_kernels::softmax;

use super::engine::hide_first;
use super::{Outcome, measures};
use crate::explain::title;
use crate::{colors, plots, temperature};

/// Of points over the temperature.
const POINTS: usize = 61;
/// More weights than this are plotted by some of them.
const MOST_POINTS: usize = 512;

type Points = Vec<[f64; 2]>;

/// The curves of a row.
pub struct Curves {
    /// The row.
    pub row: usize,
    weights: Points,
    pinned: Option<Points>,
    entropy: Points,
    gradient: Points,
    /// Without and with 1/√d, over log₂ d.
    by_dim: [Points; 2],
}

impl Curves {
    /// Computes them: what is plotted over the temperature is at the other temperatures too.
    pub fn new(outcome: &Outcome, row: usize) -> Self {
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
            by_dim: by_dim(outcome, row, &scores),
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
            "The weights of the chosen row from the largest to the smallest: steep is sharp, flat is even. \
            Dashed: those of A.",
        );
        let x = |mark: GridMark| format!("{}", mark.value);
        frame(ui, "Weights, sorted", top([&self.weights]), x, plots::few, |plot| {
            if let Some(pinned) = &self.pinned {
                plot.line(line("A", pinned, 2).style(LineStyle::dashed_dense()));
            }
            plot.line(line("B", &self.weights, 0));
        });
    }

    fn entropy(&self, ui: &mut Ui, now: Temperature) {
        title(
            ui,
            "Entropy by temperature",
            "How widely the chosen row shares out its attention, in nats: 0 is one token, ln k is k \
            tokens evenly.",
        );
        Self::by_temperature(ui, "Entropy by temperature", &self.entropy, now);
    }

    fn gradient(&self, ui: &mut Ui, now: Temperature) {
        title(
            ui,
            "Gradient norm by temperature",
            "The Frobenius norm of softmax's Jacobian: how much of a gradient comes \
            through to the scores. Where one token takes all, nothing does.",
        );
        Self::by_temperature(ui, "Gradient norm by temperature", &self.gradient, now);
    }

    fn by_temperature(ui: &mut Ui, name: &'static str, points: &Points, now: Temperature) {
        let marker = ui.visuals().text_color();
        frame(
            ui,
            name,
            top([points]),
            |mark| format!("{}", 10f64.powf(mark.value)),
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
            "The same over the number of dimensions, by the dot products alone at T = 1, with 1/√d (solid) and \
            without (dashed): what the scaling is for.",
        );
        let marker = ui.visuals().text_color();
        frame(
            ui,
            "Gradient norm by d",
            top(&self.by_dim),
            |mark| format!("{}", mark.value.exp2()),
            doublings,
            |plot| {
                plot.vline(
                    VLine::new("d", (dim as f64).log2())
                        .color(marker)
                        .width(1.0)
                        .allow_hover(false),
                );
                let [without, with] = &self.by_dim;
                plot.line(line("without", without, 2).style(LineStyle::dashed_dense()));
                plot.line(line("with", with, 0));
            },
        );
    }
}

/// Rank and weight, from the largest to the smallest.
fn ranked(weights: &[f32]) -> Points {
    let sorted = measures::sorted(weights);
    let step = sorted.len().div_ceil(MOST_POINTS).max(1);
    sorted.iter().enumerate().step_by(step).map(|(i, w)| [(i + 1) as f64, f64::from(*w)]).collect()
}

/// The gradient norm over log₂ d, without and with 1/√d, of what the row may see: at every power of two, and at all
/// dimensions that the tokens have.
fn by_dim(outcome: &Outcome, row: usize, scores: &[f32]) -> [Points; 2] {
    let mut curves = [Vec::new(), Vec::new()];
    let most = outcome.tokens.width;
    let powers = successors(Some(1), |dim| Some(2 * dim)).take_while(|dim| *dim < most);
    for dim in powers.chain([most]) {
        let products = outcome.tokens.products(row, dim);
        for (curve, scale) in curves.iter_mut().zip([1.0, 1.0 / (dim as f32).sqrt()]) {
            let visible =
                products.iter().zip(scores).filter(|(_, score)| **score != f32::NEG_INFINITY);
            let mut weights: Vec<f32> = visible.map(|(product, _)| product * scale).collect();
            softmax(&mut weights, Temperature::ONE);
            curve.push([(dim as f64).log2(), measures::gradient_norm(&weights, 1.0)]);
        }
    }
    curves
}

fn line(name: &'static str, points: &Points, color: usize) -> Line<'static> {
    let points: PlotPoints<'static> = points.iter().copied().collect();
    Line::new(name, points).color(colors::curve(color)).width(2.0).allow_hover(false)
}

/// Every second power of two.
fn doublings(_: GridInput) -> Vec<GridMark> {
    (0..=4).map(|e| GridMark { value: 2.0 * f64::from(e), step_size: 2.0 }).collect()
}

/// The top of the axis, where all points are at 0: else the plot would go as far below as above.
fn top<'a>(points: impl IntoIterator<Item = &'a Points>) -> f64 {
    if points.into_iter().flatten().all(|[_, y]| *y <= 0.0) { 1.0 } else { 0.0 }
}

fn frame(
    ui: &mut Ui,
    name: &'static str,
    top: f64,
    x: impl Fn(GridMark) -> String + 'static,
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
        .custom_x_axes(vec![plots::ticks(ui, AxisHints::new_x()).formatter(move |mark, _| x(mark))])
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

        let curves = Curves::new(&outcome, n - 1);
        for (curve, is_scaled) in curves.by_dim.iter().zip([false, true]) {
            let dims: Vec<f64> = curve.iter().map(|[x, _]| x.exp2()).collect();
            assert_eq!(dims.len(), 4);
            for ([_, found], dim) in curve.iter().zip([1_usize, 2, 4, 6]) {
                assert!(dims.iter().any(|x| (x - dim as f64).abs() < 1e-9), "{dims:?}");
                let number = |token: usize, t: usize| f64::from(x[token * d + t]);
                let score = |key: usize| -> f64 {
                    let product: f64 = (0..dim).map(|t| number(n - 1, t) * number(key, t)).sum();
                    if is_scaled { product / (dim as f64).sqrt() } else { product }
                };
                let exps: Vec<f64> = (0..n).map(|key| score(key).exp()).collect();
                let sum: f64 = exps.iter().sum();
                // The Jacobian itself, diag(p) − p·pᵀ.
                let jacobian = |i: usize, j: usize| {
                    let own = if i == j { exps[i] / sum } else { 0.0 };
                    own - exps[i] * exps[j] / (sum * sum)
                };
                let squares: f64 = (0..n * n).map(|at| jacobian(at / n, at % n).powi(2)).sum();
                assert!((found - squares.sqrt()).abs() < 1e-6, "{dim}: {found} {}", squares.sqrt());
            }
        }
    }
}
