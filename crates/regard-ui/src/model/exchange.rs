//! The room's exchange with the background. A function for each view makes its question.

use std::sync::Arc;

use egui::Context;
use regard_bundled::DIGITS;
use regard_models::{Change, Which};
use sha2::{Digest as _, Sha256};

use super::Reads;
use super::open::{self, OpenedModel};
use super::room::outcome;
use super::{
    Attribute, ModelRoom, ModelState, Outcome, PatchEach, Predict, Record, Request, Route, Run,
    Sweep, Unfold, Version, View, Weigh, experts, note,
};
use crate::heads::{self, AttentionSource, Effect, OpenAttention, Shown, Surveyed};
use crate::work::{Background, Held, Latest, Once, PATIENCE, Shared};

/// The most bytes of a model that computes a weight anew during typing.
const PROMPT: u64 = 64 << 20;

/// The run of the latest request, and the one that is being made.
pub(super) type LatestRun = Latest<Request, Held<Shared<Outcome>>>;

/// Begins to read a file of attention.
pub(super) fn read(
    background: &Arc<Background>,
    ctx: &Context,
    source: &AttentionSource,
) -> Once<Held<heads::OpenedHeads>> {
    background.hold(ctx, |place| OpenAttention { place, source: source.clone() })
}

impl ModelRoom {
    /// Takes the answers that have arrived, and asks the questions that are not answered.
    pub(crate) fn exchange(&mut self, ctx: &Context, state: &mut ModelState) {
        self.cached.exchange();
        self.take_opened(state);
        if let Some(source) = &state.file {
            self.latest = LatestRun::default();
            self.files.follow(source, || read(&self.background, ctx, source));
        } else if let Some(opened) = self.here(state) {
            self.model_b.follow(&self.background, ctx, state);
            self.run(ctx, &opened, state);
            let latest = self.request(state);
            let outcome = outcome(&self.latest);
            self.writer.exchange(state, &latest, outcome, &opened.description);
            if outcome.is_some() {
                limit(state, &opened);
            }
            self.take(state);
        } else if !self.files.is_busy() {
            // A file that the user has asked for takes the place of the session's model, which is then not opened at all.
            self.latest = LatestRun::default();
            let name = &state.model;
            self.models.follow(name, || open::start(&self.background, ctx, name));
        }
        self.weighted.ask(&self.background, ctx, self.values_of(state));
        self.show_heads(ctx, state);
        let asked = self.sweep_of(state);
        // The sweep waits for the run.
        if asked.is_none() || !self.latest.is_busy() {
            self.sweep.ask(&self.background, ctx, asked);
        }
        self.lens.ask(&self.background, ctx, self.lens_of(state));
        self.attributed.ask(&self.background, ctx, self.attribution_of(state));
        self.experts.ask(&self.background, ctx, self.experts_of(state));
        self.patches.ask(&self.background, ctx, self.patches_of(state));
        self.unfolded.ask(&self.background, ctx, self.weight_of(state));
        if self.is_busy() {
            ctx.request_repaint_after(PATIENCE / 2);
        }
    }

    /// Gives a head the output that it has in the second text, once that is read and differs from the first.
    fn take(&mut self, state: &mut ModelState) {
        let Some(outcome) = outcome(&self.latest) else { return };
        let Some((head, second)) = self.taken.zip(outcome.second_text()) else { return };
        let is_even = second.run.tokens.len() == outcome.tokens().len();
        if is_even && outcome.request.text == state.text && second.run.input.ids != outcome.ids() {
            let from = second.run.input.clone();
            state.set_output(head, Some(Change::PatchHead { head, position: None, from }));
            self.taken = None;
        }
    }

    fn take_opened(&mut self, state: &mut ModelState) {
        if let Some((name, is_asked)) = self.models.take() {
            if is_asked {
                // The text and the image stay: the next model can read them too.
                let second_model = state.second_model.take();
                let version = match second_model {
                    Some(_) => Version::SideBySide,
                    None => Version::default(),
                };
                // The text that the model before began with is not the user's own.
                let is_own = state.text != regard_bundled::text(&state.model);
                let own = is_own.then(|| core::mem::take(&mut state.text));
                let begun = ModelState::of(name);
                *state = ModelState {
                    text: own.unwrap_or_else(|| begun.text.clone()),
                    version,
                    second_model,
                    image: state.image.take_if(|_| begun.model != DIGITS),
                    ..begun
                };
            }
            self.latest = LatestRun::default();
        }
        if let Some((source, true)) = self.files.take() {
            state.show_file(source);
        }
    }

