//! The panel at the left: the file, and the measure by which its heads are sorted.

use egui::{Align, Label, Layout, RichText, TextStyle, Ui};

use super::grid::standing;
use super::opened::Opened;
use super::{AttentionSource, Shown, State};
use crate::Command;
use crate::explain::{explain, heading};
use regard_heads::Measure;

/// A request of the panel.
pub(crate) enum Asked {
    /// A command's button was pressed.
    Command(Command),
    /// Opens the sample.
    Sample,
}

/// Shows the panel.
pub(crate) fn show(ui: &mut Ui, opened: Option<&Opened>, state: &mut State) -> Option<Asked> {
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
        "A safetensors, npy or npz file with the attention weights of a model, [layers, heads, n, n], and its tokens if it has \
        them. docs/attention-files.md shows the ten lines of Python that write such a file. You can also drop a file onto the \
        window.",
    );
    if let Some(opened) = opened {
        let shape = opened.maps.shape();
        ui.add(Label::new(RichText::new(opened.name()).strong()).wrap());
        let (layers, heads) = (counted(shape.layers, "layer"), counted(shape.heads, "head"));
        let size = format!("{layers} of {heads}, {} × {}", shape.queries, shape.keys);
        ui.add(Label::new(RichText::new(size).weak()).wrap());
        if opened.source == AttentionSource::Sample {
            let text = "Twelve heads made by hand. Each has a pattern that occurs in real models.";
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
                .on_hover_text("Open a small file to try this room with.")
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

/// Shows the measures: the choice of the sort order, and the values of the chosen head.
fn order(ui: &mut Ui, opened: &Opened, state: &mut State) {
    heading(
        ui,
        "Sort heads by",
        "Each measure describes a head by one number, a mean over the queries. The largest comes first. A share of weight is \
        significant if it is a mean of at least 3 queries and lies above that of equal weights by two standard errors; heads \
        without a significant value come last. When one head is shown, its own values stand here: grey ones are not significant.",
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
                        "No head of this file has this measure. {}",
                        measure.description()
                    ));
            });
            ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
                explain(ui, measure.name(), measure.description());
                if let Some(x) = measures.and_then(|measures| measures.get(measure)) {
                    let is_significant = measures.is_some_and(|m| m.is_significant(measure));
                    let value = RichText::new(measure.short(x));
                    let value = if is_significant { value.strong() } else { value.weak() };
                    let standing = measures.map(|m| standing(&m, measure)).unwrap_or_default();
                    ui.label(value).on_hover_text(format!("A mean of {standing}."));
                }
            });
        });
    }
    // A control without an effect on the view is not shown.
    if state.order.is_some() {
        ui.checkbox(&mut state.smallest_first, "Smallest first");
    }
    if state.shown == Shown::Grid {
        ui.separator();
        ui.checkbox(&mut state.own_scale, "Own colour scale for each head").on_hover_text(
            "Scale the colours of each small picture to its own largest weight, not to the largest of the file.",
        );
    }
}
