use super::{Entry, Group, HeadCounts, Start, attend_to_itself, given, matrix};
use crate::attend::Whole;
use crate::check::Gap;
use crate::embed::{look_up, push_placed, push_positions};
use crate::input::Input;
use crate::origin::Origin;
use crate::pair::Pair;
use crate::project::give_weights;
use crate::step::Kind;
use crate::trace::{Axes, Text, Trace};
use crate::{Error, Matrix, Quantity, RowRole, Section};

pub(super) const ENTRY: Entry = Entry {
    title: "Positions",
    summary: "\"the dog saw the cat\": without positions, both \"the\" are the same token, and the order does not matter.",
    group: Group::Around,
    tokens: "the dog saw the cat",
    start: Start::Given(inputs),
    possible_heads: HeadCounts::Own,
    run,
    ..Entry::PLAIN
};

/// Repeated words have the same row.
pub(super) fn inputs() -> Vec<Input> {
    let mut inputs = vec![Input::given(Quantity::Embeddings, embeddings())];
    inputs.extend(weights());
    inputs
}

/// The words of [`embeddings`].
pub(super) const VOCABULARY: [&str; 4] = ["cat", "dog", "saw", "the"];

fn embeddings() -> Matrix<f64> {
    matrix(&[
        [2.0, 0.4, -1.0, 0.0],
        [1.6, 0.8, -1.2, 0.6],
        [-1.0, 2.0, 0.8, -0.4],
        [0.2, -0.6, 0.4, 1.8],
    ])
}

/// W_Q, W_K and W_V for tokens of four features.
pub(super) fn weights() -> [Input; 3] {
    let w_q = matrix(&[
        [1.0, 0.0, 0.5, 0.0],
        [0.0, 1.0, 0.0, -0.5],
        [0.5, 0.0, 1.0, 0.0],
        [0.0, -0.5, 0.0, 1.0],
    ]);
    let w_k = matrix(&[
        [0.5, 1.0, 0.0, 0.0],
        [-1.0, 0.5, 0.0, 0.5],
        [0.0, 0.0, 1.0, 0.5],
        [0.0, 0.5, -0.5, 1.0],
    ]);
    let w_v = matrix(&[
        [1.0, 0.0, 0.0, 0.5],
        [0.0, 1.0, 0.5, 0.0],
        [0.0, -0.5, 1.0, 0.0],
        [0.5, 0.0, 0.0, 1.0],
    ]);
    given([(Quantity::WQ, w_q), (Quantity::WK, w_k), (Quantity::WV, w_v)])
}

/// Computes the output without positions, forwards and backwards; then positions, and the whole attention with them.
pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let x = look_up(trace, &VOCABULARY)?;
    let w = give_weights(trace)?;
    let order: Vec<usize> = (0..x.ours.rows()).rev().collect();

    let tokens = trace.tokens;
    let plain = Whole::new(trace, &x, &w, None)?;
    let plain = plain.push(trace, Section::Plain, (RowRole::Queries, tokens));
    let backwards: Vec<String> = tokens.iter().rev().cloned().collect();
    let reversed = Whole::new(trace, &x.reordered(&order), &w, None)?;
    // The reversed rows match no rows of the other steps.
    let reversed = reversed.push(trace, Section::Reversed, (RowRole::Other, &backwards));
    let mirrored = plain.reordered(&order);
    let gap = Gap::between(&reversed, &mirrored.ours, &mirrored.bound);
    trace.measure("permuted tokens give permuted outputs", gap);

    let positions = push_positions(trace, x.ours.cols())?;
    let placed = push_placed(trace, &x, &positions);
    attend_to_itself(trace, &placed, &w)?;
    push_moved(trace, [&x, &positions], [&plain, &reversed], &w, &order)
}

/// Adds the distance by which reversing moves a token's output, without and with positions.
fn push_moved(
    trace: &mut Trace<'_>,
    [x, positions]: [&Pair; 2],
    [plain, reversed]: [&Pair; 2],
    w: &[Pair; 3],
    order: &[usize],
) -> Result<(), Error> {
    // A causal mask would distinguish tokens by their positions.
    let output = |x: &Pair| Ok::<_, Error>(Whole::new(trace, x, w, None)?.output);
    let with = output(&x.plus(positions))?;
    let with_reversed = output(&x.reordered(order).plus(positions))?;
    let before = plain.minus(&reversed.reordered(order));
    let after = with.minus(&with_reversed.reordered(order));
    let largest = |row: &[f64]| row.iter().fold(0.0_f64, |m, d| m.max(d.abs()));
    let both =
        |ours: [Matrix<f64>; 2]| Matrix::from_fn(x.ours.rows(), 2, |i, j| largest(ours[j].row(i)));
    // A maximum moves no further than the number that moves furthest.
    let moved = Pair::new(
        both([before.ours.map(f64::from), after.ours.map(f64::from)]).map(|d| d as f32),
        both([before.exact, after.exact]),
        both([before.bound, after.bound]),
    );
    let text = Text::of(Quantity::Moved);
    let cols = ["without positions", "with positions"].map(str::to_owned);
    let meanings =
        cols.clone().map(|c| format!("the largest change in the token's output, {c}")).to_vec();
    let axes = Axes::new(RowRole::Tokens, &x.name.rows, &cols);
    trace.push(&text, moved, Kind::Table, axes, Origin::measured(meanings));
    Ok(())
}
