//! The parts of a transformer block around attention: layer norm, the feed-forward layer, the residual connection.

use core::slice::from_ref;

use regard::{Activation, FeedForward, Norm};

use crate::bound;
use crate::expr::Expr;
use crate::heads::{linear, sequences};
use crate::origin::Origin;
use crate::pair::Pair;
use crate::step::Kind;
use crate::trace::{Axes, Text, Trace, labels};
use crate::{Error, Matrix, Quantity, RowRole, reference};

/// The ε of layer norm, as in PyTorch. The reference uses the same number, which is 10⁻⁵ rounded to `f32`.
pub(crate) const EPSILON: f32 = 1e-5;

/// A layer norm of an example: the keys of its gain, its shift and its result, and the suffixes of its name and symbol.
#[derive(Clone, Copy)]
pub(crate) struct Which {
    keys: [Quantity; 3],
    name: &'static str,
    subscript: &'static str,
}

impl Which {
    /// The only layer norm.
    pub const ONLY: Self =
        Self { keys: [Quantity::Gamma, Quantity::Beta, Quantity::Norm], name: "", subscript: "" };
    /// The first layer norm of a block.
    pub const FIRST: Self = Self {
        keys: [Quantity::Gamma1, Quantity::Beta1, Quantity::Norm1],
        name: ", before attention",
        subscript: "₁",
    };
    /// The second layer norm of a block.
    pub const SECOND: Self = Self {
        keys: [Quantity::Gamma2, Quantity::Beta2, Quantity::Norm2],
        name: ", before feed-forward",
        subscript: "₂",
    };
}

/// Adds γ, β and the normalized rows.
pub(crate) fn push_norm(
    trace: &mut Trace<'_>,
    x: &Pair,
    which: Which,
    rows: RowRole,
) -> Result<(Pair, Norm), Error> {
    let Which { keys: [gamma, beta, norm_key], name, subscript } = which;
    let (tokens, dims) = (&x.name.rows, &x.name.cols);
    let mut one_row = |heading, key: Quantity| {
        let text = Text::named(heading, key);
        let symbol = format!("{}{subscript}", text.symbol);
        let text = Text { symbol: &symbol, name: &format!("{}{name}", text.name), ..text };
        trace.give(&text, Axes::new(RowRole::Other, from_ref(&symbol), dims))
    };
    let (gamma, beta) = (one_row("gain", gamma)?, one_row("shift", beta)?);

    let norm = Norm::layer(gamma.ours.as_slice().to_vec(), beta.ours.as_slice().to_vec(), EPSILON)?;
    let mut exact = x.exact.clone();
    for i in 0..exact.rows() {
        reference::normalized(exact.row_mut(i), f64::from(EPSILON));
    }
    let exact = Matrix::from_fn(exact.rows(), exact.cols(), |i, j| {
        exact.get(i, j) * gamma.exact.get(0, j) + beta.exact.get(0, j)
    });
    let rows_of = |pair: &Pair, i: usize| [pair.exact.row(i).to_vec(), pair.bound.row(i).to_vec()];
    let bounds = (0..exact.rows()).map(|i| {
        let [[x, dx], [g, dg], [b, db]] =
            [(x, i), (&gamma, 0), (&beta, 0)].map(|(m, i)| rows_of(m, i));
        bound::layer_norm([&x, &dx], [&g, &dg], [&b, &db], f64::from(EPSILON))
    });
    let bounds: Vec<Vec<f64>> = bounds.collect();
    let bound = Matrix::from_fn(exact.rows(), exact.cols(), |i, j| bounds[i][j]);
    let normed = Pair::of_layer(norm.forward(sequences(&x.ours)?)?.into_vec(), exact, bound);
    let text = Text {
        symbol: &format!("N{subscript}"),
        name: &format!("Layer norm{name}"),
        formula: &format!(
            "N{subscript} = γ{subscript}·(x − mean) / √(variance + ε) + β{subscript},  x a row of {}",
            x.name.symbol
        ),
        ..Text::named("layer norm", norm_key)
    };
    let origin = normalized(x, &gamma, &beta);
    Ok((trace.push(&text, normed, Kind::Signed, Axes::new(rows, tokens, dims), origin), norm))
}

