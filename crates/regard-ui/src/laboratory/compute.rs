//! The laboratory's question, and its answer with a picture.

use core::ops::Deref;
use std::sync::{Arc, Mutex};

use regard_figure::{Extent, LabelledMatrix, Look, Palette};
use regard_session::laboratory::{Engine, LaboratoryOutcome, LaboratoryRequest};
use serde::{Deserialize, Serialize};

use crate::heatmap::Picture;
use crate::work::{Background, Question, Steps, at_once, lock};

/// An outcome with the picture of its numbers.
#[derive(Serialize, Deserialize)]
pub(crate) struct Pictured {
    outcome: LaboratoryOutcome,
    /// The picture of the numbers.
    pub(crate) picture: Picture,
    extent: Extent,
}

impl Deref for Pictured {
    type Target = LaboratoryOutcome;

    fn deref(&self) -> &LaboratoryOutcome {
        &self.outcome
    }
}

impl Pictured {
    pub(crate) fn new(outcome: LaboratoryOutcome) -> Self {
        let palette = |extent| Palette::of(extent, outcome.signs, Look::default());
        let mut picture = Picture::new(&outcome.numbers, outcome.side, palette(Extent::default()));
        let extent = Extent::up_to(picture.largest(&outcome.numbers), &outcome.numbers);
        picture.set_palette(palette(extent));
        Self { outcome, picture, extent }
    }

    /// The colours of the shown matrix.
    pub(crate) fn palette(&self, look: Look) -> Palette {
        Palette::of(self.extent, self.outcome.signs, look)
    }

    /// The shown matrix, to export it.
    pub(crate) fn matrix(&self, look: Look) -> LabelledMatrix {
        self.outcome.with_palette(self.palette(look))
    }
}

/// Asks for the result of a request.
#[derive(Serialize, Deserialize)]
pub(crate) struct Compute {
    /// The place of the engine. The first question makes the engine.
    pub(crate) engine: u64,
    pub(crate) request: LaboratoryRequest,
}

impl Question for Compute {
    type Answer = Pictured;
    const NAME: &'static str = "laboratory";
    const REPEATS: bool = true;

    fn begin(self, background: Arc<Background>) -> impl Steps<Pictured> {
        at_once(move |tell| {
            let engine = background.held::<Mutex<Engine>>(self.engine).unwrap_or_else(|_| {
                let engine = Arc::new(Mutex::new(Engine::new(Arc::clone(&background.host))));
                background.put(self.engine, Arc::clone(&engine));
                engine
            });
            let mut engine = lock(&engine);
            let progress = |part: f32| {
                // Work that has begun is finished. Otherwise a moving slider would show nothing.
                let _ = tell(part);
            };
            engine.run(self.request, &progress).map(Pictured::new).map_err(|e| e.to_string())
        })
    }
}
