//! The controls that change the model: those of the chosen head, and the list of changes.

use egui::{Label, RichText, TextStyle, Ui};
use regard_heads::HeadId;
use regard_kernels::Temperature;
use regard_models::{Ablation, Change};

use super::state::{Version, address};
use super::{State, note};
use crate::explain::{heading, label};
use crate::heads::{Shown, Surveyed};
use crate::temperature;

const HEAD: &str = "\
    Change one head, and see what the model predicts without it. The run without changes stays beside it.\n\
    Output: a head adds its output (weights · values) to the residual stream. Zeros take this away. The mean over the positions \
    takes away only what differs from one position to another.\n\
    Temperature: the head's scores are divided by it before softmax. Below 1 the head looks more sharply, above 1 more evenly.\n\
    Edge: choose a cell of the heatmap. Its query then does not see its key in this head; the other weights of the row grow.";

const LIST: &str = "\
    The changes, in the order in which they were made. Each can be switched off and on, and removed. Undo takes back the last step.\n\
    Changed shows the weights with the changes, Unchanged those without them, and Difference the changed weights minus the \
    unchanged ones.";

/// Shows the controls of the chosen head.
pub(super) fn of_head(ui: &mut Ui, state: &mut State, heads: &Surveyed) {
    if state.heads.shown != Shown::Head {
        heading(ui, "Change a head", HEAD);
        let text = "Click a head to see it large and to change it.";
        ui.add(Label::new(RichText::new(text).weak()).wrap());
        return;
    }
    let id = state.heads.id();
    let head = address(id);
    heading(ui, &format!("Change head {head}"), HEAD);
    ui.horizontal_wrapped(|ui| {
        ui.label("Output");
        let now = state.ablation(head).cloned();
        let choices = [
            (None, "As is", "Leave the head's output as it is."),
            (Some(Ablation::Zero), "Zero", "Replace the head's output by zeros."),
            (
                Some(Ablation::Mean),
                "Mean",
                "Replace the head's output by its mean over the positions.",
            ),
        ];
        for (to, name, hint) in choices {
            if ui.selectable_label(now == to, name).on_hover_text(hint).clicked() && now != to {
                state.ablate(head, to);
            }
        }
    });
    label(ui, "Temperature", temperature::EXPLANATION);
    let before = state.temperature(head);
    if let Ok(mut temperature) = Temperature::new(before) {
        temperature::show(ui, &mut temperature);
        if temperature.get() != before {
            state.set_temperature(head, temperature.get());
        }
    }
    edge(ui, state, heads, id);
}

/// The button that cuts the edge of the chosen cell.
pub(super) fn edge(ui: &mut Ui, state: &mut State, heads: &Surveyed, id: HeadId) {
    let Some((query, key)) = state.heads.chosen else {
        let text = "Click a cell to cut the edge from its query to its key.";
        ui.add(Label::new(RichText::new(text).text_style(TextStyle::Small).weak()).wrap());
        return;
    };
    let [queries, keys] = heads.labels();
    let (Some(from), Some(to)) = (queries.get(query), keys.get(key)) else { return };
    let cut = Change::Cut { head: address(id), query, key };
    let is_cut = state.changes.iter().any(|c| c.on && c.change == cut);
    ui.horizontal_wrapped(|ui| {
        ui.label(format!("Edge {from} → {to}"));
        let hidden = heads.survey.is_causal() && key > query;
        let name = if is_cut { "Restore edge" } else { "Cut edge" };
        let button = ui.add_enabled(!hidden, egui::Button::new(name));
        let button = button
            .on_hover_text("Hide this key from this query in this head, or show it again.")
            .on_disabled_hover_text("The mask hides this key from this query already.");
        if button.clicked() {
            state.toggle(&cut);
        }
    });
}

/// Shows the list of changes, and which run is shown.
pub(super) fn list(ui: &mut Ui, state: &mut State, tokens: &[String]) {
    heading(ui, "Changes", LIST);
    if state.changes.is_empty() {
        ui.add(Label::new(RichText::new("None: the model is as it was trained.").weak()).wrap());
        return;
    }
    let mut removed = None;
    for (i, listed) in state.changes.iter_mut().enumerate() {
        let text = note::change(&listed.change, tokens);
        ui.horizontal(|ui| {
            let remove = ui.button("×").on_hover_text("Remove this change.");
            if remove.accessible_name(format!("Remove: {text}")).clicked() {
                removed = Some(i);
            }
            ui.checkbox(&mut listed.on, "")
                .accessible_name(&text)
                .on_hover_text("Make this change, or leave it out.");
            ui.add(Label::new(&text).wrap());
        });
    }
    if let Some(i) = removed {
        state.changes.remove(i);
    }
    if state.changes.len() > 1 && ui.button("Remove all").clicked() {
        state.changes.clear();
    }
    if state.changes.iter().any(|c| c.on) {
        ui.horizontal_wrapped(|ui| {
            let versions = [
                (Version::Changed, "Changed", "Show the weights with the changes."),
                (Version::Unchanged, "Unchanged", "Show the weights without the changes."),
                (Version::Difference, "Difference", "Show changed minus unchanged weights."),
            ];
            for (version, name, hint) in versions {
                ui.selectable_value(&mut state.version, version, name).on_hover_text(hint);
            }
        });
    }
}
