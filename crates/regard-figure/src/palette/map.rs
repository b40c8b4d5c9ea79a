use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// What stands for −∞, a place that may not be seen, on maps without grey.
pub const HIDDEN: [u8; 3] = [140, 143, 150];

/// What stands for NaN. It is on no map.
pub const NOT_A_NUMBER: [u8; 3] = [255, 0, 255];

/// So many colours of a map are used, odd so that the middle of a diverging one is among them.
pub const COLORS: usize = 1025;
/// After the colours of a map come that of −∞ and that of NaN.
pub(super) const MASKED: usize = COLORS;
pub(super) const NAN: usize = COLORS + 1;
/// All colours that numbers get on a map.
pub const TEXELS: usize = COLORS + 2;

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
    pub const ALL: [Self; 5] =
        [Self::YellowOrangeRed, Self::Viridis, Self::Cividis, Self::Magma, Self::Diverging];

    /// Those for numbers from 0.
    pub const SEQUENTIAL: [Self; 4] =
        [Self::YellowOrangeRed, Self::Viridis, Self::Cividis, Self::Magma];

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

    /// One of the colours that numbers get, by its number below [`TEXELS`].
    pub fn texel(self, i: usize) -> [u8; 3] {
        match i {
            MASKED => self.hidden(),
            NAN => NOT_A_NUMBER,
            _ => self.at(i as f64 / (COLORS - 1) as f64),
        }
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
        Self::ALL
            .into_iter()
            .find(|map| map.name() == name)
            .ok_or_else(|| format!("there are {}", known()))
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
