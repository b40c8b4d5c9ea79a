//! Something to tell, with a button behind it.

use egui::{Color32, Label, RichText, Ui};

/// What a button and the room before it take.
const BUTTON: f32 = 96.0;

/// Shows a message, all of it, and a button. Returns whether that was pressed.
pub fn show(ui: &mut Ui, text: &str, color: Color32, button: &str) -> bool {
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
