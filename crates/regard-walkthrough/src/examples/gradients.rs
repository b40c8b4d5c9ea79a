use regard::{Heads, softmax_backward};

use super::{Entry, Group, HeadCounts, Start, attend_to_itself, matrix, the_cat_sat};
use crate::attend::distance;
use crate::expr::Expr;
use crate::heads::attention;
use crate::input::Input;
use crate::origin::{How, Origin, dot};
use crate::pair::Pair;
use crate::project::give_tokens_and_weights;
use crate::step::Kind;
use crate::trace::{Axes, Other, Text, Trace, largest};
use crate::{Error, Matrix, Quantity, Rows, Section, StepKey, Without};

pub(super) const ENTRY: Entry = Entry {
    title: "Gradients",
    summary: "\"The cat sat\" once more: how a wrong output says to each weight where to go.",
    group: Group::Around,
    tokens: "The cat sat",
    start: Start::Given(inputs),
    heads: 1,
    possible_heads: HeadCounts::One,
    projections_are_editable: false,
    run,
};

/// `the-cat-sat`, and what its output should have been.
pub(super) fn inputs() -> Vec<Input> {
    let mut inputs = the_cat_sat::inputs();
    inputs.push(Input::given(
        Quantity::Target,
        matrix(&[[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]),
    ));
    inputs
}

/// Forwards to a loss, and back.
pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let (x, w) = give_tokens_and_weights(trace)?;
    let qkv = attend_to_itself(trace, &x, &w)?;
    let [weights, output] =
        [Quantity::Weights, Quantity::Output].map(|quantity| of_step(trace, quantity));
    let d_output = push_loss(trace, &output)?;

    let [q, k, v] = &qkv;
    let d_v = push_product(trace, &D_V, [&weights.transposed(), &d_output], Rows::Keys)?;
    let d_weights = push_product(trace, &D_WEIGHTS, [&d_output, &v.transposed()], Rows::Pairs)?;
    let d_scores = push_d_scores(trace, &weights, &d_weights)?;
    let d_q = push_scaled_product(trace, &D_Q, [&d_scores, k], Rows::Queries)?;
    let d_k = push_scaled_product(trace, &D_K, [&d_scores.transposed(), q], Rows::Keys)?;
    let d_qkv = [d_q, d_k, d_v];
    if trace.settings.without != Some(Without::Projections) {
        for (text, d) in D_W.iter().zip(&d_qkv) {
            push_product(trace, text, [&x.transposed(), d], Rows::Other)?;
        }
    }
    push_d_x(trace, &d_qkv, &w)?;
    compare(trace, &qkv, &d_output, &d_qkv)
}

const D_V: Text<'_> = Text {
    key: StepKey::new(Section::Main, Quantity::DV),
    symbol: "dV",
    name: "Gradient of the values",
    formula: "dV = Aᵀ·dO",
    meaning: "A value is blamed by every output that it went into, as much as it was attended to.",
    code: "matmul(weights_transposed, d_output, d_v)",
};
const D_WEIGHTS: Text<'_> = Text {
    key: StepKey::new(Section::Main, Quantity::DWeights),
    symbol: "dA",
    name: "Gradient of the weights",
    formula: "dA = dO·Vᵀ",
    meaning: "A weight should fall where its value points where the output is too large, and rise where it does not.",
    code: "matmul_transposed(d_output, v, d_weights)",
};
const D_Q: Text<'_> = Text {
    key: StepKey::new(Section::Main, Quantity::DQ),
    symbol: "dQ",
    name: "Gradient of the queries",
    formula: "dQ = dS·K / √d_k",
    meaning: "A query moves along the keys whose scores should change.",
    code: "matmul(d_scores, k, d_q)",
};
const D_K: Text<'_> = Text {
    key: StepKey::new(Section::Main, Quantity::DK),
    symbol: "dK",
    name: "Gradient of the keys",
    formula: "dK = dSᵀ·Q / √d_k",
    meaning: "A key moves along the queries whose scores with it should change.",
    code: "matmul(d_scores_transposed, q, d_k)",
};
const D_W: [Text<'_>; 3] = [
    Text {
        key: StepKey::new(Section::Main, Quantity::DWQ),
        symbol: "dW_Q",
        name: "Gradient of W_Q",
        formula: "dW_Q = Xᵀ·dQ",
        meaning: "The step to learn by: W_Q less a small share of this makes the loss smaller.",
        code: "linear.backward(x, d_q)",
    },
    Text {
        key: StepKey::new(Section::Main, Quantity::DWK),
        symbol: "dW_K",
        name: "Gradient of W_K",
        formula: "dW_K = Xᵀ·dK",
        meaning: "The same for W_K: added up over all tokens, because all share these weights.",
        code: "linear.backward(x, d_k)",
    },
    Text {
        key: StepKey::new(Section::Main, Quantity::DWV),
        symbol: "dW_V",
        name: "Gradient of W_V",
        formula: "dW_V = Xᵀ·dV",
        meaning: "The same for W_V: often the largest, because nothing but the weights stands between it and the output.",
        code: "linear.backward(x, d_v)",
    },
];

