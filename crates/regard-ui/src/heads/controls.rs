//! The panel at the left: the file, and what its heads are sorted by.

use egui::{Align, Label, Layout, RichText, TextStyle, Ui};

use super::opened::Opened;
use super::{AttentionSource, Shown, State};
use crate::Command;
use crate::explain::{explain, heading};
use regard_heads::Measure;

/// What the panel asks for.
pub enum Asked {
    /// A command's button was pressed.
    Command(Command),
    /// The sample.
    Sample,
}

/// Shows the panel.
pub fn show(ui: &mut Ui, opened: Option<&Opened>, state: &mut State) -> Option<Asked> {
    let asked = file(ui, opened);
    if let Some(opened) = opened {
        ui.separator();
        order(ui, opened, state);
    }
    asked
}

fn file(ui: &mut Ui, opened: Option<&Opened>) -> Option<Asked> {
    let mut asked = None;
    heading(
        ui,
        "File",
        "A safetensors, npy or npz file with the weights of a model's attention, [layers, heads, n, n], and its tokens if \
        there are any. docs/attention-files.md has the ten lines of Python that write one. It can also be dropped onto the \
        window.",
    );
    if let Some(opened) = opened {
        let shape = opened.maps.shape();
        ui.add(Label::new(RichText::new(opened.name()).strong()).truncate());
        let (layers, heads) = (counted(shape.layers, "layer"), counted(shape.heads, "head"));
        let size = format!("{layers} of {heads}, {} × {}", shape.queries, shape.keys);
        ui.add(Label::new(RichText::new(size).weak()).wrap());
        if opened.source == AttentionSource::Sample {
            let text = "Twelve heads made by hand, each with a pattern that real models have.";
            ui.add(Label::new(RichText::new(text).text_style(TextStyle::Small).weak()).wrap());
        }
        for warning in opened.survey.warnings() {
            let color = ui.visuals().warn_fg_color;
            let text = RichText::new(format!("Note: {warning}."))
                .text_style(TextStyle::Small)
                .color(color);
            ui.add(Label::new(text).wrap());
        }
    }
    ui.horizontal_wrapped(|ui| {
        let open = Command::OpenAttention;
        if ui.button("Open file").on_hover_text(open.tooltip()).clicked() {
            asked = Some(Asked::Command(open));
        }
        let is_sample = opened.is_some_and(|opened| opened.source == AttentionSource::Sample);
        if !is_sample
            && ui
                .button("Open the sample")
                .on_hover_text("An attention to try this room with.")
                .clicked()
        {
            asked = Some(Asked::Sample);
        }
    });
    asked
}

fn counted(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

/// The measures: what the heads are sorted by, and those of the chosen head.
fn order(ui: &mut Ui, opened: &Opened, state: &mut State) {
    heading(
        ui,
        "Sort heads by",
        "What can be said of a head in one number, the largest first. Where one head is shown, its own numbers stand here.",
    );
    let measures = (state.shown == Shown::Head).then(|| opened.survey.measures(state.id()));
    ui.radio_value(&mut state.order, None, "Order of the file");
    for measure in Measure::ALL {
        ui.horizontal(|ui| {
            let there = opened.has(measure);
            ui.add_enabled_ui(there, |ui| {
                ui.radio_value(&mut state.order, Some(measure), measure.name())
                    .on_hover_text(measure.description())
                    .on_disabled_hover_text(format!(
                        "No head of this file has it. {}",
                        measure.description()
                    ));
            });
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                explain(ui, measure.name(), measure.description());
                if let Some(x) = measures.and_then(|measures| measures.get(measure)) {
                    ui.label(RichText::new(measure.short(x)).strong());
                }
            });
        });
    }
    let sorted = state.order.is_some();
    ui.add_enabled_ui(sorted, |ui| ui.checkbox(&mut state.smallest_first, "Smallest first"));
    ui.separator();
    ui.checkbox(&mut state.own_scale, "Own colour scale for each head")
        .on_hover_text("Colours go to the largest weight of each small picture, instead of the largest of the file.");
}
