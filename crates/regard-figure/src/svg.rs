//! A matrix as a figure.

use core::fmt::{self, Display, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::text::{escaped, shortened, width};
use crate::{Error, Label, NOT_A_NUMBER, Palette, Table, ink_on, numbers, png};

/// The most cells that are drawn as rectangles. More are embedded as a picture.
const MOST_RECTANGLES: usize = 4096;
/// The longer side of all cells, if the limits of a cell allow it.
const SIDE: f64 = 560.0;
const SMALLEST_CELL: f64 = 0.25;
const LARGEST_CELL: f64 = 44.0;
/// The size of labels, and the smallest readable size.
const FONT: f64 = 12.0;
const SMALLEST_FONT: f64 = 7.0;
/// The least width of a cell with a number.
const CELL_WITH_NUMBER: f64 = 34.0;
/// The most characters of a label.
const LONGEST_LABEL: usize = 24;
const GAP: f64 = 8.0;
const BAR: f64 = 14.0;
const STOPS: usize = 32;
/// The colour of text on the paper.
const INK: [u8; 3] = [0x22; 3];

/// The layout, in CSS pixels.
struct Layout {
    cell: f64,
    font: f64,
    /// The rectangle of the cells.
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    /// The width and height of the figure.
    total: [f64; 2],
}

pub(super) fn svg(table: &Table<'_>, palette: Palette) -> Result<String, Error> {
    let layout = Layout::of(table, palette);
    let [width, height] = layout.total;
    let mut out = String::new();
    let _ = writeln!(
        out,
        r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}" font-family="'Noto Sans', 'DejaVu Sans', Arial, sans-serif" fill="{}">"#,
        Rgb(INK)
    );
    let _ = writeln!(out, "<title>{}</title>", escaped(table.title));
    let _ = writeln!(out, r##"<rect width="100%" height="100%" fill="#fff"/>"##);
    let _ = writeln!(
        out,
        r#"<text x="{GAP}" y="22" font-size="15" font-weight="600">{}</text>"#,
        escaped(table.title)
    );
    push_cells(&mut out, table, palette, &layout)?;
    push_labels(&mut out, table, &layout);
    push_bar(&mut out, table, palette, &layout);
    out.push_str("</svg>\n");
    Ok(out)
}

impl Layout {
    fn of(table: &Table<'_>, palette: Palette) -> Self {
        let (rows, cols) = (table.rows.len() as f64, table.cols.len() as f64);
        // Where there are no colours, there are numbers.
        let smallest = if palette.is_plain() { CELL_WITH_NUMBER } else { SMALLEST_CELL };
        let cell = (SIDE / rows.max(cols)).clamp(smallest, LARGEST_CELL);
        let font = (cell * 0.8).clamp(SMALLEST_FONT, FONT);
        let longest =
            |labels: &[Label]| labels.iter().map(|t| width(&label(t))).fold(0.0, f64::max) * font;
        let axis = |name: &str| if name.is_empty() { 0.0 } else { FONT + GAP };
        // Column labels are upright where they are wider than a column.
        let across = longest(table.cols);
        let above = if across > cell { across } else { font };
        let left = 2.0 * GAP + axis(table.axes[0]) + longest(table.rows);
        let top = 22.0 + 2.0 * GAP + axis(table.axes[1]) + above;
        let (width_of_cells, height_of_cells) = (cols * cell, rows * cell);
        let ticks =
            palette.marks().iter().map(|x| width(&numbers::tick(*x))).fold(0.0, f64::max) * FONT;
        let legend = 4.0 * GAP + BAR + ticks.max(width("masked (−∞)") * FONT);
        let title = width(table.title) * 15.0 + 2.0 * GAP;
        let total = [
            (left + width_of_cells + legend).max(title),
            top + height_of_cells.max(110.0) + 6.0 * GAP,
        ];
        Self { cell, font, left, top, width: width_of_cells, height: height_of_cells, total }
    }
}

fn push_cells(
    out: &mut String,
    table: &Table<'_>,
    palette: Palette,
    layout: &Layout,
) -> Result<(), Error> {
    let Layout { cell, left, top, width, height, .. } = *layout;
    if palette.is_plain() {
        // The numbers alone.
    } else if table.values.len() > MOST_RECTANGLES {
        let picture = STANDARD.encode(png::pixels(table, palette)?);
        let _ = writeln!(
            out,
            r#"<image x="{left:.2}" y="{top:.2}" width="{width:.2}" height="{height:.2}" preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,{picture}"/>"#
        );
    } else {
        // Antialiasing would let the paper show between the cells.
        let _ = writeln!(out, r#"<g shape-rendering="crispEdges">"#);
        for (i, x) in table.values.iter().enumerate() {
            let (x_at, y_at) = place(layout, i, table.cols.len());
            let _ = writeln!(
                out,
                r#"<rect x="{x_at:.2}" y="{y_at:.2}" width="{cell:.2}" height="{cell:.2}" fill="{}"/>"#,
                Rgb(palette.rgb(*x))
            );
        }
        out.push_str("</g>\n");
    }
    if cell >= CELL_WITH_NUMBER {
        let decimals = numbers::decimals(table.values).min(3);
        let _ = writeln!(out, r#"<g font-size="{}" text-anchor="middle">"#, FONT - 1.0);
        for (i, x) in table.values.iter().enumerate() {
            let (x_at, y_at) = place(layout, i, table.cols.len());
            let (x_at, y_at) = (x_at + cell / 2.0, y_at + cell / 2.0 + FONT * 0.33);
            let ink = Rgb(if palette.is_plain() { INK } else { ink_on(palette.rgb(*x)) });
            let number = numbers::cell(table.number(*x), decimals, palette);
            let _ =
                writeln!(out, r#"<text x="{x_at:.2}" y="{y_at:.2}" fill="{ink}">{number}</text>"#);
        }
        out.push_str("</g>\n");
    }
    Ok(())
}

fn place(layout: &Layout, i: usize, cols: usize) -> (f64, f64) {
    (layout.left + (i % cols) as f64 * layout.cell, layout.top + (i / cols) as f64 * layout.cell)
}

/// The labels of both axes: all, or as many as fit, evenly spaced.
fn push_labels(out: &mut String, table: &Table<'_>, layout: &Layout) {
    let Layout { cell, font, left, top, width: cells_width, height, .. } = *layout;
    let every = ((font * 1.15 / cell).ceil() as usize).max(1);
    let _ = writeln!(out, r#"<g font-size="{font:.2}">"#);
    for (i, token) in table.rows.iter().enumerate().step_by(every) {
        let y = top + (i as f64 + 0.5) * cell + font * 0.35;
        let x = left - GAP / 2.0;
        let _ = writeln!(
            out,
            r#"<text x="{x:.2}" y="{y:.2}" text-anchor="end">{}</text>"#,
            escaped(&label(token))
        );
    }
    let upright = table.cols.iter().any(|t| width(&label(t)) * font > cell);
    for (i, token) in table.cols.iter().enumerate().step_by(every) {
        let (middle, y, text) =
            (left + (i as f64 + 0.5) * cell, top - GAP / 2.0, escaped(&label(token)));
        if upright {
            let x = middle + font * 0.35;
            let _ = writeln!(
                out,
                r#"<text transform="translate({x:.2} {y:.2}) rotate(-90)">{text}</text>"#
            );
        } else {
            let _ = writeln!(
                out,
                r#"<text x="{middle:.2}" y="{y:.2}" text-anchor="middle">{text}</text>"#
            );
        }
    }
    out.push_str("</g>\n");
    let [rows, cols] = table.axes.map(escaped);
    let _ = writeln!(out, r##"<g font-size="{FONT}" fill="#666" text-anchor="middle">"##);
    let (x, y) = (GAP + FONT, top + height / 2.0);
    let _ =
        writeln!(out, r#"<text transform="translate({x:.2} {y:.2}) rotate(-90)">{rows}</text>"#);
    let (x, y) = (left + cells_width / 2.0, 22.0 + GAP + FONT);
    let _ = writeln!(out, r#"<text x="{x:.2}" y="{y:.2}">{cols}</text>"#);
    out.push_str("</g>\n");
}

/// The colour bar with its numbers, and the colours of masked cells and NaN if there are any.
fn push_bar(out: &mut String, table: &Table<'_>, palette: Palette, layout: &Layout) {
    let Some(map) = palette.map() else { return };
    let (x, top) = (layout.left + layout.width + 2.0 * GAP, layout.top);
    let height = layout.height.max(110.0);
    out.push_str(r#"<linearGradient id="bar" x1="0" y1="1" x2="0" y2="0">"#);
    for stop in 0..=STOPS {
        let t = stop as f64 / STOPS as f64;
        let _ = write!(out, r#"<stop offset="{t:.4}" stop-color="{}"/>"#, Rgb(map.at(t)));
    }
    out.push_str("</linearGradient>\n");
    let _ = writeln!(
        out,
        r#"<rect x="{x:.2}" y="{top:.2}" width="{BAR}" height="{height:.2}" fill="url(#bar)"/>"#
    );
    let _ = writeln!(out, r#"<g font-size="{FONT}">"#);
    let text_at = x + BAR + GAP / 2.0;
    for (number, part) in palette.marks().into_iter().zip([0.0, 0.5, 1.0]) {
        let y = top + (1.0 - part) * height;
        let (x, y, number) = (text_at + 4.0, y + FONT * 0.35, numbers::tick(number));
        let _ = writeln!(out, r#"<text x="{x:.2}" y="{y:.2}">{number}</text>"#);
        let y = y - FONT * 0.35;
        let _ =
            writeln!(out, r##"<path d="M{:.2} {y:.2}h4" stroke="#222"/>"##, x - GAP / 2.0 - 4.0);
    }
    let mut y = top + height + 2.0 * GAP;
    let masked = format!("masked ({})", numbers::fixed(table.masked, 0));
    let special = [
        (masked.as_str(), map.hidden(), table.values.contains(&f32::NEG_INFINITY)),
        ("NaN", NOT_A_NUMBER, table.values.iter().any(|x| x.is_nan())),
    ];
    for (name, color, _) in special.into_iter().filter(|(_, _, occurs)| *occurs) {
        let _ = writeln!(
            out,
            r#"<rect x="{x:.2}" y="{y:.2}" width="{BAR}" height="10" fill="{}"/><text x="{text_at:.2}" y="{:.2}">{name}</text>"#,
            Rgb(color),
            y + FONT * 0.8
        );
        y += 2.0 * GAP;
    }
    out.push_str("</g>\n");
}

fn label(token: &Label) -> String {
    shortened(&token.text, LONGEST_LABEL)
}

struct Rgb([u8; 3]);

impl Display for Rgb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [r, g, b] = self.0;
        write!(f, "#{r:02x}{g:02x}{b:02x}")
    }
}
