//! The side panel: the choice of the example, and its controls.

use egui::{Button, ComboBox, RichText, Ui, vec2};
use regard_walkthrough::{Effective, Example, Group, Inputs, Without};

use super::own_tokens::OwnTokens;
use super::{Cache, WalkthroughState, curve};
use crate::explain::{explanation, label};
use crate::{Command, counted, temperature};

/// Shows the panel's contents. Returns the command whose button was pressed.
pub(crate) fn show(
    ui: &mut Ui,
    state: &mut WalkthroughState,
    own_tokens: &mut OwnTokens,
    cache: &Cache,
) -> Option<Command> {
    choose(ui, state);
    own_tokens.show(ui, state);
    ui.separator();
    // Every visible control changes something.
    let Effective { temperature, causal, without } = cache.effective();
    heads(ui, &mut state.inputs);
    if *causal {
        ui.checkbox(&mut state.settings.causal, "Causal mask")
            .on_hover_text("A token attends to itself and to earlier tokens only.");
    }
    leave_out(ui, &mut state.settings.without, without);
    if !temperature {
        return None;
    }
    ui.separator();
    temperature::show(ui, &mut state.settings.temperature);
    curve::show(ui, state, cache.walkthrough().ok()?)
}

/// The list of examples, with arrows to the previous and the next.
fn choose(ui: &mut Ui, state: &mut WalkthroughState) {
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        let arrow = |ui: &mut Ui, sign: &str, name: &str| {
            ui.add(Button::new(sign).min_size(vec2(26.0, 0.0)))
                .on_hover_text(name)
                .accessible_name(name)
                .clicked()
        };
        if arrow(ui, "‹", "Previous example") {
            state.go_by(-1);
        }
        let mut opened = None;
        let (title, summary) = (state.example().title(), state.example().summary());
        let list = ComboBox::from_id_salt("example")
            .selected_text(title)
            .width(ui.available_width() - 30.0)
            .height(520.0)
            .show_ui(ui, |ui| opened = list(ui, state.example()));
        list.response.on_hover_text(summary).accessible_name("Example");
        if let Some(example) = opened.filter(|example| *example != state.example()) {
            state.open(example);
        }
        if arrow(ui, "›", "Next example") {
            state.go_by(1);
        }
    });
}

/// All examples. Returns the one that was clicked.
fn list(ui: &mut Ui, open: Example) -> Option<Example> {
    ui.spacing_mut().item_spacing.y = 2.0;
    let mut clicked = None;
    for &group in Group::ALL {
        ui.add_space(4.0);
        ui.label(RichText::new(group.title()).small().weak());
        for example in group.examples() {
            let button = Button::selectable(open == example, example.title())
                .min_size(vec2(ui.available_width(), 0.0));
            if ui.add(button).on_hover_text(example.summary()).clicked() {
                clicked = Some(example);
            }
        }
    }
    clicked
}

/// The choice of the number of heads, if there is one.
fn heads(ui: &mut Ui, inputs: &mut Inputs) {
    let possible = inputs.possible_heads();
    if possible.len() < 2 {
        return;
    }
    label(ui, "Number of heads", explanation!("Number of heads"));
    let why_not = "The columns cannot be divided evenly among so many heads.";
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 3.0;
        for n in 1..=Inputs::MOST_HEADS {
            let is_possible = possible.contains(&n);
            let button =
                Button::selectable(inputs.heads() == n, n.to_string()).min_size(vec2(26.0, 0.0));
            let button = ui.add_enabled(is_possible, button);
            button.widget_info(|| {
                let (name, is_chosen) = (counted(n, "head"), inputs.heads() == n);
                egui::WidgetInfo::selected(egui::Role::Button, is_possible, is_chosen, name)
            });
            let button = button.on_disabled_hover_text(why_not);
            if button.clicked() {
                // This number of heads is possible.
                let _ = inputs.set_heads(n);
            }
        }
    });
}

/// The choice of a step to leave out, if any changes the example.
fn leave_out(ui: &mut Ui, without: &mut Option<Without>, effective: &[Without]) {
    if effective.is_empty() {
        return;
    }
    label(ui, "Leave out", explanation!("Leave out"));
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing = vec2(4.0, 4.0);
        ui.selectable_value(without, None, "nothing");
        for step in effective.iter().copied() {
            ui.selectable_value(without, Some(step), step.name()).on_hover_text(step.description());
        }
    });
}
