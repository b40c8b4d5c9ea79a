use core::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

/// The worked examples. Where a notebook seeds a generator, the numbers are drawn again, not pasted.
///
/// ```
/// use regard_walkthrough::Example;
/// assert_eq!("the-cat-sat".parse(), Ok(Example::TheCatSat));
/// assert!("the-dog-sat".parse::<Example>().unwrap_err().to_string().contains("i-love-robotics"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
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
    /// Attention does not know the order of tokens; sines and cosines tell it.
    Positions,
    /// Each token's numbers brought to mean 0 and variance 1.
    LayerNorm,
    /// Two linear layers with a ReLU between them, each token for itself.
    FeedForward,
    /// A whole encoder block: all of the above, with residual connections.
    Block,
    /// The tokens of one text attend to those of another.
    CrossAttention,
    /// From a loss back to every weight.
    Gradients,
    /// One's own tokens and sizes, with numbers drawn from a seed.
    Seeded,
}

impl Example {
    /// All of them, in the order of a list to choose from.
    pub const ALL: [Self; 14] = [
        Self::MathOfAttention,
        Self::TheCatSat,
        Self::Foundations,
        Self::ILoveRobotics,
        Self::AttentionScores,
        Self::WhyScale,
        Self::TwoHeads,
        Self::Positions,
        Self::LayerNorm,
        Self::FeedForward,
        Self::Block,
        Self::CrossAttention,
        Self::Gradients,
        Self::Seeded,
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
            Self::Positions => "positions",
            Self::LayerNorm => "layer-norm",
            Self::FeedForward => "feed-forward",
            Self::Block => "block",
            Self::CrossAttention => "cross-attention",
            Self::Gradients => "gradients",
            Self::Seeded => "seeded",
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
            Self::Positions => "Positions",
            Self::LayerNorm => "Layer norm",
            Self::FeedForward => "Feed-forward",
            Self::Block => "A whole block",
            Self::CrossAttention => "Cross-attention",
            Self::Gradients => "Gradients",
            Self::Seeded => "Your own tokens",
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
            Self::WhyScale => {
                "Random queries and keys of 4 to 1024 numbers: what softmax does with and without 1/√d."
            }
            Self::TwoHeads => {
                "\"The cat sat\" seen by two heads of two numbers each, put side by side and mixed by W_O."
            }
            Self::Positions => {
                "\"the dog saw the cat\": without positions, both \"the\" are one token, and order means nothing."
            }
            Self::LayerNorm => {
                "Three tokens of very different size, each brought to mean 0 and variance 1."
            }
            Self::FeedForward => {
                "Four numbers become eight, what is negative becomes 0, and eight become four again."
            }
            Self::Block => {
                "\"the cat sat\" through an encoder block: positions, norms, two heads, feed-forward and what runs past them."
            }
            Self::CrossAttention => {
                "\"le chat\" looks for its words in \"the cat sat\": queries of one text, keys of another."
            }
            Self::Gradients => {
                "\"The cat sat\" once more: how a wrong output says to each weight where to go."
            }
            Self::Seeded => {
                "Tokens and sizes of your own, one to eight heads, and numbers drawn as PyTorch draws them from a seed."
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
