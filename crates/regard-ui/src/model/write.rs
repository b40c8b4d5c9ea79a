//! Text that the model writes, token by token.

use egui::{Button, Ui};
use regard_models::Description;

use super::Outcome;
use super::Reads;
use super::Request;
use super::Written;
use super::{ModelState, Next};

/// The maximum number of tokens that one request writes.
const MOST: usize = 200;

#[derive(Default)]
pub(super) struct Writer {
    /// The tokens that are still to be written.
    left: usize,
    /// The reason why the model stopped writing.
    end: Option<String>,
}

impl Writer {
    pub(crate) fn is_on(&self) -> bool {
        self.left > 0
    }

    /// Writes the next token on request, if the run is that of the latest request.
    pub(crate) fn exchange(
        &mut self,
        state: &mut ModelState,
        latest: &Request,
        outcome: Option<&Outcome>,
        model: &Description,
    ) {
        if !self.is_on() {
            return;
        }
        let Some(outcome) = outcome else { return self.left = 0 };
        if outcome.request == *latest {
            self.left -= 1;
            self.write(state, outcome, model);
        }
    }

    /// Writes the likeliest token of the run with the changes.
    fn write(&mut self, state: &mut ModelState, outcome: &Outcome, model: &Description) {
        self.end = None;
        let Some(next) = &outcome.written else { return };
        if model.ends.contains(&next.id) {
            self.left = 0;
            self.end = Some("The model ends its text here.".to_owned());
        } else if let Err(message) = append(state, outcome, next) {
            self.left = 0;
            self.end = Some(message);
        }
    }

    pub(crate) fn show(
        &mut self,
        ui: &mut Ui,
        state: &mut ModelState,
        outcome: &Outcome,
        model: &Description,
    ) {
        let can = model.stack.causal && !outcome.next().is_empty();
        let is_on = self.is_on();
        let next = ui.add_enabled(can && !is_on, Button::new("Add next word"));
        let next = next
            .on_hover_text("Write the likeliest word into the text. A click on a word of the list writes that one.")
            .on_disabled_hover_text("The model fills gaps, and does not continue a text.");
        if next.clicked() {
            self.write(state, outcome, model);
        }
        let (name, hint) = if is_on {
            ("Stop", "Stop writing.")
        } else {
            ("Write on", "Write the likeliest word again and again.")
        };
        if ui.add_enabled(can, Button::new(name)).on_hover_text(hint).clicked() {
            self.left = if is_on { 0 } else { MOST };
        }
        if let Some(end) = &self.end {
            ui.weak(end);
        }
    }

    /// Forgets the reason why the model stopped writing.
    pub(crate) fn forget(&mut self) {
        self.end = None;
    }
}

/// Appends a token to the text that was run.
pub(super) fn append(state: &mut ModelState, outcome: &Outcome, next: &Next) -> Result<(), String> {
    let more = next.adds.as_deref().ok_or("the tokenizer has no text for the token")?;
    let (so_far, written) = match outcome.reads() {
        Reads::TextAndDecoder | Reads::Recording => {
            (&mut state.decoder, &mut state.written_decoder)
        }
        Reads::Text | Reads::Image => (&mut state.text, &mut state.written),
    };
    let at_start = so_far.is_empty() || so_far.ends_with(char::is_whitespace);
    so_far.push_str(if at_start { more.trim_start() } else { more });
    let ids = [outcome.written(), &[next.id]].concat();
    *written = Some(Written { text: so_far.clone(), ids });
    Ok(())
}