    /// Takes a run that has ended, and starts the next if the text or the changes differ.
    fn run(&mut self, ctx: &Context, opened: &Held<OpenedModel>, state: &mut ModelState) {
        let request = self.request(state);
        if self.latest.take(Some(&request)) {
            self.check(opened, &request, state);
        }
        let model_b = self.model_b.here(state);
        let before = self.latest.value().map(Held::place);
        let (background, writer) = (&self.background, &mut self.writer);
        // A run that has begun is finished. The next run reads the latest text.
        self.latest.start(request, |request| {
            writer.forget();
            background.hold(ctx, |place| Run {
                place,
                model: opened.place(),
                model_b: model_b.map(Held::place),
                request: request.clone(),
                named: state.changes.iter().filter_map(|c| note::patched(&c.change)).collect(),
                before,
            })
        });
    }

    /// Compares a run with the record of the session, if that is of the same request.
    fn check(&mut self, opened: &OpenedModel, request: &Request, state: &mut ModelState) {
        // The record includes model B, so it cannot be compared until model B is open.
        let Some(outcome) = outcome(&self.latest)
            .filter(|outcome| outcome.request == *request && !self.model_b.is_busy())
        else {
            return;
        };
        let record = record(opened, self.model_b.here(state).map(|b| &**b), outcome);
        self.differs = state.record.as_ref().and_then(|old| old.difference(&record));
        if self.differs.is_none() {
            state.record = Some(record);
        }
    }

    /// The request of the user's choices. It includes model B once that is open.
    fn request(&self, state: &ModelState) -> Request {
        Request::of(state, self.model_b.here(state).map(|opened| opened.name.as_str()))
    }

    /// Asks for the matrices that are shown.
    fn show_heads(&mut self, ctx: &Context, state: &mut ModelState) {
        let heads = self.heads(state);
        if let Some(heads) = &heads {
            state.heads.limit(heads.maps.shape(), heads.maps.is_self_attention());
        }
        let pair = self.outcome().and_then(|outcome| outcome.pair(state.attention));
        let [b, difference] = match pair.filter(|_| state.version == Version::SideBySide) {
            Some(pair) => {
                let difference = pair.difference.ok().map(|difference| &difference.heads);
                [Some(pair.heads[1]), difference.map(|heads| &**heads)]
                    .map(Option::<&Arc<Surveyed>>::cloned)
            }
            None => [None, None],
        };
        let part = state.heads.part();
        for (pane, heads) in self.panes.iter_mut().zip([&heads, &b, &difference]) {
            if let Err(message) =
                pane.large.exchange(&self.background, ctx, heads.as_ref().zip(part))
            {
                match &state.file {
                    Some(source) => self.files.fail(source.clone(), message),
                    None => self.models.fail(state.model.clone(), message),
                }
                state.heads.shown = Shown::Grid;
                break;
            }
        }
    }

    /// The model, and its latest run, if the middle of the room shows this view.
    fn in_view(&self, state: &ModelState, view: View) -> Option<(&Held<OpenedModel>, &Outcome)> {
        self.run_of(state).filter(|_| state.view == view)
    }

    /// The model, and its latest run.
    fn run_of(&self, state: &ModelState) -> Option<(&Held<OpenedModel>, &Outcome)> {
        let opened = self.models.opened().filter(|_| state.file.is_none());
        opened.map(|opened| &**opened).zip(self.outcome())
    }

    fn sweep_of(&self, state: &ModelState) -> Option<Sweep> {
        let (opened, outcome) = self.run_of(state)?;
        // While the model writes, its runs come first.
        let sweeps = state.heads.needs(Effect::Ablation) && !self.writer.is_on();
        let run = self.background.id(&outcome.unchanged);
        sweeps.then(|| Sweep { model: opened.place(), run })
    }

