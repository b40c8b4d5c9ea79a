//! The room: its panels and their contents.

use egui::{CentralPanel, Frame, Label, Margin, Panel, RichText, ScrollArea, Ui};
use regard_figure::Plot;
use regard_walkthrough::{Error, StepKey, Walkthrough};

use super::ReadingMode;
use super::edit::Edit;
use super::outline::Outline;
use super::own_tokens::OwnTokens;
use super::steps::StepsPage;
use super::{
    At, Cache, Picked, WalkthroughState, checks, explanation, lesson, rows, sidebar, steps, top,
    why_scale,
};
use crate::colors::Look;
use crate::plots::PlotName;
use crate::style::{self, panel};
use crate::{Command, side};

/// From this width on, the outline stands beside the page. In a narrower page it is a strip above it.
const BESIDE: f32 = 760.0;

/// A page of this width has text of the usual size. On a wider one, the text grows with the width, up to a limit.
const USUAL: f32 = 960.0;
const MOST_ENLARGED: f32 = 2.0;

/// A lower page has no strip.
const TALL: f32 = 320.0;

/// The least height of the explanation: its heading, and a fraction.
const LEAST: f32 = 104.0;

/// The view of a [`WalkthroughState`].
pub(crate) struct WalkthroughRoom {
    cache: Cache,
    edit: Edit,
    own_tokens: OwnTokens,
    /// The step that the next frame scrolls to.
    reveal: Option<StepKey>,
    /// The step at the top of the page.
    here: Option<StepKey>,
    /// The step that was chosen in the outline, until the page is scrolled. The last steps cannot reach the top.
    chosen: Option<StepKey>,
    /// Whether the pointer has been down since the last change.
    in_gesture: bool,
    /// The cell whose computation is shown, and when it and its step were reached.
    moved: (Option<At>, [f64; 2]),
    /// Whether the banner tells all effects of leaving out a step.
    is_banner_open: bool,
    /// The steps from the one at the top of the page on, each with its place on the screen.
    tops: Vec<(StepKey, f32)>,
    /// The step that the next frame moves to its earlier place.
    keep: Option<(StepKey, f32)>,
}

impl WalkthroughRoom {
    /// Computes the walkthrough.
    pub(crate) fn new(state: &WalkthroughState, look: Look) -> Self {
        let cache = Cache::new(state, look);
        Self {
            cache,
            edit: Edit::default(),
            own_tokens: OwnTokens::default(),
            reveal: None,
            here: None,
            chosen: None,
            in_gesture: false,
            moved: (None, [f64::NEG_INFINITY; 2]),
            is_banner_open: false,
            tops: Vec::new(),
            keep: None,
        }
    }

    /// The walkthrough of the present state.
    pub(crate) fn walkthrough(&self) -> Result<&Walkthrough, &Error> {
        self.cache.walkthrough()
    }

