//! A run: the residual stream through embedding, layers and head.
//!
//! Several runs go through the layers together, their rows stacked, so that a product reads its weights once for all of them:
//! inputs of equal length, or changes of the same input. Changes begin with one stream for all of them. It becomes a stream for
//! each run at the first place that one of them changes; what comes before is computed once.

use std::collections::BTreeMap;

use regard::{KvCache, KvCacheShape, Linear, Pairing, Sequences};

use super::attention::Setting;
use super::{Input, Keep, Trace, Values, final_norm, stacks};
use crate::change::Plan;
use crate::weights::{Layer, NormWeights, StackWeights, Tokens};
use crate::{Activation, Block, Description, Error, Head, Model, Placement, Stack};

/// The keys and values of a decoder's tokens so far, and of the encoder's output.
#[derive(Debug)]
pub(crate) struct Caches {
    /// One a layer.
    own: Vec<KvCache>,
    /// One a layer; empty if the model has no encoder.
    cross: Vec<KvCache>,
    /// The encoder's output, and its tokens.
    memory: Option<(Vec<f32>, usize)>,
}

impl Caches {
    /// Room for so many tokens of the stack, and of an encoder's text.
    pub(crate) fn new(model: &Model, capacity: usize, memory: usize) -> Result<Self, Error> {
        let stack = &model.description().stack;
        let Block { kv_heads, head_size, .. } = stack.block;
        let caches = |capacity, layers| -> Result<Vec<KvCache>, Error> {
            let (key_dim, value_dim) = (head_size, head_size);
            let cache =
                || KvCache::new(KvCacheShape { batch: 1, kv_heads, capacity, key_dim, value_dim });
            (0..layers).map(|_| Ok(cache()?)).collect()
        };
        let cross = if stack.cross { caches(memory, stack.layers())? } else { Vec::new() };
        Ok(Self { own: caches(capacity, stack.layers())?, cross, memory: None })
    }

    /// The tokens of the stack that are in the caches.
    pub(crate) fn len(&self) -> usize {
        // A changed run leaves out the layers before the first change.
        self.own.last().map_or(0, KvCache::len)
    }

    /// The most tokens of the stack.
    pub(crate) fn capacity(&self) -> usize {
        self.own.first().map_or(0, KvCache::capacity)
    }

    /// The tokens that are cached and may stay so in a text of `tokens`: all of them or none, where keys turn by the text's length.
    pub(crate) fn keep(&mut self, description: &Description, tokens: usize) -> usize {
        let rotary = description.stack.block.rotary.as_ref();
        if rotary.is_some_and(|rotary| !rotary.turns_alike([self.len(), tokens])) {
            self.truncate(0);
        }
        self.len()
    }

    /// Forgets all but the first tokens of the stack.
    pub(crate) fn truncate(&mut self, tokens: usize) {
        self.own.iter_mut().for_each(|cache| cache.truncate(tokens));
    }
}

/// The residual stream that enters each layer of an unchanged run, and that leaves the last one: what a changed run of the same
/// input begins with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(BTreeMap<(&'static str, usize), Vec<f32>>);

impl Streams {
    /// The streams of a text whose first `len` numbers are those of `before`, and whose others are in `self`.
    pub(crate) fn after(self, mut before: Self, len: usize) -> Self {
        for (layer, rows) in self.0 {
            let stream = before.0.entry(layer).or_default();
            stream.truncate(len);
            stream.extend(rows);
        }
        before
    }
}

/// What a run needs, and what it has found.
pub(crate) struct Runner<'r> {
    pub(super) model: &'r Model,
    pub(super) keep: &'r Keep,
    /// The changes of each run, or one plan for all inputs.
    pub(super) plans: &'r [Plan],
    /// An unchanged run of the whole text to begin from.
    pub(crate) from: Option<&'r Streams>,
    /// The streams of this run, if a later one is to begin from it.
    pub(crate) streams: Option<Streams>,
    pub(crate) caches: Option<&'r mut Caches>,
    /// Whether the head computes the last position alone.
    pub(crate) last_only: bool,
    /// The tokens of the stack before those of this run: their keys and values are cached.
    pub(super) first: usize,
    trace: Trace,
}

