//! The room: its panels and their contents.

use std::path::PathBuf;
use std::sync::Arc;

use egui::{
    CentralPanel, Context, Frame, Margin, ProgressBar, RichText, ScrollArea, TextStyle, Ui,
};
use web_time::Instant;

use super::benchmark::Benchmark;
use super::{
    Compute, LaboratoryInputs, LaboratoryMatrix, LaboratoryOutcome, LaboratoryRequest,
    LaboratoryState, Pictured, Square, TokenFile, TokenSource, controls, curves,
};
use crate::choice;
use crate::colors::Look;
use crate::explain::{explain, explanation, heading};
use crate::heatmap::{Cell, Heatmap, Pointing};
use crate::plots::PlotName;
use crate::style::{self, panel, readout};
use crate::work::{Background, Once, PATIENCE, Place, Shared};
use crate::{Command, Host, message, numbers, side};
use regard_figure::{Label, Plot, shortened};
use regard_session::Memo;
use regard_session::laboratory::{ByDimMemo, Curves, name, row};

/// The least and the largest width of the curves beside the heatmap.
const CURVES: f32 = 264.0;
const MOST_CURVES: f32 = 1600.0;
/// A room of this width has text of the usual size. In a wider one, it grows with the width, up to a limit.
const USUAL: f32 = 1600.0;
const MOST_ENLARGED: f32 = 2.0;
/// The width of the labels and of the colour bar beside the cells.
const OF_LABELS: f32 = 176.0;
/// The maximum length of a name above the curves.
const LONGEST_NAME: usize = 16;

/// The view of a [`LaboratoryState`]. It shows the last outcome while the next is computed.
pub(crate) struct LaboratoryRoom {
    background: Arc<Background>,
    engine: Place,
    computing: Option<(LaboratoryRequest, Once<Pictured>)>,
    /// The latest request, and when the window began to wait for a picture.
    asked: Option<(LaboratoryRequest, Instant)>,
    answered: Option<LaboratoryRequest>,
    outcome: Option<Pictured>,
    error: Option<String>,
    /// The file that replaces the state's source as soon as it is read.
    opening: Option<PathBuf>,
    /// The reason why the last such file could not be read.
    refused: Option<String>,
    curves: Option<Curves>,
    by_dim: ByDimMemo,
    pub(crate) benchmark: Benchmark,
    /// The labels of the shown matrix.
    labels: [Vec<String>; 2],
    hovered: Option<Cell>,
}

impl LaboratoryRoom {
    pub(crate) fn new(host: Arc<dyn Host>) -> Self {
        let background = Background::new(host);
        Self {
            engine: background.place(),
            background,
            computing: None,
            asked: None,
            answered: None,
            outcome: None,
            error: None,
            opening: None,
            refused: None,
            curves: None,
            by_dim: Memo::default(),
            benchmark: Benchmark::default(),
            labels: Default::default(),
            hovered: None,
        }
    }

    pub(crate) fn outcome(&self) -> Option<&Pictured> {
        self.outcome.as_ref()
    }

    pub(crate) fn toggle_benchmark(&mut self, ctx: &Context, inputs: &LaboratoryInputs) {
        self.benchmark.toggle(&self.background, ctx, inputs);
    }

    pub(crate) fn is_computing(&self) -> bool {
        self.computing.is_some()
    }

    /// Takes queries and keys from a file, which is read again. The state changes only when the file has been read.
    pub(crate) fn open(&mut self, path: PathBuf) {
        self.opening = Some(path);
        self.refused = None;
        // A new engine has not read any file.
        (self.engine, self.computing, self.asked) = (self.background.place(), None, None);
    }

    /// The file of the state's tokens, if it has been read.
    fn file(&self, state: &LaboratoryState) -> Option<Shared<TokenFile>> {
        let outcome = self.outcome.as_ref()?;
        let is_it = outcome.request.inputs.source.path() == state.inputs.source.path();
        outcome.file.clone().filter(|_| is_it)
    }

