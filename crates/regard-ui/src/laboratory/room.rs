//! The room: its panels, and what is in them.

use core::time::Duration;
use std::path::PathBuf;
use std::sync::Arc;

use egui::{
    CentralPanel, Frame, Label, Margin, Panel, ProgressBar, RichText, ScrollArea, TextStyle, Ui,
};
use regard_walkthrough::Marks;
use web_time::Instant;

use super::benchmark::Benchmark;
use super::controls::Asked;
use super::curves::Curves;
use super::{Outcome, Request, Shown, Square, State, TokenSource, Worker, controls, files};
use crate::colors::Look;
use crate::explain::{explain, heading};
use crate::heatmap::{self, Cell, Heatmap, Pointing};
use crate::style::{panel, remark};
use crate::task::PATIENCE;
use crate::{Command, Host, message, numbers, side};
use regard_figure::shortened;

mod exchange;

/// The width of the curves beside the heatmap.
const CURVES: f32 = 264.0;
/// The characters of a name that there is room for above the curves.
const LONGEST_NAME: usize = 16;

const A_AND_B: &str = "\
    B is the present state. Pin it as A, change something, and see both, or what changed: B − A, blue where there is less \
    weight than there was, red where there is more.\n\
    Scores are what softmax gets: q·k times the scale, after soft cap, ALiBi and masks, before the temperature.";

const OF_THE_ROW: &str = "\
    What one query does with its attention. Click on a cell of the heatmap to choose the query; without a choice it is the \
    last one.";

/// What is shown of a [`State`]: the last outcome, while the worker computes the next.
pub struct LaboratoryRoom {
    host: Arc<dyn Host>,
    worker: Worker,
    asked: Option<(Request, Instant)>,
    answered: Option<Request>,
    outcome: Option<Outcome>,
    error: Option<String>,
    /// A file that is to take the place of the state's source, once it is read.
    opening: Option<PathBuf>,
    /// Why it did not.
    refused: Option<String>,
    curves: Option<Curves>,
    /// What is measured, or was.
    pub(crate) benchmark: Benchmark,
    /// The names of what is shown.
    labels: [Vec<String>; 2],
    /// The cell under the pointer.
    hovered: Option<Cell>,
}

