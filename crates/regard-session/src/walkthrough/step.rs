//! The steps of an example as matrices.

use std::sync::Arc;

use regard_figure::{Label, LabelledMatrix, Look, Palette, largest};
use regard_walkthrough::{Kind, Step, StepKey, Walkthrough};

/// The matrix of the step with this key. Without such a step, it is that of the last weights, or else of the last step.
pub fn of_walkthrough(
    walkthrough: &Walkthrough,
    key: Option<StepKey>,
    look: Look,
) -> Option<LabelledMatrix> {
    let steps = &walkthrough.steps;
    let weights = || steps.iter().rev().find(|step| step.kind == Kind::Weights);
    let step =
        key.and_then(|key| walkthrough.step(key)).or_else(weights).or_else(|| steps.last())?;
    Some(of_step(walkthrough, step, look))
}

/// The matrix of a step of an example.
pub fn of_step(walkthrough: &Walkthrough, step: &Step, look: Look) -> LabelledMatrix {
    let (rows, cols) = step.matrix.shape();
    // Every row and column needs a label, even if the step has fewer.
    let labels = |labels: &[String], n: usize| -> Vec<Label> {
        (0..n).map(|i| Label::plain(labels.get(i).map_or("", String::as_str))).collect()
    };
    let attention = rows == cols
        && step.row_labels == walkthrough.tokens
        && step.col_labels == walkthrough.tokens;
    LabelledMatrix {
        title: format!("{}: {}", walkthrough.example.title(), step.name),
        name: step.key.to_string(),
        values: Arc::new(step.matrix.as_slice().to_vec()),
        masked: f32::NEG_INFINITY,
        rows: labels(&step.row_labels, rows),
        cols: labels(&step.col_labels, cols),
        axes: if attention { ["query", "key"] } else { ["", ""] },
        palette: palette(step.kind, step.matrix.as_slice(), look),
    }
}

/// The palette of a step of this kind, in the look that the user chose. Weights go from 0 to 1.
pub fn palette(kind: Kind, numbers: &[f32], look: Look) -> Palette {
    match kind {
        Kind::Weights => Palette::weights(1.0, look),
        Kind::Table => Palette::plain(look),
        _ => Palette::signed(largest(numbers), look),
    }
}
