use core::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// The colour of NaN. No map contains it.
pub const NOT_A_NUMBER: [u8; 3] = [255, 0, 255];

/// The number of colours of a map that are used. It is odd, so that the middle of a diverging map is one of them.
pub const COLORS: usize = 1025;
/// The colours of −∞ and of NaN follow those of the map.
pub(super) const MASKED: usize = COLORS;
pub(super) const NAN: usize = COLORS + 1;
/// The number of all colours: those of the map, that of −∞ and that of NaN.
pub const TEXELS: usize = COLORS + 2;

/// The part of a map at its low end, or on each side of a signed map's middle, that fades into the ground.
const FADE: f64 = 0.12;

/// What a picture stands on. The low end of a map, the middle of a signed map and masked cells have its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Ground {
    /// White: large numbers are dark.
    #[default]
    Paper,
    /// A dark window: large numbers are light.
    Dark,
}

impl Ground {
    /// Its colour.
    pub const fn rgb(self) -> [u8; 3] {
        match self {
            Self::Paper => [255; 3],
            Self::Dark => [20, 22, 27],
        }
    }

    /// The colour of the hatch on masked cells.
    pub const fn hatch(self) -> [u8; 3] {
        match self {
            Self::Paper => [214, 218, 226],
            Self::Dark => [48, 52, 62],
        }
    }
}

/// A map from 0 … 1 to colours. The colour-blind can read every map.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    IntoStaticStr,
    VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "lowercase")]
#[non_exhaustive]
pub enum Map {
    /// matplotlib's magma: black, violet, red, light yellow.
    #[default]
    Magma,
    /// matplotlib's viridis: dark violet, green, yellow.
    Viridis,
    /// From dark blue to yellow. It looks the same to the colour-blind (Nuñez et al. 2018).
    Cividis,
    /// ColorBrewer's YlOrRd: light yellow, orange, dark red.
    #[strum(serialize = "ylorrd")]
    YellowOrangeRed,
    /// Blue for numbers below 0 and red above, for numbers of both signs. On paper it is ColorBrewer's RdBu.
    Diverging,
}

impl Map {
    /// All maps.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The maps for numbers from 0 upwards.
    pub const SEQUENTIAL: &'static [Self] =
        &[Self::Magma, Self::Viridis, Self::Cividis, Self::YellowOrangeRed];

    /// The name on the command line: "ylorrd".
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The colour at `t`, from 0 to 1, on a ground. The distance of the colour from the ground grows with the number: a
    /// map that is light at its high end is reversed on paper.
    pub fn at(self, t: f64, ground: Ground) -> [u8; 3] {
        let t = t.clamp(0.0, 1.0);
        let (size, color) = if self == Self::Diverging {
            let size = (2.0 * t - 1.0).abs();
            (size, signed(t, size, ground))
        } else {
            let begins_dark = self != Self::YellowOrangeRed;
            // The darkest colours are darker than the dark ground.
            let from = if ground == Ground::Dark { FADE } else { 0.0 };
            let along = from + (1.0 - from) * t;
            let along = if begins_dark == (ground == Ground::Dark) { along } else { 1.0 - along };
            let gradient = match self {
                Self::Viridis => colorous::VIRIDIS,
                Self::Cividis => colorous::CIVIDIS,
                Self::YellowOrangeRed => colorous::YELLOW_ORANGE_RED,
                _ => colorous::MAGMA,
            };
            (t, gradient.eval_continuous(along).into_array())
        };
        mixed(ground.rgb(), color, size / FADE)
    }

    /// Colour `i` of the [`TEXELS`] colours of this map. That of −∞ is the ground's.
    pub fn texel(self, i: usize, ground: Ground) -> [u8; 3] {
        match i {
            MASKED => ground.rgb(),
            NAN => NOT_A_NUMBER,
            _ => self.at(i as f64 / (COLORS - 1) as f64, ground),
        }
    }
}

/// The colour at `t` of the signed map, `size` from its middle.
fn signed(t: f64, size: f64, ground: Ground) -> [u8; 3] {
    const BEND: f64 = 0.6;
    if ground == Ground::Paper {
        return colorous::RED_BLUE.eval_continuous(1.0 - t).into_array();
    }
    let [middle, end] =
        if t < 0.5 { [[38, 108, 196], [156, 208, 255]] } else { [[200, 66, 54], [255, 190, 150]] };
    let inner = mixed(ground.rgb(), middle, size / BEND);
    mixed(inner, end, (size - BEND) / (1.0 - BEND))
}

/// The colour at `part` of the way from a colour to another, from 0 to 1.
fn mixed(from: [u8; 3], to: [u8; 3], part: f64) -> [u8; 3] {
    let part = part.clamp(0.0, 1.0);
    let mix = |i: usize| f64::from(from[i]) * (1.0 - part) + f64::from(to[i]) * part;
    [0, 1, 2].map(|i| mix(i).round() as u8)
}

impl FromStr for Map {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = || Self::ALL.iter().map(|map| map.name()).collect::<Vec<_>>().join(", ");
        let map = Self::ALL.iter().find(|map| map.name() == name);
        map.copied().ok_or_else(|| format!("choose one of {}", known()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_have_names() {
        assert!(Map::ALL.iter().all(|map| map.name().parse() == Ok(*map)));
        assert!("jet".parse::<Map>().unwrap_err().contains("viridis"));
    }

    #[test]
    fn a_map_leaves_the_ground_and_never_looks_like_nan() {
        let distance = |a: [u8; 3], b: [u8; 3]| {
            a.iter().zip(b).map(|(a, b)| f64::from(a.abs_diff(b)).powi(2)).sum::<f64>().sqrt()
        };
        for (map, ground) in Map::ALL.iter().flat_map(|m| [(*m, Ground::Paper), (*m, Ground::Dark)])
        {
            let from_ground = |i: usize| distance(map.texel(i, ground), ground.rgb());
            let zero = if map == Map::Diverging { COLORS / 2 } else { 0 };
            assert_eq!(from_ground(zero), 0.0, "{map:?} {ground:?}");
            assert_eq!(from_ground(MASKED), 0.0, "{map:?} {ground:?}");
            for end in [0, COLORS - 1].into_iter().filter(|end| *end != zero) {
                assert!(from_ground(end) > 120.0, "{map:?} {ground:?}");
            }
            let from_nan = |i: usize| distance(map.texel(i, ground), NOT_A_NUMBER);
            assert!((0..=MASKED).all(|i| from_nan(i) > 30.0), "{map:?} {ground:?}");
        }
    }
}
