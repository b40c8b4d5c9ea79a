//! Queries, keys and values, and the projection matrices that make them from tokens.

use std::sync::Arc;

use crate::bound;
use crate::origin::Origin;
use crate::pair::Pair;
use crate::role::Role;
use crate::step::Kind;
use crate::trace::{Axes, Text, Trace, labels};
use crate::{Error, Matrix, Quantity, RowRole, Section, StepKey, Without};

/// Adds X and, unless they are left out, W_Q, W_K and W_V.
pub(crate) fn give_tokens_and_weights(trace: &mut Trace<'_>) -> Result<(Pair, [Pair; 3]), Error> {
    let x = give_tokens(trace)?;
    let w = give_weights(trace)?;
    Ok((x, w))
}

/// Adds X.
pub(crate) fn give_tokens(trace: &mut Trace<'_>) -> Result<Pair, Error> {
    let dims = labels("d", trace.inputs.matrix(Quantity::X).map_or(0, Matrix::cols));
    let text = Text::of(Quantity::X);
    trace.give(&text, Axes::new(RowRole::Tokens, trace.tokens, &dims))
}

/// Adds W_Q, W_K and W_V. They are not shown if projections are left out.
pub(crate) fn give_weights(trace: &mut Trace<'_>) -> Result<[Pair; 3], Error> {
    let [query, key, value] = Role::ALL;
    Ok([give_weight(trace, query)?, give_weight(trace, key)?, give_weight(trace, value)?])
}

fn give_weight(trace: &mut Trace<'_>, role: Role) -> Result<Pair, Error> {
    let key = role.weights();
    if trace.settings.without == Some(Without::Projections)
        && let Some(w) = trace.input(key)
    {
        return Ok(w);
    }
    let (rows, cols) = trace.inputs.matrix(key).map_or((0, 0), Matrix::shape);
    let (rows, cols) = (labels("d", rows), labels(role.quantity().name(), cols));
    trace.give(&Text::of(key), Axes::new(RowRole::Other, &rows, &cols))
}

/// Adds Q, K or V under its key: X·W, or X itself if projections are left out.
pub(crate) fn project(
    trace: &mut Trace<'_>,
    role: Role,
    x: &Pair,
    w: &Pair,
) -> Result<Pair, Error> {
    project_as(trace, role, Section::Main, "", (&x.name.rows, 0), x, w)
}

/// Adds Q, K and V of one text.
pub(crate) fn project_all(
    trace: &mut Trace<'_>,
    x: &Pair,
    [w_q, w_k, w_v]: &[Pair; 3],
) -> Result<[Pair; 3], Error> {
    let [query, key, value] = Role::ALL;
    Ok([
        project(trace, query, x, w_q)?,
        project(trace, key, x, w_k)?,
        project(trace, value, x, w_v)?,
    ])
}

/// [`project`] in a section, with a suffix `of` of the name, for the rows from the token `first`.
pub(crate) fn project_as(
    trace: &mut Trace<'_>,
    role: Role,
    section: Section,
    of: &str,
    (rows, first): (&[String], usize),
    x: &Pair,
    w: &Pair,
) -> Result<Pair, Error> {
    let key = StepKey::new(section, role.quantity());
    let text = Text::named(role.quantity().name(), key);
    let (symbol, from) = (text.symbol, x.name.symbol.as_str());
    let left_out = trace.settings.without == Some(Without::Projections);
    let (mut pair, formula, meaning, origin) = if left_out {
        let meaning = "Left out: the token itself plays this role.";
        (x.clone(), format!("{symbol} = {from}"), meaning, Origin::copied(x))
    } else {
        (x.times(w)?, format!("{symbol} = {from}·W_{symbol}"), text.meaning, Origin::product(x, w))
    };
    let name = format!("{}{of}", text.name);
    let code = if left_out { "" } else { text.code };
    let text = Text { name: &name, formula: &formula, meaning, code, ..text };
    let feature = if left_out { "d" } else { role.quantity().name() };
    let cols = labels(feature, pair.ours.cols());
    let axes = Axes { first, ..Axes::new(role.rows(), rows, &cols) };
    if left_out || trace.inputs.projected_shape(role).is_none() {
        return Ok(trace.push(&text, pair, Kind::Signed, axes, origin));
    }
    let given = pair.clone();
    let typed = type_over(&mut pair, trace.inputs.typed(role), first);
    let pair = trace.push(&text, pair, Kind::Signed, axes, origin.typed_over(typed, given.ours));
    // The row that is computed by hand follows from the whole matrix, and cannot be typed over.
    if section == Section::Main {
        trace.make_editable(Arc::new(given.exact));
    }
    Ok(pair)
}

/// Types numbers over Q, K or V, whose first row is that of the token `first`. Returns the cells.
fn type_over(
    pair: &mut Pair,
    typed: impl Iterator<Item = ([usize; 2], f64)>,
    first: usize,
) -> Vec<[usize; 2]> {
    let (rows, cols) = pair.ours.shape();
    let mut cells = Vec::new();
    for ([row, col], value) in typed {
        if let Some(row) = row.checked_sub(first).filter(|row| *row < rows && col < cols) {
            pair.ours.row_mut(row)[col] = value as f32;
            pair.exact.row_mut(row)[col] = value;
            pair.bound.row_mut(row)[col] = bound::of_given(value);
            cells.push([row, col]);
        }
    }
    cells
}
