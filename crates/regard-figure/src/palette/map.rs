use core::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

/// The colour of −∞, which stands for a masked cell, on maps without grey.
pub const HIDDEN: [u8; 3] = [140, 143, 150];

/// The colour of NaN. No map contains it.
pub const NOT_A_NUMBER: [u8; 3] = [255, 0, 255];

/// The number of colours of a map that are used. It is odd, so that the middle of a diverging map is one of them.
pub const COLORS: usize = 1025;
/// The colours of −∞ and of NaN follow those of the map.
pub(super) const MASKED: usize = COLORS;
pub(super) const NAN: usize = COLORS + 1;
/// The number of all colours: those of the map, that of −∞ and that of NaN.
pub const TEXELS: usize = COLORS + 2;

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
    /// ColorBrewer's YlOrRd, from light yellow to dark red.
    #[default]
    #[strum(serialize = "ylorrd")]
    YellowOrangeRed,
    /// matplotlib's viridis, from dark violet to yellow.
    Viridis,
    /// From dark blue to yellow. It looks the same to the colour-blind (Nuñez et al. 2018).
    Cividis,
    /// matplotlib's magma, from black through red to light yellow.
    Magma,
    /// ColorBrewer's RdBu, reversed: blue, white in the middle, red. It is for numbers of both signs.
    Diverging,
}

impl Map {
    /// All maps.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    /// The maps for numbers from 0 upwards.
    pub const SEQUENTIAL: &'static [Self] =
        &[Self::YellowOrangeRed, Self::Viridis, Self::Cividis, Self::Magma];

    /// The name on the command line: "ylorrd".
    pub fn name(self) -> &'static str {
        self.into()
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

    /// Colour `i` of the [`TEXELS`] colours of this map.
    pub fn texel(self, i: usize) -> [u8; 3] {
        match i {
            MASKED => self.hidden(),
            NAN => NOT_A_NUMBER,
            _ => self.at(i as f64 / (COLORS - 1) as f64),
        }
    }

    /// The colour of −∞ on this map: grey, except on the map that has grey in its middle.
    pub fn hidden(self) -> [u8; 3] {
        if self == Self::Cividis { [112, 60, 84] } else { HIDDEN }
    }
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
    fn nothing_on_a_map_looks_masked_or_not_a_number() {
        let distance = |a: [u8; 3], b: [u8; 3]| {
            a.iter().zip(b).map(|(a, b)| i32::from(a.abs_diff(b)).pow(2)).sum::<i32>()
        };
        for map in Map::ALL {
            for special in [MASKED, NAN] {
                let nearest =
                    (0..COLORS).map(|i| distance(map.texel(i), map.texel(special))).min().unwrap();
                assert!(nearest > 30 * 30, "{}: {special}", map.name());
            }
        }
    }
}
