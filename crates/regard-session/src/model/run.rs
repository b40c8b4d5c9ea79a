//! A run of the model over the text: unchanged, and with the changes beside it.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use regard_figure::{Figure, Label, LabelledMatrix, Look};
use regard_heads::{AttentionMaps, AttentionShape, HeadId, packed, unattended};
use regard_models::{Baseline, Change, Description, Input, Model, Stack, Values, Which};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use web_time::Instant;

use super::input::{Displayed, Pixels};
use super::open::{Loaded, digits, same_tokens};
use super::reads::Reads;
use super::request::Request;
use super::weighted::weighted;
use super::{ModelState, Next, Version};
use crate::heads::{self, MapKind, Surveyed};
use crate::message::Shared;
use crate::{Cell, Host, counted, lock};

/// The most bytes that the weights of all heads may take. A run with changes has three times as many.
const MOST_BYTES: u64 = 256 << 20;

/// A value for each kind of attention: one for most models; for a model with an encoder and a decoder, one for the attention of
/// each and one for that from decoder to encoder.
#[derive(Serialize, Deserialize)]
pub struct PerAttention<T>(Vec<(Which, T)>);

impl<T> PerAttention<T> {
    fn new(
        description: &Description,
        mut value: impl FnMut(Which, &Stack) -> Result<T, String>,
    ) -> Result<Self, String> {
        let attentions = description.attentions().into_iter();
        let values = attentions.map(|(which, stack)| Ok((which, value(which, stack)?)));
        values.collect::<Result<_, String>>().map(Self)
    }

    /// The value of a kind of attention, or of the first kind if the model lacks it.
    pub fn of(&self, which: Which) -> &T {
        let value = self.0.iter().find(|(of, _)| *of == which);
        &value.unwrap_or(&self.0[0]).1 // each model has an attention
    }
}

pub type HeadsPerAttention = PerAttention<Shared<Surveyed>>;
type Differences = PerAttention<Difference>;

/// The run without changes.
#[derive(Serialize, Deserialize)]
pub struct Unchanged {
    /// The input.
    pub input: Input,
    /// The tokens, or the patches of an image.
    pub tokens: Vec<Label>,
    /// The tokens of the decoder of a model with an encoder and a decoder.
    pub decoder_tokens: Vec<Label>,
    /// The words that the model reads as "unknown", and, if there are any, some that it knows.
    pub unknown: [Vec<String>; 2],
    /// The picture of an image or of a recording.
    pub picture: Option<Shared<Pixels>>,
    /// The file of the picture.
    pub image: Option<PathBuf>,
    /// The attention of each kind.
    pub heads: HeadsPerAttention,
    /// The probability of each token of the vocabulary to be next; empty if the model predicts none here.
    #[serde(with = "packed")]
    pub next: Vec<f32>,
    /// The vector of the whole input, of a model that gives one instead; empty otherwise.
    #[serde(with = "packed", default)]
    pub pooled: Vec<f32>,
    /// The start of changed runs. It stays in the memory where the run was made.
    #[serde(skip)]
    baseline: Option<Baseline>,
    /// The number of tokens that were computed. The others were known from the previous text.
    pub computed: usize,
}

/// The known runs of the first and of the second text.
pub type Runs = [Option<Shared<Unchanged>>; 2];

/// The run with the changes.
#[derive(Serialize, Deserialize)]
pub struct Changed {
    /// The attention of each kind.
    pub heads: HeadsPerAttention,
    /// Changed minus unchanged.
    pub difference: Differences,
    /// The probability of each token of the vocabulary to be next.
    #[serde(with = "packed")]
    pub next: Vec<f32>,
    /// The number of tokens that were computed. The others were known from the previous text.
    pub computed: usize,
}

/// Run B: another text, another model, or both.
#[derive(Serialize, Deserialize)]
pub struct Second {
    /// The run.
    pub run: Shared<Unchanged>,
    /// The weights of run A, with the changes, minus these; or the reason for a missing difference.
    pub difference: Result<Differences, String>,
}

