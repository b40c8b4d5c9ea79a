//! The room: its panels and their contents.

mod parts;

use std::sync::Arc;

use egui::{CentralPanel, Context, Frame, Label, Margin, Panel, RichText, ScrollArea, Ui};
use regard_figure::Matrix;
use regard_models::{Attribution, Score, Which};

use super::attribution::Attributed;
use super::cached::CachedModels;
use super::compare::{Asked, ModelB};
use super::input::Reads;
use super::lens::Lens;
use super::next::Predicts;
use super::open::{Opened, Opening};
use super::overlay::Overlay;
use super::pane::Pane;
use super::patches::Patches;
use super::run::{Outcome, Ran, Request, Run, Runs, short};
use super::state::View;
use super::sweep::{self, Swept};
use super::unfold::{Unfold, Unfolded};
use super::write::{self, Writer};
use super::{Next, Record, STORY, State, Version, changes, list, next, note};
use crate::colors::Look;
use crate::desk::Place;
use crate::explain::heading;
use crate::heads::{Selected, Shown, Surveyed};
use crate::style::{self, panel};
use crate::task::{PATIENCE, Task};
use crate::{Command, Desk, Host, side};

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
    pub(super) desk: Arc<Desk>,
    pub(super) opening: Option<Opening>,
    pub(super) opened: Option<Arc<Opened>>,
    /// The model that could not be opened, and the reason.
    pub(super) failed: Option<(String, String)>,
    pub(super) running: Option<Running>,
    pub(super) outcome: Option<Outcome>,
    /// What could not be run, and the reason.
    pub(super) refused: Option<(Request, String)>,
    /// The next tokens of the outcome.
    pub(super) next: Vec<Next>,
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
    pub(super) sweep: Swept,
    pub(super) lens: Lens,
    pub(super) attributed: Attributed,
    pub(super) patches: Patches,
    unfolded: Unfolded,
}

/// A run that has been asked for.
pub(super) struct Running {
    request: Request,
    /// The runs that the answer leaves out.
    known: Runs,
    place: Place,
    pub(super) task: Task<Ran>,
}

