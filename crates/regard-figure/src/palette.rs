//! The colours of numbers, for the window, for files and for the terminal.

use core::fmt::{self, Display};

use serde::{Deserialize, Serialize};

use crate::{Extent, numbers};

mod map;

pub use self::map::{COLORS, Ground, Map, NOT_A_NUMBER, TEXELS};
use self::map::{MASKED, NAN};

/// A logarithmic map of positive numbers begins at this share of the largest number.
const FLOOR: f32 = 1e-6;

/// A logarithmic diverging map is linear below this share of the limit.
const LINEAR: f32 = 1e-3;

/// The ends of a map lie between these, so that they and all numbers computed from them are normal.
const ENDS: [f32; 2] = [1e-30, 1e38];

/// The user's choice of colours for weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Look {
    /// The map for numbers from 0 upwards. Numbers of both signs have their own map.
    pub map: Map,
    /// Whether equal steps of colour stand for equal factors. `None`: the numbers decide ([`Extent::is_faint`]).
    pub logarithmic: Option<bool>,
    /// The number where colours end, as a share of the largest one. `None`: the numbers decide ([`Extent::end`]).
    pub end: Option<f32>,
    /// What the picture stands on.
    #[serde(skip)]
    pub ground: Ground,
}

/// The signs of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Signs {
    /// 0 and above: weights.
    Positive,
    /// Both: scores, and differences of weights.
    Both,
}

impl Signs {
    /// The signs of those numbers that are finite.
    pub fn of(numbers: &[f32]) -> Self {
        let is_negative = |x: &f32| *x < 0.0 && x.is_finite();
        if numbers.iter().any(is_negative) { Self::Both } else { Self::Positive }
    }
}

/// A map from numbers to colours.
///
/// ```
/// use regard_figure::{Ground, Look, Map, Palette};
/// let palette = Palette::weights(0.25, Look::default());
/// assert_eq!(palette.marks(), [0.0, 0.125, 0.25]);
/// assert_eq!(palette.rgb(0.125), Map::Magma.at(0.5, Ground::Paper));
/// assert_eq!(palette.rgb(7.0), Map::Magma.at(1.0, Ground::Paper));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Palette {
    /// `None` for numbers without colours.
    map: Option<Map>,
    ground: Ground,
    low: f32,
    high: f32,
    logarithmic: bool,
    /// Whether numbers are beyond the ends of the map.
    clipped: bool,
}

impl Palette {
    /// Numbers without colours.
    pub const PLAIN: Self = Self {
        map: None,
        ground: Ground::Paper,
        low: 0.0,
        high: 1.0,
        logarithmic: false,
        clipped: false,
    };

    /// Numbers without colours. The scale of the look applies if [`Palette::with_map`] adds a map.
    pub fn plain(look: Look) -> Self {
        let logarithmic = look.logarithmic == Some(true);
        Self { logarithmic, ground: look.ground, ..Self::PLAIN }
    }

    /// The palette of numbers of this extent. Unless the look fixes them, the numbers choose the scale and where it ends: a
    /// logarithmic map goes up to the largest number, a linear one to the end.
    pub fn of(extent: Extent, signs: Signs, look: Look) -> Self {
        let logarithmic = look.logarithmic.unwrap_or(extent.is_faint);
        let by_data = if logarithmic { extent.largest } else { extent.end };
        let end = look.end.map_or(by_data, |share| share * extent.largest);
        let look = Look { logarithmic: Some(logarithmic), end: None, ..look };
        Self { clipped: end < extent.largest, ..Self::up_to(end, signs, look) }
    }

    /// The palette from 0 to `largest`, or from −`largest` to `largest` for numbers of both signs. It is linear unless the
    /// look says otherwise.
    pub fn up_to(largest: f32, signs: Signs, look: Look) -> Self {
        match signs {
            Signs::Positive => Self::weights(largest, look),
            Signs::Both => Self::signed(largest, look),
        }
    }

    /// The palette from 0 to `largest`.
    pub fn weights(largest: f32, look: Look) -> Self {
        let (high, clipped) = end(largest, look);
        let logarithmic = look.logarithmic == Some(true);
        let low = if logarithmic { high * FLOOR } else { 0.0 };
        Self { map: Some(look.map), ground: look.ground, low, high, logarithmic, clipped }
    }

