//! The room: its panels and their contents.

use std::sync::Arc;

use egui::{
    CentralPanel, Context, Frame, Label, Margin, Panel, ProgressBar, RichText, ScrollArea, Ui,
};

use super::controls::{self, Asked};
use super::grid::Thumbnails;
use super::opened::{Opened, Selected};
use super::{AttentionSource, Shown, State, bar, lines};
use regard_walkthrough::Marks;

use crate::colors::Look;
use crate::heatmap::{Cell, Heatmap};
use crate::style::panel;
use crate::task::{PATIENCE, Task};
use crate::{Command, Host, message, numbers, side};
use regard_figure::Matrix;
use regard_heads::Part;

/// The view of a [`State`].
pub struct HeadsRoom {
    host: Arc<dyn Host>,
    opening: Option<Opening>,
    opened: Option<Arc<Opened>>,
    /// The source that could not be opened, and the reason.
    failed: Option<(AttentionSource, String)>,
    selecting: Option<(Part, Task<Selected>)>,
    selected: Option<Selected>,
    thumbnails: Thumbnails,
    /// The cell under the pointer.
    hovered: Option<Cell>,
}

/// A file that is being read.
struct Opening {
    source: AttentionSource,
    /// Whether the user has just asked for it. Otherwise the session names it.
    anew: bool,
    task: Task<Opened>,
}

impl Opening {
    fn start(host: &Arc<dyn Host>, ctx: &Context, source: AttentionSource, anew: bool) -> Self {
        let (files, theirs) = (Arc::clone(host), source.clone());
        let task = Task::start(&**host, ctx, "heads", move |promise| {
            Opened::open(&*files, theirs, &|part| promise.tell(part)).map_err(|e| e.to_string())
        });
        Self { source, anew, task }
    }
}

