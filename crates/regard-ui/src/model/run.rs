//! A run of the model over the text: unchanged, and with the changes beside it.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};

use regard_figure::{Label, Look, Matrix};
use regard_heads::{AttentionMaps, Shape, readable, unattended};
use regard_models::{Baseline, Change, Input, Model, Trace, probabilities};
use web_time::Instant;

use super::open::Opened;
use super::state::head_of;
use super::{State, Version};
use crate::Host;
use crate::heads::Surveyed;

/// The most bytes that the weights of all heads may take. A run with changes has three times as many.
const MOST_BYTES: u64 = 256 << 20;

/// The tokens that stand for a gap, which a model that fills gaps predicts.
const MASKS: [&str; 2] = ["[MASK]", "<mask>"];

/// What is to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The text.
    pub text: String,
    /// The changes.
    pub changes: Vec<Change>,
}

/// A run without changes.
pub(super) struct Unchanged {
    input: Input,
    pub tokens: Vec<Label>,
    /// The words that the model reads as "unknown".
    pub unknown: Vec<String>,
    pub heads: Arc<Surveyed>,
    /// The probability of each token of the vocabulary to be next; empty if the model predicts none here.
    pub next: Vec<f32>,
    /// What changed runs begin from, as soon as there is one.
    baseline: Mutex<Option<Arc<Baseline>>>,
}

/// A run with changes.
pub(super) struct Changed {
    pub heads: Arc<Surveyed>,
    /// Changed minus unchanged.
    pub difference: Arc<Surveyed>,
    pub next: Vec<f32>,
}

/// What came of a request.
pub struct Outcome {
    /// The request.
    pub request: Request,
    pub(super) unchanged: Arc<Unchanged>,
    /// The run with the changes, or why they cannot be made. `None` without changes.
    pub(super) changed: Option<Result<Changed, String>>,
    /// The time that it took.
    pub took: Duration,
}

impl Outcome {
    /// Runs the model. A run of the same text before is not repeated.
    pub(super) fn new(
        opened: &Opened,
        request: Request,
        before: Option<Arc<Unchanged>>,
    ) -> Result<Self, String> {
        let start = Instant::now();
        let model = &opened.model;
        let tokenizer = model.tokenizer().ok_or("the model has no tokenizer")?;
        let said = |e: regard_models::Error| e.to_string();
        let mut input = tokenizer.encode(&request.text, None).map_err(said)?;
        if model.description().embedding.types < 2 {
            input.types.clear();
        }
        let unchanged = match before.filter(|before| before.input == input) {
            Some(before) => before,
            None => Arc::new(Unchanged::new(model, input, &request.text)?),
        };
        let changed = (!request.changes.is_empty())
            .then(|| Changed::new(model, &unchanged, &request.changes));
        Ok(Self { request, unchanged, changed, took: start.elapsed() })
    }

    /// The tokens of the text.
    pub fn tokens(&self) -> &[Label] {
        &self.unchanged.tokens
    }

    /// The attention of the unchanged run.
    pub fn heads(&self) -> &Arc<Surveyed> {
        &self.unchanged.heads
    }

    /// The probability of each token to be next, in the unchanged run.
    pub fn next(&self) -> &[f32] {
        &self.unchanged.next
    }

    /// The probability of each token to be next with the changes, if there are any.
    pub fn next_changed(&self) -> Option<&[f32]> {
        self.changed().map(|changed| &changed.next[..])
    }

    /// The attention of a run. Without changes, it is the unchanged one.
    pub(super) fn version(&self, version: Version) -> &Arc<Surveyed> {
        match (self.changed(), version) {
            (None, _) | (_, Version::Unchanged) => &self.unchanged.heads,
            (Some(changed), Version::Changed) => &changed.heads,
            (Some(changed), Version::Difference) => &changed.difference,
        }
    }

    pub(super) fn changed(&self) -> Option<&Changed> {
        self.changed.as_ref()?.as_ref().ok()
    }

    /// Why the changes cannot be made.
    pub fn refusal(&self) -> Option<&str> {
        self.changed.as_ref()?.as_ref().err().map(String::as_str)
    }
}

/// The matrix that a session shows in this room, to export it. For the grid, it is the mean of all heads.
///
/// # Errors
/// If the model cannot be opened, if it cannot read the text, or if the changes do not fit.
pub fn matrix(host: &dyn Host, state: &State, look: Look) -> anyhow::Result<Matrix> {
    let said = |message: String| anyhow::anyhow!(message);
    let checkpoint = host.checkpoint(&state.model).map_err(said)?;
    let opened = Opened::load(state.model.clone(), &checkpoint).map_err(said)?;
    let request = Request { text: state.text.clone(), changes: state.active() };
    let outcome = Outcome::new(&opened, request, None).map_err(said)?;
    if let Some(refusal) = outcome.refusal() {
        anyhow::bail!(refusal.to_owned());
    }
    Ok(outcome.version(state.version).matrix(state.heads.clone(), look)?)
}

