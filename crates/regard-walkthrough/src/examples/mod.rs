//! The worked examples, one a file.

mod attention_scores;
mod foundations;
mod i_love_robotics;
mod math_of_attention;
mod the_cat_sat;
mod two_heads;
pub(crate) mod why_scale;

use regard_kernels::Position;

use crate::attend::{Head, Role, project, push_inputs};
use crate::pair::Pair;
use crate::random::TorchRng;
use crate::step::Origin;
use crate::trace::{Trace, labels};
use crate::{Error, Example, Matrix, Settings};

impl Example {
    pub(crate) fn run(self, settings: &Settings) -> Result<Trace<'_>, Error> {
        let mut trace = Trace::new(settings, self.tokens());
        match self {
            Self::MathOfAttention => math_of_attention::run(&mut trace)?,
            Self::TheCatSat => the_cat_sat::run(&mut trace)?,
            Self::Foundations => foundations::run(&mut trace)?,
            Self::ILoveRobotics => i_love_robotics::run(&mut trace)?,
            Self::AttentionScores => attention_scores::run(&mut trace)?,
            Self::WhyScale => why_scale::run(&mut trace)?,
            Self::TwoHeads => two_heads::run(&mut trace)?,
        }
        Ok(trace)
    }

    fn tokens(self) -> Vec<String> {
        let words = |words: [&str; 3]| words.map(str::to_owned).to_vec();
        match self {
            Self::MathOfAttention | Self::Foundations => labels("t", 4),
            Self::TheCatSat | Self::TwoHeads => words(["The", "cat", "sat"]),
            Self::ILoveRobotics => words(["I", "love", "robotics"]),
            Self::AttentionScores => labels("t", 3),
            Self::WhyScale => Vec::new(),
        }
    }
}

/// Inputs, projections and one head over all tokens: gives Q, K and V.
fn self_attention(trace: &mut Trace<'_>, x: &Pair, w: &[Pair; 3], origins: [&Origin; 2]) -> Result<[Pair; 3], Error> {
    push_inputs(trace, x, w, origins);
    let qkv = project_all(trace, x, w)?;
    let tokens = trace.tokens.clone();
    one_head(&tokens).attend(trace, &qkv[0], &qkv[1], Some(&qkv[2]))?;
    Ok(qkv)
}

fn project_all(trace: &mut Trace<'_>, x: &Pair, [w_q, w_k, w_v]: &[Pair; 3]) -> Result<[Pair; 3], Error> {
    let [query, key, value] = Role::ALL;
    Ok([project(trace, query, x, w_q)?, project(trace, key, x, w_k)?, project(trace, value, x, w_v)?])
}

fn one_head(tokens: &[String]) -> Head<'_> {
    Head { prefix: "", of: "", subscript: "", queries: tokens, keys: tokens, position: Position::TopLeft }
}

/// `torch.randn(rows, cols)`.
fn torch_randn(rng: &mut TorchRng, rows: usize, cols: usize) -> Matrix {
    let data = rng.randn(rows * cols);
    Matrix::from_fn(rows, cols, |i, j| data[i * cols + j])
}

/// `torch.randn(rows, cols) * 0.1`.
fn small_torch_randn(rng: &mut TorchRng, rows: usize, cols: usize) -> Pair {
    Pair::single(torch_randn(rng, rows, cols).map(|x| x * 0.1))
}
