use std::sync::Arc;

use crate::number::number;
use crate::origin::{How, Origin};
use crate::pair::Pair;
use crate::step::{Kind, Step};
use crate::values::Values;
use crate::{Check, Error, Matrix, Quantity, Rows, Settings, StepKey, ulp};

/// A walkthrough as it is written down.
pub(crate) struct Trace<'a> {
    pub settings: &'a Settings,
    pub inputs: &'a Values,
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
    /// Of the output of all heads from the multi-head layer's.
    pub layer: Option<f64>,
    /// Of the weight of a hidden token from 0.
    pub hidden: Option<f64>,
    /// What an example checks besides: with its limit, in units of the common one.
    pub others: Vec<Other>,
    /// By what a low temperature multiplies gradients, and their rounding.
    pub slope: f64,
}

/// A check of one example.
pub(crate) struct Other {
    pub name: &'static str,
    pub value: f64,
    pub meaning: &'static str,
}

/// What a learner reads of a step.
#[derive(Clone, Copy)]
pub(crate) struct Text<'a> {
    pub key: StepKey,
    pub symbol: &'a str,
    pub name: &'a str,
    pub formula: &'a str,
    pub meaning: &'a str,
    pub code: &'static str,
}

impl<'a> Text<'a> {
    /// The text of what is given: it has neither a formula nor a call.
    pub fn given(
        key: impl Into<StepKey>,
        symbol: &'a str,
        name: &'a str,
        meaning: &'a str,
    ) -> Self {
        Self { key: key.into(), symbol, name, formula: "", meaning, code: "" }
    }
}

/// What the rows and columns of a step are.
#[derive(Clone, Copy)]
pub(crate) struct Axes<'a> {
    pub rows: &'a [String],
    pub cols: &'a [String],
    pub of: Rows,
    /// The token of the first row.
    pub first: usize,
}

impl<'a> Axes<'a> {
    pub fn new(of: Rows, rows: &'a [String], cols: &'a [String]) -> Self {
        Self { rows, cols, of, first: 0 }
    }
}

impl<'a> Trace<'a> {
    pub fn new(settings: &'a Settings, inputs: &'a Values) -> Self {
        let measured = Measured { slope: 1.0, ..Measured::default() };
        Self { settings, inputs, tokens: inputs.tokens.clone(), steps: Vec::new(), measured }
    }

    /// Writes a step down. Returns its matrix, under its name.
    pub fn push(
        &mut self,
        text: &Text<'_>,
        pair: Pair,
        kind: Kind,
        axes: Axes<'_>,
        origin: Origin,
    ) -> Pair {
        let step = Step {
            key: text.key,
            symbol: text.symbol.to_owned(),
            name: text.name.to_owned(),
            formula: text.formula.to_owned(),
            meaning: text.meaning.to_owned(),
            code: text.code,
            kind,
            row_labels: axes.rows.to_vec(),
            col_labels: axes.cols.to_vec(),
            rows: axes.of,
            first_token: axes.first,
            max_error: pair.max_error(),
            max_ulp: ulp::max_ulp(&pair.ours, &pair.exact),
            correction: None,
            given: None,
            origin,
            matrix: pair.ours.clone(),
            exact: pair.exact.clone(),
        };
        let name = step.operand_name();
        self.steps.push(step);
        Pair { name, ..pair }
    }

    /// Writes an input down, which has the key of the step.
    pub fn give(&mut self, text: &Text<'_>, axes: Axes<'_>) -> Result<Pair, Error> {
        let inputs = self.inputs;
        let Some((given, values)) = inputs.input(text.key) else {
            let known = inputs.keys().map(String::from);
            return Err(Error::unknown("matrix", &text.key.to_string(), known));
        };
        let (given, cols) = (given.clone(), values.cols());
        let (now, input) = (values.clone(), given.clone());
        let origin = Origin::new(move |i, j, value| {
            let (before, result) = (input.values.get(i, j), number(value.into()));
            How::Told(match &input.drawn {
                _ if now.get(i, j) != before => {
                    format!("typed in: {result}, in place of {}", number(before))
                }
                None => format!("given: {result}"),
                Some(generator) => {
                    format!("{result}: number {} drawn ({generator})", i * cols + j + 1)
                }
            })
        });
        let before = Arc::clone(&given.values);
        let pair = self.push(text, Pair::double(values.clone()), Kind::Signed, axes, origin);
        self.make_editable(before);
        Ok(pair)
    }

