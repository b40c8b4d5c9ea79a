//! A run of the model over the text: unchanged, and with the changes beside it.

use core::time::Duration;
use std::sync::Arc;

use regard_figure::{Label, Look, Matrix};
use regard_heads::{AttentionMaps, HeadId, Shape, readable, unattended};
use regard_models::{Baseline, Change, Input, Model, Trace, Values, Which, probabilities};
use web_time::Instant;

use super::open::Opened;
use super::state::first_layer;
use super::{State, Version, compare, record};
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
    /// Its tokens, if they are not those that the tokenizer makes of it.
    pub ids: Option<Vec<u32>>,
    /// The changes.
    pub changes: Vec<Change>,
    /// The second text, if there is one. Run B reads it without changes.
    pub second: Option<String>,
    /// The model of run B, if it is not that of run A. Without a second text, it reads the first one.
    pub second_model: Option<String>,
}

impl Request {
    /// What the choices of the user ask for. Model B counts once it is open.
    pub(super) fn of(state: &State, model_b: Option<&Arc<Opened>>) -> Self {
        Self {
            text: state.text.clone(),
            ids: state.ids().map(<[u32]>::to_vec),
            changes: state.active(),
            second: state.second.clone(),
            second_model: model_b.map(|opened| opened.name.clone()),
        }
    }

    /// The names of the runs A and B, if there is a run B besides the unchanged one.
    fn names(&self, model: &str) -> [String; 2] {
        match (&self.second_model, &self.second) {
            (Some(other), None) => [short(model), short(other)],
            (Some(other), Some(_)) => {
                [format!("{}, first text", short(model)), format!("{}, second text", short(other))]
            }
            _ => ["first text", "second text"].map(str::to_owned),
        }
    }
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
    /// What changed runs begin from.
    pub baseline: Arc<Baseline>,
    /// The tokens that were computed for this text. The others were known from the text before.
    pub computed: usize,
}

/// The runs of the first and of the second text, as far as they are known.
pub(super) type Runs = [Option<Arc<Unchanged>>; 2];

/// A run with changes.
pub(super) struct Changed {
    pub heads: Arc<Surveyed>,
    /// Changed minus unchanged.
    pub difference: Difference,
    pub next: Vec<f32>,
}

/// Run B: another text, another model, or both.
pub(super) struct Second {
    pub run: Arc<Unchanged>,
    /// The weights of run A, with the changes, minus these; or why there is no difference.
    pub difference: Result<Difference, String>,
}

/// The weights of one run minus those of another.
pub(super) struct Difference {
    pub heads: Arc<Surveyed>,
    /// For each head, the share of a query's weight that lies on other keys in the other run, as a mean over the queries:
    /// ½ Σ |a − b| (total variation distance). The largest share comes first.
    pub moved: Vec<(HeadId, f32)>,
}

/// Two runs that stand side by side.
pub(super) struct Pair<'a> {
    pub names: [String; 2],
    pub heads: [&'a Arc<Surveyed>; 2],
    pub difference: Result<&'a Difference, &'a str>,
}

