//! The room: its panels, and what is in them.

use egui::{CentralPanel, Frame, Label, Margin, Panel, RichText, ScrollArea, Ui};
use regard_walkthrough::{Error, Walkthrough};

use super::{At, Cache, State, checks, explanation, sidebar, steps, why_scale};
use crate::ui::colors::Look;
use crate::ui::style::panel;

/// What is shown of a [`State`].
pub struct Room {
    cache: Cache,
}

impl Room {
    /// Computes the walkthrough.
    pub fn new(state: &State, look: Look) -> Self {
        Self { cache: Cache::new(state, look) }
    }

    /// The walkthrough of the present state.
    ///
    /// # Errors
    /// Where the kernels refuse the settings.
    pub fn walkthrough(&self) -> Result<&Walkthrough, &Error> {
        self.cache.walkthrough()
    }

    /// Shows everything, and takes what the user does.
    pub fn ui(&mut self, ui: &mut Ui, state: &mut State, look: Look) {
        let wide = ui.available_width() >= 1100.0;
        Panel::bottom("explanation").resizable(false).exact_size(68.0).frame(panel(ui, 16, 8)).show(ui, |ui| {
            ui.take_available_space();
            if let Ok(walkthrough) = self.cache.walkthrough() {
                explanation::show(ui, state, walkthrough);
            }
        });
        let width = if wide { 288.0 } else { 272.0 };
        Panel::left("sidebar").resizable(false).exact_size(width).frame(panel(ui, 16, 12)).show(ui, |ui| {
            sidebar::show(ui, state, self.cache.walkthrough().ok());
        });
        self.cache.update(state, look);
        CentralPanel::default().frame(panel(ui, 0, 0)).show(ui, |ui| self.central(ui, state));
    }

    fn central(&self, ui: &mut Ui, state: &mut State) {
        let broken = self.cache.walkthrough().ok().and_then(|walkthrough| walkthrough.broken.clone());
        if let Some(broken) = broken {
            banner(ui, &broken);
        }
        let mut hovered = None;
        // Each example starts at its first step.
        ScrollArea::vertical().id_salt(state.example).auto_shrink(false).show(ui, |ui| {
            Frame::new().inner_margin(Margin::same(12)).show(ui, |ui| hovered = self.example(ui, state));
        });
        if hovered != state.hovered {
            state.hovered = hovered;
            ui.ctx().request_repaint();
        }
    }

    /// Shows the example. Returns the cell under the pointer.
    fn example(&self, ui: &mut Ui, state: &mut State) -> Option<At> {
        ui.heading(state.example.title());
        ui.add(Label::new(state.example.summary()).wrap());
        ui.add_space(4.0);
        let walkthrough = match self.cache.walkthrough() {
            Ok(walkthrough) => walkthrough,
            Err(error) => {
                ui.colored_label(ui.visuals().error_fg_color, error.to_string());
                return None;
            }
        };
        if let Some(rows) = self.cache.why_scale() {
            why_scale::show(ui, rows);
            ui.add_space(4.0);
        }
        let hovered = steps::show(ui, state, &self.cache, walkthrough);
        checks::show(ui, &walkthrough.checks);
        hovered
    }
}

/// What leaving a step out broke.
fn banner(ui: &mut Ui, text: &str) {
    let color = ui.visuals().warn_fg_color;
    Frame::new().fill(color.gamma_multiply(0.12)).inner_margin(Margin::symmetric(16, 8)).show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.add(Label::new(RichText::new(text).color(color)).wrap());
    });
}
