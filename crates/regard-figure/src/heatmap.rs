//! A matrix as a figure: cells, labels and colour bar.

use std::sync::Arc;

use crate::figure::{Anchor, Cells, Figure, Ink, Line, Shape, Text, Told, hatch, is_masked};
use crate::text::{shortened, width};
use crate::{Ground, Label, LabelledMatrix, NOT_A_NUMBER, Palette, ink_on, numbers};

/// The longer side of all cells, if the limits of a cell allow it.
const SIDE: f64 = 560.0;
const SMALLEST_CELL: f64 = 0.25;
const LARGEST_CELL: f64 = 44.0;
/// Cells are squares, unless the shorter side of all would be less than this. They are then as long as this side needs, up to a
/// limit, so that four queries of 1500 keys are not a hairline.
const SHORTEST: f64 = 140.0;
const LONGEST_CELL: f64 = 28.0;
/// The size of labels, and the smallest readable size.
pub(crate) const FONT: f64 = 12.0;
const SMALLEST_FONT: f64 = 7.0;
/// The size of the number in a cell.
const NUMBER: f64 = FONT - 1.0;
/// The size of the title, and the place of its baseline.
pub(crate) const TITLE: f64 = 15.0;
pub(crate) const TITLE_LINE: f64 = 22.0;
/// The least width and height of a cell with a number.
const CELL_WITH_NUMBER: f64 = 34.0;
const LOWEST_WITH_NUMBER: f64 = 16.0;
/// The maximum length of a label.
const LONGEST_LABEL: usize = 24;
pub(crate) const GAP: f64 = 8.0;
/// The width of the colour bar, and its least height.
const BAR: f64 = 14.0;
const LOWEST_BAR: f64 = 110.0;
const STOPS: usize = 64;

/// The layout, in CSS pixels.
struct Layout {
    /// The width and the height of a cell.
    cell: [f64; 2],
    /// The sizes of the labels above the columns and beside the rows.
    font: [f64; 2],
    /// The rectangle of the cells.
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    /// The width and height of the figure.
    total: [f64; 2],
}

/// The figure of a matrix that is not empty.
pub(crate) fn figure(matrix: &LabelledMatrix) -> Figure {
    let palette = matrix.palette.on(Ground::Paper);
    let layout = Layout::of(matrix, palette);
    let mut figure = Figure {
        title: matrix.title.clone(),
        note: palette.to_string(),
        size: layout.total,
        shapes: Vec::new(),
    };
    figure.text(title(&matrix.title));
    push_cells(&mut figure, matrix, palette, &layout);
    push_labels(&mut figure, matrix, &layout);
    let at = [layout.left + layout.width + 2.0 * GAP, layout.top];
    push_bar(&mut figure, &matrix.values, matrix.masked, palette, at, layout.height);
    figure
}

pub(crate) fn title(text: &str) -> Text {
    Text { bold: true, ..Text::new([GAP, TITLE_LINE], text, TITLE) }
}

impl Layout {
    fn of(matrix: &LabelledMatrix, palette: Palette) -> Self {
        let (rows, cols) = (matrix.rows.len() as f64, matrix.cols.len() as f64);
        // A table without colours shows its numbers.
        let smallest = if palette.is_plain() { CELL_WITH_NUMBER } else { SMALLEST_CELL };
        let square = (SIDE / rows.max(cols)).clamp(smallest, LARGEST_CELL);
        let cell = [cols, rows].map(|n| square.max((SHORTEST / n).min(LONGEST_CELL)));
        // The numbers of a table have digits of their own, so its columns are as wide as its widest number.
        let number = |x: &f32| width(&palette.number(matrix.number(*x), 0)) * NUMBER + GAP;
        let widest = matrix.values.iter().filter(|_| palette.is_plain()).map(number);
        let cell = [widest.fold(cell[0], f64::max), cell[1]];
        let font = cell.map(|side| (side * 0.8).clamp(SMALLEST_FONT, FONT));
        let longest =
            |labels: &[Label]| labels.iter().map(|t| width(&label(t))).fold(0.0, f64::max);
        let axis = |name: &str| if name.is_empty() { 0.0 } else { FONT + GAP };
        // Column labels are upright where they are wider than a column.
        let across = longest(&matrix.cols) * font[0];
        let above = if across > cell[0] { across } else { font[0] };
        let left = 2.0 * GAP + axis(matrix.axes[0]) + longest(&matrix.rows) * font[1];
        let top = TITLE_LINE + 2.0 * GAP + axis(matrix.axes[1]) + above;
        let (width_of_cells, height_of_cells) = (cols * cell[0], rows * cell[1]);
        let title = width(&matrix.title) * TITLE + 2.0 * GAP;
        let total = [
            (left + width_of_cells + legend_width(palette, &matrix.values, matrix.masked))
                .max(title),
            top + height_of_cells.max(LOWEST_BAR) + 6.0 * GAP,
        ];
        Self { cell, font, left, top, width: width_of_cells, height: height_of_cells, total }
    }
}

/// The name of masked cells, with the number that they stand for: "masked (−∞)".
fn masked_in_words(masked: f32) -> String {
    let number = if masked.is_finite() { numbers::tick(masked) } else { numbers::fixed(masked, 0) };
    format!("masked ({number})")
}

/// The width of the colour bar with its numbers and the gaps beside it.
pub(crate) fn legend_width(palette: Palette, values: &[f32], masked: f32) -> f64 {
    let ticks = palette.ticks().iter().map(|tick| width(tick)).fold(0.0, f64::max);
    let is_masked = values.contains(&f32::NEG_INFINITY);
    let masked = if is_masked { width(&masked_in_words(masked)) } else { 0.0 };
    4.0 * GAP + BAR + ticks.max(masked) * FONT
}

