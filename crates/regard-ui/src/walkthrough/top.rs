//! The line above the page: the tokens to follow, and the number of changes.

use egui::{Align, Button, Layout, RichText, ScrollArea, Ui};
use regard_walkthrough::Walkthrough;

use super::{Picked, WalkthroughState};
use crate::explain::{explain, explanation};
use crate::{Command, counted};

/// Shows the line. Returns the command that was chosen.
pub(crate) fn show(
    ui: &mut Ui,
    state: &mut WalkthroughState,
    walkthrough: &Walkthrough,
) -> Option<Command> {
    let mut chosen = None;
    ui.with_layout(Layout::right_to_left(Align::Center), |ui| {
        explain(ui, "Heatmap", &format!("{}\n{}", explanation!("Steps"), explanation!("Heatmap")));
        if state.inputs.is_changed() {
            chosen = Command::ResetNumbers.button(ui);
            let text = format!("{} changed", counted(state.inputs.edits().len(), "number"));
            ui.label(RichText::new(text).small().weak());
        }
        ui.with_layout(Layout::left_to_right(Align::Center), |ui| tokens(ui, state, walkthrough));
    });
    chosen
}

/// A button for each token.
fn tokens(ui: &mut Ui, state: &mut WalkthroughState, walkthrough: &Walkthrough) {
    if walkthrough.tokens.is_empty() || walkthrough.select_token(0).keys.is_empty() {
        ui.label(RichText::new("No attention between tokens here").weak());
        return;
    }
    ui.label(RichText::new("Follow a token").weak());
    explain(ui, "Follow a token", explanation!("Follow a token"));
    ScrollArea::horizontal().id_salt("tokens").min_scrolled_width(0.0).show(ui, |ui| {
        ui.spacing_mut().item_spacing.x = 4.0;
        for (i, token) in walkthrough.tokens.iter().enumerate() {
            let picked = Some(Picked::Token(i));
            let is_picked = state.picked == picked;
            let button = ui.add(Button::selectable(is_picked, token));
            button.widget_info(|| {
                let name = format!("Token {}: {token}", i + 1);
                egui::WidgetInfo::selected(egui::Role::Button, true, is_picked, name)
            });
            if button
                .on_hover_text(
                    "Follow its query, keys, scores, weights and output through all steps.",
                )
                .clicked()
            {
                state.picked = if is_picked { None } else { picked };
            }
        }
    });
}
