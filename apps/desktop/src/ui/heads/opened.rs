//! An attention that was read, and what is shown of it.

use std::sync::Arc;

use regard_walkthrough::Kind;

use super::state::Key;
use super::{Shown, Source, State};
use crate::export::Matrix;
use crate::heads::{AttentionMaps, Error, HeadId, Measure, Over, Progress, Survey, unattended};
use crate::token::Token;
use crate::ui::colors::{self, Look, Palette};
use crate::ui::heatmap::Picture;

/// The sample: see `examples/make_sample.rs`.
const SAMPLE: &[u8] = include_bytes!("../../../assets/sample.safetensors");

/// Of the time to open a file, about so much is reading; the rest is looking at the numbers.
const READING: f32 = 0.4;

/// An attention that was read.
pub struct Opened {
    /// Where it comes from.
    pub source: Source,
    /// The weights.
    pub maps: AttentionMaps,
    /// The measures and the small pictures.
    pub survey: Survey,
    /// What queries and keys are called.
    pub tokens: [Vec<Token>; 2],
    /// The same, as they are shown.
    pub(super) labels: [Vec<String>; 2],
    /// The size of the largest number.
    pub(super) largest: f32,
}

/// A matrix to look at closely.
pub struct Selected {
    pub(super) key: Key,
    /// What it is.
    pub title: String,
    /// The weights, queries × keys.
    pub numbers: Arc<Vec<f32>>,
    cols: usize,
    pub(super) picture: Picture,
    pub(super) largest: f32,
}

impl Opened {
    /// Reads it, and looks at every weight once.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn open(source: Source, progress: &Progress<'_>) -> Result<Self, Error> {
        let reading = |part: f32| progress(READING * part);
        let looking = |part: f32| progress(READING + (1.0 - READING) * part);
        let maps = match &source {
            Source::Sample => AttentionMaps::in_memory(SAMPLE, "sample", &reading)?,
            Source::File(path) => AttentionMaps::open(path, None, &reading)?,
        };
        let survey = Survey::new(&maps, &looking)?;
        let shape = maps.shape();
        let named = |tokens: Option<&[Token]>, n| tokens.map_or_else(|| Token::numbers(n), <[Token]>::to_vec);
        let tokens = [named(maps.query_tokens(), shape.queries), named(maps.key_tokens(), shape.keys)];
        let labels = [0, 1].map(|side: usize| tokens[side].iter().map(|token| token.text.clone()).collect());
        let largest = shape.ids().map(|id| colors::largest(&survey.thumbnail(&maps, id))).fold(0.0, f32::max);
        Ok(Self { source, maps, survey, tokens, labels, largest })
    }

    /// What it is called: the file's name.
    pub fn name(&self) -> String {
        match &self.source {
            Source::Sample => "The sample".to_owned(),
            Source::File(path) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
        }
    }

    /// The heads in the order to show them.
    pub fn ordered(&self, order: Option<Measure>, smallest_first: bool) -> Vec<HeadId> {
        let Some(measure) = order else { return self.maps.shape().ids().collect() };
        let mut ids = self.survey.sorted_by(measure);
        if smallest_first {
            // Those without the measure stay last.
            let known = ids.iter().take_while(|id| self.survey.measures(**id).get(measure).is_some()).count();
            ids[..known].reverse();
        }
        ids
    }

    /// Whether any head has this measure.
    pub fn has(&self, measure: Measure) -> bool {
        self.maps.shape().ids().any(|id| self.survey.measures(id).get(measure).is_some())
    }

    /// The title of what is shown, with the numbers of the file.
    pub fn title(&self, (shown, layer, head): Key) -> String {
        let layer = self.maps.layer_number(layer);
        match shown {
            Shown::Grid => "All heads".to_owned(),
            Shown::Head => format!("Layer {layer}, head {head}"),
            Shown::MeanOfLayer => format!("Layer {layer}, mean of the heads"),
            Shown::MeanOfHead => format!("Head {head}, mean of the layers"),
            Shown::MeanOfAll => "Mean of all heads".to_owned(),
            Shown::Rollout => format!("Attention rollout to layer {layer}"),
        }
    }

    /// What a session shows of it, to take along; of the grid, the mean of all heads.
    ///
    /// # Errors
    /// [`Error::NotSelfAttention`], if rollout is asked for and has no meaning.
    pub fn matrix(&self, mut state: State) -> Result<Matrix, Error> {
        let shown = state.shown;
        state.limit(self.maps.shape(), self.maps.is_self_attention());
        state.shown = if shown == Shown::Grid { Shown::MeanOfAll } else { shown };
        Ok(self.select(state.key(), &unattended)?.matrix(self))
    }

    /// Computes what is to be shown; of the grid, the mean of all heads.
    pub(super) fn select(&self, key: Key, progress: &Progress<'_>) -> Result<Selected, Error> {
        let (shown, layer, head) = key;
        let numbers = match shown {
            Shown::Head => self.maps.head(HeadId { layer, head }).into_owned(),
            Shown::MeanOfLayer => self.maps.mean(Over::HeadsOf(layer))?,
            Shown::MeanOfHead => self.maps.mean(Over::LayersOf(head))?,
            Shown::MeanOfAll | Shown::Grid => self.maps.mean(Over::All)?,
            Shown::Rollout => self.maps.rollout(layer, progress)?,
        };
        let largest = colors::largest(&numbers);
        let palette = palette(&numbers, largest, Look::default());
        let cols = self.maps.shape().keys;
        let picture = Picture::new(&numbers, cols, palette);
        Ok(Selected { key, title: self.title(key), numbers: Arc::new(numbers), cols, picture, largest })
    }
}

impl Selected {
    /// The weight of a query on a key.
    pub fn number(&self, query: usize, key: usize) -> Option<f32> {
        self.numbers.get(query * self.cols + key).copied().filter(|_| key < self.cols)
    }

    /// It with its tokens, to take along.
    pub fn matrix(&self, opened: &Opened) -> Matrix {
        let [rows, cols] = opened.tokens.clone();
        let is_signed = self.picture.palette().is_diverging();
        Matrix {
            title: self.title.clone(),
            name: "attention".to_owned(),
            values: Arc::clone(&self.numbers),
            rows,
            cols,
            axes: ["query", "key"],
            kind: if is_signed { Kind::Signed } else { Kind::Weights },
        }
    }

    /// Takes on the colours that the user wants to see.
    pub(super) fn set_look(&mut self, look: Look) {
        let is_signed = self.picture.palette().is_diverging();
        let palette = if is_signed { Palette::signed(self.largest, look) } else { weights(self.largest, look) };
        self.picture.set_palette(palette);
    }
}

/// Colours for weights; for scores, where a file has these.
pub(super) fn palette(numbers: &[f32], largest: f32, look: Look) -> Palette {
    let is_signed = numbers.iter().any(|x| *x < 0.0 && x.is_finite());
    if is_signed { Palette::signed(largest, look) } else { weights(largest, look) }
}

fn weights(largest: f32, look: Look) -> Palette {
    Palette::weights(if largest > 0.0 { largest } else { 1.0 }, look)
}
