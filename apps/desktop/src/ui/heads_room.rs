//! The third room: the attention of a real model.

use egui::{CentralPanel, Label, RichText, Ui};
use serde::{Deserialize, Serialize};

use super::style;

/// What the user chose in this room.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {}

/// Shows the room.
pub fn ui(ui: &mut Ui) {
    CentralPanel::default().frame(style::panel(ui, 24, 24)).show(ui, |ui| {
        ui.set_max_width(640.0);
        ui.heading("Heads");
        ui.add(Label::new("The attention of a real model, layer by layer and head by head.").wrap());
        ui.add_space(8.0);
        let text = "A model's weights come from a file of the shape [layers, heads, n, n]. No file is open.";
        ui.add(Label::new(RichText::new(text).weak()).wrap());
    });
}
