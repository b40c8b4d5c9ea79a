//! The room: its panels and their contents.

mod parts;

use std::sync::Arc;

use egui::{CentralPanel, Context, Frame, Label, Margin, Panel, RichText, ScrollArea, Ui};
use regard_figure::Matrix;
use regard_models::Score;

use super::attribution::{Attribute, Parts};
use super::cached::CachedModels;
use super::compare::{Asked, ModelB};
use super::exchange::{LatestRun, Opening};
use super::lens::{Predict, Predictions};
use super::next::Predicts;
use super::open::{Opened, short};
use super::overlay::Overlay;
use super::pane::Pane;
use super::patches::{self, PatchEach};
use super::reads::Reads;
use super::run::Outcome;
use super::state::View;
use super::sweep::{self, Sweep};
use super::unfold::{self, Unfold};
use super::write::{self, Writer};
use super::{Next, STORY, State, changes, list, next};
use crate::colors::Look;
use crate::explain::heading;
use crate::heads::{Selected, Surveyed};
use crate::style::{self, panel};
use crate::work::{Background, Held, Latest};
use crate::{Command, Host, side};

/// From this width on, the next tokens have a panel of their own at the right.
const WIDE: f32 = 1080.0;
/// The width of that panel: the least, the share of a wide window, and the most.
const NEXT: [f32; 3] = [320.0, 0.17, 600.0];
const MODEL: &str = "\
    A model that reads your text or your image: story, which comes with the program, or one of your own. Open a folder of Hugging Face \
    (config.json, model.safetensors, tokenizer.json), a .gguf file, or a name in the local Hugging Face cache such as \
    openai-community/gpt2. You can also drop a folder or a .gguf file onto the window.\n\
    A model with an encoder and a decoder (t5) reads two texts. A model of images (vit) reads a PNG or JPEG file.";

/// The view of a [`State`].
pub struct ModelRoom {
    pub(super) background: Arc<Background>,
    pub(super) opening: Option<Opening>,
    pub(super) opened: Option<Arc<Held<Opened>>>,
    /// The model that could not be opened, and the reason.
    pub(super) failed: Option<(String, String)>,
    /// What came of the latest request.
    pub(super) latest: LatestRun,
    /// What is shown: one run, or the runs A and B and their difference.
    pub(super) panes: [Pane; 3],
    pub(super) model_b: ModelB,
    pub(super) overlay: Overlay,
    pub(super) writer: Writer,
    /// Why a token that was dropped makes no patch.
    pub(super) dropped: Option<String>,
    /// Why the run is not the one that the session has.
    pub(super) differs: Option<&'static str>,
    pub(super) cached: CachedModels,
    pub(super) sweep: Latest<Sweep, sweep::Effects>,
    pub(super) lens: Latest<Predict, Predictions>,
    pub(super) attributed: Latest<Attribute, Parts>,
    pub(super) patches: Latest<PatchEach, patches::Effects>,
    pub(super) unfolded: Latest<Unfold, Score>,
}

impl ModelRoom {
    /// Nothing has been opened yet.
    pub(crate) fn new(host: Arc<dyn Host>) -> Self {
        Self {
            background: Background::new(host),
            opening: None,
            opened: None,
            failed: None,
            latest: LatestRun::default(),
            panes: Default::default(),
            model_b: ModelB::default(),
            overlay: Overlay::default(),
            writer: Writer::default(),
            dropped: None,
            differs: None,
            cached: CachedModels::default(),
            sweep: Latest::default(),
            lens: Latest::default(),
            attributed: Latest::default(),
            patches: Latest::default(),
            unfolded: Latest::default(),
        }
    }

    /// Begins to open a model, alone. The view stays until it is read.
    pub(crate) fn open(&mut self, ctx: &Context, state: &mut State, name: String) {
        self.failed = None;
        state.stop_comparing();
        self.opening = Some(Opening::start(&self.background, ctx, name, true));
    }

    /// Begins to open model B.
    pub(crate) fn compare_with(&mut self, state: &mut State, name: String) {
        self.model_b.forget_failure();
        state.compare_with(name);
    }

    /// Whether the model that is open reads images.
    pub(crate) fn reads_images(&self, state: &State) -> bool {
        let opened = self.here(state);
        opened.is_some_and(|opened| Reads::of(&opened.description) == Reads::Image)
    }

