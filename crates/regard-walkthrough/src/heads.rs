//! Several heads: Q, K and V are divided by columns, each head computes attention, and W_O mixes the outputs. With grouped
//! queries, K and V have fewer heads than Q, and neighbouring query heads share one of them.

use regard::{Attention, Linear, Mask, MultiHeadAttention, Projections, Sequences};

use crate::attend::Head;
use crate::check::Gap;
use crate::origin::Origin;
use crate::pair::Pair;
use crate::role::Role;
use crate::step::Kind;
use crate::trace::{Axes, LAYER, Text, Trace, labels};
use crate::{Error, Matrix, Quantity, RowRole, Section, Settings, StepKey, Without};

/// Computes attention from scores to output, by one head, or by the heads of the inputs if there is a W_O. `x` are the tokens
/// of the queries, and `memory` the tokens of the keys, from which `w` made Q, K and V.
pub(crate) fn attend(
    trace: &mut Trace<'_>,
    road: &Head<'_>,
    [x, memory]: [&Pair; 2],
    w: &[Pair; 3],
    [q, k, v]: &[Pair; 3],
) -> Result<Pair, Error> {
    let Some(w_o) = trace.input(Quantity::WO) else {
        let output = road.attend(trace, q, k, Some(v))?;
        return Ok(output.unwrap_or_else(|| q.clone()));
    };
    // Without projections, X may have another number of columns.
    let Some(Counts { heads, kv_heads, fits }) = counts(trace.inputs.heads(), q, k, v, &w_o) else {
        return Ok(q.clone());
    };
    let (d_k, d_v) = (q.ours.cols() / heads, v.ours.cols() / kv_heads);
    let mut outputs = Vec::new();
    for h in 0..heads {
        let (number, subscript) = (h + 1, SUBSCRIPTS.get(h).copied().unwrap_or_default());
        let (section, of) = (Section::Head(number), format!(", head {number}"));
        let head = Head { section, of: &of, subscript, ..*road };
        // The key/value head of this query head.
        let shared = h * kv_heads / heads;
        let is_shared = kv_heads < heads;
        let q = push_share(trace, &head, Role::Query, q, [h, d_k], false);
        let k = push_share(trace, &head, Role::Key, k, [shared, d_k], is_shared);
        let v = push_share(trace, &head, Role::Value, v, [shared, d_v], is_shared);
        outputs.extend(head.attend(trace, &q, &k, Some(&v))?);
    }
    let concatenated = push_concatenated(trace, road, &outputs, d_v);
    if !fits {
        return Ok(concatenated);
    }
    let output = push_mixed(trace, road, &concatenated)?;
    let is_the_layers =
        !matches!(trace.settings.without, Some(Without::Projections | Without::Softmax));
    // The layer projects X itself, so it ignores numbers that were typed over Q, K and V.
    if is_the_layers && !trace.inputs.has_typed_projections() {
        let weights = [&w[0], &w[1], &w[2], &w_o].map(|w| &w.ours);
        let layer = layer(trace.settings, heads, [&x.ours, &memory.ours], weights, road.maskable)?;
        let gap = Gap::between(&output, &layer, &output.bound);
        trace.measure(LAYER, gap);
    }
    Ok(output)
}

struct Counts {
    heads: usize,
    kv_heads: usize,
    /// Whether the outputs fit W_O.
    fits: bool,
}

/// The numbers of heads that Q, K, V and W_O allow. Without projections, X may have another number of columns than W_O has rows;
/// then there is one head. `None` if Q has no columns.
fn counts(heads: usize, q: &Pair, k: &Pair, v: &Pair, w_o: &Pair) -> Option<Counts> {
    let kv_heads = (heads * k.ours.cols()).checked_div(q.ours.cols())?;
    let divides = |n: usize, of: usize| n > 0 && of.is_multiple_of(n);
    let fits = divides(heads, q.ours.cols())
        && divides(kv_heads, heads)
        && divides(kv_heads, v.ours.cols())
        && heads * (v.ours.cols() / kv_heads) == w_o.ours.rows();
    let [heads, kv_heads] = if fits { [heads, kv_heads] } else { [1, 1] };
    Some(Counts { heads, kv_heads, fits })
}

/// The subscript of each head's symbols.
const SUBSCRIPTS: [&str; 8] = ["₁", "₂", "₃", "₄", "₅", "₆", "₇", "₈"];

