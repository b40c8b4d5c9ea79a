//! The effect of leaving out a step, in the numbers of both computations.

use crate::check;
use crate::examples::why_scale::{entropy, softmax_gradient_norm};
use crate::number::number;
use crate::{Quantity, Section, Step, StepKey, Without};

/// Describes in a few sentences how the steps `cut`, from which a part is left out, differ from the steps `full`, at
/// temperature `t`.
pub(crate) fn describe(without: Without, t: f64, full: &[Step], cut: &[Step]) -> String {
    if steps(full, Quantity::Weights).next().is_none() {
        return format!(
            "This example computes no attention, so it has no {} to leave out.",
            without.name()
        );
    }
    match without {
        Without::Projections if main(full, Quantity::WQ).is_none() => {
            "This example starts with queries and keys, so it has no projections to leave out."
                .to_owned()
        }
        Without::Projections => projections(full, cut),
        Without::Scaling => scaling(t, full, cut),
        Without::Softmax => softmax(full, cut),
        Without::Mask if steps(full, Quantity::MaskedScores).next().is_none() => {
            "Here one text attends to all of another text, so there is no mask to leave out."
                .to_owned()
        }
        Without::Mask => mask(full, cut),
    }
}

fn projections(full: &[Step], cut: &[Step]) -> String {
    if steps(full, Quantity::Weights).any(|w| w.row_labels != w.col_labels) {
        let scores = |walk: &[Step]| {
            number(steps(walk, Quantity::RawScores).map(largest).fold(0.0, f64::max))
        };
        return format!(
            "Every token is compared with the tokens of the other text directly. That finds similar tokens only if both texts encode the same meaning by the same numbers. The largest absolute score is {}. There is nothing to learn.",
            instead(&scores(cut), &scores(full)),
        );
    }
    let own = |walk: &[Step]| number(mean(walk, |row, i| row.get(i).copied().unwrap_or_default()));
    let skew = |walk: &[Step]| {
        let scores = steps(walk, Quantity::RawScores).map(|s| &s.matrix);
        let differences = scores.flat_map(|s| {
            (0..s.rows()).flat_map(move |i| (0..i).map(move |j| s.get(i, j) - s.get(j, i)))
        });
        number(differences.fold(0.0_f32, |m, d| m.max(d.abs())).into())
    };
    format!(
        "Every token is compared with every token directly. On average, a token's weight on itself is {}. The scores are symmetric: score(i, j) and score(j, i) differ by at most {}, where they differed by {} before, so a token can look only for tokens like itself. There is nothing to learn.",
        instead(&own(cut), &own(full)),
        skew(cut),
        skew(full),
    )
}

fn scaling(t: f64, full: &[Step], cut: &[Step]) -> String {
    let d_k = steps(full, Quantity::Q).map(|q| q.matrix.cols()).next();
    if d_k == Some(1) {
        return "Each query has one number here, and dividing by √1 = 1 changes nothing. Scaling matters for long vectors: see why-scale."
            .to_owned();
    }
    let change = |f: &dyn Fn(&[f64]) -> f64| {
        let [now, before] = [cut, full].map(|walk| number(mean(walk, |row, _| f(row))));
        instead(&now, &before)
    };
    let spread = |walk: &[Step], key| number(steps(walk, key).map(largest).fold(0.0, f64::max));
    format!(
        "The largest absolute score is {}. On average, the largest weight of a row is {}, the entropy of a row is {} nats, and the norm of the gradient through softmax is {}. The effect grows with the length of the vectors: see why-scale.",
        instead(&spread(cut, Quantity::RawScores), &spread(full, Quantity::ScaledScores)),
        change(&|row| row.iter().copied().fold(0.0, f64::max)),
        change(&entropy),
        change(&|row| softmax_gradient_norm(row.iter().copied(), t)),
    )
}

/// "2 instead of 1", or "still 2".
fn instead(now: &str, before: &str) -> String {
    if now == before { format!("still {now}") } else { format!("{now} instead of {before}") }
}

