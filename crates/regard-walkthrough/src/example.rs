use core::str::FromStr;

use crate::Error;

/// The worked examples. Where a notebook seeds a generator, the numbers are drawn again, not pasted.
///
/// ```
/// use regard_walkthrough::Example;
/// assert_eq!("the-cat-sat".parse(), Ok(Example::TheCatSat));
/// assert!("the-dog-sat".parse::<Example>().unwrap_err().to_string().contains("i-love-robotics"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Example {
    /// 4 tokens of 8 numbers, as PyTorch draws them after seed 42.
    MathOfAttention,
    /// "The cat sat": three tokens and small weights, plain beside causal.
    TheCatSat,
    /// Vectors first; then 4 tokens of 6 numbers, as NumPy draws them after seed 0.
    Foundations,
    /// "I love robotics": whole numbers, worked by hand for "love", then all at once.
    ILoveRobotics,
    /// Queries and keys are given; only scores and weights are asked for.
    AttentionScores,
    /// What 1/√d is for, measured at d = 4 to 1024.
    WhyScale,
    /// "The cat sat" with two heads.
    TwoHeads,
}

impl Example {
    /// All of them, in the order of a list to choose from.
    pub const ALL: [Self; 7] = [
        Self::MathOfAttention,
        Self::TheCatSat,
        Self::Foundations,
        Self::ILoveRobotics,
        Self::AttentionScores,
        Self::WhyScale,
        Self::TwoHeads,
    ];

    /// The name to type.
    pub fn name(self) -> &'static str {
        match self {
            Self::MathOfAttention => "math-of-attention",
            Self::TheCatSat => "the-cat-sat",
            Self::Foundations => "foundations",
            Self::ILoveRobotics => "i-love-robotics",
            Self::AttentionScores => "attention-scores",
            Self::WhyScale => "why-scale",
            Self::TwoHeads => "two-heads",
        }
    }

    /// The name to read.
    pub fn title(self) -> &'static str {
        match self {
            Self::MathOfAttention => "The math of attention",
            Self::TheCatSat => "The cat sat",
            Self::Foundations => "Foundations",
            Self::ILoveRobotics => "I love robotics",
            Self::AttentionScores => "Attention scores",
            Self::WhyScale => "Why scale by √d?",
            Self::TwoHeads => "Two heads",
        }
    }

    /// What there is to see, in one sentence.
    pub fn summary(self) -> &'static str {
        match self {
            Self::MathOfAttention => {
                "Four tokens of eight random numbers (PyTorch, seed 42): unscaled weights make the softmax pick one token."
            }
            Self::TheCatSat => {
                "Three tokens, small random weights (PyTorch, seed 42), with and without the causal mask."
            }
            Self::Foundations => {
                "Dot product, length, angle, matrix product and softmax; then four tokens of six numbers (NumPy, seed 0)."
            }
            Self::ILoveRobotics => {
                "Whole numbers that can be worked by hand: first the row of \"love\", then all rows at once."
            }
            Self::AttentionScores => {
                "Given queries and keys, how the weights come about: dot product, scaling, softmax."
            }
            Self::WhyScale => "Random queries and keys of 4 to 1024 numbers: what softmax does with and without 1/√d.",
            Self::TwoHeads => {
                "\"The cat sat\" seen by two heads of two numbers each, put side by side and mixed by W_O."
            }
        }
    }
}

impl FromStr for Example {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL
            .into_iter()
            .find(|e| e.name() == name)
            .ok_or_else(|| Error::unknown("example", name, Self::ALL.map(Self::name)))
    }
}
