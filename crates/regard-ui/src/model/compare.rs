//! The second text beside the first, and the choice of the run whose weights are shown.

use egui::{Label, Margin, RichText, TextEdit, TextStyle, Ui};

use super::run::Outcome;
use super::{State, Version};
use crate::explain::explain;

const SECOND: &str = "\
    A second text, which the same model reads without the changes. Its weights and its next tokens stand beside those of the first \
    text, with their difference if both have as many tokens.\n\
    Patching puts what the model computes for a token of the second text into the run of the first: drag the token up to the same \
    place of the first text, or click it. What changes then depends on what was put in.";

const RUNS: &str = "\
    Changed: the weights with the changes of the list. Unchanged: those without them. Difference: changed minus unchanged.\n\
    Second text: the weights of the second text, without changes. First − second: the weights of the first text, with the changes, \
    minus those of the second; both texts need as many tokens.";

/// Shows the switch of the second text.
pub(super) fn switch(ui: &mut Ui, state: &mut State) {
    let mut on = state.second.is_some();
    let hint =
        "Run the model over a second text, to compare it with the first and to patch from it.";
    if ui.checkbox(&mut on, "Second text").on_hover_text(hint).changed() {
        // It begins as the first, so that one word of it can be changed.
        state.second = on.then(|| state.text.clone());
        if !on && matches!(state.version, Version::Second | Version::FirstMinusSecond) {
            state.version = Version::Changed;
        }
    }
    explain(ui, "Second text", SECOND);
}

/// Shows the field of the second text, and what is wrong with it.
pub(super) fn field(ui: &mut Ui, state: &mut State, outcome: &Outcome) {
    let Some(text) = &mut state.second else { return };
    let width = ui.available_width();
    let field = TextEdit::multiline(text).desired_rows(1).desired_width(width);
    ui.add(field.hint_text("Type a second text.").margin(Margin::symmetric(8, 6)))
        .accessible_name("Second text to compare with");
    if let Some(Err(message)) = &outcome.second {
        let text = format!("The second text is not read: {message}");
        ui.add(Label::new(RichText::new(text).color(ui.visuals().error_fg_color)).wrap());
    }
}

/// Shows the choice of the run, if there is more than one.
pub(super) fn versions(ui: &mut Ui, state: &mut State, outcome: &Outcome) {
    // Before a mask is painted, so that nothing moves under the pointer.
    let changed = outcome.changed().is_some() || state.brush.is_some();
    let second = outcome.second();
    if !changed && second.is_none() {
        return;
    }
    ui.horizontal_wrapped(|ui| {
        ui.label("Weights of");
        let mut choices = Vec::new();
        if changed {
            choices.extend([
                (Version::Changed, "Changed", "Show the weights with the changes."),
                (Version::Unchanged, "Unchanged", "Show the weights without the changes."),
                (Version::Difference, "Difference", "Show changed minus unchanged weights."),
            ]);
        } else {
            choices.push((Version::Changed, "First text", "Show the weights of the first text."));
        }
        if second.is_some() {
            choices.extend([
                (Version::Second, "Second", "Show the weights of the second text."),
                (
                    Version::FirstMinusSecond,
                    "First − second",
                    "Show the weights of the first text minus those of the second.",
                ),
            ]);
        }
        for (version, name, hint) in choices {
            ui.selectable_value(&mut state.version, version, name).on_hover_text(hint);
        }
        explain(ui, "Runs", RUNS);
    });
    if state.version == Version::FirstMinusSecond
        && let Some(Err(message)) = second.map(|second| &second.difference)
    {
        let text = RichText::new(format!("{}.", sentence(message))).text_style(TextStyle::Small);
        ui.add(Label::new(text.color(ui.visuals().warn_fg_color)).wrap());
    }
}

/// A message as a sentence: with a capital.
fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
