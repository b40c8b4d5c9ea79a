//! The layout of a heatmap.

use core::ops::Range;

use unicode_width::UnicodeWidthStr as _;

use egui::{Pos2, Rect, TextStyle, Ui, Vec2, WidgetText, vec2};

use super::view::Visible as _;
use super::{Cell, Heatmap, Inset, Viewport};
use crate::{numbers, style};

/// With at most this many cells, the cells are sized for their numbers.
const MAX_ANNOTATED: usize = 1024;
/// The largest width that a token gives its column.
const WIDEST_COLUMN: f32 = 88.0;
/// The largest height of the labels above the columns where they are upright.
const TALLEST_LABEL: f32 = 84.0;
/// The least part of the longer side of all cells that the shorter side has, if its cells need not be longer than the limit.
const SHORTEST: f32 = 0.25;
const LONGEST_CELL: f32 = 28.0;
/// The largest width and height of a cell when zooming in.
const WIDEST_CELL: f32 = 96.0;
/// The maximum ratio of a cell's height to that of its number.
const MOST_EMPTY: f32 = 3.0;
/// The gap between two adjacent numbers of the usual size.
pub(crate) const BESIDE: f32 = 4.0;
/// The gap between the cells and the text around them.
pub(crate) const GAP: f32 = 6.0;
/// The width of the colour bar.
pub(crate) const BAR: f32 = 10.0;

/// The sizes of a heatmap's parts.
pub(crate) struct Geometry {
    rows: usize,
    cols: usize,
    /// The size of a cell if all cells are visible.
    pub(crate) cell: Vec2,
    /// The number of decimals in the cells, if the matrix is small enough to know it in advance.
    pub(crate) decimals: Option<usize>,
    pub(crate) row_label: f32,
    /// The width of the widest column label.
    pub(crate) col_label: f32,
    /// The height of a line of labels.
    pub(crate) line: f32,
    /// Whether the labels of columns read from the bottom to the top, because they are words that are wider than a column.
    pub(crate) is_upright: bool,
    /// The height of the labels of columns.
    pub(crate) above: f32,
    pub(crate) has_numbers: bool,
    /// Whether a line below the cells says which part is visible.
    pub(crate) note: bool,
    /// The width of the caption and the labels at the left of the cells.
    left: f32,
    /// The height of the caption and the labels above the cells.
    top: f32,
    /// The width of the colour bar at the right of the cells, with its numbers and the gap before it.
    pub(crate) right: f32,
    inset: Inset,
}

