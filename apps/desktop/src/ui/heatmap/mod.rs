//! The heatmap: one texture, one texel a cell, and what is written on and around it.
//!
//! A frame costs one textured rectangle whatever the number of cells, and finding the cell under the pointer is one division.

mod geometry;
mod paint;

use egui::{Event, EventFilter, Key, Response, Role, Sense, TextureId, Ui, WidgetInfo};

use self::geometry::Geometry;
use super::colors::Palette;

/// (row, column).
pub type Cell = (usize, usize);

/// A matrix to be shown.
pub struct Heatmap<'a> {
    /// What it shows, for those who cannot see it: "Scores".
    pub name: &'a str,
    /// The numbers, row by row.
    pub numbers: &'a [f32],
    /// One for each row.
    pub row_labels: &'a [String],
    /// One for each column.
    pub col_labels: &'a [String],
    /// How numbers become colours.
    pub palette: Palette,
    /// The picture that [`Palette::image`] made of the numbers, and that of [`Palette::bar`].
    pub textures: Option<[TextureId; 2]>,
    /// What the rows and the columns stand for: "attending from", "attending to".
    pub captions: Option<[&'a str; 2]>,
    /// The cell to draw a crosshair on.
    pub pointed: Option<Cell>,
    /// The rows to mark, as the query's and as the key's.
    pub marked: [Option<usize>; 2],
}

/// What the user did.
pub struct Pointing {
    /// Of the cells.
    pub response: Response,
    /// The cell under the pointer.
    pub hovered: Option<Cell>,
    /// The cell clicked on, or reached with the arrow keys.
    pub chosen: Option<Cell>,
}

impl Heatmap<'_> {
    /// The width that [`show`](Self::show) takes where there is room for `max_width`.
    pub fn width(&self, ui: &Ui, max_width: f32) -> f32 {
        Geometry::new(self, ui, max_width).size().x
    }

    /// Shows it, no wider than `max_width`.
    pub fn show(&self, ui: &mut Ui, max_width: f32) -> Pointing {
        let geometry = Geometry::new(self, ui, max_width);
        let (_, whole) = ui.allocate_space(geometry.size());
        let cells = geometry.cells(whole.min);
        let response = ui.interact(cells, ui.scope_id().with((self.name, "cells")), Sense::click());
        let hovered = response.hover_pos().and_then(|at| geometry.cell_at(at - cells.min));
        if response.clicked() {
            response.request_focus();
        }
        let clicked = response.interact_pointer_pos().filter(|_| response.clicked());
        let chosen = clicked.and_then(|at| geometry.cell_at(at - cells.min)).or_else(|| self.arrow_keys(ui, &response));
        response.widget_info(|| WidgetInfo::labeled(Role::Image, true, format!("Heatmap of {}", self.name)));
        if ui.is_rect_visible(whole) {
            paint::paint(self, ui, &geometry, cells, &response, hovered);
        }
        Pointing { response, hovered, chosen }
    }

    fn rows(&self) -> usize {
        self.row_labels.len()
    }

    fn cols(&self) -> usize {
        self.col_labels.len()
    }

    /// The cell that the arrow keys reach while the heatmap has the focus.
    fn arrow_keys(&self, ui: &Ui, response: &Response) -> Option<Cell> {
        if !response.has_focus() || self.numbers.is_empty() {
            return None;
        }
        let filter = EventFilter { horizontal_arrows: true, vertical_arrows: true, ..EventFilter::default() };
        ui.memory_mut(|memory| memory.set_focus_lock_filter(response.id, filter));
        let mut reached = None;
        for event in ui.input(|input| input.events.clone()) {
            let Event::Key { key, pressed: true, .. } = event else { continue };
            let (down, right) = match key {
                Key::ArrowUp => (-1, 0),
                Key::ArrowDown => (1, 0),
                Key::ArrowLeft => (0, -1),
                Key::ArrowRight => (0, 1),
                _ => continue,
            };
            let (row, col) = reached.or(self.pointed).unwrap_or_default();
            reached = Some((
                row.saturating_add_signed(down).min(self.rows() - 1),
                col.saturating_add_signed(right).min(self.cols() - 1),
            ));
        }
        reached
    }
}
