//! A figure as a page of HTML: the SVG, and a script that shows what is under the pointer.
//!
//! The page needs no network and no other file. It can stand alone, in a blog, or in the output of a notebook. Its colours
//! follow the reader's light or dark theme.

use core::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::figure::{Cells, Figure, Shape, Told};
use crate::svg::Theme;
use crate::text::escaped;
use crate::{Error, Label};

/// The largest page in numbers: 16 MiB of floats.
const MOST_NUMBERS: usize = 1 << 22;

const THEME: Theme = Theme { paper: "var(--paper)", ink: "var(--ink)", quiet: "var(--quiet)" };

/// The style and the script of every page.
const STYLE: &str = include_str!("html/figure.css");
const SCRIPT: &str = include_str!("html/figure.js");

impl Figure {
    /// The figure as one HTML file. It shows the row, the column and the number of the cell under the pointer, or the tip of
    /// a line.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if there are more than 4 million numbers, [`Error::Writer`] if cells cannot be embedded.
    pub fn html(&self) -> Result<String, Error> {
        let cells = || {
            self.shapes.iter().filter_map(|shape| match shape {
                Shape::Cells(cells) => Some(cells),
                _ => None,
            })
        };
        let numbers: usize = cells().map(|cells| cells.told.values.len()).sum();
        if numbers > MOST_NUMBERS {
            return Err(Error::TooLarge(format!(
                "a page of {numbers} numbers is too large (at most {MOST_NUMBERS}): write it as .svg, .npy or .safetensors"
            )));
        }
        let told = Value::from(cells().map(told).collect::<Vec<_>>()).to_string();
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

/// The numbers of cells and their place, for the script.
fn told(cells: &Cells) -> Value {
    let Told { name, values, rows, cols, axes, masked } = &cells.told;
    let bytes: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
    json!({
        "at": cells.at,
        "cell": cells.cell,
        "name": name,
        "rows": texts(rows),
        "cols": texts(cols),
        "axes": axes,
        "masked": if masked.is_finite() { json!(masked) } else { json!("−∞") },
        "values": STANDARD.encode(bytes),
    })
}

fn texts(labels: &[Label]) -> Vec<&str> {
    labels.iter().map(|label| label.text.as_str()).collect()
}