impl Geometry {
    pub(crate) fn new(map: &Heatmap<'_>, ui: &Ui, max_width: f32) -> Self {
        let (rows, cols) = (map.rows(), map.cols());
        let line = ui.text_style_height(&TextStyle::Small);
        let unit = style::enlarged(ui);
        let captions = if map.captions.is_some() { line + GAP } else { 0.0 };
        let has_bar = !map.picture.palette().is_plain();
        let right = if has_bar { GAP + BAR + GAP + bar_labels_width(map, ui) } else { 0.0 };

        let wanted = (map.numbers.len() <= MAX_ANNOTATED).then(|| numbers::decimals(map.numbers));
        let row_label = widest(map.row_labels, &TextStyle::Small, ui)
            .min(0.35 * max_width)
            .max(map.inset.label);
        let row_label = if map.has_row_labels { row_label } else { 0.0 };
        let col_label = widest(map.col_labels, &TextStyle::Small, ui);
        let left = captions + row_label + GAP;
        let inset = map.inset;
        let room = (max_width - left - right - inset.gap.x).max(1.0)
            / (cols + inset.cells[0]).max(1) as f32;

        let is_number = |label: &String| label.ends_with(|c: char| c.is_ascii_digit());
        let has_words = !map.col_labels.iter().all(is_number);
        let is_upright = |cell: Vec2| has_words && col_label > cell.x;
        // If not all decimals fit, two are better than no number.
        let annotated = wanted.and_then(|wanted| {
            let mut widths = (wanted.min(2)..=wanted)
                .rev()
                .map(|decimals| (decimals, widest_number(map, ui, decimals)));
            widths.find(|(_, number)| number + unit * BESIDE <= room)
        });
        let decimals = annotated.map(|(decimals, _)| decimals).or(wanted);
        let cell = if let Some((_, number)) = annotated {
            let padding = unit * if cols > 6 { BESIDE + 2.0 } else { 10.0 };
            let label = (col_label + 10.0).min(unit * WIDEST_COLUMN);
            let wanted = (number + padding).max(label).max(unit * 34.0);
            vec2(wanted.min(room).floor(), (unit * 30.0).floor())
        } else {
            let side = |large: f32| {
                let side = room.min(large / rows.max(1) as f32).min(unit * 30.0);
                let square = if side >= 2.0 { side.floor() } else { side };
                // A square, unless few rows of many columns would be a hairline, or few columns of many rows.
                let shorter = SHORTEST * square * rows.max(cols) as f32;
                let longer =
                    |n: usize| square.max((shorter / n.max(1) as f32).min(unit * LONGEST_CELL));
                vec2(longer(cols).min(room.max(square)), longer(rows))
            };
            let cell = side(map.large);
            if is_upright(cell) {
                side(map.large - (col_label.min(TALLEST_LABEL) - line))
            } else {
                cell
            }
        };
        let is_upright = is_upright(cell);
        let above = if is_upright { col_label.min(TALLEST_LABEL) } else { line };
        let note = annotated.is_none() && has_bar;
        let top = captions + above + 2.0;
        let has_numbers = annotated.is_some();
        Self {
            rows,
            cols,
            cell,
            decimals,
            row_label,
            col_label,
            line,
            is_upright,
            above,
            has_numbers,
            note,
            left,
            top,
            right,
            inset,
        }
    }

    /// The room between the cells and their labels.
    pub(crate) fn inset(&self) -> Vec2 {
        let [cols, rows] = self.inset.cells.map(|n| n as f32);
        self.inset.gap + self.cell * vec2(cols, rows)
    }

    /// Makes the cells larger than their numbers need: square, if there is room, and at most `large` for all together. Cells that
    /// are much larger than their numbers would look empty.
    pub(crate) fn fill(&mut self, max_width: f32, large: f32) {
        let Inset { cells: [left, above], gap, .. } = self.inset;
        let [cols, rows] = [self.cols + left, self.rows + above].map(|n| n.max(1) as f32);
        let room = ((max_width - self.left - self.right - gap.x) / cols).floor();
        let most = MOST_EMPTY * self.cell.y;
        let side = ((large - self.top - gap.y) / rows).floor().min(most);
        self.cell.x = self.cell.x.max(side.min(room));
        self.cell.y = self.cell.y.max(side.min(self.cell.x));
    }

    pub(crate) fn size(&self) -> Vec2 {
        let below = if self.note { self.line + 2.0 } else { 0.0 };
        vec2(self.left + self.right, self.top + below) + self.inset() + self.cells_size()
    }

    pub(crate) fn cells(&self, min: Pos2) -> Rect {
        let corner = vec2(self.left, self.top) + self.inset();
        Rect::from_min_size(min + corner, self.cells_size())
    }

    fn cells_size(&self) -> Vec2 {
        self.cell * self.matrix()
    }

    /// Columns and rows.
    pub(crate) fn matrix(&self) -> Vec2 {
        vec2(self.cols as f32, self.rows as f32)
    }

    /// The largest zoom of the columns and that of the rows.
    pub(crate) fn most_zoom(&self) -> Vec2 {
        (Vec2::splat(WIDEST_CELL) / self.cell).max(Vec2::splat(4.0))
    }

    /// The part of the matrix that is visible in `cells`.
    pub(crate) fn seen(&self, cells: Rect, view: &Viewport) -> Seen {
        let size = self.matrix();
        let zoom = view.zooms(self.most_zoom());
        let corner = view.corner().min(size - size / zoom).max(Vec2::ZERO);
        Seen { frame: cells, cell: self.cell * zoom, corner, rows: self.rows, cols: self.cols }
    }
}

