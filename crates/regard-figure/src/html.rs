//! A figure as a page of HTML: the SVG, and a script that shows what is under the pointer.
//!
//! The page needs no network and no other file. It can stand alone, in a blog, or in the output of a notebook. Its colours
//! follow the reader's light or dark theme.

use core::fmt::Write as _;
use std::io::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde_json::{Value, json};

use crate::figure::{Cells, Figure, Told};
use crate::svg::Theme;
use crate::text::escaped;
use crate::{Error, Label};

/// The largest page in numbers: 16 MiB of floats.
pub(crate) const MOST_NUMBERS: usize = 1 << 22;
/// A page with more numbers than this keeps and shows three digits of each, which takes half the bytes.
pub(crate) const MOST_EXACT: usize = 1 << 16;

const THEME: Theme = Theme { paper: "var(--paper)", ink: "var(--ink)", quiet: "var(--quiet)" };

/// The style and the script of every page.
pub(crate) const STYLE: &str = include_str!("html/figure.css");
const SCRIPT: &str = include_str!("html/figure.js");

impl Figure {
    /// The figure as one HTML file. It shows the row, the column and the number of the cell under the pointer, or the tip of
    /// a line. Five digits of a number are shown, or three if there are more than 65,536 numbers.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if there are more than 4 million numbers, [`Error::Writer`] if cells cannot be embedded.
    pub fn html(&self) -> Result<String, Error> {
        let count: usize = self.matrices().map(|cells| cells.told.values.len()).sum();
        if count > MOST_NUMBERS {
            return Err(Error::TooLarge(format!(
                "a page of {count} numbers is too large (at most {MOST_NUMBERS}): write it as .svg, .npy or .safetensors"
            )));
        }
        let told = self.told(count > MOST_EXACT).map_err(Error::writer)?.to_string();
        let (title, svg) = (escaped(&self.title), self.svg_in(&THEME)?);
        let mut out = String::new();
        let _ = write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n\
             <figure class=\"regard\" aria-label=\"{title}\">\n{svg}<output class=\"tip\" aria-live=\"polite\"></output>\n\
             <script type=\"application/json\">{}</script>\n</figure>\n<script>\n{SCRIPT}</script>\n</html>\n",
            told.replace('<', "\\u003c") // so that no text of the page ends the script or begins another one
        );
        Ok(out)
    }
}

impl Figure {
    /// What the script tells of the cells: `cells` has their places and names, `labels` the lists of labels that they refer to, and
    /// `numbers` the numbers of all cells, one matrix after the other, of which `digits` are shown.
    fn told(&self, is_rounded: bool) -> io::Result<Value> {
        // The matrices of a grid have the same labels.
        let mut labels: Vec<&[Label]> = Vec::new();
        let mut place = |of| {
            labels.iter().position(|known| *known == of).unwrap_or_else(|| {
                labels.push(of);
                labels.len() - 1
            })
        };
        let cells: Vec<Value> = self
            .matrices()
            .map(|cells| {
                let Cells { at, cell, told: Told { name, rows, cols, axes, masked, .. }, .. } =
                    cells;
                json!({
                    "at": at,
                    "cell": cell,
                    "name": name,
                    "rows": place(rows),
                    "cols": place(cols),
                    "axes": axes,
                    "masked": if masked.is_finite() { json!(masked) } else { json!("−∞") },
                })
            })
            .collect();
        let numbers = self.matrices().flat_map(|cells| cells.told.values.iter().copied());
        let numbers: Vec<f32> =
            if is_rounded { numbers.map(rounded).collect() } else { numbers.collect() };
        Ok(json!({
            "cells": cells,
            "labels": labels.into_iter().map(texts).collect::<Vec<_>>(),
            "numbers": STANDARD.encode(packed(&numbers)?),
            "digits": if is_rounded { 3 } else { 5 },
        }))
    }
}

/// A number with 11 significant bits, so with an error of at most 2⁻¹¹ of its size: less than half a unit of the third digit.
pub(crate) fn rounded(x: f32) -> f32 {
    let rounded = f32::from_bits(x.to_bits().saturating_add(0x1000) & !0x1FFF);
    if x.is_finite() && rounded.is_finite() { rounded } else { x }
}

/// Numbers as zlib packs them best: the highest byte of each, then the next byte of each, and so on.
pub(crate) fn packed(numbers: &[f32]) -> io::Result<Vec<u8>> {
    let mut packed = ZlibEncoder::new(Vec::new(), Compression::default());
    for byte in 0..4 {
        let plane: Vec<u8> = numbers.iter().map(|x| x.to_be_bytes()[byte]).collect();
        packed.write_all(&plane)?;
    }
    packed.finish()
}

pub(crate) fn texts(labels: &[Label]) -> Vec<&str> {
    labels.iter().map(|label| label.text.as_str()).collect()
}
