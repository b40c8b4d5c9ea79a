//! A matrix of weights as lines: queries at the left, keys at the right, and a line for each weight.

use crate::figure::{Anchor, Figure, Ink, Line, Shape, Text};
use crate::heatmap::{FONT, GAP, TITLE, TITLE_LINE, label, title};
use crate::text::width;
use crate::{Error, Label, LabelledMatrix, largest, numbers};

/// The maximum number of rows or columns.
const MOST: usize = 400;
/// Lines weaker than this share of the strongest are not drawn, as in the window.
const WEAKEST: f32 = 0.02;
/// The height of a token, and the width of the lines.
const LINE: f64 = 18.0;
const BETWEEN: f64 = 260.0;
pub(crate) const COLOR: [u8; 3] = [0x2f, 0x6f, 0xb7];
/// The colour in the legend.
const SAMPLE: f64 = 22.0;

/// Draws several matrices of the same tokens over one another, each in its colour, with a legend of their titles. A single matrix
/// has no legend.
///
/// # Errors
/// Those of [`LabelledMatrix::lines`] for each matrix, and [`Error::Shape`] if a matrix has another shape than the first one.
pub fn overlaid(layers: &[(LabelledMatrix, [u8; 3])]) -> Result<Figure, Error> {
    let layers: Vec<_> = layers.iter().map(|(matrix, color)| (matrix, *color)).collect();
    let [rows, cols] = layers.first().ok_or(Error::Empty)?.0.shape();
    for (matrix, _) in &layers {
        matrix.check()?;
        if matrix.shape() != [rows, cols] {
            return Err(Error::Shape { values: matrix.values.len(), rows, cols });
        }
    }
    figure(&layers)
}

/// The figure of matrices of the same shape, which are not empty.
pub(crate) fn figure(layers: &[(&LabelledMatrix, [u8; 3])]) -> Result<Figure, Error> {
    let (first, _) = layers.first().ok_or(Error::Empty)?;
    let [rows, cols] = first.shape();
    if rows.max(cols) > MOST {
        let tokens = rows.max(cols);
        return Err(Error::TooLarge(format!(
            "{tokens} tokens are too many for lines (at most {MOST}): export the matrix"
        )));
    }
    let longest = |labels: &[Label]| {
        labels.iter().map(|token| width(&label(token))).fold(0.0, f64::max) * FONT + 2.0 * GAP
    };
    let names = if layers.len() > 1 { layers } else { &[] };
    let text = if names.is_empty() { &first.title } else { "Attention of several heads" };
    let legend = TITLE_LINE + GAP;
    let captions = legend + names.len() as f64 * LINE;
    let top = captions + GAP + FONT;
    let ends = [longest(&first.rows), longest(&first.rows) + BETWEEN];
    let total = (ends[1] + longest(&first.cols)).max(width(text) * TITLE + 2.0 * GAP);
    let mut figure = Figure {
        title: text.to_owned(),
        note: format!("lines weaker than {WEAKEST} of the strongest are not drawn"),
        size: [total, top + rows.max(cols) as f64 * LINE + GAP],
        shapes: vec![Shape::Text(title(text))],
    };
    for (i, (matrix, color)) in names.iter().enumerate() {
        let y = legend + (i as f64 + 0.5) * LINE;
        let sample = Line::new(vec![[GAP, y], [GAP + SAMPLE, y]], 3.0, Ink::Rgb(*color));
        figure.shapes.push(Shape::Line(sample));
        figure.text(Text::new([2.0 * GAP + SAMPLE, y + FONT * 0.35], &matrix.title, FONT));
    }
    let y = |i: usize| top + (i as f64 + 0.5) * LINE;
    for (matrix, color) in layers {
        let strongest = largest(&matrix.values).max(f32::MIN_POSITIVE);
        // The legend names one colour for each of several matrices.
        let signs = matrix.palette.of_signs().filter(|_| names.is_empty());
        let [above, below] = signs.unwrap_or([*color; 2]);
        for (i, x) in matrix.values.iter().enumerate().filter(|(_, x)| x.is_finite()) {
            let (row, col) = (i / cols, i % cols);
            let strength = x.abs() / strongest;
            if strength < WEAKEST {
                continue;
            }
            let (query, key) = (&matrix.rows[row].text, &matrix.cols[col].text);
            let of = if names.is_empty() { "" } else { &matrix.title };
            let tip = format!("{of} {query} → {key}: {}", numbers::fixed(*x, 4));
            let points = vec![[ends[0] + 4.0, y(row)], [ends[1] - 4.0, y(col)]];
            let ink = Ink::Rgb(if *x < 0.0 { below } else { above });
            let line = Line::new(points, f64::from(1.0 + 2.0 * strength), ink);
            let (opacity, tip) = (f64::from(strength.sqrt()), tip.trim_start().to_owned());
            figure.shapes.push(Shape::Line(Line { opacity, tip, ..line }));
        }
    }
    let sides = [(&first.rows, ends[0], Anchor::End), (&first.cols, ends[1], Anchor::Start)];
    for ((labels, x, anchor), axis) in sides.into_iter().zip(first.axes) {
        let head = [x, captions + FONT];
        figure.text(Text { anchor, ink: Ink::Quiet, ..Text::new(head, axis, FONT) });
        for (i, token) in labels.iter().enumerate() {
            let at = [x, y(i) + FONT * 0.35];
            figure.text(Text { anchor, ..Text::new(at, label(token), FONT) });
        }
    }
    Ok(figure)
}
