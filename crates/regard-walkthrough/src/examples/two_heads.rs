use regard::{Attention, Linear, MultiHeadAttention, Position, Sequences, Threads};

use super::the_cat_sat::{drawn, tokens, weights};
use super::{project_all, small_torch_randn};
use crate::attend::{Head, distance, push_inputs};
use crate::pair::Pair;
use crate::random::TorchRng;
use crate::step::{Kind, Origin};
use crate::trace::{Labels, Measured, Text, Trace, labels};
use crate::{Error, Matrix, Settings, Without};

const HEADS: [(&str, &str, &str); 2] = [("head_1.", ", head 1", "₁"), ("head_2.", ", head 2", "₂")];
const HEAD_DIM: usize = 2;

/// `the-cat-sat` split in two heads of two numbers each; W_O = randn(4, 4) * 0.1 comes next from the same generator.
pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let mut rng = TorchRng::seed(42);
    let (x, w) = (tokens(), weights(&mut rng));
    let w_o = small_torch_randn(&mut rng, 4, 4);
    push_inputs(trace, &x, &w, [&Origin::Given, &drawn()]);
    let qkv = project_all(trace, &x, &w)?;

    let words = trace.tokens.clone();
    let mut outputs = Vec::new();
    for (h, (prefix, of, subscript)) in HEADS.into_iter().enumerate() {
        let [q, k, v] = qkv.each_ref().map(|m| m.columns(h * HEAD_DIM, HEAD_DIM));
        let head = Head { prefix, of, subscript, queries: &words, keys: &words, position: Position::TopLeft };
        outputs.extend(head.attend(trace, &q, &k, Some(&v))?);
    }

    let dims = labels("o", HEADS.len() * HEAD_DIM);
    let row = Labels { rows: &words, cols: &dims };
    let concatenated = side_by_side(&outputs);
    let columns = (0..dims.len()).map(|j| format!("head {}, v{}", j / HEAD_DIM + 1, j % HEAD_DIM)).collect();
    let text = Text {
        key: "concatenated",
        name: "Heads side by side",
        formula: "C = [O₁ O₂]",
        meaning: "Each head had its own softmax, so each can follow its own relation: here their findings stand side by side.",
    };
    trace.push(&text, &concatenated, Kind::Signed, row, Origin::Columns(columns));
    let text = Text {
        key: "w_o",
        name: "Weights W_O",
        formula: "",
        meaning: "Learned: mixes what the heads found into one vector for each token.",
    };
    trace.push(&text, &w_o, Kind::Signed, Labels { rows: &dims, cols: &dims }, drawn());
    let output = concatenated.times(&w_o)?;
    if !matches!(trace.settings.without, Some(Without::Projections | Without::Softmax)) {
        let [w_q, w_k, w_v] = &w;
        let layer = layer(trace.settings, &x.ours, [w_q, w_k, w_v, &w_o].map(|w| &w.ours))?;
        Measured::note(&mut trace.measured.layer, distance(&output.ours, &layer));
    }
    let text = Text {
        key: "output",
        name: "Output",
        formula: "O = C·W_O",
        meaning: "Each token's new vector, drawn from both heads.",
    };
    let origin = Origin::Product { left: concatenated.ours, right: w_o.ours };
    trace.push(&text, &output, Kind::Signed, row, origin);
    Ok(())
}

/// The same from the multi-head layer of [`regard`].
fn layer(settings: &Settings, x: &Matrix, weights: [&Matrix; 4]) -> Result<Matrix, Error> {
    let linear = |w: &Matrix| Linear::new(w.as_slice(), w.rows(), w.cols());
    let [w_q, w_k, w_v, w_o] = weights;
    let layer = MultiHeadAttention::new(HEADS.len(), linear(w_q)?, linear(w_k)?, linear(w_v)?, linear(w_o)?)?;

    let mut attention = Attention::new().temperature(settings.temperature).threads(Threads::ONE);
    if settings.causal {
        attention = attention.causal(Position::TopLeft);
    }
    if settings.without == Some(Without::Scaling) {
        attention = attention.scale(1.0);
    }
    let (tokens, dims) = x.shape();
    let x = Sequences::new(x.as_slice(), [1, tokens, dims])?;
    let output = layer.forward(x, x, x, &attention)?;
    Ok(Matrix::from_fn(tokens, w_o.cols(), |i, j| output[i * w_o.cols() + j]))
}

fn side_by_side(heads: &[Pair]) -> Pair {
    let (rows, cols) = heads.first().map_or((0, 0), |h| h.ours.shape());
    let all = cols * heads.len();
    Pair {
        ours: Matrix::from_fn(rows, all, |i, j| heads[j / cols].ours.get(i, j % cols)),
        exact: Matrix::from_fn(rows, all, |i, j| heads[j / cols].exact.get(i, j % cols)),
    }
}