impl Unchanged {
    fn new(model: &Model, input: Input, text: &str) -> Result<Self, String> {
        let tokens = input.ids.len();
        if tokens == 0 {
            return Err("Type a text for the model to read.".to_owned());
        }
        let bytes = model.description().attention_bytes([tokens, 0]);
        if bytes > MOST_BYTES {
            let (megabytes, most) = (bytes >> 20, MOST_BYTES >> 20);
            return Err(format!(
                "The text has {tokens} tokens, and the weights of all heads would take {megabytes} MB, but at most {most} MB are \
                 shown: shorten the text."
            ));
        }
        let said = |e: regard_models::Error| e.to_string();
        let trace = run(model, &input, 0, &[], None)?;
        let tokenizer = model.tokenizer();
        let name = |id: u32| tokenizer.and_then(|t| t.token(id)).unwrap_or_else(|| id.to_string());
        let labels = readable(input.ids.iter().map(|id| name(*id)).collect());
        let weights = weights(model, &trace, None)?;
        let heads = surveyed(model, weights, &labels, false)?;
        let next = next(model, &input, &trace);
        let mut unknown = match tokenizer {
            Some(tokenizer) => tokenizer.unknown(text).map_err(said)?,
            None => Vec::new(),
        };
        unknown.dedup();
        Ok(Self { input, tokens: labels, unknown, heads, next, baseline: Mutex::new(None) })
    }

    /// What the model reads.
    pub fn input(&self) -> &Input {
        &self.input
    }

    /// The likeliest next token, if the model predicts one.
    pub fn top(&self) -> Option<usize> {
        let mut all = self.next.iter().enumerate();
        let first = all.next()?;
        Some(all.fold(first, |best, next| if next.1 > best.1 { next } else { best }).0)
    }

    /// What changed runs begin from.
    pub fn baseline(&self, model: &Model) -> Result<Arc<Baseline>, String> {
        let mut baseline = self.baseline.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(baseline) = &*baseline {
            return Ok(Arc::clone(baseline));
        }
        let made = Arc::new(model.baseline(&self.input).map_err(|e| e.to_string())?);
        Ok(Arc::clone(baseline.insert(made)))
    }
}

impl Changed {
    fn new(model: &Model, unchanged: &Unchanged, changes: &[Change]) -> Result<Self, String> {
        let first = changes.iter().map(|change| head_of(change).map_or(0, |id| id.layer)).min();
        let baseline = unchanged.baseline(model)?;
        let trace = run(model, &unchanged.input, first.unwrap_or(0), changes, Some(&baseline))?;
        let weights = weights(model, &trace, Some(&unchanged.heads))?;
        let mut differences = weights.clone();
        let before = unchanged.heads.maps.shape().ids().map(|id| unchanged.heads.maps.head(id));
        let before = before.flat_map(|head| head.into_owned());
        differences.iter_mut().zip(before).for_each(|(after, before)| *after -= before);
        Ok(Self {
            heads: surveyed(model, weights, &unchanged.tokens, false)?,
            difference: surveyed(model, differences, &unchanged.tokens, true)?,
            next: next(model, &unchanged.input, &trace),
        })
    }
}

fn place(layer: usize) -> String {
    format!("blocks.{layer}.attn.hook_pattern")
}

/// A run that keeps the weights of the layers from `first` on.
fn run(
    model: &Model,
    input: &Input,
    first: usize,
    changes: &[Change],
    baseline: Option<&Baseline>,
) -> Result<Trace, String> {
    let layers = model.description().stack.layers();
    let mut pass = model.pass().keep((first.min(layers - 1)..layers).map(place));
    // A model that fills gaps predicts the token of a gap, which may be anywhere.
    if model.description().stack.causal {
        pass = pass.last_logits();
    }
    for change in changes {
        pass = pass.change(change.clone());
    }
    if let Some(baseline) = baseline {
        pass = pass.after(baseline);
    }
    pass.run(input).map_err(|e| e.to_string())
}

/// The weights of all layers. Those that the run has not kept are those of the unchanged run.
fn weights(model: &Model, trace: &Trace, unchanged: Option<&Surveyed>) -> Result<Vec<f32>, String> {
    let mut weights = Vec::new();
    for layer in 0..model.description().stack.layers() {
        match (trace.get(&place(layer)), unchanged) {
            (Some(values), _) => weights.extend_from_slice(&values.data),
            (None, Some(unchanged)) => {
                let ids = unchanged.maps.shape().ids().filter(|id| id.layer == layer);
                ids.for_each(|id| weights.extend_from_slice(&unchanged.maps.head(id)));
            }
            (None, None) => return Err(format!("the run has kept no weights of layer {layer}")),
        }
    }
    Ok(weights)
}

fn surveyed(
    model: &Model,
    weights: Vec<f32>,
    tokens: &[Label],
    is_difference: bool,
) -> Result<Arc<Surveyed>, String> {
    let stack = &model.description().stack;
    let (queries, keys) = (tokens.len(), tokens.len());
    let shape = Shape { layers: stack.layers(), heads: stack.block.heads, queries, keys };
    let maps = AttentionMaps::new(shape, weights, [tokens.to_vec(), tokens.to_vec()]);
    let heads = maps.and_then(|maps| Surveyed::new(maps, is_difference, &unattended));
    heads.map(Arc::new).map_err(|e| e.to_string())
}

/// The probability of each token of the vocabulary: to come next, or to stand in the gap. Empty if the model predicts none.
fn next(model: &Model, input: &Input, trace: &Trace) -> Vec<f32> {
    let Some(logits) = trace.logits() else { return Vec::new() };
    let cols = logits.shape.last().copied().unwrap_or(0);
    let row = if model.description().stack.causal {
        Some(logits.last())
    } else {
        let tokenizer = model.tokenizer();
        let mask = MASKS.iter().find_map(|mask| tokenizer?.id(mask));
        let gap = mask.and_then(|mask| input.ids.iter().position(|id| *id == mask));
        gap.and_then(|gap| logits.data.get(gap * cols..(gap + 1) * cols))
    };
    let Some(row) = row else { return Vec::new() };
    probabilities(row).into_iter().map(|p| p as f32).collect()
}
