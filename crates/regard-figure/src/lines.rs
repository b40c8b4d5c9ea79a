//! A matrix of weights as lines: queries at the left, keys at the right, and a line for each weight.

use crate::figure::{Anchor, Figure, Ink, Line, Shape, Text};
use crate::heatmap::{FONT, GAP, TITLE, TITLE_LINE, label, title};
use crate::text::width;
use crate::{Error, Label, Table, largest, numbers};

/// The most rows or columns.
const MOST: usize = 400;
/// Lines weaker than this share of the strongest are not drawn, as in the window.
const WEAKEST: f32 = 0.02;
/// The height of a token, and the width of the lines.
const LINE: f64 = 18.0;
const BETWEEN: f64 = 260.0;
const COLOR: [u8; 3] = [0x2f, 0x6f, 0xb7];

/// The figure of a table that is not empty.
pub(crate) fn figure(table: &Table<'_>) -> Result<Figure, Error> {
    let (rows, cols) = (table.rows.len(), table.cols.len());
    if rows.max(cols) > MOST {
        return Err(Error::Tokens { tokens: rows.max(cols), most: MOST });
    }
    let longest = |labels: &[Label]| {
        labels.iter().map(|token| width(&label(token))).fold(0.0, f64::max) * FONT + 2.0 * GAP
    };
    let top = TITLE_LINE + 2.0 * GAP + FONT;
    let ends = [longest(table.rows), longest(table.rows) + BETWEEN];
    let total = (ends[1] + longest(table.cols)).max(width(table.title) * TITLE + 2.0 * GAP);
    let mut figure = Figure {
        title: table.title.to_owned(),
        note: format!("lines weaker than {WEAKEST} of the strongest are not drawn"),
        size: [total, top + rows.max(cols) as f64 * LINE + GAP],
        shapes: vec![Shape::Text(title(table.title))],
    };
    let y = |i: usize| top + (i as f64 + 0.5) * LINE;
    let strongest = largest(table.values).max(f32::MIN_POSITIVE);
    for (i, x) in table.values.iter().enumerate().filter(|(_, x)| x.is_finite()) {
        let (row, col) = (i / cols, i % cols);
        let strength = x.abs() / strongest;
        if strength < WEAKEST {
            continue;
        }
        let tip = format!(
            "{} → {}: {}",
            table.rows[row].text,
            table.cols[col].text,
            numbers::fixed(*x, 4)
        );
        figure.shapes.push(Shape::Line(Line {
            points: vec![[ends[0] + 4.0, y(row)], [ends[1] - 4.0, y(col)]],
            width: f64::from(1.0 + 2.0 * strength),
            ink: Ink::Rgb(COLOR),
            opacity: f64::from(strength.sqrt()),
            dashed: false,
            tip,
        }));
    }
    let sides = [(table.rows, ends[0], Anchor::End), (table.cols, ends[1], Anchor::Start)];
    for ((labels, x, anchor), axis) in sides.into_iter().zip(table.axes) {
        let head = [x, TITLE_LINE + GAP + FONT];
        figure.text(Text { anchor, ink: Ink::Quiet, ..Text::new(head, axis, FONT) });
        for (i, token) in labels.iter().enumerate() {
            let at = [x, y(i) + FONT * 0.35];
            figure.text(Text { anchor, ..Text::new(at, label(token), FONT) });
        }
    }
    Ok(figure)
}
