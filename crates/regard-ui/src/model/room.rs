//! The room: its panels and their contents.

use std::sync::Arc;

use egui::{CentralPanel, Context, Frame, Label, Margin, Panel, RichText, ScrollArea, Slider, Ui};
use regard_figure::LabelledMatrix;
use regard_models::{HeadAddress, Score, Which};

use super::Predicts;
use super::Reads;
use super::attribution::LogitParts;
use super::cached::CachedModels;
use super::compare::{ModelB, OpenChoice};
use super::exchange::{self, LatestRun};
use super::experts::ExpertWeights;
use super::lens::Predictions;
use super::open::{self, OpenedModel};
use super::opener::Opener;
use super::overlay::Overlay;
use super::patches::PatchEffects;
use super::sentence::Sentence;
use super::sweep::SweepEffects;
use super::write::Writer;
use super::{
    Attribute, ModelState, Next, Outcome, PatchEach, Predict, Route, Sweep, Unfold, Version, View,
    Weigh, changes, compare, list, next, patch, sweep, unfold, write,
};
use crate::colors::Look;
use crate::explain::{explanation, heading, label};
use crate::heads::{self, AttentionSource, Effects, Large, Surveyed, Thumbnails, order};
use crate::heatmap::Cell;
use crate::style::panel;
use crate::work::{Background, Held, Latest, Shared};
use crate::{Command, Host, counted};
use regard_session::model::short;

/// From this width on, what comes next stands at the right, and else at the bottom.
const WIDE: f32 = 800.0;
/// The width of that panel: the least, the share of a wide window, and the most. At the bottom, its share of the height, and the
/// least height that it leaves to the sentence.
const NEXT: [f32; 3] = [272.0, 0.23, 600.0];
const LOW: f32 = 0.3;
const LEAST: f32 = 200.0;
/// The width of the menu of models, and the most letters of a name in the title bar.
const MENU: f32 = 320.0;
/// The most height of the names in it.
const NAMES: f32 = 160.0;
const MOST_LETTERS: usize = 22;
const SHARPNESS: &str = "How sharply the heads look";
/// A hint for each bundled model.
const HINTS: [&str; 3] = [
    "A model that reads any English.",
    "A model that writes stories, a word a token.",
    "A model that reads a digit, which you draw.",
];

/// The views of one run, or of a difference of two: all its heads as small pictures, a large one, and one over an image.
#[derive(Default)]
pub(super) struct Pane {
    pub(super) grid: Thumbnails,
    pub(super) large: Large,
    pub(super) overlay: Overlay,
}

impl Pane {
    /// Names the run. A single run has an empty name.
    pub(super) fn call(&mut self, name: &str) {
        name.clone_into(&mut self.large.of);
        name.clone_into(&mut self.grid.of);
    }
}

/// The view of a [`ModelState`].
pub struct ModelRoom {
    pub(super) background: Arc<Background>,
    pub(super) models: Opener<String, OpenedModel>,
    pub(super) files: Opener<AttentionSource, heads::OpenedHeads>,
    pub(super) latest: LatestRun,
    /// The runs on the screen: one, or A, B and their difference.
    pub(super) panes: [Pane; 3],
    pub(super) model_b: ModelB,
    pub(super) sentence: Sentence,
    pub(super) writer: Writer,
    /// The reason why a dropped token makes no patch.
    pub(super) dropped: Option<String>,
    /// Whether the arithmetic of a weight stands in the drawer.
    pub(super) unfolds: bool,
    /// The largest weight of the word whose ribbons are shown.
    pub(super) looked: Option<Cell>,
    /// The head whose output is to come from the second text, once that is read.
    pub(super) taken: Option<HeadAddress>,
    /// The difference of the run from the record of the session.
    pub(super) differs: Option<&'static str>,
    pub(super) cached: CachedModels,
    pub(super) sweep: Latest<Sweep, SweepEffects>,
    pub(crate) lens: Latest<Predict, Predictions>,
    pub(crate) attributed: Latest<Attribute, LogitParts>,
    pub(crate) experts: Latest<Route, ExpertWeights>,
    pub(crate) patches: Latest<PatchEach, PatchEffects>,
    pub(crate) unfolded: Latest<Unfold, Score>,
    pub(super) weighted: Latest<Weigh, Shared<Surveyed>>,
}

