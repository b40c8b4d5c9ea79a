//! Computes the results of the laboratory's inputs, and keeps intermediate ones.

use core::time::Duration;
use std::sync::Arc;

use rayon::prelude::*;
use regard::{Attention, Heads, Mask, MaskTensor, Position, Stage, Window};
use regard_kernels::softmax;
use serde::{Deserialize, Serialize};
use web_time::Instant;

use super::files::{Error, Files, Names, ReadFile, names};
use super::tokens::{LaboratoryTokens, RandomTokens};
use super::{LaboratoryInputs, LaboratoryMatrix, LaboratoryRequest, TokenFile, TokenSource};
use crate::Host;
use crate::memo::Memo;
use crate::message::{Shared, SharedNumbers};
use regard_figure::{Extent, LabelledMatrix, Look, Palette, Signs};
use regard_heads::masked_scores;

/// The result of a request.
#[derive(Serialize, Deserialize)]
pub struct LaboratoryOutcome {
    /// The request, limited to the sizes of its files.
    pub request: LaboratoryRequest,
    /// The file of the present state, if it has one.
    pub file: Option<Shared<TokenFile>>,
    /// Queries and keys.
    pub tokens: Shared<LaboratoryTokens>,
    /// The scores \[n, n\], the input of softmax. A masked score is −∞.
    pub scores: SharedNumbers,
    /// The weights \[n, n\]. −∞ marks a masked cell, whose weight is 0, so that it is drawn as masked.
    pub weights: SharedNumbers,
    /// The weights of A, if something is pinned.
    pub pinned: Option<SharedNumbers>,
    /// The numbers that are shown: scores, weights, weights of A, or B − A.
    pub numbers: SharedNumbers,
    /// The number of tokens of the shown matrix.
    pub side: usize,
    /// The labels of these tokens.
    pub names: Shared<Names>,
    /// Whether the numbers may be negative.
    pub signs: Signs,
    /// The number that −∞ stands for in the shown matrix. A masked score is −∞, or the large negative number of a file's keys; a
    /// masked weight is 0.
    pub masked: f32,

    /// The reason, if another matrix than the requested one is shown.
    pub note: Option<String>,
    /// The time that the computation took.
    pub took: Duration,
}

impl LaboratoryOutcome {
    /// The name of the shown matrix.
    pub fn title(&self) -> &'static str {
        match self.request.shown {
            LaboratoryMatrix::Scores => "Scores",
            LaboratoryMatrix::Pinned if self.pinned.is_some() => "Weights of A",
            LaboratoryMatrix::Difference if self.pinned.is_some() && self.note.is_none() => "B − A",
            _ => "Weights",
        }
    }

    /// The colours of the shown matrix. Weights go up to the largest one, because most are small, unless it outshines all others.
    pub fn palette(&self, look: Look) -> Palette {
        Palette::of(Extent::of(&self.numbers), self.signs, look)
    }

    /// The shown matrix, to export it.
    pub fn matrix(&self, look: Look) -> LabelledMatrix {
        self.with_palette(self.palette(look))
    }

    /// The shown matrix in these colours.
    pub fn with_palette(&self, palette: Palette) -> LabelledMatrix {
        let title = self.title();
        let [rows, cols] = (**self.names).clone();
        LabelledMatrix {
            title: title.to_owned(),
            name: title.to_lowercase().replace(' ', "_").replace('−', "minus"),
            values: Arc::clone(&self.numbers),
            masked: self.masked,
            rows,
            cols,
            axes: ["query", "key"],
            palette,
        }
    }
}

/// Computes outcomes. It keeps the intermediate results that the next request may need again.
pub struct Engine {
    files: Files,
    drawn: Option<RandomTokens>,
    tokens: Memo<LaboratoryInputs, Arc<LaboratoryTokens>>,
    scores: Memo<LaboratoryInputs, Arc<Vec<f32>>>,
    weights: Memo<LaboratoryInputs, Arc<Vec<f32>>>,
    pinned: Memo<LaboratoryInputs, Arc<Vec<f32>>>,
    names: Memo<(TokenSource, usize), Arc<Names>>,
    /// The weights before the last ones. Their memory is reused when it has no other owner.
    spare: Option<Arc<Vec<f32>>>,
}

