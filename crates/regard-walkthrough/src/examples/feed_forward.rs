use super::{Entry, Group, Start, given, matrix};
use crate::input::Input;
use crate::layers::push_feed_forward;
use crate::project::give_tokens;
use crate::trace::Trace;
use crate::{Error, Quantity, RowRole};

pub(super) const ENTRY: Entry = Entry {
    title: "Feed-forward",
    summary: "Four features become eight, ReLU sets negative ones to 0, and the eight become four again.",
    group: Group::Around,
    tokens: "the cat sat",
    start: Start::Given(inputs),
    run,
    ..Entry::PLAIN
};

/// Four numbers become eight, then four again.
pub(super) fn inputs() -> Vec<Input> {
    let mut inputs = vec![Input::given(
        Quantity::X,
        matrix(&[[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, -1.0]]),
    )];
    inputs.extend(weights());
    inputs
}

/// Small numbers that can be worked by hand.
pub(super) fn weights() -> [Input; 4] {
    let w_1 = matrix(&[
        [1.0, -1.0, 0.0, 0.0, 0.5, 0.0, 1.0, -0.5],
        [0.0, 1.0, -1.0, 0.0, 0.5, 1.0, -1.0, 0.0],
        [0.5, 0.0, 1.0, -1.0, 0.0, -1.0, 0.0, 0.5],
        [0.0, 0.5, 0.0, 1.0, -1.0, 0.0, 0.5, 1.0],
    ]);
    let b_1 = matrix(&[[0.0, 0.0, -0.5, 0.5, 0.0, 0.0, -1.0, 0.0]]);
    let w_2 = matrix(&[
        [0.5, 0.0, 0.0, -0.5],
        [0.0, 0.5, 0.0, 0.0],
        [0.0, -0.5, 0.5, 0.0],
        [0.5, 0.0, 0.0, 0.5],
        [0.0, 0.0, 1.0, 0.0],
        [-0.5, 0.5, 0.0, 0.0],
        [0.0, 0.0, -0.5, 1.0],
        [0.0, 1.0, 0.0, 0.0],
    ]);
    let b_2 = matrix(&[[0.0, 0.1, 0.0, -0.1]]);
    given([(Quantity::W1, w_1), (Quantity::B1, b_1), (Quantity::W2, w_2), (Quantity::B2, b_2)])
}

pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let x = give_tokens(trace)?;
    push_feed_forward(trace, &x, RowRole::Tokens)?;
    Ok(())
}
