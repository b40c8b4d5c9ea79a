//! From words to vectors: a row of a table for each token, and a row for each position.

use regard::PositionTable;

use crate::bound;
use crate::expr::Expr;
use crate::origin::{How, Origin};
use crate::pair::{Pair, zeros};
use crate::step::Kind;
use crate::trace::{Axes, Text, Trace, labels};
use crate::{Error, Matrix, Quantity, RowRole};

/// Adds the table of embeddings, with a row for each word of `vocabulary`, and X, the rows of the tokens.
pub(crate) fn look_up(trace: &mut Trace<'_>, vocabulary: &[&str]) -> Result<Pair, Error> {
    let tokens = trace.tokens.to_vec();
    let words: Vec<String> = vocabulary.iter().map(|w| (*w).to_owned()).collect();
    let dims = labels("d", trace.inputs.matrix(Quantity::Embeddings).map_or(0, Matrix::cols));
    let text = Text::of(Quantity::Embeddings);
    let table = trace.give(&text, Axes::new(RowRole::Other, &words, &dims))?;
    let ids: Vec<usize> =
        tokens.iter().map(|t| words.iter().position(|w| w == t).unwrap_or(0)).collect();
    let text = Text::named("x of embeddings", Quantity::X);
    let x = table.reordered(&ids);
    let origin = Origin::new(move |i, j, value| {
        let word = tokens.get(i).map_or("", String::as_str);
        let row = ids.get(i).copied().unwrap_or(0);
        How::Both(
            table.cell(row, j),
            format!("the row of {word} in E: {}", crate::number::number(value.into())),
        )
    });
    let axes = Axes::new(RowRole::Tokens, trace.tokens, &dims);
    Ok(trace.push(&text, x, Kind::Signed, axes, origin))
}

/// Adds P, the sines and cosines of each position.
pub(crate) fn push_positions(trace: &mut Trace<'_>, d: usize) -> Result<Pair, Error> {
    let (n, dims) = (trace.tokens.len(), labels("d", d));
    let mut ours = zeros(n, d);
    PositionTable::sinusoidal(n, d)?.add(ours.as_mut_slice(), [1, n, d], 0)?;
    let divisor = move |j: usize| 10_000_f64.powf((j / 2 * 2) as f64 / d as f64);
    let exact = Matrix::from_fn(n, d, |t, j| {
        let angle = t as f64 / divisor(j);
        if j.is_multiple_of(2) { angle.sin() } else { angle.cos() }
    });
    // Both are computed in double precision, where the angle is rounded a few times. Then the table is rounded once.
    let bound = Matrix::from_fn(n, d, |t, j| {
        bound::rounded(exact.get(t, j), 8.0 * f64::EPSILON * (1.0 + t as f64 / divisor(j)))
    });
    let text = Text::of(Quantity::Positions);
    let origin = Origin::computed(move |t, j| {
        let angle = Expr::Number { name: "t", value: t as f64 }.over(Expr::constant(divisor(j)));
        if j.is_multiple_of(2) {
            Expr::Sine(Box::new(angle))
        } else {
            Expr::Cosine(Box::new(angle))
        }
    });
    let axes = Axes::new(RowRole::Tokens, trace.tokens, &dims);
    Ok(trace.push(&text, Pair::new(ours, exact, bound), Kind::Signed, axes, origin))
}

/// Adds X + P.
pub(crate) fn push_placed(trace: &mut Trace<'_>, x: &Pair, positions: &Pair) -> Pair {
    let text = Text::of(Quantity::Placed);
    let axes = Axes::new(RowRole::Tokens, &x.name.rows, &x.name.cols);
    trace.push(&text, x.plus(positions), Kind::Signed, axes, Origin::sum(x, positions))
}
