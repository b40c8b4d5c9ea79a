//! The line at the bottom: how the pointed cell came to be.

use egui::{Label, RichText, TextStyle, Ui};
use regard_walkthrough::Walkthrough;

use super::State;

/// Shows the line.
pub fn show(ui: &mut Ui, state: &State, walkthrough: &Walkthrough) {
    ui.spacing_mut().item_spacing.y = 2.0;
    let pointed = state.pointed().and_then(|at| Some((walkthrough.step(&at.step)?, at.cell)));
    let Some((step, (row, col))) =
        pointed.filter(|(step, (row, col))| *row < step.matrix.rows() && *col < step.matrix.cols())
    else {
        ui.add_space(8.0);
        ui.label(RichText::new("Point at a cell to read how its number came to be; click to keep it.").weak());
        return;
    };
    let place = format!("{}: {}, {}", step.name, step.row_labels[row], step.col_labels[col]);
    ui.add(Label::new(RichText::new(place).text_style(TextStyle::Small).weak()).truncate());
    let explanation = step.explain(row, col).unwrap_or_else(|| step.matrix.get(row, col).to_string());
    ui.add(Label::new(RichText::new(explanation).monospace()).wrap());
}