impl ModelRoom {
    /// Nothing has been opened yet.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self {
            desk: Desk::new(host),
            opening: None,
            opened: None,
            failed: None,
            running: None,
            outcome: None,
            refused: None,
            next: Vec::new(),
            panes: Default::default(),
            model_b: ModelB::default(),
            overlay: Overlay::default(),
            writer: Writer::default(),
            dropped: None,
            differs: None,
            cached: CachedModels::default(),
            sweep: Swept::default(),
            lens: Lens::default(),
            attributed: Attributed::default(),
            patches: Patches::default(),
            unfolded: Unfolded::default(),
        }
    }

    /// Begins to open a model, alone. The view stays until it is read.
    pub fn open(&mut self, ctx: &Context, state: &mut State, name: String) {
        self.failed = None;
        state.stop_comparing();
        self.opening = Some(Opening::start(&self.desk, ctx, name, true));
    }

    /// Begins to open model B.
    pub fn compare_with(&mut self, state: &mut State, name: String) {
        self.model_b.forget_failure();
        state.compare_with(name);
    }

    /// Whether the model that is open reads images.
    pub fn reads_images(&self, state: &State) -> bool {
        let opened = self.here(state);
        opened.is_some_and(|opened| Reads::of(&opened.description) == Reads::Image)
    }

    /// Whether a thread is at work.
    pub fn is_busy(&self) -> bool {
        self.opening.is_some()
            || self.running.is_some()
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
        self.outcome.as_ref()
    }

    /// The likeliest next tokens of the latest run.
    pub fn next(&self) -> &[Next] {
        &self.next
    }

    /// The head that is shown large, if there is one.
    pub fn selected(&self) -> Option<&Selected> {
        self.panes[0].large.selected()
    }

    /// Why a model could not be opened, or a text not be run.
    pub fn error(&self) -> Option<&str> {
        let failed = self.failed.as_ref().map(|(_, message)| message.as_str());
        let refused = self.refused.as_ref().map(|(_, message)| message.as_str());
        let second = || self.outcome.as_ref().and_then(Outcome::second_refusal);
        failed.or(refused).or_else(|| self.model_b.error()).or_else(second)
    }

    /// The change of the likeliest token's logit by each head, layer by layer, if each is ablated in turn.
    pub fn effects(&self) -> Option<&[f32]> {
        self.sweep.effects()
    }

    /// What each part of the model adds to the chosen logit, if that is shown.
    pub fn attribution(&self) -> Option<&Attribution> {
        self.attributed.parts()
    }

    /// The change of the likeliest tokens' logits by each patch from the second text, layer by layer, if that is shown.
    pub fn patches(&self) -> Option<&[f32]> {
        self.patches.effects()
    }

    /// The matrices that are shown: that of one run, or those of A, of B and of A − B.
    pub fn side_by_side(&self) -> [Option<&Selected>; 3] {
        self.panes.each_ref().map(|pane| pane.large.selected())
    }

    /// The likeliest token after each layer and position, if the logit lens is shown: the embedding, then the layers.
    pub fn lens(&self) -> Option<&[Vec<(String, f32)>]> {
        self.lens.rows()
    }

    /// The chosen weight step by step.
    pub fn score(&self) -> Option<&Score> {
        self.unfolded.score()
    }

    /// The matrix that is shown, to export it.
    pub fn matrix(&self, look: Look) -> Option<Matrix> {
        self.panes[0].large.matrix(look)
    }

    /// The model that the state names, if it has been opened.
    pub(super) fn here(&self, state: &State) -> Option<Arc<Opened>> {
        self.opened.clone().filter(|opened| opened.name == state.model)
    }

    /// Draws the room and handles the user's input. Returns the command whose button was pressed.
    pub fn ui(
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
                if !is_wide && self.outcome.is_some() {
                    self.unfolded.show(ui);
                    ui.separator();
                    if let Some(opened) = &self.opened {
                        self.sweep.show(ui, opened, &self.next, state, look);
                    }
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
                    if self.outcome.is_some() {
                        ui.separator();
                        if let Some(opened) = &self.opened {
                            self.sweep.show(ui, opened, &self.next, state, look);
                        }
                        self.unfolded.show(ui);
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

    /// Takes the results of the threads and starts what is missing.
    fn exchange(&mut self, ctx: &Context, state: &mut State) {
        self.cached.exchange();
        if let Some(done) = self.opening.as_mut().and_then(Opening::take)
            && let Some(opening) = self.opening.take()
        {
            self.read(done, opening, state);
        }
        if let Some(opened) = self.here(state) {
            self.model_b.follow(&self.desk, ctx, state);
            self.run(ctx, &opened, state);
            let latest = Request::of(state, self.name_of_b(state));
            self.writer.exchange(state, &latest, self.outcome.as_ref(), &opened.description);
        } else {
            (self.outcome, self.running, self.refused) = (None, None, None);
            let has_failed = self.failed.as_ref().is_some_and(|(name, _)| *name == state.model);
            if !has_failed && self.opening.is_none() {
                let name = state.model.clone();
                self.opening = Some(Opening::start(&self.desk, ctx, name, false));
            }
        }
        if let (Some(opened), Some(_)) = (self.here(state), &self.outcome) {
            let attentions = opened.description.attentions();
            if !attentions.iter().any(|(which, _)| *which == state.attention) {
                state.attention =
                    attentions.first().map_or_else(Which::default, |(which, _)| *which);
            }
            if Reads::of(&opened.description) != Reads::Text {
                state.view = View::Attention;
            }
        }
        let heads = self.heads(state).cloned();
        if let Some(heads) = &heads {
            state.heads.limit(heads.maps.shape(), heads.maps.is_self_attention());
        }
        let pair = self.outcome.as_ref().and_then(|outcome| outcome.pair(state.attention));
        let pair = pair.filter(|_| state.version == Version::SideBySide);
        let [b, difference] = match pair {
            Some(pair) => {
                let difference = pair.difference.ok().map(|difference| &difference.heads);
                [Some(pair.heads[1]), difference.map(|heads| &**heads)]
                    .map(Option::<&Arc<Surveyed>>::cloned)
            }
            None => [None, None],
        };
        for (pane, heads) in self.panes.iter_mut().zip([&heads, &b, &difference]) {
            if let Err(message) = pane.exchange(&self.desk, ctx, heads.as_ref(), state.heads.part())
            {
                self.failed = Some((state.model.clone(), message));
                state.heads.shown = Shown::Grid;
                break;
            }
        }
        let outcome = self.opened.as_ref().zip(self.outcome.as_ref());
        // A text that is being typed is run first.
        let sweeps = |opened: &Opened| sweep::is_on(state, opened) && !self.writer.is_on();
        let asked = outcome.filter(|(opened, _)| sweeps(opened));
        let asked = asked.map(|(opened, outcome)| (opened, &outcome.unchanged));
        if asked.is_none() || self.running.is_none() {
            self.sweep.exchange(&self.desk, ctx, asked);
        }
        let asked = outcome.filter(|_| state.view == View::Lens);
        let asked = asked.map(|(opened, outcome)| (opened, &outcome.request, &outcome.unchanged));
        self.lens.exchange(&self.desk, ctx, asked);
        let asked = outcome.filter(|_| state.view == View::Attribution);
        self.attributed.exchange(&self.desk, ctx, asked, state.attributed);
        let asked = outcome.filter(|_| state.view == View::Patches);
        self.patches.exchange(&self.desk, ctx, asked);
        let of = self.outcome.as_ref().zip(state.heads.chosen);
        let of = of.filter(|(outcome, _)| {
            state.heads.shown == Shown::Head
                && state.view == View::Attention
                && outcome.refusal().is_none()
        });
        let is_of_b = state.version == Version::Second;
        let model = self.model_b.here(state).filter(|_| is_of_b).or(self.opened.as_ref());
        let asked = of.zip(model).map(|((outcome, cell), model)| {
            let second = outcome.second().filter(|_| state.version == Version::Second);
            let run = second.map_or(&outcome.unchanged, |second| &second.run);
            let is_changed = !matches!(state.version, Version::Unchanged | Version::Second);
            let changes = if is_changed { outcome.request.changes.clone() } else { Vec::new() };
            let head = state.address(state.heads.id());
            (Unfold { model: model.place(), run: run.id, changes, head, cell }, run)
        });
        self.unfolded.exchange(&self.desk, ctx, asked);
        if self.is_busy() {
            ctx.request_repaint_after(PATIENCE / 2);
        }
    }

    /// Takes a model that was opened, or the reason why it was not.
    fn read(&mut self, done: Result<Arc<Opened>, String>, opening: Opening, state: &mut State) {
        match done {
            Ok(opened) => {
                if opening.anew {
                    // The text and the image stay: the next model can read them too.
                    let text = core::mem::take(&mut state.text);
                    let second_model = state.second_model.take();
                    let version = match second_model {
                        Some(_) => Version::SideBySide,
                        None => Version::default(),
                    };
                    let image = state.image.take();
                    *state = State {
                        text,
                        version,
                        second_model,
                        image,
                        ..State::of(opened.name.clone())
                    };
                }
                self.failed.take_if(|(failed, _)| opening.anew || *failed == opened.name);
                self.opened = Some(opened);
                (self.outcome, self.running, self.refused) = (None, None, None);
            }
            Err(message) => self.failed = Some((opening.name, message)),
        }
    }

    /// Takes a run that has ended, and starts the next if the text or the changes are others by now.
    fn run(&mut self, ctx: &Context, opened: &Arc<Opened>, state: &mut State) {
        if let Some(done) = self.running.as_ref().and_then(|running| running.task.take())
            && let Some(Running { request, known, place, .. }) = self.running.take()
        {
            let done = done.and_then(|ran| {
                let outcome = Outcome::received(ran, known, place);
                outcome.ok_or_else(|| "a run is missing from the answer".to_owned())
            });
            match done {
                Ok(outcome) => {
                    self.next.clone_from(&outcome.list);
                    let model_b = self.model_b.here(state);
                    // Until model B is open, the session's run is not there to be compared with.
                    if outcome.request == Request::of(state, self.name_of_b(state))
                        && !self.model_b.is_busy()
                    {
                        let record = Record::of(opened, model_b.map(|b| &**b), &outcome);
                        self.differs =
                            state.record.as_ref().and_then(|old| old.difference(&record));
                        if self.differs.is_none() {
                            state.record = Some(record);
                        }
                    }
                    (self.outcome, self.refused) = (Some(outcome), None);
                }
                Err(message) => (self.outcome, self.refused) = (None, Some((request, message))),
            }
        }
        let latest = self.outcome.as_ref().map(|outcome| &outcome.request);
        let latest = latest.or_else(|| self.refused.as_ref().map(|(request, _)| request));
        // A run that has begun is not interrupted; the one after it has the latest text.
        let request = Request::of(state, self.name_of_b(state));
        if self.running.is_none() && latest != Some(&request) {
            let known = self.outcome.as_ref().map(Outcome::runs).unwrap_or_default();
            let place = self.desk.place();
            let question = Run {
                place: place.id(),
                model: opened.place(),
                model_b: self.model_b.here(state).map(|opened| opened.place()),
                request: request.clone(),
                named: state.changes.iter().filter_map(|c| note::patched(&c.change)).collect(),
                before: self.outcome.as_ref().and_then(Outcome::place),
            };
            let task = self.desk.ask(ctx, question);
            self.writer.forget();
            self.running = Some(Running { request, known, place, task });
        }
    }

    /// The name of model B, if it is open.
    fn name_of_b(&self, state: &State) -> Option<&str> {
        self.model_b.here(state).map(|opened| opened.name.as_str())
    }

    /// The attention that is shown.
    pub(super) fn heads(&self, state: &State) -> Option<&Arc<Surveyed>> {
        self.outcome.as_ref().map(|outcome| outcome.version(state.version, state.attention))
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
            if let Some(name) = self.cached.show(ui, &self.desk.host) {
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
        let (outcome, list) = (self.outcome.as_ref(), &self.next);
        let clicked = next::show(ui, outcome, list, state.version, predicts, appends);
        let next = clicked.and_then(|place| self.next.get(place));
        if let (Some(next), Some(outcome)) = (next, outcome) {
            // The tokens of the list are the tokenizer's own.
            let _known = write::append(state, outcome, next);
        }
    }

    /// Shows the controls that change the model.
    fn changes(&self, ui: &mut Ui, state: &mut State) {
        let Some(outcome) = &self.outcome else { return };
        ui.separator();
        changes::of_head(ui, state, outcome.heads(state.attention));
        ui.separator();
        let tokens: Vec<String> = outcome.tokens().iter().map(|token| token.text.clone()).collect();
        list::show(ui, state, &tokens, &outcome.words);
    }
}
