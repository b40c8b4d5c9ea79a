//! What colour a number has.

use std::sync::OnceLock;

use egui::{Color32, ColorImage};
use regard_walkthrough::Kind;
use serde::{Deserialize, Serialize};

use crate::palette;
pub use crate::palette::Map;

/// What stands for −∞: a place that may not be seen.
pub const HIDDEN: Color32 = color(palette::HIDDEN);

/// What stands for NaN. It is on no map.
pub const NOT_A_NUMBER: Color32 = color(palette::NOT_A_NUMBER);

/// Colours of a map, odd so that the middle of a diverging one is among them.
const COLORS: usize = 1025;

/// After the colours of a map come that of −∞ and that of NaN.
const MASKED: usize = COLORS;
const NAN: usize = COLORS + 1;
type Table = [Color32; COLORS + 2];

/// A logarithmic map from 0 goes down to the largest number times this.
const FLOOR: f32 = 1e-6;

/// On a logarithmic diverging map, numbers below the limit times this are as on a linear one.
const LINEAR: f32 = 1e-3;

/// The colours of a map, computed once.
fn table(map: Map) -> &'static Table {
    static TABLES: [OnceLock<Table>; Map::ALL.len()] = [const { OnceLock::new() }; Map::ALL.len()];
    TABLES[map as usize].get_or_init(|| {
        core::array::from_fn(|i| match i {
            MASKED => color(map.hidden()),
            NAN => NOT_A_NUMBER,
            _ => color(map.at(i as f64 / (COLORS - 1) as f64)),
        })
    })
}

const fn color([r, g, b]: [u8; 3]) -> Color32 {
    Color32::from_rgb(r, g, b)
}

/// How the user wants to see weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Look {
    /// For numbers from 0; numbers of both signs have their own map.
    pub map: Map,
    /// Whether equal steps of colour are equal factors.
    pub logarithmic: bool,
}

/// How numbers become colours.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Palette {
    /// `None` for no colours: the numbers alone.
    map: Option<Map>,
    low: f32,
    high: f32,
    logarithmic: bool,
}

impl Palette {
    /// No colours: the numbers alone.
    pub const PLAIN: Self = Self { map: None, low: 0.0, high: 1.0, logarithmic: false };

    /// The palette for numbers of this kind.
    pub fn new(kind: Kind, numbers: &[f32]) -> Self {
        Self::with_look(kind, numbers, Look::default())
    }

    /// The palette for numbers of this kind, as the user wants to see them.
    pub fn with_look(kind: Kind, numbers: &[f32], look: Look) -> Self {
        match kind {
            Kind::Weights => Self::weights(1.0, look),
            Kind::Table => Self::PLAIN,
            Kind::Signed => Self::signed(largest(numbers), look),
        }
    }

    /// From 0 to `high`.
    pub fn weights(high: f32, look: Look) -> Self {
        let low = if look.logarithmic { high * FLOOR } else { 0.0 };
        Self { map: Some(look.map), low, high, logarithmic: look.logarithmic }
    }

    /// From −`limit` to `limit`, 0 in the middle.
    pub fn signed(limit: f32, look: Look) -> Self {
        let limit = if limit > 0.0 { limit } else { 1.0 };
        Self { map: Some(Map::Diverging), low: -limit, high: limit, logarithmic: look.logarithmic }
    }

    /// Whether there are colours at all.
    pub fn is_plain(self) -> bool {
        self.map.is_none()
    }

    /// Whether the middle is 0, and both signs have colours.
    pub fn is_diverging(self) -> bool {
        self.map == Some(Map::Diverging)
    }

    /// The numbers at both ends of the map.
    pub fn range(self) -> (f32, f32) {
        (self.low, self.high)
    }

    /// The numbers at the low end, in the middle and at the high end.
    pub fn marks(self) -> [f32; 3] {
        let (low, high) = self.range();
        let middle = if self.logarithmic && low > 0.0 { (low * high).sqrt() } else { f32::midpoint(low, high) };
        [low, middle, high]
    }

    /// The colour of a number. What lies outside the range gets the colour of its end.
    pub fn color(self, x: f32) -> Color32 {
        self.colors()(x)
    }

    /// The colours of many numbers.
    pub fn colors(self) -> impl Fn(f32) -> Color32 + Sync {
        static NONE: Table = [Color32::TRANSPARENT; COLORS + 2];
        let table = self.map.map_or(&NONE, table);
        let position = self.positions();
        move |x| {
            // `as` saturates: a number beyond the end is at the end. Selected, not branched on: many numbers are masked.
            let place = ((position(x) * (COLORS - 1) as f32 + 0.5) as u32).min(COLORS as u32 - 1);
            let place = if x == f32::NEG_INFINITY { MASKED as u32 } else { place };
            table[if x.is_nan() { NAN as u32 } else { place } as usize]
        }
    }

