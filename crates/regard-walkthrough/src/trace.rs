use crate::pair::Pair;
use crate::step::{Kind, Origin, Step};
use crate::{Check, Settings};

/// A walkthrough as it is written down.
pub(crate) struct Trace<'a> {
    pub settings: &'a Settings,
    pub tokens: Vec<String>,
    pub steps: Vec<Step>,
    pub measured: Measured,
}

/// The largest deviations so far: what the checks are made of. `None` is "not looked at".
#[derive(Default)]
pub(crate) struct Measured {
    /// Of a row of weights from a sum of 1.
    pub row_sum: Option<f64>,
    /// Of the output from the fused kernel's, over the largest value (or 1).
    pub fused: Option<f64>,
    /// Of the output of both heads from the multi-head layer's.
    pub layer: Option<f64>,
    /// Of the weight of a hidden token from 0.
    pub hidden: Option<f64>,
}

/// What a learner reads of a step.
pub(crate) struct Text<'a> {
    pub key: &'a str,
    pub name: &'a str,
    pub formula: &'a str,
    pub meaning: &'a str,
}

/// What the rows and columns of a step are.
#[derive(Clone, Copy)]
pub(crate) struct Labels<'a> {
    pub rows: &'a [String],
    pub cols: &'a [String],
}

impl<'a> Trace<'a> {
    pub fn new(settings: &'a Settings, tokens: Vec<String>) -> Self {
        Self { settings, tokens, steps: Vec::new(), measured: Measured::default() }
    }

    pub fn push(&mut self, text: &Text<'_>, pair: &Pair, kind: Kind, labels: Labels<'_>, origin: Origin) {
        self.steps.push(Step {
            key: text.key.to_owned(),
            name: text.name.to_owned(),
            formula: text.formula.to_owned(),
            meaning: text.meaning.to_owned(),
            matrix: pair.ours.clone(),
            kind,
            row_labels: labels.rows.to_vec(),
            col_labels: labels.cols.to_vec(),
            max_error: pair.max_error(),
            correction: None,
            origin,
        });
    }

    /// Says where a notebook printed another number. Only as the notebook had it: with other settings, other numbers are right.
    pub fn correct(&mut self, key: &str, correction: &str) {
        if *self.settings == Settings::default()
            && let Some(step) = self.steps.iter_mut().find(|s| s.key == key)
        {
            step.correction = Some(correction.to_owned());
        }
    }

    pub fn checks(&self) -> Vec<Check> {
        let check = |name: &str, value: Option<f64>, limit: f64, meaning: &str| {
            value.map(|value| Check { name: name.to_owned(), value, limit, meaning: meaning.to_owned() })
        };
        [
            check(
                "rows sum to 1",
                self.measured.row_sum,
                1e-6,
                "Each row of weights is a distribution: the largest distance of a row's sum from 1.",
            ),
            check(
                "nothing hidden is seen",
                self.measured.hidden,
                0.0,
                "The causal mask leaves no weight on a later token: the largest weight there.",
            ),
            check(
                "step by step equals one call",
                self.measured.fused,
                self.limit(),
                "weights · V from these steps beside the output of the fused kernel, which never writes the scores down: the \
                 largest distance, over the largest value.",
            ),
            check(
                "two heads equal the layer",
                self.measured.layer,
                self.limit(),
                "The output of these steps and of a multi-head layer with the same weights: the largest distance.",
            ),
            check(
                "single precision suffices",
                self.steps.iter().map(relative_error).reduce(f64::max),
                self.limit(),
                "Each step beside the same in double precision: the largest distance, over the step's largest number.",
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// How far single precision may be off: softmax turns a score's rounding into a relative change of the weight, by
    /// |score| / T times 2⁻²⁴, and sums of a few terms add a few of these.
    fn limit(&self) -> f64 {
        let scores = self.steps.iter().filter(|s| s.key.ends_with("scores"));
        let largest = scores.map(|s| largest(&s.matrix)).fold(1.0, f64::max);
        let t = f64::from(self.settings.temperature.get());
        // At T = 0 only the order of scores counts.
        1e-6 * if t == 0.0 { 1.0 } else { (largest / t).max(1.0) }
    }
}

impl Measured {
    pub fn note(slot: &mut Option<f64>, deviation: f64) {
        *slot = Some(slot.map_or(deviation, |d| if deviation.is_nan() { deviation } else { d.max(deviation) }));
    }
}

/// The largest finite size among the numbers.
pub(crate) fn largest(matrix: &crate::Matrix) -> f64 {
    matrix.as_slice().iter().map(|x| f64::from(x.abs())).filter(|x| x.is_finite()).fold(0.0, f64::max)
}

fn relative_error(step: &Step) -> f64 {
    step.max_error / largest(&step.matrix).max(1.0)
}

/// "t0", "t1", …
pub(crate) fn labels(letter: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{letter}{i}")).collect()
}
