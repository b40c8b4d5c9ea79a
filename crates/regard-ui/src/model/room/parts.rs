//! Parts of the room for a page that shows one head of a model.

use std::sync::Arc;

use egui::{Context, Ui};
use regard_models::Which;

use super::super::{Next, State, Version, next, strip};
use super::ModelRoom;
use crate::colors::Look;
use crate::heads::Surveyed;

impl ModelRoom {
    /// Takes the results of the threads and starts what is missing.
    pub(crate) fn follow(&mut self, ctx: &Context, state: &mut State) {
        self.exchange(ctx, state);
    }

    /// The attention of the run without changes.
    pub(crate) fn unchanged(&self) -> Option<&Arc<Surveyed>> {
        self.outcome().map(|outcome| outcome.heads(Which::Only))
    }

    /// Shows the tokens, shaded by the attention of one of them.
    pub(crate) fn show_tokens(&self, ui: &mut Ui, state: &mut State, look: Look) {
        if let Some(heads) = self.heads(state) {
            let large = Some(&self.panes[0].large);
            strip::show(ui, heads.labels(), Which::Only, large, &mut state.heads, look);
        }
    }

    /// Shows the weights of the chosen head.
    pub(crate) fn show_weights(&mut self, ui: &mut Ui, state: &mut State, look: Look) {
        let large = &mut self.panes[0].large;
        large.progress(ui);
        large.show(ui, &mut state.heads, look);
    }

    /// Shows the tokens that may come next.
    pub(crate) fn show_next(&self, ui: &mut Ui, most: usize) {
        let list = &self.next()[..most.min(self.next().len())];
        next::show(ui, self.outcome(), list, Version::Changed, self.predicts(), false);
    }

    /// The likeliest token, with its probabilities without and with the changes.
    pub(crate) fn likeliest(&self) -> Option<&Next> {
        self.next().iter().max_by(|a, b| a.before.total_cmp(&b.before))
    }
}
