use regard::{Pairing, Rotary};

use super::{Entry, Group, HeadCounts, Start, give_queries_and_keys, matrix};
use crate::attend::Head;
use crate::bound::gamma;
use crate::check::Gap;
use crate::expr::Expr;
use crate::input::Input;
use crate::origin::Origin;
use crate::pair::Pair;
use crate::step::Kind;
use crate::trace::{Axes, Text, Trace, labels};
use crate::{Error, Matrix, Quantity, RowRole, Section, StepKey};

pub(super) const ENTRY: Entry = Entry {
    title: "Rotary positions",
    summary: "\"red ball red ball\": each pair of features turns by an angle that grows with the position. A score then depends on how far apart two words stand, not on where they stand.",
    group: Group::Around,
    tokens: "red ball red ball",
    start: Start::Given(inputs),
    possible_heads: HeadCounts::Own,
    run,
    ..Entry::PLAIN
};

/// The features of a query and of a key.
const FEATURES: usize = 4;
/// The frequencies are base^(−2i/d): 1 and 0.1 radians a position. Models take a base of 10,000 or more.
const BASE: f64 = 100.0;
/// The distance by which the tokens are moved to show that scores stay.
const SHIFT: usize = 7;

/// Equal words have equal queries and keys at every position.
fn inputs() -> Vec<Input> {
    let (red, ball) = ([2.0, 0.0, 1.0, 0.0], [0.5, 1.5, 0.0, 1.0]);
    let q = matrix(&[red, ball, red, ball]);
    let (red, ball) = ([1.5, 0.5, 1.0, 0.0], [2.0, -1.0, 0.5, 1.0]);
    let k = matrix(&[red, ball, red, ball]);
    vec![Input::given(Quantity::Q, q), Input::given(Quantity::K, k)]
}

/// Rotates queries and keys, and computes attention; then repeats this at later positions.
fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let queries = "Row i is what token i looks for. The same word has the same query: it does not know where it stands.";
    let keys = "Row j is what token j offers. The same word has the same key.";
    let [q, k] = give_queries_and_keys(trace, [queries, keys])?;
    let angles = push_angles(trace);
    let turned = [(&q, Quantity::RotatedQ), (&k, Quantity::RotatedK)]
        .map(|(x, quantity)| push_rotated(trace, x, &angles, quantity));
    let [q_turned, k_turned] = turned;
    let (q_turned, k_turned) = (q_turned?, k_turned?);
    let first = trace.steps.len();
    Head::of_all(trace.tokens).attend(trace, &q_turned, &k_turned, None)?;
    if let Some(scores) = trace.steps.get_mut(first) {
        scores.formula = "S = Q′·K′ᵀ".to_owned();
        scores.meaning = "One dot product per query and key. Turned by different angles, the same two words have another score at another distance: compare along a row. At the same distance they have the same score: compare along a diagonal.".to_owned();
    }
    push_shifted(trace, [&q, &k], [&q_turned, &k_turned])
}

/// The frequency of each pair of features, in radians a position.
fn frequency(pair: usize) -> f64 {
    BASE.powf(-((2 * pair) as f64) / FEATURES as f64)
}

fn push_angles(trace: &mut Trace<'_>) -> Pair {
    let angles = angles(trace.tokens.len(), 0);
    let cols: Vec<String> =
        (0..FEATURES / 2).map(|i| format!("d{}, d{}", 2 * i, 2 * i + 1)).collect();
    let text = Text::of(Quantity::Angles);
    let origin = Origin::computed(|t, i| {
        Expr::Product(vec![
            Expr::Number { name: "t", value: t as f64 },
            Expr::Number { name: "frequency", value: frequency(i) },
        ])
    });
    let axes = Axes::new(RowRole::Tokens, trace.tokens, &cols);
    trace.push(&text, Pair::double(angles), Kind::Signed, axes, origin)
}

/// The angles of `n` tokens from position `first`.
fn angles(n: usize, first: usize) -> Matrix<f64> {
    Matrix::from_fn(n, FEATURES / 2, |t, i| (first + t) as f64 * frequency(i))
}

