//! The questions of the browser of heads, and the matrix that is shown enlarged.

use std::sync::Arc;

use regard_figure::{Extent, LabelledMatrix, Look, Palette};
use regard_heads::{Error, MapPart, Progress, packed};
use regard_session::heads::{AttentionSource, OpenedHeads, Surveyed};
use serde::{Deserialize, Serialize};

use crate::heatmap::{Cell, Picture};
use crate::work::{Background, Question, Steps, at_once};

/// The matrix that is shown enlarged.
#[derive(Serialize, Deserialize)]
pub(crate) struct Selected {
    pub(super) part: MapPart,
    pub(crate) title: String,
    /// The weights, queries × keys.
    #[serde(with = "packed")]
    pub(crate) numbers: Arc<Vec<f32>>,
    /// The weights, with −∞ where the mask hides a key.
    #[serde(with = "packed")]
    pub(super) drawn: Arc<Vec<f32>>,
    cols: usize,
    pub(crate) picture: Picture,
    pub(super) extent: Extent,
}

/// Asks for the attention of a file.
#[derive(Serialize, Deserialize)]
pub(crate) struct OpenAttention {
    pub(crate) place: u64,
    pub(crate) source: AttentionSource,
}

impl Question for OpenAttention {
    type Answer = OpenedHeads;
    const NAME: &'static str = "heads";

    fn begin(self, background: Arc<Background>) -> impl Steps<OpenedHeads> {
        at_once(move |tell| {
            let name = self.source.to_string();
            let opened = OpenedHeads::open(&*background.host, self.source, &|part| tell(part));
            let opened = opened.map_err(|e| format!("{name} was not opened: {e}"))?;
            background.put(self.place, Arc::clone(&opened.heads));
            Ok(opened)
        })
    }
}

/// Asks for a matrix of heads that are held.
#[derive(Serialize, Deserialize)]
pub(crate) struct Select {
    pub(crate) heads: u64,
    pub(crate) part: MapPart,
}

impl Question for Select {
    type Answer = Selected;
    const NAME: &'static str = "matrix";

    fn begin(self, background: Arc<Background>) -> impl Steps<Selected> {
        at_once(move |tell| {
            let heads = background.part::<Surveyed>(self.heads)?;
            Selected::of(&heads, self.part, &|part| tell(part)).map_err(|e| e.to_string())
        })
    }
}

impl Selected {
    pub(super) fn of(
        heads: &Surveyed,
        part: MapPart,
        progress: &Progress<'_>,
    ) -> Result<Self, Error> {
        let numbers = Arc::new(heads.maps.part(part, progress)?);
        let extent = Extent::of(&numbers);
        let cols = heads.maps.shape().keys;
        let colors = heads.palette(&numbers, extent, Look::default());
        let drawn = heads.drawn(part, &numbers);
        let picture = Picture::new(&drawn, cols, colors);
        Ok(Self { part, title: heads.maps.title(part), numbers, drawn, cols, picture, extent })
    }

    /// A cell as drawn: −∞ where the mask hides the key.
    pub(super) fn cell(&self, (query, key): Cell) -> Option<f32> {
        self.drawn.get(query * self.cols + key).copied().filter(|_| key < self.cols)
    }

    pub(crate) fn number(&self, query: usize, key: usize) -> Option<f32> {
        self.numbers.get(query * self.cols + key).copied().filter(|_| key < self.cols)
    }

    /// The matrix with its tokens, to export it.
    pub fn matrix(&self, heads: &Surveyed, look: Look) -> LabelledMatrix {
        let values = Arc::clone(&self.drawn);
        let matrix = heads.maps.labelled(self.part, values, self.palette(look));
        LabelledMatrix { masked: heads.masked(), ..matrix }
    }

    pub(super) fn set_look(&mut self, look: Look) {
        self.picture.set_palette(self.palette(look));
    }

    fn palette(&self, look: Look) -> Palette {
        Palette::of(self.extent, self.picture.palette().signs(), look)
    }
}
