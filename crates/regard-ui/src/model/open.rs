//! Opening a model.

use std::sync::Arc;

use egui::Context;
use regard_models::Description;
use regard_session::model::{Loaded, not_opened};
use serde::{Deserialize, Serialize};

use crate::Advance;
use crate::work::{Background, Held, Once, Question, Steps, at_once};

/// A description of an open model. [`Loaded`] has its weights.
#[derive(Serialize, Deserialize)]
pub(crate) struct OpenedModel {
    /// The user's name for it.
    pub(crate) name: String,
    pub(crate) description: Description,
    /// The bytes of its weights.
    pub(crate) bytes: u64,
    pub(crate) hash: String,
}

/// Asks to open a model.
#[derive(Serialize, Deserialize)]
pub(crate) struct Open {
    /// The place of the [`Loaded`] model.
    place: u64,
    name: String,
}

impl Question for Open {
    type Answer = OpenedModel;
    const NAME: &'static str = "model";

    fn begin(self, background: Arc<Background>) -> impl Steps<OpenedModel> {
        let name = self.name.clone();
        let host = Arc::clone(&background.host);
        let mut open = at_once(move |tell| {
            let name = self.name;
            let mut checkpoint =
                background.host.checkpoint(&name).map_err(|e| not_opened(&name, &e))?;
            let (bytes, tell) = (checkpoint.bytes().max(1), Arc::clone(tell));
            // Reading cannot be interrupted.
            checkpoint.on_read(move |read| {
                let _ = tell(read as f32 / bytes as f32);
            });
            let loaded = Loaded::load(name, &checkpoint)?;
            let Loaded { name, bytes, hash, .. } = &loaded;
            let (name, hash, bytes) = (name.clone(), hash.clone(), *bytes);
            let description = loaded.model.description().clone();
            background.put(self.place, Arc::new(loaded));
            Ok(OpenedModel { name, description, bytes, hash })
        });
        move |tell| match host.arriving(&name) {
            Some(part) => {
                // Whoever asks sees by the next step whether the work goes on.
                let _ = tell(part);
                Ok(Advance::More)
            }
            None => open(tell),
        }
    }
}

pub(super) fn start(
    background: &Arc<Background>,
    ctx: &Context,
    name: &str,
) -> Once<Held<OpenedModel>> {
    background.hold(ctx, |place| Open { place, name: name.to_owned() })
}