/// The visible part of a matrix.
pub(crate) struct Seen {
    /// The rectangle on the screen.
    pub(crate) frame: Rect,
    pub(crate) cell: Vec2,
    /// The column and the row at the corner of the frame.
    corner: Vec2,
    rows: usize,
    cols: usize,
}

impl Seen {
    pub(crate) fn cell_at(&self, at: Pos2) -> Option<Cell> {
        if !self.frame.contains(at) {
            return None;
        }
        let place = (at - self.frame.min) / self.cell + self.corner;
        let (row, col) = (place.y as usize, place.x as usize);
        (row < self.rows && col < self.cols).then_some((row, col))
    }

    /// The rectangle of a cell, visible or not.
    pub(crate) fn rect(&self, (row, col): Cell) -> Rect {
        let place = vec2(col as f32, row as f32) - self.corner;
        Rect::from_min_size(self.frame.min + self.cell * place, self.cell)
    }

    /// The rectangle of rows and columns, visible or not.
    pub(crate) fn rect_of(&self, rows: &Range<usize>, cols: &Range<usize>) -> Rect {
        Rect::from_min_max(
            self.rect((rows.start, cols.start)).min,
            self.rect((rows.end, cols.end)).min,
        )
    }

    /// The rows and the columns that are at least partly visible in `clip`.
    pub(crate) fn cells(&self, clip: Rect) -> (Range<usize>, Range<usize>) {
        let part = self.frame.intersect(clip);
        let first = (part.min - self.frame.min) / self.cell + self.corner;
        let last = (part.max - self.frame.min) / self.cell + self.corner;
        let range = |first: f32, last: f32, n: usize| {
            // A thousandth of a cell is invisible.
            let first = ((first + 1e-3) as usize).min(n);
            first..((last - 1e-3).ceil().max(0.0) as usize).clamp(first, n)
        };
        (range(first.y, last.y, self.rows), range(first.x, last.x, self.cols))
    }
}

pub(crate) fn widest(labels: &[String], text_style: &TextStyle, ui: &Ui) -> f32 {
    // Not every label of many (`d0` … `d511`) is measured: the widest is among the longest by columns of text. "iiii" is
    // narrower than "mmm", so slightly shorter ones are also measured.
    // A token is written as a word: "<|endoftext|>" is wider than "⟨start⟩".
    let length = |label: &String| style::lone(label).width();
    let longest = labels.iter().map(length).max().unwrap_or(0);
    let long = [0, 1, 2].into_iter().flat_map(|less| {
        labels.iter().filter(move |label| length(label) + less == longest).take(16)
    });
    long.map(|label| text_width(&style::lone(label), text_style.clone(), ui)).fold(0.0, f32::max)
}

fn widest_number(map: &Heatmap<'_>, ui: &Ui, decimals: usize) -> f32 {
    let written = map.numbers.iter().filter(|x| map.is_written(**x));
    let longest = written.map(|&x| map.text(x, decimals)).max_by_key(|text| text.chars().count());
    text_width(&longest.unwrap_or_default(), style::digits(), ui)
}

fn bar_labels_width(map: &Heatmap<'_>, ui: &Ui) -> f32 {
    let width = |tick: String| text_width(&tick, TextStyle::Small, ui);
    let ticks = map.picture.palette().ticks().into_iter();
    ticks.map(width).fold(width(map.usual_tick.to_owned()), f32::max)
}

pub(crate) fn text_width(text: &str, text_style: TextStyle, ui: &Ui) -> f32 {
    let galley = WidgetText::from(text).into_galley(
        ui,
        Some(egui::TextWrapMode::Extend),
        f32::INFINITY,
        text_style,
    );
    galley.size().x.ceil()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_have_the_room_of_the_words_that_are_written() {
        egui::__run_test_ui(|ui| {
            let width = |labels: &[&str]| {
                let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
                widest(&labels, &TextStyle::Small, ui)
            };
            assert_eq!(width(&["<|endoftext|>", "it"]), width(&["⟨start⟩"]));
            assert_eq!(width(&["[STORY]", "Mia", "␣and"]), width(&["[STORY]"]));
        });
    }
}
