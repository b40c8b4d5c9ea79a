//! What colour a number has, whatever it is drawn with.

use core::str::FromStr;

use regard_walkthrough::Kind;
use serde::{Deserialize, Serialize};

/// What stands for −∞, a place that may not be seen, on maps without grey.
pub const HIDDEN: [u8; 3] = [140, 143, 150];

/// What stands for NaN. It is on no map.
pub const NOT_A_NUMBER: [u8; 3] = [255, 0, 255];

/// A map from 0 … 1 to colours. All of them can be read by the colour-blind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Map {
    /// ColorBrewer's YlOrRd, from light yellow to dark red.
    #[default]
    YellowOrangeRed,
    /// matplotlib's viridis, from dark violet to yellow.
    Viridis,
    /// From dark blue to yellow, the same for the colour-blind (Nuñez et al. 2018).
    Cividis,
    /// matplotlib's magma, from black through red to light yellow.
    Magma,
    /// ColorBrewer's RdBu, reversed: blue, white in the middle, red. For numbers of both signs.
    Diverging,
}

impl Map {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::YellowOrangeRed, Self::Viridis, Self::Cividis, Self::Magma, Self::Diverging];

    /// Those for numbers from 0.
    pub const SEQUENTIAL: [Self; 4] = [Self::YellowOrangeRed, Self::Viridis, Self::Cividis, Self::Magma];

    /// The name to type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Viridis => "viridis",
            Self::Cividis => "cividis",
            Self::Magma => "magma",
            Self::YellowOrangeRed => "ylorrd",
            Self::Diverging => "diverging",
        }
    }

    /// The colour at `t`, from 0 to 1.
    pub fn at(self, t: f64) -> [u8; 3] {
        let t = t.clamp(0.0, 1.0);
        let c = match self {
            Self::Viridis => colorous::VIRIDIS.eval_continuous(t),
            Self::Cividis => colorous::CIVIDIS.eval_continuous(t),
            Self::Magma => colorous::MAGMA.eval_continuous(t),
            Self::YellowOrangeRed => colorous::YELLOW_ORANGE_RED.eval_continuous(t),
            Self::Diverging => colorous::RED_BLUE.eval_continuous(1.0 - t),
        };
        [c.r, c.g, c.b]
    }

    /// What stands for −∞ on this map: grey, but for the map that has grey in its middle.
    pub fn hidden(self) -> [u8; 3] {
        if self == Self::Cividis { [112, 60, 84] } else { HIDDEN }
    }
}

impl FromStr for Map {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|map| map.name() == name).ok_or_else(|| format!("there are {}", known()))
    }
}

/// How the numbers between both ends of a map are spread over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By their logarithm. What is 0 or less gets the colour of the low end.
    Logarithmic,
}

/// The decades that a logarithmic scale shows at most.
const DECADES: i32 = 6;

/// How numbers become colours.
///
/// ```
/// use regard_desktop::palette::{Colors, Map, Scale};
/// let colors = Colors { map: Map::Magma, scale: Scale::Linear, low: 0.0, high: 1.0 };
/// assert_eq!(colors.at(0.0), Map::Magma.at(0.0));
/// assert_eq!(colors.at(7.0), Map::Magma.at(1.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Colors {
    /// The map.
    pub map: Map,
    /// Linear or logarithmic.
    pub scale: Scale,
    /// The number that has the first colour.
    pub low: f32,
    /// The number that has the last colour.
    pub high: f32,
}

impl Colors {
    /// Colours for numbers of a kind. Weights go from 0 to 1, or, logarithmically, from the smallest that is not 0 (but not
    /// more than six decades) to the largest; numbers of any sign as far to both sides as the largest does; a diverging
    /// map has no logarithmic scale.
    pub fn new(kind: Kind, map: Option<Map>, scale: Scale, numbers: &[f32]) -> Self {
        let finite = || numbers.iter().copied().filter(|x| x.is_finite());
        let default = if kind == Kind::Weights { Map::YellowOrangeRed } else { Map::Diverging };
        let map = map.unwrap_or(if scale == Scale::Logarithmic { Map::YellowOrangeRed } else { default });
        let (low, high) = if map == Map::Diverging {
            let limit = finite().map(f32::abs).fold(0.0, f32::max);
            (-limit, limit)
        } else if scale == Scale::Logarithmic {
            let high = finite().fold(0.0, f32::max);
            let low = finite().filter(|x| *x > 0.0).fold(high, f32::min);
            (low.max(high * 10_f32.powi(-DECADES)), high)
        } else if kind == Kind::Weights && finite().all(|x| (0.0..=1.0).contains(&x)) {
            (0.0, 1.0)
        } else {
            (finite().fold(f32::INFINITY, f32::min), finite().fold(f32::NEG_INFINITY, f32::max))
        };
        let scale = if map == Map::Diverging { Scale::Linear } else { scale };
        let (low, high) = match scale {
            Scale::Linear if low < high => (low, high),
            Scale::Logarithmic if 0.0 < low && low < high => (low, high),
            // One number only, or none: any two ends do.
            Scale::Linear if map == Map::Diverging => (-1.0, 1.0),
            Scale::Linear if low.is_finite() => (low, low + low.abs().max(1.0)),
            Scale::Logarithmic if high > 0.0 => (high / 10.0, high),
            Scale::Linear => (0.0, 1.0),
            Scale::Logarithmic => (0.1, 1.0),
        };
        Self { map, scale, low, high }
    }

