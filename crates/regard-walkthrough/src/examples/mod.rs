//! The worked examples, one a file. Each file holds the example's entry in the table ([`Example::entry`]): the initial
//! inputs of the example, and the steps that it adds.

mod attention_scores;
mod block;
mod cross_attention;
mod feed_forward;
mod foundations;
mod gradients;
mod grouped_queries;
mod i_love_robotics;
mod kv_cache;
mod layer_norm;
mod math_of_attention;
mod positions;
mod rotary;
pub(crate) mod seeded;
mod the_cat_sat;
mod two_heads;
pub(crate) mod why_scale;

use core::str::FromStr;

use serde::{Deserialize, Serialize};
use strum::{IntoStaticStr, VariantArray};

use crate::attend::Head;
use crate::heads;
use crate::input::{Input, Sizes};
use crate::pair::Pair;
use crate::project::{give_tokens_and_weights, project_all};
use crate::random::TorchRng;
use crate::trace::{Axes, Text, Trace, labels};
use crate::{Error, Matrix, Quantity, RowRole};

/// The worked examples. Where a notebook seeds a generator, the numbers are drawn by the same generator, not pasted.
///
/// ```
/// use regard_walkthrough::Example;
/// assert_eq!("the-cat-sat".parse(), Ok(Example::TheCatSat));
/// assert!("the-dog-sat".parse::<Example>().unwrap_err().to_string().contains("i-love-robotics"));
/// ```
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[non_exhaustive]
pub enum Example {
    /// Vectors first; then 4 tokens of 6 features, as NumPy draws them after seed 0.
    Foundations,
    /// "I love robotics": whole numbers, computed by hand for "love", then for all tokens.
    ILoveRobotics,
    /// From given queries and keys to the weights.
    AttentionScores,
    /// 4 tokens of 8 features, as PyTorch draws them after seed 42.
    MathOfAttention,
    /// "The cat sat": three tokens and small weights, plain beside causal.
    TheCatSat,
    /// The effect of 1/√d, measured at d = 4 to 1024.
    WhyScale,
    /// Two heads: one follows the preceding word, the other the noun and its verb.
    TwoHeads,
    /// Attention ignores the order of tokens; sines and cosines encode it.
    Positions,
    /// Rotary positions rotate queries and keys, so that scores depend on distances.
    Rotary,
    /// Keys and values of earlier tokens are kept, and each new token needs one query.
    KvCache,
    /// Four query heads share two key/value heads.
    GroupedQueries,
    /// Each token's features are normalized to mean 0 and variance 1.
    LayerNorm,
    /// Two linear layers with a ReLU between them, applied to each token separately.
    FeedForward,
    /// A whole encoder block: all of these parts, with residual connections.
    Block,
    /// The tokens of one text attend to those of another.
    CrossAttention,
    /// From a loss back to every weight.
    Gradients,
    /// The user's own tokens and sizes, with numbers drawn from a seed.
    Seeded,
}

/// The groups of a list of examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Attention itself.
    Attention,
    /// The layers around attention, and training.
    Around,
    /// The user's own tokens.
    Own,
}

impl Group {
    /// All groups, in the order of a list.
    pub const ALL: &'static [Self] = &[Self::Attention, Self::Around, Self::Own];

    /// The heading of the group.
    pub fn title(self) -> &'static str {
        match self {
            Self::Attention => "Attention, step by step",
            Self::Around => "Around attention, and training",
            Self::Own => "Your own",
        }
    }

    /// Its examples, in the order of a list.
    pub fn examples(self) -> impl Iterator<Item = Example> {
        Example::ALL.iter().copied().filter(move |example| example.group() == self)
    }
}

/// An example's entry in the table.
pub(crate) struct Entry {
    /// The title to read.
    pub title: &'static str,
    /// The content of the example, in one sentence.
    pub summary: &'static str,
    pub group: Group,
    /// The initial tokens, separated by spaces.
    pub tokens: &'static str,
    /// The initial matrices.
    pub start: Start,
    /// The initial number of heads.
    pub heads: usize,
    pub possible_heads: HeadCounts,
    /// Whether the user can type over cells of Q, K and V where tokens are projected to them.
    pub projections_are_editable: bool,
    /// The largest absolute value that a cell can hold.
    pub largest: f64,
    /// Computes the steps and measures what the checks compare.
    pub run: fn(&mut Trace<'_>) -> Result<(), Error>,
}

impl Entry {
    /// The fields that most entries share: one head, which may become several, and editable cells.
    const PLAIN: Self = Self {
        title: "",
        summary: "",
        group: Group::Attention,
        tokens: "",
        start: Start::Given(Vec::new),
        heads: 1,
        possible_heads: HeadCounts::Sharing,
        projections_are_editable: true,
        largest: LARGEST,
        run: |_| Ok(()),
    };
}

/// The largest number that most examples can hold. It keeps every step finite in single precision, also without softmax: with n
/// tokens of d features up to L, Q, K and V ≤ d·L², A = S ≤ d·(d·L²)²/√d, O ≤ n·A·V, and W_O gives d·O·L ≤ n·d^4.5·L⁷. That is
/// 5·10³² for n = 4 and d = 8, the largest of these examples.
pub(crate) const LARGEST: f64 = 1e4;

/// The source of an example's matrices.
pub(crate) enum Start {
    /// They are always the same.
    Given(fn() -> Vec<Input>),
    /// They are drawn for some tokens, their sizes and a number of heads.
    Drawn(fn(&[String], Sizes, usize) -> Vec<Input>),
}

/// The numbers of heads that an example can have.
pub(crate) enum HeadCounts {
    /// The initial number only.
    Own,
    /// Those that divide the columns of the projection matrices.
    Sharing,
    /// Any: the matrices are drawn for it.
    Any,
}

impl Example {
    /// All examples, in the order of a list to choose from.
    pub const ALL: &'static [Self] = Self::VARIANTS;