impl ModelRoom {
    pub(crate) fn new(host: Arc<dyn Host>) -> Self {
        Self {
            background: Background::new(host),
            models: Opener::default(),
            files: Opener::default(),
            latest: LatestRun::default(),
            panes: Default::default(),
            model_b: ModelB::default(),
            sentence: Sentence::default(),
            writer: Writer::default(),
            dropped: None,
            unfolds: false,
            looked: None,
            taken: None,
            differs: None,
            cached: CachedModels::default(),
            sweep: Latest::default(),
            lens: Latest::default(),
            attributed: Latest::default(),
            experts: Latest::default(),
            patches: Latest::default(),
            unfolded: Latest::default(),
            weighted: Latest::default(),
        }
    }

    /// Begins to open a model, alone. The view stays until it is read.
    pub(crate) fn open(&mut self, ctx: &Context, state: &mut ModelState, name: String) {
        state.stop_comparing();
        self.files.cancel();
        let once = open::start(&self.background, ctx, &name);
        self.models.open(name, once);
    }

    /// Begins to open a file of attention. The view stays until it is read.
    pub(crate) fn open_file(&mut self, ctx: &Context, source: AttentionSource) {
        self.models.cancel();
        let once = exchange::read(&self.background, ctx, &source);
        self.files.open(source, once);
    }

    /// Forgets the errors about models and files.
    pub(crate) fn forget_errors(&mut self) {
        self.models.forget_error();
        self.files.forget_error();
    }

    /// Begins to open model B.
    pub(crate) fn compare_with(&mut self, state: &mut ModelState, name: String) {
        // A model that failed may be there now.
        if self.model_b.error().is_some() {
            self.model_b.forget();
        }
        state.compare_with(name);
    }

    /// Whether the model that is open reads the file that a command opens: an image, or a recording.
    pub(crate) fn takes(&self, state: &ModelState, command: Command) -> bool {
        let reads = if command == Command::OpenRecording { Reads::Recording } else { Reads::Image };
        self.here(state).is_some_and(|opened| Reads::of(&opened.description) == reads)
    }

    pub(crate) fn is_busy(&self) -> bool {
        self.models.is_busy()
            || self.files.is_busy()
            || self.latest.is_busy()
            || self.writer.is_on()
            || self.cached.is_busy()
            || self.model_b.is_busy()
            || self.panes.iter().any(|pane| pane.large.is_busy())
            || self.sweep.is_busy()
            || self.lens.is_busy()
            || self.attributed.is_busy()
            || self.experts.is_busy()
            || self.patches.is_busy()
            || self.unfolded.is_busy()
            || self.weighted.is_busy()
    }

    /// The latest run.
    pub fn outcome(&self) -> Option<&Outcome> {
        outcome(&self.latest)
    }

    /// The tokens of the latest run.
    pub(crate) fn tokens(&self) -> Vec<String> {
        let tokens = self.outcome().map_or(&[][..], |outcome| outcome.tokens());
        tokens.iter().map(|token| token.text.clone()).collect()
    }

    /// The likeliest next tokens of the latest run.
    pub(crate) fn next(&self) -> &[Next] {
        self.outcome().map_or(&[], |outcome| &outcome.list)
    }

    /// The error of opening a model or a file, or of a run.
    pub fn error(&self) -> Option<&str> {
        let failed = self.models.error().or_else(|| self.files.error());
        let second = || self.outcome().and_then(Outcome::second_refusal);
        failed.or_else(|| self.latest.error()).or_else(|| self.model_b.error()).or_else(second)
    }

    /// The matrix that is shown large: that of run A, if two stand side by side.
    pub(crate) fn large(&self) -> &Large {
        &self.panes[0].large
    }