/// The rows of `x`, rotated by the angles of the positions from `first`.
fn rotated(x: &Pair, first: usize) -> Result<Pair, Error> {
    let (rows, cols) = x.ours.shape();
    let rotary = Rotary::new(FEATURES, first + rows, BASE, Pairing::Interleaved)?;
    let mut ours = x.ours.clone();
    rotary.rotate(ours.as_mut_slice(), [1, rows, 1, cols], first)?;
    let angles = angles(rows, first);
    // The pair (a, b) is rotated to (a·cos φ − b·sin φ, a·sin φ + b·cos φ).
    let terms = |i: usize, j: usize| {
        let (sin, cos) = angles.get(i, j / 2).sin_cos();
        let factors = if j.is_multiple_of(2) { [cos, -sin] } else { [sin, cos] };
        [0, 1].map(|side| (2 * (j / 2) + side, factors[side]))
    };
    let exact = Matrix::from_fn(rows, cols, |i, j| {
        terms(i, j).into_iter().map(|(of, factor)| x.exact.get(i, of) * factor).sum()
    });
    // Each product has a rounded sine or cosine and one rounding of its own; the sum has one more.
    let bound = Matrix::from_fn(rows, cols, |i, j| {
        let each = terms(i, j).into_iter().map(|(of, factor)| {
            let (size, error) = (x.exact.get(i, of).abs(), x.bound.get(i, of));
            factor.abs() * (error + gamma(3) * (size + error))
        });
        each.sum()
    });
    Ok(Pair::new(ours, exact, bound))
}

fn push_rotated(
    trace: &mut Trace<'_>,
    x: &Pair,
    angles: &Pair,
    quantity: Quantity,
) -> Result<Pair, Error> {
    let dims = labels("d", FEATURES);
    let (symbol, name, rows) = if quantity == Quantity::RotatedQ {
        ("Q′", "Turned queries Q′", RowRole::Queries)
    } else {
        ("K′", "Turned keys K′", RowRole::Keys)
    };
    let text = Text { symbol, name, ..Text::named("rotation", quantity) };
    let origin = {
        let (x, angles) = (x.clone(), angles.clone());
        Origin::computed(move |i, j| {
            let angle = || Box::new(angles.cell(i, j / 2));
            let [a, b] = [0, 1].map(|side| x.cell(i, 2 * (j / 2) + side));
            if j.is_multiple_of(2) {
                let left = Expr::Product(vec![a, Expr::Cosine(angle())]);
                left.minus(Expr::Product(vec![b, Expr::Sine(angle())]))
            } else {
                Expr::Sum(vec![
                    Expr::Product(vec![a, Expr::Sine(angle())]),
                    Expr::Product(vec![b, Expr::Cosine(angle())]),
                ])
            }
        })
    };
    let turned = rotated(x, 0)?;
    let axes = Axes::new(rows, trace.tokens, &dims);
    Ok(trace.push(&text, turned, Kind::Signed, axes, origin))
}

/// Adds the scores of the same tokens, `SHIFT` positions later.
fn push_shifted(
    trace: &mut Trace<'_>,
    [q, k]: [&Pair; 2],
    [q_turned, k_turned]: [&Pair; 2],
) -> Result<(), Error> {
    let far = |x: &Pair, symbol| {
        Ok::<_, Error>(rotated(x, SHIFT)?.named(symbol, &x.name.rows, &x.name.cols))
    };
    let (q_far, k_far) = (far(q, "Q₇")?, far(k, "K₇")?);
    let shifted = q_far.times_transposed(&k_far)?;
    let scores = q_turned.times_transposed(k_turned)?;
    trace.measure(
        "scores depend on the distance alone",
        Gap::between(&shifted, &scores.ours, &scores.bound),
    );
    let text = Text::of(StepKey::new(Section::Shifted, Quantity::RawScores));
    let origin = Origin::product_transposed(&q_far, &k_far);
    let axes = Axes::new(RowRole::Pairs, trace.tokens, trace.tokens);
    trace.push(&text, shifted, Kind::Signed, axes, origin);
    Ok(())
}
