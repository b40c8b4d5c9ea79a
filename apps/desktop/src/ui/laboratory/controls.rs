//! The laboratory's knobs.

use core::ops::RangeInclusive;

use egui::{DragValue, Slider, Ui};

use super::state::{LEAST_CAP, MOST_DIM, MOST_SINK, MOST_SMOOTH, MOST_TOKENS};
use super::{Brush, Inputs, State};
use crate::ui::explain::heading;
use crate::ui::temperature;

/// Shows all knobs.
pub fn show(ui: &mut Ui, state: &mut State) {
    let inputs = &mut state.inputs;
    heading(
        ui,
        "Tokens",
        "n queries attend to n keys of d random numbers each. \"Alike\" makes a key like its own token's query, \
        \"smooth\" makes neighbours like each other, and a sink is a first key that everybody likes.",
    );
    size(ui, "n", "Tokens", &mut inputs.tokens, 2..=MOST_TOKENS);
    inputs.keys = inputs.keys.map(|keys| keys.min(inputs.tokens));
    size(ui, "d", "Dimensions", &mut inputs.dim, 1..=MOST_DIM);
    part(ui, "Alike", &mut inputs.alike, 0.0..=1.0);
    part(ui, "Smooth", &mut inputs.smooth, 0.0..=MOST_SMOOTH);
    part(ui, "Sink", &mut inputs.sink, 0.0..=MOST_SINK);
    ui.horizontal(|ui| {
        let label = ui.label("Seed");
        ui.add(DragValue::new(&mut inputs.seed).speed(0.1)).labelled_by(label.id).accessible_name("Seed");
        if ui.button("Draw again").on_hover_text("Take the next seed.").clicked() {
            inputs.seed = inputs.seed.wrapping_add(1);
        }
    });
    ui.separator();
    heading(
        ui,
        "Softmax",
        &format!(
            "{}\n1/√d keeps the scores' spread at about 1, however many dimensions are added up.",
            temperature::EXPLANATION
        ),
    );
    ui.label("Temperature T");
    temperature::show(ui, &mut inputs.temperature);
    ui.checkbox(&mut inputs.scaled, "Scale by 1/√d")
        .on_hover_text("Without it, scores spread as √d, and softmax picks one token.");
    ui.separator();
    masks(ui, state);
    ui.separator();
    heading(
        ui,
        "Sinks",
        "Many models put most weight on the first token when there is nothing to look at. Without it, one sees \
        what the rest of the weights do.",
    );
    ui.checkbox(&mut state.inputs.hide_first, "Hide the first token")
        .on_hover_text("Take the first token's weight away, and make the others sum to 1 again.");
}

fn masks(ui: &mut Ui, state: &mut State) {
    heading(
        ui,
        "Mask",
        "Which keys a query may see. A key is seen if every part allows it; what may not be seen is hatched. ALiBi and \
        the soft cap change scores and hide nothing.",
    );
    let inputs = &mut state.inputs;
    let n = inputs.tokens;
    ui.checkbox(&mut inputs.causal, "Causal")
        .on_hover_text("A token sees itself and what comes before it, nothing after.");
    option(ui, "Window", &mut inputs.window, [8, 8], |ui, [left, right]| {
        for (name, side) in [("left", left), ("right", right)] {
            let value = DragValue::new(side).range(0..=n).prefix(format!("{name} "));
            ui.add(value).accessible_name(format!("Window to the {name}"));
        }
    });
    option(ui, "Padding", &mut inputs.keys, n - n / 4, |ui, keys| {
        ui.add(DragValue::new(keys).range(0..=n).suffix(" keys")).accessible_name("Keys that are no padding");
    });
    option(ui, "ALiBi", &mut inputs.alibi, 0.1, |ui, slope| {
        let value = DragValue::new(slope).range(0.0..=1.0).speed(0.005).prefix("slope ").max_decimals(3);
        ui.add(value).accessible_name("Slope of ALiBi");
    });
    option(ui, "Soft cap", &mut inputs.softcap, 2.0, |ui, cap| {
        let value = DragValue::new(cap).range(LEAST_CAP..=50.0).speed(0.05).prefix("± ").max_decimals(2);
        ui.add(value).accessible_name("Size of the soft cap");
    });
    painting(ui, state);
}

fn painting(ui: &mut Ui, state: &mut State) {
    let n = state.inputs.tokens;
    let start = Brush { side: (n / 16).max(1), hides: true };
    option(ui, "Paint cells", &mut state.brush, start, |ui, brush| {
        ui.add(DragValue::new(&mut brush.side).range(1..=n).prefix("brush ")).accessible_name("Side of the brush");
    });
    let painted = !state.inputs.painted.is_empty();
    if state.brush.is_none() && !painted {
        return;
    }
    ui.horizontal_wrapped(|ui| {
        if let Some(brush) = &mut state.brush {
            ui.selectable_value(&mut brush.hides, true, "hide");
            ui.selectable_value(&mut brush.hides, false, "show again");
        }
        if painted && ui.button("Clear paint").clicked() {
            state.inputs.painted.clear();
        }
    });
}

/// A whole number on a logarithmic slider.
fn size(ui: &mut Ui, name: &str, spoken: &str, value: &mut usize, range: RangeInclusive<usize>) {
    row(ui, name, |ui| ui.add(Slider::new(value, range).logarithmic(true)).accessible_name(spoken));
}

fn part(ui: &mut Ui, name: &str, value: &mut f32, range: RangeInclusive<f32>) {
    row(ui, name, |ui| ui.add(Slider::new(value, range).max_decimals(2)).accessible_name(name));
}

/// A name, and a control in the room that it leaves.
fn row<R>(ui: &mut Ui, name: &str, control: impl FnOnce(&mut Ui) -> R) {
    ui.horizontal(|ui| {
        let width = ui.available_width();
        ui.label(name);
        ui.add_space((56.0 - ui.min_rect().width()).max(0.0));
        ui.spacing_mut().slider_width = (width - 56.0 - 80.0).max(60.0);
        control(ui);
    });
}

/// A box to check, and behind it what it brings along.
fn option<T>(ui: &mut Ui, name: &str, value: &mut Option<T>, start: T, control: impl FnOnce(&mut Ui, &mut T)) {
    ui.horizontal_wrapped(|ui| {
        let mut on = value.is_some();
        if ui.checkbox(&mut on, name).changed() {
            *value = on.then_some(start);
        }
        if let Some(value) = value {
            control(ui, value);
        }
    });
}

/// The inputs in a few words, for what A is.
pub fn in_words(inputs: &Inputs) -> String {
    let Inputs { tokens, dim, temperature, .. } = inputs;
    let mut words = format!("n = {tokens}, d = {dim}, T = {}", temperature::text(f64::from(temperature.get())));
    let parts = [
        (inputs.causal, "causal"),
        (inputs.window.is_some(), "window"),
        (inputs.keys.is_some(), "padding"),
        (inputs.alibi.is_some(), "ALiBi"),
        (inputs.softcap.is_some(), "soft cap"),
        (!inputs.painted.is_empty(), "painted"),
        (!inputs.scaled, "unscaled"),
        (inputs.hide_first, "first hidden"),
    ];
    for (_, part) in parts.iter().filter(|(on, _)| *on) {
        words.push_str(", ");
        words.push_str(part);
    }
    words
}
