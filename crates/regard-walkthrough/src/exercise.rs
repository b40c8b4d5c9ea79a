//! Exercises to solve before a step's numbers are shown. The solutions follow from the numbers.

use crate::number::number;
use crate::{Kind, Matrix, Quantity, Step, StepKey, Walkthrough};

/// An exercise about a step, with its solution.
#[derive(Clone, Debug, PartialEq)]
pub struct Exercise {
    /// The question.
    pub question: String,
    /// The solution, with the numbers of the example.
    pub solution: String,
    /// The possible answers, and which of them are right.
    pub options: Answers,
}

/// The possible answers to a [`Exercise`].
#[derive(Clone, Debug, PartialEq)]
pub enum Answers {
    /// One of these choices.
    Choice {
        /// The choices.
        of: Vec<String>,
        /// The indices of the right ones.
        right: Vec<usize>,
    },
    /// This number.
    Number(f64),
}

impl Answers {
    /// Whether an answer is right: a choice in its words, or a number that differs by at most 2 %, so that two digits are
    /// enough. `None` if the text is not an answer.
    ///
    /// ```
    /// use regard_walkthrough::Answers;
    /// let number = Answers::Number(-0.533);
    /// assert_eq!(["−0.53", "-0,53", "0.53", "much"].map(|said| number.accepts(said)), [Some(true), Some(true), Some(false), None]);
    /// let choice = Answers::Choice { of: vec!["I".into(), "love".into()], right: vec![1] };
    /// assert_eq!(["love", "I", "robotics"].map(|said| choice.accepts(said)), [Some(true), Some(false), None]);
    /// ```
    pub fn accepts(&self, said: &str) -> Option<bool> {
        match self {
            Self::Choice { of, right } => {
                let mut places = (0..of.len()).filter(|i| of[*i] == said).peekable();
                places.peek()?;
                Some(places.any(|i| right.contains(&i)))
            }
            Self::Number(value) => {
                let said: f64 = said.trim().replace('−', "-").replace(',', ".").parse().ok()?;
                Some(said == *value || (said - value).abs() <= 0.02 * value.abs())
            }
        }
    }
}

impl Walkthrough {
    /// An exercise to solve before a step's numbers are shown. `None` if there is no such step, or if its numbers are given,
    /// or computed from what no step shows.
    ///
    /// ```
    /// use regard_walkthrough::{Example, Quantity, Settings, Walkthrough};
    /// let walk = Walkthrough::run(Example::ILoveRobotics, &Settings::default())?;
    /// let exercise = walk.exercise(Quantity::Weights).expect("there are weights");
    /// assert_eq!(exercise.question, "Which key gets the largest weight of “I”?");
    /// assert_eq!(exercise.solution, "“I” gets 0.533, which is more than half.");
    /// assert_eq!([exercise.options.accepts("I"), exercise.options.accepts("love")], [Some(true), Some(false)]);
    /// # Ok::<(), regard_walkthrough::Error>(())
    /// ```
    pub fn exercise(&self, step: impl Into<StepKey>) -> Option<Exercise> {
        let step = self.step(step)?;
        let (rows, cols) = step.matrix.shape();
        if rows == 0 || cols == 0 || step.formula.is_empty() {
            return None;
        }
        // Numbers that are measured, or computed from what no step shows, cannot be found by hand.
        let expr = step.expr(rows / 2, 0)?;
        expr.operands().iter().find(|operand| operand.cell.is_some())?;
        let exercise = match step.key.quantity {
            _ if step.kind == Kind::Weights => of_weights(step),
            Quantity::ScaledScores => self.of_scaled(step).unwrap_or_else(|| of_cell(step)),
            Quantity::MaskedScores => of_masked(step),
            _ if step.key.quantity.is_scores() => of_scores(step),
            Quantity::Output | Quantity::CausalOutput => {
                self.of_output(step).unwrap_or_else(|| of_cell(step))
            }
            _ => of_cell(step),
        };
        Some(exercise)
    }

    fn of_scaled(&self, step: &Step) -> Option<Exercise> {
        let raw = self.step(StepKey::new(step.key.section, Quantity::RawScores))?;
        let row = decided(&step.matrix);
        let (before, after) = (largest(raw.matrix.row(row)), largest(step.matrix.row(row)));
        let value = number(step.matrix.get(row, *after.first()?).into());
        let names = names(&step.col_labels, &after);
        let question = format!(
            "Does the division change which key has the largest score of “{}”?",
            label(&step.row_labels, row)
        );
        let solution = if before == after {
            format!(
                "No: {names} stays the largest, with {value}. All scores are divided by the same number."
            )
        } else {
            format!("Yes: rounding makes {names} the largest, with {value}.")
        };
        let of = ["Yes", "No"].map(str::to_owned).to_vec();
        let right = vec![usize::from(before == after)];
        Some(Exercise { question, solution, options: Answers::Choice { of, right } })
    }