impl HeadsRoom {
    /// Nothing has been read yet.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self {
            host,
            opening: None,
            opened: None,
            failed: None,
            selecting: None,
            selected: None,
            thumbnails: Thumbnails::default(),
            hovered: None,
        }
    }

    /// Begins to read a file. The view stays until it is read.
    pub fn open(&mut self, ctx: &Context, source: AttentionSource) {
        self.failed = None;
        self.opening = Some(Opening::start(&self.host, ctx, source, true));
    }

    /// Stops reading.
    pub fn cancel(&mut self, state: &mut State) {
        if let Some(opening) = self.opening.take()
            && !opening.anew
        {
            state.source = self.last_source();
        }
    }

    /// The attention that was read last.
    pub fn opened(&self) -> Option<&Opened> {
        self.opened.as_deref()
    }

    /// The matrix that is shown, if there is one.
    pub fn selected(&self) -> Option<&Selected> {
        self.selected.as_ref()
    }

    /// Why the last file could not be opened.
    pub fn error(&self) -> Option<&str> {
        self.failed.as_ref().map(|(_, message)| message.as_str())
    }

    /// Whether a thread is at work.
    pub fn is_busy(&self) -> bool {
        self.opening.is_some() || self.selecting.is_some()
    }

    /// The matrix that is shown, to export it.
    pub fn matrix(&self, look: Look) -> Option<Matrix> {
        self.opened
            .as_ref()
            .zip(self.selected.as_ref())
            .map(|(opened, selected)| selected.matrix(opened, look))
    }

    /// The attention that the state names, if it has been read.
    fn here(&self, state: &State) -> Option<Arc<Opened>> {
        self.opened.clone().filter(|opened| opened.source == state.source)
    }

    /// The source that was opened last, or the sample.
    fn last_source(&self) -> AttentionSource {
        self.opened.as_ref().map_or_else(AttentionSource::default, |opened| opened.source.clone())
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
        Panel::bottom("readout").resizable(false).exact_size(44.0).frame(panel(ui, 16, 8)).show(
            ui,
            |ui| {
                self.readout(ui, self.hovered.or(state.chosen), state);
            },
        );
        let opened = self.here(state);
        let asked = if side {
            side::show(ui, "file", |ui| controls::show(ui, opened.as_deref(), state))
        } else {
            None
        };
        CentralPanel::default().frame(panel(ui, 0, 0)).show(ui, |ui| {
            Frame::new()
                .inner_margin(Margin::same(12))
                .show(ui, |ui| self.central(ui, state, look));
        });
        match asked {
            Some(Asked::Command(command)) => Some(command),
            Some(Asked::Sample) => {
                self.open(ui.ctx(), AttentionSource::Sample);
                None
            }
            None => None,
        }
    }

    /// Takes the results of the threads and starts what is missing.
    fn exchange(&mut self, ctx: &Context, state: &mut State) {
        if let Some(outcome) = self.opening.as_ref().and_then(|opening| opening.task.take())
            && let Some(opening) = self.opening.take()
        {
            self.read(outcome, opening, state);
        }
        let is_here = self.here(state).is_some();
        let has_failed = self.failed.as_ref().is_some_and(|(source, _)| *source == state.source);
        if is_here {
            self.select(ctx, state);
        } else {
            (self.selected, self.selecting) = (None, None);
            if !has_failed && self.opening.is_none() {
                self.opening = Some(Opening::start(&self.host, ctx, state.source.clone(), false));
            }
        }
        if self.is_busy() {
            ctx.request_repaint_after(PATIENCE / 2);
        }
    }

    /// Starts to compute the matrix that is to be shown, if it is another.
    fn select(&mut self, ctx: &Context, state: &mut State) {
        let Some(opened) = &self.opened else { return };
        state.limit(opened.maps.shape(), opened.maps.is_self_attention());
        if let Some(outcome) = self.selecting.as_ref().and_then(|(_, task)| task.take()) {
            self.selecting = None;
            match outcome {
                Ok(selected) => self.selected = Some(selected),
                Err(message) => {
                    self.failed = Some((state.source.clone(), message));
                    state.shown = Shown::Grid;
                }
            }
        }
        let Some(part) = state.part() else {
            (self.selected, self.selecting) = (None, None);
            return;
        };
        // The matrix that is being computed counts, or else the one that is shown.
        let asked = self.selecting.as_ref().map(|(asked, _)| *asked);
        if asked.or_else(|| self.selected.as_ref().map(|selected| selected.part)) != Some(part) {
            let opened = Arc::clone(opened);
            let task = Task::start(&*self.host, ctx, "heads", move |promise| {
                let progress = |done: f32| promise.tell(done);
                opened.select(part, &progress).map_err(|e| e.to_string())
            });
            self.selecting = Some((part, task));
        }
    }

    /// Takes a file that was read, or the reason why it could not be.
    fn read(&mut self, outcome: Result<Opened, String>, opening: Opening, state: &mut State) {
        match outcome {
            Ok(opened) => {
                if opening.anew {
                    *state = State {
                        order: state.order,
                        own_scale: state.own_scale,
                        ..State::of(opening.source.clone())
                    };
                }
                // A message about another file stays until the user has seen it.
                self.failed.take_if(|(failed, _)| opening.anew || *failed == opened.source);
                self.opened = Some(Arc::new(opened));
                (self.selected, self.selecting) = (None, None);
                self.thumbnails.clear();
            }
            Err(message) => {
                let message = match &opening.source {
                    AttentionSource::Sample => message,
                    AttentionSource::File(path) => {
                        format!("{} was not opened: {message}", path.display())
                    }
                };
                // The session keeps naming the file, which may come back.
                self.failed = Some((opening.source, message));
            }
        }
    }

    fn central(&mut self, ui: &mut Ui, state: &mut State, look: Look) {
        self.messages(ui, state);
        let Some(opened) = self.here(state) else { return };
        bar::show(ui, &opened, state);
        ui.add_space(2.0);
        if state.shown == Shown::Grid {
            self.hovered = None;
            self.thumbnails.show(ui, &opened, state, look);
        } else {
            self.matrix_ui(ui, &opened, state, look);
        }
    }

    /// Shows what went wrong, and the progress of reading.
    fn messages(&mut self, ui: &mut Ui, state: &mut State) {
        let is_here = self.here(state).is_some();
        if let Some((_, message)) = &self.failed {
            // Without the message, the file that the session names is read again.
            let button = if is_here { "Dismiss" } else { "Try again" };
            if message::show(ui, message, ui.visuals().error_fg_color, button) {
                self.failed = None;
            }
        }
        let mut cancelled = false;
        if let Some(opening) =
            self.opening.as_ref().filter(|o| o.task.elapsed() > PATIENCE || !is_here)
        {
            ui.horizontal(|ui| {
                ui.add(
                    ProgressBar::new(opening.task.progress())
                        .desired_width(200.0)
                        .desired_height(10.0),
                )
                .accessible_name("Opening");
                cancelled = self.opened.is_some() && ui.button("Cancel").clicked();
            });
        }
        if cancelled {
            self.cancel(state);
        }
        if let Some((_, job)) = self.selecting.as_ref().filter(|(_, job)| job.elapsed() > PATIENCE)
        {
            ui.add(ProgressBar::new(job.progress()).desired_width(200.0).desired_height(10.0))
                .accessible_name("Computing");
        }
    }

    /// Shows a matrix as a heatmap or as lines.
    fn matrix_ui(&mut self, ui: &mut Ui, opened: &Opened, state: &mut State, look: Look) {
        let Some(selected) = &mut self.selected else { return };
        selected.set_look(look);
        bar::title(ui, &selected.title);
        if state.lines {
            self.hovered = None;
            lines::show(ui, opened, selected, state);
            return;
        }
        let [rows, cols] = &opened.labels;
        let large = (ui.available_height() - 60.0).max(200.0);
        let hovered = ScrollArea::vertical()
            .auto_shrink(false)
            .show(ui, |ui| {
                let map = Heatmap {
                    name: &selected.title,
                    numbers: &selected.numbers,
                    masked: f32::NEG_INFINITY,
                    row_labels: rows,
                    col_labels: cols,
                    picture: &selected.picture,
                    captions: Some(["attending from", "attending to"]),
                    terms: ["query", "key", "weight"],
                    pointed: state.chosen,
                    marks: Marks::default(),
                    edited: &[],
                    large,
                    paints: false,
                };
                let pointing = map.show(ui, ui.available_width(), &mut state.view);
                if let Some((row, _)) = pointing.chosen {
                    state.chosen = pointing.chosen;
                    state.around = row;
                }
                pointing.hovered
            })
            .inner;
        if hovered != self.hovered {
            self.hovered = hovered;
            ui.ctx().request_repaint();
        }
    }

    /// Shows the cell in words.
    fn readout(&self, ui: &mut Ui, cell: Option<Cell>, state: &State) {
        ui.take_available_space();
        let found = self.opened.as_ref().zip(self.selected.as_ref()).zip(cell);
        let text = found.and_then(|((opened, selected), (row, col))| {
            let [rows, cols] = &opened.labels;
            let (query, key, weight) = (rows.get(row)?, cols.get(col)?, selected.number(row, col)?);
            Some(format!(
                "query {row} {query}, key {col} {key}: weight {}",
                numbers::spoken(weight)
            ))
        });
        let hint = match state.shown {
            Shown::Grid => "Click a head to enlarge it.",
            _ if state.lines => "Point at a token to see only its lines; click to keep them.",
            _ => "Point at a cell to read its weight.",
        };
        ui.add(match text {
            Some(text) => Label::new(RichText::new(text).monospace()).truncate(),
            None => Label::new(RichText::new(hint).weak()).truncate(),
        });
    }
}
