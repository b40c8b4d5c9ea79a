//! What colour a number has.

use egui::{Color32, ColorImage};
use regard_walkthrough::Kind;

/// What stands for −∞: a place that may not be seen.
pub const HIDDEN: Color32 = Color32::from_rgb(140, 143, 150);

/// What stands for NaN. It is on neither map.
pub const NOT_A_NUMBER: Color32 = Color32::from_rgb(10, 10, 10);

/// How numbers become colours. Both maps are ColorBrewer's and can be read by the colour-blind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Palette {
    /// 0 to 1, from light yellow to dark red (YlOrRd).
    Sequential,
    /// Blue below 0, white at 0, red above, as far as `limit` on both sides (RdBu, reversed).
    Diverging {
        /// The size of number that gets the full colour.
        limit: f32,
    },
    /// No colours: the numbers alone.
    Plain,
}

impl Palette {
    /// The palette for numbers of this kind.
    pub fn new(kind: Kind, numbers: &[f32]) -> Self {
        match kind {
            Kind::Weights => Self::Sequential,
            Kind::Table => Self::Plain,
            Kind::Signed => {
                let limit = numbers.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(0.0, f32::max);
                Self::Diverging { limit: if limit > 0.0 { limit } else { 1.0 } }
            }
        }
    }

    /// The numbers at both ends of the map.
    pub fn range(self) -> (f32, f32) {
        match self {
            Self::Diverging { limit } => (-limit, limit),
            Self::Sequential | Self::Plain => (0.0, 1.0),
        }
    }

    /// The numbers at the low end, in the middle and at the high end.
    pub fn marks(self) -> [f32; 3] {
        let (low, high) = self.range();
        [low, f32::midpoint(low, high), high]
    }

    /// The colour of a number. What lies outside the range gets the colour of its end.
    pub fn color(self, x: f32) -> Color32 {
        if x.is_nan() {
            return NOT_A_NUMBER;
        }
        if x == f32::NEG_INFINITY {
            return HIDDEN;
        }
        let (low, high) = self.range();
        let t = f64::from((x - low) / (high - low)).clamp(0.0, 1.0);
        let c = match self {
            Self::Sequential => colorous::YELLOW_ORANGE_RED.eval_continuous(t),
            Self::Diverging { .. } => colorous::RED_BLUE.eval_continuous(1.0 - t),
            Self::Plain => return Color32::TRANSPARENT,
        };
        Color32::from_rgb(c.r, c.g, c.b)
    }

    /// A picture of `cols` texels across: one a number.
    pub fn image(self, numbers: &[f32], cols: usize) -> ColorImage {
        let rows = numbers.len() / cols.max(1);
        ColorImage::new([cols, rows], numbers.iter().map(|&x| self.color(x)).collect())
    }

    /// The map itself, the high end on top.
    pub fn bar(self) -> ColorImage {
        const STEPS: usize = 128;
        let (low, high) = self.range();
        let numbers: Vec<f32> = (0..STEPS).map(|i| egui::lerp(high..=low, i as f32 / (STEPS - 1) as f32)).collect();
        self.image(&numbers, 1)
    }
}

/// Black or white, whichever can be read on `background`.
pub fn ink_on(background: Color32) -> Color32 {
    let [r, g, b, _] = background.to_array().map(f32::from);
    if 0.299 * r + 0.587 * g + 0.114 * b > 140.0 { Color32::BLACK } else { Color32::WHITE }
}

/// Colours for the curves of a plot, one a token.
pub fn curve(i: usize) -> Color32 {
    let c = colorous::TABLEAU10[i % colorous::TABLEAU10.len()];
    Color32::from_rgb(c.r, c.g, c.b)
}
