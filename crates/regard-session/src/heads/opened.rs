//! An attention that has been read or computed.

use core::ops::Deref;
use std::borrow::Cow;
use std::sync::Arc;

use super::{AttentionSource, HeadsState};
use crate::message::Shared;
use crate::{Cell, Host, file_name};
use regard_figure::{Extent, Figure, LabelledMatrix, Look, Palette, Signs};
use regard_heads::{
    AttentionMaps, ColorScale, Error, HeadId, MapPart, Measure, Progress, Survey, palette,
    unattended,
};
use serde::{Deserialize, Serialize};

/// The sample: see `examples/make_sample.rs`.
const SAMPLE: &[u8] = include_bytes!("../../assets/sample.safetensors");

/// The approximate share of reading in the time to open a file. The rest is the survey.
const READING: f32 = 0.4;

/// An attention that has been read.
#[derive(Serialize, Deserialize)]
pub struct OpenedHeads {
    /// The file, or the sample.
    pub source: AttentionSource,
    /// Its heads.
    pub heads: Shared<Surveyed>,
}

/// The meaning of the numbers of an attention. Measures describe weights alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapKind {
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
    pub maps: AttentionMaps,
    /// The measures and the thumbnails.
    pub survey: Survey,
    /// The labels of the queries and of the keys.
    pub labels: [Vec<String>; 2],
    /// The largest absolute value.
    pub largest: f32,
    /// What its numbers mean.
    pub kind: MapKind,
    /// Whether no query sees a key after its own position.
    pub is_causal: bool,
    /// The edges that are cut: a head with a query and a key.
    pub cut: Vec<(HeadId, Cell)>,
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

    /// The name of the file.
    pub fn name(&self) -> String {
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
    pub fn figure(&self, look: Look) -> Figure {
        self.survey.figure(&self.maps, look, ColorScale::Shared)
    }

    /// Surveys every number of an attention, or of the differences of two.
    ///
    /// # Errors
    /// If `progress` stops the work.
    pub fn new(maps: AttentionMaps, kind: MapKind, progress: &Progress<'_>) -> Result<Self, Error> {
        let survey = Survey::new(&maps, progress)?;
        let shape = maps.shape();
        let labels =
            maps.tokens().map(|tokens| tokens.into_iter().map(|token| token.text).collect());
        let largest = shape
            .ids()
            .map(|id| regard_figure::largest(&survey.thumbnail(&maps, id)))
            .fold(0.0, f32::max);
        let (is_causal, cut) = (survey.is_causal(), Vec::new());
        Ok(Self { maps, survey, labels, largest, kind, is_causal, cut })
    }

    /// The thumbnail of a head, with −∞ where the mask hides all keys of a block, and in the first column if it is hidden.
    pub fn thumbnail(&self, id: HeadId, hide_first: bool) -> Cow<'_, [f32]> {
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
            self.hide_cut(MapPart::Head(id), &mut numbers);
        }
        numbers
    }

    /// Sets the edges of a head that are cut to −∞.
    fn hide_cut(&self, part: MapPart, numbers: &mut Cow<'_, [f32]>) {
        let cols = self.maps.shape().keys;
        let cut = self.cut.iter().filter(|(head, _)| part == MapPart::Head(*head));
        for (_, (query, key)) in cut {
            if let Some(x) = numbers.to_mut().get_mut(query * cols + key) {
                *x = f32::NEG_INFINITY;
            }
        }
    }

    /// The labels of the queries and of the keys.
    pub fn labels(&self) -> &[Vec<String>; 2] {
        &self.labels
    }

    /// The number that a masked cell stands for: the mask of the file's scores, or the weight 0.
    pub fn masked(&self) -> f32 {
        self.maps.masked().unwrap_or(0.0)
    }

    /// The word for one of its numbers.
    pub fn term(&self) -> &'static str {
        match self.kind {
            MapKind::Weights => "weight",
            MapKind::Differences => "difference",
            MapKind::ValueWeighted => "weight × ‖v‖",
        }
    }

    /// The colours of some of its numbers.
    pub fn palette(&self, numbers: &[f32], extent: Extent, look: Look) -> Palette {
        if self.kind == MapKind::Differences {
            Palette::of(extent, Signs::Both, look)
        } else {
            palette(numbers, extent, look)
        }
    }

    /// Whether any head has this measure.
    pub fn has(&self, measure: Measure) -> bool {
        self.maps.shape().ids().any(|id| self.survey.measures(id).get(measure).is_some())
    }

    /// The matrix that a session shows, to export it. For the grid, it is the chosen head.
    ///
    /// # Errors
    /// [`Error::Unfit`] if the session asks for rollout where it has no meaning.
    pub fn matrix(&self, mut state: HeadsState, look: Look) -> Result<LabelledMatrix, Error> {
        let shown = state.shown;
        state.limit(self.maps.shape(), self.maps.is_self_attention());
        // Rollout without a meaning is an error. Another matrix in its place could pass unnoticed.
        state.shown = shown;
        let part = state.part().unwrap_or_else(|| MapPart::Head(state.id()));
        let mut matrix = self.maps.matrix(part, look, &unattended)?;
        (matrix.values, matrix.masked) = (self.drawn(part, &matrix.values), self.masked());
        Ok(matrix)
    }

    /// The numbers of a part with −∞ where the mask hides a key.
    pub fn drawn(&self, part: MapPart, numbers: &Arc<Vec<f32>>) -> Arc<Vec<f32>> {
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
}

/// Sets the keys after each query to −∞. A block of keys comes after a block of as many queries in the same way.
fn hide_later(numbers: &mut [f32], cols: usize) {
    for (query, row) in numbers.chunks_exact_mut(cols.max(1)).enumerate() {
        row.iter_mut().skip(query + 1).for_each(|x| *x = f32::NEG_INFINITY);
    }
}
