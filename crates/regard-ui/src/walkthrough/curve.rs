//! The effect of the temperature on one row of weights.

use egui::{Color32, Label, RichText, TextStyle, Ui};
use egui_plot::{AxisHints, GridMark, Line, PlotPoints, VLine};
use regard_kernels::Temperature;
use regard_walkthrough::{Kind, Quantity, Step, Walkthrough, softmax_curve};

use super::State;
use crate::explain::title;
use crate::style::remark;
use crate::{colors, numbers, plots, temperature};

/// The number of points on a curve.
const POINTS: usize = 97;
/// With more tokens than this, the plot has no legend.
const NAMED: usize = 12;

const EXPLANATION: &str = "\
    The weights of one query at every temperature, with one curve per key. The vertical line marks the current temperature. At the \
    left, the largest score gets all the weight; at the right, all keys get equal weights. Point at a row of weights to see another query.";

/// Shows the curves of the row under the pointer.
pub fn show(ui: &mut Ui, state: &State, walkthrough: &Walkthrough) {
    if let Some((scores, weights, row)) = softmax_row(state, walkthrough) {
        curve(ui, state.settings.temperature, &scores, weights, row);
    }
}

/// The row of scores before softmax, the step of its weights, and the index of the row.
fn softmax_row<'a>(
    state: &State,
    walkthrough: &'a Walkthrough,
) -> Option<(Vec<f32>, &'a Step, usize)> {
    let pointed = state
        .pointed()
        .and_then(|at| walkthrough.steps.iter().position(|step| step.key == at.step));
    let is_weights =
        |i: &usize| walkthrough.steps[*i].kind == Kind::Weights && i.checked_sub(1).is_some();
    // The weights under the pointer come first, then the next weights after the pointer, then the last weights.
    let weights = (pointed.unwrap_or(0)..walkthrough.steps.len())
        .find(is_weights)
        .or_else(|| (0..walkthrough.steps.len()).rfind(is_weights))?;
    let weights = &walkthrough.steps[weights];
    let row = weights.marks(&state.selection(walkthrough)).query.unwrap_or(0);
    let mut scores = scores_of(weights, walkthrough)?.matrix.row(row).to_vec();
    if weights.key.quantity == Quantity::CausalWeights {
        // The masked scores of the causal attention beside a plain one are not a step.
        scores.iter_mut().skip(row + 1).for_each(|score| *score = f32::NEG_INFINITY);
    }
    Some((scores, weights, row))
}

/// The step that a step of weights is the softmax of: the nearest scores before it.
fn scores_of<'a>(weights: &Step, walkthrough: &'a Walkthrough) -> Option<&'a Step> {
    let before = walkthrough.steps.iter().take_while(|step| step.key != weights.key);
    before
        .filter(|step| {
            step.key.quantity.is_scores() && step.matrix.shape() == weights.matrix.shape()
        })
        .last()
}

fn curve(ui: &mut Ui, now: Temperature, scores: &[f32], weights: &Step, row: usize) {
    let (exponents, temperatures) = temperature::sampled(POINTS);
    let by_temperature = softmax_curve(scores, &temperatures);
    let (low, high) = temperature::bounds();

    title(
        ui,
        &format!("How \"{}\" distributes its attention", weights.row_labels[row]),
        EXPLANATION,
    );
    let marker = ui.visuals().text_color();
    plots::still("softmax curve")
        .height(112.0)
        .default_x_bounds(low, high)
        .default_y_bounds(-0.03, 1.03)
        .x_grid_spacer(temperature::decades)
        .y_grid_spacer(|_| [0.0, 0.5, 1.0].map(|value| GridMark { value, step_size: 0.5 }).to_vec())
        .custom_x_axes(vec![
            plots::ticks(ui, AxisHints::new_x())
                .formatter(|mark, _| format!("{}", 10f64.powf(mark.value))),
        ])
        .custom_y_axes(vec![
            plots::ticks(ui, AxisHints::new_y()).formatter(|mark, _| format!("{}", mark.value)),
        ])
        .show(ui, |plot| {
            plot.vline(
                VLine::new("T", temperature::position(now))
                    .color(marker)
                    .width(1.5)
                    .allow_hover(false),
            );
            for (j, token) in weights.col_labels.iter().enumerate() {
                let points: PlotPoints<'_> = exponents
                    .iter()
                    .enumerate()
                    .map(|(i, e)| [*e, f64::from(by_temperature.get(i, j))])
                    .collect();
                plot.line(
                    Line::new(token, points).color(colors::curve(j)).width(2.0).allow_hover(false),
                );
            }
        })
        .response
        .accessible_name("Weights by temperature");
    if weights.col_labels.len() <= NAMED {
        ui.scope(|ui| {
            ui.spacing_mut().interact_size.y = 0.0;
            legend(ui, weights, row);
        });
    }
}

/// The curves' tokens, each with its weight at the present temperature.
fn legend(ui: &mut Ui, weights: &Step, row: usize) {
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing = egui::vec2(12.0, 4.0);
        for (j, token) in weights.col_labels.iter().enumerate() {
            let weight = numbers::fixed(weights.matrix.get(row, j), 3);
            let mut job = egui::text::LayoutJob::default();
            let style = ui.style();
            RichText::new("■ ").text_style(TextStyle::Small).color(colors::curve(j)).append_to(
                &mut job,
                style,
                egui::FontSelection::Default,
                egui::Align::Center,
            );
            remark(format!("{token} {weight}")).color(Color32::PLACEHOLDER).append_to(
                &mut job,
                style,
                egui::FontSelection::Default,
                egui::Align::Center,
            );
            ui.add(Label::new(job).extend());
        }
    });
}