    /// Takes the answer, and makes the next request.
    fn exchange(&mut self, ui: &Ui, state: &mut LaboratoryState) {
        let was_late = self.is_late();
        if let Some(answer) = self.computing.as_ref().and_then(|(_, once)| once.take())
            && let Some((asked, _)) = self.computing.take()
        {
            self.receive(&asked, answer, state);
        }
        let mut request = state.request();
        if let Some(path) = &self.opening {
            request.inputs = request.inputs.of_file(path);
        }
        if self.asked.as_ref().is_none_or(|(asked, _)| *asked != request) {
            let before = self.asked.take().filter(|_| was_late);
            let since = before.map_or_else(Instant::now, |(_, since)| since);
            self.asked = Some((request.clone(), since));
        }
        // Work that has begun is finished. Otherwise a moving slider would show nothing.
        if self.computing.is_none() && self.is_late() {
            let question = Compute { engine: self.engine.id, request: request.clone() };
            self.computing = Some((request, self.background.ask(ui.ctx(), question)));
        }
        if self.is_late() {
            ui.ctx().request_repaint_after(PATIENCE / 2);
        }
    }

    fn receive(
        &mut self,
        asked: &LaboratoryRequest,
        answer: Result<Pictured, String>,
        state: &mut LaboratoryState,
    ) {
        let is_latest = self.asked.as_ref().is_some_and(|(latest, _)| latest == asked);
        self.answered = Some(asked.clone());
        let path = asked.inputs.source.path();
        let is_opening = self.opening.is_some() && self.opening.as_deref() == path;
        if is_opening {
            self.opening = None;
        }
        match answer {
            Ok(outcome) => {
                // A new picture restarts the clock of the progress bar.
                if let Some((_, since)) = &mut self.asked {
                    *since = Instant::now();
                }
                if is_opening {
                    let LaboratoryInputs { source, tokens, dim, .. } =
                        outcome.request.inputs.clone();
                    state.inputs = LaboratoryInputs { source, tokens, dim, ..state.inputs.clone() };
                }
                if let Some(file) =
                    outcome.file.as_ref().filter(|_| state.inputs.source.path() == path)
                {
                    state.inputs.limit_to(file);
                }
                if is_latest && state.request() == outcome.request {
                    // The state is limited in the same way as the request, so no new request follows.
                    self.asked = Some((outcome.request.clone(), Instant::now()));
                    self.answered = Some(outcome.request.clone());
                }
                if self
                    .outcome
                    .as_ref()
                    .is_none_or(|before| !Arc::ptr_eq(&before.names.0, &outcome.names.0))
                {
                    let texts =
                        |names: &Vec<Label>| names.iter().map(|name| name.text.clone()).collect();
                    self.labels = outcome.names.each_ref().map(texts);
                }
                self.outcome = Some(outcome);
                self.curves = None;
                self.error = None;
            }
            Err(error) if is_opening => self.refused = Some(error),
            Err(error) => self.error = Some(error),
        }
    }

    fn is_late(&self) -> bool {
        self.asked.as_ref().is_some_and(|(asked, _)| self.answered.as_ref() != Some(asked))
    }

