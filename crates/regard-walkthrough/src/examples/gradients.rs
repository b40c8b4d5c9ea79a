use regard::{Heads, softmax_backward};
use regard_kernels::Temperature;

use super::{Entry, Group, HeadCounts, Start, attend_to_itself, matrix, two_heads};
use crate::bound;
use crate::check::Gap;
use crate::expr::Expr;
use crate::heads::attention;
use crate::input::Input;
use crate::origin::{How, Origin, dot};
use crate::pair::{Pair, zeros};
use crate::project::give_tokens_and_weights;
use crate::step::Kind;
use crate::trace::{Axes, Text, Trace, labels};
use crate::{Error, Matrix, Quantity, RowRole, Without, reference};

pub(super) const ENTRY: Entry = Entry {
    title: "Gradients",
    summary: "\"the cat sat\" with one head of four features: from a wrong output back to the gradient of every weight.",
    group: Group::Around,
    tokens: "the cat sat",
    start: Start::Given(inputs),
    possible_heads: HeadCounts::Own,
    projections_are_editable: false,
    largest: LARGEST,
    run,
    ..Entry::PLAIN
};

/// Three tokens of four features keep every gradient finite in single precision up to here. With numbers up to L and without
/// softmax, V ≤ 4L², A = S ≤ 4·(4L²)²/2, O ≤ 3·A·V, dA ≤ 4·O·V, dQ ≤ 3·dA·K/2, and dX sums two products 4·dQ·L ≤
/// 1.5·10⁵·L¹¹ and a smaller one: 2.2·10³⁵ in all.
const LARGEST: f64 = 500.0;

/// The tokens and projections of `two-heads`, and the target of the output.
pub(super) fn inputs() -> Vec<Input> {
    let mut inputs = two_heads::projected();
    inputs.push(Input::given(
        Quantity::Target,
        matrix(&[[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]),
    ));
    inputs
}

/// Computes the loss, then the gradients backwards.
pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let (x, w) = give_tokens_and_weights(trace)?;
    let qkv = attend_to_itself(trace, &x, &w)?;
    let [weights, output] =
        [Quantity::Weights, Quantity::Output].map(|quantity| of_step(trace, quantity));
    let d_output = push_loss(trace, &output)?;

    let [q, k, v] = &qkv;
    let d_v =
        push_product(trace, Quantity::DV, [&weights.transposed(), &d_output], (RowRole::Keys, v))?;
    let factors = [&d_output, &v.transposed()];
    let d_weights = push_product(trace, Quantity::DWeights, factors, (RowRole::Pairs, &weights))?;
    let d_scores = push_d_scores(trace, &weights, &d_weights)?;
    let d_q = push_scaled_product(trace, Quantity::DQ, [&d_scores, k], (RowRole::Queries, q))?;
    let d_k =
        push_scaled_product(trace, Quantity::DK, [&d_scores.transposed(), q], (RowRole::Keys, k))?;
    let d_qkv = [d_q, d_k, d_v];
    if trace.settings.without != Some(Without::Projections) {
        let keys = [Quantity::DWQ, Quantity::DWK, Quantity::DWV];
        for ((key, d), w) in keys.into_iter().zip(&d_qkv).zip(&w) {
            push_product(trace, key, [&x.transposed(), d], (RowRole::Other, w))?;
        }
    }
    push_d_x(trace, &d_qkv, &w)?;
    compare(trace, &qkv, [&weights, &d_weights, &d_output, &output], &d_qkv)
}

/// The matrix of a step, under its name.
fn of_step(trace: &Trace<'_>, quantity: Quantity) -> Pair {
    let step = trace.steps.iter().find(|s| s.key == quantity.into());
    step.map_or_else(
        || Pair::stacked(&[]),
        |s| Pair {
            name: s.operand_name(),
            ..Pair::new(s.matrix.clone(), s.exact.clone(), s.bounds.clone())
        },
    )
}

/// Adds the target, the loss and its gradient by the output, and returns this gradient.
fn push_loss(trace: &mut Trace<'_>, output: &Pair) -> Result<Pair, Error> {
    let axes = Axes::new(RowRole::Queries, &output.name.rows, &output.name.cols);
    let text = Text::of(Quantity::Target);
    let target = trace.give(&text, axes)?;
    let difference = output.minus(&target);
    let half_squares = |d: f64| 0.5 * d * d;
    let ours: f64 = difference.ours.as_slice().iter().map(|d| half_squares(f64::from(*d))).sum();
    let exact: f64 = difference.exact.as_slice().iter().map(|d| half_squares(*d)).sum();
    let text = Text::of(Quantity::Loss);
    let (o, y) = (output.clone(), target.clone());
    let origin = Origin::computed(move |_, _| {
        let (rows, cols) = o.ours.shape();
        let cells = (0..rows * cols).map(|i| (i / cols, i % cols));
        let squares = cells.map(|(i, j)| o.cell(i, j).minus(y.cell(i, j)).square()).collect();
        Expr::Sum(squares).over(Expr::constant(2.0))
    });
    // The halved squares of the errors are added up in double precision, and the sum is rounded.
    let moved = |(d, e): (&f64, &f64)| d.abs() * e + 0.5 * e * e;
    let error =
        difference.exact.as_slice().iter().zip(difference.bound.as_slice()).map(moved).sum();
    let [exact, bound] = [exact, bound::rounded(exact, error)].map(|x| Matrix::from_rows(&[[x]]));
    let loss = Pair::new(Matrix::from_rows(&[[ours as f32]]), exact, bound);
    let empty = [String::new()];
    trace.push(&text, loss, Kind::Signed, Axes::new(RowRole::Other, &empty, &empty), origin);
    let text = Text::of(Quantity::DOutput);
    let origin = Origin::difference(output, &target);
    Ok(trace.push(&text, difference, Kind::Signed, axes, origin))
}

