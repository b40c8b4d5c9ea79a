//! A message with a button: errors, warnings, and what has been done.

use egui::accesskit::Live;
use egui::{Color32, Frame, Label, Margin, RichText, Ui};

use crate::style;

/// The width of the button and of the gap before it.
const BUTTON: f32 = 96.0;

/// Shows the whole message and a button. A screen reader reads it aloud. Returns whether the button was pressed.
pub(crate) fn show(ui: &mut Ui, text: &str, color: Color32, button: &str) -> bool {
    let is_error = color == ui.visuals().error_fg_color;
    let fill = style::tinted(ui.visuals(), color);
    let frame = Frame::popup(ui.style()).fill(fill).inner_margin(Margin::symmetric(12, 8));
    let row = |ui: &mut Ui| {
        let width = (ui.available_width() - BUTTON).max(BUTTON);
        let label = ui.scope(|ui| {
            ui.set_max_width(width);
            ui.add(Label::new(RichText::new(text).color(color)).wrap())
        });
        let live = if is_error { Live::Assertive } else { Live::Polite };
        ui.ctx().accesskit_node_builder(label.inner.id, |node| node.set_live(live));
        ui.button(button).clicked()
    };
    frame.show(ui, |ui| ui.horizontal_top(row).inner).inner
}