    /// Where a number stands between both ends: 0 to 1.
    pub fn position(self, x: f32) -> f64 {
        let place = |x: f32| match self.scale {
            Scale::Linear => f64::from(x),
            Scale::Logarithmic => f64::from(x.max(0.0)).log10(),
        };
        let (low, high) = (place(self.low), place(self.high));
        ((place(x) - low) / (high - low)).clamp(0.0, 1.0)
    }

    /// The number that stands at `t` of the way from the low end to the high one.
    pub fn number(self, t: f64) -> f32 {
        let (low, high) = (f64::from(self.low), f64::from(self.high));
        match self.scale {
            Scale::Linear => (low + t * (high - low)) as f32,
            Scale::Logarithmic => 10_f64.powf(low.log10() + t * (high.log10() - low.log10())) as f32,
        }
    }

    /// The colour of a number. What lies outside has the colour of its end.
    pub fn at(self, x: f32) -> [u8; 3] {
        if x.is_nan() {
            NOT_A_NUMBER
        } else if x == f32::NEG_INFINITY {
            self.map.hidden()
        } else {
            self.map.at(self.position(x))
        }
    }

    /// Numbers to write beside a colour bar: five evenly spread, or the powers of ten.
    pub fn ticks(self) -> Vec<f32> {
        let powers = || (-45..=38).map(|e| 10_f32.powi(e)).filter(|x| (self.low..=self.high).contains(x));
        match self.scale {
            Scale::Logarithmic if powers().count() >= 2 => powers().collect(),
            Scale::Logarithmic => vec![self.low, self.high],
            Scale::Linear => (0..=4).map(|i| self.number(f64::from(i) / 4.0)).collect(),
        }
    }
}

/// Black or white, whichever can be read on `background`.
pub fn ink_on(background: [u8; 3]) -> [u8; 3] {
    let [r, g, b] = background.map(f32::from);
    if 0.299 * r + 0.587 * g + 0.114 * b > 140.0 { [0; 3] } else { [255; 3] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_scales_begin_and_end_with_the_map() {
        for scale in [Scale::Linear, Scale::Logarithmic] {
            let colors = Colors { map: Map::Viridis, scale, low: 0.01, high: 1.0 };
            assert_eq!([0.01, 1.0, -3.0, 5.0].map(|x| colors.position(x)), [0.0, 1.0, 0.0, 1.0], "{scale:?}");
            assert!((colors.position(colors.number(0.3)) - 0.3).abs() < 1e-6);
            assert_eq!([colors.at(0.01), colors.at(1.0)], [Map::Viridis.at(0.0), Map::Viridis.at(1.0)]);
            assert_eq!([colors.at(f32::NAN), colors.at(f32::NEG_INFINITY)], [NOT_A_NUMBER, HIDDEN]);
        }
        let log = Colors { map: Map::Viridis, scale: Scale::Logarithmic, low: 0.01, high: 1.0 };
        assert!((log.position(0.1) - 0.5).abs() < 1e-7 && log.position(0.0) == 0.0);
        assert_eq!(log.ticks(), [0.01, 0.1, 1.0]);
    }

    #[test]
    fn ranges_follow_the_numbers() {
        let range = |kind, map, scale, numbers: &[f32]| {
            let c = Colors::new(kind, map, scale, numbers);
            (c.map, c.low, c.high)
        };
        let (linear, log) = (Scale::Linear, Scale::Logarithmic);
        assert_eq!(range(Kind::Weights, None, linear, &[0.2, 0.3]), (Map::YellowOrangeRed, 0.0, 1.0));
        let signed = [-3.0, 2.0, f32::NAN, f32::NEG_INFINITY];
        assert_eq!(range(Kind::Signed, None, linear, &signed), (Map::Diverging, -3.0, 3.0));
        assert_eq!(range(Kind::Signed, Some(Map::Magma), linear, &signed), (Map::Magma, -3.0, 2.0));
        assert_eq!(range(Kind::Weights, None, log, &[0.0, 0.01, 0.5]), (Map::YellowOrangeRed, 0.01, 0.5));
        assert_eq!(range(Kind::Weights, None, log, &[1e-30, 1.0]).1, 1e-6);
    }

    #[test]
    fn numbers_that_are_all_the_same_or_missing_have_a_range_too() {
        for numbers in [&[][..], &[0.0], &[5.0, 5.0], &[-5.0], &[f32::NAN], &[f32::MAX, f32::MIN], &[1e-40]] {
            for (map, scale) in Map::ALL.into_iter().flat_map(|m| [(m, Scale::Linear), (m, Scale::Logarithmic)]) {
                let colors = Colors::new(Kind::Signed, Some(map), scale, numbers);
                assert!(colors.low < colors.high, "{colors:?} for {numbers:?}");
                let positions = [colors.low, colors.high].map(|x| colors.position(x));
                assert_eq!(positions, [0.0, 1.0], "{colors:?} for {numbers:?}");
                assert!(colors.ticks().iter().all(|t| t.is_finite()), "{colors:?}");
            }
        }
    }

    #[test]
    fn maps_have_names() {
        assert!(Map::ALL.iter().all(|map| map.name().parse() == Ok(*map)));
        assert!("jet".parse::<Map>().unwrap_err().contains("viridis"));
    }
}
