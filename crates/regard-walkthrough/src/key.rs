use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr};

/// A text that is not the key of any step.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no step of any example is called \"{0}\"")]
pub struct UnknownKey(pub String);

/// The key of a step, unique within its walkthrough: a quantity in a section of the example.
///
/// Its text is the key in JSON, in saved sessions and on the command line: the section, a dot and the quantity, or the
/// quantity alone.
///
/// ```
/// use regard_walkthrough::{Quantity, Section, StepKey};
/// let key = StepKey::new(Section::Head(2), Quantity::Weights);
/// assert_eq!(key.to_string(), "head_2.weights");
/// assert_eq!("head_2.weights".parse(), Ok(key));
/// assert_eq!("d_scores".parse(), Ok(StepKey::from(Quantity::DScores)));
/// assert!("head_0.weights".parse::<StepKey>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct StepKey {
    /// The section of the example.
    pub section: Section,
    /// The quantity that the step shows.
    pub quantity: Quantity,
}

impl StepKey {
    /// The key of a quantity in a section.
    pub const fn new(section: Section, quantity: Quantity) -> Self {
        Self { section, quantity }
    }

    /// The head that the step belongs to, counted from 1. `None` outside the sections of heads.
    pub fn head(self) -> Option<usize> {
        match self.section {
            Section::Head(number) => Some(number),
            _ => None,
        }
    }
}

impl From<Quantity> for StepKey {
    fn from(quantity: Quantity) -> Self {
        Self::new(Section::Main, quantity)
    }
}

impl From<StepKey> for String {
    fn from(key: StepKey) -> Self {
        key.to_string()
    }
}

impl TryFrom<String> for StepKey {
    type Error = UnknownKey;

    fn try_from(text: String) -> Result<Self, UnknownKey> {
        text.parse()
    }
}

impl fmt::Display for StepKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quantity = self.quantity.name();
        match self.section {
            Section::Main => f.pad(quantity),
            section => write!(f, "{section}.{quantity}"),
        }
    }
}

impl FromStr for StepKey {
    type Err = UnknownKey;

    fn from_str(text: &str) -> Result<Self, UnknownKey> {
        let key = match text.rsplit_once('.') {
            Some((section, quantity)) => {
                Section::named(section).zip(quantity.parse().ok()).map(|(s, q)| Self::new(s, q))
            }
            None => text.parse::<Quantity>().ok().map(Self::from),
        };
        key.ok_or_else(|| UnknownKey(text.to_owned()))
    }
}

/// A section of an example: a group of related steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Section {
    /// The computation that every example has. Its keys have no prefix.
    Main,
    /// One of several heads, counted from 1: `head_1`.
    Head(usize),
    /// The row of "love", computed by hand: `love`.
    Love,
    /// Attention without positions: `plain`.
    Plain,
    /// Attention over the reversed tokens: `reversed`.
    Reversed,
    /// Two vectors: `dot`.
    Dot,
    /// Two matrices: `matmul`.
    Matmul,
    /// A row of scores: `softmax`.
    Softmax,
    /// The same tokens at later positions: `shifted`.
    Shifted,
    /// The content of a cache: `cached`.
    Cached,
    /// The token after those in the cache: `next`.
    Next,
    /// All tokens at once: `whole`.
    Whole,
}

impl Section {
    /// The sections with a name and no number.
    const NAMED: [(Self, &str); 10] = [
        (Self::Love, "love"),
        (Self::Plain, "plain"),
        (Self::Reversed, "reversed"),
        (Self::Dot, "dot"),
        (Self::Matmul, "matmul"),
        (Self::Softmax, "softmax"),
        (Self::Shifted, "shifted"),
        (Self::Cached, "cached"),
        (Self::Next, "next"),
        (Self::Whole, "whole"),
    ];