    /// The matrix that the middle of the room shows, to export it. The logit lens shows words, not a matrix.
    pub(crate) fn shown(&self, state: &ModelState, look: Look) -> Option<LabelledMatrix> {
        match state.view {
            View::Attention => self.large().matrix(look),
            View::Attribution => self.attributed.value().map(|parts| parts.matrix(look)),
            View::Patches => self.patches.value().map(|effects| effects.matrix(look)),
            View::Experts => self.experts.value()?.matrix(state.mixture, look),
            View::Lens => None,
        }
    }

    /// The heads whose attention is shown.
    pub(crate) fn shown_heads(&self, state: &ModelState) -> Option<Arc<Surveyed>> {
        self.heads(state).filter(|_| state.view == View::Attention)
    }

    /// The change of the likeliest token's logit by each head, if each is ablated in turn.
    pub(crate) fn swept(&self, look: Look) -> Option<LabelledMatrix> {
        sweep::matrix(self.sweep.value()?, self.next(), look)
    }

    /// The model that the state names, if it has been opened and is shown.
    pub(super) fn here(&self, state: &ModelState) -> Option<Arc<Held<OpenedModel>>> {
        self.models.here(&state.model).filter(|_| state.file.is_none())
    }

    /// The file that the state names, if it has been read.
    pub(super) fn file_here(&self, state: &ModelState) -> Option<Arc<Held<heads::OpenedHeads>>> {
        self.files.here(state.file.as_ref()?)
    }

    /// The file that was read last.
    pub fn file(&self) -> Option<&heads::OpenedHeads> {
        self.files.opened().map(|file| &***file)
    }

    /// Draws the room and handles the user's input. Returns the command whose button was pressed.
    pub(crate) fn ui(
        &mut self,
        ui: &mut Ui,
        state: &mut ModelState,
        look: Look,
    ) -> Option<Command> {
        self.exchange(ui.ctx(), state);
        let room = ui.available_size();
        let beside = if room.x >= WIDE {
            let [least, share, most] = NEXT;
            let width = (share * room.x).clamp(least, most);
            Panel::right("next").resizable(false).exact_size(width)
        } else {
            let height = (LOW * room.y).min(room.y - LEAST).max(0.0);
            Panel::bottom("next").resizable(false).exact_size(height)
        };
        beside.frame(panel(ui, 16, 12)).show(ui, |ui| {
            ScrollArea::vertical().auto_shrink(false).show(ui, |ui| self.beside(ui, state));
        });
        let central = CentralPanel::default().frame(panel(ui, 0, 0)).show(ui, |ui| {
            let frame = Frame::new().inner_margin(Margin::same(12));
            frame.show(ui, |ui| self.central(ui, state, look)).inner
        });
        match central.inner? {
            OpenChoice::Model(name) => self.compare_with(state, name),
            OpenChoice::Attention(source) => self.open_file(ui.ctx(), source),
            OpenChoice::Dialog(command) => return Some(command),
        }
        None
    }

    /// What stands beside the sentence and its heads: what comes next, and the changes.
    fn beside(&mut self, ui: &mut Ui, state: &mut ModelState) {
        if state.file.is_none() {
            self.next_words(ui, state);
            if self.outcome().is_some() {
                sharpness(ui, state);
            }
            if !self.unfolds && self.unfolded.value().is_some() {
                ui.separator();
                self.show_arithmetic(ui);
            }
            self.changes(ui, state);
        }
        self.heads_panel(ui, state);
    }

    /// The menu of the title bar: what is open, and what opens others.
    pub(crate) fn menu(&mut self, ui: &mut Ui, state: &mut ModelState) -> Option<Command> {
        let mut asked = None;
        let name = match (&state.file, self.file_here(state)) {
            (Some(source), None) => source.to_string(),
            (_, Some(file)) => file.name(),
            (None, None) => short(&state.model),
        };
        let menu = ui.menu_button(shortened(&name), |ui| {
            ui.set_min_width(MENU);
            ui.set_max_width(MENU);
            asked = self.opened(ui, state);
            if asked.is_some() {
                ui.close();
            }
        });
        let words =
            self.words(state).map_or_else(|| name.clone(), |words| format!("{name}, {words}"));
        if menu.response.accessible_name(format!("Model: {words}")).clicked() {
            self.cached.read(ui.ctx(), &self.background.host);
        }
        match asked? {
            OpenChoice::Model(name) => self.open(ui.ctx(), state, name),
            OpenChoice::Attention(source) => self.open_file(ui.ctx(), source),
            OpenChoice::Dialog(command) => return Some(command),
        }
        None
    }

