//! All heads of an attention as one page of HTML: a strip of them, and one large as lines between tokens and as a matrix.
//!
//! The page needs no network and no other file, and it stands in the output of a notebook as it stands alone. The numbers are packed
//! once, as in the page of a figure, and the script draws them: a head is no element of the page until it is looked at.

use core::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::html::{MOST_EXACT, MOST_NUMBERS, STYLE, packed, rounded, texts};
use crate::palette::COLORS;
use crate::text::escaped;
use crate::{Error, Ground, Label, Look, Palette, Signs, largest};

const HEADS_STYLE: &str = include_str!("html/heads.css");
const HEADS_SCRIPT: &str = include_str!("html/heads.js");

/// The attention of each head of each layer, of one text or of several.
///
/// ```
/// use regard_figure::{HeadsPage, Label};
/// let tokens = vec![Label::plain("Mia"), Label::plain("gave")];
/// let page = HeadsPage {
///     title: "story".to_owned(),
///     layers: vec!["layer 0".to_owned()],
///     heads: 1,
///     tokens: vec![[tokens.clone(), tokens]],
///     values: vec![1.0, 0.0, 0.25, 0.75],
/// };
/// assert!(page.html()?.contains("\"shape\":[1,1,1,2,2]"));
/// # Ok::<(), regard_figure::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct HeadsPage {
    /// What stands above the page.
    pub title: String,
    /// The name of each row of the strip.
    pub layers: Vec<String>,
    /// The number of heads of a layer.
    pub heads: usize,
    /// The tokens of the queries and of the keys of each text. All texts have as many.
    pub tokens: Vec<[Vec<Label>; 2]>,
    /// \[texts, layers, heads, queries, keys\].
    pub values: Vec<f32>,
}

impl HeadsPage {
    /// The page as one HTML file. Five digits of a number are shown, or three if there are more than 65,536 numbers.
    ///
    /// # Errors
    /// [`Error::Empty`] without numbers, [`Error::Shape`] if their count is not that of the names, [`Error::TooLarge`] if there are more
    /// than 4 million, [`Error::Writer`] if they cannot be embedded.
    pub fn html(&self) -> Result<String, Error> {
        let Self { title, layers, heads, tokens, values } = self;
        let sides = tokens.first().map_or([0; 2], |sides| sides.each_ref().map(Vec::len));
        let shape = [tokens.len(), layers.len(), *heads, sides[0], sides[1]];
        if shape.contains(&0) {
            return Err(Error::Empty);
        }
        let fits = tokens.iter().all(|of| of.each_ref().map(Vec::len) == sides);
        if values.len() != shape.iter().product::<usize>() || !fits {
            let rows = shape[..4].iter().product();
            return Err(Error::Shape { values: values.len(), rows, cols: shape[4] });
        }
        if values.len() > MOST_NUMBERS {
            return Err(Error::TooLarge(format!(
                "a page of {} numbers is too large (at most {MOST_NUMBERS}): show fewer layers, or the window",
                values.len()
            )));
        }
        let is_rounded = values.len() > MOST_EXACT;
        let short: Vec<f32> =
            values.iter().map(|x| if is_rounded { rounded(*x) } else { *x }).collect();
        let numbers = packed(&short).map_err(Error::writer)?;
        let palette = Palette::up_to(largest(values), Signs::of(values), Look::default());
        let colors = [Ground::Paper, Ground::Dark].map(|ground| {
            (0..COLORS).fold(String::new(), |mut hex, texel| {
                let [r, g, b] = palette.on(ground).texel(texel);
                let _ = write!(hex, "{r:02x}{g:02x}{b:02x}");
                hex
            })
        });
        let told = json!({
            "shape": shape,
            "layers": layers,
            "tokens": tokens.iter().map(|of| of.each_ref().map(|side| texts(side))).collect::<Vec<_>>(),
            "range": palette.range(),
            "colors": colors,
            "digits": if is_rounded { 3 } else { 5 },
            "numbers": STANDARD.encode(numbers),
        });
        let (title, told) = (escaped(title), told.to_string().replace('<', "\\u003c"));
        Ok(format!(
            "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n<style>\n{STYLE}{HEADS_STYLE}</style>\n\
             <figure class=\"regard regard-heads\" aria-label=\"{title}\">\n<figcaption>{title}</figcaption>\n\
             <script type=\"application/json\">{told}</script>\n</figure>\n<script>\n{HEADS_SCRIPT}</script>\n</html>\n"
        ))
    }
}