/// Adds the gradient of `like`, a product that is not divided, with the rows and columns of `like`. The gradients of Q and K are
/// such products if scaling is left out.
fn push_product(
    trace: &mut Trace<'_>,
    quantity: Quantity,
    [a, b]: [&Pair; 2],
    (rows, like): (RowRole, &Pair),
) -> Result<Pair, Error> {
    let text = Text::of(quantity);
    let text = Text { formula: text.formula.trim_end_matches(" / √d_k"), ..text };
    let axes = Axes::new(rows, &like.name.rows, &like.name.cols);
    Ok(trace.push(&text, a.times(b)?, Kind::Signed, axes, Origin::product(a, b)))
}

/// Adds such a product, divided by √d_k unless scaling is left out.
fn push_scaled_product(
    trace: &mut Trace<'_>,
    quantity: Quantity,
    [a, b]: [&Pair; 2],
    (rows, like): (RowRole, &Pair),
) -> Result<Pair, Error> {
    if trace.settings.without == Some(Without::Scaling) {
        return push_product(trace, quantity, [a, b], (rows, like));
    }
    let d_k = b.ours.cols();
    let (product, a, b) = (a.times_over_root(b, d_k)?, a.clone(), b.clone());
    let origin = Origin::computed(move |i, j| {
        let sum = dot((0..a.ours.cols()).map(|t| [a.cell(i, t), b.cell(t, j)]));
        sum.over(Expr::Number { name: "d_k", value: d_k as f64 }.root())
    });
    let axes = Axes::new(rows, &like.name.rows, &like.name.cols);
    Ok(trace.push(&Text::of(quantity), product, Kind::Signed, axes, origin))
}

/// Propagates the gradient back through softmax, row by row.
fn push_d_scores(trace: &mut Trace<'_>, weights: &Pair, d_weights: &Pair) -> Result<Pair, Error> {
    let settings = trace.settings;
    let hidden = |i: usize, j: usize| settings.hides() && j > i;
    let without = settings.without == Some(Without::Softmax);
    let (t, cols) = (settings.t(), weights.ours.cols());
    let d_scores = if without {
        let seen = |i, j| !hidden(i, j);
        let keep = |m: &Matrix<f64>| {
            Matrix::from_fn(m.rows(), cols, |i, j| if seen(i, j) { m.get(i, j) } else { 0.0 })
        };
        let ours = |i, j| if seen(i, j) { d_weights.ours.get(i, j) } else { 0.0 };
        let ours = Matrix::from_fn(weights.ours.rows(), cols, ours);
        Pair::new(ours, keep(&d_weights.exact), keep(&d_weights.bound))
    } else {
        let means = bound_of_dots([weights, d_weights]);
        through_softmax(settings.temperature, weights, d_weights, &means)?
    };
    let (heading, divided) = match (without, t) {
        (true, _) => ("d_scores without softmax", ""),
        (_, 0.0) => ("d_scores at T = 0", ""),
        (_, 1.0) => ("d_scores", ""),
        _ => ("d_scores", " / T"),
    };
    let text = Text::named(heading, Quantity::DScores);
    let text = Text { formula: &format!("{}{divided}", text.formula), ..text };
    let (p, d, hides) = (weights.clone(), d_weights.clone(), settings.hides());
    let origin = Origin::new(move |i, j, _| {
        if hides && j > i {
            return How::Both(
                Expr::constant(0.0),
                "hidden by the mask: the gradient is 0".to_owned(),
            );
        }
        if without {
            return How::Computed(d.cell(i, j));
        }
        if t == 0.0 {
            return How::Both(Expr::constant(0.0), "at T = 0 the slope of softmax is 0".to_owned());
        }
        let mean = dot((0..cols).map(|t| [p.cell(i, t), d.cell(i, t)]));
        let through = Expr::Product(vec![p.cell(i, j), d.cell(i, j).minus(mean)]);
        How::Computed(if t == 1.0 {
            through
        } else {
            through.over(Expr::Number { name: "T", value: t })
        })
    });
    let axes = Axes::new(RowRole::Pairs, &weights.name.rows, &weights.name.cols);
    Ok(trace.push(&text, d_scores, Kind::Signed, axes, origin))
}

