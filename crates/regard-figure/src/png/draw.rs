//! The pixels of a figure.
//!
//! Rectangles cover whole pixels, so a cell has one colour. Lines and letters are blended with the pixels below them, by
//! the share of each pixel that they cover.

use ab_glyph::{Font as _, GlyphId, PxScale, point};

use super::letters::{Face, letters};
use crate::figure::{Anchor, Cells, Figure, Ink, Line, Shape, Text};
use crate::{Error, Ground, fonts};

/// The font of every sign that [`fonts::SANS`] lacks: all outlines of DejaVu Sans 2.37, and what joins the letters of Arabic and
/// places accents, without its hints (`fonts/make.py` makes it). A page has its signs of mathematics alone.
#[cfg(not(target_arch = "wasm32"))]
const OTHERS: &[u8] = include_bytes!("../../fonts/DejaVuSans.ttf");
#[cfg(target_arch = "wasm32")]
const OTHERS: &[u8] = fonts::SYMBOLS;
const PAPER: u8 = 255;
/// The lengths of a dash and of the gap after it, in CSS pixels.
const DASH: [f64; 2] = [5.0, 3.0];

/// Draws an image of `size` pixels, three bytes a pixel.
pub(super) fn draw(
    figure: &Figure,
    [width, height]: [usize; 2],
    scale: f64,
) -> Result<Vec<u8>, Error> {
    let fonts = [Face::new(fonts::SANS)?, Face::new(OTHERS)?];
    let mut canvas = Canvas { width, height, scale, fonts, bytes: vec![PAPER; width * height * 3] };
    for shape in &figure.shapes {
        match shape {
            Shape::Cells(cells) => canvas.cells(cells),
            Shape::Hatch(lines) => {
                let ink = Ink::Rgb(Ground::Paper.hatch());
                for ends in lines {
                    canvas.line(&Line::new(ends.to_vec(), 1.0, ink));
                }
            }
            Shape::Text(text) => canvas.text(text),
            Shape::Line(line) if line.opacity > 0.0 => canvas.line(line),
            Shape::Line(_) => {}
            Shape::Box { at, size, ink } => canvas.rect(*at, *size, rgb(*ink)),
            Shape::Bar { at, size, stops } => canvas.bar(*at, *size, stops),
        }
    }
    Ok(canvas.bytes)
}

fn rgb(ink: Ink) -> [u8; 3] {
    match ink {
        Ink::Text => [0x22; 3],
        Ink::Quiet => [0x66; 3],
        Ink::Rgb(rgb) => rgb,
    }
}

struct Canvas {
    width: usize,
    height: usize,
    /// The pixels per CSS pixel.
    scale: f64,
    fonts: [Face<'static>; 2],
    bytes: Vec<u8>,
}

impl Canvas {
    /// Blends a colour into a pixel, if the image has this pixel.
    fn blend(&mut self, x: i64, y: i64, color: [u8; 3], share: f64) {
        let (Ok(x), Ok(y)) = (usize::try_from(x), usize::try_from(y)) else { return };
        if x < self.width && y < self.height {
            let at = (y * self.width + x) * 3;
            for (byte, color) in self.bytes[at..at + 3].iter_mut().zip(color) {
                let mixed = f64::from(*byte) * (1.0 - share) + f64::from(color) * share;
                *byte = mixed.round() as u8;
            }
        }
    }

    /// The pixels between two places in CSS pixels.
    fn span(&self, from: f64, to: f64, most: usize) -> core::ops::Range<usize> {
        let pixel = |x: f64| ((x * self.scale).round().max(0.0) as usize).min(most);
        pixel(from)..pixel(to)
    }

    fn rect(&mut self, [x, y]: [f64; 2], [width, height]: [f64; 2], color: [u8; 3]) {
        let (across, down) =
            (self.span(x, x + width, self.width), self.span(y, y + height, self.height));
        for row in down {
            let line = &mut self.bytes[row * self.width * 3..][across.start * 3..across.end * 3];
            line.as_chunks_mut::<3>().0.fill(color);
        }
    }

    /// Draws a colour bar. A row of pixels interpolates between the two nearest stops.
    fn bar(&mut self, [x, y]: [f64; 2], [width, height]: [f64; 2], stops: &[[u8; 3]]) {
        let rows = (height * self.scale).ceil();
        for i in 0..rows as usize {
            let place = (1.0 - (i as f64 + 0.5) / rows) * (stops.len() - 1) as f64;
            let (below, share) = (place.floor(), place.fract());
            let [from, to] = [below, place.ceil()].map(|stop| stops[stop as usize]);
            let mix = |k: usize| f64::from(from[k]) * (1.0 - share) + f64::from(to[k]) * share;
            let color = [0, 1, 2].map(|k| mix(k).round() as u8);
            self.rect([x, y + i as f64 / self.scale], [width, 1.0 / self.scale], color);
        }
    }

    fn cells(&mut self, cells: &Cells) {
        let ([left, top], [width, height]) = (cells.at, cells.cell);
        for (i, color) in cells.colors.iter().enumerate() {
            let (row, col) = ((i / cells.cols) as f64, (i % cells.cols) as f64);
            self.rect([left + col * width, top + row * height], cells.cell, *color);
        }
    }

