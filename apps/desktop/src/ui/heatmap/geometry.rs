//! Where everything is.

use egui::{Pos2, Rect, TextStyle, Ui, Vec2, WidgetText, vec2};

use super::{Cell, Heatmap};
use crate::ui::colors::Palette;
use crate::ui::{numbers, style};

/// The most cells that get their numbers written in.
const MAX_ANNOTATED: usize = 1024;
/// A large matrix without numbers is drawn about this large.
const LARGE: f32 = 512.0;
/// What the widest token asks of a column at most.
const WIDEST_COLUMN: f32 = 88.0;
/// Between the cells and what is written around them.
pub const GAP: f32 = 6.0;
/// The width of the colour bar.
pub const BAR: f32 = 10.0;

/// The sizes of a heatmap's parts.
pub struct Geometry {
    rows: usize,
    cols: usize,
    /// Of a cell.
    pub cell: Vec2,
    /// With how many decimals numbers are written in the cells, if at all.
    pub annotated: Option<usize>,
    /// Of the row labels.
    pub row_label: f32,
    /// How many columns share a label.
    pub col_stride: usize,
    /// The height of a line of labels.
    pub line: f32,
    /// Left of the cells: caption and labels.
    left: f32,
    /// Above the cells: caption and labels.
    top: f32,
    /// Right of the cells: the colour bar.
    right: f32,
}

impl Geometry {
    pub fn new(map: &Heatmap<'_>, ui: &Ui, max_width: f32) -> Self {
        let (rows, cols) = (map.rows(), map.cols());
        let line = ui.text_style_height(&TextStyle::Small);
        let captions = if map.captions.is_some() { line + GAP } else { 0.0 };
        let has_bar = map.palette != Palette::Plain;
        let right = if has_bar { GAP + BAR + GAP + bar_labels_width(map, ui) } else { 0.0 };

        let decimals = (map.numbers.len() <= MAX_ANNOTATED).then(|| numbers::decimals(map.numbers));
        let number = decimals.map(|decimals| (decimals, widest_number(map, ui, decimals)));
        let row_label = widest(map.row_labels, ui).min(0.35 * max_width);
        let col_label = widest(map.col_labels, ui);
        let left = captions + row_label + GAP;
        let room = (max_width - left - right).max(1.0) / cols.max(1) as f32;

        let (cell, annotated) = match number {
            Some((decimals, number)) if number + 4.0 <= room => {
                let padding = if cols > 6 { 4.0 } else { 10.0 };
                let wanted = (number + padding).max((col_label + 10.0).min(WIDEST_COLUMN)).max(34.0);
                (vec2(wanted.min(room).floor(), 30.0), Some(decimals))
            }
            _ => {
                let side = room.min(LARGE / rows.max(cols).max(1) as f32).min(30.0);
                (Vec2::splat(if side >= 2.0 { side.floor() } else { side }), None)
            }
        };
        let fits = col_label.min(WIDEST_COLUMN - 10.0) + 6.0 <= cell.x || cell.x >= 40.0;
        let col_stride = if fits { 1 } else { ((col_label + 8.0) / cell.x).ceil() as usize };
        Self { rows, cols, cell, annotated, row_label, col_stride, line, left, top: captions + line + 2.0, right }
    }

    /// How many rows share a label.
    pub fn row_stride(&self) -> usize {
        (self.line / self.cell.y).ceil().max(1.0) as usize
    }

    pub fn size(&self) -> Vec2 {
        vec2(self.left + self.right, self.top) + self.cells_size()
    }

    pub fn cells(&self, min: Pos2) -> Rect {
        Rect::from_min_size(min + vec2(self.left, self.top), self.cells_size())
    }

    fn cells_size(&self) -> Vec2 {
        self.cell * vec2(self.cols as f32, self.rows as f32)
    }

    /// The cell at a place, as seen from the cells' corner.
    pub fn cell_at(&self, at: Vec2) -> Option<Cell> {
        let (row, col) = ((at.y / self.cell.y).floor(), (at.x / self.cell.x).floor());
        let inside = row >= 0.0 && col >= 0.0 && row < self.rows as f32 && col < self.cols as f32;
        inside.then_some((row as usize, col as usize))
    }

    /// Where a cell is, as seen from `cells`.
    pub fn rect(&self, cells: Rect, (row, col): Cell) -> Rect {
        Rect::from_min_size(cells.min + self.cell * vec2(col as f32, row as f32), self.cell)
    }
}

fn widest(labels: &[String], ui: &Ui) -> f32 {
    // Of many labels (`d0` … `d511`), the longest is the widest.
    let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let long = labels.iter().filter(|label| label.chars().count() + 2 >= longest).take(64);
    long.map(|label| text_width(label, TextStyle::Small, ui)).fold(0.0, f32::max)
}

fn widest_number(map: &Heatmap<'_>, ui: &Ui, decimals: usize) -> f32 {
    let longest = map.numbers.iter().map(|&x| numbers::fixed(x, decimals)).max_by_key(|text| text.chars().count());
    text_width(&longest.unwrap_or_default(), style::digits(), ui)
}

fn bar_labels_width(map: &Heatmap<'_>, ui: &Ui) -> f32 {
    let width = |x: f32| text_width(&bar_label(x), TextStyle::Small, ui);
    map.palette.marks().map(width).into_iter().fold(0.0, f32::max)
}

/// A number beside the colour bar: two digits tell enough.
pub fn bar_label(x: f32) -> String {
    let digits = if x.fract() == 0.0 { 0 } else { (1 - x.abs().log10().floor() as i32).clamp(0, 6) };
    let text = numbers::fixed(x, digits as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn text_width(text: &str, text_style: TextStyle, ui: &Ui) -> f32 {
    let galley = WidgetText::from(text).into_galley(ui, Some(egui::TextWrapMode::Extend), f32::INFINITY, text_style);
    galley.size().x.ceil()
}
