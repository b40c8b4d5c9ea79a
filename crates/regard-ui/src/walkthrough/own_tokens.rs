//! The user's own tokens and sizes, with numbers drawn from a seed.

use egui::{DragValue, RichText, TextEdit, Ui};
use regard_walkthrough::{Error, Example, Inputs, Sizes};

use super::WalkthroughState;

/// The text during typing.
#[derive(Default)]
pub(crate) struct OwnTokens {
    /// `None` unless the user is typing. Then the field shows the present tokens.
    typed: Option<String>,
    problem: Option<String>,
    /// Whether the field is to get the focus.
    begins: bool,
}

impl OwnTokens {
    /// Shows the fields of the user's own tokens, or a button that leads there.
    pub(crate) fn show(&mut self, ui: &mut Ui, state: &mut WalkthroughState) {
        if let Some(sizes) = state.inputs.sizes() {
            self.fields(ui, state, sizes);
            return;
        }
        *self = Self::default();
        let button = ui.button("Use your own tokens");
        if button
            .on_hover_text(
                "Start with these tokens. Then type others, and choose sizes and a seed.",
            )
            .clicked()
        {
            let tokens = state.inputs.tokens().to_vec();
            let sizes = Sizes::default();
            match Inputs::seeded(tokens, sizes.d_model, sizes.d_k, state.inputs.heads(), sizes.seed)
            {
                Ok(inputs) => state.begin_with(inputs),
                // The example has no tokens.
                Err(_) => state.open(Example::Seeded),
            }
            self.begins = true;
        }
    }

    fn fields(&mut self, ui: &mut Ui, state: &mut WalkthroughState, sizes: Sizes) {
        let mut text = self.typed.take().unwrap_or_else(|| state.inputs.tokens().join(" "));
        let field = TextEdit::singleline(&mut text).hint_text("words separated by spaces");
        let width = ui.available_width();
        let field = ui.add(field.desired_width(width)).accessible_name("Your tokens");
        let field = field.on_hover_text("Enter 1–64 words, separated by spaces.");
        if core::mem::take(&mut self.begins) {
            field.request_focus();
        }
        let hint = "Their numbers are random, drawn from the seed. Equal words have equal ones.";
        ui.label(RichText::new(hint).small().weak());
        let tokens: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        // Each key is followed. An empty field is one that is being typed over, until it is left.
        let is_left = field.lost_focus() && !ui.input(|i| i.key_pressed(egui::Key::Escape));
        if is_left || field.changed() && !tokens.is_empty() {
            self.problem = Self::draw(state, tokens, sizes).err().map(|error| error.to_string());
            self.typed = Some(text).filter(|_| self.problem.is_some() || !is_left);
        } else if field.has_focus() || self.problem.is_some() && !field.lost_focus() {
            self.typed = Some(text);
        } else {
            self.problem = None;
        }
        if let Some(problem) = &self.problem {
            ui.colored_label(ui.visuals().error_fg_color, problem);
        }
        let mut now = sizes;
        ui.horizontal(|ui| {
            ui.spacing_mut().item_spacing.x = 4.0;
            size(ui, "d_model", "Numbers of a token", &mut now.d_model, Inputs::MOST_D_MODEL);
            size(ui, "d_k", "Numbers of a query of one head", &mut now.d_k, Inputs::MOST_D_K);
            ui.label("seed");
            ui.add(DragValue::new(&mut now.seed).speed(0.1).update_while_editing(false))
                .on_hover_text("The seed of the random numbers.")
                .accessible_name("Seed");
        });
        if now != sizes {
            let tokens = state.inputs.tokens().to_vec();
            self.problem = Self::draw(state, tokens, now).err().map(|error| error.to_string());
        }
    }

    /// Draws the numbers again, if anything has changed.
    fn draw(state: &mut WalkthroughState, tokens: Vec<String>, sizes: Sizes) -> Result<(), Error> {
        if tokens != state.inputs.tokens() || Some(sizes) != state.inputs.sizes() {
            let Sizes { d_model, d_k, seed } = sizes;
            state.inputs = Inputs::seeded(tokens, d_model, d_k, state.inputs.heads(), seed)?;
            state.picked = None;
        }
        Ok(())
    }
}

fn size(ui: &mut Ui, label: &str, name: &str, size: &mut usize, most: usize) {
    ui.label(label);
    ui.add(DragValue::new(size).range(1..=most).speed(0.1).update_while_editing(false))
        .on_hover_text(format!("{name}, 1 to {most}."))
        .accessible_name(name);
}