    /// Where a number is between the ends: 0 to 1, or beyond.
    fn positions(self) -> impl Fn(f32) -> f32 + Sync {
        let Self { low, high, logarithmic, .. } = self;
        let both_signs = self.is_diverging();
        let linear = 1.0 / (high - low);
        let knee = 1.0 / (high * LINEAR);
        let (first, last) = (log2(low), if both_signs { log2(1.0 + 1.0 / LINEAR) } else { log2(high) });
        move |x| match (logarithmic, both_signs) {
            (false, _) => (x - low) * linear,
            (true, false) => (log2(x) - first) / (last - first),
            (true, true) => 0.5 + 0.5 * (log2(1.0 + x.abs() * knee) / last).copysign(x),
        }
    }

    /// A picture of `cols` texels across: one a number.
    pub fn image(self, numbers: &[f32], cols: usize) -> ColorImage {
        let rows = numbers.len() / cols.max(1);
        let color = self.colors();
        ColorImage::new([cols, rows], numbers.iter().map(|&x| color(x)).collect())
    }

    /// The colour at a place of the colour bar, from 0 at the low end to 1 at the high end.
    pub fn at(self, t: f32) -> Color32 {
        let t = (t.clamp(0.0, 1.0) * (COLORS - 1) as f32).round() as usize;
        self.map.map_or(Color32::TRANSPARENT, |map| table(map)[t])
    }
}

/// The size of the largest number.
pub fn largest(numbers: &[f32]) -> f32 {
    numbers.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(0.0, f32::max)
}

/// log₂ to 0.01, which is less than a step of colour; below 0 it is that of the smallest normal number.
fn log2(x: f32) -> f32 {
    let bits = x.max(f32::MIN_POSITIVE).to_bits();
    let mantissa = f32::from_bits(bits & 0x007F_FFFF | 0x3F80_0000);
    let exponent = (bits >> 23) as f32 - 127.0;
    exponent + (-0.344_845 * mantissa + 2.024_658) * mantissa - 1.679_813
}

/// Black or white, whichever can be read on `background`.
pub fn ink_on(background: Color32) -> Color32 {
    let [r, g, b, _] = background.to_array();
    color(palette::ink_on([r, g, b]))
}

/// Colours for the curves of a plot, one a token.
pub fn curve(i: usize) -> Color32 {
    let c = colorous::TABLEAU10[i % colorous::TABLEAU10.len()];
    Color32::from_rgb(c.r, c.g, c.b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithm_is_right_to_a_step_of_colour() {
        for i in 0..10_000 {
            let x = 10_f32.powf(egui::lerp(-30.0..=30.0, i as f32 / 10_000.0));
            assert!((log2(x) - x.log2()).abs() < 0.011, "{x}: {} {}", log2(x), x.log2());
        }
        assert_eq!(log2(0.0), log2(-1.0));
    }

    #[test]
    fn nothing_on_a_map_looks_masked_or_not_a_number() {
        let distance = |a: Color32, b: Color32| {
            a.to_array().iter().zip(b.to_array()).map(|(a, b)| i32::from(a.abs_diff(b)).pow(2)).sum::<i32>()
        };
        for map in Map::ALL {
            for special in [color(map.hidden()), NOT_A_NUMBER] {
                let nearest = table(map)[..COLORS].iter().map(|c| distance(*c, special)).min().unwrap_or(0);
                assert!(nearest > 30 * 30, "{}: {special:?}", map.name());
            }
        }
    }

    #[test]
    fn equal_factors_are_equal_steps_on_a_logarithmic_map() {
        let look = Look { logarithmic: true, ..Look::default() };
        let position = Palette::weights(1.0, look).positions();
        for (x, t) in [(1e-6, 0.0), (1e-3, 0.5), (1.0, 1.0)] {
            assert!((position(x) - t).abs() < 2e-3, "{x}: {}", position(x));
        }
        let position = Palette::signed(2.0, look).positions();
        for (x, t) in [(-2.0, 0.0), (0.0, 0.5), (2.0, 1.0)] {
            assert!((position(x) - t).abs() < 2e-3, "{x}: {}", position(x));
        }
        assert!((position(0.02) + position(-0.02) - 1.0).abs() < 1e-6);
    }
}
