//! How one cell came to be, in words and numbers.

use crate::Matrix;
use crate::number::{bracketed, number};
use crate::step::{Origin, Step};

/// Sums of more terms are cut in the middle.
const LONGEST: usize = 12;
/// The terms shown at the start of a cut sum; one more is shown at its end.
const SHOWN: usize = 4;

impl Step {
    /// How the cell (row, col) came to be: "1·2 + 1·1 + 1·1 = 4". `None` outside the matrix.
    ///
    /// Numbers are rounded for reading. A sum of more than 12 terms shows the first four and the last, and what those between
    /// add up to.
    pub fn explain(&self, row: usize, col: usize) -> Option<String> {
        let (rows, cols) = self.matrix.shape();
        if row >= rows || col >= cols {
            return None;
        }
        let value = self.matrix.get(row, col);
        let result = number(value.into());
        Some(match &self.origin {
            Origin::Given => format!("given: {result}"),
            Origin::Drawn(generator) => format!("{result}: number {} drawn ({generator})", row * cols + col + 1),
            Origin::Product { left, right } => {
                let terms = left.row(row).iter().enumerate().map(|(t, l)| (*l, right.get(t, col)));
                format!("{} = {result}", sum_of_products(&terms.collect::<Vec<_>>()))
            }
            Origin::ProductTransposed { left, right } => {
                let terms = left.row(row).iter().zip(right.row(col)).map(|(l, r)| (*l, *r));
                format!("{} = {result}", sum_of_products(&terms.collect::<Vec<_>>()))
            }
            Origin::Scaled { from, divisor } => format!("{} / {divisor} = {result}", number(from.get(row, col).into())),
            Origin::Masked if value == f32::NEG_INFINITY => format!(
                "hidden by the mask: {} comes after {}, so its score is −∞",
                label(&self.col_labels, col),
                label(&self.row_labels, row)
            ),
            Origin::Masked => format!("may be seen, so its score stays: {result}"),
            Origin::Softmax { from, .. } | Origin::Unweighed { from } if from.get(row, col) == f32::NEG_INFINITY => {
                "hidden by the mask: weight 0".to_owned()
            }
            Origin::Softmax { from, temperature } => softmax(from.row(row), col, *temperature, &result),
            Origin::Unweighed { .. } => format!("the score itself, without softmax: {result}"),
            Origin::Copied(from) => format!("as in {from}: {result}"),
            Origin::Spelled(text) => text.clone(),
            Origin::Columns(columns) => format!("{}: {result}", label(columns, col)),
        })
    }
}

fn label(labels: &[String], i: usize) -> &str {
    labels.get(i).map_or("it", String::as_str)
}

/// "1·2 + 1·(−1) + …"
fn sum_of_products(terms: &[(f32, f32)]) -> String {
    let product = |(l, r): &(f32, f32)| format!("{}·{}", bracketed((*l).into()), bracketed((*r).into()));
    let shown = |terms: &[(f32, f32)]| terms.iter().map(product).collect::<Vec<_>>().join(" + ");
    let Some((last, rest)) = terms.split_last().filter(|_| terms.len() > LONGEST) else {
        return shown(terms);
    };
    let (first, middle) = rest.split_at(SHOWN);
    let sum: f64 = middle.iter().map(|(l, r)| f64::from(*l) * f64::from(*r)).sum();
    format!("{} + … {} more terms that add up to {} … + {}", shown(first), middle.len(), number(sum), product(last))
}

/// A visible weight, as softmax makes it from a row of scores.
fn softmax(row: &[f32], col: usize, temperature: f32, result: &str) -> String {
    let visible: Vec<f32> = row.iter().copied().filter(|x| *x > f32::NEG_INFINITY).collect();
    let score = row.get(col).copied().unwrap_or_default();
    if temperature == f32::INFINITY {
        return format!("at T = ∞ all that may be seen share evenly: 1/{} = {result}", visible.len());
    }
    if temperature < f32::MIN_POSITIVE {
        return arg_max(&visible, score, result);
    }
    let power = |x: f32| match (x, temperature) {
        (x, 1.0) if x < 0.0 => format!("e^({})", number(x.into())),
        (x, 1.0) => format!("e^{}", number(x.into())),
        (x, t) => format!("e^({}/{})", number(x.into()), number(t.into())),
    };
    let sum: Vec<String> = visible.iter().map(|x| power(*x)).collect();
    format!("{} / ({}) = {result}", power(score), sum.join(" + "))
}

/// At T = 0.
fn arg_max(visible: &[f32], score: f32, result: &str) -> String {
    let max = visible.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let ties = visible.iter().filter(|x| **x == max).count();
    let largest = number(max.into());
    if score < max {
        format!(
            "at T = 0 all weight goes to the largest score of the row, {largest}, and this is {}: weight 0",
            number(score.into())
        )
    } else if ties == 1 {
        format!("at T = 0 all weight goes to the largest score of the row, {largest}: weight 1")
    } else {
        format!("at T = 0 the {ties} scores of {largest}, the largest of the row, share evenly: 1/{ties} = {result}")
    }
}

/// "x1² + x2² + …", for a norm.
pub(crate) fn sum_of_squares(x: &Matrix) -> String {
    x.as_slice().iter().map(|x| format!("{}²", bracketed((*x).into()))).collect::<Vec<_>>().join(" + ")
}