    /// Draws the room and handles the user's input. Returns the command that was chosen.
    pub(crate) fn ui(
        &mut self,
        ui: &mut Ui,
        state: &mut WalkthroughState,
        look: Look,
        side: bool,
    ) -> Option<Command> {
        let command = if side && state.reading != ReadingMode::Presented {
            let Self { cache, own_tokens, .. } = self;
            side::show(ui, "example", |ui| sidebar::show(ui, state, own_tokens, cache))
        } else {
            None
        };
        let is_presented = state.reading == ReadingMode::Presented;
        let is_down = ui.input(|input| input.pointer.any_down());
        let before = self.cache.settings();
        if self.cache.update(state, look, self.in_gesture) {
            self.edit.keep_up(self.cache.walkthrough().ok());
            if state.settings.causal != before.causal {
                self.moved.1[1] = ui.input(|input| input.time);
            }
            if state.settings.without != before.without {
                let walkthrough = self.cache.walkthrough().ok();
                let is_there = |(key, _): &&(StepKey, f32)| {
                    walkthrough.is_some_and(|w| w.step(*key).is_some())
                };
                self.keep = self.tops.iter().find(is_there).copied();
            }
            self.in_gesture = is_down;
        }
        self.in_gesture &= is_down;
        self.movement(ui, state);
        let is_wide = ui.available_width() >= BESIDE && !is_presented;
        if is_wide {
            let width = (0.23 * ui.available_width()).clamp(216.0, 720.0);
            let beside = Panel::right("outline").resizable(false).exact_size(width);
            let chosen =
                beside.frame(panel(ui, 12, 8)).show(ui, |ui| self.outline(state)?.column(ui));
            self.go_to(state, chosen.inner);
        }
        let Self { cache, reveal, .. } = self;
        let scale = if is_presented {
            lesson::enlarged(ui)
        } else {
            (ui.available_width() / USUAL).clamp(1.0, MOST_ENLARGED)
        };
        let room = ui.available_height();
        let height = (0.18 * room).min(160.0 * scale).max(LEAST.min(0.25 * room));
        let bottom = Panel::bottom("explanation")
            .resizable(false)
            .exact_size(height)
            .frame(panel(ui, 16, 8));
        let clicked = bottom.show(ui, |ui| {
            ui.take_available_space();
            style::enlarge(ui, scale);
            explanation::show(ui, state, cache.walkthrough().ok()?)
        });
        if let Some(at) = clicked.inner {
            *reveal = Some(at.step);
            state.picked = Some(Picked::Cell(at));
        }
        if is_presented {
            let center = CentralPanel::default().frame(panel(ui, 0, 0));
            return center.show(ui, |ui| self.central(ui, state)).inner;
        }
        let line = Panel::top("tokens").resizable(false).frame(panel(ui, 16, 6));
        let chosen = line.show(ui, |ui| {
            style::enlarge(ui, scale);
            top::show(ui, state, cache.walkthrough().ok()?)
        });
        let chosen = chosen.inner;
        if !is_wide && ui.available_height() >= TALL {
            let strip = Panel::top("outline").resizable(false).frame(panel(ui, 16, 4));
            let chosen = strip.show(ui, |ui| self.outline(state)?.strip(ui));
            self.go_to(state, chosen.inner);
        }
        let center = CentralPanel::default().frame(panel(ui, 0, 0));
        let asked = center.show(ui, |ui| self.central(ui, state)).inner;
        chosen.or(command).or(asked)
    }

    /// The curves of one of this room's plots, if it is shown.
    pub(crate) fn plot(&self, state: &WalkthroughState, name: PlotName) -> Option<Plot> {
        match name {
            PlotName::Weights => {
                regard_session::walkthrough::curves(state, self.cache.walkthrough().ok()?)
            }
            PlotName::WhyScale(measure) => why_scale::plot(self.cache.why_scale()?, measure),
            _ => None,
        }
    }

