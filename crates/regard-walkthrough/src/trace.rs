use std::sync::Arc;

use crate::check::Gap;
use crate::number::number;
use crate::origin::{How, Origin};
use crate::pair::Pair;
use crate::step::{Kind, Step};
use crate::{Check, Error, Inputs, Matrix, Quantity, Rows, Settings, StepKey, ulp};

/// A walkthrough during its computation.
pub(crate) struct Trace<'a> {
    pub settings: &'a Settings,
    pub inputs: &'a Inputs,
    pub tokens: &'a [String],
    pub steps: Vec<Step>,
    pub measured: Measured,
}

/// The measurements of the checks. `None` means not measured.
#[derive(Default)]
pub(crate) struct Measured {
    /// The gap between each row's sum of weights and 1.
    pub row_sum: Option<Gap>,
    /// The gap between the output and that of the fused kernel.
    pub fused: Option<Gap>,
    /// The gap between the output of all heads and that of the multi-head layer.
    pub layer: Option<Gap>,
    /// The largest weight of a hidden token.
    pub hidden: Option<Gap>,
    /// The checks that an example adds.
    pub others: Vec<Other>,
}

/// A check that an example adds.
pub(crate) struct Other {
    pub name: &'static str,
    pub gap: Gap,
    pub meaning: &'static str,
}

#[derive(Clone, Copy)]
pub(crate) struct Text<'a> {
    pub key: StepKey,
    pub symbol: &'a str,
    pub name: &'a str,
    pub formula: &'a str,
    pub meaning: &'a str,
    pub code: &'static str,
}

impl Text<'static> {
    /// The texts of a step, which stand in `texts.txt` under its key.
    pub fn of(key: impl Into<StepKey>) -> Self {
        let key = key.into();
        Self::named(&key.to_string(), key)
    }

    /// The texts that stand in `texts.txt` under `heading`.
    pub fn named(heading: &str, key: impl Into<StepKey>) -> Self {
        let heading = format!("[{heading}]\n");
        let mut sections = include_str!("texts.txt").split("\n\n");
        let section = sections.find_map(|section| section.strip_prefix(&heading));
        debug_assert!(section.is_some(), "texts.txt has no {heading}");
        let lines = || section.unwrap_or_default().lines();
        let text = |name| lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        Self {
            key: key.into(),
            symbol: text("symbol: "),
            name: text("name: "),
            formula: text("formula: "),
            meaning: text("meaning: "),
            code: text("code: "),
        }
    }
}

/// The rows and columns of a step.
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
    pub fn new(settings: &'a Settings, inputs: &'a Inputs) -> Self {
        Self {
            settings,
            inputs,
            tokens: inputs.tokens(),
            steps: Vec::new(),
            measured: Measured::default(),
        }
    }

    /// Adds a step. Returns its matrix with its name.
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
            bounds: pair.bound.clone(),
        };
        let name = step.operand_name();
        self.steps.push(step);
        Pair { name, ..pair }
    }

    /// Adds a step that shows the input with the same key.
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

    /// Makes the last step editable. `given` are its numbers before any change.
    pub fn make_editable(&mut self, given: Arc<Matrix<f64>>) {
        if let Some(step) = self.steps.last_mut() {
            step.given = Some(given);
        }
    }

    /// An input that is not shown.
    pub fn input(&self, key: Quantity) -> Option<Pair> {
        self.inputs.matrix(key).map(|m| Pair::double(m.clone()))
    }

    /// Records that a notebook printed another number. Other settings or inputs have other numbers, and nothing is recorded.
    pub fn correct(&mut self, key: impl Into<StepKey>, correction: &str) {
        let key = key.into();
        if *self.settings == Settings::default()
            && !self.inputs.is_changed()
            && let Some(step) = self.steps.iter_mut().find(|s| s.key == key)
        {
            step.correction = Some(correction.to_owned());
        }
    }

    /// The checks of all measurements, and of all steps against their references.
    pub fn checks(&self) -> Vec<Check> {
        let Measured { row_sum, fused, layer, hidden, others } = &self.measured;
        let layer_name = match self.inputs.heads() {
            1 => "one head equals the layer".to_owned(),
            n => format!("{} heads equal the layer", COUNTS.get(n).copied().unwrap_or("all")),
        };
        let common = [
            (
                "rows sum to 1",
                *row_sum,
                "Each row of weights is a distribution. The number is the largest distance of a row's sum from 1.",
            ),
            (
                "nothing hidden is seen",
                *hidden,
                "The causal mask leaves no weight on a later token. The number is the largest weight there.",
            ),
            (
                "step by step equals one call",
                *fused,
                "weights · V from these steps is compared with the output of the fused kernel, which never stores the scores. \
                 The number is the distance relative to the largest number, at the cell nearest to its limit.",
            ),
            (
                &layer_name,
                *layer,
                "The output of these steps is compared with that of a multi-head layer with the same weights. The number is \
                 the distance relative to the largest number, at the cell nearest to its limit.",
            ),
        ];
        let common =
            common.into_iter().filter_map(|(name, gap, meaning)| Some((name, gap?, meaning)));
        let others = others.iter().map(|other| (other.name, other.gap, other.meaning));
        // A given matrix is only rounded, and its bound is that rounding, so it is not checked.
        let computed = self.steps.iter().filter(|step| !step.formula.is_empty());
        let steps = computed
            .map(|step| Gap::from_exact(&step.matrix, &step.exact, &step.bounds))
            .reduce(Gap::worse);
        let precision = steps.map(|gap| {
            let meaning = "Each step is compared with the same in double precision. The number is the distance relative to \
                           the step's largest number, at the cell nearest to its limit.";
            ("single precision suffices", gap, meaning)
        });
        let check = |(name, Gap { value, limit }, meaning): (&str, Gap, &str)| Check {
            name: name.to_owned(),
            value,
            limit,
            meaning: if limit.is_some() {
                meaning.to_owned()
            } else {
                format!("{meaning} {UNBOUNDED}")
            },
        };
        common.chain(others).chain(precision).map(check).collect()
    }
}

/// The addition to the meaning of a check without a limit.
const UNBOUNDED: &str = "There is no limit here: with these numbers, sizes and temperature, rounding may change a number by more \
                         than a thousandth of the largest.";

const COUNTS: [&str; 9] = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight"];

impl Measured {
    pub fn note(slot: &mut Option<Gap>, gap: Gap) {
        *slot = Some(slot.map_or(gap, |before| before.worse(gap)));
    }
}

/// "t0", "t1", …
pub(crate) fn labels(letter: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{letter}{i}")).collect()
}