    /// Whether a thread is at work.
    pub(crate) fn is_busy(&self) -> bool {
        self.opening.is_some()
            || self.latest.is_busy()
            || self.writer.is_on()
            || self.cached.is_busy()
            || self.model_b.is_busy()
            || self.panes.iter().any(|pane| pane.large.is_busy())
            || self.sweep.is_busy()
            || self.lens.is_busy()
            || self.attributed.is_busy()
            || self.patches.is_busy()
            || self.unfolded.is_busy()
    }

    /// The latest run.
    pub fn outcome(&self) -> Option<&Outcome> {
        outcome(&self.latest)
    }

    /// The likeliest next tokens of the latest run.
    pub(crate) fn next(&self) -> &[Next] {
        self.outcome().map_or(&[], |outcome| &outcome.list)
    }

    /// The head that is shown large, if there is one.
    pub(crate) fn selected(&self) -> Option<&Selected> {
        self.panes[0].large.selected()
    }

    /// Why a model could not be opened, or a text not be run.
    pub fn error(&self) -> Option<&str> {
        let failed = self.failed.as_ref().map(|(_, message)| message.as_str());
        let second = || self.outcome().and_then(Outcome::second_refusal);
        failed.or_else(|| self.latest.error()).or_else(|| self.model_b.error()).or_else(second)
    }

    /// The matrix that is shown, to export it.
    pub(crate) fn matrix(&self, look: Look) -> Option<Matrix> {
        self.panes[0].large.matrix(look)
    }

    /// The model that the state names, if it has been opened.
    pub(super) fn here(&self, state: &State) -> Option<Arc<Held<Opened>>> {
        self.opened.clone().filter(|opened| opened.name == state.model)
    }

    /// Draws the room and handles the user's input. Returns the command whose button was pressed.
    pub(crate) fn ui(
        &mut self,
        ui: &mut Ui,
        state: &mut State,
        look: Look,
        side: bool,
    ) -> Option<Command> {
        self.exchange(ui.ctx(), state);
        style::readout(ui).show(ui, |ui| match state.view {
            View::Attention => self.panes[0].large.readout(ui, &state.heads),
            view => {
                ui.take_available_space();
                ui.add(Label::new(RichText::new(view.hint()).weak()).truncate());
            }
        });
        let is_wide = ui.available_width() >= WIDE;
        let asked = if side {
            side::show(ui, "model", |ui| {
                let asked = self.model(ui, state);
                if !is_wide {
                    ui.separator();
                    self.next_tokens(ui, state);
                }
                self.changes(ui, state);
                if !is_wide && self.outcome().is_some() {
                    self.show_arithmetic(ui);
                    ui.separator();
                    self.effects_of_heads(ui, state, look);
                }
                asked
            })
        } else {
            None
        };
        if is_wide {
            let [least, share, most] = NEXT;
            let width = (share * ui.available_width()).clamp(least, most);
            let right = Panel::right("next").resizable(false).exact_size(width);
            right.frame(panel(ui, 16, 12)).show(ui, |ui| {
                ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                    self.next_tokens(ui, state);
                    if self.outcome().is_some() {
                        ui.separator();
                        self.effects_of_heads(ui, state, look);
                        self.show_arithmetic(ui);
                    }
                });
            });
        }
        let central = CentralPanel::default().frame(panel(ui, 0, 0)).show(ui, |ui| {
            let frame = Frame::new().inner_margin(Margin::same(12));
            frame.show(ui, |ui| self.central(ui, state, look)).inner
        });
        match (asked, central.inner) {
            (Some(Asked::Open(name)), _) => self.open(ui.ctx(), state, name),
            (_, Some(Asked::Open(name))) => self.compare_with(state, name),
            (Some(Asked::Command(command)), _) | (_, Some(Asked::Command(command))) => {
                return Some(command);
            }
            (None, None) => {}
        }
        None
    }

    /// The attention that is shown.
    pub(super) fn heads(&self, state: &State) -> Option<&Arc<Surveyed>> {
        self.outcome().map(|outcome| outcome.version(state.version, state.attention))
    }

    /// Shows the effect of each head on the likeliest token.
    fn effects_of_heads(&mut self, ui: &mut Ui, state: &mut State, look: Look) {
        if let (Some(opened), Some(outcome)) = (&self.opened, outcome(&self.latest)) {
            sweep::show(ui, &mut self.sweep, opened, &outcome.list, state, look);
        }
    }

    /// Shows the arithmetic of the chosen weight.
    pub(crate) fn show_arithmetic(&self, ui: &mut Ui) {
        let (Some(of), Some(score)) = (self.unfolded.key(), self.unfolded.value()) else { return };
        let runs = self.outcome().map(Outcome::runs).unwrap_or_default();
        if let Some(run) = runs.iter().flatten().find(|run| self.background.id(run) == of.run) {
            unfold::show(ui, of, score, run);
        }
    }

    /// Shows what the model is.
    fn model(&mut self, ui: &mut Ui, state: &State) -> Option<Asked> {
        let mut asked = None;
        heading(ui, "Model", MODEL);
        if let Some(opened) = self.here(state) {
            let description = &opened.description;
            ui.add(Label::new(RichText::new(short(&opened.name)).strong()).truncate())
                .on_hover_text(&opened.name);
            let (family, stack) = (&description.family, &description.stack);
            let megabytes = opened.bytes as f64 / 1e6;
            let layers = match &description.encoder {
                Some(encoder) => format!("{} + {}", encoder.layers(), stack.layers()),
                None => stack.layers().to_string(),
            };
            let reads = match description.embedding.patches {
                Some(patches) => format!("images of {} × {}", patches.height, patches.width),
                None => format!("{} tokens", description.vocabulary),
            };
            let heads = stack.block.heads;
            let text =
                format!("{family}, {layers} layers of {heads} heads, {reads}, {megabytes:.1} MB");
            ui.add(Label::new(RichText::new(text).weak()).wrap());
        }
        ui.horizontal_wrapped(|ui| {
            let open = Command::OpenModel;
            if ui.button(open.name()).on_hover_text(open.tooltip()).clicked() {
                asked = Some(Asked::Command(open));
            }
            let hint = "Open the model that comes with the program.";
            if state.model != STORY && ui.button("Open story").on_hover_text(hint).clicked() {
                asked = Some(Asked::Open(STORY.to_owned()));
            }
            if let Some(name) = self.cached.show(ui, &self.background.host) {
                asked = Some(Asked::Open(name));
            }
        });
        asked
    }

    /// What the model predicts.
    fn predicts(&self) -> Predicts {
        self.opened.as_ref().map_or(Predicts::Next, |opened| Predicts::of(&opened.description))
    }

    /// Shows the next tokens. A click on one appends it to the text.
    fn next_tokens(&self, ui: &mut Ui, state: &mut State) {
        let predicts = self.predicts();
        // What is no next token is not appended: a class, or the word in a gap.
        let appends = predicts == Predicts::Next;
        let (outcome, list) = (self.outcome(), self.next());
        let clicked = next::show(ui, outcome, list, state.version, predicts, appends);
        let next = clicked.and_then(|place| list.get(place));
        if let (Some(next), Some(outcome)) = (next, outcome) {
            // The tokens of the list are the tokenizer's own.
            let _known = write::append(state, outcome, next);
        }
    }

    /// Shows the controls that change the model.
    fn changes(&self, ui: &mut Ui, state: &mut State) {
        let Some(outcome) = self.outcome() else { return };
        ui.separator();
        changes::of_head(ui, state, outcome.heads(state.attention));
        ui.separator();
        let tokens: Vec<String> = outcome.tokens().iter().map(|token| token.text.clone()).collect();
        list::show(ui, state, &tokens, &outcome.words);
    }
}