impl<'r> Runner<'r> {
    pub(crate) fn new(model: &'r Model, keep: &'r Keep, plans: &'r [Plan]) -> Self {
        let trace = Trace::default();
        Self {
            model,
            keep,
            plans,
            from: None,
            streams: None,
            caches: None,
            last_only: false,
            first: 0,
            trace,
        }
    }

    /// The trace, and the streams if they were asked for. Of several runs, each kept place has its numbers one run after
    /// another.
    pub(crate) fn run(mut self, inputs: &[Input]) -> Result<(Trace, Option<Streams>), Error> {
        let description = self.model.description();
        for input in inputs {
            super::check(input, description)?;
            if lengths(input) != lengths(&inputs[0]) {
                let what = "inputs that run together have as many tokens as each other";
                return Err(Error::Input(what.into()));
            }
        }
        let mut memory = None;
        let (mut out, mut tokens) = (Vec::new(), 0);
        for (prefix, stack) in stacks(description) {
            let weights =
                if prefix == "encoder" { self.model.weights().encoder.as_ref() } else { None };
            let weights = weights.unwrap_or_else(|| &self.model.weights().stack);
            let known = self.caches.as_mut().and_then(|caches| caches.memory.clone());
            if let (Some(known), "encoder") = (&known, prefix) {
                memory = Some(known.clone());
                continue;
            }
            self.first = match (prefix, &self.caches) {
                ("encoder", _) | (_, None) => 0,
                (_, Some(caches)) => caches.len(),
            };
            let mut x = Vec::new();
            for input in inputs {
                x.extend(self.embed(prefix, input)?);
            }
            tokens = x.len() / description.width / inputs.len().max(1);
            let known = memory.as_ref().map(|(memory, tokens)| (memory.as_slice(), *tokens));
            let x = self.layers(prefix, stack, weights, x, &mut tokens, known)?;
            if prefix == "encoder" {
                if let Some(caches) = &mut self.caches {
                    caches.memory = Some((x.clone(), tokens));
                }
                memory = Some((x, tokens));
            } else {
                out = x;
            }
        }
        let width = description.width;
        if self.plans.len() > 1 {
            spread(&mut out, self.plans.len() * tokens * width);
        }
        if self.last_only {
            out = last_rows(&out, tokens, width);
            tokens = 1;
        }
        let read: Vec<usize> =
            inputs.iter().map(|input| description.class_position(input)).collect();
        self.trace.logits = self.model.head(&out, tokens, &read)?;
        Ok((self.trace, self.streams))
    }

    /// Changes the numbers of a place as planned, and keeps them if they were asked for. `shape` is that of one run.
    pub(super) fn place(
        &mut self,
        place: &str,
        shape: &[usize],
        data: &mut Vec<f32>,
    ) -> Result<(), Error> {
        if self.plans.iter().any(|plan| plan.changes(place)) {
            let len = shape.iter().product::<usize>().max(1);
            spread(data, len * self.plans.len());
            for (data, plan) in data.chunks_exact_mut(len).zip(self.plans.iter().cycle()) {
                plan.apply(place, self.first, shape, data)?;
            }
        }
        if self.keep.has(place) {
            self.keep_at(place.to_owned(), shape, data.clone());
        }
        Ok(())
    }

    pub(super) fn keep_at(&mut self, place: String, shape: &[usize], data: Vec<f32>) {
        self.trace.kept.insert(place, by_run(shape.to_vec(), data));
    }