    /// The attention that is shown: that of the file, or of the run.
    pub(crate) fn heads(&self, state: &ModelState) -> Option<Arc<Surveyed>> {
        if state.file.is_some() {
            return self.file_here(state).map(|file| Arc::clone(&file.heads.0));
        }
        let outcome = self.outcome()?;
        let weighted = self.weighted.value().filter(|_| state.version == Version::ValueWeighted);
        let weighted = weighted
            .filter(|_| self.weighted.key().is_some_and(|key| key.attention == state.attention));
        let heads = weighted.map(|heads| &**heads);
        Some(Arc::clone(heads.unwrap_or_else(|| outcome.version(state.version, state.attention))))
    }

    /// The cell of the view under the pointer, in words.
    pub(super) fn spoken(&self, state: &ModelState) -> Option<&str> {
        let chart = match state.view {
            View::Attention | View::Lens => None,
            View::Attribution => self.attributed.value().map(|parts| &parts.map),
            View::Patches => self.patches.value().map(|effects| &effects.map),
            View::Experts => self.experts.value().and_then(|taken| taken.of(state.mixture)),
        };
        chart?.spoken.as_deref()
    }

    /// The known effects of the heads that are shown.
    pub(super) fn effects_of(&self, state: &ModelState) -> Effects {
        let attributed = self.attributed.value().filter(|_| state.attention == Which::Only);
        Effects {
            ablation: self.ablation(state.attention).to_vec(),
            attribution: attributed.map(LogitParts::of_heads).unwrap_or_default(),
            can_run: state.file.is_none(),
            is_ablating: self.sweep.is_busy(),
        }
    }

    /// The change of the likeliest token's logit by each head, layer by layer. The list grows while the heads are ablated.
    pub(crate) fn ablation(&self, which: Which) -> &[f32] {
        self.sweep.value().map_or(&[], |effects| effects.of(which))
    }

    /// Shows the order of the heads, and how they are drawn.
    fn heads_panel(&self, ui: &mut Ui, state: &mut ModelState) {
        let Some(heads) = self.heads(state) else { return };
        ui.separator();
        let effects = self.effects_of(state);
        order::show(ui, &heads, &mut state.heads, &effects);
        let errors = [self.sweep.error(), self.attributed.error()];
        for message in errors.into_iter().flatten() {
            ui.weak(message);
        }
        if let Some(outcome) = self.outcome().filter(|_| state.version == Version::SideBySide) {
            compare::moved(ui, state, outcome);
        }
    }

    /// Shows the arithmetic of the chosen weight.
    pub(crate) fn show_arithmetic(&self, ui: &mut Ui) {
        let (Some(of), Some(score)) = (self.unfolded.key(), self.unfolded.value()) else {
            if self.unfolds {
                ui.weak("Click a ribbon or a cell: its weight is computed here step by step.");
            }
            return;
        };
        let runs = self.outcome().map(Outcome::runs).unwrap_or_default();
        if let Some(run) = runs.iter().flatten().find(|run| self.background.id(run) == of.run) {
            let selected = self.panes[0].large.selected().map(|selected| &selected.numbers[..]);
            let keys = run.heads.of(of.head.attention).labels()[1].len();
            let row = of.cell.0 * keys..(of.cell.0 + 1) * keys;
            let weights = selected.and_then(|numbers| numbers.get(row)).unwrap_or_default();
            unfold::show(ui, of, score, run, weights);
        }
    }