impl Engine {
    /// An engine that reads files of queries and keys through `host`.
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self {
            files: Files::new(host),
            drawn: None,
            tokens: Memo::default(),
            scores: Memo::default(),
            weights: Memo::default(),
            pinned: Memo::default(),
            names: Memo::default(),
            spare: None,
        }
    }

    /// Computes the outcome of a request. `progress` gets the share of the work that is done, from 0 to 1.
    ///
    /// # Errors
    /// If a file cannot be read, or if the kernels refuse the inputs.
    pub fn run(
        &mut self,
        mut request: LaboratoryRequest,
        progress: &(dyn Fn(f32) + Sync),
    ) -> Result<LaboratoryOutcome, Error> {
        let start = Instant::now();
        self.files.keep_for(&request);
        let file = self.limit(&mut request.inputs, progress)?;
        let pinned_file = match &mut request.pinned {
            Some(inputs) => self.limit(inputs, progress)?,
            None => None,
        };
        let pinned = match &request.pinned {
            Some(inputs) => Some(self.pinned(inputs, progress)?),
            None => None,
        };
        let tokens = self.tokens(&request.inputs, progress)?;
        let scores = self.scores(&request.inputs, progress)?;
        let weights = self.weights(&request.inputs, &scores);
        let same_size = request.pinned.as_ref().is_none_or(|a| a.tokens == request.inputs.tokens);
        let mut named = (&request.inputs, &file);
        let mut note = None;
        let mut masked =
            if request.shown == LaboratoryMatrix::Scores { f32::NEG_INFINITY } else { 0.0 };
        let numbers = match (request.shown, &pinned, &request.pinned) {
            (LaboratoryMatrix::Scores, _, _) => match masked_scores(&scores) {
                Some((scores, by)) => {
                    masked = by;
                    Arc::new(scores)
                }
                None => Arc::clone(&scores),
            },
            (LaboratoryMatrix::Pinned, Some(a), Some(inputs)) => {
                named = (inputs, &pinned_file);
                Arc::clone(a)
            }
            (LaboratoryMatrix::Difference, Some(a), _) if same_size => {
                Arc::new(difference(&weights, a))
            }
            (LaboratoryMatrix::Difference, Some(_), _) => {
                note = Some("A has another number of tokens, so this is B.".to_owned());
                Arc::clone(&weights)
            }
            _ => Arc::clone(&weights),
        };
        let (side, names) = (named.0.tokens, self.names(named.0, named.1.as_ref()));
        let is_signed = request.shown == LaboratoryMatrix::Scores
            || request.shown == LaboratoryMatrix::Difference && note.is_none();
        let signs = if is_signed { Signs::Both } else { Signs::Positive };
        let took = start.elapsed();
        Ok(LaboratoryOutcome {
            request,
            file: file.map(|file| file.about),
            tokens: Shared(tokens),
            scores: SharedNumbers(scores),
            weights: SharedNumbers(weights),
            pinned: pinned.map(SharedNumbers),
            numbers: SharedNumbers(numbers),
            side,
            names: Shared(names),
            signs,
            masked,
            note,
            took,
        })
    }

    /// Reads the file of the inputs, if they name one, and limits the inputs to its sizes.
    fn limit(
        &mut self,
        inputs: &mut LaboratoryInputs,
        progress: &(dyn Fn(f32) + Sync),
    ) -> Result<Option<ReadFile>, Error> {
        let file = self.files.get(inputs, progress)?;
        if let Some(file) = &file {
            inputs.limit_to(&file.about);
        }
        Ok(file)
    }

    fn names(&mut self, inputs: &LaboratoryInputs, file: Option<&ReadFile>) -> Arc<Names> {
        let key = (inputs.source.clone(), inputs.tokens);
        if let Some(names) = self.names.get(&key) {
            return names;
        }
        self.names.put(key, Arc::new(names(file.map(|file| &**file.about), inputs.tokens)))
    }

    fn tokens(
        &mut self,
        inputs: &LaboratoryInputs,
        progress: &(dyn Fn(f32) + Sync),
    ) -> Result<Arc<LaboratoryTokens>, Error> {
        let key = inputs.of_tokens();
        if let Some(tokens) = self.tokens.get(&key) {
            return Ok(tokens);
        }
        let tokens = match self.files.get(inputs, progress)? {
            Some(file) => LaboratoryTokens::of_file(&file.whole, inputs),
            None => self.drawn.get_or_insert_with(|| RandomTokens::new(inputs.seed)).tokens(inputs),
        };
        Ok(self.tokens.put(key, Arc::new(tokens)))
    }

    /// The scores that softmax gets, before they are divided by the temperature.
    fn scores(
        &mut self,
        inputs: &LaboratoryInputs,
        progress: &(dyn Fn(f32) + Sync),
    ) -> Result<Arc<Vec<f32>>, Error> {
        let key = inputs.of_scores();
        if let Some(scores) = self.scores.get(&key) {
            return Ok(scores);
        }
        let scores = scores(inputs, &*self.tokens(inputs, progress)?, progress)?;
        Ok(self.scores.put(key, Arc::new(scores)))
    }

    fn weights(&mut self, inputs: &LaboratoryInputs, scores: &[f32]) -> Arc<Vec<f32>> {
        if let Some(weights) = self.weights.get(inputs) {
            return weights;
        }
        let before = self.spare.take().and_then(Arc::into_inner).unwrap_or_default();
        let weights = Arc::new(weigh(inputs, scores, before));
        self.spare = self.weights.replace(inputs.clone(), Arc::clone(&weights));
        weights
    }

    /// The weights of A, which are computed once.
    fn pinned(
        &mut self,
        inputs: &LaboratoryInputs,
        progress: &(dyn Fn(f32) + Sync),
    ) -> Result<Arc<Vec<f32>>, Error> {
        let known = self.pinned.get(inputs).or_else(|| self.weights.get(inputs));
        let weights = match known {
            Some(weights) => weights,
            None => Arc::new(weigh(inputs, &self.scores(inputs, progress)?, Vec::new())),
        };
        Ok(self.pinned.put(inputs.clone(), weights))
    }
}

