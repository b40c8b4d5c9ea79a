//! Code that the tests share.

use regard_kernels::Temperature;
use regard_walkthrough::{Check, Example, Settings, Step, StepKey, Walkthrough, Without};

/// The unit roundoff of single precision.
pub(crate) const U: f64 = 1.0 / 16_777_216.0;

/// The steps of an attention with one head, in order.
pub(crate) const ALL: [&str; 11] =
    ["x", "w_q", "w_k", "w_v", "q", "k", "v", "raw_scores", "scaled_scores", "weights", "output"];

pub(crate) fn named(text: &str) -> StepKey {
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn run(example: Example, settings: &Settings) -> Walkthrough {
    Walkthrough::run(example, settings).expect("examples run")
}

pub(crate) fn step<'a>(walk: &'a Walkthrough, key: &str) -> &'a Step {
    walk.step(named(key)).unwrap_or_else(|| panic!("{} has no {key}", walk.example.name()))
}

pub(crate) fn at(t: f32) -> Settings {
    Settings { temperature: Temperature::new(t).expect("a temperature"), ..Settings::default() }
}

pub(crate) fn without(without: Without) -> Settings {
    Settings { without: Some(without), ..Settings::default() }
}

/// None, and then each step that can be left out.
pub(crate) fn cuts() -> impl Iterator<Item = Option<Without>> {
    core::iter::once(None).chain(Without::ALL.iter().copied().map(Some))
}

/// Whether a check is within its limit, or has none.
pub(crate) fn passes(check: &Check) -> bool {
    check.holds() != Some(false)
}

/// The rows and columns of all cells.
pub(crate) fn cells(step: &Step) -> impl Iterator<Item = (usize, usize)> {
    let (rows, cols) = step.matrix.shape();
    (0..rows).flat_map(move |i| (0..cols).map(move |j| (i, j)))
}

/// Whether a cell is within its bound of `expected`. This number is computed in double precision, or rounded to single
/// precision as decimals in JSON are.
pub(crate) fn is_near(step: &Step, (i, j): (usize, usize), expected: f64) -> bool {
    let bound = step.bound(i, j).expect("the cell is there") + U * expected.abs();
    (f64::from(step.matrix.get(i, j)) - expected).abs() <= bound
}
