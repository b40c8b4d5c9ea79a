//! The heatmap, which draws every matrix.
//!
//! A frame costs one textured rectangle for any number of cells, and finding the cell under the pointer is one division. A matrix
//! with more cells than pixels is drawn by the largest number of each block ([`Picture`]).

mod geometry;
pub(crate) mod look;
mod navigate;
mod paint;
mod picture;
mod view;

use egui::accesskit::Live;
use egui::{Id, Pos2, Rect, Response, Role, Sense, Ui, Vec2, WidgetInfo};
use regard_walkthrough::Marks;

pub(crate) use self::geometry::widest;
use self::geometry::{Geometry, Seen};
pub use self::picture::{Blocks, Picture};
use self::view::Visible as _;
use crate::{numbers, style};
pub use regard_session::{Cell, Viewport};

/// A matrix and its display.
pub struct Heatmap<'a> {
    /// The name for a screen reader: "Scores".
    pub name: &'a str,
    /// The numbers, row by row.
    pub numbers: &'a [f32],
    /// The number that −∞, which marks a masked cell, stands for: 0 among weights, −∞ among scores.
    pub masked: f32,
    /// One label for each row.
    pub row_labels: &'a [String],
    /// One label for each column.
    pub col_labels: &'a [String],
    /// The picture of the numbers.
    pub picture: &'a Picture,
    /// The captions of the rows and the columns: "attending from", "attending to".
    pub captions: Option<[&'a str; 2]>,
    /// The words of a screen reader for a row, a column and a number: "query", "key", "weight".
    pub terms: [&'a str; 3],
    /// The cell with the crosshair: the cursor of the keyboard.
    pub pointed: Option<Cell>,
    /// The rows and columns to mark as those of the query and of the keys.
    pub marks: Marks,
    /// The cells to mark as typed over.
    pub edited: &'a [Cell],
    /// The largest height of a matrix whose numbers do not fit in its cells, and of an enlarged one.
    pub large: f32,
    /// Whether dragging paints, which the caller handles. Otherwise it moves the visible part.
    pub paints: bool,
    /// The room between the cells and their labels.
    pub inset: Inset,
    /// Whether the rows have labels. Beside a matrix with the same rows they need none.
    pub has_row_labels: bool,
    /// A number whose room the colour bar has at least, so that matrices side by side are equally large.
    pub usual_tick: &'a str,
    /// Whether the caller handles the keys even if the cells have the focus. A click does not give them the focus then.
    pub is_passive: bool,
}

/// Room between the cells and their labels, in which the caller draws: cells at the left and above, and the gap to them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inset {
    /// The cells at the left and above.
    pub cells: [usize; 2],
    /// The gap between them and the cells of the matrix.
    pub gap: Vec2,
    /// The least width of the labels at the left.
    pub label: f32,
    /// Whether anything is drawn there or over the cells.
    pub is_staged: bool,
}

/// The user's input.
pub struct Pointing {
    pub(crate) response: Response,
    pub(crate) hovered: Option<Cell>,
    /// The cell that was clicked or reached with the keyboard.
    pub(crate) chosen: Option<Cell>,
    seen: Seen,
}

impl Pointing {
    pub(crate) fn cell_at(&self, at: Pos2) -> Option<Cell> {
        self.seen.cell_at(at)
    }

    /// The visible part of a cell.
    pub(crate) fn rect(&self, cell: Cell) -> Rect {
        self.whole(cell).intersect(self.seen.frame)
    }

    /// A cell, visible or not.
    pub(crate) fn whole(&self, cell: Cell) -> Rect {
        self.seen.rect(cell)
    }
}