    /// The stream \[tokens, width\] that enters the first layer.
    fn embed(&mut self, prefix: &str, input: &Input) -> Result<Vec<f32>, Error> {
        let (description, weights) = (self.model.description(), self.model.weights());
        let (width, embedding, first) = (description.width, &description.embedding, self.first);
        let ids = if prefix == "decoder" { &input.decoder_ids } else { &input.ids };
        let mut x = match &weights.tokens {
            Tokens::Patches(projection) => {
                let class = weights.types.as_ref().map(crate::Tensor::to_f32).unwrap_or_default();
                let patches = embedding.patches.map(|patches| patches.cut(&input.pixels));
                [class, product(projection, &patches.unwrap_or_default())?].concat()
            }
            Tokens::Rows(table) => rows(table, ids.iter().map(|id| *id as usize), width),
            Tokens::Tied(table) => table.forward(ids)?.into_vec(),
        };
        for x in &mut x {
            *x *= embedding.scale;
        }
        let tokens = x.len() / width;
        let only = prefix == "blocks";
        if only {
            self.place("hook_embed", &[tokens, width], &mut x)?;
        }
        if let (Some(table), Some(positions)) = (&weights.positions, embedding.positions) {
            let numbers = match embedding.patches {
                Some(_) => (0..tokens).collect(),
                None => positions.rows(ids, first),
            };
            if numbers.iter().any(|row| *row >= positions.count) {
                let (all, most) =
                    (first + tokens, positions.count - positions.first.min(positions.count));
                return Err(Error::Input(format!(
                    "{all} tokens are too many: the model has positions for {most}"
                )));
            }
            let mut added = rows(table, numbers.into_iter(), width);
            if only {
                self.place("hook_pos_embed", &[tokens, width], &mut added)?;
            }
            add(&mut x, &added);
        }
        if let (Some(table), None, true) = (&weights.types, embedding.patches, embedding.types > 0)
        {
            let kinds =
                (0..tokens).map(|token| input.types.get(token).map_or(0, |kind| *kind as usize));
            add(&mut x, &rows(table, kinds, width));
        }
        match &weights.embedding_norm {
            Some(norm) => normed(norm, &x),
            None => Ok(x),
        }
    }

    /// The stream after all layers and the final norm.
    fn layers(
        &mut self,
        prefix: &'static str,
        stack: &Stack,
        weights: &StackWeights,
        mut x: Vec<f32>,
        of_run: &mut usize,
        memory: Option<(&[f32], usize)>,
    ) -> Result<Vec<f32>, Error> {
        let description = self.model.description();
        let (width, block, tokens) = (description.width, &stack.block, *of_run);
        let first = self.first;
        let divisors = self.model.weights().divisors.as_deref();
        let angles = block.rotary.as_ref().map(|rotary| {
            let positions = first..first + tokens;
            let frequencies = rotary.frequencies(positions.end, divisors)?;
            regard::Rotary::between(&frequencies, positions, Pairing::HalfSplit)
        });
        let angles = angles.transpose()?;
        let bias =
            block.relative.as_ref().zip(weights.relative.as_ref()).map(|(relative, table)| {
                relative.bias(table, block.heads, !stack.causal, first, [tokens, first + tokens])
            });
        let start = self.start(prefix, stack);
        if let Some(known) = self.from.and_then(|from| from.0.get(&(prefix, start))) {
            // Those of this run's tokens, which are the last.
            x = known[known.len() - x.len()..].to_vec();
        }
        for (layer, of_layer) in weights.layers.iter().enumerate().skip(start) {
            let setting = LayerSetting {
                prefix,
                stack,
                layer,
                tokens,
                angles: angles.as_ref(),
                bias: bias.as_deref(),
                last_query: layer + 1 == stack.layers() && self.needs_last_query(prefix, stack),
            };
            x = self.layer(of_layer, x, memory, &setting)?;
            if setting.last_query {
                *of_run = 1;
            }
        }
        let tokens = *of_run;
        if let Some(streams) = &mut self.streams {
            streams.0.insert((prefix, stack.layers()), x.clone());
        }
        if let Some(norm) = &weights.norm {
            x = normed(norm, &x)?;
            self.place(final_norm(prefix), &[tokens, width], &mut x)?;
        }
        Ok(x)
    }