/// The matrix of a step, under its name.
fn of_step(trace: &Trace<'_>, quantity: Quantity) -> Pair {
    let step = trace.steps.iter().find(|s| s.key == quantity.into());
    step.map_or_else(
        || Pair::stacked(&[]),
        |s| Pair { name: s.operand_name(), ..Pair::new(s.matrix.clone(), s.exact.clone()) },
    )
}

/// The target, the loss, and what it says to the output.
fn push_loss(trace: &mut Trace<'_>, output: &Pair) -> Result<Pair, Error> {
    let (rows, cols) = (output.name.rows.to_vec(), output.name.cols.to_vec());
    let axes = Axes::new(Rows::Queries, &rows, &cols);
    let text = Text::given(
        Quantity::Target,
        "Y",
        "Target Y",
        "What the output should have been: learning begins with being told.",
    );
    let target = trace.give(&text, axes)?;
    let text = Text {
        key: Quantity::DOutput.into(),
        symbol: "dO",
        name: "Gradient of the output",
        formula: "dO = O − Y",
        meaning: "How the loss changes with each number of the output: half the square of a distance changes as the distance.",
        code: "",
    };
    let d_output = trace.push(
        &text,
        output.minus(&target),
        Kind::Signed,
        axes,
        Origin::difference(output, &target),
    );

    let half_squares = |d: f64| 0.5 * d * d;
    let ours: f64 = d_output.ours.as_slice().iter().map(|d| half_squares(f64::from(*d))).sum();
    let exact: f64 = d_output.exact.as_slice().iter().map(|d| half_squares(*d)).sum();
    let text = Text {
        key: Quantity::Loss.into(),
        symbol: "L",
        name: "Loss L",
        formula: "L = ½ Σ (O − Y)²",
        meaning: "One number for how wrong the output is; all gradients are of it.",
        code: "",
    };
    let d = d_output.clone();
    let origin = Origin::computed(move |_, _| {
        let (rows, cols) = d.ours.shape();
        let squares = (0..rows * cols).map(|i| d.cell(i / cols, i % cols).square()).collect();
        Expr::Sum(squares).over(Expr::constant(2.0))
    });
    let loss = Pair::new(Matrix::from_rows(&[[ours as f32]]), Matrix::from_rows(&[[exact]]));
    let empty = [String::new()];
    trace.push(&text, loss, Kind::Signed, Axes::new(Rows::Other, &empty, &empty), origin);
    Ok(d_output)
}

fn push_product(
    trace: &mut Trace<'_>,
    text: &Text<'_>,
    [a, b]: [&Pair; 2],
    rows: Rows,
) -> Result<Pair, Error> {
    let (row_labels, col_labels) = (row_labels(a), col_labels(b));
    let axes = Axes::new(rows, &row_labels, &col_labels);
    Ok(trace.push(text, a.times(b)?, Kind::Signed, axes, Origin::product(a, b)))
}