impl LaboratoryRoom {
    /// Nothing is computed yet.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self {
            worker: Worker::new(Arc::clone(&host)),
            host,
            asked: None,
            answered: None,
            outcome: None,
            error: None,
            opening: None,
            refused: None,
            curves: None,
            benchmark: Benchmark::default(),
            labels: Default::default(),
            hovered: None,
        }
    }

    /// The last outcome.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.as_ref()
    }

    /// The benchmark.
    pub fn benchmark(&self) -> &Benchmark {
        &self.benchmark
    }

    /// Whether what is shown is not yet what was asked for.
    pub fn is_computing(&self) -> bool {
        self.worker.is_busy()
    }

    /// Shows everything, and takes what the user does. Returns a command, if its button was pressed.
    pub fn ui(
        &mut self,
        ui: &mut Ui,
        state: &mut State,
        look: Look,
        side: bool,
    ) -> Option<Command> {
        Panel::bottom("readout").resizable(false).exact_size(44.0).frame(panel(ui, 16, 8)).show(
            ui,
            |ui| {
                self.readout(ui, self.hovered.or(state.chosen));
            },
        );
        let file = self.file(state);
        let asked = if side {
            side::show(ui, "knobs", |ui| controls::show(ui, state, file.as_deref()))
        } else {
            None
        };
        let mut command = None;
        match asked {
            Some(Asked::Command(asked)) => command = Some(asked),
            Some(Asked::Random) => {
                self.opening = None;
                state.inputs.source = TokenSource::Seed;
            }
            None => {}
        }
        self.exchange(ui, state);
        CentralPanel::default().frame(panel(ui, 0, 0)).show(ui, |ui| {
            ScrollArea::vertical().auto_shrink(false).show(ui, |ui| {
                Frame::new().inner_margin(Margin::same(12)).show(ui, |ui| {
                    command = Self::bar(ui, state).or(command);
                    self.contents(ui, state, look);
                    ui.separator();
                    command = self.benchmark.show(ui, &state.inputs).or(command);
                });
            });
        });
        command
    }

    /// What is shown, and A.
    fn bar(ui: &mut Ui, state: &mut State) -> Option<Command> {
        let mut command = None;
        ui.horizontal_wrapped(|ui| {
            ui.selectable_value(
                &mut state.shown,
                Shown::Weights,
                if state.pinned.is_some() { "B: weights" } else { "Weights" },
            )
            .on_hover_text("The weights of the present state.");
            ui.selectable_value(&mut state.shown, Shown::Scores, "Scores")
                .on_hover_text("What softmax gets.");
            if state.pinned.is_some() {
                ui.selectable_value(&mut state.shown, Shown::Pinned, "A: pinned")
                    .on_hover_text("The state that was pinned.");
                ui.selectable_value(&mut state.shown, Shown::Difference, "B − A")
                    .on_hover_text("What changed since.");
            }
            ui.separator();
            for (button, is_there) in
                [(Command::PinA, true), (Command::ForgetA, state.pinned.is_some())]
            {
                if is_there && ui.button(button.name()).on_hover_text(button.tooltip()).clicked() {
                    command = Some(button);
                }
            }
            explain(ui, "A and B", A_AND_B);
            ui.separator();
            ui.label("Heatmap");
            explain(ui, "Heatmap", heatmap::EXPLANATION);
        });
        if let Some(pinned) = &state.pinned {
            ui.add(Label::new(remark(format!("A: {}", controls::in_words(pinned)))).wrap());
        }
        command
    }

    fn contents(&mut self, ui: &mut Ui, state: &mut State, look: Look) {
        self.errors(ui);
        self.status(ui);
        let Some(outcome) = &mut self.outcome else { return };
        outcome.picture.set_palette(outcome.palette(look));
        let room = ui.available_width();
        let beside = room >= 2.0 * CURVES + 260.0;
        let map_room = if beside { room - CURVES - 16.0 } else { room };
        let large = (ui.clip_rect().height() - 150.0).clamp(240.0, map_room.max(240.0));
        let mut hovered = None;
        ui.horizontal_top(|ui| {
            let pointing = matrix(ui, outcome, &self.labels, state, map_room, large);
            hovered = pointing.hovered;
            if beside {
                ui.add_space((room - CURVES - ui.min_rect().width()).max(8.0));
                ui.vertical(|ui| {
                    ui.set_width(CURVES - 16.0);
                    curves(ui, &mut self.curves, outcome, state.chosen, 1);
                });
            }
        });
        if hovered != self.hovered {
            self.hovered = hovered;
            ui.ctx().request_repaint();
        }
        if !beside {
            ui.separator();
            curves(ui, &mut self.curves, outcome, state.chosen, if room > 480.0 { 2 } else { 1 });
        }
    }

    /// Why nothing new is shown.
    fn errors(&mut self, ui: &mut Ui) {
        let color = ui.visuals().error_fg_color;
        if let Some(error) = &self.error {
            ui.add(Label::new(RichText::new(error).color(color)).wrap());
        }
        if let Some(refused) = &self.refused
            && message::show(ui, refused, color, "Dismiss")
        {
            self.refused = None;
        }
    }

    /// How long it took, or how far it is.
    fn status(&self, ui: &mut Ui) {
        ui.scope(|ui| {
            ui.set_height(ui.text_style_height(&TextStyle::Small));
            let waited = self.asked.as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed());
            if self.is_late() && waited > PATIENCE {
                let progress = self.worker.progress();
                ui.add(ProgressBar::new(progress).desired_width(160.0).desired_height(8.0))
                    .accessible_name("Computing");
                return;
            }
            let Some(outcome) = &self.outcome else { return };
            let took =
                format!("{} in {:.1} ms", outcome.title(), 1000.0 * outcome.took.as_secs_f64());
            ui.label(remark(outcome.note.map_or(took, str::to_owned)).weak());
        });
    }

    /// The cell in words.
    fn readout(&self, ui: &mut Ui, cell: Option<Cell>) {
        ui.take_available_space();
        let found = self
            .outcome
            .as_ref()
            .zip(cell)
            .filter(|(outcome, (row, col))| outcome.side > *row.max(col));
        let Some((outcome, (row, col))) = found else {
            let hint = "Point at a cell to read its numbers; click to keep its row for the curves.";
            ui.add(Label::new(RichText::new(hint).weak()).truncate());
            return;
        };
        let n = outcome.request.inputs.tokens;
        let number = |name: &str, matrix: &[f32], n: usize| {
            let x = (row < n && col < n).then(|| matrix.get(row * n + col)).flatten()?;
            Some(format!("{name} {}", numbers::spoken(*x)))
        };
        let pinned = outcome.pinned.as_ref().zip(outcome.request.pinned.as_ref());
        let parts = [
            number("score", &outcome.scores, n),
            number("weight", &outcome.weights, n),
            pinned.and_then(|(matrix, inputs)| number("weight in A", matrix, inputs.tokens)),
            (outcome.request.shown == Shown::Difference)
                .then(|| number("B − A", &outcome.numbers, outcome.side))
                .flatten(),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let [query, key] = [(0, row), (1, col)]
            .map(|(side, i)| self.labels[side].get(i).map_or("", String::as_str));
        let text = format!("query {query}, key {key}:  {}", parts.join(", "));
        ui.add(Label::new(RichText::new(text).monospace()).truncate());
    }
}

/// Shows the matrix; a brush paints on it.
fn matrix(
    ui: &mut Ui,
    outcome: &Outcome,
    [rows, cols]: &[Vec<String>; 2],
    state: &mut State,
    room: f32,
    large: f32,
) -> Pointing {
    let name = outcome.title();
    let map = Heatmap {
        name,
        numbers: &outcome.numbers,
        row_labels: rows,
        col_labels: cols,
        picture: &outcome.picture,
        captions: Some(["attending from", "attending to"]),
        terms: ["query", "key", if name == "Scores" { "score" } else { "weight" }],
        pointed: state.chosen,
        marks: Marks::default(),
        edited: &[],
        large,
        paints: state.brush.is_some(),
    };
    let pointing = map.show(ui, room, &mut state.view);
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

fn curves(
    ui: &mut Ui,
    kept: &mut Option<Curves>,
    outcome: &Outcome,
    chosen: Option<Cell>,
    columns: usize,
) {
    let n = outcome.request.inputs.tokens;
    let row = chosen.map_or(n - 1, |(row, _)| row.min(n - 1));
    let curves = match kept.take() {
        Some(curves) if curves.row == row => curves,
        _ => Curves::new(outcome, row),
    };
    // Not by the labels, which are those of A if that is shown.
    let name = shortened(&files::name(outcome.file.as_deref(), 0, row).text, LONGEST_NAME);
    heading(ui, &format!("The row of {name}"), OF_THE_ROW);
    curves.show(ui, outcome, columns);
    *kept = Some(curves);
}