/// The weights of one run minus those of another.
#[derive(Serialize, Deserialize)]
pub struct Difference {
    /// The differences of the weights.
    pub heads: Shared<Surveyed>,
    /// For each head, the share of a query's weight that lies on other keys in the other run, as a mean over the queries:
    /// ½ Σ |a − b| (total variation distance). The largest share comes first.
    pub moved: Vec<(HeadId, f32)>,
}

/// The runs A and B, and their difference or the reason why there is none.
pub struct Pair<'a> {
    /// The names of the runs.
    pub names: [String; 2],
    /// The attention of each run.
    pub heads: [&'a Arc<Surveyed>; 2],
    /// A − B.
    pub difference: Result<&'a Difference, &'a str>,
}

/// The result of a request.
#[derive(Serialize, Deserialize)]
pub struct Outcome {
    /// The request.
    pub request: Request,
    /// All changes, head by head.
    pub changes: Vec<Change>,
    /// The run without changes.
    pub unchanged: Shared<Unchanged>,
    /// The run with the changes, or the reason why they cannot be made. `None` without changes.
    pub changed: Option<Result<Changed, String>>,
    /// Run B, or the reason why it is missing. `None` without a second text and a second model.
    pub second: Option<Result<Second, String>>,
    /// The names of the runs A and B.
    names: [String; 2],
    /// The hash of the weights and of the probabilities.
    pub hash: String,
    /// The likeliest next tokens.
    pub list: Vec<Next>,
    /// The likeliest next token with the changes, which the model writes.
    pub written: Option<Next>,
    /// The tokens of the patches that the user has listed, by their ids.
    pub words: BTreeMap<u32, String>,
    /// The time that the runs took.
    pub took: Duration,
}

impl Outcome {
    /// Runs the model, and model B if there is one. A run of the same text before is not repeated.
    ///
    /// # Errors
    /// If the input cannot be read, or if its weights would take too much memory.
    pub fn new(
        host: &dyn Host,
        opened: &Loaded,
        model_b: Option<&Loaded>,
        request: Request,
        [first, second]: Runs,
    ) -> Result<Self, String> {
        let start = Instant::now();
        let model = &opened.model;
        let ids = request.ids.as_deref();
        let unchanged = Unchanged::of(host, opened, 0, &request, (&request.text, ids), first)?;
        let changes = request.all_changes(model.description(), unchanged.tokens.len());
        let changed = (!changes.is_empty()).then(|| Changed::new(opened, &unchanged, &changes));
        let second = (request.has_second() || model_b.is_some()).then(|| {
            if let Some(model_b) = model_b {
                opened.fits(model_b)?;
            }
            // The ids of a text that the model wrote are those of the first text.
            let (text, ids) = request.second.as_ref().map_or((&request.text, ids), |t| (t, None));
            let run =
                Unchanged::of(host, model_b.unwrap_or(opened), 1, &request, (text, ids), second)?;
            if !request.has_second() {
                same_tokens(&unchanged.tokens, &run.tokens)?;
            }
            let first = match &changed {
                Some(Ok(changed)) => &changed.heads,
                _ => &unchanged.heads,
            };
            let difference = Difference::each(model, first, &run.heads);
            Ok(Second { run, difference })
        });
        let names = request.names(&opened.name);
        let mut all = vec![(&unchanged.heads, &unchanged.next[..])];
        if let Some(Ok(changed)) = &changed {
            all.push((&changed.heads, &changed.next));
        }
        if let Some(Ok(second)) = &second {
            all.push((&second.run.heads, &second.run.next));
        }
        let hash = hash_of(all.into_iter());
        let mut outcome = Self {
            request,
            changes,
            unchanged,
            changed,
            second,
            names,
            hash,
            list: Vec::new(),
            written: None,
            words: BTreeMap::new(),
            took: Duration::ZERO,
        };
        outcome.list = Next::likeliest(&outcome, model);
        outcome.written = Next::written(&outcome, model);
        outcome.took = start.elapsed();
        Ok(outcome)
    }

    /// Finds the words for tokens of patches.
    pub fn name(&mut self, model: &Model, ids: &BTreeSet<u32>) {
        let word = |id: &u32| Some((*id, model.tokenizer()?.decode(&[*id]).ok()?));
        self.words = ids.iter().filter_map(word).collect();
    }

