//! Which token is looked from and which is looked at: the rows that are marked through all steps.

use regard_walkthrough::{Step, Walkthrough};

use super::State;

/// What the pointed cell is about, by the labels of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Focus<'a> {
    /// Whose query it is.
    pub query: Option<&'a str>,
    /// Whose key and value it is.
    pub key: Option<&'a str>,
}

impl<'a> Focus<'a> {
    /// What the pointed cell is about.
    pub fn new(state: &State, walkthrough: &'a Walkthrough) -> Self {
        let Some(at) = state.pointed() else { return Self::default() };
        let Some(step) = walkthrough.step(&at.step) else { return Self::default() };
        let row = step.row_labels.get(at.cell.0).map(String::as_str);
        let col = step.col_labels.get(at.cell.1).map(String::as_str);
        match Rows::of(step) {
            Rows::Pairs => Self { query: row, key: col },
            Rows::Queries => Self { query: row, key: None },
            Rows::Keys => Self { query: None, key: row },
        }
    }

    /// The rows to mark in a step: the query's and the key's.
    pub fn rows(self, step: &Step) -> [Option<usize>; 2] {
        let row = |name: Option<&str>| step.row_labels.iter().position(|label| Some(label.as_str()) == name);
        match Rows::of(step) {
            Rows::Keys => [None, row(self.key)],
            Rows::Pairs | Rows::Queries => [row(self.query), None],
        }
    }
}

/// What the rows of a step are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Queries, and the columns are keys: scores and weights.
    Pairs,
    /// Queries, or whole tokens.
    Queries,
    /// Keys or values.
    Keys,
}

impl Rows {
    /// As the step's key says: `head_1.k` has keys.
    pub fn of(step: &Step) -> Self {
        match step.key.rsplit('.').next().unwrap_or_default() {
            "k" | "v" => Self::Keys,
            name if name.ends_with("scores") || name.ends_with("weights") => Self::Pairs,
            _ => Self::Queries,
        }
    }
}