    /// Says that the last step can be typed over, and what it holds where nobody does.
    pub fn make_editable(&mut self, given: Arc<Matrix<f64>>) {
        if let Some(step) = self.steps.last_mut() {
            step.given = Some(given);
        }
    }

    /// An input that is not shown.
    pub fn input(&self, key: Quantity) -> Option<Pair> {
        self.inputs.matrix(key).map(|m| Pair::double(m.clone()))
    }

    /// Says where a notebook printed another number. Only as the notebook had it: with other settings, other numbers are right.
    pub fn correct(&mut self, key: impl Into<StepKey>, correction: &str) {
        let key = key.into();
        if *self.settings == Settings::default()
            && !self.inputs.is_changed()
            && let Some(step) = self.steps.iter_mut().find(|s| s.key == key)
        {
            step.correction = Some(correction.to_owned());
        }
    }

    pub fn checks(&self) -> Vec<Check> {
        let check = |name: &str, value: Option<f64>, limit: f64, meaning: &str| {
            value.map(|value| Check {
                name: name.to_owned(),
                value,
                limit,
                meaning: meaning.to_owned(),
            })
        };
        let layer = match self.inputs.heads {
            1 => "one head equals the layer".to_owned(),
            n => format!("{} heads equal the layer", COUNTS.get(n).copied().unwrap_or("all")),
        };
        let mut checks: Vec<Check> = [
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
                &layer,
                self.measured.layer,
                self.limit(),
                "The output of these steps and of a multi-head layer with the same weights: the largest distance, over the \
                 largest number.",
            ),
        ]
        .into_iter()
        .flatten()
        .collect();
        checks.extend(
            self.measured
                .others
                .iter()
                .filter_map(|o| check(o.name, Some(o.value), self.limit(), o.meaning)),
        );
        checks.extend(check(
            "single precision suffices",
            self.steps.iter().map(relative_error).reduce(f64::max),
            self.limit(),
            "Each step beside the same in double precision: the largest distance, over the step's largest number.",
        ));
        checks
    }

    /// How far single precision may be off: softmax turns a score's rounding into a relative change of the weight, by
    /// |score| / T times 2⁻²⁴, and sums of a few terms add a few of these.
    fn limit(&self) -> f64 {
        let scores = self.steps.iter().filter(|s| s.key.quantity.is_scores());
        let largest = scores.map(|s| largest(&s.matrix)).fold(1.0, f64::max);
        let t = f64::from(self.settings.temperature.get());
        // At T = 0 only the order of scores counts.
        1e-6 * self.measured.slope * if t == 0.0 { 1.0 } else { (largest / t).max(1.0) }
    }
}

const COUNTS: [&str; 9] = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight"];

impl Measured {
    pub fn note(slot: &mut Option<f64>, deviation: f64) {
        *slot =
            Some(slot.map_or(deviation, |d| {
                if deviation.is_nan() { deviation } else { d.max(deviation) }
            }));
    }
}

/// The largest finite size among the numbers.
pub(crate) fn largest(matrix: &crate::Matrix) -> f64 {
    matrix
        .as_slice()
        .iter()
        .map(|x| f64::from(x.abs()))
        .filter(|x| x.is_finite())
        .fold(0.0, f64::max)
}

fn relative_error(step: &Step) -> f64 {
    step.max_error / largest(&step.matrix).max(1.0)
}

/// "t0", "t1", …
pub(crate) fn labels(letter: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{letter}{i}")).collect()
}
