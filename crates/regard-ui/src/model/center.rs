//! The middle of the room: the text, the runs, and the open view of them.

use std::sync::Arc;

use egui::{CentralPanel, Frame, Label, Margin, Panel, RichText, TextEdit, TextStyle, Ui, vec2};
use regard_models::Which;

use super::compare::Asked;
use super::input::grid;
use super::reads::Reads;
use super::room::outcome;
use super::run::Outcome;
use super::state::View;
use super::{
    ModelRoom, State, Version, attribution, changes, compare, lens, note, open, patch, patches,
    strip,
};
use crate::colors::Look;
use crate::explain::explain;
use crate::heads::{Marked, Shown, Surveyed, bar};
use crate::work::PATIENCE;
use crate::{Command, message, style};

const KINDS: &str = "\
    Encoder: each token of the text attends to all of them. Decoder: each token that the decoder has written attends to those before it \
    and to itself. Cross: each token of the decoder (the rows) attends to the tokens of the text (the columns).\n\
    Encoder and decoder add a learned number to each score, which depends on the distance of query and key (relative position bias). \
    The cross-attention adds none.";

/// From this width on, all heads are shown beside the chosen one.
const BESIDE: f32 = 560.0;
/// From this width on, a sentence in large letters fits in a line.
const WIDE: f32 = 620.0;

impl ModelRoom {
    /// Shows the text, and the chosen view of its run.
    pub(super) fn central(&mut self, ui: &mut Ui, state: &mut State, look: Look) -> Option<Asked> {
        self.messages(ui, state);
        let opened = self.here(state)?;
        let description = &opened.description;
        let reads = Reads::of(description);
        let mut asked = None;
        match reads {
            Reads::Image => asked = image(ui, state),
            Reads::Text => text(ui, &mut state.text, "Type a text for the model to read.", "Text"),
            Reads::TextAndDecoder => {
                text(ui, &mut state.text, "Type a text for the encoder to read.", "Text");
                let hint = "Type what the decoder has written so far, or let it write.";
                text(ui, &mut state.decoder, hint, "Text of the decoder");
            }
        }
        if let Some(message) = self.latest.error() {
            let is_empty = match reads {
                Reads::Image => state.image.is_none(),
                Reads::Text | Reads::TextAndDecoder => state.text.trim().is_empty(),
            };
            let color =
                if is_empty { ui.visuals().weak_text_color() } else { ui.visuals().error_fg_color };
            ui.add(Label::new(RichText::new(message).color(color)).wrap());
        }
        let Some(outcome) = outcome(&self.latest) else { return asked };
        let large = Some(&self.panes[0].large).filter(|_| state.version != Version::Second);
        if reads != Reads::Image {
            let which = state.attention;
            let labels = outcome.labels(which);
            let dropped = strip::show(ui, labels, which, large, &mut state.heads, look);
            if let Some((from, to)) = dropped {
                self.dropped = patch::drop_at(state, outcome, description, from, to).err();
            }
        }
        let switched = ui.horizontal_wrapped(|ui| {
            if reads != Reads::Image {
                self.writer.show(ui, state, outcome, description);
                ui.separator();
            }
            compare::switch(ui, state, reads, &mut self.cached, &self.background.host)
        });
        asked = asked.or(switched.inner);
        self.model_b.messages(ui, state, Some(outcome));
        compare::field(ui, state, outcome);
        if reads == Reads::Text {
            patch::show(ui, state, outcome, description);
        }
        told(ui, outcome, self.dropped.as_deref());
        let sentence = note::sentence(outcome, &outcome.list).map(RichText::new);
        // The line exists before a mask is painted, so that nothing moves under the pointer.
        let nothing = || RichText::new("No change is made yet.").weak();
        let sentence = sentence.or_else(|| state.brush.map(|_| nothing()));
        if let Some(sentence) = sentence {
            let style =
                if ui.available_width() < WIDE { TextStyle::Body } else { style::subheading() };
            ui.add(Label::new(sentence.text_style(style)).wrap());
        }
        ui.separator();
        if reads == Reads::Text {
            views(ui, state);
        }
        let tokens = &outcome.labels(Which::Only)[0];
        match state.view {
            View::Attention => self.attention(ui, state, look),
            View::Lens => lens::show(ui, &self.lens, tokens, look),
            View::Attribution => {
                attribution::show(ui, &mut self.attributed, state, &outcome.list, look);
            }
            View::Patches => patches::show(ui, &mut self.patches, state, outcome, look),
        }
        asked
    }