/// The gradient of the scores: dSᵢⱼ = Aᵢⱼ·(dAᵢⱼ − Σₖ Aᵢₖ·dAᵢₖ) / T, where the sum of row i has an error up to
/// `mean_errors[i]`. 0 where softmax has no slope.
fn through_softmax(
    temperature: Temperature,
    weights: &Pair,
    d_weights: &Pair,
    mean_errors: &[f64],
) -> Result<Pair, Error> {
    let (rows, cols) = weights.ours.shape();
    let zero = || Matrix::from_fn(rows, cols, |_, _| 0.0);
    let mut d_scores = Pair::new(zeros(rows, cols), zero(), zero());
    if temperature.is_zero() {
        return Ok(d_scores);
    }
    let t = f64::from(temperature.get());
    // If T is large, 1/T is subnormal and has a larger rounding error.
    let inverse = bound::gamma(4) + t.min(f64::from(f32::MAX)) * 2.0_f64.powi(-150);
    for (i, mean_error) in mean_errors.iter().enumerate() {
        let row = softmax_backward(weights.ours.row(i), d_weights.ours.row(i), temperature)?;
        d_scores.ours.row_mut(i).copy_from_slice(&row);
        let mean = reference::dot(weights.exact.row(i), d_weights.exact.row(i));
        for j in 0..cols {
            let (p, p_error) = (weights.exact.get(i, j), weights.bound.get(i, j));
            let above = d_weights.exact.get(i, j) - mean;
            let above_error = bound::rounded(above, d_weights.bound.get(i, j) + mean_error);
            let error = p * above_error + p_error * (above.abs() + above_error);
            d_scores.exact.row_mut(i)[j] = p * above / t;
            let size = p * above.abs() + error;
            d_scores.bound.row_mut(i)[j] =
                (error + inverse * size) / t + f64::from(f32::MIN_POSITIVE) * bound::U;
        }
    }
    Ok(d_scores)
}

/// The bound of Σₖ aᵢₖ·bᵢₖ of each row i, in any order of summation.
fn bound_of_dots([a, b]: [&Pair; 2]) -> Vec<f64> {
    let row = |i| bound::sums(a.rows(i, 1).known(), b.rows(i, 1).transposed().known(), 0).get(0, 0);
    (0..a.ours.rows()).map(row).collect()
}

/// Adds the gradient of the tokens, summed over their three roles.
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
    let formula =
        if left_out { "dX = dQ + dK + dV" } else { "dX = dQ·W_Qᵀ + dK·W_Kᵀ + dV·W_Vᵀ" };
    let text = Text { formula, ..Text::of(Quantity::DX) };
    let cols = labels("d", sum.ours.cols());
    let axes = Axes::new(RowRole::Tokens, trace.tokens, &cols);
    trace.push(&text, sum, Kind::Signed, axes, origin);
    Ok(())
}

/// Compares with the gradients that [`regard`] computes without storing the weights. It computes the row's mean Σₖ Aᵢₖ·dAᵢₖ as
/// the dot product of dO and O (Dao et al. 2022), which rounds differently and has its own bound.
fn compare(
    trace: &mut Trace<'_>,
    qkv: &[Pair; 3],
    [weights, d_weights, d_output, output]: [&Pair; 4],
    d_qkv: &[Pair; 3],
) -> Result<(), Error> {
    let settings = trace.settings;
    if settings.without == Some(Without::Softmax) || settings.temperature.is_zero() {
        return Ok(());
    }
    let attention = attention(settings, true);
    let [q, k, v] = qkv;
    let shape = |m: &Pair| [1, 1, m.ours.rows(), m.ours.cols()];
    let q_heads = Heads::new("query", q.ours.as_slice(), shape(q))?;
    let k_heads = Heads::new("key", k.ours.as_slice(), shape(k))?;
    let v_heads = Heads::new("value", v.ours.as_slice(), shape(v))?;
    let out = attention.forward(q_heads, k_heads, v_heads)?;
    let gradients =
        attention.backward(q_heads, k_heads, v_heads, out.as_slice(), d_output.ours.as_slice())?;

    let means = bound_of_dots([d_output, output]);
    let d_scores = through_softmax(settings.temperature, weights, d_weights, &means)?;
    let d_k = q.ours.cols();
    let scaled = |a: &Pair, b: &Pair| match settings.without {
        Some(Without::Scaling) => a.times(b),
        _ => a.times_over_root(b, d_k),
    };
    let bounds = [
        scaled(&d_scores, k)?.bound,
        scaled(&d_scores.transposed(), q)?.bound,
        d_qkv[2].bound.clone(),
    ];
    let theirs = [gradients.query, gradients.key, gradients.value];
    let gaps = d_qkv.iter().zip(theirs).zip(&bounds).map(|((ours, theirs), bound)| {
        let (rows, cols) = ours.ours.shape();
        Gap::between(ours, &Matrix::from_vec(rows, cols, theirs.into_vec()), bound)
    });
    for gap in gaps {
        trace.measure("step by step equals the gradients of one call", gap);
    }
    Ok(())
}
