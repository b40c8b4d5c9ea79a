//! The visible part of a matrix.

use egui::{Vec2, vec2};
use regard_session::Viewport;

use super::Cell;

/// The visible part in the units of a picture: x counts columns, and y counts rows.
pub(super) trait Visible {
    /// The zoom of the columns and that of the rows, each up to a limit. Cells that are long along one side reach it first there.
    fn zooms(&self, most: Vec2) -> Vec2;

    /// The column and the row at the corner.
    fn corner(&self) -> Vec2;

    /// Limits the zoom. A session file may hold anything.
    fn limit(&mut self, most: Vec2);

    /// Zooms around `at`, given as fractions of the picture's width and height.
    fn zoom_by(&mut self, factor: f32, at: Vec2, size: Vec2, most: Vec2);

    /// Moves a column and a row to the corner, or near it if the cells would not fill the picture.
    fn go_to(&mut self, corner: Vec2, size: Vec2, most: Vec2);

    /// Moves as little as needed to make a cell visible.
    fn reveal(&mut self, cell: Cell, size: Vec2, most: Vec2);
}

impl Visible for Viewport {
    fn zooms(&self, most: Vec2) -> Vec2 {
        Vec2::splat(self.zoom()).min(most)
    }

    fn corner(&self) -> Vec2 {
        let finite = |x: f32| if x.is_finite() { x } else { 0.0 };
        vec2(finite(self.corner.1), finite(self.corner.0))
    }

    fn limit(&mut self, most: Vec2) {
        self.zoom = self.zoom().min(most.max_elem().max(1.0));
    }

    fn zoom_by(&mut self, factor: f32, at: Vec2, size: Vec2, most: Vec2) {
        let before = self.zooms(most);
        self.zoom = (self.zoom() * factor).clamp(1.0, most.max_elem().max(1.0));
        let one = Vec2::splat(1.0);
        let corner = self.corner() + at * size * (one / before - one / self.zooms(most));
        self.go_to(corner, size, most);
    }

    fn go_to(&mut self, corner: Vec2, size: Vec2, most: Vec2) {
        let corner = corner.min(size - size / self.zooms(most)).max(Vec2::ZERO);
        self.corner = (corner.y, corner.x);
    }

    fn reveal(&mut self, (row, col): Cell, size: Vec2, most: Vec2) {
        let (cell, seen) = (vec2(col as f32, row as f32), size / self.zooms(most));
        let corner = self.corner().max(cell + Vec2::splat(1.0) - seen).min(cell);
        self.go_to(corner, size, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cell_under_the_pointer_stays_there() {
        let (size, at) = (vec2(4096.0, 2048.0), vec2(0.25, 0.75));
        let mut view = Viewport::default();
        let under = |view: &Viewport| view.corner() + at * size / view.zoom();
        let before = under(&view);
        for factor in [2.0, 3.0, 10.0, 0.5] {
            view.zoom_by(factor, at, size, Vec2::splat(700.0));
            assert!((under(&view) - before).length() < 1e-2, "{:?}", under(&view));
        }
        view.zoom_by(1e-9, at, size, Vec2::splat(700.0));
        assert_eq!(view, Viewport::default());
    }

    #[test]
    fn the_picture_stays_filled() {
        let size = vec2(100.0, 100.0);
        let mut view = Viewport::default();
        view.zoom_by(4.0, vec2(0.5, 0.5), size, Vec2::splat(50.0));
        view.go_to(vec2(1000.0, -5.0), size, Vec2::splat(50.0));
        assert_eq!(view.corner(), vec2(75.0, 0.0));
        view.reveal((99, 0), size, Vec2::splat(50.0));
        assert_eq!(view.corner(), vec2(0.0, 75.0));
    }

    /// Four rows of 1500 columns: the columns are zoomed until they can be read, and the rows stay visible.
    #[test]
    fn each_side_has_a_limit_of_its_own() {
        let (size, most) = (vec2(1500.0, 4.0), vec2(250.0, 4.0));
        let mut view = Viewport::default();
        view.zoom_by(100.0, vec2(0.5, 0.5), size, most);
        assert_eq!(view.zooms(most), vec2(100.0, 4.0));
        assert_eq!(view.corner(), vec2(742.5, 1.5), "the middle stays in the middle");
        view.reveal((3, 0), size, most);
        assert_eq!(view.corner(), vec2(0.0, 3.0));
    }
}