    /// The kind of input that the model reads.
    pub fn reads(&self) -> Reads {
        let run = &self.unchanged;
        match (run.picture.is_some(), run.decoder_tokens.is_empty()) {
            (true, true) => Reads::Image,
            (true, false) => Reads::Recording,
            (false, true) => Reads::Text,
            (false, false) => Reads::TextAndDecoder,
        }
    }

    /// The ids that the model writes on from: those of the text, or those of the decoder.
    pub fn written(&self) -> &[u32] {
        let input = &self.unchanged.input;
        if input.decoder_ids.is_empty() { &input.ids } else { &input.decoder_ids }
    }

    /// The unchanged runs, which a later outcome may share.
    pub fn runs(&self) -> Runs {
        [Some(self.unchanged.clone()), self.second().map(|second| second.run.clone())]
    }

    /// The tokens of the text.
    pub fn tokens(&self) -> &[Label] {
        &self.unchanged.tokens
    }

    /// The attention of the unchanged run.
    pub fn heads(&self, which: Which) -> &Arc<Surveyed> {
        self.unchanged.heads.of(which)
    }

    /// The tokens of the queries and of the keys of a kind of attention.
    pub fn labels(&self, which: Which) -> &[Vec<String>; 2] {
        self.heads(which).labels()
    }

    /// The probability of each token to be next, in the unchanged run.
    pub fn next(&self) -> &[f32] {
        &self.unchanged.next
    }

    /// The vector of the whole input, of a model that gives one, in the unchanged run.
    pub fn pooled(&self) -> &[f32] {
        &self.unchanged.pooled
    }

    /// The probability of each token to be next, in the run with the changes.
    pub fn next_changed(&self) -> Option<&[f32]> {
        self.changed().map(|changed| &changed.next[..])
    }

    /// The attention of a run. Without changes, it is the unchanged one.
    pub fn version(&self, version: Version, which: Which) -> &Arc<Surveyed> {
        let unchanged = self.unchanged.heads.of(which);
        let first = self.changed().map_or(unchanged, |changed| changed.heads.of(which));
        match version {
            // Another question gives the weights × ‖v‖.
            Version::Changed | Version::SideBySide | Version::ValueWeighted => first,
            Version::Unchanged => unchanged,
            Version::Difference => {
                self.changed().map_or(first, |changed| &changed.difference.of(which).heads)
            }
            Version::Second => self.second().map_or(first, |second| second.run.heads.of(which)),
            Version::FirstMinusSecond => {
                let difference = self.second().and_then(|second| second.difference.as_ref().ok());
                difference.map_or(first, |difference| &difference.of(which).heads)
            }
        }
    }

    /// The runs A and B: those of two texts or models, or else those with and without the changes.
    pub fn pair(&self, which: Which) -> Option<Pair<'_>> {
        let first = self.version(Version::Changed, which);
        if let Some(second) = self.second() {
            let difference = second.difference.as_ref();
            let difference = difference.map(|all| all.of(which)).map_err(|e| e.as_str());
            let heads = [first, second.run.heads.of(which)];
            return Some(Pair { names: self.names.clone(), heads, difference });
        }
        let changed = self.changed()?;
        Some(Pair {
            names: ["changed", "unchanged"].map(str::to_owned),
            heads: [first, self.heads(which)],
            difference: Ok(changed.difference.of(which)),
        })
    }

    /// The image of the run whose weights are shown, if the model reads one.
    pub fn picture(&self, version: Version) -> Option<&Shared<Pixels>> {
        let second = self.second().filter(|_| version == Version::Second);
        second.map_or(&self.unchanged, |second| &second.run).picture.as_ref()
    }

    /// Run B, if it was made.
    pub fn second(&self) -> Option<&Second> {
        self.second.as_ref()?.as_ref().ok()
    }

    /// The run of the second text, if the same model reads it. Patches come from there.
    pub fn second_text(&self) -> Option<&Second> {
        self.second().filter(|_| self.request.second_model.is_none())
    }

    /// The reason for a missing run B.
    pub fn second_refusal(&self) -> Option<&str> {
        self.second.as_ref()?.as_ref().err().map(String::as_str)
    }

    /// The heads that differ most between the runs A and B, and the share of their weight that lies on other keys.
    pub fn moved(&self, which: Which) -> Option<&[(HeadId, f32)]> {
        self.pair(which)?.difference.ok().map(|difference| &difference.moved[..])
    }

    /// The probability of each token to be next in run B, if it is of another text or model.
    pub fn next_second(&self) -> Option<&[f32]> {
        self.second().map(|second| &second.run.next[..])
    }

    /// The run with the changes, if it was made.
    pub fn changed(&self) -> Option<&Changed> {
        self.changed.as_ref()?.as_ref().ok()
    }

    /// The reason why the changes cannot be made.
    pub fn refusal(&self) -> Option<&str> {
        self.changed.as_ref()?.as_ref().err().map(String::as_str)
    }
}