    /// Shows the attention of one run, or of two side by side.
    fn attention(&mut self, ui: &mut Ui, state: &mut State, look: Look) {
        let Some(outcome) = outcome(&self.latest) else { return };
        if outcome.reads() == Reads::TextAndDecoder {
            kinds(ui, state);
        }
        compare::versions(ui, state, outcome);
        let heads = Arc::clone(outcome.version(state.version, state.attention));
        bar::show(ui, &heads, &mut state.heads);
        if state.version == Version::SideBySide && outcome.pair(state.attention).is_some() {
            compare::moved(ui, state, outcome);
            self.three_panes(ui, state, look);
            return;
        }
        self.panes[0].call("");
        self.panes[0].large.is_named = false;
        if self.overlaid(ui, &heads, state, look) {
            return;
        }
        if state.heads.shown == Shown::Grid || state.heads.part().is_none() {
            self.grid(ui, 0, &heads, state, look);
            return;
        }
        let width = ui.available_width();
        if width >= BESIDE {
            let count = heads.maps.shape().heads as f32;
            let wanted = (0.38 * width).clamp(180.0, (72.0 * count).clamp(180.0, 480.0));
            let beside = Panel::left("all heads").resizable(false).exact_size(wanted);
            beside
                .frame(Frame::new().inner_margin(Margin { right: 8, ..Margin::ZERO }))
                .show(ui, |ui| self.grid(ui, 0, &heads, state, look));
            CentralPanel::default()
                .frame(Frame::new().inner_margin(Margin { left: 8, ..Margin::ZERO }))
                .show(ui, |ui| self.head(ui, 0, state, look));
        } else {
            self.head(ui, 0, state, look);
        }
    }

    /// Shows an image with the weights over it, and beside it all heads or one of them. Returns whether there is an image.
    fn overlaid(
        &mut self,
        ui: &mut Ui,
        heads: &Arc<Surveyed>,
        state: &mut State,
        look: Look,
    ) -> bool {
        let picture = self.outcome().and_then(|outcome| outcome.unchanged.picture.clone());
        let (Some(picture), Some(opened)) = (picture, &self.opened) else { return false };
        let patches = grid(&opened.description);
        let width = 0.5 * ui.available_width();
        let beside = Panel::left("image").resizable(false).exact_size(width);
        beside.frame(Frame::new().inner_margin(Margin { right: 12, ..Margin::ZERO })).show(
            ui,
            |ui| {
                // The title and the choice of [CLS] stand above, and a line may stand below.
                let room = vec2(ui.available_width(), (ui.available_height() - 84.0).max(120.0));
                let large = &self.panes[0].large;
                self.overlay.show(ui, &picture, patches, large, &mut state.heads, look, room);
            },
        );
        let margin = Margin { left: 8, ..Margin::ZERO };
        CentralPanel::default().frame(Frame::new().inner_margin(margin)).show(ui, |ui| {
            if state.heads.part().is_none() {
                self.grid(ui, 0, heads, state, look);
            } else {
                self.head(ui, 0, state, look);
            }
        });
        true
    }

    /// Shows the runs A and B and their difference.
    fn three_panes(&mut self, ui: &mut Ui, state: &mut State, look: Look) {
        let pair = self.outcome().and_then(|outcome| outcome.pair(state.attention));
        let Some(pair) = pair else { return };
        let [a, b] = &pair.names;
        let names = [format!("A  {a}"), format!("B  {b}"), "A − B".to_owned()];
        let difference = pair.difference.ok().map(|difference| &difference.heads);
        let [a, b] = pair.heads;
        let heads = [Some(a), Some(b), difference.map(|heads| &**heads)]
            .map(Option::<&Arc<Surveyed>>::cloned);
        let shows_grid = state.heads.part().is_none();
        let picture = self.outcome().and_then(|outcome| outcome.unchanged.picture.clone());
        let patches = self.opened.as_ref().map(|opened| grid(&opened.description));
        let picture = picture.zip(patches).filter(|_| !shows_grid);
        let room = vec2(f32::INFINITY, 0.4 * ui.available_height());
        ui.columns_const(|columns: &mut [Ui; 3]| {
            for (i, (ui, (name, heads))) in
                columns.iter_mut().zip(names.iter().zip(&heads)).enumerate()
            {
                ui.push_id(i, |ui| {
                    let Some(heads) = heads else { return };
                    self.panes[i].call(name);
                    if shows_grid {
                        bar::title(ui, name);
                        self.grid(ui, i, heads, state, look);
                        return;
                    }
                    self.panes[i].large.is_named = picture.is_some();
                    if let Some((picture, patches)) = &picture {
                        bar::title(ui, name);
                        let room = room.min(ui.available_size());
                        let large = &self.panes[i].large;
                        let heads = &mut state.heads;
                        self.overlay.show(ui, picture, *patches, large, heads, look, room);
                    }
                    self.head(ui, i, state, look);
                });
            }
        });
    }

    /// Shows all heads of a pane.
    fn grid(
        &mut self,
        ui: &mut Ui,
        pane: usize,
        heads: &Arc<Surveyed>,
        state: &mut State,
        look: Look,
    ) {
        // The changes are those of the first pane's run.
        let changed = if pane == 0 { state.changed_heads() } else { Vec::new() };
        let marked = Marked { heads: &changed, word: "changed" };
        self.panes[pane].grid(ui, heads, state, marked, look);
    }