    fn outline(&self, state: &WalkthroughState) -> Option<Outline<'_>> {
        let walkthrough = self.cache.walkthrough().ok()?;
        let selection = state.selection(walkthrough);
        let chosen = self.chosen.filter(|chosen| walkthrough.step(*chosen).is_some());
        let here = chosen.or(self.here);
        let shown = rows::shown(state, &walkthrough.steps);
        Some(Outline { cache: &self.cache, walkthrough, selection, here, shown })
    }

    /// Shows a step that was chosen in the outline.
    fn go_to(&mut self, state: &mut WalkthroughState, step: Option<StepKey>) {
        if let Some(step) = step {
            state.unfold(step);
            if let (true, Ok(walkthrough)) =
                (state.reading != ReadingMode::Page, self.cache.walkthrough())
            {
                let rows = rows::of_page(&walkthrough.steps);
                let row = rows.iter().position(|row| row.iter().any(|s| s.key == step));
                state.go_to(row.unwrap_or(state.at), false);
            }
            (self.reveal, self.chosen) = (Some(step), Some(step));
        }
    }

    fn central(&mut self, ui: &mut Ui, state: &mut WalkthroughState) -> Option<Command> {
        let broken =
            self.cache.walkthrough().ok().and_then(|walkthrough| walkthrough.broken.clone());
        if let Some(broken) = broken {
            banner(ui, &broken, &mut self.is_banner_open);
        }
        let (mut hovered, mut command) = (None, None);
        if ui.input(|input| input.smooth_scroll_delta.y != 0.0) {
            self.chosen = None;
        }
        // Each example starts at its first step.
        ScrollArea::vertical().id_salt(state.example()).auto_shrink(false).show(ui, |ui| {
            Frame::new().inner_margin(Margin::symmetric(16, 16)).show(ui, |ui| {
                if state.reading != ReadingMode::Presented {
                    let factor = ui.available_width() / USUAL;
                    style::enlarge(ui, factor.clamp(1.0, MOST_ENLARGED));
                }
                (hovered, command) = self.example(ui, state);
            });
        });
        if hovered != state.hovered {
            state.hovered = hovered;
            ui.ctx().request_repaint();
        }
        command
    }

    /// Notes when the cell whose computation is shown was reached. A click or a key ends its movement.
    fn movement(&mut self, ui: &Ui, state: &WalkthroughState) {
        let (now, is_skipped) = ui.input(|input| (input.time, input.pointer.any_pressed()));
        let (at, [since, of_step]) = &mut self.moved;
        if state.pointed() != at.as_ref() {
            if state.pointed().map(|at| at.step) != at.as_ref().map(|at| at.step) {
                *of_step = now;
            }
            (*at, *since) = (state.pointed().cloned(), now);
        } else if is_skipped {
            *since = f64::NEG_INFINITY;
        }
    }

    /// Shows one step of the example. Returns the cell under the pointer.
    fn one_step(&mut self, ui: &mut Ui, state: &mut WalkthroughState) -> Option<At> {
        let walkthrough = self.cache.walkthrough().ok()?;
        let mut steps = StepsPage::new(&self.cache, &mut self.edit, None, self.moved.1);
        let hovered = lesson::show(ui, state, walkthrough, &mut steps);
        (self.here, self.chosen) = (steps.here, None);
        hovered
    }

    /// Shows the example. Returns the cell under the pointer, and the command whose button was pressed.
    fn example(
        &mut self,
        ui: &mut Ui,
        state: &mut WalkthroughState,
    ) -> (Option<At>, Option<Command>) {
        if state.reading != ReadingMode::Page {
            return (self.one_step(ui, state), None);
        }
        ui.horizontal_wrapped(|ui| {
            ui.heading(state.example().title());
            lesson::begin(ui, state);
            if let Ok(walkthrough) = self.cache.walkthrough() {
                steps::switches(ui, state, walkthrough);
            }
        });
        ui.label(state.example().summary());
        if let Some(python) = state.inputs.python() {
            ui.label(RichText::new("The same numbers in PyTorch:").small().weak());
            ui.add(Label::new(RichText::new(python).monospace()).selectable(true));
        }
        ui.add_space(16.0);
        let walkthrough = match self.cache.walkthrough() {
            Ok(walkthrough) => walkthrough,
            Err(error) => {
                ui.colored_label(ui.visuals().error_fg_color, error.to_string());
                return (None, None);
            }
        };
        let mut command = None;
        if let Some(rows) = self.cache.why_scale() {
            command = why_scale::show(ui, rows);
            ui.add_space(16.0);
        }
        let mut steps =
            StepsPage::new(&self.cache, &mut self.edit, self.reveal.take(), self.moved.1);
        steps.keep = self.keep.take();
        let hovered = steps.show(ui, state, walkthrough);
        self.tops = core::mem::take(&mut steps.tops);
        if self.here != steps.here {
            self.here = steps.here;
            ui.ctx().request_repaint();
        }
        ui.add_space(16.0);
        if let Some(lines) = walkthrough.in_four_lines() {
            checks::in_four_lines(ui, &lines);
            ui.add_space(16.0);
        }
        checks::show(ui, &walkthrough.checks);
        (hovered, command)
    }
}

/// Shows the effect of leaving out a step: one sentence, and the others after a click.
fn banner(ui: &mut Ui, text: &str, is_open: &mut bool) {
    let color = ui.visuals().warn_fg_color;
    Frame::new()
        .fill(style::tinted(ui.visuals(), color))
        .inner_margin(Margin::symmetric(16, 8))
        .show(ui, |ui| {
            ui.set_width(ui.available_width());
            let first = text.find(". ").map_or(text.len(), |end| end + 1);
            let shown = if *is_open { text } else { &text[..first] };
            ui.horizontal_wrapped(|ui| {
                ui.label(shown);
                if first < text.len() {
                    let name = if *is_open { "Less" } else { "What else changes" };
                    if ui.link(name).clicked() {
                        *is_open = !*is_open;
                    }
                }
            });
        });
}
