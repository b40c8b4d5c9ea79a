//! The room: its panels and their contents.

mod parts;

use std::sync::Arc;

use egui::{CentralPanel, Context, Frame, Label, Margin, Panel, RichText, ScrollArea, Ui};
use regard_figure::Matrix;
use regard_models::{Attribution, Score};

use super::attribution::Attributed;
use super::cached::CachedModels;
use super::latest::Same;
use super::lens::Lens;
use super::open::{Opened, Opening};
use super::patches::Patches;
use super::run::{Outcome, Request};
use super::state::View;
use super::sweep::{SMALL, Sweep};
use super::unfold::{self, Unfolded};
use super::write::{self, Writer};
use super::{Next, Record, STORY, State, Version, changes, list, next};
use crate::colors::Look;
use crate::explain::heading;
use crate::heads::{Large, Selected, Shown, Surveyed, Thumbnails};
use crate::style::{self, panel};
use crate::task::{PATIENCE, Task};
use crate::{Command, Host, side};

/// From this width on, the next tokens have a panel of their own at the right.
const WIDE: f32 = 1080.0;
const MODEL: &str = "\
    A model that reads your text: story, which comes with the program, or one of your own. Open a folder of Hugging Face (config.json, \
    model.safetensors, tokenizer.json), a .gguf file, or a name in the local Hugging Face cache such as openai-community/gpt2. You can \
    also drop a folder or a .gguf file onto the window.";

/// The view of a [`State`].
pub struct ModelRoom {
    pub(super) host: Arc<dyn Host>,
    pub(super) opening: Option<Opening>,
    pub(super) opened: Option<Arc<Opened>>,
    /// The model that could not be opened, and the reason.
    pub(super) failed: Option<(String, String)>,
    pub(super) running: Option<(Request, Task<Outcome>)>,
    pub(super) outcome: Option<Outcome>,
    /// What could not be run, and the reason.
    pub(super) refused: Option<(Request, String)>,
    /// The next tokens of the outcome.
    pub(super) next: Vec<Next>,
    pub(super) grid: Thumbnails,
    /// The attention that the grid shows.
    pub(super) in_grid: Option<Arc<Surveyed>>,
    pub(super) large: Large,
    /// The same head in the run of the second text.
    pub(super) second: Large,
    pub(super) writer: Writer,
    /// Why a token that was dropped makes no patch.
    pub(super) dropped: Option<String>,
    /// Why the run is not the one that the session has.
    pub(super) differs: Option<&'static str>,
    cached: CachedModels,
    pub(super) sweep: Sweep,
    pub(super) lens: Lens,
    pub(super) attributed: Attributed,
    pub(super) patches: Patches,
    unfolded: Unfolded,
}

/// A request of the panel at the left.
enum Asked {
    Command(Command),
    Open(String),
}