    /// Asks which value an output is closest to.
    fn of_output(&self, step: &Step) -> Option<Exercise> {
        let of = |quantity| self.step(StepKey::new(step.key.section, quantity));
        let values = of(Quantity::V).or_else(|| self.step(Quantity::AllValues))?;
        let weights = if step.key.quantity == Quantity::CausalOutput {
            of(Quantity::CausalWeights)?
        } else {
            of(Quantity::Weights)?
        };
        let fits = values.matrix.cols() == step.matrix.cols()
            && values.matrix.rows() == weights.matrix.cols()
            && weights.matrix.rows() == step.matrix.rows();
        if !fits {
            return None;
        }
        let row = decided(&weights.matrix);
        let distance = |j: usize| -> f32 {
            let both = step.matrix.row(row).iter().zip(values.matrix.row(j));
            both.map(|(a, b)| (a - b).powi(2)).sum::<f32>().sqrt()
        };
        let nearest =
            (0..values.matrix.rows()).min_by(|a, b| distance(*a).total_cmp(&distance(*b)))?;
        let question = format!(
            "The output of “{}” is a mean of the values. Which token's value is it closest to?",
            label(&step.row_labels, row)
        );
        let solution = format!(
            "To that of “{}”, at a distance of {}: its weight is {}.",
            label(&values.row_labels, nearest),
            number(distance(nearest).into()),
            number(weights.matrix.get(row, nearest).into()),
        );
        let options = Answers::Choice { of: values.row_labels.clone(), right: vec![nearest] };
        Some(Exercise { question, solution, options })
    }
}

fn of_weights(step: &Step) -> Exercise {
    let row = decided(&step.matrix);
    let most = largest(step.matrix.row(row));
    let weight = most.first().map_or(0.0, |j| step.matrix.get(row, *j));
    let gets = if most.len() == 1 { "gets" } else { "get" };
    let half = if weight > 0.5 { "more than half" } else { "not more than half" };
    let each = if most.len() == 1 { "" } else { " each" };
    Exercise {
        question: format!(
            "Which key gets the largest weight of “{}”?",
            label(&step.row_labels, row)
        ),
        solution: format!(
            "{} {gets} {}{each}, which is {half}.",
            names(&step.col_labels, &most),
            number(weight.into())
        ),
        options: Answers::Choice { of: step.col_labels.clone(), right: most },
    }
}

fn of_scores(step: &Step) -> Exercise {
    let row = decided(&step.matrix);
    let most = largest(step.matrix.row(row));
    let arithmetic = most.first().and_then(|j| step.explain(row, *j)).unwrap_or_default();
    Exercise {
        question: format!(
            "Which key does the query of “{}” match best: which dot product is the largest?",
            label(&step.row_labels, row)
        ),
        solution: format!("{}: {arithmetic}", names(&step.col_labels, &most)),
        options: Answers::Choice { of: step.col_labels.clone(), right: most },
    }
}

fn of_masked(step: &Step) -> Exercise {
    let row = step.matrix.rows() / 2;
    let seen = step.matrix.row(row).iter().filter(|score| **score > f32::NEG_INFINITY).count();
    Exercise {
        question: format!("How many keys does “{}” still see?", label(&step.row_labels, row)),
        solution: format!(
            "{seen} of {}: itself and the tokens before it. The other scores are −∞.",
            step.matrix.cols()
        ),
        options: Answers::Number(seen as f64),
    }
}

/// Asks for one cell, computed by hand.
fn of_cell(step: &Step) -> Exercise {
    let (row, col) = (step.matrix.rows() / 2, 0);
    Exercise {
        question: format!(
            "Which number stands in row “{}”, column “{}”?",
            label(&step.row_labels, row),
            label(&step.col_labels, col)
        ),
        solution: step.explain(row, col).unwrap_or_default(),
        options: Answers::Number(step.matrix.get(row, col).into()),
    }
}

/// The row whose largest number is farthest above its second largest.
fn decided(matrix: &Matrix) -> usize {
    let margin = |i: usize| {
        let mut row = matrix.row(i).to_vec();
        row.sort_by(|a, b| b.total_cmp(a));
        match row[..] {
            [first, second, ..] if second > f32::NEG_INFINITY => first - second,
            _ => 0.0,
        }
    };
    // Of equal rows the first one counts.
    (0..matrix.rows()).rev().max_by(|a, b| margin(*a).total_cmp(&margin(*b))).unwrap_or(0)
}

/// The columns of the largest number.
fn largest(row: &[f32]) -> Vec<usize> {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    (0..row.len()).filter(|j| row[*j] == most).collect()
}

fn label(labels: &[String], i: usize) -> &str {
    labels.get(i).map_or("", String::as_str)
}

/// "“I” and “love”".
fn names(labels: &[String], which: &[usize]) -> String {
    let names: Vec<String> = which.iter().map(|j| format!("“{}”", label(labels, *j))).collect();
    names.join(" and ")
}
