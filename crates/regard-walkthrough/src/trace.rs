use std::collections::BTreeMap;
use std::sync::Arc;

use crate::check::Gap;
use crate::number::number;
use crate::origin::{How, Origin};
use crate::pair::Pair;
use crate::step::{Kind, Step};
use crate::{Check, Error, Inputs, Matrix, Quantity, RowRole, Settings, StepKey, ulp};

/// A walkthrough during its computation.
pub(crate) struct Trace<'a> {
    pub settings: &'a Settings,
    pub inputs: &'a Inputs,
    pub tokens: &'a [String],
    pub steps: Vec<Step>,
    /// The gap of each check that was measured.
    measured: BTreeMap<&'static str, Gap>,
}

/// The headings of the checks in `texts.txt`, in the order in which they are shown.
const CHECKS: [&str; 10] = [
    "rows sum to 1",
    "nothing hidden is seen",
    "step by step equals one call",
    LAYER,
    "step by step equals the layers",
    "permuted tokens give permuted outputs",
    "scores depend on the distance alone",
    "the cached row has the same bits",
    "step by step equals the gradients of one call",
    "single precision suffices",
];

/// The check whose name begins with the number of heads.
pub(crate) const LAYER: &str = "heads equal the layer";

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
        let section = section(heading);
        let text = |name| text(section, name);
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

/// The lines that stand in `texts.txt` under `heading`.
fn section(heading: &str) -> &'static str {
    let heading = format!("[{heading}]\n");
    let mut sections = include_str!("texts.txt").split("\n\n");
    let section = sections.find_map(|section| section.strip_prefix(&heading));
    debug_assert!(section.is_some(), "texts.txt has no {heading}");
    section.unwrap_or_default()
}

/// The line of a section that begins with `name`, empty if there is none.
fn text(section: &'static str, name: &str) -> &'static str {
    section.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default()
}

/// The rows and columns of a step.
#[derive(Clone, Copy)]
pub(crate) struct Axes<'a> {
    pub rows: &'a [String],
    pub cols: &'a [String],
    pub of: RowRole,
    /// The token of the first row.
    pub first: usize,
}

impl<'a> Axes<'a> {
    pub fn new(of: RowRole, rows: &'a [String], cols: &'a [String]) -> Self {
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
            measured: BTreeMap::new(),
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

    /// Measures a check. Of several gaps the worst counts.
    pub fn measure(&mut self, check: &'static str, gap: Gap) {
        debug_assert!(CHECKS.contains(&check), "CHECKS has no {check}");
        let gap = self.measured.get(check).map_or(gap, |before| before.worse(gap));
        self.measured.insert(check, gap);
    }

    /// The checks of all measurements, and of all steps against their references.
    pub fn checks(&mut self) -> Vec<Check> {
        // A given matrix is only rounded, and its bound is that rounding, so it is not checked.
        let computed = self.steps.iter().filter(|step| !step.formula.is_empty());
        let gaps = computed.map(|step| Gap::from_exact(&step.matrix, &step.exact, &step.bounds));
        if let Some(gap) = gaps.reduce(Gap::worse) {
            self.measure("single precision suffices", gap);
        }
        let meaning = |check: &str| text(section(check), "meaning: ");
        let check = |check: &&str| {
            let Gap { value, limit } = *self.measured.get(check)?;
            let name = match (*check, self.inputs.heads()) {
                (LAYER, 1) => "one head equals the layer".to_owned(),
                (LAYER, n) => format!("{} {LAYER}", COUNTS.get(n).copied().unwrap_or("all")),
                (check, _) => check.to_owned(),
            };
            let meaning = match limit {
                Some(_) => meaning(check).to_owned(),
                None => format!("{} {}", meaning(check), meaning("no limit")),
            };
            Some(Check { name, value, limit, meaning })
        };
        CHECKS.iter().filter_map(check).collect()
    }
}

const COUNTS: [&str; 9] = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight"];

/// "t0", "t1", …
pub(crate) fn labels(letter: &str, n: usize) -> Vec<String> {
    (0..n).map(|i| format!("{letter}{i}")).collect()
}
