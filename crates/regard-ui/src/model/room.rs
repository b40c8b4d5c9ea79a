//! The room: its panels and their contents.

mod parts;

use std::sync::Arc;

use egui::{
    CentralPanel, Context, Frame, Label, Margin, Panel, ProgressBar, RichText, ScrollArea,
    TextEdit, TextStyle, Ui,
};
use regard_figure::Matrix;
use regard_heads::HeadId;
use regard_models::Score;

use super::latest::Same;
use super::lens::Lens;
use super::open::{Opened, Opening};
use super::run::{Outcome, Request};
use super::state::head_of;
use super::sweep::{SMALL, Sweep};
use super::unfold::{self, Unfolded};
use super::{Next, STORY, State, Version, changes, next, note, strip};
use crate::colors::Look;
use crate::explain::heading;
use crate::heads::{Large, Marked, Selected, Shown, Surveyed, Thumbnails, bar};
use crate::style::{self, panel};
use crate::task::{PATIENCE, Task};
use crate::{Command, Host, message, side};

/// From this width on, the next tokens have a panel of their own at the right.
const WIDE: f32 = 1080.0;
/// From this width on, all heads are shown beside the chosen one.
const BESIDE: f32 = 560.0;

const MODEL: &str = "\
    A model that reads your text: story, which comes with the program, or one of your own. Open a folder of Hugging Face (config.json, \
    model.safetensors, tokenizer.json), a .gguf file, or a name in the local Hugging Face cache such as openai-community/gpt2. You can \
    also drop a folder or a .gguf file onto the window.";

/// The view of a [`State`].
pub struct ModelRoom {
    host: Arc<dyn Host>,
    opening: Option<Opening>,
    opened: Option<Arc<Opened>>,
    /// The model that could not be opened, and the reason.
    failed: Option<(String, String)>,
    running: Option<(Request, Task<Outcome>)>,
    outcome: Option<Outcome>,
    /// What could not be run, and the reason.
    refused: Option<(Request, String)>,
    /// The next tokens of the outcome.
    next: Vec<Next>,
    grid: Thumbnails,
    /// The attention that the grid shows.
    in_grid: Option<Arc<Surveyed>>,
    large: Large,
    sweep: Sweep,
    lens: Lens,
    unfolded: Unfolded,
}

