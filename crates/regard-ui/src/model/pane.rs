//! A run on the screen: all its heads as small pictures, or a large one.

use std::sync::Arc;

use egui::{Context, Ui};
use regard_heads::{HeadId, Part};

use super::State;
use super::overlay::Overlay;
use crate::colors::Look;
use crate::heads::{Contents, Effects, Large, Surveyed, Thumbnails};
use crate::work::Background;

/// The views of one run, or of a difference of two.
#[derive(Default)]
pub(super) struct Pane {
    pub(crate) large: Large,
    pub(crate) overlay: Overlay,
    grid: Thumbnails,
    /// The attention that the grid shows.
    in_grid: Option<Arc<Surveyed>>,
}

impl Pane {
    /// Takes the matrix that has been computed, and asks for the next one. `None` shows no matrix.
    pub(crate) fn exchange(
        &mut self,
        background: &Arc<Background>,
        ctx: &Context,
        heads: Option<&Arc<Surveyed>>,
        part: Option<Part>,
    ) -> Result<(), String> {
        self.large.exchange(background, ctx, heads.zip(part))
    }

    /// Names the run. A single run has an empty name.
    pub(crate) fn call(&mut self, name: &str) {
        name.clone_into(&mut self.large.of);
        name.clone_into(&mut self.grid.of);
    }

    /// The side of the grid that is the layers, in words.
    pub(crate) fn axis(&self) -> &'static str {
        self.grid.axis
    }

    pub(crate) fn grid(
        &mut self,
        ui: &mut Ui,
        heads: &Arc<Surveyed>,
        state: &mut State,
        changed: &[HeadId],
        effects: &Effects,
        look: Look,
    ) {
        if !self.in_grid.as_ref().is_some_and(|shown| Arc::ptr_eq(shown, heads)) {
            self.grid.clear();
            self.in_grid = Some(Arc::clone(heads));
        }
        let contents = Contents { heads, changed, effects, look };
        self.grid.show(ui, contents, &mut state.heads);
    }
}