impl Outcome {
    /// The number of tokens that the unchanged run has computed.
    pub fn computed(&self) -> usize {
        self.unchanged.computed
    }

    /// The number of tokens that the run with the changes has computed.
    pub fn computed_changed(&self) -> Option<usize> {
        self.changed().map(|changed| changed.computed)
    }

    /// The ids of the tokens of the text.
    pub fn ids(&self) -> &[u32] {
        &self.unchanged.input.ids
    }
}

/// The matrix that a session shows in this room, to export it. For the grid, it is the chosen head.
///
/// # Errors
/// If the model or the file cannot be opened, if the model cannot read the text, or if the changes do not fit.
pub fn matrix(host: &dyn Host, state: &ModelState, look: Look) -> anyhow::Result<LabelledMatrix> {
    Ok(heads_of(host, state, |heads| heads.matrix(state.heads.clone(), look))??)
}

/// The picture of all heads of a session of this room.
///
/// # Errors
/// Those of [`matrix`].
pub fn grid(host: &dyn Host, state: &ModelState, look: Look) -> anyhow::Result<Figure> {
    heads_of(host, state, |heads| heads.figure(look))
}

/// Runs the model of a session, or reads its file. Returns the result of `ask` for the heads that the session shows.
fn heads_of<T>(
    host: &dyn Host,
    state: &ModelState,
    ask: impl FnOnce(&Surveyed) -> T,
) -> anyhow::Result<T> {
    if let Some(source) = &state.file {
        let opened = heads::OpenedHeads::open(host, source.clone(), &unattended);
        let opened = opened.with_context(|| source.to_string())?;
        return Ok(ask(&opened));
    }
    let said = |message: String| anyhow::anyhow!(message);
    let checkpoint = host.checkpoint(&state.model).map_err(said)?;
    let opened = Loaded::load(state.model.clone(), &checkpoint).map_err(said)?;
    let model_b =
        state.second_model.as_ref().map(|name| Loaded::load(name.clone(), &host.checkpoint(name)?));
    let model_b = model_b.transpose().map_err(said)?;
    let request = Request::of(state, model_b.as_ref().map(|model_b| model_b.name.as_str()));
    let outcome = Outcome::new(host, &opened, model_b.as_ref(), request, Runs::default());
    let outcome = outcome.map_err(said)?;
    if let Some(refusal) = outcome.refusal().or_else(|| outcome.second_refusal()) {
        anyhow::bail!(refusal.to_owned());
    }
    let heads = outcome.version(state.version, state.attention);
    if state.version == Version::ValueWeighted {
        let changes = outcome.changes.clone();
        let heads = weighted(&opened, &outcome.unchanged, heads, changes, state.attention);
        return Ok(ask(&heads.map_err(said)?));
    }
    Ok(ask(heads))
}