    /// Whether the last layer is asked for its last position alone, so that only that one's query and feed-forward layer are
    /// computed.
    fn needs_last_query(&self, prefix: &str, stack: &Stack) -> bool {
        let last = Some(stack.layers().saturating_sub(1));
        let untouched = self
            .plans
            .iter()
            .all(|plan| plan.last_layer(prefix) < last && !plan.changes(final_norm(prefix)));
        let places = self.keep.is_empty() && self.streams.is_none() && untouched;
        self.last_only
            && places
            && prefix != "encoder"
            && !stack.cross
            && stack.block.relative.is_none()
    }

    /// The layer to begin with: all before it are as in the earlier run, and no place of them is wanted.
    fn start(&self, prefix: &'static str, stack: &Stack) -> usize {
        if self.from.is_none() || self.plans.iter().any(Plan::changes_embedding) {
            return 0;
        }
        let first = |prefix| self.plans.iter().filter_map(|plan| plan.first_layer(prefix)).min();
        let encoder_changes = prefix == "decoder" && first("encoder").is_some();
        let changed =
            if encoder_changes { 0 } else { first(prefix).unwrap_or_else(|| stack.layers()) };
        let wanted = self.keep.first_layer(prefix).unwrap_or_else(|| stack.layers());
        changed.min(wanted)
    }

    /// The stream after a layer.
    fn layer(
        &mut self,
        weights: &Layer,
        mut x: Vec<f32>,
        memory: Option<(&[f32], usize)>,
        setting: &LayerSetting<'_>,
    ) -> Result<Vec<f32>, Error> {
        let LayerSetting { prefix, stack, layer, tokens, angles, bias, last_query } = *setting;
        let (block, width) = (&stack.block, self.model.description().width);
        let mut shape = [tokens, width];
        let name = |place: &str| format!("{prefix}.{layer}.{place}");
        if let Some(streams) = &mut self.streams {
            streams.0.insert((prefix, layer), x.clone());
        }
        self.place(&name("hook_resid_pre"), &shape, &mut x)?;
        let before = block.placement != Placement::After;
        let normed_x = if before {
            let mut y = normed(&weights.norm_1, &x)?;
            self.place(&name("ln1.hook_normalized"), &shape, &mut y)?;
            Some(y)
        } else {
            None
        };
        let mut caches = self.caches.take();
        let of_attention = Setting {
            prefix: name("attn"),
            block,
            tokens,
            last_query,
            scale: block.scale_in(layer),
            causal: stack.causal,
            window: stack.windows.get(layer).copied().flatten(),
            angles,
            bias,
            memory: None,
            cache: match prefix {
                "encoder" => None,
                _ => caches.as_mut().and_then(|caches| caches.own.get_mut(layer)),
            },
        };
        let out =
            self.attention(&weights.attention, normed_x.as_deref().unwrap_or(&x), of_attention);
        self.caches = caches;
        let mut out = out?;
        let last = LayerSetting { tokens: 1, ..*setting };
        let setting = if last_query { &last } else { setting };
        if last_query {
            x = last_rows(&x, tokens, width);
            shape = [1, width];
        }
        if let Some((after, _)) = &weights.after {
            out = normed(after, &out)?;
        }
        self.place(&name("hook_attn_out"), &shape, &mut out)?;
        if block.parallel {
            let mlp = self.feed_forward(weights, &x, before, setting)?;
            add(&mut x, &out);
            add(&mut x, &mlp);
            self.place(&name("hook_resid_post"), &shape, &mut x)?;
            return Ok(x);
        }
        add(&mut x, &out);
        self.place(&name("hook_resid_mid"), &shape, &mut x)?;
        if !before {
            x = normed(&weights.norm_1, &x)?;
            self.place(&name("ln1.hook_normalized"), &shape, &mut x)?;
        }
        if let (Some((norm, attention)), Some(memory)) = (&weights.cross, memory) {
            let normed_x = normed(norm, &x)?;
            let mut caches = self.caches.take();
            let of_cross = Setting {
                prefix: name("cross_attn"),
                block,
                tokens,
                last_query: false,
                scale: block.scale,
                causal: false,
                window: None,
                angles: None,
                bias: None,
                memory: Some(memory),
                cache: caches.as_mut().and_then(|caches| caches.cross.get_mut(layer)),
            };
            let out = self.attention(attention, &normed_x, of_cross);
            self.caches = caches;
            let mut out = out?;
            self.place(&name("hook_cross_attn_out"), &shape, &mut out)?;
            add(&mut x, &out);
            self.place(&name("hook_resid_mid_cross"), &shape, &mut x)?;
        }
        let mlp = self.feed_forward(weights, &x, before, setting)?;
        add(&mut x, &mlp);
        self.place(&name("hook_resid_post"), &shape, &mut x)?;
        if !before {
            x = normed(&weights.norm_2, &x)?;
            self.place(&name("hook_normalized_resid_post"), &shape, &mut x)?;
        }
        Ok(x)
    }

