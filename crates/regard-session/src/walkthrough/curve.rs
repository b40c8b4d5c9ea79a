//! The effect of the temperature on one row of weights.

use regard_figure::{Curve, Plot, Scale};
use regard_kernels::Temperature;
use regard_walkthrough::{Kind, Quantity, Step, Walkthrough, softmax_curve};

use super::WalkthroughState;
use crate::temperature;

/// The number of points on a curve.
const POINTS: usize = 97;
/// The curves of the row under the pointer, to export them.
pub fn curves(state: &WalkthroughState, walkthrough: &Walkthrough) -> Option<Plot> {
    let (scores, weights, row) = softmax_row(state, walkthrough)?;
    Some(of(state.settings.temperature, &scores, weights, row))
}

/// The step whose weights [`curves`] shows.
pub fn curves_of<'a>(state: &WalkthroughState, walkthrough: &'a Walkthrough) -> Option<&'a Step> {
    softmax_row(state, walkthrough).map(|(_, weights, _)| weights)
}

/// The row of scores before softmax, the step of its weights, and the index of the row.
fn softmax_row<'a>(
    state: &WalkthroughState,
    walkthrough: &'a Walkthrough,
) -> Option<(Vec<f32>, &'a Step, usize)> {
    let pointed = state
        .pointed()
        .and_then(|at| walkthrough.steps.iter().position(|step| step.key == at.step));
    let is_weights =
        |i: &usize| walkthrough.steps[*i].kind == Kind::Weights && i.checked_sub(1).is_some();
    // The weights under the pointer come first, then the next weights after the pointer, then the last weights.
    let weights = (pointed.unwrap_or(0)..walkthrough.steps.len())
        .find(is_weights)
        .or_else(|| (0..walkthrough.steps.len()).rfind(is_weights))?;
    let selection = state.selection(walkthrough);
    let (weights, row) = match walkthrough.steps[weights].marks(&selection).query {
        Some(row) => (weights, row),
        None if pointed.is_some() => (weights, 0),
        None => {
            let all = (0..walkthrough.steps.len()).filter(is_weights);
            widest(walkthrough, all).unwrap_or((weights, 0))
        }
    };
    let weights = &walkthrough.steps[weights];
    let mut scores = scores_of(weights, walkthrough)?.matrix.row(row).to_vec();
    if weights.key.quantity == Quantity::CausalWeights {
        // The masked scores of the causal attention beside the plain one are not a step.
        scores.iter_mut().skip(row + 1).for_each(|score| *score = f32::NEG_INFINITY);
    }
    Some((scores, weights, row))
}

/// The row of weights whose scores differ most: its step's place, and the row. The first of equal rows wins.
fn widest(
    walkthrough: &Walkthrough,
    weights: impl Iterator<Item = usize>,
) -> Option<(usize, usize)> {
    let mut found: Option<(f32, (usize, usize))> = None;
    for step in weights {
        let Some(scores) = scores_of(&walkthrough.steps[step], walkthrough) else { continue };
        for row in 0..scores.matrix.rows() {
            let seen = || scores.matrix.row(row).iter().copied().filter(|x| x.is_finite());
            let spread = seen().fold(f32::MIN, f32::max) - seen().fold(f32::MAX, f32::min);
            if found.is_none_or(|(most, _)| spread > most) {
                found = Some((spread, (step, row)));
            }
        }
    }
    found.map(|(_, at)| at)
}

/// The scores of a step of weights: the nearest scores before it.
fn scores_of<'a>(weights: &Step, walkthrough: &'a Walkthrough) -> Option<&'a Step> {
    let before = walkthrough.steps.iter().take_while(|step| step.key != weights.key);
    before
        .filter(|step| {
            step.key.quantity.is_scores() && step.matrix.shape() == weights.matrix.shape()
        })
        .last()
}

/// A curve for each key.
fn of(now: Temperature, scores: &[f32], weights: &Step, row: usize) -> Plot {
    let (exponents, temperatures) = temperature::sampled(POINTS);
    let by_temperature = softmax_curve(scores, &temperatures);
    let curve = |(j, token): (usize, &String)| Curve {
        name: token.clone(),
        points: (exponents.iter().enumerate())
            .map(|(i, e)| [10_f64.powf(*e), f64::from(by_temperature.get(i, j))])
            .collect(),
        band: Vec::new(),
        color: regard_figure::curve_color(j),
        dashed: false,
        marked: Some(f64::from(weights.matrix.get(row, j))),
    };
    Plot {
        title: format!("Weights of \"{}\" by temperature", weights.row_labels[row]),
        axes: ["T", "weight"],
        scale: Scale::Decades,
        mark: Some(f64::from(now.get())),
        curves: weights.col_labels.iter().enumerate().map(curve).collect(),
    }
}
