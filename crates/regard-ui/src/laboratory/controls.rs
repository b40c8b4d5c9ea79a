//! The knobs of the laboratory.

use core::ops::RangeInclusive;

use egui::{DragValue, RichText, Slider, Ui};

use super::{Brush, LaboratoryInputs, LaboratoryState, TokenFile, TokenSource};
use crate::explain::{explanation, heading};
use crate::{Command, file_name, temperature};
use regard_session::laboratory::{LEAST_CAP, MOST_DIM, MOST_SINK, MOST_SMOOTH, MOST_TOKENS};

/// Shows all knobs. `file` is the file of the tokens, once it is read. Returns the command whose button was pressed.
pub(crate) fn show(
    ui: &mut Ui,
    state: &mut LaboratoryState,
    file: Option<&TokenFile>,
) -> Option<Command> {
    let command = tokens(ui, &mut state.inputs, file);
    ui.separator();
    softmax(ui, &mut state.inputs);
    ui.separator();
    masks(ui, state);
    ui.separator();
    heading(ui, "Sinks", explanation!("Sinks"));
    ui.checkbox(&mut state.inputs.hide_first, "Hide the first token")
        .on_hover_text("Remove the first token's weight. The others sum to 1 again.");
    command
}

fn tokens(ui: &mut Ui, inputs: &mut LaboratoryInputs, file: Option<&TokenFile>) -> Option<Command> {
    heading(ui, "Tokens", explanation!("Tokens"));
    let is_random = inputs.source == TokenSource::Seed;
    if !is_random {
        of_file(ui, inputs, file);
    }
    let (most_tokens, most_dim) =
        file.map_or((MOST_TOKENS, MOST_DIM), |file| (file.tokens, file.dim));
    size(ui, "n", "Tokens", &mut inputs.tokens, 2..=most_tokens.min(MOST_TOKENS));
    inputs.keys = inputs.keys.map(|keys| keys.min(inputs.tokens));
    size(ui, "d", "Dimensions", &mut inputs.dim, 1..=most_dim.min(MOST_DIM));
    if is_random {
        let text = "t0, t1, … are random vectors: they stand for no words.";
        ui.label(RichText::new(text).small().weak());
        random(ui, inputs);
    }
    let mut command = None;
    ui.horizontal_wrapped(|ui| {
        command = Command::OpenTokens.button(ui);
        if !is_random
            && ui
                .button("Random tokens")
                .on_hover_text("Close the file and draw random tokens.")
                .clicked()
        {
            inputs.source = TokenSource::Seed;
        }
    });
    command
}

/// The name of the file, and the choice of its head.
fn of_file(ui: &mut Ui, inputs: &mut LaboratoryInputs, file: Option<&TokenFile>) {
    let TokenSource::File { path, head } = &mut inputs.source else { return };
    ui.strong(file_name(path));
    let Some(file) = file else { return };
    let TokenFile { heads, tokens: n, dim: d, .. } = *file;
    let mut text = format!("{n} tokens × {d}");
    if heads > 1 {
        text = format!("{heads} heads, {text}");
        row(ui, "Head", |ui| {
            ui.add(DragValue::new(head).range(0..=heads - 1)).accessible_name("Head")
        });
    }
    let more: Vec<String> = [(n, MOST_TOKENS, "tokens"), (d, MOST_DIM, "dimensions")]
        .into_iter()
        .filter(|(has, most, _)| has > most)
        .map(|(_, most, what)| format!("{most} {what}"))
        .collect();
    if !more.is_empty() {
        text = format!("{text}: the first {} are shown", more.join(" and "));
    }
    ui.label(RichText::new(text).small().weak());
}

fn random(ui: &mut Ui, inputs: &mut LaboratoryInputs) {
    part(ui, "Query–key similarity", &mut inputs.alike, 0.0..=1.0);
    part(ui, "Neighbour similarity", &mut inputs.smooth, 0.0..=MOST_SMOOTH);
    part(ui, "Sink strength", &mut inputs.sink, 0.0..=MOST_SINK);
    ui.horizontal(|ui| {
        let label = ui.label("Seed");
        ui.add(DragValue::new(&mut inputs.seed).speed(0.1))
            .labelled_by(label.id)
            .accessible_name("Seed");
        if ui.button("Draw again").on_hover_text("Take the next seed.").clicked() {
            inputs.seed = inputs.seed.wrapping_add(1);
        }
    });
}

fn softmax(ui: &mut Ui, inputs: &mut LaboratoryInputs) {
    heading(
        ui,
        "Softmax",
        &format!("{}\n{}", explanation!("Temperature"), explanation!("Softmax")),
    );
    temperature::show(ui, &mut inputs.temperature);
    ui.checkbox(&mut inputs.scaled, "Scale by 1/√d").on_hover_text(
        "Without it, the spread of the scores grows as √d, and softmax picks one token.",
    );
}