    /// Draws the room and handles the user's input. Returns the command whose button was pressed.
    pub(crate) fn ui(
        &mut self,
        ui: &mut Ui,
        state: &mut LaboratoryState,
        look: Look,
        side: bool,
    ) -> Option<Command> {
        let words = self.hovered.or(state.chosen).and_then(|cell| self.words(cell));
        let hint = "Point at a cell to read it; click to plot its row.";
        readout(ui).show(ui, |ui| style::describe(ui, words.as_deref(), hint));
        let file = self.file(state);
        let had_file = state.inputs.source != TokenSource::Seed;
        let mut command = if side {
            side::show(ui, "knobs", |ui| {
                controls::show(ui, state, file.as_deref().map(|file| &**file))
            })
        } else {
            None
        };
        if had_file && state.inputs.source == TokenSource::Seed {
            self.opening = None;
        }
        self.exchange(ui, state);
        CentralPanel::default().frame(panel(ui, 0, 0)).show(ui, |ui| {
            ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                Frame::new().inner_margin(Margin::same(12)).show(ui, |ui| {
                    let scale = ui.available_width() / USUAL;
                    style::enlarge(ui, scale.clamp(1.0, MOST_ENLARGED));
                    command = Self::bar(ui, state).or(command);
                    command = self.contents(ui, state, look).or(command);
                    ui.separator();
                    command = self.benchmark.show(ui, &state.inputs).or(command);
                });
            });
        });
        command
    }

    /// Shows the choice of the matrix, and the controls of A.
    fn bar(ui: &mut Ui, state: &mut LaboratoryState) -> Option<Command> {
        let mut command = None;
        ui.horizontal_wrapped(|ui| {
            let (weights, shown) =
                if state.pinned.is_some() { ("B: weights", 4) } else { ("Weights", 2) };
            let difference = "Show how the weights have changed since A was pinned.";
            let choices = [
                (LaboratoryMatrix::Weights, weights, Ok("Show the weights of the present state.")),
                (
                    LaboratoryMatrix::Scores,
                    "Scores",
                    Ok("Show the scores, which are the input of softmax."),
                ),
                (
                    LaboratoryMatrix::Pinned,
                    "A: pinned",
                    Ok("Show the weights of the pinned state."),
                ),
                (LaboratoryMatrix::Difference, "B − A", Ok(difference)),
            ];
            choice::all(ui, &mut state.shown, &choices[..shown]);
            ui.separator();
            command = Command::PinA.button(ui);
            if state.pinned.is_some() {
                let forget = Command::ForgetA.button(ui);
                command = command.or(forget);
            }
            explain(ui, "A and B", explanation!("A and B"));
        });
        if let Some(pinned) = &state.pinned {
            ui.small(format!("A: {}", controls::in_words(pinned)));
        }
        command
    }

    /// The curves of one of this room's plots, if it is shown.
    pub(crate) fn plot(&self, name: PlotName) -> Option<Plot> {
        self.curves.as_ref()?.plot(self.outcome.as_ref()?, name)
    }

    fn contents(
        &mut self,
        ui: &mut Ui,
        state: &mut LaboratoryState,
        look: Look,
    ) -> Option<Command> {
        self.errors(ui);
        self.status(ui);
        let outcome = self.outcome.as_mut()?;
        outcome.picture.set_palette(outcome.palette(look));
        let room = ui.available_width();
        let beside = room >= 2.0 * CURVES + 260.0;
        // A square heatmap is as wide as the page is high. The curves get the rest.
        let scale = style::enlarged(ui);
        let height = (ui.clip_rect().height() - 150.0 * scale).max(240.0);
        let width = (room - height - OF_LABELS * scale).clamp(CURVES, MOST_CURVES);
        let map_room = if beside { room - width - 16.0 } else { room };
        let large = height.min(map_room.max(240.0));
        let (mut hovered, mut command) = (None, None);
        ui.horizontal_top(|ui| {
            let pointing = matrix(ui, outcome, &self.labels, state, map_room, large);
            hovered = pointing.hovered;
            if beside {
                ui.add_space((room - width - ui.min_rect().width()).max(8.0));
                ui.vertical(|ui| {
                    ui.set_width(width - 16.0);
                    let kept = (&mut self.curves, &mut self.by_dim);
                    command = row_curves(ui, kept, outcome, state.chosen, 1);
                });
            }
        });
        if hovered != self.hovered {
            self.hovered = hovered;
            ui.ctx().request_repaint();
        }
        if !beside {
            ui.separator();
            let kept = (&mut self.curves, &mut self.by_dim);
            let columns = if room > 480.0 { 2 } else { 1 };
            command = row_curves(ui, kept, outcome, state.chosen, columns);
        }
        command
    }

    fn errors(&mut self, ui: &mut Ui) {
        let color = ui.visuals().error_fg_color;
        if let Some(error) = &self.error {
            ui.colored_label(color, error);
        }
        if let Some(refused) = &self.refused
            && message::show(ui, refused, color, "Dismiss")
        {
            self.refused = None;
        }
    }

    /// Shows the progress, or the time that the computation took.
    fn status(&self, ui: &mut Ui) {
        ui.scope(|ui| {
            ui.set_height(ui.text_style_height(&TextStyle::Small));
            let waits = self.asked.as_ref().is_some_and(|(_, since)| since.elapsed() > PATIENCE);
            if self.is_late() && waits {
                let progress = self.computing.as_ref().map_or(0.0, |(_, once)| once.progress());
                ui.add(ProgressBar::new(progress).desired_width(160.0).desired_height(8.0))
                    .accessible_name("Computing");
                return;
            }
            let Some(outcome) = &self.outcome else { return };
            let took =
                format!("{} in {:.1} ms", outcome.title(), 1000.0 * outcome.took.as_secs_f64());
            ui.label(RichText::new(outcome.note.clone().unwrap_or(took)).small().weak());
        });
    }

    fn words(&self, (row, col): Cell) -> Option<String> {
        let outcome = self.outcome.as_ref().filter(|outcome| outcome.side > row.max(col))?;
        let n = outcome.request.inputs.tokens;
        let (scores, mask) = match outcome.request.shown {
            LaboratoryMatrix::Scores => (&outcome.numbers, outcome.masked),
            _ => (&outcome.scores, f32::NEG_INFINITY),
        };
        let number = |name: &str, matrix: &[f32], n: usize| {
            let x = (row < n && col < n).then(|| matrix.get(row * n + col)).flatten()?;
            let masked = if name == "score" { mask } else { 0.0 };
            Some(format!("{name} {}", numbers::spoken_masked(*x, masked)))
        };
        let pinned = outcome.pinned.as_ref().zip(outcome.request.pinned.as_ref());
        let parts = [
            number("score", scores, n),
            number("weight", &outcome.weights, n),
            pinned.and_then(|(matrix, inputs)| number("weight in A", matrix, inputs.tokens)),
            (outcome.request.shown == LaboratoryMatrix::Difference)
                .then(|| number("B − A", &outcome.numbers, outcome.side))
                .flatten(),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let [query, key] = [(0, row), (1, col)]
            .map(|(side, i)| self.labels[side].get(i).map_or("", String::as_str));
        Some(format!("query {query}, key {key}:  {}", parts.join(", ")))
    }
}

