//! A figure as SVG.

use core::fmt::{self, Display, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::figure::{Anchor, Cells, Figure, Ink, Line, Shape, Text};
use crate::text::escaped;
use crate::{Error, Ground, png};

/// Up to this many cells of a figure are drawn as rectangles, which another program can edit. If there are more, each matrix is
/// embedded as a picture.
const MOST_RECTANGLES: usize = 512;

/// The colours of paper, text and axes: fixed in a file, and variables of the style sheet in a page.
pub(crate) struct Theme {
    pub(crate) paper: &'static str,
    pub(crate) ink: &'static str,
    pub(crate) quiet: &'static str,
}

const LIGHT: Theme = Theme { paper: "#fff", ink: "#222", quiet: "#666" };

impl Figure {
    /// The figure as SVG. The reader's fonts show its text, in any script.
    ///
    /// # Errors
    /// [`Error::Writer`] if many cells cannot be embedded as a picture.
    pub fn svg(&self) -> Result<String, Error> {
        self.svg_in(&LIGHT)
    }

    pub(crate) fn svg_in(&self, theme: &Theme) -> Result<String, Error> {
        let [width, height] = self.size;
        let mut out = String::new();
        let _ = writeln!(
            out,
            r#"<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0}" height="{height:.0}" viewBox="0 0 {width:.0} {height:.0}" font-family="'IBM Plex Sans', Verdana, 'DejaVu Sans', 'Noto Sans', sans-serif" fill="{}">"#,
            theme.ink
        );
        let _ = writeln!(out, "<title>{}</title>", escaped(&self.title));
        let _ = writeln!(out, r#"<rect width="100%" height="100%" fill="{}"/>"#, theme.paper);
        let cells: usize = self.matrices().map(|cells| cells.colors.len()).sum();
        for shape in &self.shapes {
            match shape {
                Shape::Cells(matrix) if cells > MOST_RECTANGLES => push_picture(&mut out, matrix)?,
                Shape::Cells(matrix) => push_rectangles(&mut out, matrix),
                Shape::Hatch(lines) => push_hatch(&mut out, lines),
                Shape::Text(text) => push_text(&mut out, text, theme),
                Shape::Line(line) => push_line(&mut out, line, theme),
                Shape::Box { at: [x, y], size: [width, height], ink } => {
                    let fill = theme.of(*ink);
                    let _ = writeln!(
                        out,
                        r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" fill="{fill}"/>"#
                    );
                }
                Shape::Bar { at, size, stops } => push_bar(&mut out, *at, *size, stops),
            }
        }
        out.push_str("</svg>\n");
        Ok(out)
    }
}

impl Theme {
    fn of(&self, ink: Ink) -> String {
        match ink {
            Ink::Text => self.ink.to_owned(),
            Ink::Quiet => self.quiet.to_owned(),
            Ink::Rgb(rgb) => Rgb(rgb).to_string(),
        }
    }
}

/// Embeds a pixel for each cell.
fn push_picture(out: &mut String, cells: &Cells) -> Result<(), Error> {
    let ([left, top], [width, height]) = (cells.at, cells.size());
    let picture = STANDARD.encode(png::cells([cells.cols, cells.rows()], &cells.colors)?);
    let _ = writeln!(
        out,
        r#"<image x="{left:.2}" y="{top:.2}" width="{width:.2}" height="{height:.2}" preserveAspectRatio="none" style="image-rendering:pixelated" href="data:image/png;base64,{picture}"/>"#
    );
    Ok(())
}

fn push_rectangles(out: &mut String, cells: &Cells) {
    let ([left, top], [width, height]) = (cells.at, cells.cell);
    // Antialiasing would let the paper show between the cells.
    let _ = writeln!(out, r#"<g shape-rendering="crispEdges">"#);
    for (i, color) in cells.colors.iter().enumerate() {
        let (x, y) =
            (left + (i % cells.cols) as f64 * width, top + (i / cells.cols) as f64 * height);
        let _ = writeln!(
            out,
            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{height:.2}" fill="{}"/>"#,
            Rgb(*color)
        );
    }
    out.push_str("</g>\n");
}

fn push_hatch(out: &mut String, lines: &[[[f64; 2]; 2]]) {
    let mut path = String::new();
    for [[x0, y0], [x1, y1]] in lines {
        let _ = write!(path, "M{x0:.1} {y0:.1}L{x1:.1} {y1:.1}");
    }
    let color = Rgb(Ground::Paper.hatch());
    let _ = writeln!(out, r#"<path class="hatch" d="{path}" stroke="{color}"/>"#);
}

fn push_text(out: &mut String, text: &Text, theme: &Theme) {
    let [x, y] = text.at;
    let place = if text.upright {
        format!(r#"transform="translate({x:.2} {y:.2}) rotate(-90)""#)
    } else {
        format!(r#"x="{x:.2}" y="{y:.2}""#)
    };
    let anchor = match text.anchor {
        Anchor::Start => "",
        Anchor::Middle => r#" text-anchor="middle""#,
        Anchor::End => r#" text-anchor="end""#,
    };
    let weight = if text.bold { r#" font-weight="600""# } else { "" };
    let fill = match text.ink {
        Ink::Text => String::new(),
        ink => format!(r#" fill="{}""#, theme.of(ink)),
    };
    let (size, text) = (text.size, escaped(&text.text));
    let _ =
        writeln!(out, r#"<text {place} font-size="{size:.1}"{anchor}{weight}{fill}>{text}</text>"#);
}

fn push_line(out: &mut String, line: &Line, theme: &Theme) {
    let points: Vec<String> = line.points.iter().map(|[x, y]| format!("{x:.2},{y:.2}")).collect();
    let tip = match line.tip.as_str() {
        "" => String::new(),
        tip => format!("<title>{}</title>", escaped(tip)),
    };
    let dashes = if line.dashed { r#" stroke-dasharray="5 3""# } else { "" };
    let _ = writeln!(
        out,
        r#"<polyline points="{}" fill="none" stroke="{}" stroke-width="{:.2}" stroke-opacity="{:.3}"{dashes}>{}</polyline>"#,
        points.join(" "),
        theme.of(line.ink),
        line.width,
        line.opacity,
        tip
    );
}

/// Draws a rectangle for each colour. A gradient would need a name, which another figure in the same page could have too.
fn push_bar(out: &mut String, [x, y]: [f64; 2], [width, height]: [f64; 2], stops: &[[u8; 3]]) {
    let step = height / stops.len().max(1) as f64;
    let _ = writeln!(out, r#"<g shape-rendering="crispEdges">"#);
    for (y, color) in stops.iter().rev().enumerate().map(|(i, color)| (y + i as f64 * step, color))
    {
        let _ = writeln!(
            out,
            r#"<rect x="{x:.2}" y="{y:.2}" width="{width:.2}" height="{step:.2}" fill="{}"/>"#,
            Rgb(*color)
        );
    }
    out.push_str("</g>\n");
}

struct Rgb([u8; 3]);

impl Display for Rgb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [r, g, b] = self.0;
        write!(f, "#{r:02x}{g:02x}{b:02x}")
    }
}