    pub(crate) fn entry(self) -> &'static Entry {
        match self {
            Self::MathOfAttention => &math_of_attention::ENTRY,
            Self::TheCatSat => &the_cat_sat::ENTRY,
            Self::Foundations => &foundations::ENTRY,
            Self::ILoveRobotics => &i_love_robotics::ENTRY,
            Self::AttentionScores => &attention_scores::ENTRY,
            Self::WhyScale => &why_scale::ENTRY,
            Self::TwoHeads => &two_heads::ENTRY,
            Self::Rotary => &rotary::ENTRY,
            Self::KvCache => &kv_cache::ENTRY,
            Self::GroupedQueries => &grouped_queries::ENTRY,
            Self::Positions => &positions::ENTRY,
            Self::LayerNorm => &layer_norm::ENTRY,
            Self::FeedForward => &feed_forward::ENTRY,
            Self::Block => &block::ENTRY,
            Self::CrossAttention => &cross_attention::ENTRY,
            Self::Gradients => &gradients::ENTRY,
            Self::Seeded => &seeded::ENTRY,
        }
    }

    /// The name to type: "the-cat-sat".
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// The title to read: "The cat sat".
    pub fn title(self) -> &'static str {
        self.entry().title
    }

    /// The content of the example, in one sentence.
    pub fn summary(self) -> &'static str {
        self.entry().summary
    }

    /// The group that it belongs to.
    pub fn group(self) -> Group {
        self.entry().group
    }

    pub(crate) fn tokens(self) -> Vec<String> {
        self.entry().tokens.split_whitespace().map(str::to_owned).collect()
    }
}

impl FromStr for Example {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let found = Self::ALL.iter().copied().find(|example| example.name() == name);
        found.ok_or_else(|| {
            Error::unknown("example", name, Self::ALL.iter().copied().map(Self::name))
        })
    }
}

/// Computes tokens, weights, projections, and attention over all tokens by the number of heads.
fn self_attention(trace: &mut Trace<'_>) -> Result<(), Error> {
    let (x, w) = give_tokens_and_weights(trace)?;
    attend_to_itself(trace, &x, &w).map(drop)
}

/// Computes self-attention for tokens and weights that are already shown. Returns Q, K and V.
fn attend_to_itself(trace: &mut Trace<'_>, x: &Pair, w: &[Pair; 3]) -> Result<[Pair; 3], Error> {
    let qkv = project_all(trace, x, w)?;
    let tokens = trace.tokens;
    heads::attend(trace, &Head::of_all(tokens), [x, x], w, &qkv)?;
    Ok(qkv)
}

/// Adds Q and K, which are given and not projected, with what their rows mean.
fn give_queries_and_keys(
    trace: &mut Trace<'_>,
    [queries, keys]: [&str; 2],
) -> Result<[Pair; 2], Error> {
    let dims = labels("d", trace.inputs.matrix(Quantity::Q).map_or(0, Matrix::cols));
    let text = Text { meaning: queries, code: "", ..Text::of(Quantity::Q) };
    let q = trace.give(&text, Axes::new(RowRole::Queries, trace.tokens, &dims))?;
    let text = Text { meaning: keys, code: "", ..Text::of(Quantity::K) };
    let k = trace.give(&text, Axes::new(RowRole::Keys, trace.tokens, &dims))?;
    Ok([q, k])
}

/// `torch.randn(rows, cols)`.
fn torch_randn(rng: &mut TorchRng, rows: usize, cols: usize) -> Matrix {
    Matrix::from_vec(rows, cols, rng.randn(rows * cols))
}

/// `torch.randn(rows, cols) * 0.1`, as an input.
fn small_torch_randn(rng: &mut TorchRng, key: Quantity, rows: usize, cols: usize) -> Input {
    let values = torch_randn(rng, rows, cols).map(|x| f64::from(x * 0.1));
    Input::drawn(key, values, "PyTorch, seed 42, times 0.1")
}

fn given<const N: usize>(all: [(Quantity, Matrix<f64>); N]) -> [Input; N] {
    all.map(|(key, values)| Input::given(key, values))
}

/// Readable numbers with one decimal, which an example uses instead of learned ones.
fn matrix<const C: usize>(rows: &[[f64; C]]) -> Matrix<f64> {
    Matrix::from_rows(rows)
}