/// Shows the matrix, and paints on it with the brush.
fn matrix(
    ui: &mut Ui,
    outcome: &Pictured,
    [rows, cols]: &[Vec<String>; 2],
    state: &mut LaboratoryState,
    room: f32,
    large: f32,
) -> Pointing {
    let name = outcome.title();
    let map = Heatmap {
        masked: outcome.masked,
        captions: Some(["attending from", "attending to"]),
        terms: ["query", "key", if name == "Scores" { "score" } else { "weight" }],
        pointed: state.chosen,
        large,
        paints: state.brush.is_some(),
        ..Heatmap::new(name, &outcome.numbers, [rows, cols], &outcome.picture)
    };
    let pointing = map.show_enlarged(ui, room, &mut state.view);
    if pointing.chosen.is_some() {
        state.chosen = pointing.chosen;
    }
    if let Some(brush) = state.brush
        && let Some((row, col)) = pointing.hovered
        && (pointing.response.is_pointer_button_down_on() || pointing.response.clicked())
    {
        let cell = (row.saturating_sub(brush.side / 2), col.saturating_sub(brush.side / 2));
        state.inputs.paint(Square { cell, side: brush.side, hides: brush.hides });
    }
    pointing
}

fn row_curves(
    ui: &mut Ui,
    (kept, by_dim): (&mut Option<Curves>, &mut ByDimMemo),
    outcome: &LaboratoryOutcome,
    chosen: Option<Cell>,
    columns: usize,
) -> Option<Command> {
    let row = row(outcome, chosen);
    let curves = match kept.take() {
        Some(curves) if curves.row == row => curves,
        _ => Curves::new(outcome, row, by_dim),
    };
    // `labels` cannot be used here, because they may be those of A.
    let name =
        shortened(&name(outcome.file.as_ref().map(|file| &***file), 0, row).text, LONGEST_NAME);
    heading(ui, &format!("The row of {name}"), explanation!("The row of a query"));
    let command = curves::show(&curves, ui, outcome, columns);
    *kept = Some(curves);
    command
}