    /// Shows the chosen head, or the mean.
    fn head(&mut self, ui: &mut Ui, pane: usize, state: &mut State, look: Look) {
        let large = &mut self.panes[pane].large;
        large.progress(ui);
        large.paints = pane == 0 && state.brush.is_some() && state.heads.shown == Shown::Head;
        let Some(pointing) = large.show(ui, &mut state.heads, look) else { return };
        if pane > 0 || state.heads.shown != Shown::Head {
            return;
        }
        if let Some(opened) = &self.opened {
            changes::paint(state, &pointing, &opened.description);
        }
        // A menu of the cell that was clicked last with the second button.
        if pointing.response.secondary_clicked() {
            state.heads.chosen = pointing.hovered.or(state.heads.chosen);
        }
        let outcome = outcome(&self.latest);
        pointing.response.context_menu(|ui| {
            if let Some(outcome) = outcome {
                changes::edge(ui, state, outcome.heads(state.attention), state.heads.id());
            }
        });
    }

    /// Shows the error, and the progress of reading.
    fn messages(&mut self, ui: &mut Ui, state: &mut State) {
        let is_here = self.here(state).is_some();
        if let Some((_, message)) = &self.failed {
            // Without the message, the model that the session names is opened again.
            let button = if is_here { "Dismiss" } else { "Try again" };
            if message::show(ui, message, ui.visuals().error_fg_color, button) {
                self.failed = None;
            }
        }
        if let Some(message) = self.differs
            && message::show(ui, message, ui.visuals().warn_fg_color, "Keep this run")
        {
            (self.differs, state.record) = (None, None);
            self.latest.forget();
        }
        let opening = self.opening.as_ref();
        if let Some(opening) = opening.filter(|o| o.once.elapsed() > PATIENCE || !is_here) {
            open::progress(ui, &opening.name, &opening.once);
            ui.ctx().request_repaint_after(PATIENCE);
        }
        if self.latest.is_late() {
            ui.horizontal(|ui| {
                ui.spinner();
                ui.label("The model is reading.");
            });
        }
    }
}

/// Names the parts of the text, the changes and the second text that have no effect, and the reason.
fn told(ui: &mut Ui, outcome: &Outcome, dropped: Option<&str>) {
    let (warning, error) = (ui.visuals().warn_fg_color, ui.visuals().error_fg_color);
    let unknown = &outcome.unchanged.unknown;
    if !unknown.is_empty() {
        let words: Vec<String> = unknown.iter().map(|word| format!("“{word}”")).collect();
        let text = format!("The model does not know {}.", words.join(", "));
        let text = RichText::new(text).text_style(TextStyle::Small).color(warning);
        ui.add(Label::new(text).wrap());
    }
    let refusal = outcome.refusal().map(|refusal| format!("The changes are not made: {refusal}."));
    for text in refusal.into_iter().chain(dropped.map(str::to_owned)) {
        ui.add(Label::new(RichText::new(text).color(error)).wrap());
    }
}

/// Shows a field for a text.
fn text(ui: &mut Ui, text: &mut String, hint: &str, name: &str) {
    let width = ui.available_width();
    let field = TextEdit::multiline(text).desired_rows(1).desired_width(width);
    ui.add(field.hint_text(hint).margin(Margin::symmetric(8, 6))).accessible_name(name);
}

/// Shows the choice of the image.
fn image(ui: &mut Ui, state: &State) -> Option<Asked> {
    let open = Command::OpenImage;
    let row = ui.horizontal(|ui| {
        let asked = ui.button(open.name()).on_hover_text(open.tooltip()).clicked();
        if let Some(path) = &state.image {
            let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
            let path = path.display().to_string();
            ui.add(Label::new(RichText::new(name).strong()).truncate()).on_hover_text(path);
        }
        asked
    });
    row.inner.then_some(Asked::Command(open))
}

/// Shows the choice of the attention of a model with an encoder and a decoder.
fn kinds(ui: &mut Ui, state: &mut State) {
    let kinds = [
        (Which::Encoder, "Encoder", "Tokens of the text attend to each other."),
        (Which::Decoder, "Decoder", "Tokens of the decoder attend to the earlier ones."),
        (Which::Cross, "Cross", "Tokens of the decoder attend to those of the text."),
    ];
    ui.horizontal_wrapped(|ui| {
        ui.label("Attention of");
        for (which, name, hint) in kinds {
            ui.selectable_value(&mut state.attention, which, name).on_hover_text(hint);
        }
        explain(ui, "Encoder, decoder and cross-attention", KINDS);
    });
}

/// Shows the choice of the view of the run.
fn views(ui: &mut Ui, state: &mut State) {
    let views = [
        (View::Attention, "Attention", "Show what each head attends to."),
        (View::Lens, "Logit lens", "Show what the model would predict after each layer."),
        (View::Attribution, "Attribution", "Show what each part of the model adds to a logit."),
        (View::Patches, "Patches", "Show what each place of the second text does in the first."),
    ];
    ui.horizontal_wrapped(|ui| {
        for (view, name, hint) in views {
            ui.selectable_value(&mut state.view, view, name).on_hover_text(hint);
        }
    });
}
