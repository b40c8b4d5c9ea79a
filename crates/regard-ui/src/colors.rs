//! The colours of numbers as the window draws them.

use std::sync::OnceLock;

use egui::{Color32, ColorImage};

use regard_figure::{COLORS, Ground, TEXELS};
pub(crate) use regard_figure::{Look, Map, Palette, largest};

type Table = [Color32; TEXELS];

/// The colours of a map on a ground, computed once.
fn table(map: Map, ground: Ground) -> &'static Table {
    static TABLES: [[OnceLock<Table>; Map::ALL.len()]; 2] =
        [const { [const { OnceLock::new() }; Map::ALL.len()] }; 2];
    TABLES[ground as usize][map as usize]
        .get_or_init(|| core::array::from_fn(|i| color(map.texel(i, ground))))
}

const fn color([r, g, b]: [u8; 3]) -> Color32 {
    Color32::from_rgb(r, g, b)
}

/// The colours of a [`Palette`] as egui's type.
pub(crate) trait Colors: Copy {
    /// The colour of a number. A number outside the range has the colour of the nearer end.
    fn color(self, x: f32) -> Color32 {
        self.colors()(x)
    }

    fn colors(self) -> impl Fn(f32) -> Color32 + Sync;

    /// An image of `cols` columns with one texel a number.
    fn image(self, numbers: &[f32], cols: usize) -> ColorImage {
        let rows = numbers.len() / cols.max(1);
        let color = self.colors();
        ColorImage::new([cols, rows], numbers.iter().map(|&x| color(x)).collect())
    }

    /// The colour at `t` of the colour bar, from 0 at the low end to 1 at the high end.
    fn at(self, t: f32) -> Color32;
}

impl Colors for Palette {
    fn colors(self) -> impl Fn(f32) -> Color32 + Sync {
        static NONE: Table = [Color32::TRANSPARENT; TEXELS];
        let (table, texel) =
            (self.map().map_or(&NONE, |map| table(map, self.ground())), self.texels());
        move |x| table[texel(x)]
    }

    fn at(self, t: f32) -> Color32 {
        let t = (t.clamp(0.0, 1.0) * (COLORS - 1) as f32).round() as usize;
        self.map().map_or(Color32::TRANSPARENT, |map| table(map, self.ground())[t])
    }
}

/// Black or white, whichever is readable on `background`.
pub(crate) fn ink_on(background: Color32) -> Color32 {
    let [r, g, b, _] = background.to_array();
    color(regard_figure::ink_on([r, g, b]))
}

/// A number in its ink. One that rounds to 0 is a dim 0, which stays in the background.
pub(crate) fn written(text: String, x: f32, ink: Color32) -> (String, Color32) {
    let is_zero = !text.contains(|c: char| ('1'..='9').contains(&c)) && x.is_finite();
    if is_zero { ("0".to_owned(), ink.gamma_multiply(0.45)) } else { (text, ink) }
}

/// The colour of a curve, one for each token.
pub(crate) fn curve(i: usize) -> Color32 {
    color(regard_figure::curve_color(i))
}