fn push_cells(figure: &mut Figure, matrix: &LabelledMatrix, palette: Palette, layout: &Layout) {
    let Layout { cell, left, top, .. } = *layout;
    if !palette.is_plain() {
        figure.cells(Cells {
            at: [left, top],
            cell,
            cols: matrix.cols.len(),
            colors: matrix.values.iter().map(|x| palette.rgb(*x)).collect(),
            told: Told {
                name: String::new(),
                values: Arc::clone(&matrix.values),
                rows: matrix.rows.clone(),
                cols: matrix.cols.clone(),
                axes: matrix.axes.map(str::to_owned),
                masked: matrix.masked,
            },
        });
    }
    if cell[0] < CELL_WITH_NUMBER || cell[1] < LOWEST_WITH_NUMBER {
        return;
    }
    let fits = |text: &str| width(text) * NUMBER <= cell[0] - 2.0;
    let text = |x: f32, decimals| palette.number(matrix.number(x), decimals);
    // The hatch stands for the weight 0, or for the large number, that a mask puts there.
    let is_shown = |x: f32| !(is_masked(x) && matrix.masked.is_finite());
    let shown = || matrix.values.iter().copied().enumerate().filter(|(_, x)| is_shown(*x));
    let all_fit = |decimals: &usize| shown().all(|(_, x)| fits(&text(x, *decimals)));
    let most = numbers::decimals(&matrix.values);
    // Exponents need no decimals, so they are tried as they are.
    let decimals = (0..=most).rev().find(all_fit).unwrap_or(0);
    for (i, x) in shown() {
        let number = text(x, decimals);
        if !fits(&number) {
            continue;
        }
        let cols = matrix.cols.len();
        let at = [
            left + ((i % cols) as f64 + 0.5) * cell[0],
            top + ((i / cols) as f64 + 0.5) * cell[1] + FONT * 0.33,
        ];
        let ink = if palette.is_plain() { Ink::Text } else { Ink::Rgb(ink_on(palette.rgb(x))) };
        let text = Text::new(at, number, NUMBER);
        figure.text(Text { anchor: Anchor::Middle, ink, ..text });
    }
}

/// Adds the labels of both axes: all, or as many as fit, evenly spaced.
fn push_labels(figure: &mut Figure, matrix: &LabelledMatrix, layout: &Layout) {
    let Layout { cell, font, left, top, width: cells_width, height, .. } = *layout;
    let every = [0, 1].map(|i| ((font[i] * 1.15 / cell[i]).ceil() as usize).max(1));
    for (i, token) in matrix.rows.iter().enumerate().step_by(every[1]) {
        let at = [left - GAP / 2.0, top + (i as f64 + 0.5) * cell[1] + font[1] * 0.35];
        figure.text(Text { anchor: Anchor::End, ..Text::new(at, label(token), font[1]) });
    }
    let upright = matrix.cols.iter().any(|t| width(&label(t)) * font[0] > cell[0]);
    for (i, token) in matrix.cols.iter().enumerate().step_by(every[0]) {
        let (middle, y) = (left + (i as f64 + 0.5) * cell[0], top - GAP / 2.0);
        let text = label(token);
        figure.text(if upright {
            Text { upright, ..Text::new([middle + font[0] * 0.35, y], text, font[0]) }
        } else {
            Text { anchor: Anchor::Middle, ..Text::new([middle, y], text, font[0]) }
        });
    }
    let [rows, cols] = matrix.axes;
    let quiet = |at, text, upright| Text {
        anchor: Anchor::Middle,
        ink: Ink::Quiet,
        upright,
        ..Text::new(at, text, FONT)
    };
    figure.text(quiet([GAP + FONT, top + height / 2.0], rows, true));
    figure.text(quiet([left + cells_width / 2.0, TITLE_LINE + GAP + FONT], cols, false));
}

/// Adds the colour bar with its numbers, and the colours of masked cells and NaN if there are any.
pub(crate) fn push_bar(
    figure: &mut Figure,
    values: &[f32],
    masked: f32,
    palette: Palette,
    [x, top]: [f64; 2],
    height: f64,
) {
    let Some(map) = palette.map() else { return };
    let height = height.max(LOWEST_BAR);
    let stops =
        (0..=STOPS).map(|stop| map.at(stop as f64 / STOPS as f64, palette.ground())).collect();
    figure.shapes.push(Shape::Bar { at: [x, top], size: [BAR, height], stops });
    let text_at = x + BAR + GAP / 2.0;
    for (tick, part) in palette.ticks().into_iter().zip([0.0, 0.5, 1.0]) {
        let y = top + (1.0 - part) * height;
        let line = Line::new(vec![[x + BAR, y], [x + BAR + 4.0, y]], 1.0, Ink::Text);
        figure.shapes.push(Shape::Line(line));
        figure.text(Text::new([text_at + 4.0, y + FONT * 0.35], tick, FONT));
    }
    let mut y = top + height + 2.0 * GAP;
    let size = [BAR, 10.0];
    let masked = masked_in_words(masked);
    let mut special = |name: &str, sample: fn([f64; 2], [f64; 2]) -> Shape| {
        figure.shapes.push(sample([x, y], size));
        figure.text(Text::new([text_at, y + FONT * 0.8], name, FONT));
        y += 2.0 * GAP;
    };
    if values.iter().copied().any(is_masked) {
        special(&masked, |at, size| Shape::Hatch(hatch(at, size, 1, &[true])));
    }
    if values.iter().any(|x| x.is_nan()) {
        special("NaN", |at, size| Shape::Box { at, size, ink: Ink::Rgb(NOT_A_NUMBER) });
    }
}

pub(crate) fn label(token: &Label) -> String {
    shortened(&token.text, LONGEST_LABEL)
}
