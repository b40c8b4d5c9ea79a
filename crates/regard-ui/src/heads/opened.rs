//! An attention that has been read or computed, and the matrix that is shown.

use core::ops::Deref;
use std::borrow::Cow;
use std::sync::Arc;

use super::{AttentionSource, HeadsState};
use crate::colors::{self, Look, Palette};
use crate::heatmap::{Cell, Picture};
use crate::work::{Background, Question, Shared, Steps, at_once};
use crate::{Host, file_name};
use regard_figure::{Extent, Figure, Matrix, Signs};
use regard_heads::{
    AttentionMaps, ColorScale, Error, HeadId, Measure, Over, Part, Progress, Survey, packed,
    palette, unattended,
};
use serde::{Deserialize, Serialize};

/// The sample: see `examples/make_sample.rs`.
const SAMPLE: &[u8] = include_bytes!("../../assets/sample.safetensors");

/// The approximate share of reading in the time to open a file. The rest is the survey.
const READING: f32 = 0.4;

/// An attention that has been read.
#[derive(Serialize, Deserialize)]
pub struct OpenedHeads {
    pub(crate) source: AttentionSource,
    pub(crate) heads: Shared<Surveyed>,
}

/// The meaning of the numbers of an attention. Measures describe weights alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MapKind {
    /// Weights.
    Weights,
    /// The weights of one run minus those of another.
    Differences,
    /// Weights, each times the norm of its value.
    ValueWeighted,
}

/// The heads of an attention, with the measures and pictures of each.
#[derive(Serialize, Deserialize)]
pub struct Surveyed {
    /// The weights, or the differences of two runs' weights.
    pub(crate) maps: AttentionMaps,
    /// The measures and the thumbnails.
    pub(crate) survey: Survey,
    /// The labels of the queries and of the keys.
    pub(super) labels: [Vec<String>; 2],
    /// The largest absolute value.
    pub(super) largest: f32,
    pub(super) kind: MapKind,
    /// Whether no query sees a key after its own position.
    pub(crate) is_causal: bool,
    /// The edges that are cut: a head with a query and a key.
    pub(crate) cut: Vec<(HeadId, Cell)>,
}

/// The matrix that is shown enlarged.
#[derive(Serialize, Deserialize)]
pub(crate) struct Selected {
    pub(super) part: Part,
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
    pub(crate) part: Part,
}

impl Question for Select {
    type Answer = Selected;
    const NAME: &'static str = "matrix";

    fn begin(self, background: Arc<Background>) -> impl Steps<Selected> {
        at_once(move |tell| {
            let heads = background.part::<Surveyed>(self.heads)?;
            heads.select(self.part, &|part| tell(part)).map_err(|e| e.to_string())
        })
    }
}

impl OpenedHeads {
    /// Reads the attention through `host` and surveys every weight.
    ///
    /// # Errors
    /// If the file cannot be read or is not attention.
    pub fn open(
        host: &dyn Host,
        source: AttentionSource,
        progress: &Progress<'_>,
    ) -> Result<Self, Error> {
        let reading = |part: f32| progress(READING * part);
        let looking = |part: f32| progress(READING + (1.0 - READING) * part);
        let maps = match &source {
            AttentionSource::Sample => AttentionMaps::in_memory(SAMPLE, "sample", &reading)?,
            AttentionSource::File(path) => {
                AttentionMaps::open(&|path| host.open(path), path, None, &reading)?
            }
            AttentionSource::Tensor(path, name) => {
                AttentionMaps::open(&|path| host.open(path), path, Some(name), &reading)?
            }
        };
        Ok(Self {
            source,
            heads: Shared(Arc::new(Surveyed::new(maps, MapKind::Weights, &looking)?)),
        })
    }

    pub(crate) fn name(&self) -> String {
        match &self.source {
            AttentionSource::Sample => "The sample".to_owned(),
            AttentionSource::File(path) | AttentionSource::Tensor(path, _) => file_name(path),
        }
    }
}

impl Deref for OpenedHeads {
    type Target = Surveyed;

    fn deref(&self) -> &Surveyed {
        &self.heads
    }
}

impl Surveyed {
    /// A picture of all heads.
    pub fn figure(&self, look: Look, own_scale: bool) -> Figure {
        let scale = if own_scale { ColorScale::Own } else { ColorScale::Shared };
        self.survey.figure(&self.maps, look, scale)
    }

    /// Surveys every number of an attention, or of the differences of two.
    pub(crate) fn new(
        maps: AttentionMaps,
        kind: MapKind,
        progress: &Progress<'_>,
    ) -> Result<Self, Error> {
        let survey = Survey::new(&maps, progress)?;
        let shape = maps.shape();
        let labels =
            maps.tokens().map(|tokens| tokens.into_iter().map(|token| token.text).collect());
        let largest =
            shape.ids().map(|id| colors::largest(&survey.thumbnail(&maps, id))).fold(0.0, f32::max);
        let (is_causal, cut) = (survey.is_causal(), Vec::new());
        Ok(Self { maps, survey, labels, largest, kind, is_causal, cut })
    }

