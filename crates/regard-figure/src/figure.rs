//! A figure as shapes, from which SVG, PNG and HTML are made.

use std::sync::Arc;

use crate::Label;

/// The distance of two lines of a hatch, in CSS pixels.
pub(crate) const HATCH: f64 = 6.0;

/// Whether a number marks a masked cell.
pub(crate) fn is_masked(x: f32) -> bool {
    x == f32::NEG_INFINITY
}

/// The colour of a shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ink {
    /// The colour of text.
    Text,
    /// The colour of the names of axes.
    Quiet,
    /// One colour on light and dark paper.
    Rgb([u8; 3]),
}

/// The part of a text that lies at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// A line of text. The place is a point of its baseline.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Text {
    pub(crate) at: [f64; 2],
    pub(crate) text: String,
    pub(crate) size: f64,
    pub(crate) anchor: Anchor,
    /// Whether the text reads from the bottom to the top.
    pub(crate) upright: bool,
    pub(crate) bold: bool,
    pub(crate) ink: Ink,
}

impl Text {
    /// A text that begins at a place.
    pub(crate) fn new(at: [f64; 2], text: impl Into<String>, size: f64) -> Self {
        let text = text.into();
        Self { at, text, size, anchor: Anchor::Start, upright: false, bold: false, ink: Ink::Text }
    }
}

/// A matrix of squares.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cells {
    pub(crate) at: [f64; 2],
    /// The width and the height of a cell.
    pub(crate) cell: [f64; 2],
    pub(crate) cols: usize,
    pub(crate) colors: Vec<[u8; 3]>,
    /// The numbers and names that a page shows.
    pub(crate) told: Told,
}

impl Cells {
    pub(crate) fn rows(&self) -> usize {
        self.colors.len().div_ceil(self.cols.max(1))
    }

    /// The width and the height of all cells.
    pub(crate) fn size(&self) -> [f64; 2] {
        [self.cols as f64 * self.cell[0], self.rows() as f64 * self.cell[1]]
    }
}

/// The numbers of cells, with the names of rows and columns.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) values: Arc<Vec<f32>>,
    pub(crate) rows: Vec<Label>,
    pub(crate) cols: Vec<Label>,
    pub(crate) axes: [String; 2],
    /// The number that −∞ stands for.
    pub(crate) masked: f32,
}

/// A line through points.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Line {
    pub(crate) points: Vec<[f64; 2]>,
    pub(crate) width: f64,
    pub(crate) ink: Ink,
    pub(crate) opacity: f64,
    /// Whether the line is dashed.
    pub(crate) dashed: bool,
    /// The text that appears under the pointer.
    pub(crate) tip: String,
}

impl Line {
    /// A line without a tip.
    pub(crate) fn new(points: Vec<[f64; 2]>, width: f64, ink: Ink) -> Self {
        Self { points, width, ink, opacity: 1.0, dashed: false, tip: String::new() }
    }
}

/// A part of a figure, in CSS pixels from the top left corner.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Cells(Cells),
    /// A hatch on masked cells.
    Hatch {
        at: [f64; 2],
        size: [f64; 2],
    },
    Text(Text),
    Line(Line),
    /// A rectangle.
    Box {
        at: [f64; 2],
        size: [f64; 2],
        ink: Ink,
    },
    /// The colours of a map, the last one at the top.
    Bar {
        at: [f64; 2],
        size: [f64; 2],
        stops: Vec<[u8; 3]>,
    },
}

/// A figure to publish: [`svg`](Self::svg), [`png`](Self::png) and [`html`](Self::html) draw the same shapes.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    pub(crate) title: String,
    /// The meaning of the colours, in words.
    pub(crate) note: String,
    /// The width and the height in CSS pixels.
    pub(crate) size: [f64; 2],
    pub(crate) shapes: Vec<Shape>,
}

impl Figure {
    /// The title.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Adds cells, with a hatch on those that are masked.
    pub(crate) fn cells(&mut self, cells: Cells) {
        let ([left, top], [width, height]) = (cells.at, cells.cell);
        let mut hatches = Vec::new();
        for (row, values) in cells.told.values.chunks(cells.cols.max(1)).enumerate() {
            let mut col = 0;
            for run in values.chunk_by(|a, b| is_masked(*a) == is_masked(*b)) {
                if run.first().copied().is_some_and(is_masked) {
                    let at = [left + col as f64 * width, top + row as f64 * height];
                    hatches.push(Shape::Hatch { at, size: [run.len() as f64 * width, height] });
                }
                col += run.len();
            }
        }
        self.shapes.push(Shape::Cells(cells));
        self.shapes.append(&mut hatches);
    }

    pub(crate) fn text(&mut self, text: Text) {
        self.shapes.push(Shape::Text(text));
    }
}