/// The last part of a path or of a name.
pub(super) fn short(name: &str) -> String {
    let path = std::path::Path::new(name);
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// What came of a request.
pub struct Outcome {
    /// The request.
    pub request: Request,
    pub(super) unchanged: Arc<Unchanged>,
    /// The run with the changes, or why they cannot be made. `None` without changes.
    pub(super) changed: Option<Result<Changed, String>>,
    /// Run B, or why there is none. `None` without a second text and a second model.
    pub(super) second: Option<Result<Second, String>>,
    /// The names of the runs A and B.
    names: [String; 2],
    /// The hash of the weights and of the probabilities.
    pub(super) hash: String,
    /// The time that it took.
    pub took: Duration,
}

impl Outcome {
    /// Runs the model, and model B if there is one. A run of the same text before is not repeated.
    pub(super) fn new(
        opened: &Opened,
        model_b: Option<&Opened>,
        request: Request,
        [first, second]: Runs,
    ) -> Result<Self, String> {
        let start = Instant::now();
        let model = &opened.model;
        let ids = request.ids.as_deref();
        let unchanged = Unchanged::of(opened, 0, &request.text, ids, first)?;
        let changed = (!request.changes.is_empty())
            .then(|| Changed::new(model, &unchanged, &request.changes));
        let second = (request.second.is_some() || model_b.is_some()).then(|| {
            if let Some(model_b) = model_b {
                compare::fits(opened, model_b)?;
            }
            // The ids of a text that the model wrote are those of the first text.
            let (text, ids) = request.second.as_ref().map_or((&request.text, ids), |t| (t, None));
            let run = Unchanged::of(model_b.unwrap_or(opened), 1, text, ids, second)?;
            if request.second.is_none() {
                compare::same_tokens(&unchanged.tokens, &run.tokens)?;
            }
            let first = match &changed {
                Some(Ok(changed)) => &changed.heads,
                _ => &unchanged.heads,
            };
            let difference = Difference::new(first, &run.heads);
            Ok(Second { run, difference })
        });
        let names = request.names(&opened.name);
        let own = |run: &'_ Unchanged| (Arc::clone(&run.heads), run.next.clone());
        let mut all = vec![own(&unchanged)];
        if let Some(Ok(changed)) = &changed {
            all.push((Arc::clone(&changed.heads), changed.next.clone()));
        }
        if let Some(Ok(second)) = &second {
            all.push(own(&second.run));
        }
        let hash = record::of_runs(all.iter().map(|(heads, next)| (&**heads, &next[..])));
        Ok(Self { request, unchanged, changed, second, names, hash, took: start.elapsed() })
    }

    /// The tokens that were computed for the text. The others were known from the text before.
    pub fn computed(&self) -> usize {
        self.unchanged.computed
    }

    /// The ids of the tokens of the text.
    pub fn ids(&self) -> &[u32] {
        &self.unchanged.input.ids
    }

    /// The unchanged runs, which a later request may have in common.
    pub(super) fn runs(&self) -> Runs {
        [Some(Arc::clone(&self.unchanged)), self.second().map(|second| Arc::clone(&second.run))]
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
        let first = self.changed().map_or(&self.unchanged.heads, |changed| &changed.heads);
        match version {
            Version::Changed | Version::SideBySide => first,
            Version::Unchanged => &self.unchanged.heads,
            Version::Difference => {
                self.changed().map_or(first, |changed| &changed.difference.heads)
            }
            Version::Second => self.second().map_or(first, |second| &second.run.heads),
            Version::FirstMinusSecond => {
                let difference = self.second().and_then(|second| second.difference.as_ref().ok());
                difference.map_or(first, |difference| &difference.heads)
            }
        }
    }

    /// The runs A and B: those of two texts or models, or else those with and without the changes.
    pub(super) fn pair(&self) -> Option<Pair<'_>> {
        let first = self.version(Version::Changed);
        if let Some(second) = self.second() {
            let difference = second.difference.as_ref().map_err(String::as_str);
            let heads = [first, &second.run.heads];
            return Some(Pair { names: self.names.clone(), heads, difference });
        }
        let changed = self.changed()?;
        Some(Pair {
            names: ["changed", "unchanged"].map(str::to_owned),
            heads: [first, &self.unchanged.heads],
            difference: Ok(&changed.difference),
        })
    }

    pub(super) fn second(&self) -> Option<&Second> {
        self.second.as_ref()?.as_ref().ok()
    }

    /// The run of the second text, if the same model reads it. Patches come from there.
    pub(super) fn second_text(&self) -> Option<&Second> {
        self.second().filter(|_| self.request.second_model.is_none())
    }

    /// Why there is no run B, if there is none.
    pub fn second_refusal(&self) -> Option<&str> {
        self.second.as_ref()?.as_ref().err().map(String::as_str)
    }

    /// The heads that differ most between the runs A and B, and the share of their weight that lies on other keys.
    pub fn moved(&self) -> Option<&[(HeadId, f32)]> {
        self.pair()?.difference.ok().map(|difference| &difference.moved[..])
    }

    /// The probability of each token to be next in run B, if it is of another text or model.
    pub fn next_second(&self) -> Option<&[f32]> {
        self.second().map(|second| &second.run.next[..])
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
    let model_b = state
        .second_model
        .as_ref()
        .map(|name| Opened::load(name.clone(), &host.checkpoint(name)?).map(Arc::new));
    let model_b = model_b.transpose().map_err(said)?;
    let request = Request::of(state, model_b.as_ref());
    let outcome = Outcome::new(&opened, model_b.as_deref(), request, Runs::default());
    let outcome = outcome.map_err(said)?;
    if let Some(refusal) = outcome.refusal().or_else(|| outcome.second_refusal()) {
        anyhow::bail!(refusal.to_owned());
    }
    Ok(outcome.version(state.version).matrix(state.heads.clone(), look)?)
}

impl Unchanged {
    /// The run of a text. `known` is returned if it is the one, and `reader` tells the first text from the second.
    fn of(
        opened: &Opened,
        reader: usize,
        text: &str,
        ids: Option<&[u32]>,
        known: Option<Arc<Self>>,
    ) -> Result<Arc<Self>, String> {
        let tokenizer = opened.model.tokenizer().ok_or("the model has no tokenizer")?;
        let mut input = match ids {
            Some(ids) => Input::tokens(ids),
            None => tokenizer.encode(text, None).map_err(|e| e.to_string())?,
        };
        if opened.model.description().embedding.types < 2 {
            input.types.clear();
        }
        match known.filter(|known| known.input == input) {
            Some(known) => Ok(known),
            None => Self::new(opened, reader, input, text).map(Arc::new),
        }
    }

    fn new(opened: &Opened, reader: usize, input: Input, text: &str) -> Result<Self, String> {
        let model = &opened.model;
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
        let reading = opened.readers[reader].read(model, &input)?;
        let tokenizer = model.tokenizer();
        let name = |id: u32| tokenizer.and_then(|t| t.token(id)).unwrap_or_else(|| id.to_string());
        let labels = readable(input.ids.iter().map(|id| name(*id)).collect());
        let weights = reading.weights(Which::Only).ok_or("the run has kept no weights")?;
        let heads = surveyed(model, weights.data.clone(), &labels, false)?;
        let baseline = Arc::new(reading.unchanged().clone());
        let next = next(model, &input, baseline.logits());
        let computed = reading.computed();
        opened.readers[reader].keep(reading);
        let mut unknown = match tokenizer {
            Some(tokenizer) => tokenizer.unknown(text).map_err(said)?,
            None => Vec::new(),
        };
        unknown.dedup();
        Ok(Self { input, tokens: labels, unknown, heads, next, baseline, computed })
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
}

impl Changed {
    fn new(model: &Model, unchanged: &Unchanged, changes: &[Change]) -> Result<Self, String> {
        let trace = run(model, unchanged, changes)?;
        let weights = weights(model, &trace, &unchanged.heads);
        let heads = surveyed(model, weights, &unchanged.tokens, false)?;
        let difference = Difference::new(&heads, &unchanged.heads)?;
        let next = next(model, &unchanged.input, trace.logits());
        Ok(Self { heads, difference, next })
    }
}

impl Difference {
    /// The weights of a run minus those of another with as many layers, heads and tokens.
    fn new(first: &Surveyed, second: &Surveyed) -> Result<Self, String> {
        let (shape, other) = (first.maps.shape(), second.maps.shape());
        if shape != other {
            let (tokens, others) = (shape.queries, other.queries);
            return Err(format!(
                "there is no difference: the first text has {tokens} tokens, and the second {others}"
            ));
        }
        let (mut all, mut moved) = (Vec::new(), Vec::new());
        for id in shape.ids() {
            let (a, b) = (first.maps.head(id), second.maps.head(id));
            let start = all.len();
            all.extend(a.iter().zip(b.iter()).map(|(a, b)| a - b));
            let sum: f64 = all[start..].iter().map(|d| f64::from(d.abs())).sum();
            moved.push((id, (0.5 * sum / shape.queries as f64) as f32));
        }
        moved.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        let maps = AttentionMaps::new(shape, all, first.maps.tokens());
        let heads = maps.and_then(|maps| Surveyed::new(maps, true, &unattended));
        let heads = heads.map(Arc::new).map_err(|e| e.to_string())?;
        Ok(Self { heads, moved })
    }
}

/// A changed run that keeps the weights of the layers from the first changed one on.
fn run(model: &Model, unchanged: &Unchanged, changes: &[Change]) -> Result<Trace, String> {
    let first = changes.iter().map(first_layer).min().unwrap_or(0);
    let layers = model.description().stack.layers();
    let places = (first.min(layers - 1)..layers).map(|layer| Which::Only.weights_of(layer));
    let mut pass = model.pass().keep(places).after(&unchanged.baseline);
    // A model that fills gaps predicts the token of a gap, which may be anywhere.
    if model.description().stack.causal {
        pass = pass.last_logits();
    }
    for change in changes {
        pass = pass.change(change.clone());
    }
    pass.run(&unchanged.input).map_err(|e| e.to_string())
}

/// The weights of all layers. Those that the run has not kept are those of the unchanged run.
fn weights(model: &Model, trace: &Trace, unchanged: &Surveyed) -> Vec<f32> {
    let mut weights = Vec::new();
    for layer in 0..model.description().stack.layers() {
        if let Some(values) = trace.get(&Which::Only.weights_of(layer)) {
            weights.extend_from_slice(&values.data);
        } else {
            let ids = unchanged.maps.shape().ids().filter(|id| id.layer == layer);
            ids.for_each(|id| weights.extend_from_slice(&unchanged.maps.head(id)));
        }
    }
    weights
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
fn next(model: &Model, input: &Input, logits: Option<&Values>) -> Vec<f32> {
    let Some(logits) = logits else { return Vec::new() };
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
