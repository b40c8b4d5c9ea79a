//! The window's contents.

use egui::{CentralPanel, Context, Frame, Label, Margin, Panel, RichText, ScrollArea, Ui};
use regard_walkthrough::{Error, Example, Walkthrough};

use super::{Cache, State, checks, explanation, sidebar, steps, style, why_scale};

/// The program, without its window.
pub struct App {
    /// What the user chose.
    pub state: State,
    cache: Cache,
}

impl App {
    /// Opens an example.
    pub fn new(ctx: &Context, example: Example) -> Self {
        style::apply(ctx);
        let state = State::new(example);
        let cache = Cache::new(ctx, &state);
        Self { state, cache }
    }

    /// What is shown: the walkthrough of the present state.
    ///
    /// # Errors
    /// Where the kernels refuse the settings.
    pub fn walkthrough(&self) -> Result<&Walkthrough, &Error> {
        self.cache.walkthrough()
    }

    /// Shows everything, and takes what the user does.
    pub fn ui(&mut self, ui: &mut Ui) {
        let wide = ui.available_width() >= 1100.0;
        Panel::bottom("explanation").resizable(false).exact_size(68.0).frame(panel(ui, 16, 8)).show(ui, |ui| {
            ui.take_available_space();
            if let Ok(walkthrough) = self.cache.walkthrough() {
                explanation::show(ui, &self.state, walkthrough);
            }
        });
        let width = if wide { 288.0 } else { 272.0 };
        Panel::left("sidebar").resizable(false).exact_size(width).frame(panel(ui, 16, 12)).show(ui, |ui| {
            sidebar::show(ui, &mut self.state, self.cache.walkthrough().ok());
        });
        self.cache.update(ui.ctx(), &self.state);
        CentralPanel::default().frame(panel(ui, 0, 0)).show(ui, |ui| self.central(ui));
    }

    fn central(&mut self, ui: &mut Ui) {
        let broken = self.cache.walkthrough().ok().and_then(|walkthrough| walkthrough.broken.clone());
        if let Some(broken) = broken {
            banner(ui, &broken);
        }
        let mut hovered = None;
        // Each example starts at its first step.
        ScrollArea::vertical().id_salt(self.state.example).auto_shrink(false).show(ui, |ui| {
            Frame::new().inner_margin(Margin::same(12)).show(ui, |ui| hovered = self.example(ui));
        });
        if hovered != self.state.hovered {
            self.state.hovered = hovered;
            ui.ctx().request_repaint();
        }
    }

    /// Shows the example. Returns the cell under the pointer.
    fn example(&mut self, ui: &mut Ui) -> Option<super::At> {
        let example = self.state.example;
        ui.heading(example.title());
        ui.add(Label::new(example.summary()).wrap());
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
        let hovered = steps::show(ui, &mut self.state, &self.cache, walkthrough);
        checks::show(ui, &walkthrough.checks);
        hovered
    }
}

impl eframe::App for App {
    fn ui(&mut self, ui: &mut Ui, _frame: &mut eframe::Frame) {
        self.ui(ui);
    }
}

fn panel(ui: &Ui, x: i8, y: i8) -> Frame {
    Frame::new().fill(ui.visuals().panel_fill).inner_margin(Margin::symmetric(x, y))
}

/// What leaving a step out broke.
fn banner(ui: &mut Ui, text: &str) {
    let color = ui.visuals().warn_fg_color;
    Frame::new().fill(color.gamma_multiply(0.12)).inner_margin(Margin::symmetric(16, 8)).show(ui, |ui| {
        ui.set_width(ui.available_width());
        ui.add(Label::new(RichText::new(text).color(color)).wrap());
    });
}
