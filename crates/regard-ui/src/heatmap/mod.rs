//! The heatmap: every matrix is shown by it.
//!
//! A frame costs one textured rectangle whatever the number of cells, and finding the cell under the pointer is one division.
//! A matrix with more cells than there are pixels is shown by the largest of each block ([`Picture`]).

mod geometry;
mod navigate;
mod paint;
mod picture;
mod speak;
mod view;

use egui::{Pos2, Rect, Response, Role, Sense, Ui, WidgetInfo};
use regard_walkthrough::Marks;

use self::geometry::{Geometry, Seen};
pub use self::picture::{Blocks, Picture};
pub use self::view::View;

/// What a heatmap shows and how it is read.
pub const EXPLANATION: &str = "\
    A cell is one number: its row is the query that attends, its column the key that is attended to. The bar says which colour \
    is which number. Grey cells, hatched where they are large, may not be seen (masked); magenta ones are NaN.\n\
    Pooling: where there are more cells than pixels, a pixel shows the largest number of its block of cells, of numbers \
    of both signs the one farthest from 0. So no large weight goes missing, but blocks look fuller than they are. The line \
    below says when, and how large the blocks are.\n\
    Colours: weights go from 0 to the largest there is; numbers of both signs have a map of their own, with 0 in the middle. \
    The menu has other maps. All of them can be read by the colour-blind.\n\
    Logarithm: equal steps of colour are equal factors, not equal differences, over six powers of ten: small weights can be \
    told apart, large ones hardly.\n\
    Scroll with Ctrl (Cmd on a Mac) to zoom, drag to move, click to choose; arrows move the cursor, P pins its cell.";

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
    /// What was made of the numbers.
    pub picture: &'a Picture,
    /// What the rows and the columns stand for: "attending from", "attending to".
    pub captions: Option<[&'a str; 2]>,
    /// What a row, a column and a number are called when they are spoken: "query", "key", "weight".
    pub terms: [&'a str; 3],
    /// The cell to draw a crosshair on: the keyboard's cursor.
    pub pointed: Option<Cell>,
    /// The rows and columns to mark as a query's and as keys'.
    pub marks: Marks,
    /// The cells to mark as typed over.
    pub edited: &'a [Cell],
    /// How wide and high a matrix is shown whose numbers do not fit into its cells.
    pub large: f32,
    /// Whether dragging is the caller's, who paints; else it moves what is seen.
    pub paints: bool,
}

/// What the user did.
pub struct Pointing {
    /// Of the cells.
    pub response: Response,
    /// The cell under the pointer.
    pub hovered: Option<Cell>,
    /// The cell clicked on, or reached with the keyboard.
    pub chosen: Option<Cell>,
    seen: Seen,
}

impl Pointing {
    /// The cell at a place on the screen.
    pub fn cell_at(&self, at: Pos2) -> Option<Cell> {
        self.seen.cell_at(at)
    }

    /// Where a cell is, as far as it is seen.
    pub fn rect(&self, cell: Cell) -> Rect {
        self.seen.rect(cell).intersect(self.seen.frame)
    }
}

impl Heatmap<'_> {
    /// Where nothing else is asked for, a large matrix is so large.
    pub const LARGE: f32 = 512.0;
    /// The terms for a matrix that is neither scores nor weights.
    pub const TERMS: [&'static str; 3] = ["row", "column", "value"];

    /// How far from its left end the cells begin, where there is room for `max_width`.
    pub fn left(&self, ui: &Ui, max_width: f32) -> f32 {
        Geometry::new(self, ui, max_width).cells(Pos2::ZERO).left()
    }

    /// Shows it, no wider than `max_width`, as far as `view` says.
    pub fn show(&self, ui: &mut Ui, max_width: f32, view: &mut View) -> Pointing {
        let geometry = Geometry::new(self, ui, max_width);
        view.limit(geometry.most_zoom());
        let (_, whole) = ui.allocate_space(geometry.size());
        let cells = geometry.cells(whole.min);
        // Where there is nothing to pan, dragging is the page's.
        let sense =
            if view.is_whole() && !self.paints { Sense::click() } else { Sense::click_and_drag() };
        let response = ui.interact(cells, ui.scope_id().with((self.name, "cells")), sense);
        if response.clicked() {
            response.request_focus();
        }
        let reached = navigate::navigate(self, ui, &response, &geometry, cells, view);
        let seen = geometry.seen(cells, view);
        let hovered = response.hover_pos().and_then(|at| seen.cell_at(at));
        let clicked = response.interact_pointer_pos().filter(|_| response.clicked());
        let clicked = clicked.and_then(|at| seen.cell_at(at));
        if let Some(cell) = clicked.filter(|_| ui.input(|input| input.modifiers.shift)) {
            view.pin(cell);
        }
        let chosen = clicked.or(reached);
        response.widget_info(|| {
            WidgetInfo::labeled(Role::Image, true, format!("Heatmap of {}", self.name))
        });
        speak::speak(self, ui, &response, chosen.or(self.pointed));
        if ui.is_rect_visible(whole) {
            paint::paint(self, ui, &geometry, &seen, view, &response, hovered);
        }
        Pointing { response, hovered, chosen, seen }
    }

    fn rows(&self) -> usize {
        self.row_labels.len()
    }

    fn cols(&self) -> usize {
        self.col_labels.len()
    }

    fn number(&self, (row, col): Cell) -> Option<f32> {
        self.numbers.get(row * self.cols() + col).copied()
    }
}
