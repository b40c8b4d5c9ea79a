//! Parts of the room for a page that shows one head of a model.

use std::sync::Arc;

use egui::{Context, Ui};
use regard_models::{Change, Which};

use super::super::{State, Version};
use super::ModelRoom;
use crate::colors::Look;
use crate::heads::Surveyed;

impl ModelRoom {
    /// Takes the results of the threads and starts what is missing.
    pub(crate) fn follow(&mut self, ctx: &Context, state: &mut State) {
        self.exchange(ctx, state);
    }

    /// The attention of the run, and its changes.
    pub(crate) fn changed(&self) -> Option<(&Arc<Surveyed>, &[Change])> {
        let outcome = self.outcome()?;
        Some((outcome.version(Version::Changed, Which::Only), &outcome.request.changes))
    }

    /// Shows the weights of the chosen head.
    pub(crate) fn show_weights(&mut self, ui: &mut Ui, state: &mut State, look: Look) {
        let large = &mut self.panes[0].large;
        large.progress(ui);
        large.show(ui, &mut state.heads, look);
    }
}