    /// Shows the open model or file, and the buttons that open others.
    fn opened(&self, ui: &mut Ui, state: &ModelState) -> Option<OpenChoice> {
        let mut asked = None;
        heading(ui, "Model", explanation!("Model"));
        if let Some(file) = self.file_here(state) {
            asked = of_file(ui, &file).map(OpenChoice::Attention);
        } else if let Some(opened) = self.here(state) {
            ui.add(Label::new(RichText::new(short(&opened.name)).strong()).truncate())
                .on_hover_text(&opened.name);
            ui.weak(self.words(state).unwrap_or_default());
        }
        ui.horizontal_wrapped(|ui| {
            if let Some(open) = Command::OpenModel.button(ui) {
                asked = Some(OpenChoice::Dialog(open));
            }
            for (name, hint) in regard_bundled::NAMES.into_iter().zip(HINTS) {
                let is_open = state.file.is_none() && state.model == name;
                if !is_open && ui.button(format!("Open {name}")).on_hover_text(hint).clicked() {
                    asked = Some(OpenChoice::Model(name.to_owned()));
                }
            }
            if let Some(open) = Command::OpenAttention.button(ui) {
                asked = Some(OpenChoice::Dialog(open));
            }
            let hint = "Open a small file of attention: twelve heads made by hand.";
            let is_sample = state.file == Some(AttentionSource::Sample);
            if !is_sample && ui.button("Open the sample").on_hover_text(hint).clicked() {
                asked = Some(OpenChoice::Attention(AttentionSource::Sample));
            }
        });
        ui.label("Cached models");
        if let Some(name) = self.cached.rows(ui) {
            asked = Some(OpenChoice::Model(name));
        }
        asked
    }

    /// The model or the file that is open in a few words.
    fn words(&self, state: &ModelState) -> Option<String> {
        if state.file.is_some() {
            return self.file_here(state).map(|file| words_of(&file));
        }
        let opened = self.here(state)?;
        let description = &opened.description;
        let (family, stack) = (&description.family, &description.stack);
        let bytes = opened.bytes as f64;
        let size = if bytes < 1e6 {
            format!("{:.0} KB", bytes / 1e3)
        } else {
            format!("{:.1} MB", bytes / 1e6)
        };
        let layers = match &description.encoder {
            Some(encoder) => format!("{} + {} layers", encoder.layers(), stack.layers()),
            None => counted(stack.layers(), "layer"),
        };
        let context = description.context.map(|most| format!(", reads up to {most}"));
        let reads = description.embedding.patches.map_or_else(
            || format!("{} tokens{}", description.vocabulary, context.unwrap_or_default()),
            |patches| format!("images of {} × {}", patches.height, patches.width),
        );
        let heads = match (&description.encoder, stack.block.heads) {
            (Some(encoder), heads) if encoder.block.heads != heads => {
                format!("{} and {heads} heads", encoder.block.heads)
            }
            (_, heads) => counted(heads, "head"),
        };
        Some(format!("{family}, {layers} of {heads}, {reads}, {size}"))
    }

    fn predicts(&self) -> Predicts {
        self.models.opened().map_or(Predicts::Next, |opened| Predicts::of(&opened.description))
    }

    /// Shows the next words. A click on one writes it into the text, and so do the buttons below them.
    fn next_words(&mut self, ui: &mut Ui, state: &mut ModelState) {
        let predicts = self.predicts();
        // A class and a word in a gap are not appended.
        let appends = predicts == Predicts::Next;
        let (outcome, list) = (self.outcome(), self.next());
        let clicked = next::show(ui, outcome, list, state.version, predicts, appends);
        let next = clicked.and_then(|place| list.get(place));
        if let (Some(next), Some(outcome)) = (next, outcome) {
            // The tokens of the list are the tokenizer's own.
            let _known = write::append(state, outcome, next);
        }
        let opened = self.here(state).filter(|_| predicts != Predicts::Class);
        if let Some((opened, outcome)) = opened.zip(self::outcome(&self.latest)) {
            ui.horizontal_wrapped(|ui| {
                self.writer.show(ui, state, outcome, &opened.description);
            });
        }
    }

