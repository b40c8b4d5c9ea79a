//! A message with a button.

use egui::{Color32, Label, RichText, Ui};

/// The width of the button and of the gap before it.
const BUTTON: f32 = 96.0;

/// Shows the whole message and a button. Returns whether the button was pressed.
pub(crate) fn show(ui: &mut Ui, text: &str, color: Color32, button: &str) -> bool {
    let shown = ui.horizontal_top(|ui| {
        let width = (ui.available_width() - BUTTON).max(BUTTON);
        ui.scope(|ui| {
            ui.set_max_width(width);
            ui.add(Label::new(RichText::new(text).color(color)).wrap());
        });
        ui.button(button).clicked()
    });
    shown.inner
}