/// What came of the latest request.
pub(super) fn outcome(latest: &LatestRun) -> Option<&Outcome> {
    latest.value().map(|outcome| &****outcome)
}

/// What the tests read.
#[cfg(test)]
impl ModelRoom {
    /// The change of the likeliest token's logit by each head, layer by layer, if each is ablated in turn.
    pub(crate) fn effects(&self) -> Option<&[f32]> {
        self.sweep.value().map(|effects| &effects.map.numbers[..])
    }

    /// What each part of the model adds to the chosen logit, if that is shown.
    pub(crate) fn attribution(&self) -> Option<&regard_models::Attribution> {
        self.attributed.value().map(|parts| &parts.attribution)
    }

    /// The change of the likeliest tokens' logits by each patch from the second text, layer by layer, if that is shown.
    pub(crate) fn patches(&self) -> Option<&[f32]> {
        self.patches.value().map(|effects| &effects.map.numbers[..])
    }

    /// The matrices that are shown: that of one run, or those of A, of B and of A − B.
    pub(crate) fn side_by_side(&self) -> [Option<&Selected>; 3] {
        self.panes.each_ref().map(|pane| pane.large.selected())
    }

    /// The likeliest token after each layer and position, if the logit lens is shown: the embedding, then the layers.
    pub(crate) fn lens(&self) -> Option<&[Vec<(String, f32)>]> {
        self.lens.value().map(|predictions| &predictions.rows[..])
    }

    /// The chosen weight step by step.
    pub(crate) fn score(&self) -> Option<&Score> {
        self.unfolded.value()
    }
}
