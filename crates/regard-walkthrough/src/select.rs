//! Related cells of all steps: a query, its keys, and their rows and columns.

use crate::{Quantity, RowRole, Step, StepKey, Walkthrough};

/// A query and some keys, by the numbers of their tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The token of the query.
    pub query: Option<usize>,
    /// The tokens of the keys and values.
    pub keys: Vec<usize>,
}

/// The rows and columns to mark in a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The row of the query.
    pub query: Option<usize>,
    /// The rows of keys.
    pub keys: Vec<usize>,
    /// The columns of keys, in scores and weights.
    pub cols: Vec<usize>,
}

impl Walkthrough {
    /// A token as a query, with all keys that it sees.
    ///
    /// ```
    /// use regard_walkthrough::{Example, Quantity, Settings, Walkthrough};
    /// let walk = Walkthrough::run(Example::TheCatSat, &Settings { causal: true, ..Settings::default() })?;
    /// let cat = walk.select_token(1);
    /// assert_eq!((cat.query, &cat.keys[..]), (Some(1), &[0, 1][..])); // "cat" sees "The" and itself
    /// let marks = walk.step(Quantity::Weights).expect("there are weights").marks(&cat);
    /// assert_eq!((marks.query, &marks.cols[..]), (Some(1), &[0, 1][..]));
    /// # Ok::<(), regard_walkthrough::Error>(())
    /// ```
    pub fn select_token(&self, token: usize) -> Selection {
        let keys = self
            .steps
            .iter()
            .filter(|s| s.rows == RowRole::Pairs)
            .map(|s| s.matrix.cols())
            .max()
            .unwrap_or(0);
        let seen = if self.hides_what_follows() { keys.min(token + 1) } else { keys };
        Selection { query: Some(token), keys: (0..seen).collect() }
    }

    /// The tokens of a cell. A score belongs to one query and one key, an output to a query and all keys that it sees, a value to
    /// a key. Empty if there is no such cell or if it does not belong to tokens.
    ///
    /// ```
    /// use regard_walkthrough::{Example, Quantity, Settings, Walkthrough};
    /// let walk = Walkthrough::run(Example::TheCatSat, &Settings::default())?;
    /// let selection = walk.select(Quantity::Weights, 1, 2);
    /// assert_eq!((selection.query, &selection.keys[..]), (Some(1), &[2][..]));
    /// assert_eq!(walk.step(Quantity::V).expect("there are values").marks(&selection).keys, [2]);
    /// assert_eq!(walk.select(Quantity::WQ, 0, 0), Default::default());
    /// # Ok::<(), regard_walkthrough::Error>(())
    /// ```
    pub fn select(&self, step: impl Into<StepKey>, row: usize, col: usize) -> Selection {
        let Some(step) = self.step(step).filter(|s| row < s.matrix.rows() && col < s.matrix.cols())
        else {
            return Selection::default();
        };
        let token = step.first_token + row;
        match step.rows {
            RowRole::Tokens | RowRole::Queries => self.select_token(token),
            RowRole::Keys => Selection { query: None, keys: vec![token] },
            RowRole::Pairs => Selection { query: Some(token), keys: vec![col] },
            RowRole::Other => Selection::default(),
        }
    }

    fn hides_what_follows(&self) -> bool {
        self.steps.iter().any(|s| s.key.quantity == Quantity::MaskedScores)
    }
}

impl Step {
    /// The rows and columns of this step that belong to a selection.
    pub fn marks(&self, selection: &Selection) -> Marks {
        let (rows, cols) = self.matrix.shape();
        let row = |token: usize| token.checked_sub(self.first_token).filter(|row| *row < rows);
        let query = selection.query.and_then(row);
        let keys = || selection.keys.iter().filter_map(|k| row(*k)).collect();
        match self.rows {
            RowRole::Other => Marks::default(),
            RowRole::Queries => Marks { query, ..Marks::default() },
            RowRole::Tokens => Marks { query, keys: keys(), cols: Vec::new() },
            RowRole::Keys => Marks { query: None, keys: keys(), cols: Vec::new() },
            RowRole::Pairs => {
                let cols = selection.keys.iter().copied().filter(|k| *k < cols).collect();
                Marks { query, keys: Vec::new(), cols }
            }
        }
    }
}
