//! The question of weights × ‖v‖.

use std::sync::Arc;

use regard_models::{Change, Which};
use regard_session::model::{Loaded, Unchanged, weighted};
use serde::{Deserialize, Serialize};

use crate::heads::Surveyed;
use crate::work::{Background, Question, Shared, Steps, at_once};

/// Asks for the weights of a run, each times the norm of its value.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Weigh {
    pub(crate) model: u64,
    pub(crate) run: u64,
    /// The weights of the run with the changes.
    pub(crate) heads: u64,
    pub(crate) changes: Vec<Change>,
    pub(crate) attention: Which,
}

impl Question for Weigh {
    type Answer = Shared<Surveyed>;
    const NAME: &'static str = "values";

    fn begin(self, background: Arc<Background>) -> impl Steps<Shared<Surveyed>> {
        at_once(move |_| {
            let opened = background.held::<Loaded>(self.model)?;
            let run = background.part::<Unchanged>(self.run)?;
            let heads = background.part::<Surveyed>(self.heads)?;
            let heads = weighted(&opened, &run, &heads, self.changes, self.attention)?;
            Ok(Shared(Arc::new(heads)))
        })
    }
}