/// Adds the columns of Q, K or V that belong to head `h`.
fn push_share(
    trace: &mut Trace<'_>,
    head: &Head<'_>,
    role: Role,
    all: &Pair,
    [h, width]: [usize; 2],
    is_shared: bool,
) -> Pair {
    let share = all.columns(h * width, width);
    let whole = Text::of(role.quantity());
    let (symbol, cols) = (whole.symbol, &all.name.cols[h * width..][..width]);
    let last = h * width + width - 1;
    let text = Text {
        key: StepKey::new(head.section, role.quantity()),
        symbol: &format!("{symbol}{}", head.subscript),
        name: &format!("{}{}", whole.name, head.of),
        formula: &match width {
            1 => format!("{symbol}{} = column {last} of {symbol}", head.subscript),
            _ => {
                format!("{symbol}{} = columns {} to {last} of {symbol}", head.subscript, h * width)
            }
        },
        meaning: if is_shared {
            "The columns that this head reads. The query heads of a group read the same ones."
        } else {
            "This head's columns. It sees no others."
        },
        code: "Heads::split(name, projected, [batch, tokens, heads * d_k], heads)",
    };
    let rows = if matches!(role, Role::Query) { head.queries } else { head.keys };
    let origin = Origin::copied(&share);
    trace.push(&text, share, Kind::Signed, Axes::new(role.rows(), rows, cols), origin)
}

fn push_concatenated(trace: &mut Trace<'_>, road: &Head<'_>, outputs: &[Pair], d_v: usize) -> Pair {
    let concatenated = Pair::side_by_side(outputs);
    let dims = labels("o", concatenated.ours.cols());
    let columns = (0..dims.len()).map(|j| format!("head {}, v{}", j / d_v + 1, j % d_v)).collect();
    let parts: Vec<&str> = outputs.iter().map(|o| o.name.symbol.as_str()).collect();
    let formula = format!("C = [{}]", parts.join(" "));
    let text = Text { formula: &formula, ..Text::of(Quantity::Concatenated) };
    let origin = Origin::side_by_side(outputs, columns);
    let axes = Axes::new(RowRole::Queries, road.queries, &dims);
    trace.push(&text, concatenated, Kind::Signed, axes, origin)
}

/// Adds W_O and the output.
fn push_mixed(trace: &mut Trace<'_>, road: &Head<'_>, concatenated: &Pair) -> Result<Pair, Error> {
    let dims = labels("o", concatenated.ours.cols());
    let cols = labels("o", trace.inputs.matrix(Quantity::WO).map_or(0, Matrix::cols));
    let text = Text::of(Quantity::WO);
    let w_o = trace.give(&text, Axes::new(RowRole::Other, &dims, &cols))?;
    let text = Text::named("output of heads", Quantity::Output);
    let (output, origin) = (concatenated.times(&w_o)?, Origin::product(concatenated, &w_o));
    let axes = Axes::new(RowRole::Queries, road.queries, &cols);
    Ok(trace.push(&text, output, Kind::Signed, axes, origin))
}

/// The output of the multi-head layer of [`regard`].
fn layer(
    settings: &Settings,
    heads: usize,
    [x, memory]: [&Matrix; 2],
    weights: [&Matrix; 4],
    maskable: bool,
) -> Result<Matrix, Error> {
    let layer = multi_head(heads, weights)?;
    let (query, memory) = (sequences(x)?, sequences(memory)?);
    let output = layer.forward(query, memory, memory, &attention(settings, maskable))?;
    Ok(Matrix::from_vec(x.rows(), weights[3].cols(), output.into_vec()))
}

pub(crate) fn multi_head(heads: usize, weights: [&Matrix; 4]) -> Result<MultiHeadAttention, Error> {
    let [query, key, value, output] = weights.map(linear);
    let projections = Projections { query: query?, key: key?, value: value?, output: output? };
    Ok(MultiHeadAttention::new(heads, projections)?)
}

pub(crate) fn linear(w: &Matrix) -> Result<Linear, Error> {
    Ok(Linear::from_conv1d(w.as_slice(), [w.rows(), w.cols()])?)
}

/// The attention of the settings, for the layers of [`regard`].
pub(crate) fn attention(settings: &Settings, maskable: bool) -> Attention<'static> {
    let mut attention = Attention::new().temperature(settings.temperature);
    if settings.hides() && maskable {
        attention = attention.mask(Mask::CAUSAL);
    }
    if settings.without == Some(Without::Scaling) {
        attention = attention.scale(1.0);
    }
    attention
}

/// The rows of a matrix as the tokens of one text.
pub(crate) fn sequences(x: &Matrix) -> Result<Sequences<'_>, Error> {
    Ok(Sequences::new("x", x.as_slice(), [1, x.rows(), x.cols()])?)
}