    /// The palette from −`limit` to `limit`, with 0 in the middle.
    pub fn signed(limit: f32, look: Look) -> Self {
        let (limit, clipped) = end(limit, look);
        let logarithmic = look.logarithmic == Some(true);
        let (map, ground) = (Some(Map::Diverging), look.ground);
        Self { map, ground, low: -limit, high: limit, logarithmic, clipped }
    }

    /// The same palette on another ground.
    #[must_use]
    pub fn on(self, ground: Ground) -> Self {
        Self { ground, ..self }
    }

    /// What the colours stand on.
    pub fn ground(self) -> Ground {
        self.ground
    }

    /// The palette of the same numbers with another map. For numbers that are not weights, a sequential map goes from the
    /// smallest to the largest, or from 0 if it is logarithmic.
    #[must_use]
    pub fn with_map(self, map: Map, numbers: &[f32]) -> Self {
        let logarithmic = Some(self.logarithmic);
        let look = Look { map, logarithmic, end: None, ground: self.ground };
        let high = if self.is_plain() { largest(numbers) } else { self.high };
        if map == Map::Diverging {
            return Self { clipped: self.clipped, ..Self::signed(high, look) };
        }
        if self.logarithmic || !self.is_plain() && !self.is_diverging() {
            return Self { clipped: self.clipped, ..Self::weights(high, look) };
        }
        let [smallest, most] = ENDS;
        let finite = || numbers.iter().filter(|x| x.is_finite()).map(|x| x.clamp(-most, most));
        let low = finite().reduce(f32::min).unwrap_or(0.0);
        let high = finite().fold(low, f32::max);
        let high = if high - low > smallest { high } else { low + low.abs().max(1.0) };
        Self { map: Some(map), ground: self.ground, low, high, logarithmic: false, clipped: false }
    }

    /// The map. `None` without colours.
    pub fn map(self) -> Option<Map> {
        self.map
    }

    /// Whether the palette has no colours.
    pub fn is_plain(self) -> bool {
        self.map.is_none()
    }

    /// Whether the map has 0 in its middle, with colours for both signs.
    pub fn is_diverging(self) -> bool {
        self.map == Some(Map::Diverging) && self.low < 0.0
    }

    /// The signs of the numbers that the map has colours for.
    pub fn signs(self) -> Signs {
        if self.is_diverging() { Signs::Both } else { Signs::Positive }
    }

    /// The colours of a line for a number above 0 and for one below 0. `None`: the map is for numbers of one sign.
    ///
    /// ```
    /// use regard_figure::{Look, Palette};
    /// assert!(Palette::weights(1.0, Look::default()).of_signs().is_none());
    /// let [above, below] = Palette::signed(1.0, Look::default()).of_signs().unwrap();
    /// assert_ne!(above, below);
    /// ```
    pub fn of_signs(self) -> Option<[[u8; 3]; 2]> {
        self.is_diverging().then(|| [0.85, 0.15].map(|t| Map::Diverging.at(t, self.ground)))
    }

    /// The numbers at both ends of the map.
    pub fn range(self) -> (f32, f32) {
        (self.low, self.high)
    }

    /// The numbers at the low end, in the middle and at the high end.
    pub fn marks(self) -> [f32; 3] {
        let (low, high) = self.range();
        let middle = if self.logarithmic && low > 0.0 {
            low.sqrt() * high.sqrt()
        } else {
            f32::midpoint(low, high)
        };
        [low, middle, high]
    }

    /// The [`marks`](Self::marks) as a colour bar names them: `≥ 0.01` if larger numbers have the last colour, and `0.001 log` in
    /// the middle of a logarithmic map.
    ///
    /// ```
    /// use regard_figure::{Extent, Look, Palette, Signs};
    /// let extent = Extent { largest: 1.0, end: 0.01, is_faint: false };
    /// assert_eq!(Palette::of(extent, Signs::Positive, Look::default()).ticks(), ["0", "0.005", "≥ 0.01"]);
    /// let look = Look { logarithmic: Some(true), ..Look::default() };
    /// assert_eq!(Palette::of(extent, Signs::Positive, look).ticks(), ["1e−6", "0.001 log", "1"]);
    /// ```
    pub fn ticks(self) -> [String; 3] {
        let [low, middle, high] = self.marks().map(numbers::tick);
        let low = if self.clipped && self.low < 0.0 { format!("≤ {low}") } else { low };
        let middle = if self.logarithmic { format!("{middle} log") } else { middle };
        let high = if self.clipped { format!("≥ {high}") } else { high };
        [low, middle, high]
    }