/// A product by way of the scale: over √d_k, or as it is where scaling is left out.
fn push_scaled_product(
    trace: &mut Trace<'_>,
    text: &Text<'_>,
    [a, b]: [&Pair; 2],
    rows: Rows,
) -> Result<Pair, Error> {
    let d_k = b.ours.cols();
    if trace.settings.without == Some(Without::Scaling) {
        let formula = text.formula.trim_end_matches(" / √d_k");
        return push_product(trace, &Text { formula, ..*text }, [a, b], rows);
    }
    let root = (d_k as f64).sqrt();
    let product = a.times(b)?.map(|x| x / root as f32, |x| x / root);
    let (row_labels, col_labels) = (row_labels(a), col_labels(b));
    let (a, b) = (a.clone(), b.clone());
    let origin = Origin::computed(move |i, j| {
        let sum = dot((0..a.ours.cols()).map(|t| [a.cell(i, t), b.cell(t, j)]));
        sum.over(Expr::Number { name: "d_k", value: d_k as f64 }.root())
    });
    Ok(trace.push(text, product, Kind::Signed, Axes::new(rows, &row_labels, &col_labels), origin))
}

fn row_labels(a: &Pair) -> Vec<String> {
    if a.name.transposed { a.name.cols.to_vec() } else { a.name.rows.to_vec() }
}

fn col_labels(b: &Pair) -> Vec<String> {
    if b.name.transposed { b.name.rows.to_vec() } else { b.name.cols.to_vec() }
}

/// Back through softmax, row by row.
fn push_d_scores(trace: &mut Trace<'_>, weights: &Pair, d_weights: &Pair) -> Result<Pair, Error> {
    let settings = trace.settings;
    let hidden = |i: usize, j: usize| settings.hides() && j > i;
    let without = settings.without == Some(Without::Softmax);
    let t = settings.t();
    let (rows, cols) = weights.ours.shape();
    let mut d_scores =
        Pair::new(Matrix::from_fn(rows, cols, |_, _| 0.0), Matrix::from_fn(rows, cols, |_, _| 0.0));
    for i in 0..rows {
        if without {
            for j in (0..cols).filter(|j| !hidden(i, *j)) {
                d_scores.ours.row_mut(i)[j] = d_weights.ours.get(i, j);
                d_scores.exact.row_mut(i)[j] = d_weights.exact.get(i, j);
            }
        } else if has_slope(t) {
            let row =
                softmax_backward(weights.ours.row(i), d_weights.ours.row(i), settings.temperature)?;
            d_scores.ours.row_mut(i).copy_from_slice(&row);
            let (p, d) = (weights.exact.row(i), d_weights.exact.row(i));
            let mean = crate::reference::dot(p, d);
            for (x, (p, d)) in d_scores.exact.row_mut(i).iter_mut().zip(p.iter().zip(d)) {
                *x = p * (d - mean) / t;
            }
        }
    }
    // At low temperatures, what is rounded here is multiplied by 1/T.
    if !without && t > 0.0 {
        trace.measured.slope = (largest(&d_weights.ours).max(1.0) / t).max(1.0);
    }
    let formula = match (without, t) {
        (true, _) => "dS = dA".to_owned(),
        (_, 0.0) => "dS = 0".to_owned(),
        (_, 1.0) => "dSᵢⱼ = Aᵢⱼ·(dAᵢⱼ − Σₖ Aᵢₖ·dAᵢₖ)".to_owned(),
        _ => "dSᵢⱼ = Aᵢⱼ·(dAᵢⱼ − Σₖ Aᵢₖ·dAᵢₖ) / T".to_owned(),
    };
    let meaning = if without {
        "Left out: what the weights are told, the scores are told."
    } else if t == 0.0 {
        "At T = 0 a small change of a score changes no weight: nothing comes through, and nothing is learned."
    } else {
        "Back through softmax: a score is told how much worse its value is than the row's mean, in proportion to its weight, and \
         should fall by that; where one weight has all, hardly anything comes through."
    };
    let text = Text {
        key: Quantity::DScores.into(),
        symbol: "dS",
        name: "Gradient of the scores",
        formula: &formula,
        meaning,
        code: if without { "" } else { "softmax_backward(weights, d_weights, t)" },
    };
    let (p, d, hides) = (weights.clone(), d_weights.clone(), settings.hides());
    let origin = Origin::new(move |i, j, _| {
        if hides && j > i {
            return How::Both(Expr::constant(0.0), "hidden by the mask: no gradient".to_owned());
        }
        if without {
            return How::Computed(d.cell(i, j));
        }
        if t == 0.0 {
            return How::Both(Expr::constant(0.0), "at T = 0 softmax has no slope: 0".to_owned());
        }
        let mean = dot((0..cols).map(|t| [p.cell(i, t), d.cell(i, t)]));
        let through = Expr::Product(vec![p.cell(i, j), d.cell(i, j).minus(mean)]);
        How::Computed(if t == 1.0 {
            through
        } else {
            through.over(Expr::Number { name: "T", value: t })
        })
    });
    let (row_labels, col_labels) = (row_labels(weights), col_labels(weights));
    let axes = Axes::new(Rows::Pairs, &row_labels, &col_labels);
    Ok(trace.push(&text, d_scores, Kind::Signed, axes, origin))
}

