use regard_kernels::Temperature;
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

use crate::Error;
use crate::pair::effective;

/// The settings that a learner can change.
///
/// ```
/// use regard_walkthrough::{Settings, Without};
/// let settings = Settings { causal: true, without: Some(Without::Scaling), ..Settings::default() };
/// assert_eq!(settings.temperature.get(), 1.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Divides the scores before softmax: low sharpens, high flattens. ∞ is saved as `null`.
    pub temperature: Temperature,
    /// Whether a token attends only to itself and to earlier tokens.
    pub causal: bool,
    /// A step to leave out, to show its effect.
    pub without: Option<Without>,
}

impl Settings {
    /// Whether later tokens are hidden.
    pub(crate) fn hides(&self) -> bool {
        self.causal && self.without != Some(Without::Mask)
    }

    /// The temperature that the kernels compute with. They count a subnormal one as 0.
    pub(crate) fn t(&self) -> f64 {
        effective(self.temperature)
    }
}

/// A step that can be left out.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, EnumString, IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(
    serialize_all = "lowercase",
    parse_err_ty = Error,
    parse_err_fn = unknown_step
)]
#[non_exhaustive]
pub enum Without {
    /// Q = K = V = X.
    Projections,
    /// The scores are not divided by √d_k.
    Scaling,
    /// The scores themselves are the weights.
    Softmax,
    /// Causal attention without its mask. It is always compared with masked attention.
    Mask,
}

impl Without {
    /// All of these steps, in the order of computation.
    pub const ALL: &'static [Self] = &[Self::Projections, Self::Scaling, Self::Mask, Self::Softmax];

    /// The name to type.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The effect of leaving it out, in one sentence.
    pub fn description(self) -> &'static str {
        match self {
            Self::Projections => {
                "Q = K = V = X: the tokens themselves play all three roles, so each token attends to the tokens that are like it."
            }
            Self::Scaling => {
                "The scores are not divided by √d_k. The longer the vectors, the wider the scores spread, until softmax picks a single token."
            }
            Self::Softmax => {
                "The scores themselves weight the values: their rows have any sum, and they can be negative."
            }
            Self::Mask => {
                "Causal attention without its mask: each token sees the tokens that it should predict."
            }
        }
    }
}

fn unknown_step(name: &str) -> Error {
    Error::unknown("step to leave out", name, Without::ALL.iter().copied().map(Without::name))
}