impl Unchanged {
    /// The run of a text with its ids, or of an image. Returns `known` if it is that run. `reader` is 0 for the first text and 1
    /// for the second.
    fn of(
        host: &dyn Host,
        opened: &Loaded,
        reader: usize,
        request: &Request,
        (text, ids): (&str, Option<&[u32]>),
        known: Option<Shared<Self>>,
    ) -> Result<Shared<Self>, String> {
        if let Some(known) = &known
            && known.decoder_tokens.is_empty()
            && known.image.is_some()
            && known.image == request.image
            && (reader == 0 || request.drawings[1].is_none())
        {
            return Ok(known.clone());
        }
        let before = known.as_deref().map(|run| &**run);
        let displayed = Displayed::new(host, opened, request, (reader, before), text, ids)?;
        let is_same = |known: &Shared<Self>| {
            known.input == displayed.input && known.unknown == displayed.unknown
        };
        match known.filter(is_same) {
            Some(known) => Ok(known),
            None => Ok(Shared(Arc::new(Self::new(opened, reader, request, displayed)?))),
        }
    }

    fn new(
        opened: &Loaded,
        reader: usize,
        request: &Request,
        displayed: Displayed,
    ) -> Result<Self, String> {
        let Displayed { input, tokens, decoder_tokens, unknown, picture } = displayed;
        let model = &opened.model;
        let count = tokens.len();
        let bytes = model.description().attention_bytes([count, decoder_tokens.len()]);
        if bytes > MOST_BYTES {
            let (megabytes, most) = (bytes >> 20, MOST_BYTES >> 20);
            let [of, way] = if Reads::of(model.description()) == Reads::Recording {
                [format!("recording has {count} positions"), "open a smaller model".to_owned()]
            } else {
                [format!("text has {count} tokens"), "shorten the text".to_owned()]
            };
            return Err(format!(
                "The {of}, and the weights of all heads would take {megabytes} MB, but at most {most} MB are shown: {way}."
            ));
        }
        let before = lock(&opened.read[reader]).take();
        let reading = model.read(&input, before).map_err(|e| e.to_string())?;
        let both = [&tokens[..], &decoder_tokens[..]];
        let heads = HeadsPerAttention::new(model.description(), |which, stack| {
            let weights = reading.weights(which).ok_or("the run has kept no weights")?;
            surveyed(stack, which, weights.data.clone(), both).map(|heads| Shared(Arc::new(heads)))
        })?;
        let baseline = reading.unchanged().clone();
        let next = next(model, &input, baseline.logits());
        let computed = reading.computed();
        *lock(&opened.read[reader]) = Some(reading);
        let image = request.image.clone().filter(|_| picture.is_some());
        Ok(Self {
            input,
            tokens,
            decoder_tokens,
            unknown,
            picture,
            image,
            heads,
            next,
            pooled: baseline.pooled().map_or_else(Vec::new, |vector| vector.data.clone()),
            baseline: Some(baseline),
            computed,
        })
    }

    /// The start of changed runs.
    ///
    /// # Errors
    /// If the run was made in another process.
    pub fn baseline(&self) -> Result<&Baseline, String> {
        self.baseline.as_ref().ok_or_else(|| "the run was made elsewhere".to_owned())
    }

    /// The likeliest next token, if the model predicts one.
    pub fn top(&self) -> Option<usize> {
        let mut all = self.next.iter().enumerate();
        let first = all.next()?;
        Some(all.fold(first, |best, next| if next.1 > best.1 { next } else { best }).0)
    }
}

impl Changed {
    fn new(opened: &Loaded, unchanged: &Unchanged, changes: &[Change]) -> Result<Self, String> {
        let model = &opened.model;
        let before = lock(&opened.read_changed).take();
        let reading = model.read_changed(unchanged.baseline()?, changes, before);
        let reading = reading.map_err(|e| e.to_string())?;
        let both = [&unchanged.tokens[..], &unchanged.decoder_tokens[..]];
        let heads = HeadsPerAttention::new(model.description(), |which, stack| {
            let changed = reading.weights(which).ok_or("the run has kept no weights")?;
            let weights = weights(changed, unchanged.heads.of(which));
            let mut heads = surveyed(stack, which, weights, both)?;
            heads.cut = changes.iter().filter_map(|change| cut_of(change, which)).collect();
            Ok(Shared(Arc::new(heads)))
        })?;
        let difference = Difference::each(model, &heads, &unchanged.heads)?;
        let next = next(model, &unchanged.input, reading.logits());
        let computed = reading.computed();
        *lock(&opened.read_changed) = Some(reading);
        Ok(Self { heads, difference, next, computed })
    }
}

