//! A "?" beside a name. It opens an explanation of the thing and of how to read it.

use egui::{Align, Label, Layout, RichText, TextStyle, Ui};

use super::style;

/// The width of an explanation.
const WIDTH: f32 = 360.0;

/// A "?" that opens an explanation in paragraphs.
pub(crate) fn explain(ui: &mut Ui, name: &str, text: &str) {
    let mark = RichText::new("?").text_style(TextStyle::Small);
    let button = ui.menu_button(mark, |ui| {
        ui.set_max_width(WIDTH.min(ui.ctx().content_rect().width() - 32.0));
        // A menu stretches its lines to its width. Text is easier to read unstretched.
        ui.with_layout(Layout::top_down(Align::Min), |ui| {
            for paragraph in text.lines() {
                ui.add(Label::new(paragraph).wrap());
            }
        });
    });
    button.response.accessible_name(format!("Explain: {name}")).on_hover_text("What is this?");
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
    ui.horizontal(|ui| {
        ui.label(RichText::new(name).text_style(text_style).strong());
        explain(ui, name, text);
    });
}
