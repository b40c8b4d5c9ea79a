use core::str::FromStr;

use regard_kernels::Temperature;
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::pair::effective;

/// What a learner can change.
///
/// ```
/// use regard_walkthrough::{Settings, Without};
/// let settings = Settings { causal: true, without: Some(Without::Scaling), ..Settings::default() };
/// assert_eq!(settings.temperature.get(), 1.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Divides the scores before softmax: low is sharp, high is flat. Saved as a number; `null` is ∞, which JSON has not.
    #[serde(with = "temperature")]
    pub temperature: Temperature,
    /// A token sees itself and what comes before it, nothing after.
    pub causal: bool,
    /// A step to leave out, to see what breaks.
    pub without: Option<Without>,
}

impl Settings {
    /// Whether what comes after a token is hidden from it.
    pub(crate) fn hides(&self) -> bool {
        self.causal && self.without != Some(Without::Mask)
    }

    /// The temperature that the kernels compute with: they count a subnormal one as 0.
    pub(crate) fn t(&self) -> f64 {
        effective(self.temperature)
    }
}

/// A temperature as it is saved.
mod temperature {
    use regard_kernels::Temperature;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a field so")]
    pub(super) fn serialize<S: Serializer>(
        temperature: &Temperature,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        Some(temperature.get()).filter(|t| t.is_finite()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Temperature, D::Error> {
        let t = Option::<f32>::deserialize(from)?.unwrap_or(f32::INFINITY);
        Temperature::new(t).map_err(D::Error::custom)
    }
}

/// A step that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Without {
    /// Q = K = V = X.
    Projections,
    /// The scores are not divided by √d_k.
    Scaling,
    /// The scores themselves weigh the values.
    Softmax,
    /// Causal attention, but every token sees what comes after it: compared with the causal mask, whether or not it was on.
    Mask,
}

impl Without {
    /// All of them, in the order of computation.
    pub const ALL: [Self; 4] = [Self::Projections, Self::Scaling, Self::Mask, Self::Softmax];

    /// The name to type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Projections => "projections",
            Self::Scaling => "scaling",
            Self::Softmax => "softmax",
            Self::Mask => "mask",
        }
    }

    /// What leaving it out means, in one sentence.
    pub fn description(self) -> &'static str {
        match self {
            Self::Projections => {
                "Q = K = V = X: every token plays all three roles as it is, so attention is a fixed lookup of what is similar."
            }
            Self::Scaling => {
                "The scores are not divided by √d_k: the longer the vectors, the wider they spread, and softmax picks one token."
            }
            Self::Softmax => {
                "The scores weigh the values as they are: rows sum to anything, and weights can be negative."
            }
            Self::Mask => {
                "Causal attention without its mask: each token sees the tokens that it should foretell."
            }
        }
    }
}

impl FromStr for Without {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|w| w.name() == name)
            .ok_or_else(|| Error::unknown("step to leave out", name, Self::ALL.map(Self::name)))
    }
}