fn softmax(full: &[Step], cut: &[Step]) -> String {
    let weights = || steps(cut, Quantity::Weights).map(|w| &w.matrix);
    let sums = || weights().flat_map(|w| (0..w.rows()).map(move |i| w.row(i).iter().sum::<f32>()));
    let low = sums().fold(f32::INFINITY, f32::min);
    let high = sums().fold(f32::NEG_INFINITY, f32::max);
    let all = || weights().flat_map(|w| w.as_slice());
    let negative = match all().filter(|w| **w < 0.0).count() {
        0 => "No weight is negative here, but weights can be.".to_owned(),
        n => format!(
            "{n} of {} weights {} negative, and a negative weight subtracts a value.",
            all().count(),
            if n == 1 { "is" } else { "are" },
        ),
    };
    let output = match (main(full, Quantity::Output), main(cut, Quantity::Output)) {
        (Some(before), Some(now)) => format!(
            " The output is no longer a weighted mean of the values: its largest absolute number is {}.",
            instead(&number(largest(now)), &number(largest(before))),
        ),
        _ => String::new(),
    };
    format!(
        "The scores take the place of the weights. Each row should sum to 1, but the sums range from {} to {}. {negative}{output}",
        number(low.into()),
        number(high.into()),
    )
}

fn mask(full: &[Step], cut: &[Step]) -> String {
    let later =
        |row: &[f64], i: usize| row.get(i + 1..).map_or(0.0, |later| later.iter().sum::<f64>());
    let first = mean_of_rows(cut, |i| i == 0, later);
    let moved = match (main(full, Quantity::Output), main(cut, Quantity::Output)) {
        (Some(before), Some(now)) if before.matrix.shape() == now.matrix.shape() => {
            let threshold = 1e-6 * largest(now);
            let (before, now) = (before.matrix.map(f64::from), now.matrix.map(f64::from));
            let distance =
                |i: usize| before.row(i).iter().zip(now.row(i)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            let changed = (0..now.rows()).filter(|i| distance(*i) > threshold).count();
            let most = (0..now.rows()).map(distance).fold(0.0, f64::max);
            format!(
                " {changed} of {} outputs change, by at most {}. A model trained on them would depend on later tokens, which do not exist yet when it generates text.",
                now.rows(),
                number(most)
            )
        }
        _ => {
            " A model trained on this would depend on later tokens, which do not exist yet when it generates text."
                .to_owned()
        }
    };
    format!(
        "Tokens see the future: on average, a token gives {} of its attention to tokens after it, and the first token gives {}. \
         The causal mask sets both to 0.{moved}",
        number(mean(cut, later)),
        number(first),
    )
}

fn largest(step: &Step) -> f64 {
    check::largest(step.matrix.as_slice().iter().map(|x| f64::from(*x)))
}

/// The step of a quantity in the main section.
fn main(walk: &[Step], quantity: Quantity) -> Option<&Step> {
    walk.iter().find(|step| step.key == quantity.into())
}

/// The steps of a quantity in each head, or in the whole example if it has no heads. The row that is computed by hand is not
/// counted twice.
fn steps(walk: &[Step], quantity: Quantity) -> impl Iterator<Item = &Step> {
    // With several heads, the matrix Q of all heads does not belong to any one of them.
    let heads = walk.iter().any(|step| step.key.head().is_some());
    let belongs =
        move |key: StepKey| if heads { key.head().is_some() } else { key.section == Section::Main };
    walk.iter().filter(move |step| step.key.quantity == quantity && belongs(step.key))
}

/// The mean of `f(weights, i)` over all rows i of the weights of all heads.
fn mean(walk: &[Step], f: impl Fn(&[f64], usize) -> f64) -> f64 {
    mean_of_rows(walk, |_| true, f)
}

fn mean_of_rows(
    walk: &[Step],
    is_one: impl Fn(usize) -> bool,
    f: impl Fn(&[f64], usize) -> f64,
) -> f64 {
    let (mut sum, mut rows) = (0.0, 0);
    for weights in steps(walk, Quantity::Weights) {
        let weights = weights.matrix.map(f64::from);
        for i in (0..weights.rows()).filter(|i| is_one(*i)) {
            sum += f(weights.row(i), i);
            rows += 1;
        }
    }
    if rows == 0 { 0.0 } else { sum / f64::from(rows) }
}
