//! The controls that change the chosen head.

use egui::{Button, RichText, Ui};
use regard_kernels::Temperature;
use regard_models::{Ablation, Change, Description};

use super::{ModelState, Reads};
use crate::choice;
use crate::explain::{explanation, heading, label};
use crate::heads::Surveyed;
use crate::heatmap::{Cell, Pointing};
use crate::style::lone;
use crate::temperature;

/// Shows what can be done to the chosen head, and to the edge between two words. Returns whether the head is to take its output
/// from another sentence.
pub(super) fn of_head(
    ui: &mut Ui,
    state: &mut ModelState,
    heads: &Surveyed,
    description: Option<&Description>,
    cell: Option<Cell>,
) -> bool {
    let head = state.address(state.heads.id());
    heading(ui, &format!("Change head {head}"), explanation!("Change a head"));
    let reads = description.is_some_and(|model| Reads::of(model) == Reads::Text);
    let mut takes = false;
    ui.horizontal_wrapped(|ui| {
        let now = state.output(head).cloned();
        let set = |to| Some(Change::Ablate { head, to });
        let choices = [
            (None, "As is", "Leave the head's output as it is."),
            (set(Ablation::Zero), "Zero", "Replace the head's output by zeros."),
            (set(Ablation::Mean), "Mean", "Replace the head's output by its mean over the positions."),
        ];
        for (to, name, hint) in choices {
            if ui.selectable_label(now == to, name).on_hover_text(hint).clicked() && now != to {
                state.set_output(head, to);
            }
        }
        let is_other = matches!(now, Some(Change::PatchHead { .. }));
        let button = ui.add_enabled(reads, Button::selectable(is_other, "From another sentence"));
        let hint = "Replace the head's output by that in another sentence of as many tokens, which stands below the first: one name of it is swapped.";
        let button = button.on_hover_text(hint);
        let lacks = "It needs a model that reads one text.";
        takes = button.on_disabled_hover_text(lacks).clicked() && !is_other;
    });
    let before = state.temperature(head);
    if let Ok(mut temperature) = Temperature::new(before) {
        label(ui, &format!("How sharply head {head} looks"), explanation!("Temperature"));
        temperature::slider(ui, &mut temperature);
        if temperature.get() != before {
            state.set_temperature(head, temperature.get());
        }
    }
    edge(ui, state, heads, description, cell);
    brush(ui, state);
    takes
}

/// Shows the choice of the effect of dragging over the heatmap.
fn brush(ui: &mut Ui, state: &mut ModelState) {
    ui.horizontal_wrapped(|ui| {
        ui.label("Mask");
        let hide = "Drag over the heatmap to hide keys from queries in this head.";
        let choices = [
            (None, "Off", Ok("Dragging moves the visible part of the heatmap.")),
            (Some(true), "Hide", Ok(hide)),
            (Some(false), "Show", Ok("Drag over the heatmap to show hidden keys again.")),
        ];
        choice::all(ui, &mut state.brush, &choices);
    });
}

/// Hides the cell under the brush, or shows it again. Cells that the model hides anyway stay as they are.
pub(super) fn paint(state: &mut ModelState, pointing: &Pointing, description: &Description) {
    let Some(hides) = state.brush else { return };
    let response = &pointing.response;
    let Some((query, key)) =
        pointing.hovered.filter(|_| response.is_pointer_button_down_on() || response.clicked())
    else {
        return;
    };
    let head = state.address(state.heads.id());
    if description.hides(&head, query, key).is_none() {
        state.cut(&Change::Cut { head, query, key }, hides);
    }
}

/// The button that cuts the edge of a cell.
pub(super) fn edge(
    ui: &mut Ui,
    state: &mut ModelState,
    heads: &Surveyed,
    description: Option<&Description>,
    cell: Option<Cell>,
) {
    let head = state.address(state.heads.id());
    let Some((query, key)) = cell else {
        let text = "Click a cell to cut the edge from its query to its key.";
        ui.label(RichText::new(text).small().weak());
        return;
    };
    let [queries, keys] = heads.labels();
    let (Some(from), Some(to)) = (queries.get(query), keys.get(key)) else { return };
    let cut = Change::Cut { head, query, key };
    let is_cut = state.changes.iter().any(|c| c.on && c.change == cut);
    ui.horizontal_wrapped(|ui| {
        ui.label(format!("{} → {}", lone(from), lone(to)));
        let hidden = description.is_some_and(|model| model.hides(&head, query, key).is_some());
        let name = if is_cut { "Restore edge" } else { "Cut edge" };
        let button = ui.add_enabled(!hidden, Button::new(name));
        let button = button
            .on_hover_text("Hide this key from this query in this head, or show it again.")
            .on_disabled_hover_text("The mask hides this key from this query already.");
        if button.clicked() {
            state.toggle(&cut);
        }
    });
}