    /// The feed-forward layer's output, with the norms around it.
    fn feed_forward(
        &mut self,
        weights: &Layer,
        x: &[f32],
        norm_before: bool,
        setting: &LayerSetting<'_>,
    ) -> Result<Vec<f32>, Error> {
        let LayerSetting { prefix, stack, layer, tokens, .. } = *setting;
        let (block, width) = (&stack.block, self.model.description().width);
        let (shape, hidden) = ([tokens, width], [tokens, block.hidden]);
        let name = |place: &str| format!("{prefix}.{layer}.{place}");
        let normed_x = if norm_before {
            let mut y = normed(&weights.norm_2, x)?;
            self.place(&name("ln2.hook_normalized"), &shape, &mut y)?;
            Some(y)
        } else {
            None
        };
        let x = normed_x.as_deref().unwrap_or(x);
        let mut features = product(weights.gate.as_ref().unwrap_or(&weights.up), x)?;
        self.place(&name("mlp.hook_pre"), &hidden, &mut features)?;
        block.activation.apply(&mut features);
        if weights.gate.is_some() {
            let mut up = product(&weights.up, x)?;
            self.place(&name("mlp.hook_pre_linear"), &hidden, &mut up)?;
            let len = features.len().max(up.len());
            spread(&mut features, len);
            spread(&mut up, len);
            features.iter_mut().zip(&up).for_each(|(x, y)| *x *= y);
        }
        self.place(&name("mlp.hook_post"), &hidden, &mut features)?;
        let mut out = product(&weights.down, &features)?;
        if let Some((_, after)) = &weights.after {
            out = normed(after, &out)?;
        }
        self.place(&name("hook_mlp_out"), &shape, &mut out)?;
        Ok(out)
    }
}

/// What the layers of a run share, and the number of one of them.
#[derive(Clone, Copy)]
struct LayerSetting<'s> {
    prefix: &'static str,
    stack: &'s Stack,
    layer: usize,
    /// Of one run.
    tokens: usize,
    angles: Option<&'s regard::Rotary>,
    bias: Option<&'s [f32]>,
    /// Whether only the last token of each run leaves the layer.
    last_query: bool,
}

impl Activation {
    fn apply(self, x: &mut [f32]) {
        let activation = match self {
            Self::Relu => regard::Activation::Relu,
            Self::Gelu => regard::Activation::Gelu,
            Self::GeluTanh => regard::Activation::GeluTanh,
            Self::QuickGelu => regard::Activation::QuickGelu,
            Self::Silu => regard::Activation::Silu,
            Self::Tanh => return x.iter_mut().for_each(|x| *x = x.tanh()),
            Self::ReluSquared => return x.iter_mut().for_each(|x| *x = x.max(0.0) * x.max(0.0)),
        };
        activation.apply(x);
    }
}

