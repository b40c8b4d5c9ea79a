//! Q, K and V, which follow from X and the weights, and can be typed over all the same.

use super::Inputs;
use crate::project::Role;
use crate::{Example, Matrix};

impl Inputs {
    /// The keys of what X is projected to, `q`, `k` and `v`, where steps with these keys can be typed over. In `gradients`
    /// they cannot: the way back to X and the weights leads through all of their cells.
    pub fn projected_keys(&self) -> impl Iterator<Item = &str> {
        Role::ALL.into_iter().filter(|role| self.is_projected(*role)).map(|role| role.key())
    }

    /// Whether X is projected to it, and what comes out can be typed over.
    pub(crate) fn is_projected(&self, role: Role) -> bool {
        self.projected_shape(role).is_some()
    }

    /// The cells of Q, K or V that were typed over.
    pub(crate) fn typed(&self, role: Role) -> impl Iterator<Item = ([usize; 2], f64)> {
        let its = self.typed.iter().filter(move |((key, ..), _)| *key == role.key());
        its.map(|((_, row, col), value)| ([*row, *col], *value))
    }

    /// Whether any cell of Q, K or V was typed over.
    pub(crate) fn has_typed_projections(&self) -> bool {
        !self.typed.is_empty()
    }

    pub(super) fn role(&self, key: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.key() == key && self.is_projected(*role))
    }

    pub(super) fn projected_shape(&self, role: Role) -> Option<(usize, usize)> {
        if self.example == Example::Gradients {
            return None;
        }
        let cols = self.matrix(role.weights())?.cols();
        // In cross-attention, keys and values are those of another text.
        let memory = self.matrix("memory").filter(|_| !matches!(role, Role::Query));
        Some((memory.map_or(self.tokens.len(), Matrix::rows), cols))
    }
}