    /// The thumbnail of a head, with −∞ where the mask hides all keys of a block, and in the first column if it is hidden.
    pub(crate) fn thumbnail(&self, id: HeadId, hide_first: bool) -> Cow<'_, [f32]> {
        let mut numbers = self.survey.thumbnail(&self.maps, id);
        let (_, cols) = self.survey.thumbnail_shape();
        if hide_first {
            let first = numbers.to_mut().iter_mut().step_by(cols.max(1));
            first.for_each(|x| *x = f32::NEG_INFINITY);
        }
        if self.is_causal {
            hide_later(numbers.to_mut(), cols);
        }
        if self.survey.factors() == [1, 1] {
            self.hide_cut(Part::Head(id), &mut numbers);
        }
        numbers
    }

    /// Sets the edges of a head that are cut to −∞.
    fn hide_cut(&self, part: Part, numbers: &mut Cow<'_, [f32]>) {
        let cols = self.maps.shape().keys;
        let cut = self.cut.iter().filter(|(head, _)| part == Part::Head(*head));
        for (_, (query, key)) in cut {
            if let Some(x) = numbers.to_mut().get_mut(query * cols + key) {
                *x = f32::NEG_INFINITY;
            }
        }
    }

    pub(crate) fn labels(&self) -> &[Vec<String>; 2] {
        &self.labels
    }

    /// The number that a masked cell stands for: the mask of the file's scores, or the weight 0.
    pub(super) fn masked(&self) -> f32 {
        self.maps.masked().unwrap_or(0.0)
    }

    pub(super) fn term(&self) -> &'static str {
        match self.kind {
            MapKind::Weights => "weight",
            MapKind::Differences => "difference",
            MapKind::ValueWeighted => "weight × ‖v‖",
        }
    }

    pub(super) fn palette(&self, numbers: &[f32], extent: Extent, look: Look) -> Palette {
        if self.kind == MapKind::Differences {
            Palette::of(extent, Signs::Both, look)
        } else {
            palette(numbers, extent, look)
        }
    }

    pub(crate) fn has(&self, measure: Measure) -> bool {
        self.maps.shape().ids().any(|id| self.survey.measures(id).get(measure).is_some())
    }

    /// The matrix that a session shows, to export it. For the grid, it is the mean of all heads.
    ///
    /// # Errors
    /// [`Error::Unfit`] if the session asks for rollout where it has no meaning.
    pub fn matrix(&self, mut state: HeadsState, look: Look) -> Result<Matrix, Error> {
        let shown = state.shown;
        state.limit(self.maps.shape(), self.maps.is_self_attention());
        // Rollout without a meaning is an error. Another matrix in its place could pass unnoticed.
        state.shown = shown;
        let part = state.part().unwrap_or(Part::Mean(Over::All));
        let mut matrix = self.maps.matrix(part, look, &unattended)?;
        (matrix.values, matrix.masked) = (self.drawn(part, &matrix.values), self.masked());
        Ok(matrix)
    }

    /// The numbers of a part with −∞ where the mask hides a key.
    fn drawn(&self, part: Part, numbers: &Arc<Vec<f32>>) -> Arc<Vec<f32>> {
        let mut drawn = Cow::Borrowed(&numbers[..]);
        if self.is_causal {
            hide_later(drawn.to_mut(), self.maps.shape().keys);
        }
        self.hide_cut(part, &mut drawn);
        match drawn {
            Cow::Borrowed(_) => Arc::clone(numbers),
            Cow::Owned(drawn) => Arc::new(drawn),
        }
    }

    pub(super) fn select(&self, part: Part, progress: &Progress<'_>) -> Result<Selected, Error> {
        let numbers = Arc::new(self.maps.part(part, progress)?);
        let extent = Extent::of(&numbers);
        let cols = self.maps.shape().keys;
        let colors = self.palette(&numbers, extent, Look::default());
        let drawn = self.drawn(part, &numbers);
        let picture = Picture::new(&drawn, cols, colors);
        Ok(Selected { part, title: self.maps.title(part), numbers, drawn, cols, picture, extent })
    }
}

impl Selected {
    /// A cell as drawn: −∞ where the mask hides the key.
    pub(super) fn cell(&self, (query, key): Cell) -> Option<f32> {
        self.drawn.get(query * self.cols + key).copied().filter(|_| key < self.cols)
    }

    pub(crate) fn number(&self, query: usize, key: usize) -> Option<f32> {
        self.numbers.get(query * self.cols + key).copied().filter(|_| key < self.cols)
    }

    /// The matrix with its tokens, to export it.
    pub fn matrix(&self, heads: &Surveyed, look: Look) -> Matrix {
        let values = Arc::clone(&self.drawn);
        let matrix = heads.maps.labelled(self.part, values, self.palette(look));
        Matrix { masked: heads.masked(), ..matrix }
    }

    pub(super) fn set_look(&mut self, look: Look) {
        self.picture.set_palette(self.palette(look));
    }

    fn palette(&self, look: Look) -> Palette {
        Palette::of(self.extent, self.picture.palette().signs(), look)
    }
}

/// Sets the keys after each query to −∞. A block of keys comes after a block of as many queries in the same way.
fn hide_later(numbers: &mut [f32], cols: usize) {
    for (query, row) in numbers.chunks_exact_mut(cols.max(1)).enumerate() {
        row.iter_mut().skip(query + 1).for_each(|x| *x = f32::NEG_INFINITY);
    }
}
