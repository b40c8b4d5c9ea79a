//! The words of a screen reader for a cell.

use egui::accesskit::Live;
use egui::{Response, Ui};

use super::{Cell, Heatmap};
use crate::numbers;

/// Puts the cursor into the accessibility tree. While the heatmap has the focus, each move is spoken.
pub(crate) fn speak(map: &Heatmap<'_>, ui: &Ui, response: &Response, cursor: Option<Cell>) {
    let Some(text) = cursor.and_then(|cell| words(map, cell)) else { return };
    // This comes first, because the closure locks the context.
    let has_focus = response.has_focus();
    ui.ctx().accesskit_node_builder(response.id, |node| {
        node.set_value(text);
        if has_focus {
            node.set_live(Live::Polite);
        }
    });
}

/// "query cat, key sat, weight 0.42".
pub(crate) fn words(map: &Heatmap<'_>, (row, col): Cell) -> Option<String> {
    let [row_term, col_term, term] = map.terms;
    let (row_label, col_label) = (map.row_labels.get(row)?, map.col_labels.get(col)?);
    let number = numbers::spoken_masked(map.number((row, col))?, map.masked);
    Some(format!("{row_term} {row_label}, {col_term} {col_label}, {term} {number}"))
}
