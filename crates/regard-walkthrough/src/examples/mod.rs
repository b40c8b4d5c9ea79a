//! The worked examples, one a file: what each begins with, and its steps.

mod attention_scores;
mod block;
mod cross_attention;
mod feed_forward;
mod foundations;
mod gradients;
mod i_love_robotics;
mod layer_norm;
mod math_of_attention;
mod positions;
pub(crate) mod seeded;
mod the_cat_sat;
mod two_heads;
pub(crate) mod why_scale;

use crate::attend::Head;
use crate::heads;
use crate::inputs::{Input, Sizes};
use crate::pair::Pair;
use crate::project::{give_tokens_and_weights, project_all};
use crate::random::TorchRng;
use crate::trace::{Trace, labels};
use crate::{Error, Example, Matrix};

impl Example {
    pub(crate) fn run(self, trace: &mut Trace<'_>) -> Result<(), Error> {
        match self {
            Self::MathOfAttention | Self::TwoHeads | Self::Seeded => {
                self_attention(trace).map(drop)
            }
            Self::TheCatSat => the_cat_sat::run(trace),
            Self::Foundations => foundations::run(trace),
            Self::ILoveRobotics => i_love_robotics::run(trace),
            Self::AttentionScores => attention_scores::run(trace),
            Self::WhyScale => why_scale::run(trace),
            Self::Positions => positions::run(trace),
            Self::LayerNorm => layer_norm::run(trace),
            Self::FeedForward => feed_forward::run(trace),
            Self::Block => block::run(trace),
            Self::CrossAttention => cross_attention::run(trace),
            Self::Gradients => gradients::run(trace),
        }
    }

    /// What it begins with, for so many heads.
    pub(crate) fn given(self, tokens: usize, sizes: Option<Sizes>, heads: usize) -> Vec<Input> {
        let mut inputs = match self {
            Self::MathOfAttention => math_of_attention::inputs(),
            Self::TheCatSat => the_cat_sat::inputs(),
            Self::Foundations => foundations::inputs(),
            Self::ILoveRobotics => i_love_robotics::inputs(),
            Self::AttentionScores => attention_scores::inputs(),
            Self::WhyScale => Vec::new(),
            Self::TwoHeads => two_heads::inputs(),
            Self::Positions => positions::inputs(),
            Self::LayerNorm => layer_norm::inputs(),
            Self::FeedForward => feed_forward::inputs(),
            Self::Block => block::inputs(),
            Self::CrossAttention => cross_attention::inputs(),
            Self::Gradients => gradients::inputs(),
            Self::Seeded => seeded::inputs(tokens, sizes.unwrap_or_default(), heads),
        };
        if heads > 1 && inputs.iter().all(|i| i.key != "w_o") {
            let n = inputs.iter().find(|i| i.key == "w_v").map_or(0, |w| w.values.cols());
            inputs.push(Input::given(
                "w_o",
                Matrix::from_fn(n, n, |i, j| f64::from(u8::from(i == j))),
            ));
        }
        inputs
    }

    /// The number of heads to begin with.
    pub(crate) fn heads(self) -> usize {
        if matches!(self, Self::TwoHeads | Self::Block | Self::Seeded) { 2 } else { 1 }
    }

    pub(crate) fn tokens(self) -> Vec<String> {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect();
        match self {
            Self::MathOfAttention | Self::Foundations => labels("t", 4),
            Self::TheCatSat | Self::TwoHeads | Self::Gradients => words("The cat sat"),
            Self::ILoveRobotics => words("I love robotics"),
            Self::AttentionScores => labels("t", 3),
            Self::WhyScale => Vec::new(),
            Self::Positions => words("the dog saw the cat"),
            Self::LayerNorm | Self::FeedForward | Self::Block => words("the cat sat"),
            Self::CrossAttention => words("le chat"),
            Self::Seeded => words("the quick brown fox"),
        }
    }
}

/// Tokens, weights, projections, and attention over all tokens, by as many heads as there are: gives Q, K and V.
fn self_attention(trace: &mut Trace<'_>) -> Result<[Pair; 3], Error> {
    let (x, w) = give_tokens_and_weights(trace)?;
    attend_to_itself(trace, &x, &w)
}

/// The same, of tokens and weights that are there already.
fn attend_to_itself(trace: &mut Trace<'_>, x: &Pair, w: &[Pair; 3]) -> Result<[Pair; 3], Error> {
    let qkv = project_all(trace, x, w)?;
    let tokens = trace.tokens.clone();
    heads::attend(trace, &Head::of_all(&tokens), [x, x], w, &qkv)?;
    Ok(qkv)
}

/// `torch.randn(rows, cols)`.
fn torch_randn(rng: &mut TorchRng, rows: usize, cols: usize) -> Matrix {
    let data = rng.randn(rows * cols);
    Matrix::from_fn(rows, cols, |i, j| data[i * cols + j])
}

/// `torch.randn(rows, cols) * 0.1`, as an input.
fn small_torch_randn(rng: &mut TorchRng, key: &'static str, rows: usize, cols: usize) -> Input {
    let values = torch_randn(rng, rows, cols).map(|x| f64::from(x * 0.1));
    Input::drawn(key, values, "PyTorch, seed 42, times 0.1")
}

/// Small numbers with one decimal, to be read: what an example has in place of learned ones.
fn matrix<const C: usize>(rows: &[[f64; C]]) -> Matrix<f64> {
    Matrix::from_rows(rows)
}