    /// Shows the controls that change the model.
    fn changes(&mut self, ui: &mut Ui, state: &mut ModelState) {
        let Some(outcome) = self.outcome() else { return };
        if let Some(opened) = self.here(state).filter(|_| !outcome.reads().decodes()) {
            patch::part(ui, state, outcome, &opened.description);
        }
        ui.separator();
        let opened = self.here(state);
        let description = opened.as_ref().map(|opened| &opened.description);
        let edge = state.heads.chosen.or(self.looked);
        let (heads, words) = (outcome.heads(state.attention), outcome.words.clone());
        let takes = changes::of_head(ui, state, heads, description, edge);
        if takes {
            let head = state.address(state.heads.id());
            self.taken = Some(head);
            if state.second.is_none() {
                state.second = Some(state.to_patch_from());
            }
        }
        ui.separator();
        list::show(ui, state, &self.tokens(), &words);
    }
}

/// Shows the name, the shape and the warnings of a file of attention.
///
/// Returns another attention of the file, if it is chosen.
fn of_file(ui: &mut Ui, file: &heads::OpenedHeads) -> Option<AttentionSource> {
    ui.strong(file.name());
    let (names, before) = (file.maps.names(), file.maps.name());
    let mut chosen = before.to_owned();
    if names.len() > 1 {
        ui.label("Attention of the file");
        let area = ScrollArea::vertical().max_height(NAMES).min_scrolled_height(NAMES);
        area.id_salt("attention of the file").show(ui, |ui| {
            for name in names {
                ui.selectable_value(&mut chosen, name.clone(), name);
            }
        });
    }
    ui.weak(words_of(file));
    if file.source == AttentionSource::Sample {
        let text = "Twelve heads made by hand. Each has a pattern that occurs in real models.";
        ui.label(RichText::new(text).small().weak());
    }
    let path = file.source.file().filter(|_| chosen != before)?;
    Some(AttentionSource::Tensor(path.to_owned(), chosen))
}

/// A file of attention in a few words.
fn words_of(file: &heads::OpenedHeads) -> String {
    let shape = file.maps.shape();
    let (layers, heads) = (counted(shape.layers, "layer"), counted(shape.heads, "head"));
    format!("attention of {layers} of {heads}, {} × {}", shape.queries, shape.keys)
}

/// The beginning of a long name.
fn shortened(name: &str) -> String {
    let cut: String = name.chars().take(MOST_LETTERS).collect();
    if cut.len() < name.len() { format!("{cut}…") } else { cut }
}

/// Shows the temperature of all heads that have none of their own.
fn sharpness(ui: &mut Ui, state: &mut ModelState) {
    ui.separator();
    label(ui, SHARPNESS, explanation!("How sharply the heads look"));
    ui.horizontal(|ui| {
        ui.spacing_mut().slider_width = (ui.available_width() - 72.0).max(60.0);
        let slider = Slider::new(&mut state.sharpness, 0.1..=10.0).logarithmic(true);
        let slider = slider.max_decimals(2).prefix("T = ");
        if ui.add(slider).accessible_name(SHARPNESS).changed() {
            state.tried[0] = true;
        }
    });
    ui.label(RichText::new("sharp → even").small().weak());
}

pub(super) fn outcome(latest: &LatestRun) -> Option<&Outcome> {
    latest.value().map(|outcome| &****outcome)
}

/// Access for the tests.
#[cfg(test)]
impl ModelRoom {
    /// The matrices that are shown: that of one run, or those of A, of B and of A − B.
    pub(crate) fn side_by_side(&self) -> [Option<&heads::Selected>; 3] {
        self.panes.each_ref().map(|pane| pane.large.selected())
    }

    /// The images that are shown: that of one run, or those of A, of B and of A − B.
    pub(crate) fn pictures(&self) -> [Option<&regard_session::model::Pixels>; 3] {
        self.panes.each_ref().map(|pane| pane.overlay.picture())
    }
}