impl Model {
    /// The logits of rows of the last hidden states, of which each run has `tokens`. Of a model that classifies, `read` has the
    /// position that is read in each run, or in all of them.
    pub(crate) fn head(
        &self,
        x: &[f32],
        tokens: usize,
        read: &[usize],
    ) -> Result<Option<Values>, Error> {
        let (width, weights) = (self.description().width, self.weights());
        let Some(head) = &weights.head else { return Ok(None) };
        match &self.description().head {
            Head::None | Head::Other { .. } => Ok(None),
            Head::Classes { pooler, .. } => {
                let mut read: Vec<f32> = x
                    .chunks_exact(tokens * width)
                    .zip(read.iter().cycle())
                    .flat_map(|(run, row)| run[row * width..(row + 1) * width].iter().copied())
                    .collect();
                if let (Some(activation), Some(linear)) = (pooler, &weights.pooler) {
                    read = product(linear, &read)?;
                    activation.apply(&mut read);
                }
                let data = product(head, &read)?;
                Ok(Some(by_run(vec![head.outputs()], data)))
            }
            Head::Tokens { transform, scale, softcap } => {
                let mut x = x.to_vec();
                if let (Some((activation, _)), Some((linear, norm))) =
                    (transform, &weights.transform)
                {
                    x = product(linear, &x)?;
                    activation.apply(&mut x);
                    x = normed(norm, &x)?;
                }
                for x in &mut x {
                    *x *= scale;
                }
                let mut data = product(head, &x)?;
                if let Some(cap) = softcap {
                    for x in &mut data {
                        *x = cap * (*x / cap).tanh();
                    }
                }
                Ok(Some(by_run(vec![tokens, self.description().vocabulary], data)))
            }
        }
    }
}

/// Numbers of one run's shape, with a dimension before it if there are several runs.
fn by_run(mut shape: Vec<usize>, data: Vec<f32>) -> Values {
    let runs = data.len() / shape.iter().product::<usize>().max(1);
    if runs > 1 {
        shape.insert(0, runs);
    }
    Values { shape, data }
}

/// Repeats the numbers of one run for each of several, up to `len` of them.
pub(super) fn spread(x: &mut Vec<f32>, len: usize) {
    if x.len() < len {
        *x = x.repeat(len / x.len().max(1));
    }
}

/// The last of the `tokens` rows of each run.
pub(super) fn last_rows(x: &[f32], tokens: usize, width: usize) -> Vec<f32> {
    let runs = x.chunks_exact((tokens * width).max(1));
    runs.flat_map(|run| run[run.len() - width..].iter().copied()).collect()
}

/// The rows of a table with these numbers, one after another.
fn rows(
    table: &crate::Tensor,
    numbers: impl ExactSizeIterator<Item = usize>,
    width: usize,
) -> Vec<f32> {
    let mut all = vec![0.0; numbers.len() * width];
    all.chunks_exact_mut(width).zip(numbers).for_each(|(row, number)| table.widen(number, row));
    all
}

/// The layer's output for each row of x.
pub(super) fn product(layer: &Linear, x: &[f32]) -> Result<Vec<f32>, Error> {
    let rows = x.len() / layer.inputs().max(1);
    let out = layer.forward(Sequences::new("the stream", x, [1, rows, layer.inputs()])?)?;
    Ok(out.into_vec())
}

/// The norm of each row of x.
pub(crate) fn normed(norm: &NormWeights, x: &[f32]) -> Result<Vec<f32>, Error> {
    let features = norm.features();
    Ok(norm
        .forward(Sequences::new("the stream", x, [1, x.len() / features, features])?)?
        .into_vec())
}

/// x ← x + y, where one of them may be the same for all runs.
fn add(x: &mut Vec<f32>, y: &[f32]) {
    spread(x, y.len());
    for x in x.chunks_exact_mut(y.len().max(1)) {
        x.iter_mut().zip(y).for_each(|(x, y)| *x += y);
    }
}

/// The numbers that inputs have in common if they run together.
fn lengths(input: &Input) -> [usize; 3] {
    [input.ids.len(), input.decoder_ids.len(), input.pixels.len()]
}
