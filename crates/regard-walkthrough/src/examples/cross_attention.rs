use super::{Entry, Group, Start, given, matrix, positions};
use crate::attend::Head;
use crate::input::Input;
use crate::project::{give_tokens, give_weights, project};
use crate::role::Role;
use crate::trace::{Axes, Text, Trace, labels};
use crate::{Error, Matrix, Quantity, RowRole, heads};

pub(super) const ENTRY: Entry = Entry {
    title: "Cross-attention",
    summary: "\"le chat\" attends to \"the cat sat\": the queries come from one text, the keys and values from another.",
    group: Group::Around,
    tokens: "le chat",
    start: Start::Given(inputs),
    run,
    ..Entry::PLAIN
};

/// The tokens that the encoder reads. The queries come from another text.
const SOURCE: [&str; 3] = ["the", "cat", "sat"];

/// Two tokens that are written, and three that were read. "le" matches "the", and "chat" matches "cat".
pub(super) fn inputs() -> Vec<Input> {
    let x = matrix(&[[0.0, 1.0, 0.0, 0.5], [1.0, 0.0, 0.5, 0.0]]);
    let memory = matrix(&[[0.1, -0.3, 0.2, 0.9], [1.0, 0.2, -0.5, 0.0], [-0.5, 1.0, 0.4, -0.2]]);
    let w_q = matrix(&[
        [2.0, 0.0, -1.0, 0.0],
        [0.0, 0.0, 0.0, 2.0],
        [1.0, 0.5, 0.0, 0.0],
        [0.0, -0.5, 0.5, 1.0],
    ]);
    let w_k = matrix(&[
        [1.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, -0.5],
        [0.0, 0.0, 1.0, 0.0],
        [0.0, 0.0, 0.5, 1.0],
    ]);
    let [_, _, w_v] = positions::weights();
    let given = given([
        (Quantity::X, x),
        (Quantity::Memory, memory),
        (Quantity::WQ, w_q),
        (Quantity::WK, w_k),
    ]);
    given.into_iter().chain([w_v]).collect()
}

/// Computes attention as in the decoder of an encoder–decoder model.
pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let x = give_tokens(trace)?;
    let source = SOURCE.map(str::to_owned);
    let dims = labels("d", trace.inputs.matrix(Quantity::Memory).map_or(0, Matrix::cols));
    let text = Text::of(Quantity::Memory);
    let memory = trace.give(&text, Axes::new(RowRole::Keys, &source, &dims))?;
    let w = give_weights(trace)?;
    let qkv = [
        project(trace, Role::Query, &x, &w[0])?,
        project(trace, Role::Key, &memory, &w[1])?,
        project(trace, Role::Value, &memory, &w[2])?,
    ];
    // Every token of the encoder is visible, because none of them is later than the query.
    let road = Head { queries: trace.tokens, maskable: false, ..Head::of_all(&source) };
    heads::attend(trace, &road, [&x, &memory], &w, &qkv)?;
    Ok(())
}