    /// A number as a cell shows it. The columns of a table without colours have different units, so each of its numbers has three
    /// digits of its own.
    ///
    /// ```
    /// use regard_figure::{Look, Palette};
    /// assert_eq!(Palette::PLAIN.number(0.000_35, 3), "0.00035");
    /// assert_eq!(Palette::weights(1.0, Look::default()).number(0.000_35, 3), "0.000");
    /// ```
    pub fn number(self, x: f32, decimals: usize) -> String {
        if self.is_plain() && x.is_finite() {
            numbers::spoken(x)
        } else {
            numbers::fixed(x, decimals)
        }
    }

    /// The colour of a number: red, green and blue. A number outside the range has the colour of the nearer end.
    pub fn rgb(self, x: f32) -> [u8; 3] {
        self.texel(self.texels()(x))
    }

    /// A colour by its index among the map's [`TEXELS`] colours.
    pub(crate) fn texel(self, texel: usize) -> [u8; 3] {
        self.map.map_or([0; 3], |map| map.texel(texel, self.ground))
    }

    /// The function from a number to its index among the map's [`TEXELS`] colours.
    pub fn texels(self) -> impl Fn(f32) -> usize + Sync {
        let position = self.positions();
        move |x| {
            // `as` saturates, so a number beyond the end is at the end. Selection beats a branch, because many numbers are masked.
            let place = ((position(x) * (COLORS - 1) as f32 + 0.5) as u32).min(COLORS as u32 - 1);
            let place = if x == f32::NEG_INFINITY { MASKED as u32 } else { place };
            (if x.is_nan() { NAN as u32 } else { place }) as usize
        }
    }

    /// The function from a number to its position: 0 at the low end, 1 at the high end.
    fn positions(self) -> impl Fn(f32) -> f32 + Sync {
        let Self { low, high, logarithmic, .. } = self;
        let both_signs = self.is_diverging();
        let linear = 1.0 / (high - low);
        let knee = 1.0 / (high * LINEAR);
        let (first, last) =
            (log2(low), if both_signs { log2(1.0 + 1.0 / LINEAR) } else { log2(high) });
        move |x| match (logarithmic, both_signs) {
            (false, _) => (x - low) * linear,
            (true, false) => (log2(x) - first) / (last - first),
            (true, true) => 0.5 + 0.5 * (log2(1.0 + x.abs() * knee) / last).copysign(x),
        }
    }
}

impl Display for Palette {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { low, high, .. } = self;
        let scale = if self.logarithmic { "logarithmic" } else { "linear" };
        let beyond = if self.clipped { " and beyond" } else { "" };
        match self.map {
            Some(map) => write!(f, "{low} to {high}{beyond}, {}, {scale}", map.name()),
            None => f.write_str("no colours"),
        }
    }
}

/// The high end of a map, or 1 if all numbers are 0, and whether it lies below the largest number.
fn end(largest: f32, look: Look) -> (f32, bool) {
    let [smallest, most] = ENDS;
    let end = look.end.map_or(largest, |share| share * largest);
    (if end > 0.0 { end.clamp(smallest, most) } else { 1.0 }, end < largest)
}

/// The largest absolute value among finite numbers.
pub fn largest(numbers: &[f32]) -> f32 {
    numbers.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(0.0, f32::max)
}

/// log₂ x with an error below 0.011, less than a step of colour. Below the smallest normal number, it is constant.
fn log2(x: f32) -> f32 {
    let bits = x.max(f32::MIN_POSITIVE).to_bits();
    let mantissa = f32::from_bits(bits & 0x007F_FFFF | 0x3F80_0000);
    let exponent = (bits >> 23) as f32 - 127.0;
    exponent + (-0.344_845 * mantissa + 2.024_658) * mantissa - 1.679_813
}

/// The colour of a curve by its number: Tableau's ten, over and over.
pub fn curve_color(i: usize) -> [u8; 3] {
    let c = colorous::TABLEAU10[i % colorous::TABLEAU10.len()];
    [c.r, c.g, c.b]
}

