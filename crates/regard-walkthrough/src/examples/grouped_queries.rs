use super::{Entry, Group, HeadCounts, Start, matrix, self_attention, two_heads};
use crate::input::Input;
use crate::origin::Origin;
use crate::pair::Pair;
use crate::step::Kind;
use crate::trace::{Axes, Text, Trace};
use crate::{Error, Matrix, Quantity, RowRole};

pub(super) const ENTRY: Entry = Entry {
    title: "Grouped queries",
    summary: "Four query heads share two key/value heads: heads 1 and 2 read the same keys and values, heads 3 and 4 read others. They ask different questions of them, and the cache is half as large.",
    group: Group::Around,
    tokens: "the cat sat",
    start: Start::Given(inputs),
    heads: HEADS,
    possible_heads: HeadCounts::Own,
    run,
    ..Entry::PLAIN
};

const HEADS: usize = 4;

/// The tokens, keys and values of [`two_heads`]: an article, a noun and a verb, and four columns of keys and of values. There
/// are eight columns of queries.
///
/// Head 1 looks for the preceding word and head 2 for the word itself, in the same keys. Head 3 looks for the noun, head 4 for
/// the verb.
fn inputs() -> Vec<Input> {
    let w_q = matrix(&[
        [1.5, 0.0, 1.5, 0.0, 1.5, 0.0, 0.0, 1.5],
        [1.5, 0.0, 0.0, 1.5, 1.5, 0.0, 0.0, 1.5],
        [0.0, 1.5, -1.5, -1.5, 1.5, 0.0, 0.0, 1.5],
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
    ]);
    let w_o = matrix(&[
        [0.5, 0.0, 0.5, 0.0],
        [0.0, 0.5, 0.0, -0.5],
        [0.5, 0.0, 0.0, 0.0],
        [0.0, 0.5, 0.0, 0.5],
        [0.0, 0.5, 0.5, 0.0],
        [-0.5, 0.0, 0.0, 0.5],
        [0.0, 0.0, 0.5, 0.0],
        [0.0, -0.5, 0.0, 0.5],
    ]);
    let mut inputs = two_heads::projected();
    for input in &mut inputs {
        if input.key == Quantity::WQ.into() {
            *input = Input::given(Quantity::WQ, w_q.clone());
        }
    }
    inputs.push(Input::given(Quantity::WO, w_o));
    inputs
}

fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    self_attention(trace)?;
    push_savings(trace);
    Ok(())
}

/// Adds the memory of keys and values by the number of key/value heads.
fn push_savings(trace: &mut Trace<'_>) {
    let head_dim = trace.inputs.matrix(Quantity::WQ).map_or(0, Matrix::cols) / HEADS;
    let kinds = [("one for all", 1), ("grouped", 2), ("one for each", HEADS)];
    let rows = kinds.map(|(kind, kv_heads)| format!("{kv_heads} ({kind})"));
    let cols = ["numbers a token", "bytes a token (f32)"].map(str::to_owned);
    let sizes = Matrix::from_fn(kinds.len(), 2, |i, j| {
        (2 * kinds[i].1 * head_dim * if j == 0 { 1 } else { size_of::<f32>() }) as f64
    });
    let text = Text::named("savings of grouped queries", Quantity::Savings);
    let measured = Origin::measured(cols.to_vec());
    let axes = Axes::new(RowRole::Other, &rows, &cols);
    trace.push(&text, Pair::double(sizes), Kind::Table, axes, measured);
}