    fn named(name: &str) -> Option<Self> {
        if let Some(number) = name.strip_prefix("head_") {
            // "01" and "+1" are not numbers of heads: a key has one text.
            let head = number.parse().ok().filter(|head| *head > 0).map(Self::Head);
            return head.filter(|head| head.to_string() == name);
        }
        Self::NAMED.iter().find(|(_, known)| *known == name).map(|(section, _)| *section)
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Head(number) = self {
            return write!(f, "head_{number}");
        }
        let name = Self::NAMED.iter().find(|(section, _)| section == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

/// The quantity that a step shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EnumString, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
#[non_exhaustive]
pub enum Quantity {
    /// The tokens X, or a vector x.
    X,
    /// A second vector y.
    Y,
    /// The encoder's output, from which keys and values are computed.
    Memory,
    /// The table of word embeddings.
    Embeddings,
    /// The position encoding of each token.
    Positions,
    /// Tokens plus positions.
    Placed,
    /// The projection matrix of the queries.
    #[strum(serialize = "w_q")]
    WQ,
    /// The projection matrix of the keys.
    #[strum(serialize = "w_k")]
    WK,
    /// The projection matrix of the values.
    #[strum(serialize = "w_v")]
    WV,
    /// The projection matrix of the output.
    #[strum(serialize = "w_o")]
    WO,
    /// The queries.
    Q,
    /// The keys.
    K,
    /// The values.
    V,
    /// The angle by which rotary positions rotate each pair of features.
    Angles,
    /// The queries after rotation.
    RotatedQ,
    /// The keys after rotation.
    RotatedK,
    /// The keys of the cache and of the new tokens.
    AllKeys,
    /// The values of the cache and of the new tokens.
    AllValues,
    /// Q·Kᵀ.
    RawScores,
    /// Q·Kᵀ / √d_k.
    ScaledScores,
    /// The scores, −∞ where the mask hides a key.
    MaskedScores,
    /// The attention weights.
    Weights,
    /// The attention weights under the causal mask, shown beside those without a mask.
    CausalWeights,
    /// The output of attention.
    Output,
    /// The output under the causal mask, shown beside the one without it.
    CausalOutput,
    /// The outputs of all heads side by side.
    Concatenated,
    /// The gain of the only layer norm.
    Gamma,
    /// The shift of the only layer norm.
    Beta,
    /// The gain of a block's first layer norm.
    #[strum(serialize = "gamma_1")]
    Gamma1,
    /// The shift of a block's first layer norm.
    #[strum(serialize = "beta_1")]
    Beta1,
    /// The gain of a block's second layer norm.
    #[strum(serialize = "gamma_2")]
    Gamma2,
    /// The shift of a block's second layer norm.
    #[strum(serialize = "beta_2")]
    Beta2,
    /// Mean and variance of each token.
    Moments,
    /// The result of the only layer norm.
    Norm,
    /// The result of a block's first layer norm.
    #[strum(serialize = "norm_1")]
    Norm1,
    /// The result of a block's second layer norm.
    #[strum(serialize = "norm_2")]
    Norm2,
    /// The tokens plus the output of attention.
    Residual,
    /// The weights of the first feed-forward layer.
    #[strum(serialize = "w_1")]
    W1,
    /// The bias of the first feed-forward layer.
    #[strum(serialize = "b_1")]
    B1,
    /// The hidden features before the activation.
    HiddenRaw,
    /// The hidden features.
    Hidden,
    /// The weights of the second feed-forward layer.
    #[strum(serialize = "w_2")]
    W2,
    /// The bias of the second feed-forward layer.
    #[strum(serialize = "b_2")]
    B2,
    /// The output of the feed-forward layers.
    Fed,
    /// The output of a block.
    BlockOutput,
    /// The target of the output.
    Target,
    /// The loss.
    Loss,
    /// The gradient of the output.
    DOutput,
    /// The gradient of the values.
    #[strum(serialize = "d_v")]
    DV,
    /// The gradient of the attention weights.
    DWeights,
    /// The gradient of the scores.
    DScores,
    /// The gradient of the queries.
    #[strum(serialize = "d_q")]
    DQ,
    /// The gradient of the keys.
    #[strum(serialize = "d_k")]
    DK,
    /// The gradient of W_Q.
    #[strum(serialize = "d_w_q")]
    DWQ,
    /// The gradient of W_K.
    #[strum(serialize = "d_w_k")]
    DWK,
    /// The gradient of W_V.
    #[strum(serialize = "d_w_v")]
    DWV,
    /// The gradient of the tokens.
    #[strum(serialize = "d_x")]
    DX,
    /// The distance by which reversing the tokens moves each output.
    Moved,
    /// Scores and weights for several dimensions d.
    ByDimension,
    /// The work or the memory that a method saves.
    Savings,
    /// The dot product of two vectors.
    Dot,
    /// The norm of a vector.
    NormX,
    /// The cosine similarity of two vectors.
    Cosine,
    /// A matrix A.
    #[strum(serialize = "A")]
    MatrixA,
    /// A matrix B.
    #[strum(serialize = "B")]
    MatrixB,
    /// The product A·B.
    #[strum(serialize = "AB")]
    MatrixAB,
    /// A row of scores.
    Scores,
    /// Softmax of the row at T = 1.
    #[strum(serialize = "t1")]
    AtT1,
    /// Softmax of the row at T = 2.
    #[strum(serialize = "t2")]
    AtT2,
}

impl Quantity {
    /// Its name in keys: "raw_scores".
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Whether the quantity is scores, which softmax turns into weights. Gradients of scores are not scores.
    pub fn is_scores(self) -> bool {
        use Quantity::{MaskedScores, RawScores, ScaledScores, Scores};
        matches!(self, RawScores | ScaledScores | MaskedScores | Scores)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_text_is_one_key_and_every_key_one_text() {
        for text in ["x", "w_q", "dot.dot", "matmul.AB", "head_12.raw_scores", "love.q", "d_w_v"] {
            assert_eq!(text.parse::<StepKey>().unwrap().to_string(), text);
        }
        for text in
            ["", "scores.", ".x", "head_1", "head_01.q", "head_+1.q", "head_.q", "a.b.q", "Q"]
        {
            let error = text.parse::<StepKey>().unwrap_err().to_string();
            assert_eq!(error, format!("no step of any example is called \"{text}\""));
        }
    }

    /// `ends_with("scores")` matched the gradient of the scores.
    #[test]
    fn quantities_whose_names_end_alike_differ() {
        let [scores, gradient] =
            ["raw_scores", "d_scores"].map(|key| key.parse::<StepKey>().unwrap());
        assert!(scores.quantity.is_scores() && !gradient.quantity.is_scores());
        assert_eq!("head_3.d_scores".parse::<StepKey>().unwrap().head(), Some(3));
    }
}
