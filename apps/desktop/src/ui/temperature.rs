//! The temperature, and the curve of what it does to one row.

use core::ops::RangeInclusive;

use egui::{Color32, DragValue, Label, RichText, Slider, TextStyle, Ui};
use egui_plot::{AxisHints, GridInput, GridMark, Line, PlotPoints, VLine};
use regard_kernels::Temperature;
use regard_walkthrough::{Kind, Step, Walkthrough, softmax_curve};

use super::focus::Focus;
use super::{State, colors, numbers, plots};

/// The exponents of ten between which the slider and the curve go.
const DECADES: RangeInclusive<f64> = -2.0..=2.0;
/// How far beyond them the slider goes: there are the limits, 0 and ∞.
const BEYOND: f64 = 0.2;
/// Of points on a curve.
const POINTS: usize = 97;
/// More tokens than this get curves, but no names under the plot.
const NAMED: usize = 12;

/// Shows the slider, the limits, and the curve of the row that is pointed at.
pub fn show(ui: &mut Ui, state: &mut State, walkthrough: Option<&Walkthrough>) {
    ui.label("Temperature T");
    slider(ui, &mut state.settings.temperature);
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        let ends = [("T → 0", Temperature::ZERO), ("T = 1", Temperature::ONE), ("T → ∞", Temperature::INFINITE)];
        for (name, t) in ends {
            ui.selectable_value(&mut state.settings.temperature, t, name);
        }
    });
    if let Some((scores, weights, row)) = walkthrough.and_then(|w| softmax_row(state, w)) {
        curve(ui, state.settings.temperature, &scores, weights, row);
    }
}

/// A slider over powers of ten whose ends are 0 and ∞, and the number, to be typed or dragged.
fn slider(ui: &mut Ui, temperature: &mut Temperature) {
    let before = f64::from(temperature.get());
    let mut t = before;
    ui.horizontal(|ui| {
        ui.spacing_mut().slider_width = ui.available_width() - 64.0;
        let ends = (DECADES.start() - BEYOND, DECADES.end() + BEYOND);
        let mut exponent = t.log10().clamp(ends.0, ends.1);
        let slider = Slider::new(&mut exponent, ends.0..=ends.1).show_value(false);
        if ui.add(slider).accessible_name("Temperature as a power of ten").changed() {
            t = if exponent < *DECADES.start() {
                0.0
            } else if exponent > *DECADES.end() {
                f64::INFINITY
            } else {
                10f64.powf(exponent)
            };
        }
        let number = DragValue::new(&mut t)
            .range(0.0..=f64::INFINITY)
            .speed(0.01 * before.clamp(0.01, 100.0))
            .custom_formatter(|t, _| three_digits(t))
            .custom_parser(|text| if text.trim() == "∞" { Some(f64::INFINITY) } else { text.trim().parse().ok() });
        ui.add_sized([ui.available_width(), ui.spacing().interact_size.y], number).accessible_name("Temperature");
    });
    if t != before
        && let Ok(new) = Temperature::new(t as f32)
    {
        *temperature = new;
    }
}

fn three_digits(t: f64) -> String {
    if t.is_infinite() {
        return "∞".to_owned();
    }
    let decimals = (2 - t.max(0.01).log10().floor() as i32).clamp(0, 3) as usize;
    let text = format!("{t:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The scores that softmax gets, its weights, and which row of them to show.
fn softmax_row<'a>(state: &State, walkthrough: &'a Walkthrough) -> Option<(Vec<f32>, &'a Step, usize)> {
    let pointed = state.pointed().and_then(|at| walkthrough.steps.iter().position(|step| step.key == at.step));
    let is_weights = |i: &usize| walkthrough.steps[*i].kind == Kind::Weights && i.checked_sub(1).is_some();
    // The weights pointed at, else the first that come after what is pointed at, else the last.
    let weights = (pointed.unwrap_or(0)..walkthrough.steps.len())
        .find(is_weights)
        .or_else(|| (0..walkthrough.steps.len()).rfind(is_weights))?;
    let weights = &walkthrough.steps[weights];
    let [row, _] = Focus::new(state, walkthrough).rows(weights);
    let row = row.unwrap_or(0);
    let mut scores = scores_of(weights, walkthrough)?.matrix.row(row).to_vec();
    if weights.key.contains("causal") {
        // The causal twin beside a plain attention: its masked scores are no step of their own.
        scores.iter_mut().skip(row + 1).for_each(|score| *score = f32::NEG_INFINITY);
    }
    Some((scores, weights, row))
}

/// The step that a step of weights is the softmax of: the nearest scores before it.
fn scores_of<'a>(weights: &Step, walkthrough: &'a Walkthrough) -> Option<&'a Step> {
    let before = walkthrough.steps.iter().take_while(|step| step.key != weights.key);
    before.filter(|step| step.key.ends_with("scores") && step.matrix.shape() == weights.matrix.shape()).last()
}

fn curve(ui: &mut Ui, temperature: Temperature, scores: &[f32], weights: &Step, row: usize) {
    let exponents: Vec<f64> = (0..POINTS).map(|i| egui::lerp(DECADES, i as f64 / (POINTS - 1) as f64)).collect();
    let temperatures: Vec<Temperature> =
        exponents.iter().filter_map(|e| Temperature::new(10f64.powf(*e) as f32).ok()).collect();
    let by_temperature = softmax_curve(scores, &temperatures);
    let now = f64::from(temperature.get()).log10().clamp(DECADES.start() - BEYOND, DECADES.end() + BEYOND);

    ui.add(Label::new(small(format!("How \"{}\" shares out its attention", weights.row_labels[row]))).truncate());
    let marker = ui.visuals().text_color();
    plots::still("softmax curve")
        .height(112.0)
        .default_x_bounds(DECADES.start() - BEYOND, DECADES.end() + BEYOND)
        .default_y_bounds(-0.03, 1.03)
        .x_grid_spacer(decades)
        .y_grid_spacer(|_| [0.0, 0.5, 1.0].map(|value| GridMark { value, step_size: 0.5 }).to_vec())
        .custom_x_axes(vec![
            plots::ticks(ui, AxisHints::new_x()).formatter(|mark, _| format!("{}", 10f64.powf(mark.value))),
        ])
        .custom_y_axes(vec![plots::ticks(ui, AxisHints::new_y()).formatter(|mark, _| format!("{}", mark.value))])
        .show(ui, |plot| {
            plot.vline(VLine::new("T", now).color(marker).width(1.5).allow_hover(false));
            for (j, token) in weights.col_labels.iter().enumerate() {
                let points: PlotPoints<'_> =
                    exponents.iter().enumerate().map(|(i, e)| [*e, f64::from(by_temperature.get(i, j))]).collect();
                plot.line(Line::new(token, points).color(colors::curve(j)).width(2.0).allow_hover(false));
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

/// Whole powers of ten.
fn decades(_: GridInput) -> Vec<GridMark> {
    (-2..=2).map(|e| GridMark { value: f64::from(e), step_size: 1.0 }).collect()
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
            small(format!("{token} {weight}")).color(Color32::PLACEHOLDER).append_to(
                &mut job,
                style,
                egui::FontSelection::Default,
                egui::Align::Center,
            );
            ui.add(Label::new(job).extend());
        }
    });
}

fn small(text: String) -> RichText {
    RichText::new(text).text_style(TextStyle::Small)
}