/// Black or white, whichever has more contrast with `background`.
pub fn ink_on(background: [u8; 3]) -> [u8; 3] {
    // Black and white have the same contrast with the luminance whose square, 0.05 added to it, is 0.05 · 1.05.
    if luminance(background) > 0.179 { [0; 3] } else { [255; 3] }
}

/// The relative luminance of a colour: 0 is black, and 1 is white (WCAG 2.2).
fn luminance(color: [u8; 3]) -> f32 {
    let [r, g, b] = color.map(|part| {
        let x = f32::from(part) / 255.0;
        if x <= 0.040_45 { x / 12.92 } else { ((x + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

#[cfg(test)]
mod tests {
    use super::*;

    /// WCAG 2.2 asks for a contrast of 4.5 between a text and its ground.
    #[test]
    fn ink_is_readable_on_every_colour() {
        let parts = || (0..=255).step_by(15);
        for color in
            parts().flat_map(|r| parts().flat_map(move |g| parts().map(move |b| [r, g, b])))
        {
            let [ground, ink] = [color, ink_on(color)].map(|color| luminance(color) + 0.05);
            let contrast = (ground / ink).max(ink / ground);
            assert!(contrast >= 4.5, "{contrast} on {color:?}");
        }
    }

    #[test]
    fn a_logarithm_is_right_to_a_step_of_colour() {
        for i in 0..10_000 {
            let x = 10_f32.powf(-30.0 + 60.0 * i as f32 / 10_000.0);
            assert!((log2(x) - x.log2()).abs() < 0.011, "{x}: {} {}", log2(x), x.log2());
        }
        assert_eq!(log2(0.0), log2(-1.0));
    }

    #[test]
    fn equal_factors_are_equal_steps_on_a_logarithmic_map() {
        let look = Look { logarithmic: Some(true), ..Look::default() };
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

    #[test]
    fn another_map_has_the_range_of_its_numbers() {
        let numbers = [-3.0, 2.0, f32::NAN, f32::NEG_INFINITY];
        let weights = |look| Palette::weights(1.0, look);
        let signed = |look| Palette::signed(largest(&numbers), look);
        let ends = |logarithmic, palette: &dyn Fn(Look) -> Palette, map| {
            let look = Look { logarithmic: Some(logarithmic), ..Look::default() };
            palette(look).with_map(map, &numbers).range()
        };
        assert_eq!(ends(false, &weights, Map::Magma), (0.0, 1.0));
        assert_eq!(ends(false, &weights, Map::Diverging), (-1.0, 1.0));
        for palette in [&signed as &dyn Fn(Look) -> Palette, &Palette::plain] {
            assert_eq!(ends(false, palette, Map::Magma), (-3.0, 2.0));
            assert_eq!(ends(true, palette, Map::Magma), (3.0 * FLOOR, 3.0));
            assert_eq!(ends(true, palette, Map::Diverging), (-3.0, 3.0));
        }
    }

    #[test]
    fn numbers_that_are_all_the_same_or_missing_or_extreme_have_a_range_too() {
        for numbers in [
            &[][..],
            &[0.0],
            &[5.0, 5.0],
            &[-5.0],
            &[f32::NAN],
            &[f32::MAX, f32::MIN],
            &[1e-40],
            &[f32::MAX],
        ] {
            for (map, logarithmic) in Map::ALL.iter().flat_map(|m| [(*m, false), (*m, true)]) {
                let look = Look { map, logarithmic: Some(logarithmic), ..Look::default() };
                let limit = largest(numbers);
                let signed = Palette::signed(limit, look);
                for palette in
                    [signed, Palette::weights(limit, look), signed.with_map(map, numbers)]
                {
                    let (low, high) = palette.range();
                    assert!(low < high, "{palette} for {numbers:?}");
                    let position = palette.positions();
                    assert!(
                        (position(low)).abs() < 1e-3 && (position(high) - 1.0).abs() < 1e-3,
                        "{palette}"
                    );
                    assert!(
                        palette.marks().is_sorted()
                            && palette.marks().iter().all(|x| x.is_finite()),
                        "{palette}"
                    );
                }
            }
        }
    }
}
