//! The room: its panels and their contents.

use std::sync::Arc;

use egui::{CentralPanel, Context, Frame, Label, Margin, RichText, Ui};

use super::controls::{self, Asked};
use super::grid::{Marked, Thumbnails};
use super::large::Large;
use super::opened::{OpenAttention, Opened, Selected};
use super::{AttentionSource, Shown, State, bar};
use crate::colors::Look;
use crate::style::{panel, readout};
use crate::work::{self, Background, Held, Once, PATIENCE};
use crate::{Command, Host, message, side};
use regard_figure::Matrix;

/// The view of a [`State`].
pub struct HeadsRoom {
    background: Arc<Background>,
    opening: Option<Opening>,
    opened: Option<Arc<Held<Opened>>>,
    /// The source that could not be opened, and the reason.
    failed: Option<(AttentionSource, String)>,
    large: Large,
    thumbnails: Thumbnails,
}

/// A file that is being read.
struct Opening {
    source: AttentionSource,
    /// Whether the user has just asked for it. Otherwise the session names it.
    anew: bool,
    once: Once<Held<Opened>>,
}

impl Opening {
    fn start(
        background: &Arc<Background>,
        ctx: &Context,
        source: AttentionSource,
        anew: bool,
    ) -> Self {
        let question = |place| OpenAttention { place, source: source.clone() };
        let once = background.hold(ctx, question);
        Self { source, anew, once }
    }
}

impl HeadsRoom {
    /// A room that has read nothing.
    pub(crate) fn new(host: Arc<dyn Host>) -> Self {
        Self {
            background: Background::new(host),
            opening: None,
            opened: None,
            failed: None,
            large: Large::default(),
            thumbnails: Thumbnails::default(),
        }
    }

    /// Begins to read a file. The view stays until it is read.
    pub(crate) fn open(&mut self, ctx: &Context, source: AttentionSource) {
        self.failed = None;
        self.opening = Some(Opening::start(&self.background, ctx, source, true));
    }

    /// Stops reading.
    pub(crate) fn cancel(&mut self, state: &mut State) {
        if let Some(opening) = self.opening.take()
            && !opening.anew
        {
            state.source = self.last_source();
        }
    }

    /// The attention that was read last.
    pub fn opened(&self) -> Option<&Opened> {
        self.opened.as_deref().map(|opened| &**opened)
    }

    /// The matrix that is shown, if there is one.
    pub(crate) fn selected(&self) -> Option<&Selected> {
        self.large.selected()
    }

    /// The reason why the last file could not be opened.
    pub fn error(&self) -> Option<&str> {
        self.failed.as_ref().map(|(_, message)| message.as_str())
    }

    /// Whether a thread is at work.
    pub(crate) fn is_busy(&self) -> bool {
        self.opening.is_some() || self.large.is_busy()
    }

    /// The matrix that is shown, to export it.
    pub(crate) fn matrix(&self, look: Look) -> Option<Matrix> {
        self.large.matrix(look)
    }

    /// The matrix that is shown.
    pub(crate) fn large(&self) -> &Large {
        &self.large
    }

    /// The attention that the state names, if it has been read.
    fn here(&self, state: &State) -> Option<Arc<Held<Opened>>> {
        self.opened.clone().filter(|opened| opened.source == state.source)
    }

    /// The source that was opened last, or the sample.
    fn last_source(&self) -> AttentionSource {
        self.opened.as_ref().map_or_else(AttentionSource::default, |opened| opened.source.clone())
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
        readout(ui).show(ui, |ui| {
            if self.opened.is_some() {
                self.large.readout(ui, state);
            } else {
                ui.take_available_space();
                let hint = "Open a file of attention weights, or the sample.";
                ui.add(Label::new(RichText::new(hint).weak()).truncate());
            }
        });
        let opened = self.here(state);
        let asked = if side {
            side::show(ui, "file", |ui| {
                controls::show(ui, opened.as_deref().map(|opened| &**opened), state)
            })
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

    /// Takes the results of the threads, and starts what is missing.
    fn exchange(&mut self, ctx: &Context, state: &mut State) {
        if let Some(outcome) = self.opening.as_ref().and_then(|opening| opening.once.take())
            && let Some(opening) = self.opening.take()
        {
            self.read(outcome, opening, state);
        }
        let is_here = self.here(state).is_some();
        let has_failed = self.failed.as_ref().is_some_and(|(source, _)| *source == state.source);
        if is_here {
            self.select(ctx, state);
        } else {
            self.large.clear();
            if !has_failed && self.opening.is_none() {
                self.opening =
                    Some(Opening::start(&self.background, ctx, state.source.clone(), false));
            }
        }
        if self.is_busy() {
            ctx.request_repaint_after(PATIENCE / 2);
        }
    }

    /// Starts to compute the matrix to show, unless it is the present one.
    fn select(&mut self, ctx: &Context, state: &mut State) {
        let Some(opened) = &self.opened else { return };
        state.limit(opened.maps.shape(), opened.maps.is_self_attention());
        let asked = state.part().map(|part| (opened.heads(), part));
        if let Err(message) = self.large.exchange(&self.background, ctx, asked) {
            self.failed = Some((state.source.clone(), message));
            state.shown = Shown::Grid;
        }
    }

    /// Takes a file that was read, or the reason for the failure.
    fn read(&mut self, outcome: Result<Held<Opened>, String>, opening: Opening, state: &mut State) {
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
                self.large.clear();
                self.thumbnails.clear();
            }
            Err(message) => {
                let message = match &opening.source {
                    AttentionSource::Sample => message,
                    AttentionSource::File(path) => {
                        format!("{} was not opened: {message}", path.display())
                    }
                };
                // The session still names the file, which may return.
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
            self.thumbnails.show(ui, &opened, state, Marked::default(), look);
        } else {
            self.large.show(ui, state, look);
        }
    }

    /// Shows the error, and the progress of reading.
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
            self.opening.as_ref().filter(|o| o.once.elapsed() > PATIENCE || !is_here)
        {
            ui.horizontal(|ui| {
                work::bar(ui, opening.once.progress(), "Opening");
                cancelled = self.opened.is_some() && ui.button("Cancel").clicked();
            });
        }
        if cancelled {
            self.cancel(state);
        }
        self.large.progress(ui);
    }
}
