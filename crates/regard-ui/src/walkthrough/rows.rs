//! The arrangement of steps side by side.

use regard_walkthrough::{Kind, Quantity, RowRole, Step};

use super::ReadingMode;
use super::WalkthroughState;

/// The maximum number of steps in a row of the outline: the steps of heads are narrow.
const MOST: usize = 4;
const MOST_OF_HEADS: usize = 6;

/// The rows of the page: the same step of all heads is one row, and any other step is a row.
pub(crate) fn of_page(steps: &[Step]) -> Vec<Vec<&Step>> {
    let mut rows: Vec<Vec<&Step>> = Vec::new();
    for block in steps.chunk_by(|a, b| a.key.head().is_some() && b.key.head().is_some()) {
        let first = rows.len();
        for step in block {
            let is_same = |row: &&mut Vec<&Step>| {
                row.iter().all(|other| other.key.quantity == step.key.quantity)
            };
            match rows[first..].iter_mut().find(is_same).filter(|_| step.key.head().is_some()) {
                Some(row) => row.push(step),
                None => rows.push(vec![step]),
            }
        }
    }
    rows
}

/// The number of steps whose numbers are shown. The guided path asks before it shows those of the next row.
pub(crate) fn shown(state: &WalkthroughState, steps: &[Step]) -> usize {
    if state.reading != ReadingMode::Guided {
        return steps.len();
    }
    let rows = of_page(steps);
    let rows = &rows[..(state.at + usize::from(state.revealed)).min(rows.len())];
    let place = |step: &&Step| steps.iter().position(|s| s.key == step.key);
    rows.iter().flatten().filter_map(place).max().map_or(0, |place| place + 1)
}

/// The rows of the outline: steps of one stage share a row, up to a maximum number.
pub(crate) fn of_outline(steps: &[Step]) -> Vec<Vec<&Step>> {
    let mut rows: Vec<Vec<&Step>> = Vec::new();
    for next in of_page(steps) {
        match rows.last_mut() {
            Some(row)
                if row.len() + next.len() <= most(row[0])
                    && stage(row[0]) == stage(next[0])
                    && row[0].key.section == next[0].key.section =>
            {
                row.extend(next);
            }
            _ => rows.push(next),
        }
    }
    rows
}

fn most(step: &Step) -> usize {
    if step.key.head().is_some() { MOST_OF_HEADS } else { MOST }
}

/// A stage of attention, from tokens to output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Given,
    Learned,
    /// Queries, keys and values.
    Projected,
    Scores,
    Weights,
    Output,
    /// All other steps.
    Other,
}

fn stage(step: &Step) -> Phase {
    match step.key.quantity {
        Quantity::Q | Quantity::K | Quantity::V => Phase::Projected,
        Quantity::Output | Quantity::CausalOutput | Quantity::BlockOutput => Phase::Output,
        _ if step.formula.is_empty() && step.rows == RowRole::Other => Phase::Learned,
        _ if step.formula.is_empty() => Phase::Given,
        _ if step.kind == Kind::Weights => Phase::Weights,
        _ if step.key.quantity.is_scores() => Phase::Scores,
        _ => Phase::Other,
    }
}

/// The final weights and outputs of the example.
pub(crate) fn results(steps: &[Step]) -> Vec<&Step> {
    let rows = of_outline(steps);
    let last = |wanted| rows.iter().rfind(|row| stage(row[0]) == wanted).cloned();
    [last(Phase::Weights), last(Phase::Output)].into_iter().flatten().flatten().collect()
}

/// Whether a step is a result to keep in view: weights and outputs.
pub(crate) fn is_result(step: &Step) -> bool {
    matches!(stage(step), Phase::Weights | Phase::Output)
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_walkthrough::{Example, Settings, Walkthrough};

    fn keys(rows: &[Vec<&Step>]) -> Vec<String> {
        let row = |row: &Vec<&Step>| {
            row.iter().map(|step| step.key.to_string()).collect::<Vec<_>>().join(" ")
        };
        rows.iter().map(row).collect()
    }

    #[test]
    fn the_outline_reads_from_tokens_to_output() {
        let walk = Walkthrough::run(Example::MathOfAttention, &Settings::default()).unwrap();
        let rows = keys(&of_outline(&walk.steps));
        let expected =
            ["x", "w_q w_k w_v", "q k v", "raw_scores scaled_scores", "weights", "output"];
        assert_eq!(rows, expected);
    }

    #[test]
    fn heads_stand_side_by_side() {
        let walk = Walkthrough::run(Example::TwoHeads, &Settings::default()).unwrap();
        let rows = keys(&of_page(&walk.steps));
        assert!(rows.contains(&"head_1.weights head_2.weights".to_owned()), "{rows:?}");
        assert!(rows.contains(&"concatenated".to_owned()) && rows.contains(&"q".to_owned()));
        for &example in Example::ALL {
            let walk = Walkthrough::run(example, &Settings::default()).unwrap();
            for rows in [of_page(&walk.steps), of_outline(&walk.steps)] {
                assert_eq!(rows.concat().len(), walk.steps.len(), "{}", example.name());
            }
        }
    }
}
