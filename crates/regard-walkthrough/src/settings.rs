use core::str::FromStr;

use regard_kernels::Temperature;

use crate::Error;

/// What a learner can change.
///
/// ```
/// use regard_walkthrough::{Settings, Without};
/// let settings = Settings { causal: true, without: Some(Without::Scaling), ..Settings::default() };
/// assert_eq!(settings.temperature.get(), 1.0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Settings {
    /// Divides the scores before softmax: low is sharp, high is flat.
    pub temperature: Temperature,
    /// A token sees itself and what comes before it, nothing after.
    pub causal: bool,
    /// A step to leave out, to see what breaks.
    pub without: Option<Without>,
}

/// A step that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Without {
    /// Q = K = V = X.
    Projections,
    /// The scores are not divided by √d_k.
    Scaling,
    /// The scores themselves weigh the values.
    Softmax,
}

impl Without {
    /// All of them, in the order of computation.
    pub const ALL: [Self; 3] = [Self::Projections, Self::Scaling, Self::Softmax];

    /// The name to type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Projections => "projections",
            Self::Scaling => "scaling",
            Self::Softmax => "softmax",
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