/// A request of the panel at the left.
enum Asked {
    Command(Command),
    Story,
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
            sweep: Sweep::default(),
            lens: Lens::default(),
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
            || self.large.is_busy()
            || self.sweep.is_busy()
            || self.lens.is_busy()
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
    fn here(&self, state: &State) -> Option<Arc<Opened>> {
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
        style::readout(ui).show(ui, |ui| self.large.readout(ui, &state.heads));
        let is_wide = ui.available_width() >= WIDE;
        let asked = if side {
            side::show(ui, "model", |ui| {
                let asked = self.model(ui, state);
                if !is_wide {
                    ui.separator();
                    next::show(ui, self.outcome.as_ref(), &self.next);
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
                    next::show(ui, self.outcome.as_ref(), &self.next);
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
            Some(Asked::Story) => {
                self.open(ui.ctx(), STORY.to_owned());
                None
            }
            None => None,
        }
    }

    /// Takes the results of the threads and starts what is missing.
    fn exchange(&mut self, ctx: &Context, state: &mut State) {
        if let Some(done) = self.opening.as_mut().and_then(Opening::take)
            && let Some(opening) = self.opening.take()
        {
            self.read(done, opening, state);
        }
        if let Some(opened) = self.here(state) {
            self.run(ctx, &opened, state);
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
        let unchanged = self.outcome.as_ref().map(|outcome| &outcome.unchanged);
        // A text that is being typed is run first.
        let asked = self.opened.as_ref().zip(unchanged);
        let asked = asked.filter(|_| state.sweep);
        if asked.is_none() || self.running.is_none() {
            self.sweep.exchange(&*self.host, ctx, asked);
        }
        let asked = self.opened.as_ref().zip(self.outcome.as_ref()).filter(|_| state.lens);
        let asked = asked.map(|(opened, outcome)| (opened, &outcome.request, &outcome.unchanged));
        self.lens.exchange(&*self.host, ctx, asked);
        let of = self.outcome.as_ref().zip(state.heads.chosen);
        let of = of.filter(|(outcome, _)| {
            state.heads.shown == Shown::Head && !state.lens && outcome.refusal().is_none()
        });
        let asked = of.map(|(outcome, cell)| {
            let run = Same(Arc::clone(&outcome.unchanged));
            let is_changed = state.version != Version::Unchanged;
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
    fn run(&mut self, ctx: &Context, opened: &Arc<Opened>, state: &State) {
        if let Some(done) = self.running.as_ref().and_then(|(_, task)| task.take())
            && let Some((request, _)) = self.running.take()
        {
            match done {
                Ok(outcome) => {
                    self.next = Next::likeliest(&outcome, opened.model.tokenizer());
                    (self.outcome, self.refused) = (Some(outcome), None);
                }
                Err(message) => (self.outcome, self.refused) = (None, Some((request, message))),
            }
        }
        let latest = self.outcome.as_ref().map(|outcome| &outcome.request);
        let latest = latest.or_else(|| self.refused.as_ref().map(|(request, _)| request));
        // A run that has begun is not interrupted; the one after it has the latest text.
        let request = Request { text: state.text.clone(), changes: state.active() };
        if self.running.is_none() && latest != Some(&request) {
            let (model, asked) = (Arc::clone(opened), request.clone());
            let before = self.outcome.as_ref().map(|outcome| Arc::clone(&outcome.unchanged));
            let task =
                Task::start(&*self.host, ctx, "run", move |_| Outcome::new(&model, asked, before));
            self.running = Some((request, task));
        }
    }

    /// The attention that is shown.
    fn heads(&self, state: &State) -> Option<&Arc<Surveyed>> {
        self.outcome.as_ref().map(|outcome| outcome.version(state.version))
    }

    /// Shows what the model is.
    fn model(&self, ui: &mut Ui, state: &State) -> Option<Asked> {
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
                asked = Some(Asked::Story);
            }
        });
        asked
    }

    /// Shows the controls that change the model.
    fn changes(&self, ui: &mut Ui, state: &mut State) {
        let Some(outcome) = &self.outcome else { return };
        ui.separator();
        changes::of_head(ui, state, &outcome.unchanged.heads);
        ui.separator();
        changes::list(ui, state, &outcome.unchanged.heads.labels()[0]);
    }

    fn central(&mut self, ui: &mut Ui, state: &mut State, look: Look) {
        self.messages(ui, state);
        if self.here(state).is_none() {
            return;
        }
        let width = ui.available_width();
        let field = TextEdit::multiline(&mut state.text).desired_rows(1).desired_width(width);
        ui.add(
            field.hint_text("Type a text for the model to read.").margin(Margin::symmetric(8, 6)),
        )
        .accessible_name("Text");
        if let Some((_, message)) = &self.refused {
            let color = if state.text.trim().is_empty() {
                ui.visuals().weak_text_color()
            } else {
                ui.visuals().error_fg_color
            };
            ui.add(Label::new(RichText::new(message).color(color)).wrap());
        }
        let Some(outcome) = &self.outcome else { return };
        let heads = Arc::clone(match self.heads(state) {
            Some(heads) => heads,
            None => return,
        });
        strip::show(ui, &heads.labels()[0], &self.large, &mut state.heads, look);
        if !outcome.unchanged.unknown.is_empty() {
            let words: Vec<String> =
                outcome.unchanged.unknown.iter().map(|word| format!("“{word}”")).collect();
            let text = format!("The model does not know {}.", words.join(", "));
            let color = ui.visuals().warn_fg_color;
            let text = RichText::new(text).text_style(TextStyle::Small).color(color);
            ui.add(Label::new(text).wrap());
        }
        if let Some(refusal) = outcome.refusal() {
            let text = format!("The changes are not made: {refusal}.");
            ui.add(Label::new(RichText::new(text).color(ui.visuals().error_fg_color)).wrap());
        }
        if let Some(sentence) = note::sentence(outcome, &self.next) {
            let text = RichText::new(sentence).text_style(style::subheading());
            ui.add(Label::new(text).wrap());
        }
        ui.separator();
        ui.horizontal(|ui| {
            ui.selectable_value(&mut state.lens, false, "Attention")
                .on_hover_text("Show what each head attends to.");
            ui.selectable_value(&mut state.lens, true, "Logit lens")
                .on_hover_text("Show what the model would predict after each layer.");
        });
        if state.lens {
            self.lens.show(ui, &heads.labels()[0], look);
            return;
        }
        bar::show(ui, &heads, &mut state.heads);
        if state.heads.shown == Shown::Grid || state.heads.part().is_none() {
            self.grid(ui, &heads, state, look);
            return;
        }
        let width = ui.available_width();
        if width >= BESIDE {
            let count = heads.maps.shape().heads as f32;
            let wanted = (0.38 * width).clamp(180.0, (72.0 * count).clamp(180.0, 480.0));
            let beside = Panel::left("all heads").resizable(false).exact_size(wanted);
            beside
                .frame(Frame::new().inner_margin(Margin { right: 8, ..Margin::ZERO }))
                .show(ui, |ui| self.grid(ui, &heads, state, look));
            CentralPanel::default()
                .frame(Frame::new().inner_margin(Margin { left: 8, ..Margin::ZERO }))
                .show(ui, |ui| self.head(ui, state, look));
        } else {
            self.head(ui, state, look);
        }
    }

    /// Shows all heads.
    fn grid(&mut self, ui: &mut Ui, heads: &Arc<Surveyed>, state: &mut State, look: Look) {
        if !self.in_grid.as_ref().is_some_and(|shown| Arc::ptr_eq(shown, heads)) {
            self.grid.clear();
            self.in_grid = Some(Arc::clone(heads));
        }
        let changed: Vec<HeadId> =
            state.changes.iter().filter(|c| c.on).filter_map(|c| head_of(&c.change)).collect();
        let marked = Marked { heads: &changed, word: "changed" };
        self.grid.show(ui, heads, &mut state.heads, marked, look);
    }

    /// Shows the chosen head, or the mean.
    fn head(&mut self, ui: &mut Ui, state: &mut State, look: Look) {
        self.large.progress(ui);
        let Some(pointing) = self.large.show(ui, &mut state.heads, look) else { return };
        if state.heads.shown != Shown::Head {
            return;
        }
        // A menu of the cell that was clicked last with the second button.
        if pointing.response.secondary_clicked() {
            state.heads.chosen = pointing.hovered.or(state.heads.chosen);
        }
        let outcome = self.outcome.as_ref();
        pointing.response.context_menu(|ui| {
            if let Some(outcome) = outcome {
                changes::edge(ui, state, &outcome.unchanged.heads, state.heads.id());
            }
        });
    }

    /// Shows what went wrong, and the progress of reading.
    fn messages(&mut self, ui: &mut Ui, state: &State) {
        let is_here = self.here(state).is_some();
        if let Some((_, message)) = &self.failed {
            // Without the message, the model that the session names is opened again.
            let button = if is_here { "Dismiss" } else { "Try again" };
            if message::show(ui, message, ui.visuals().error_fg_color, button) {
                self.failed = None;
            }
        }
        if let Some(opening) = self.opening.as_ref().filter(|o| o.elapsed() > PATIENCE || !is_here)
        {
            ui.horizontal(|ui| {
                ui.label(format!("Opening {}", opening.name));
                ui.add(
                    ProgressBar::new(opening.progress()).desired_width(200.0).desired_height(10.0),
                )
                .accessible_name("Opening");
            });
            ui.ctx().request_repaint_after(PATIENCE);
        }
        if self.running.as_ref().is_some_and(|(_, task)| task.elapsed() > 2 * PATIENCE) {
            ui.horizontal(|ui| {
                ui.spinner();
                ui.label("The model is reading.");
            });
        }
    }
}
