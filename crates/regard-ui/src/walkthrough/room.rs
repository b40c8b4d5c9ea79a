//! The room: its panels and their contents.

use egui::{CentralPanel, Frame, Label, Margin, Panel, RichText, ScrollArea, TextStyle, Ui};
use regard_walkthrough::{Error, StepKey, Walkthrough};

use super::edit::Edit;
use super::own_tokens::OwnTokens;
use super::steps::Steps;
use super::{At, Cache, Picked, State, checks, explanation, sidebar, top, why_scale};
use crate::colors::Look;
use crate::style::{self, panel};
use crate::{Command, side};

/// The view of a [`State`].
pub struct WalkthroughRoom {
    cache: Cache,
    edit: Edit,
    own_tokens: OwnTokens,
    /// The step that the next frame scrolls to.
    reveal: Option<StepKey>,
}

impl WalkthroughRoom {
    /// Computes the walkthrough.
    pub fn new(state: &State, look: Look) -> Self {
        let cache = Cache::new(state, look);
        Self { cache, edit: Edit::default(), own_tokens: OwnTokens::default(), reveal: None }
    }

    /// The walkthrough of the present state.
    ///
    /// # Errors
    /// If the kernels refuse the settings.
    pub fn walkthrough(&self) -> Result<&Walkthrough, &Error> {
        self.cache.walkthrough()
    }

    /// Draws the room and handles the user's input. Returns the command that was chosen.
    pub fn ui(
        &mut self,
        ui: &mut Ui,
        state: &mut State,
        look: Look,
        side: bool,
    ) -> Option<Command> {
        let Self { cache, edit, own_tokens, reveal } = self;
        if side {
            side::show(ui, "example", |ui| {
                sidebar::show(ui, state, own_tokens, cache.walkthrough().ok());
            });
        }
        if cache.update(state, look) {
            edit.keep_up(cache.walkthrough().ok());
        }
        let height = (0.18 * ui.available_height()).clamp(64.0, 160.0);
        let bottom = Panel::bottom("explanation")
            .resizable(false)
            .exact_size(height)
            .frame(panel(ui, 16, 8));
        let clicked = bottom.show(ui, |ui| {
            ui.take_available_space();
            explanation::show(ui, state, cache.walkthrough().ok()?)
        });
        if let Some(at) = clicked.inner {
            *reveal = Some(at.step);
            state.picked = Some(Picked::Cell(at));
        }
        let line = Panel::top("tokens").resizable(false).frame(panel(ui, 16, 6));
        let chosen = line.show(ui, |ui| top::show(ui, state, cache.walkthrough().ok()?)).inner;
        CentralPanel::default().frame(panel(ui, 0, 0)).show(ui, |ui| self.central(ui, state));
        chosen
    }

    fn central(&mut self, ui: &mut Ui, state: &mut State) {
        let broken =
            self.cache.walkthrough().ok().and_then(|walkthrough| walkthrough.broken.clone());
        if let Some(broken) = broken {
            banner(ui, &broken);
        }
        let mut hovered = None;
        // Each example starts at its first step.
        ScrollArea::vertical().id_salt(state.example()).auto_shrink(false).show(ui, |ui| {
            Frame::new()
                .inner_margin(Margin::symmetric(16, 16))
                .show(ui, |ui| hovered = self.example(ui, state));
        });
        if hovered != state.hovered {
            state.hovered = hovered;
            ui.ctx().request_repaint();
        }
    }

    /// Shows the example. Returns the cell under the pointer.
    fn example(&mut self, ui: &mut Ui, state: &mut State) -> Option<At> {
        ui.heading(state.example().title());
        ui.add(Label::new(state.example().summary()).wrap());
        if let Some(python) = state.inputs.python() {
            ui.label(
                RichText::new("The same numbers in PyTorch:").text_style(TextStyle::Small).weak(),
            );
            ui.add(Label::new(RichText::new(python).monospace()).selectable(true));
        }
        ui.add_space(16.0);
        let walkthrough = match self.cache.walkthrough() {
            Ok(walkthrough) => walkthrough,
            Err(error) => {
                ui.colored_label(ui.visuals().error_fg_color, error.to_string());
                return None;
            }
        };
        if let Some(rows) = self.cache.why_scale() {
            why_scale::show(ui, rows);
            ui.add_space(16.0);
        }
        let mut steps = Steps {
            cache: &self.cache,
            edit: &mut self.edit,
            reveal: self.reveal.take(),
            left: 0.0,
        };
        let hovered = steps.show(ui, state, walkthrough);
        ui.add_space(16.0);
        if let Some(lines) = walkthrough.in_four_lines() {
            checks::in_four_lines(ui, &lines);
            ui.add_space(16.0);
        }
        checks::show(ui, &walkthrough.checks);
        hovered
    }
}

/// Tells what leaving out a step broke.
fn banner(ui: &mut Ui, text: &str) {
    let color = ui.visuals().warn_fg_color;
    Frame::new()
        .fill(style::tinted(ui.visuals(), color))
        .inner_margin(Margin::symmetric(16, 8))
        .show(ui, |ui| {
            ui.set_width(ui.available_width());
            ui.add(Label::new(text).wrap());
        });
}
