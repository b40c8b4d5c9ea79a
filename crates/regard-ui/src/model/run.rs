//! The question of a run.

use std::collections::BTreeSet;
use std::sync::Arc;

use regard_session::model::{Loaded, Outcome, Request};
use serde::{Deserialize, Serialize};

use crate::work::{Background, Question, Shared, Steps, at_once};

/// Asks to run a model.
#[derive(Serialize, Deserialize)]
pub(crate) struct Run {
    pub(super) place: u64,
    pub(super) model: u64,
    pub(super) model_b: Option<u64>,
    pub(super) request: Request,
    /// The ids of the tokens of patches, for which the outcome has words.
    pub(super) named: BTreeSet<u32>,
    /// The place of the previous outcome of these models.
    pub(super) before: Option<u64>,
}

impl Question for Run {
    type Answer = Shared<Outcome>;
    const NAME: &'static str = "run";
    const REPEATS: bool = true;

    fn begin(self, background: Arc<Background>) -> impl Steps<Shared<Outcome>> {
        at_once(move |_| {
            let opened = background.held::<Loaded>(self.model)?;
            let model_b = self.model_b.map(|model| background.held::<Loaded>(model)).transpose()?;
            let before = self.before.and_then(|before| background.held::<Outcome>(before).ok());
            let known = before.map(|before| before.runs()).unwrap_or_default();
            let (host, second) = (&*background.host, model_b.as_deref());
            let mut outcome = Outcome::new(host, &opened, second, self.request, known)?;
            outcome.name(&opened.model, &self.named);
            let outcome = Arc::new(outcome);
            background.put(self.place, Arc::clone(&outcome));
            Ok(Shared(outcome))
        })
    }
}
