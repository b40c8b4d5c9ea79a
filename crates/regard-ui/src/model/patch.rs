//! Patching: activations of the second text replace those of the first in its run (activation patching).

use egui::{ComboBox, DragValue, LayerId, Order, Sense, Stroke, TextStyle, Ui};
use regard_models::Description;

use super::PatchedPart;
use super::Reads;
use super::{ModelState, strip};
use super::{Outcome, Unchanged};
use crate::explain::{explanation, heading};
use crate::style;

/// A token of the second text that is being dragged, by its position.
pub(super) struct Dragged(pub usize);

/// The reason why no patch can be made, if there is one.
fn refusal(outcome: &Outcome, second: &Unchanged) -> Option<String> {
    let [first, second] = [outcome.tokens().len(), second.tokens.len()];
    (first != second).then(|| {
        format!(
            "A patch needs two inputs with equally many tokens: the first has {first}, and the second {second}."
        )
    })
}

/// Shows the second text's tokens, which are clicked or dragged.
pub(super) fn show(
    ui: &mut Ui,
    state: &mut ModelState,
    outcome: &Outcome,
    description: &Description,
) {
    let Some(second) = outcome.second_text() else { return };
    let run = &second.run;
    let refusal = refusal(outcome, run);
    let first = if outcome.reads() == Reads::Image { "first image" } else { "first text" };
    let how = how(outcome);
    let part = part_name(state);
    let mut made = None;
    strip::words(ui, "second text", run.tokens.len(), |ui, i, sense| {
        let token = &run.tokens[i];
        let differs = outcome.tokens().get(i).is_none_or(|first| first.raw != token.raw);
        let stroke = if differs {
            Stroke::new(2.0, ui.visuals().warn_fg_color)
        } else {
            ui.visuals().widgets.noninteractive.bg_stroke
        };
        let chip = strip::Chip { text: &token.text, fill: None, stroke };
        let response = chip.show(ui, sense | Sense::CLICK | Sense::DRAG);
        let words = format!("patch token {i} {}: {part}", token.text);
        let is_on = refusal.is_none();
        response.widget_info(|| {
            egui::WidgetInfo::labeled(egui::accesskit::Role::Button, is_on, &words)
        });
        if response.clicked() {
            made = Some(i);
        }
        response.dnd_set_drag_payload(Dragged(i));
        if response.dragged()
            && let Some(at) = ui.ctx().pointer_latest_pos()
        {
            let painter = ui.ctx().layer_painter(LayerId::new(Order::Tooltip, response.id));
            let font = TextStyle::Body.resolve(ui.style());
            let at = at + egui::vec2(12.0, -8.0);
            painter.text(at, egui::Align2::LEFT_BOTTOM, &token.text, font, style::QUERY);
        }
        response.on_hover_text(format!("Put its part into the {first}: {part} at token {i}. {how}"))
    });
    if let Some(refusal) = &refusal {
        ui.colored_label(ui.visuals().warn_fg_color, refusal);
    }
    if let Some(position) = made.filter(|_| refusal.is_none()) {
        toggle(state, outcome, description, position);
    }
}

/// Shows the choice of the part that is patched.
pub(super) fn part(
    ui: &mut Ui,
    state: &mut ModelState,
    outcome: &Outcome,
    description: &Description,
) {
    if outcome.second_text().is_none() {
        return;
    }
    ui.separator();
    heading(ui, "Patch", explanation!("Patch"));
    ui.horizontal_wrapped(|ui| {
        let name = state.part.name();
        let menu = ComboBox::from_id_salt("patched part").selected_text(name).width(0.0);
        let menu = menu.show_ui(ui, |ui| {
            for part in PatchedPart::ALL {
                ui.selectable_value(&mut state.part, part, part.name());
            }
        });
        menu.response.accessible_name("Patched part");
        let stack = &description.stack;
        let layers = DragValue::new(&mut state.heads.layer).range(0..=stack.layers() - 1);
        ui.add(layers.speed(0.1)).accessible_name("Layer of the patch");
        if state.part == PatchedPart::Head {
            ui.label(".");
            let heads = DragValue::new(&mut state.heads.head).range(0..=stack.block.heads - 1);
            ui.add(heads.speed(0.1)).accessible_name("Head of the patch");
        }
    });
    ui.weak(how(outcome));
}

/// How a patch is made. A token cannot be dragged onto a patch of an image.
fn how(outcome: &Outcome) -> &'static str {
    if outcome.reads() == Reads::Image { "Click a patch." } else { "Drag a token up, or click it." }
}

/// Makes the patch of a position, or removes it.
pub(super) fn toggle(
    state: &mut ModelState,
    outcome: &Outcome,
    description: &Description,
    position: usize,
) {
    let Some(second) = outcome.second_text() else { return };
    let head = state.address(state.heads.id());
    let patch = state.part.patch(head, position, second.run.input.clone(), description);
    state.toggle(&patch);
}

/// Takes a token that was dragged from the second text to a position of the first.
pub(super) fn drop_at(
    state: &mut ModelState,
    outcome: &Outcome,
    description: &Description,
    from: usize,
    to: usize,
) -> Result<(), String> {
    let Some(second) = outcome.second_text() else { return Ok(()) };
    if let Some(refusal) = refusal(outcome, &second.run) {
        return Err(refusal);
    }
    if from != to {
        return Err(format!(
            "A patch keeps its position: token {from} of the second text goes to token {from} of the first, and not to token {to}."
        ));
    }
    toggle(state, outcome, description, from);
    Ok(())
}

/// The patched part: "Stream after layer 2".
fn part_name(state: &ModelState) -> String {
    let id = state.heads.id();
    match state.part {
        PatchedPart::Head => format!("{} {}.{}", state.part.name(), id.layer, id.head),
        part => format!("{} {}", part.name(), id.layer),
    }
}