fn normalized(x: &Pair, gamma: &Pair, beta: &Pair) -> Origin {
    let (x, gamma, beta) = (x.clone(), gamma.clone(), beta.clone());
    Origin::computed(move |i, j| {
        let row: Vec<f64> = x.ours.row(i).iter().map(|x| f64::from(*x)).collect();
        let [mean, variance] = reference::moments(&row);
        let centred = x.cell(i, j).minus(Expr::Number { name: "mean", value: mean });
        let epsilon = Expr::Number { name: "ε", value: f64::from(EPSILON) };
        let spread =
            Expr::Sum(vec![Expr::Number { name: "variance", value: variance }, epsilon]).root();
        Expr::Sum(vec![
            Expr::Product(vec![centred.over(spread), gamma.cell(0, j)]),
            beta.cell(0, j),
        ])
    })
}

/// Adds W₁, b₁, the hidden features before and after the ReLU, W₂, b₂ and the output.
pub(crate) fn push_feed_forward(
    trace: &mut Trace<'_>,
    x: &Pair,
    rows: RowRole,
) -> Result<(Pair, FeedForward), Error> {
    let (tokens, dims) = (&x.name.rows, &x.name.cols);
    let hidden_dims = labels("h", trace.inputs.matrix(Quantity::W1).map_or(0, Matrix::cols));
    let [w_1, b_1] = push_layer(trace, [Quantity::W1, Quantity::B1], "₁", [dims, &hidden_dims])?;
    let from = x.name.symbol.clone();
    let text =
        Text { formula: &format!("U = {from}·W₁ + b₁"), ..Text::of(Quantity::HiddenRaw) };
    let up = linear(&w_1.ours)?.with_bias(b_1.ours.as_slice().to_vec())?;
    let raw = x.affine(&w_1, &b_1, up.forward(sequences(&x.ours)?)?.into_vec());
    let axes = Axes::new(rows, tokens, &hidden_dims);
    let raw = trace.push(&text, raw, Kind::Signed, axes, Origin::affine(x, &w_1, &b_1));

    let mut ours = raw.ours.clone();
    Activation::Relu.apply(ours.as_mut_slice());
    let hidden = Pair::new(ours, raw.exact.map(|x| x.max(0.0)), raw.bound.clone());
    let text = Text::of(Quantity::Hidden);
    let origin = {
        let raw = raw.clone();
        Origin::computed(move |i, j| Expr::Max(vec![Expr::constant(0.0), raw.cell(i, j)]))
    };
    let hidden = trace.push(&text, hidden, Kind::Signed, axes, origin);

    let outs = labels("d", trace.inputs.matrix(Quantity::W2).map_or(0, Matrix::cols));
    let [w_2, b_2] = push_layer(trace, [Quantity::W2, Quantity::B2], "₂", [&hidden_dims, &outs])?;
    let down = linear(&w_2.ours)?.with_bias(b_2.ours.as_slice().to_vec())?;
    let layer = FeedForward::new(up, Activation::Relu, down)?;
    let fed = hidden.affine(&w_2, &b_2, layer.forward(sequences(&x.ours)?)?.into_vec());
    let text = Text::of(Quantity::Fed);
    let origin = Origin::affine(&hidden, &w_2, &b_2);
    Ok((trace.push(&text, fed, Kind::Signed, Axes::new(rows, tokens, &outs), origin), layer))
}

/// Adds the weights and the bias of a linear layer.
fn push_layer(
    trace: &mut Trace<'_>,
    [weights, bias]: [Quantity; 2],
    subscript: &str,
    [rows, cols]: [&[String]; 2],
) -> Result<[Pair; 2], Error> {
    let symbol = format!("W{subscript}");
    let name = format!("Weight matrix {symbol}");
    let text = Text { symbol: &symbol, name: &name, ..Text::named("weights of a layer", weights) };
    let w = trace.give(&text, Axes::new(RowRole::Other, rows, cols))?;
    let symbol = format!("b{subscript}");
    let name = format!("Bias {symbol}");
    let text = Text { symbol: &symbol, name: &name, ..Text::named("bias of a layer", bias) };
    let b = trace.give(&text, Axes::new(RowRole::Other, from_ref(&symbol), cols))?;
    Ok([w, b])
}

/// Adds x plus the output of a layer.
pub(crate) fn push_residual(
    trace: &mut Trace<'_>,
    key: Quantity,
    [symbol, name]: [&str; 2],
    [x, added]: [&Pair; 2],
    rows: RowRole,
) -> Pair {
    let formula = format!("{symbol} = {} + {}", x.name.symbol, added.name.symbol);
    let text = Text { symbol, name, formula: &formula, ..Text::named("residual connection", key) };
    let axes = Axes::new(rows, &x.name.rows, &x.name.cols);
    trace.push(&text, x.plus(added), Kind::Signed, axes, Origin::sum(x, added))
}
