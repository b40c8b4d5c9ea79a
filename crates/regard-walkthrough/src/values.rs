//! The numbers from which a walkthrough is computed: the given matrices, and the cells that were typed over.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::input::{Edit, Input};
use crate::role::Role;
use crate::{Matrix, Quantity, Section, StepKey};

/// Tokens, heads and matrices.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    pub tokens: Vec<String>,
    pub heads: usize,
    /// Whether cells of Q, K and V can be typed over.
    pub projections_are_editable: bool,
    /// The matrices of the example.
    given: Arc<[Input]>,
    /// The present matrices. Each is shared with `given` and with clones until it changes, so earlier states for undo are
    /// cheap.
    now: Vec<Arc<Matrix<f64>>>,
    /// The cells of Q, K and V that were typed over: by quantity, row and column.
    typed: BTreeMap<(Quantity, usize, usize), f64>,
}

impl PartialEq for Values {
    fn eq(&self, other: &Self) -> bool {
        self.tokens == other.tokens
            && self.heads == other.heads
            && self.typed == other.typed
            && self.now.iter().zip(&other.now).all(|(a, b)| is_same(a, b))
    }
}

/// Whether the numbers are equal. Shared ones are not compared.
fn is_same(a: &Arc<Matrix<f64>>, b: &Arc<Matrix<f64>>) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

impl Values {
    pub fn new(tokens: Vec<String>, heads: usize, editable: bool, given: Vec<Input>) -> Self {
        let now = given.iter().map(|input| Arc::clone(&input.values)).collect();
        let given = given.into();
        Self {
            tokens,
            heads,
            projections_are_editable: editable,
            given,
            now,
            typed: BTreeMap::new(),
        }
    }

    /// The keys of the matrices, in the order in which they are shown.
    pub fn keys(&self) -> impl Iterator<Item = StepKey> {
        self.given.iter().map(|input| input.key)
    }

    /// The present matrix of a key.
    pub fn matrix(&self, key: impl Into<StepKey>) -> Option<&Matrix<f64>> {
        self.input(key).map(|(_, now)| now)
    }

    /// The matrix of the example, and the present one.
    pub fn input(&self, key: impl Into<StepKey>) -> Option<(&Input, &Matrix<f64>)> {
        let i = self.position(key.into())?;
        Some((self.given.get(i)?, self.now.get(i)?.as_ref()))
    }

    /// The number of the example in a cell.
    pub fn given(&self, key: StepKey, row: usize, col: usize) -> Option<f64> {
        let given = &self.given.get(self.position(key)?)?.values;
        (row < given.rows() && col < given.cols()).then(|| given.get(row, col))
    }

    /// Changes a cell that exists. Returns its previous number; `None` stands for the projection's.
    pub fn set(&mut self, key: StepKey, row: usize, col: usize, value: f64) -> Option<f64> {
        match self.role(key) {
            Some(role) => self.typed.insert((role.quantity(), row, col), value),
            None => self.cell(key, row, col).map(|cell| core::mem::replace(cell, value)),
        }
    }

    /// Restores a cell to its number before any typing.
    pub fn restore(&mut self, key: StepKey, row: usize, col: usize) {
        if let Some(role) = self.role(key) {
            self.typed.remove(&(role.quantity(), row, col));
        } else if let Some(given) = self.given(key, row, col)
            && let Some(cell) = self.cell(key, row, col)
        {
            *cell = given;
        }
    }

    /// Restores all numbers.
    pub fn reset(&mut self) {
        self.typed.clear();
        self.now = self.given.iter().map(|input| Arc::clone(&input.values)).collect();
    }

    /// Whether a cell differs from the example, or was typed over.
    pub fn is_edited(&self, key: StepKey, row: usize, col: usize) -> bool {
        let is_typed = |role: Role| self.typed.contains_key(&(role.quantity(), row, col));
        let differs = |given| self.matrix(key).is_some_and(|now| now.get(row, col) != given);
        self.role(key).is_some_and(is_typed) || self.given(key, row, col).is_some_and(differs)
    }

    /// Whether any number differs from the example, or was typed over.
    pub fn is_changed(&self) -> bool {
        !self.typed.is_empty()
            || self.given.iter().zip(&self.now).any(|(given, now)| !is_same(&given.values, now))
    }

    /// All cells that differ from the example, and those of Q, K and V that were typed over.
    pub fn edits(&self) -> Vec<Edit> {
        let mut edits = Vec::new();
        let both = self.given.iter().zip(&self.now);
        for (given, now) in both.filter(|(given, now)| !is_same(&given.values, now)) {
            let cells = given.values.as_slice().iter().zip(now.as_slice()).enumerate();
            for (i, (_, value)) in cells.filter(|(_, (before, now))| before != now) {
                let (row, col) = (i / now.cols(), i % now.cols());
                edits.push(Edit { matrix: given.key, row, col, value: *value });
            }
        }
        let typed = self.typed.iter().map(|((quantity, row, col), value)| Edit {
            matrix: (*quantity).into(),
            row: *row,
            col: *col,
            value: *value,
        });
        edits.extend(typed);
        edits
    }

    /// Whether any cell of Q, K or V was typed over.
    pub fn has_typed_projections(&self) -> bool {
        !self.typed.is_empty()
    }

    /// The cells of Q, K or V that were typed over.
    pub fn typed(&self, role: Role) -> impl Iterator<Item = ([usize; 2], f64)> {
        let its = self.typed.iter().filter(move |((quantity, ..), _)| *quantity == role.quantity());
        its.map(|((_, row, col), value)| ([*row, *col], *value))
    }

    /// The role that a key stands for, if the tokens are projected to it and its cells can be typed over.
    pub fn role(&self, key: StepKey) -> Option<Role> {
        let is_main = key.section == Section::Main;
        Role::of(key.quantity).filter(|role| is_main && self.projected_shape(*role).is_some())
    }

    /// The shape of Q, K or V, if the tokens are projected to it and its cells can be typed over.
    pub fn projected_shape(&self, role: Role) -> Option<(usize, usize)> {
        let cols = self.matrix(role.weights()).filter(|_| self.projections_are_editable)?.cols();
        // In cross-attention, keys and values belong to another text.
        let memory = self.matrix(Quantity::Memory).filter(|_| role != Role::Query);
        Some((memory.map_or(self.tokens.len(), Matrix::rows), cols))
    }

    fn position(&self, key: StepKey) -> Option<usize> {
        self.given.iter().position(|input| input.key == key)
    }

    fn cell(&mut self, key: StepKey, row: usize, col: usize) -> Option<&mut f64> {
        let i = self.position(key)?;
        let matrix = Arc::make_mut(self.now.get_mut(i)?);
        (row < matrix.rows() && col < matrix.cols()).then(|| &mut matrix.row_mut(row)[col])
    }
}
