//! The side panel: which example, and what to change in it.

use egui::{Button, RichText, ScrollArea, TextStyle, Ui, vec2};
use regard_walkthrough::{Example, Walkthrough, Without};

use super::{State, curve};
use crate::ui::temperature;

/// With less height than this, summaries are shown on hovering alone.
const ROOMY: f32 = 940.0;

/// Shows the panel's contents.
pub fn show(ui: &mut Ui, state: &mut State, walkthrough: Option<&Walkthrough>) {
    let roomy = ui.available_height() > ROOMY;
    ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
        ui.scope(|ui| examples(ui, state, roomy));
        ui.separator();
        temperature::show(ui, &mut state.settings.temperature);
        if let Some(walkthrough) = walkthrough {
            curve::show(ui, state, walkthrough);
        }
        ui.separator();
        ui.checkbox(&mut state.settings.causal, "Causal mask")
            .on_hover_text("A token sees itself and what comes before it, nothing after.");
        leave_out(ui, &mut state.settings.without);
    });
}

fn examples(ui: &mut Ui, state: &mut State, summaries: bool) {
    ui.spacing_mut().item_spacing.y = 4.0;
    for example in Example::ALL {
        let open = state.example == example;
        let button = Button::selectable(open, example.title()).min_size(vec2(ui.available_width(), 0.0));
        if ui.add(button).on_hover_text(example.summary()).clicked() && !open {
            state.open(example);
        }
        if summaries {
            ui.label(RichText::new(example.summary()).text_style(TextStyle::Small).weak());
        }
    }
}

fn leave_out(ui: &mut Ui, without: &mut Option<Without>) {
    ui.label("Leave out");
    ui.horizontal_wrapped(|ui| {
        ui.spacing_mut().item_spacing = vec2(4.0, 4.0);
        ui.selectable_value(without, None, "nothing");
        for step in Without::ALL {
            ui.selectable_value(without, Some(step), step.name()).on_hover_text(step.description());
        }
    });
}
