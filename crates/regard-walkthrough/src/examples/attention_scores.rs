use super::{Entry, Group, Start, give_queries_and_keys, matrix};
use crate::attend::Head;
use crate::input::Input;
use crate::trace::Trace;
use crate::{Error, Quantity};

pub(super) const ENTRY: Entry = Entry {
    title: "Attention scores",
    summary: "From given queries and keys to attention weights: dot product, scaling, softmax.",
    group: Group::Attention,
    tokens: "t0 t1 t2",
    start: Start::Given(inputs),
    run,
    ..Entry::PLAIN
};

/// Q and K are given, and the example ends with the weights.
pub(super) fn inputs() -> Vec<Input> {
    let q = matrix(&[[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [1.0, 1.0, 0.0, 0.0]]);
    let k = matrix(&[[1.0, 0.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0], [0.5, 0.5, 0.5, 0.5]]);
    vec![Input::given(Quantity::Q, q), Input::given(Quantity::K, k)]
}

pub(super) fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let queries = "Row i is what token i looks for. The queries are given here, not projected.";
    let keys = if trace.inputs.is_changed() {
        "Row j is what token j offers."
    } else {
        "Row j is what token j offers. The last key has a little of every feature, so every query finds something in it."
    };
    let [q, k] = give_queries_and_keys(trace, [queries, keys])?;
    Head::of_all(trace.tokens).attend(trace, &q, &k, None)?;
    trace.correct(
        Quantity::Weights,
        "The notebook \"Calculating attention scores\" prints [0.576, 0.212, 0.212] and [0.212, 0.576, 0.212] for the first two rows. \
         softmax([1, 0, 0.5]) is [0.506, 0.186, 0.307], and the second row is [0.186, 0.506, 0.307].",
    );
    Ok(())
}
