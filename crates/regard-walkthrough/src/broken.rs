//! What leaving a step out breaks, told in the numbers of both computations.

use crate::examples::why_scale::{entropy, jacobian_norm};
use crate::number::number;
use crate::trace::largest;
use crate::{Matrix, Walkthrough, Without};

/// A few sentences about `cut`, which lacks a step that `full` has.
pub(crate) fn describe(without: Without, full: &Walkthrough, cut: &Walkthrough) -> String {
    match without {
        Without::Projections if full.step("x").is_none() => {
            "This example starts with queries and keys: it has no projections to leave out.".to_owned()
        }
        Without::Projections => projections(full, cut),
        Without::Scaling => scaling(full, cut),
        Without::Softmax => softmax(full, cut),
    }
}

fn projections(full: &Walkthrough, cut: &Walkthrough) -> String {
    let before = mean(full, |row, i| row.get(i).copied().unwrap_or_default());
    let now = mean(cut, |row, i| row.get(i).copied().unwrap_or_default());
    let skew = |walk: &Walkthrough| {
        let scores = steps(walk, "raw_scores")
            .map(|s| (0..s.rows()).flat_map(move |i| (0..i).map(move |j| s.get(i, j) - s.get(j, i))));
        scores.flatten().fold(0.0_f32, |m, d| m.max(d.abs()))
    };
    format!(
        "Every token is compared with every token as it is. On average a token gives itself {} of its attention instead of {}. \
         The scores are symmetric: score(i, j) and score(j, i) differ by {} at most, instead of {}, so no token can look for \
         what it is not. And there is nothing left to learn.",
        number(now),
        number(before),
        number(skew(cut).into()),
        number(skew(full).into()),
    )
}

fn scaling(full: &Walkthrough, cut: &Walkthrough) -> String {
    let change = |f: fn(&[f64], usize) -> f64| (number(mean(full, f)), number(mean(cut, f)));
    let spread = |walk: &Walkthrough, key| number(steps(walk, key).map(largest).fold(0.0, f64::max));
    let (peak, peak_now) = change(|row, _| row.iter().copied().fold(0.0, f64::max));
    let (bits, bits_now) = change(|row, _| entropy(row));
    let (gradient, gradient_now) = change(|row, _| jacobian_norm(row));
    format!(
        "The largest score is {} instead of {} in size. Of each row's attention the largest share is now {peak_now} on average, \
         instead of {peak}; the entropy of a row is {bits_now} nats instead of {bits}, and the gradient that comes through \
         softmax has a norm of {gradient_now} instead of {gradient}. The longer the vectors, the more of this: see why-scale.",
        spread(cut, "raw_scores"),
        spread(full, "scaled_scores"),
    )
}

fn softmax(full: &Walkthrough, cut: &Walkthrough) -> String {
    let sums = || steps(cut, "weights").flat_map(|w| (0..w.rows()).map(move |i| w.row(i).iter().sum::<f32>()));
    let low = sums().fold(f32::INFINITY, f32::min);
    let high = sums().fold(f32::NEG_INFINITY, f32::max);
    let all = || steps(cut, "weights").flat_map(|w| w.as_slice());
    let negative = all().filter(|w| **w < 0.0).count();
    let negative = match negative {
        0 => "No weight is negative here, but any could be.".to_owned(),
        n => format!(
            "{n} of {} weights are negative, so a token can be attended to less than not at all.",
            all().count()
        ),
    };
    let output = match (full.step("output"), cut.step("output")) {
        (Some(before), Some(now)) => format!(
            " The output is no longer a blend of the values: its largest number is {} in size instead of {}.",
            number(largest(&now.matrix)),
            number(largest(&before.matrix))
        ),
        _ => String::new(),
    };
    format!(
        "The scores stand in for weights. Rows should sum to 1: they sum to anything from {} to {}. {negative}{output}",
        number(low.into()),
        number(high.into()),
    )
}

/// The matrices under a key, in each head. The rows worked by hand are not counted twice.
fn steps<'a>(walk: &'a Walkthrough, key: &'a str) -> impl Iterator<Item = &'a Matrix> {
    let is_it = move |k: &str| k == key || k.strip_prefix("head_").is_some_and(|k| k.ends_with(&format!(".{key}")));
    walk.steps.iter().filter(move |s| is_it(&s.key)).map(|s| &s.matrix)
}

/// The mean of `f(weights, i)` over all rows i of weights.
fn mean(walk: &Walkthrough, f: impl Fn(&[f64], usize) -> f64) -> f64 {
    let (mut sum, mut rows) = (0.0, 0);
    for weights in steps(walk, "weights") {
        let weights = weights.map(f64::from);
        for i in 0..weights.rows() {
            sum += f(weights.row(i), i);
            rows += 1;
        }
    }
    if rows == 0 { 0.0 } else { sum / f64::from(rows) }
}
