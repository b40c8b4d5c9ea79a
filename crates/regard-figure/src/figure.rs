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

/// A matrix of equal cells.
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
    /// The lines of a hatch on masked cells, by their ends.
    Hatch(Vec<[[f64; 2]; 2]>),
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

    /// The matrices, in the order in which they are drawn.
    pub(crate) fn matrices(&self) -> impl Iterator<Item = &Cells> {
        self.shapes.iter().filter_map(|shape| match shape {
            Shape::Cells(cells) => Some(cells),
            _ => None,
        })
    }

    /// Adds cells, with a hatch on those that are masked.
    pub(crate) fn cells(&mut self, cells: Cells) {
        let masked: Vec<bool> = cells.told.values.iter().copied().map(is_masked).collect();
        let lines = hatch(cells.at, cells.cell, cells.cols, &masked);
        self.shapes.push(Shape::Cells(cells));
        if !lines.is_empty() {
            self.shapes.push(Shape::Hatch(lines));
        }
    }

    pub(crate) fn text(&mut self, text: Text) {
        self.shapes.push(Shape::Text(text));
    }
}

/// The lines of a hatch on some cells: the parts on these cells of the lines x + y = k · [`HATCH`], so that the hatches of
/// neighbours meet. A picture without a pattern needs no name for it, which another figure in the same page could have too.
pub(crate) fn hatch(
    [left, top]: [f64; 2],
    [width, height]: [f64; 2],
    cols: usize,
    hatched: &[bool],
) -> Vec<[[f64; 2]; 2]> {
    /// The ends of two parts that meet differ by rounding alone.
    const NEAR: f64 = 1e-6;
    let mut lines: Vec<[[f64; 2]; 2]> = Vec::new();
    if !hatched.contains(&true) {
        return lines;
    }
    let rows = hatched.len().div_ceil(cols.max(1));
    let right = left + cols as f64 * width;
    let first = ((left + top) / HATCH).ceil() as usize;
    let last = ((right + top + rows as f64 * height) / HATCH).floor() as usize;
    for line in first..=last {
        let sum = line as f64 * HATCH;
        // From the bottom to the top, a line goes to the right.
        let row_at = |x: f64| (((sum - x - top) / height).max(0.0) as usize).min(rows);
        for row in (row_at(right)..(row_at(left) + 1).min(rows)).rev() {
            let above = top + row as f64 * height;
            let from = (sum - above - height).max(left);
            let to = (sum - above).min(right);
            let mut col = ((from - left) / width) as usize;
            while col < cols && left + col as f64 * width < to {
                let [x0, x1] = [col, col + 1].map(|col| left + col as f64 * width);
                let (x0, x1) = (x0.max(from), x1.min(to));
                if x1 > x0 && hatched.get(row * cols + col) == Some(&true) {
                    match lines.last_mut() {
                        Some([_, end])
                            if (end[0] - x0).abs() + (end[0] + end[1] - sum).abs() < NEAR =>
                        {
                            *end = [x1, sum - x1];
                        }
                        _ => lines.push([[x0, sum - x0], [x1, sum - x1]]),
                    }
                }
                col += 1;
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The length of a hatch on an area is the area divided by the distance of the lines, up to their ends.
    #[test]
    fn a_hatch_lies_on_its_cells_alone() {
        let (n, at, cell) = (40, [13.0, 29.0], [3.7, 5.1]);
        let later: Vec<bool> = (0..n * n).map(|i| i % n > i / n).collect();
        let lines = hatch(at, cell, n, &later);
        let mut length = 0.0;
        for [[x0, y0], [x1, y1]] in &lines {
            assert!(x1 > x0 && (x0 + y0 - x1 - y1).abs() < 1e-9);
            assert!(((x0 + y0) / HATCH).fract().min(1.0 - ((x0 + y0) / HATCH).fract()) < 1e-9);
            for t in [0.01, 0.3, 0.5, 0.99] {
                let place = [x0 + t * (x1 - x0) - at[0], y0 + t * (y1 - y0) - at[1]];
                let [col, row] = [0, 1].map(|i| (place[i] / cell[i]) as usize);
                assert!(col > row && col < n, "{row}, {col}");
            }
            length += (x1 - x0).hypot(y1 - y0);
        }
        // The lines x + y = k · 6 are 6 / √2 apart.
        let area = (n * (n - 1) / 2) as f64 * cell[0] * cell[1];
        let expected = area / (HATCH / 2_f64.sqrt());
        assert!((length / expected - 1.0).abs() < 0.02, "{length} {expected}");
        // A triangle has a part of each line, not one a cell.
        assert!(lines.len() < 100, "{}", lines.len());
        assert!(hatch(at, cell, n, &[false; 4]).is_empty());
    }
}