impl ModelRoom {
    /// Nothing has been opened yet.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self {
            host,
            opening: None,
            opened: None,
            failed: None,
            running: None,
            outcome: None,
            refused: None,
            next: Vec::new(),
            grid: Thumbnails::by_layer(),
            in_grid: None,
            large: Large::default(),
            second: Large::default(),
            writer: Writer::default(),
            dropped: None,
            differs: None,
            cached: CachedModels::default(),
            sweep: Sweep::default(),
            lens: Lens::default(),
            attributed: Attributed::default(),
            patches: Patches::default(),
            unfolded: Unfolded::default(),
        }
    }

    /// Begins to open a model. The view stays until it is read.
    pub fn open(&mut self, ctx: &Context, name: String) {
        self.failed = None;
        self.opening = Some(Opening::start(&self.host, ctx, name, true));
    }

    /// Whether a thread is at work.
    pub fn is_busy(&self) -> bool {
        self.opening.is_some()
            || self.running.is_some()
            || self.writer.is_on()
            || self.cached.is_busy()
            || self.large.is_busy()
            || self.second.is_busy()
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
        self.large.selected()
    }

    /// Why the last model could not be opened, or the text not be run.
    pub fn error(&self) -> Option<&str> {
        let failed = self.failed.as_ref().map(|(_, message)| message.as_str());
        failed.or_else(|| self.refused.as_ref().map(|(_, message)| message.as_str()))
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

    /// The chosen head in the run of the second text, if it is shown beside the first.
    pub fn second(&self) -> Option<&Selected> {
        self.second.selected()
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
        self.large.matrix(look)
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
            View::Attention => self.large.readout(ui, &state.heads),
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
                    self.sweep.show(ui, &self.next, state, look);
                }
                asked
            })
        } else {
            None
        };
        if is_wide {
            let right = Panel::right("next").resizable(false).exact_size(320.0);
            right.frame(panel(ui, 16, 12)).show(ui, |ui| {
                ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                    self.next_tokens(ui, state);
                    if self.outcome.is_some() {
                        ui.separator();
                        self.sweep.show(ui, &self.next, state, look);
                        self.unfolded.show(ui);
                    }
                });
            });
        }
        CentralPanel::default().frame(panel(ui, 0, 0)).show(ui, |ui| {
            Frame::new()
                .inner_margin(Margin::same(12))
                .show(ui, |ui| self.central(ui, state, look));
        });
        match asked {
            Some(Asked::Command(command)) => Some(command),
            Some(Asked::Open(name)) => {
                self.open(ui.ctx(), name);
                None
            }
            None => None,
        }
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
            self.run(ctx, &opened, state);
            self.writer.exchange(state, self.outcome.as_ref(), &opened.model);
        } else {
            (self.outcome, self.running, self.refused) = (None, None, None);
            let has_failed = self.failed.as_ref().is_some_and(|(name, _)| *name == state.model);
            if !has_failed && self.opening.is_none() {
                let name = state.model.clone();
                self.opening = Some(Opening::start(&self.host, ctx, name, false));
            }
        }
        let heads = self.heads(state).cloned();
        if let Some(heads) = &heads {
            state.heads.limit(heads.maps.shape(), heads.maps.is_self_attention());
        }
        let asked = heads.as_ref().zip(state.heads.part());
        if let Err(message) = self.large.exchange(&*self.host, ctx, asked) {
            self.failed = Some((state.model.clone(), message));
            state.heads.shown = Shown::Grid;
        }
        let second = self.outcome.as_ref().and_then(Outcome::second).filter(|_| {
            // Beside itself, the second text would be there twice.
            state.view == View::Attention && state.version != Version::Second
        });
        let asked = second.map(|second| &second.run.heads).zip(state.heads.part());
        if self.second.exchange(&*self.host, ctx, asked).is_err() {
            self.second.clear(); // the first text shows the same message
        }
        let outcome = self.opened.as_ref().zip(self.outcome.as_ref());
        // A text that is being typed is run first.
        let asked = outcome.filter(|_| state.sweep && !self.writer.is_on());
        let asked = asked.map(|(opened, outcome)| (opened, &outcome.unchanged));
        if asked.is_none() || self.running.is_none() {
            self.sweep.exchange(&*self.host, ctx, asked);
        }
        let asked = outcome.filter(|_| state.view == View::Lens);
        let asked = asked.map(|(opened, outcome)| (opened, &outcome.request, &outcome.unchanged));
        self.lens.exchange(&*self.host, ctx, asked);
        let asked = outcome.filter(|_| state.view == View::Attribution);
        self.attributed.exchange(&*self.host, ctx, asked, state.attributed);
        let asked = outcome.filter(|_| state.view == View::Patches);
        self.patches.exchange(&*self.host, ctx, asked);
        let of = self.outcome.as_ref().zip(state.heads.chosen);
        let of = of.filter(|(outcome, _)| {
            state.heads.shown == Shown::Head
                && state.view == View::Attention
                && outcome.refusal().is_none()
        });
        let asked = of.map(|(outcome, cell)| {
            let second = outcome.second().filter(|_| state.version == Version::Second);
            let run = second.map_or(&outcome.unchanged, |second| &second.run);
            let run = Same(Arc::clone(run));
            let is_changed = !matches!(state.version, Version::Unchanged | Version::Second);
            let changes = if is_changed { outcome.request.changes.clone() } else { Vec::new() };
            unfold::Of { run, changes, head: state.heads.id(), cell }
        });
        self.unfolded.exchange(&*self.host, ctx, self.opened.as_ref(), asked);
        if self.is_busy() {
            ctx.request_repaint_after(PATIENCE / 2);
        }
    }

    /// Takes a model that was opened, or the reason why it was not.
    fn read(&mut self, done: Result<Arc<Opened>, String>, opening: Opening, state: &mut State) {
        match done {
            Ok(opened) => {
                if opening.anew {
                    // The text stays: the next model can read it too.
                    let text = core::mem::take(&mut state.text);
                    let sweep = opened.bytes <= SMALL;
                    *state = State { text, sweep, ..State::of(opened.name.clone()) };
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
        if let Some(done) = self.running.as_ref().and_then(|(_, task)| task.take())
            && let Some((request, _)) = self.running.take()
        {
            match done {
                Ok(outcome) => {
                    self.next = Next::likeliest(&outcome, opened.model.tokenizer());
                    let record = Record::of(opened, &outcome);
                    self.differs = state.record.as_ref().and_then(|old| old.difference(&record));
                    if self.differs.is_none() {
                        state.record = Some(record);
                    }
                    (self.outcome, self.refused) = (Some(outcome), None);
                }
                Err(message) => (self.outcome, self.refused) = (None, Some((request, message))),
            }
        }
        let latest = self.outcome.as_ref().map(|outcome| &outcome.request);
        let latest = latest.or_else(|| self.refused.as_ref().map(|(request, _)| request));
        // A run that has begun is not interrupted; the one after it has the latest text.
        let request = Request::of(state);
        if self.running.is_none() && latest != Some(&request) {
            let (model, asked) = (Arc::clone(opened), request.clone());
            let before = self.outcome.as_ref().map(Outcome::runs).unwrap_or_default();
            let task =
                Task::start(&*self.host, ctx, "run", move |_| Outcome::new(&model, asked, before));
            self.writer.forget();
            self.running = Some((request, task));
        }
    }

    /// The attention that is shown.
    pub(super) fn heads(&self, state: &State) -> Option<&Arc<Surveyed>> {
        self.outcome.as_ref().map(|outcome| outcome.version(state.version))
    }

    /// Shows what the model is.
    fn model(&mut self, ui: &mut Ui, state: &State) -> Option<Asked> {
        let mut asked = None;
        heading(ui, "Model", MODEL);
        if let Some(opened) = self.here(state) {
            let description = opened.model.description();
            let name = std::path::Path::new(&opened.name);
            let name = name.file_name().unwrap_or(name.as_os_str()).to_string_lossy();
            ui.add(Label::new(RichText::new(name).strong()).truncate()).on_hover_text(&opened.name);
            let (family, stack) = (&description.family, &description.stack);
            let megabytes = opened.bytes as f64 / 1e6;
            let text = format!(
                "{family}, {} layers of {} heads, {} tokens, {megabytes:.1} MB",
                stack.layers(),
                stack.block.heads,
                description.vocabulary
            );
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
            if let Some(name) = self.cached.show(ui, &self.host) {
                asked = Some(Asked::Open(name));
            }
        });
        asked
    }

    /// Shows the next tokens. A click on one appends it to the text.
    fn next_tokens(&self, ui: &mut Ui, state: &mut State) {
        let clicked = next::show(ui, self.outcome.as_ref(), &self.next, state.version);
        let next = clicked.and_then(|place| self.next.get(place));
        let run = self.outcome.as_ref().zip(self.opened.as_ref());
        if let (Some(next), Some((outcome, opened))) = (next, run)
            && opened.model.description().stack.causal
        {
            write::choose(state, outcome, next, &opened.model);
        }
    }

    /// Shows the controls that change the model.
    fn changes(&self, ui: &mut Ui, state: &mut State) {
        let Some(outcome) = &self.outcome else { return };
        ui.separator();
        changes::of_head(ui, state, &outcome.unchanged.heads);
        ui.separator();
        let tokenizer = self.opened.as_ref().and_then(|opened| opened.model.tokenizer());
        list::show(ui, state, &outcome.unchanged.heads.labels()[0], tokenizer);
    }
}