/// What all three roles say to the token.
fn push_d_x(trace: &mut Trace<'_>, d_qkv: &[Pair; 3], w: &[Pair; 3]) -> Result<(), Error> {
    let left_out = trace.settings.without == Some(Without::Projections);
    let mut parts = Vec::new();
    for (d, w) in d_qkv.iter().zip(w) {
        parts.push(if left_out { d.clone() } else { d.times_transposed(w)? });
    }
    let sum = parts[0].plus(&parts[1]).plus(&parts[2]);
    let (d, w) = (d_qkv.clone(), w.clone());
    let origin = Origin::computed(move |i, j| {
        let terms = d.iter().zip(&w).flat_map(|(d, w)| {
            let product = |t| Expr::Product(vec![d.cell(i, t), w.cell(j, t)]);
            if left_out { vec![d.cell(i, j)] } else { (0..d.ours.cols()).map(product).collect() }
        });
        Expr::Sum(terms.collect())
    });
    let text = Text {
        key: Quantity::DX.into(),
        symbol: "dX",
        name: "Gradient of the tokens",
        formula: if left_out {
            "dX = dQ + dK + dV"
        } else {
            "dX = dQ·W_Qᵀ + dK·W_Kᵀ + dV·W_Vᵀ"
        },
        meaning: "A token played three roles, so it is told three things: this goes on to the layer before.",
        code: "matmul_transposed(d_q, w_q, d_x)",
    };
    let (rows, cols) = (trace.tokens.clone(), crate::trace::labels("d", sum.ours.cols()));
    trace.push(&text, sum, Kind::Signed, Axes::new(Rows::Tokens, &rows, &cols), origin);
    Ok(())
}

/// Whether softmax at a temperature has a slope that is a number.
fn has_slope(t: f64) -> bool {
    t >= f64::from(f32::MIN_POSITIVE)
}

/// The gradients that [`regard`] computes without ever writing weights down.
fn compare(
    trace: &mut Trace<'_>,
    [q, k, v]: &[Pair; 3],
    d_output: &Pair,
    d_qkv: &[Pair; 3],
) -> Result<(), Error> {
    if trace.settings.without == Some(Without::Softmax) || !has_slope(trace.settings.t()) {
        return Ok(());
    }
    let attention = attention(trace.settings, true);
    let shape = |m: &Pair| [1, 1, m.ours.rows(), m.ours.cols()];
    let q = Heads::new("query", q.ours.as_slice(), shape(q))?;
    let k = Heads::new("key", k.ours.as_slice(), shape(k))?;
    let v = Heads::new("value", v.ours.as_slice(), shape(v))?;
    let out = attention.forward(q, k, v)?;
    let gradients = attention.backward(q, k, v, &out, d_output.ours.as_slice())?;
    let mut deviation = 0.0_f64;
    for (ours, theirs) in d_qkv.iter().zip([&gradients.query, &gradients.key, &gradients.value]) {
        let (rows, cols) = ours.ours.shape();
        let theirs = Matrix::from_fn(rows, cols, |i, j| theirs[i * cols + j]);
        deviation = deviation.max(distance(&ours.ours, &theirs) / largest(&ours.ours).max(1.0));
    }
    trace.measured.others.push(Other {
        name: "step by step equals the gradients of one call",
        value: deviation,
        meaning: "dQ, dK and dV of these steps beside those of the fused attention, which computes the weights anew: the largest \
                  distance, over the largest number.",
    });
    Ok(())
}