impl<'a> Heatmap<'a> {
    /// A matrix of weights or scores by query and key, with nothing marked. `labels` are those of the rows and of the columns.
    pub fn new(
        name: &'a str,
        numbers: &'a [f32],
        [row_labels, col_labels]: [&'a [String]; 2],
        picture: &'a Picture,
    ) -> Self {
        Self {
            name,
            numbers,
            masked: f32::NEG_INFINITY,
            row_labels,
            col_labels,
            picture,
            captions: None,
            terms: ["query", "key", "weight"],
            pointed: None,
            marks: Marks::default(),
            edited: &[],
            large: Self::LARGE,
            paints: false,
            inset: Inset::default(),
            has_row_labels: true,
            usual_tick: "",
            is_passive: false,
        }
    }

    /// The default size of a large matrix.
    pub(crate) const LARGE: f32 = 512.0;
    /// The terms for a matrix that is neither scores nor weights.
    pub(crate) const TERMS: [&'static str; 3] = ["row", "column", "value"];

    /// The maximum factor by which a small matrix is enlarged.
    pub(crate) const MOST_ENLARGED: f32 = 4.0;

    /// The distance from the left end to the cells, within `max_width`.
    pub(crate) fn left(&self, ui: &Ui, max_width: f32) -> f32 {
        Geometry::new(self, ui, max_width).cells(Pos2::ZERO).left()
    }

    pub(crate) fn size(&self, ui: &Ui, max_width: f32) -> Vec2 {
        Geometry::new(self, ui, max_width).size()
    }

    /// Whether each cell has room for its number within `max_width`.
    pub(crate) fn shows_numbers(&self, ui: &Ui, max_width: f32) -> bool {
        Geometry::new(self, ui, max_width).has_numbers
    }

    /// Whether it is drawn with its operands.
    pub(crate) fn is_staged(&self) -> bool {
        self.inset.is_staged
    }

    /// Draws the matrix as [`show`](Self::show) does. If there is room, its numbers are larger than usual, and its cells are larger
    /// than the numbers need.
    pub(crate) fn show_enlarged(
        &self,
        ui: &mut Ui,
        max_width: f32,
        view: &mut Viewport,
    ) -> Pointing {
        let size = self.size(ui, max_width);
        let factor = (max_width / size.x).min(self.large / size.y).clamp(1.0, Self::MOST_ENLARGED);
        ui.scope(|ui| {
            style::enlarge_numbers(ui, factor);
            self.show_filling(ui, [max_width, self.large], view)
        })
        .inner
    }

    /// Draws the matrix as [`show`](Self::show) does. Cells with numbers grow until they fill the width or the height.
    pub(crate) fn show_filling(
        &self,
        ui: &mut Ui,
        [max_width, height]: [f32; 2],
        view: &mut Viewport,
    ) -> Pointing {
        let mut geometry = Geometry::new(self, ui, max_width);
        if geometry.has_numbers {
            geometry.fill(max_width, height);
        }
        self.draw(ui, &geometry, view)
    }

    /// Draws the part of the matrix that `view` shows, no wider than `max_width`.
    pub fn show(&self, ui: &mut Ui, max_width: f32, view: &mut Viewport) -> Pointing {
        self.draw(ui, &Geometry::new(self, ui, max_width), view)
    }

    fn draw(&self, ui: &mut Ui, geometry: &Geometry, view: &mut Viewport) -> Pointing {
        view.limit(geometry.most_zoom());
        let (_, whole) = ui.allocate_space(geometry.size());
        let cells = geometry.cells(whole.min);
        // If the whole matrix is visible, dragging scrolls the page.
        let sense =
            if view.is_whole() && !self.paints { Sense::click() } else { Sense::click_and_drag() };
        let response = ui.interact(cells, ui.scope_id().with((self.name, "cells")), sense);
        if response.clicked() && !self.is_passive {
            response.request_focus();
        }
        let reached = navigate::navigate(self, ui, &response, geometry, cells, view);
        let seen = geometry.seen(cells, view);
        // After an arrow key, the cursor of the keyboard counts until the pointer moves.
        let resting = Id::unique("resting pointer");
        if reached.is_some() {
            let at = ui.input(|input| input.pointer.hover_pos());
            ui.data_mut(|data| data.insert_temp(resting, at));
        }
        let at = pointer(ui, &response);
        let at = at.filter(|at| ui.data(|data| data.get_temp(resting)) != Some(Some(*at)));
        let hovered = at.and_then(|at| seen.cell_at(at));
        let clicked = response.interact_pointer_pos().filter(|_| response.clicked());
        let clicked = clicked.and_then(|at| seen.cell_at(at));
        if let Some(cell) = clicked.filter(|_| ui.input(|input| input.modifiers.shift)) {
            view.pin(cell);
        }
        let chosen = clicked.or(reached);
        response.widget_info(|| {
            WidgetInfo::labeled(Role::Image, true, format!("Heatmap of {}", self.name))
        });
        self.speak(ui, &response, chosen.or(self.pointed));
        if ui.is_rect_visible(whole) {
            paint::paint(self, ui, geometry, &seen, view, &response, hovered);
        }
        Pointing { response, hovered, chosen, seen }
    }

    /// Puts the cursor into the accessibility tree. While the heatmap has the focus, each move is spoken.
    fn speak(&self, ui: &Ui, response: &Response, cursor: Option<Cell>) {
        let Some(text) = cursor.and_then(|cell| self.words(cell)) else { return };
        // This comes first, because the closure locks the context.
        let has_focus = response.has_focus();
        ui.ctx().accesskit_node_builder(response.id, |node| {
            node.set_value(text);
            if has_focus {
                node.set_live(Live::Polite);
            }
        });
    }

    /// "query cat, key sat, weight 0.42".
    pub(crate) fn words(&self, (row, col): Cell) -> Option<String> {
        let [row_term, col_term, term] = self.terms;
        let (row_label, col_label) = (self.row_labels.get(row)?, self.col_labels.get(col)?);
        let number = numbers::spoken_masked(self.number((row, col))?, self.masked);
        Some(format!(
            "{}, {}, {term} {number}",
            named(row_term, row_label),
            named(col_term, col_label)
        ))
    }

    fn rows(&self) -> usize {
        self.row_labels.len()
    }

    fn cols(&self) -> usize {
        self.col_labels.len()
    }

    /// Whether a cell shows its number. A hatch stands for the weight 0, or for the large number, that a mask puts there.
    fn is_written(&self, x: f32) -> bool {
        x != f32::NEG_INFINITY || self.masked.is_infinite()
    }

    /// A number as the cell shows it.
    fn text(&self, x: f32, decimals: usize) -> String {
        let x = if x == f32::NEG_INFINITY { self.masked } else { x };
        self.picture.palette().number(x, decimals)
    }

    fn number(&self, (row, col): Cell) -> Option<f32> {
        self.numbers.get(row * self.cols() + col).copied()
    }
}

/// The position over the cells of the pointer or of a finger.
///
/// egui reports a resting finger as a press of the secondary button. From then on, nothing is hovered until the finger leaves.
fn pointer(ui: &Ui, response: &Response) -> Option<Pos2> {
    let finger = ui.input(|input| {
        let began = input.pointer.press_origin().filter(|_| input.any_touches())?;
        input.pointer.interact_pos().filter(|_| response.rect.contains(began))
    });
    response.hover_pos().or_else(|| finger.filter(|_| response.contains_pointer()))
}

/// A term and a label: "query love", "layer 2". A label that begins with its term is not told twice.
fn named(term: &str, label: &str) -> String {
    let begins = label.strip_prefix(term).is_some_and(|rest| rest.starts_with(' '));
    if begins { label.to_owned() } else { format!("{term} {label}") }
}

#[cfg(test)]
mod tests {
    use super::named;

    #[test]
    fn a_term_is_told_once() {
        assert_eq!(named("layer", "layer 2"), "layer 2");
        assert_eq!(named("layer", "2.x"), "layer 2.x");
        assert_eq!(named("token", "tokenizer"), "token tokenizer");
    }
}