    /// Draws each segment. It covers a pixel by the part of the pixel within half a width of the segment.
    fn line(&mut self, line: &Line) {
        let points: Vec<[f64; 2]> =
            if line.dashed { dashes(&line.points) } else { pairs(&line.points) }
                .into_iter()
                .flatten()
                .map(|point| point.map(|x| x * self.scale))
                .collect();
        let (half, color) = (line.width * self.scale / 2.0, rgb(line.ink));
        for ends in points.as_chunks::<2>().0 {
            let [[x0, y0], [x1, y1]] = *ends;
            let (dx, dy) = (x1 - x0, y1 - y0);
            let length = (dx * dx + dy * dy).max(1e-9);
            let range = |a: f64, b: f64| {
                (a.min(b) - half - 1.0).floor() as i64..=(a.max(b) + half + 1.0).ceil() as i64
            };
            // Only the pixels near the segment are visited.
            for y in range(y0, y1) {
                let near = |y: f64| if dy == 0.0 { x0 } else { x0 + (y - y0) / dy * dx };
                let [above, below] = [y as f64 - half - 1.0, y as f64 + half + 2.0]
                    .map(|y| near(y.clamp(y0.min(y1), y0.max(y1))));
                let across = if dy == 0.0 { range(x0, x1) } else { range(above, below) };
                for x in across {
                    let (px, py) = (x as f64 + 0.5 - x0, y as f64 + 0.5 - y0);
                    let along = ((px * dx + py * dy) / length).clamp(0.0, 1.0);
                    let distance = (px - along * dx).hypot(py - along * dy);
                    let share = (half + 0.5 - distance).clamp(0.0, 1.0) * line.opacity;
                    if share > 0.0 {
                        self.blend(x, y, color, share);
                    }
                }
            }
        }
    }

    fn text(&mut self, text: &Text) {
        let em = text.size * self.scale;
        let letters = letters(&self.fonts, &text.text);
        let width = letters.iter().map(|letter| letter.advance).sum::<f32>() * em as f32;
        let start = match text.anchor {
            Anchor::Start => 0.0,
            Anchor::Middle => -width / 2.0,
            Anchor::End => -width,
        };
        let [x0, y0] = text.at.map(|x| (x * self.scale).round() as i64);
        let color = rgb(text.ink);
        // Bold letters are drawn a second time, a little to the right.
        let strokes: &[f32] = if text.bold { &[0.0, 0.6] } else { &[0.0] };
        for letter in letters {
            let [x, y] = letter.at.map(|ems| ems * em as f32);
            let Some(index) = letter.font else {
                self.missing(text, [f64::from(start + x), f64::from(letter.advance) * em]);
                continue;
            };
            for stroke in strokes {
                let font = &self.fonts[index].outlines;
                // The font's scale is the height of a line, not of an em.
                let lines = f64::from(font.height_unscaled() / font.units_per_em().unwrap_or(1.0));
                let glyph = GlyphId(letter.glyph).with_scale_and_position(
                    PxScale::from((em * lines) as f32),
                    point(start + x + stroke, -y),
                );
                let Some(outline) = font.outline_glyph(glyph) else { continue };
                let corner = outline.px_bounds().min;
                outline.draw(|x, y, share| {
                    let (x, y) = (corner.x as i64 + i64::from(x), corner.y as i64 + i64::from(y));
                    let (x, y) = if text.upright { (y, -x) } else { (x, y) };
                    self.blend(x0 + x, y0 + y, color, f64::from(share));
                });
            }
        }
    }

    /// Draws the box of a character that no font has. Its place on the line of text and its width are in pixels.
    fn missing(&mut self, text: &Text, [from, width]: [f64; 2]) {
        let [left, right] = [from + 0.12 * width, from + 0.88 * width].map(|x| x / self.scale);
        let top = -0.72 * text.size;
        let corners = [[left, 0.0], [right, 0.0], [right, top], [left, top], [left, 0.0]];
        let place = |[x, y]: [f64; 2]| {
            let [x, y] = if text.upright { [y, -x] } else { [x, y] };
            [text.at[0] + x, text.at[1] + y]
        };
        self.line(&Line::new(corners.map(place).to_vec(), text.size / 14.0, text.ink));
    }
}

/// The segments of a line.
fn pairs(points: &[[f64; 2]]) -> Vec<[[f64; 2]; 2]> {
    points.windows(2).map(|ends| [ends[0], ends[1]]).collect()
}

fn dashes(points: &[[f64; 2]]) -> Vec<[[f64; 2]; 2]> {
    let (mut found, mut done) = (Vec::new(), 0.0);
    let period: f64 = DASH.iter().sum();
    for [a, b] in pairs(points) {
        let length = (b[0] - a[0]).hypot(b[1] - a[1]);
        let at = |t: f64| [0, 1].map(|i| a[i] + (b[i] - a[i]) * (t / length));
        let mut t = 0.0;
        while t < length {
            let phase = (done + t) % period;
            let end = if phase < DASH[0] { DASH[0] } else { period };
            let next = (t + end - phase).min(length).max(t + 1e-6);
            if phase < DASH[0] {
                found.push([at(t), at(next)]);
            }
            t = next;
        }
        done += length;
    }
    found
}