fn masks(ui: &mut Ui, state: &mut LaboratoryState) {
    heading(ui, "Mask", explanation!("Mask"));
    let inputs = &mut state.inputs;
    let n = inputs.tokens;
    ui.checkbox(&mut inputs.causal, "Causal")
        .on_hover_text("A token attends to itself and to earlier tokens only.");
    let is_causal = inputs.causal;
    option(ui, "Window", &mut inputs.window, [8, 8], |ui, [left, right]| {
        // The causal mask hides all keys at the right.
        let sides = [("left", left, true), ("right", right, !is_causal)];
        for (name, side, _) in sides.into_iter().filter(|(_, _, is_effective)| *is_effective) {
            let value = DragValue::new(side).range(0..=n).prefix(format!("{name} "));
            ui.add(value).accessible_name(format!("Window to the {name}"));
        }
    });
    option(ui, "Padding", &mut inputs.keys, n - n / 4, |ui, keys| {
        ui.add(DragValue::new(keys).range(0..=n).suffix(" keys"))
            .accessible_name("Keys that are not padding");
    });
    option(ui, "ALiBi", &mut inputs.alibi, 0.1, |ui, slope| {
        let value =
            DragValue::new(slope).range(0.0..=1.0).speed(0.005).prefix("slope ").max_decimals(3);
        ui.add(value).accessible_name("Slope of ALiBi");
    });
    option(ui, "Soft cap", &mut inputs.softcap, 2.0, |ui, cap| {
        let value =
            DragValue::new(cap).range(LEAST_CAP..=50.0).speed(0.05).prefix("± ").max_decimals(2);
        ui.add(value).accessible_name("Size of the soft cap");
    });
    painting(ui, state);
}

fn painting(ui: &mut Ui, state: &mut LaboratoryState) {
    let n = state.inputs.tokens;
    let start = Brush { side: (n / 16).max(1), hides: true };
    option(ui, "Paint cells", &mut state.brush, start, |ui, brush| {
        ui.add(DragValue::new(&mut brush.side).range(1..=n).prefix("brush "))
            .accessible_name("Side of the brush");
    });
    let painted = !state.inputs.painted.is_empty();
    if state.brush.is_none() && !painted {
        return;
    }
    ui.horizontal_wrapped(|ui| {
        if let Some(brush) = state.brush.as_mut().filter(|brush| painted || !brush.hides) {
            ui.selectable_value(&mut brush.hides, true, "hide");
            ui.selectable_value(&mut brush.hides, false, "show again");
        }
        if painted && ui.button("Clear paint").clicked() {
            state.inputs.painted.clear();
        }
    });
    if state.inputs.is_all_painted() {
        ui.small("The paint is used up. Clear it, then use a larger brush.");
    }
}

/// A whole number on a logarithmic slider.
fn size(ui: &mut Ui, name: &str, spoken: &str, value: &mut usize, range: RangeInclusive<usize>) {
    row(ui, name, |ui| ui.add(Slider::new(value, range).logarithmic(true)).accessible_name(spoken));
}

fn part(ui: &mut Ui, name: &str, value: &mut f32, range: RangeInclusive<f32>) {
    ui.label(name);
    ui.spacing_mut().slider_width = (ui.available_width() - 80.0).max(60.0);
    ui.add(Slider::new(value, range).max_decimals(2)).accessible_name(name);
}

/// A name, with a control beside it.
fn row<R>(ui: &mut Ui, name: &str, control: impl FnOnce(&mut Ui) -> R) {
    ui.horizontal(|ui| {
        let width = ui.available_width();
        ui.label(name);
        ui.add_space((56.0 - ui.min_rect().width()).max(0.0));
        ui.spacing_mut().slider_width = (width - 56.0 - 80.0).max(60.0);
        control(ui);
    });
}

/// A checkbox, followed by its controls if it is checked.
fn option<T>(
    ui: &mut Ui,
    name: &str,
    value: &mut Option<T>,
    start: T,
    control: impl FnOnce(&mut Ui, &mut T),
) {
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

/// Describes the inputs of A in a few words.
pub(crate) fn in_words(inputs: &LaboratoryInputs) -> String {
    let LaboratoryInputs { tokens, dim, temperature, .. } = inputs;
    let mut words =
        format!("n = {tokens}, d = {dim}, T = {}", temperature::text(f64::from(temperature.get())));
    if let TokenSource::File { path, head } = &inputs.source {
        words = format!("{words}, head {head} of {}", file_name(path));
    }
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
