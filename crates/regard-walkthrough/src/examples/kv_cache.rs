use regard_kernels::Position;

use super::{Entry, Group, HeadCounts, Start, matrix, positions};
use crate::attend::{Head, Whole};
use crate::check::Gap;
use crate::input::Input;
use crate::origin::Origin;
use crate::pair::Pair;
use crate::project::{give_tokens_and_weights, project_as};
use crate::role::Role;
use crate::step::Kind;
use crate::trace::{Axes, Text, Trace};
use crate::{Error, Matrix, Quantity, RowRole, Section};

pub(super) const ENTRY: Entry = Entry {
    title: "The KV cache",
    summary: "\"the cat saw the\" has been read, and \"dog\" comes next: with the keys and values of earlier tokens kept, one query, one key and one value are enough, and the output has the same bits.",
    group: Group::Around,
    tokens: "the cat saw the dog",
    start: Start::Given(inputs),
    possible_heads: HeadCounts::Own,
    projections_are_editable: false,
    run,
    ..Entry::PLAIN
};

/// Five tokens of four features.
fn inputs() -> Vec<Input> {
    let (the, cat, saw, dog) = (
        [0.2, -1.0, 0.6, 2.0],
        [2.0, 0.5, -1.5, 0.0],
        [-1.5, 2.0, 1.0, -0.5],
        [1.5, 1.5, -1.0, -1.0],
    );
    let mut inputs = vec![Input::given(Quantity::X, matrix(&[the, cat, saw, the, dog]))];
    inputs.extend(positions::weights());
    inputs
}

/// Computes the keys and values of the earlier tokens, the new token's query, key and value, and its attention; then the same
/// without a cache.
fn run(trace: &mut Trace<'_>) -> Result<(), Error> {
    let (x, w) = give_tokens_and_weights(trace)?;
    let tokens = trace.tokens;
    let before = tokens.len().saturating_sub(1);
    let (old, new) = (x.rows(0, before), x.rows(before, 1));
    let [query, key, value] = Role::ALL;
    let earlier = (&tokens[..before], 0);
    let latest = (&tokens[before..], before);
    let (cached, next) = (Section::Cached, Section::Next);
    let k_old = project_as(trace, key, cached, " in the cache", earlier, &old, &w[1])?;
    let v_old = project_as(trace, value, cached, " in the cache", earlier, &old, &w[2])?;
    let q = project_as(trace, query, next, " of the new token", latest, &new, &w[0])?;
    let k_new = project_as(trace, key, next, " of the new token", latest, &new, &w[1])?;
    let v_new = project_as(trace, value, next, " of the new token", latest, &new, &w[2])?;
    let k = push_appended(trace, key, [&k_old, &k_new]);
    let v = push_appended(trace, value, [&v_old, &v_new]);
    let head = Head {
        section: next,
        of: ", new token",
        queries: &tokens[before..],
        first: before,
        ..Head::of_all(tokens)
    };
    let Some(output) = head.attend(trace, &q, &k, Some(&v))? else { return Ok(()) };
    push_whole(trace, &x, &w, &output)?;
    push_savings(trace);
    Ok(())
}

/// Adds the rows of the cache with the new row below them.
fn push_appended(trace: &mut Trace<'_>, role: Role, [old, new]: [&Pair; 2]) -> Pair {
    let all = Pair::stacked(&[old.clone(), new.clone()]);
    let Text { symbol, name, .. } = Text::of(role.quantity());
    let quantity = if matches!(role, Role::Key) { Quantity::AllKeys } else { Quantity::AllValues };
    let text = Text {
        symbol,
        name: &format!("{name}, appended"),
        formula: &format!("{symbol} = [cache; new row]"),
        ..Text::named("append to a cache", quantity)
    };
    let origin = {
        let (old, new, rows) = (old.clone(), new.clone(), old.ours.rows());
        Origin::computed(move |i, j| if i < rows { old.cell(i, j) } else { new.cell(i - rows, j) })
    };
    let axes = Axes::new(RowRole::Keys, trace.tokens, &new.name.cols);
    trace.push(&text, all, Kind::Signed, axes, origin)
}

/// Adds the output of all tokens at once under the causal mask. Its last row must have the bits of `output`.
fn push_whole(trace: &mut Trace<'_>, x: &Pair, w: &[Pair; 3], output: &Pair) -> Result<(), Error> {
    let whole = Whole::new(trace, x, w, Some(Position::Offset(0)))?;
    let all = &whole.output.ours;
    let last = all.rows_from(all.rows() - 1, 1);
    let pairs = last.as_slice().iter().zip(output.ours.as_slice());
    let different = pairs.filter(|(a, b)| a.to_bits() != b.to_bits()).count();
    trace.measure(
        "the cached row has the same bits",
        Gap { value: different as f64, limit: Some(0.0) },
    );
    let tokens = trace.tokens;
    whole.push(trace, Section::Whole, (RowRole::Queries, tokens));
    Ok(())
}

/// Adds the work for each token, without a cache and with one, and the size of the cache.
fn push_savings(trace: &mut Trace<'_>) {
    let d = trace.inputs.matrix(Quantity::WK).map_or(0, Matrix::cols);
    let cols = ["rows projected without a cache", "rows projected with it", "numbers cached"];
    let cols = cols.map(str::to_owned);
    let work = Matrix::from_fn(trace.tokens.len(), 3, |t, j| {
        (match j {
            0 => 3 * (t + 1),
            1 => 3,
            _ => 2 * d * (t + 1),
        }) as f64
    });
    let text = Text::named("savings of a cache", Quantity::Savings);
    let origin = Origin::measured(cols.to_vec());
    let axes = Axes::new(RowRole::Tokens, trace.tokens, &cols);
    trace.push(&text, Pair::double(work), Kind::Table, axes, origin);
}
