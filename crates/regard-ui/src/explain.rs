//! An explanation of a thing and of how to read it. It shows while the pointer is over the name or the "?" beside it; a click, a
//! finger or the keyboard keeps it open.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use egui::{Align, Button, Layout, Popup, Response, RichText, TextStyle, Ui};

use super::style;

/// Why the column of the first token is strong in many heads.
pub(crate) const SINK: &str =
    "Every token sees the first one, so a head rests on it where it finds nothing else to look at.";

static TEXTS: LazyLock<BTreeMap<&str, String>> = LazyLock::new(|| {
    let sections = include_str!("explanations.md").split("\n## ").skip(1);
    let named = sections.filter_map(|section| section.split_once("\n\n"));
    named.map(|(name, text)| (name, text.trim().replace("\n\n", "\n"))).collect()
});

/// The explanation of this name. A paragraph is a line.
pub(crate) fn explanation(name: &str) -> &'static str {
    &TEXTS[name]
}

const WIDTH: f32 = 360.0;

/// A "?" with an explanation in paragraphs.
pub(crate) fn explain(ui: &mut Ui, name: &str, text: &str) {
    let mark = RichText::new("?").small().weak();
    let button = ui.add(Button::new(mark).frame_when_inactive(false));
    Popup::menu(&button).show(|ui| paragraphs(ui, text));
    under_pointer(button.accessible_name(format!("Explain: {name}")), text);
}

fn under_pointer(response: Response, text: &str) {
    response.on_hover_ui(|ui| paragraphs(ui, text));
}

fn paragraphs(ui: &mut Ui, text: &str) {
    ui.set_max_width(WIDTH.min(ui.ctx().content_rect().width() - 32.0));
    // A menu stretches its lines to its width. Text is easier to read unstretched.
    ui.with_layout(Layout::top_down(Align::Min), |ui| {
        for paragraph in text.lines() {
            ui.label(paragraph);
        }
    });
}

/// The name of a panel, and its explanation.
pub(crate) fn heading(ui: &mut Ui, name: &str, text: &str) {
    titled(ui, name, text, style::subheading());
}

/// The name of a control, and its explanation.
pub(crate) fn label(ui: &mut Ui, name: &str, text: &str) {
    titled(ui, name, text, TextStyle::Body);
}

/// The name of a part of a panel, and its explanation.
pub(crate) fn title(ui: &mut Ui, name: &str, text: &str) {
    titled(ui, name, text, TextStyle::Small);
}

fn titled(ui: &mut Ui, name: &str, text: &str, text_style: TextStyle) {
    ui.horizontal_wrapped(|ui| {
        under_pointer(ui.label(RichText::new(name).text_style(text_style).strong()), text);
        explain(ui, name, text);
    });
}
