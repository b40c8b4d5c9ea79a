//! The visible part of a matrix.

use serde::{Deserialize, Serialize};

/// (row, column).
pub type Cell = (usize, usize);

const MOST_PINNED: usize = 32;

/// The zoom and the corner of a heatmap, and its pinned cells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Viewport {
    /// A zoom of 1 shows the whole matrix, 2 half of its rows and columns.
    pub zoom: f32,
    /// The row and the column at the corner, with the fractions that are cut off.
    pub corner: (f32, f32),
    /// The pinned cells, which stay marked.
    pub pinned: Vec<Cell>,
}

impl Default for Viewport {
    fn default() -> Self {
        Self { zoom: 1.0, corner: (0.0, 0.0), pinned: Vec::new() }
    }
}

impl Viewport {
    /// Whether the whole matrix is visible.
    pub fn is_whole(&self) -> bool {
        self.zoom <= 1.0
    }

    /// The zoom. 1 shows the whole matrix.
    pub fn zoom(&self) -> f32 {
        // A session file may hold anything.
        if self.zoom.is_finite() { self.zoom.max(1.0) } else { 1.0 }
    }

    /// Shows the whole matrix.
    pub fn reset(&mut self) {
        (self.zoom, self.corner) = (1.0, (0.0, 0.0));
    }

    /// Pins a cell, or removes its pin.
    pub fn pin(&mut self, cell: Cell) {
        let before = self.pinned.len();
        self.pinned.retain(|pinned| *pinned != cell);
        if self.pinned.len() == before && before < MOST_PINNED {
            self.pinned.push(cell);
        }
    }
}