    fn values_of(&self, state: &ModelState) -> Option<Weigh> {
        let is_shown = state.version == Version::ValueWeighted;
        let (opened, outcome) = self.in_view(state, View::Attention).filter(|_| is_shown)?;
        let attention = state.attention;
        let heads = self.background.id(outcome.version(Version::Changed, attention));
        let run = self.background.id(&outcome.unchanged);
        let changes = outcome.changed().map(|_| outcome.changes.clone());
        let changes = changes.unwrap_or_default();
        Some(Weigh { model: opened.place(), run, heads, changes, attention })
    }

    fn lens_of(&self, state: &ModelState) -> Option<Predict> {
        let (opened, outcome) = self.in_view(state, View::Lens)?;
        let run = self.background.id(&outcome.unchanged);
        Some(Predict { model: opened.place(), run, changes: outcome.changes.clone() })
    }

    fn experts_of(&self, state: &ModelState) -> Option<Route> {
        let (opened, outcome) = self.in_view(state, View::Experts)?;
        opened.description.stack.experts.as_ref()?;
        let run = self.background.id(&outcome.unchanged);
        Some(Route { model: opened.place(), run, changes: outcome.changes.clone() })
    }

    fn attribution_of(&self, state: &ModelState) -> Option<Attribute> {
        let is_needed = state.view == View::Attribution || state.heads.needs(Effect::Attribution);
        let (opened, outcome) = self.run_of(state).filter(|_| is_needed)?;
        let run = self.background.id(&outcome.unchanged);
        let changes = outcome.changes.clone();
        Some(Attribute { model: opened.place(), run, changes, tokens: state.attributed })
    }

    fn patches_of(&self, state: &ModelState) -> Option<PatchEach> {
        let (opened, outcome) = self.in_view(state, View::Patches)?;
        let runs = [&outcome.unchanged, &outcome.second_text()?.run];
        let runs = runs.map(|run| self.background.id(run));
        Some(PatchEach { model: opened.place(), runs })
    }

    fn weight_of(&self, state: &ModelState) -> Option<Unfold> {
        let (opened, outcome) = self.in_view(state, View::Attention)?;
        // A large model unfolds a weight that is clicked, and a small one always the largest of a word.
        let looked = self.looked.filter(|_| opened.bytes <= PROMPT);
        let cell = state.heads.chosen.or(looked)?;
        if state.heads.shown != Shown::Head || outcome.refusal().is_some() {
            return None;
        }
        let is_of_b = state.version == Version::Second;
        let model = self.model_b.here(state).filter(|_| is_of_b).unwrap_or(opened);
        let second = outcome.second().filter(|_| is_of_b);
        let run = second.map_or(&outcome.unchanged, |second| &second.run);
        let is_changed = !matches!(state.version, Version::Unchanged | Version::Second);
        let changes = if is_changed { outcome.changes.clone() } else { Vec::new() };
        let head = state.address(state.heads.id());
        Some(Unfold { model: model.place(), run: self.background.id(run), changes, head, cell })
    }
}

/// Limits the choices to those that a model has.
fn limit(state: &mut ModelState, opened: &OpenedModel) {
    let attentions = opened.description.attentions();
    if !attentions.iter().any(|(which, _)| *which == state.attention) {
        // A model of sound begins with the attention to the recording.
        let hears = Reads::of(&opened.description) == Reads::Recording;
        let first = if hears { attentions.last() } else { attentions.first() };
        state.attention = first.map_or_else(Which::default, |(which, _)| *which);
    }
    if opened.description.stack.experts_of(state.mixture).is_none() {
        state.mixture = experts::layers(&opened.description).next().unwrap_or_default();
    }
    if state.view.lacks(&opened.description).is_some() {
        state.view = View::Attention;
    }
}

fn record(opened: &OpenedModel, model_b: Option<&OpenedModel>, outcome: &Outcome) -> Record {
    let mut asked = Sha256::new();
    // The debug text of a request contains each number exactly.
    asked.update(format!("{} {:?}", opened.name, outcome.request));
    Record {
        asked: regard_session::model::digits(asked),
        model: opened.hash.clone(),
        second_model: model_b.map(|opened| opened.hash.clone()).unwrap_or_default(),
        result: outcome.hash.clone(),
    }
}
