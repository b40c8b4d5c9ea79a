//! The exports of the room: the matrix of the open view, and the sweep.

use std::sync::Arc;

use regard_figure::Matrix;

use super::state::View;
use super::{ModelRoom, State, sweep};
use crate::colors::Look;
use crate::heads::{Large, Surveyed};

impl ModelRoom {
    /// The matrix that the middle of the room shows. The logit lens shows words, not a matrix.
    pub(crate) fn shown(&self, state: &State, look: Look) -> Option<Matrix> {
        match state.view {
            View::Attention => self.matrix(look),
            View::Attribution => self.attributed.value().map(|parts| parts.matrix(look)),
            View::Patches => self.patches.value().map(|effects| effects.matrix(look)),
            View::Experts => self.experts.value()?.matrix(state.mixture, look),
            View::Lens => None,
        }
    }

    /// The matrix that is shown large: that of run A, if two stand side by side.
    pub(crate) fn large(&self) -> &Large {
        &self.panes[0].large
    }

    /// The heads whose attention is shown.
    pub(crate) fn shown_heads(&self, state: &State) -> Option<Arc<Surveyed>> {
        self.heads(state).filter(|_| state.view == View::Attention)
    }

    /// The change of the likeliest token's logit by each head, if each is ablated in turn.
    pub(crate) fn swept(&self, look: Look) -> Option<Matrix> {
        sweep::matrix(self.sweep.value()?, self.next(), look)
    }
}