impl Difference {
    fn each(
        model: &Model,
        first: &HeadsPerAttention,
        second: &HeadsPerAttention,
    ) -> Result<Differences, String> {
        Differences::new(model.description(), |which, _| {
            Self::new(first.of(which), second.of(which))
        })
    }

    /// The weights of a run minus those of another with as many layers, heads and tokens.
    fn new(first: &Surveyed, second: &Surveyed) -> Result<Self, String> {
        let (shape, other) = (first.maps.shape(), second.maps.shape());
        if shape != other {
            let (tokens, others) = (counted(shape.queries, "token"), other.queries);
            return Err(format!(
                "there is no difference: the first text has {tokens}, and the second {others}"
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
        let heads = maps.and_then(|maps| Surveyed::new(maps, MapKind::Differences, &unattended));
        let mut heads = heads.map_err(|e| e.to_string())?;
        // Differences of zero do not show a mask.
        heads.is_causal = first.is_causal && second.is_causal;
        Ok(Self { heads: Shared(Arc::new(heads)), moved })
    }
}

/// The weights of all layers: those of the unchanged run, then those from the first changed layer on.
fn weights(changed: &Values, unchanged: &Surveyed) -> Vec<f32> {
    let shape = unchanged.maps.shape();
    let first = shape.layers - changed.shape.first().copied().unwrap_or(0).min(shape.layers);
    let mut weights = Vec::new();
    for id in shape.ids().filter(|id| id.layer < first) {
        weights.extend_from_slice(&unchanged.maps.head(id));
    }
    weights.extend_from_slice(&changed.data);
    weights
}

/// The hash of the weights and of the probabilities of runs.
fn hash_of<'a>(runs: impl Iterator<Item = (&'a HeadsPerAttention, &'a [f32])>) -> String {
    let mut hash = Sha256::new();
    let mut add = |numbers: &[f32]| {
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
        hash.update(bytes);
    };
    for (heads, next) in runs {
        for (_, heads) in &heads.0 {
            heads.maps.shape().ids().for_each(|id| add(&heads.maps.head(id)));
        }
        add(next);
    }
    digits(hash)
}

/// The weights of a kind of attention with the tokens of its queries and keys.
fn surveyed(
    stack: &Stack,
    which: Which,
    weights: Vec<f32>,
    both: [&[Label]; 2],
) -> Result<Surveyed, String> {
    let [queries, keys] = which.sides(both);
    let (layers, heads) = (stack.layers(), stack.block.heads);
    let shape = AttentionShape { layers, heads, queries: queries.len(), keys: keys.len() };
    let maps = AttentionMaps::new(shape, weights, [queries.to_vec(), keys.to_vec()]);
    let heads = maps.and_then(|maps| Surveyed::new(maps, MapKind::Weights, &unattended));
    heads.map_err(|e| e.to_string())
}

/// The head, and the query and the key, of a cut edge in this kind of attention.
fn cut_of(change: &Change, which: Which) -> Option<(HeadId, Cell)> {
    match *change {
        Change::Cut { head, query, key } if head.attention == which => {
            Some((HeadId { layer: head.layer, head: head.head }, (query, key)))
        }
        _ => None,
    }
}

/// The probability of each token of the vocabulary: to come next, or to stand in the gap; or of each class. Of a regression the
/// numbers that it predicts. Empty if the model predicts none.
fn next(model: &Model, input: &Input, logits: Option<&Values>) -> Vec<f32> {
    let Some(logits) = logits else { return Vec::new() };
    let cols = logits.shape.last().copied().unwrap_or(0);
    let is_of_classes = model.description().classifies();
    let row = if model.description().stack.causal || is_of_classes {
        Some(logits.last())
    } else {
        let gap = model.gaps(input).first().copied();
        gap.and_then(|gap| logits.data.get(gap * cols..(gap + 1) * cols))
    };
    let Some(row) = row else { return Vec::new() };
    match model.description().probabilities(row) {
        Some(probabilities) => probabilities.into_iter().map(|p| p as f32).collect(),
        None => row.to_vec(),
    }
}