/// The scores \[n, n\] after scale, soft cap, biases and masks.
fn scores(
    inputs: &LaboratoryInputs,
    tokens: &LaboratoryTokens,
    progress: &(dyn Fn(f32) + Sync),
) -> Result<Vec<f32>, regard::Error> {
    let (n, d) = (inputs.tokens, inputs.dim);
    let sink = if inputs.source == TokenSource::Seed { inputs.sink } else { 0.0 };
    let (queries, keys) = tokens.of_dim(d, sink);
    let shape = [1, 1, n, d];
    let allowed = (!inputs.painted.is_empty()).then(|| painted(inputs));
    let report = |done: usize, all: usize| progress(done as f32 / all.max(1) as f32);
    let (position, lengths, slopes) =
        (Position::TopLeft, inputs.keys.map(|keys| [keys]), inputs.alibi.map(|x| [x]));
    let (mut attention, mut mask) = (Attention::new().progress(&report), Mask::NONE);
    if !inputs.scaled {
        attention = attention.scale(1.0);
    }
    if inputs.causal {
        mask = mask.causal(position);
    }
    if let Some([left, right]) = inputs.window {
        mask = mask.window(position, Window { left: Some(left), right: Some(right) });
    }
    if let Some(lengths) = &lengths {
        mask = mask.key_lengths(lengths);
    }
    if let Some(slopes) = &slopes {
        mask = mask.alibi(position, slopes);
    }
    if let Some(cap) = inputs.softcap {
        attention = attention.softcap(cap);
    }
    if let Some(allowed) = &allowed {
        mask = mask.allowed(MaskTensor::new(allowed, &[n, n])?);
    }
    let (q, k) = (Heads::new("query", &queries, shape)?, Heads::new("key", &keys, shape)?);
    Ok(attention.mask(mask).scores(Stage::Masked, q, k)?.into_vec())
}

/// `true` where a key may be seen.
fn painted(inputs: &LaboratoryInputs) -> Vec<bool> {
    let n = inputs.tokens;
    let mut allowed = vec![true; n * n];
    for square in &inputs.painted {
        let (row, col) = square.cell;
        let cols = col.min(n)..col.saturating_add(square.side).min(n);
        for cells in allowed.chunks_exact_mut(n).skip(row).take(square.side) {
            cells[cols.clone()].fill(!square.hides);
        }
    }
    allowed
}

/// The weights \[n, n\]: softmax of each row. −∞ stays as the mark of a masked cell.
fn weigh(inputs: &LaboratoryInputs, scores: &[f32], mut out: Vec<f32>) -> Vec<f32> {
    out.resize(scores.len(), 0.0);
    let n = inputs.tokens;
    out.par_chunks_mut(n).zip(scores.par_chunks(n)).with_min_len(8).for_each(
        |(weights, scores)| {
            weights.copy_from_slice(scores);
            hide_first(inputs, weights);
            softmax(weights, inputs.temperature);
            for (i, (weight, score)) in weights.iter_mut().zip(scores).enumerate() {
                let is_hidden = *score == f32::NEG_INFINITY || i == 0 && inputs.hide_first;
                *weight = if is_hidden { f32::NEG_INFINITY } else { *weight };
            }
        },
    );
    out
}

/// Hides the first token in a row of scores, if the inputs ask for it.
pub fn hide_first(inputs: &LaboratoryInputs, scores: &mut [f32]) {
    if let Some(first) = scores.first_mut().filter(|_| inputs.hide_first) {
        *first = f32::NEG_INFINITY;
    }
}

/// B − A. A weight that is masked in only one of them counts as 0. A cell that is masked in both keeps its mark.
fn difference(b: &[f32], a: &[f32]) -> Vec<f32> {
    let minus = |(b, a): (&f32, &f32)| {
        let masked = f32::NEG_INFINITY;
        let weight = |x: f32| if x == masked { 0.0 } else { x };
        if *b == masked && *a == masked { masked } else { weight(*b) - weight(*a) }
    };
    b.par_iter().zip(a).with_min_len(1 << 14).map(minus).collect()
}

#[cfg(test)]
mod tests;
