//! A run: the residual stream through embedding, layers and head.
//!
//! Several runs go through the layers together, with stacked rows, so that a product reads its weights once for all of them.
//! They are inputs of equal length, or changes of the same input. Changes begin with one stream for all runs. At the first
//! place that one of them changes, each run gets a stream of its own. So the part before that place is computed once.

use std::collections::BTreeMap;

use regard::{
    Activation, Attention, Heads, KvCache, KvCacheShape, Linear, Norm, Rotary, Sequences,
};
use regard_kernels::with_default_environment;

use super::attention::{Inputs, Setting};
use super::experts::of_all_tokens;
use super::memory::numbers;
use super::{Hook, Input, Rows, Trace, Values};
use crate::change::{Plan, mean};
use crate::place::Keep;
use crate::weights::{FeedForward, FeedForwards, Layer, StackWeights, TokenEmbedding};
use crate::{
    Block, ClassPosition, Description, EmbeddingPlace, Error, FeedForwardPlace, LayerPlace, Model,
    NormName, NormPlace, OutputHead, Place, Placement, Stack, StackName, StreamPlace, Tensor,
    Which,
};

/// The keys and values of a decoder's tokens so far, and of the encoder's output.
#[derive(Debug)]
pub(crate) struct Caches {
    /// One cache for each layer.
    own: Vec<KvCache>,
    /// One cache for each layer; empty if the model has no encoder.
    cross: Vec<KvCache>,
    /// The encoder's output.
    memory: Option<Rows>,
}

impl Caches {
    /// Caches with room for `capacity` tokens of the stack, and for `memory` tokens of an encoder.
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

    /// The number of tokens of the stack in the caches.
    pub(crate) fn len(&self) -> usize {
        // A changed run does not compute the layers before the first change, so the last layer counts.
        self.own.last().map_or(0, KvCache::len)
    }

    /// The most tokens of the stack.
    pub(crate) fn capacity(&self) -> usize {
        self.own.first().map_or(0, KvCache::capacity)
    }

    /// The number of cached tokens that can be kept for a text of `tokens`: all of them, or none if the rotation of keys
    /// depends on the text's length.
    pub(crate) fn keep(&mut self, description: &Description, tokens: usize) -> usize {
        let lengths = [self.len(), tokens];
        if description.stack.rotary.iter().any(|rotary| !rotary.turns_alike(lengths)) {
            self.truncate(0);
        }
        self.len()
    }

    /// Forgets all but the first tokens of the stack.
    pub(crate) fn truncate(&mut self, tokens: usize) {
        self.own.iter_mut().for_each(|cache| cache.truncate(tokens));
    }
}

/// The residual stream that enters each layer of an unchanged run, and the one that leaves the last layer. A changed run of the
/// same input begins with it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams(BTreeMap<(StackName, usize), Vec<f32>>);

impl Streams {
    /// The streams of a text. The first `len` numbers are those of `before`, and the others are in `self`.
    pub(crate) fn after(self, mut before: Self, len: usize) -> Self {
        for (layer, rows) in self.0 {
            let stream = before.0.entry(layer).or_default();
            stream.truncate(len);
            stream.extend(rows);
        }
        before
    }
}

/// A run, with the numbers that it has kept so far.
pub(crate) struct Runner<'r> {
    pub(super) model: &'r Model,
    pub(super) keep: &'r Keep,
    /// The changes of each run, or one plan for all inputs.
    pub(super) plans: &'r [Plan],
    /// The functions that are called at places, by place, after the changes there.
    pub(crate) hooks: BTreeMap<Place, Vec<&'r Hook<'r>>>,
    /// An unchanged run of the whole text to begin from.
    pub(crate) from: Option<&'r Streams>,
    /// The streams of this run, if a later run begins with them.
    pub(crate) streams: Option<Streams>,
    pub(crate) caches: Option<&'r mut Caches>,
    /// Whether the head computes only the last position.
    pub(crate) last_only: bool,
    /// The number of tokens of the stack before those of this run. Their keys and values are cached.
    pub(super) first: usize,
    /// The number of runs that go together.
    pub(super) runs: usize,
    trace: Trace,
}

impl<'r> Runner<'r> {
    pub(crate) fn new(model: &'r Model, keep: &'r Keep, plans: &'r [Plan]) -> Self {
        let trace = Trace::default();
        Self {
            model,
            keep,
            plans,
            hooks: BTreeMap::new(),
            from: None,
            streams: None,
            caches: None,
            last_only: false,
            first: 0,
            runs: plans.len(),
            trace,
        }
    }

    /// Returns the trace, and the streams if they are requested. With several runs, each kept place has the numbers of one run
    /// after another.
    ///
    /// The loops between the kernels compute in the default floating-point environment, as the kernels do.
    pub(crate) fn run(self, inputs: &[Input]) -> Result<(Trace, Option<Streams>), Error> {
        let memory = self.model.memory();
        memory.during(|| with_default_environment(|| self.run_all(inputs)))
    }

    fn run_all(mut self, inputs: &[Input]) -> Result<(Trace, Option<Streams>), Error> {
        let (description, weights) = (self.model.description(), self.model.weights());
        for input in inputs {
            super::check(input, description)?;
            if lengths(input) != lengths(&inputs[0]) {
                let what = "inputs that run together have as many tokens as each other";
                return Err(Error::Shape(what.into()));
            }
        }
        self.runs = self.plans.len().max(inputs.len());
        let memory = self.encode(inputs)?;
        self.first = self.caches.as_ref().map_or(0, |caches| caches.len());
        let (name, stack) = description.last_stack();
        let x = self.embed(name, inputs)?;
        let mut out = self.layers(name, stack, &weights.stack, x, memory.as_ref())?;
        out.part(self.plans.len());
        if self.last_only {
            out = out.last();
        }
        let read: Vec<usize> =
            inputs.iter().map(|input| description.class_position(input)).collect();
        self.trace.pooled = self.model.pooled(&out, &read)?;
        self.trace.logits = self.model.head(out, &read)?;
        Ok((self.trace, self.streams))
    }

    /// The encoder's output, if the model has an encoder.
    fn encode(&mut self, inputs: &[Input]) -> Result<Option<Rows>, Error> {
        let model = self.model;
        let (Some(stack), Some(weights)) = (&model.description().encoder, &model.weights().encoder)
        else {
            return Ok(None);
        };
        let known = self.caches.as_ref().and_then(|caches| caches.memory.clone());
        if known.is_some() {
            return Ok(known);
        }
        let x = self.embed(StackName::Encoder, inputs)?;
        let x = self.layers(StackName::Encoder, stack, weights, x, None)?;
        if let Some(caches) = &mut self.caches {
            caches.memory = Some(x.clone());
        }
        Ok(Some(x))
    }

    /// Whether the numbers of a place may change.
    pub(super) fn changes(&self, place: Place) -> bool {
        self.plans.iter().any(|plan| plan.changes(place)) || self.hooks.contains_key(&place)
    }

    /// Whether the numbers of a place are kept, or may change.
    pub(super) fn wants(&self, place: Place) -> bool {
        self.keep.has(place) || self.changes(place)
    }

    /// Changes the numbers of a place as planned, calls the hooks there, and keeps the numbers if they are requested. `row` is
    /// the shape of a token's numbers.
    pub(super) fn place(&mut self, place: Place, row: &[usize], x: &mut Rows) -> Result<(), Error> {
        let shape = [&[x.tokens], row].concat();
        if self.plans.iter().any(|plan| plan.changes(place)) {
            x.part(self.plans.len());
            let of_run = x.data.len() / x.runs;
            let runs = x.data.chunks_exact_mut(of_run.max(1));
            for (data, plan) in runs.zip(self.plans.iter().cycle()) {
                plan.apply(place, self.first, &shape, data)?;
            }
        }
        for hook in self.hooks.get(&place).into_iter().flatten() {
            let len = x.data.len() / x.runs * self.runs;
            x.part(self.runs);
            (hook.0)(place, &shaped(x.runs, shape.clone()), &mut x.data)?;
            if x.data.len() != len {
                let found = x.data.len();
                return Err(Error::Shape(format!(
                    "a hook leaves {found} numbers at {place}, which has {len}"
                )));
            }
        }
        if self.keep.has(place) {
            self.keep_at(place, x.runs, shape, x.data.clone());
        }
        Ok(())
    }

    /// Keeps the numbers of a place, which have this shape in each run.
    pub(super) fn keep_at(&mut self, place: Place, runs: usize, shape: Vec<usize>, data: Vec<f32>) {
        self.trace.kept.insert(place, by_run(runs, shape, data));
    }

    /// The norm of each row of x, whose places `at` tells. The numbers are those of the kernel, unless a place
    /// before the norm's weights changes.
    pub(super) fn norm(
        &mut self,
        norm: &Norm,
        at: impl Fn(NormPlace) -> Place,
        x: &Rows,
    ) -> Result<Rows, Error> {
        let width = [norm.features()];
        let [scale, normalized, out] =
            [NormPlace::Scale, NormPlace::Normalized, NormPlace::Out].map(at);
        let mut y = None;
        if self.wants(scale) || self.wants(normalized) {
            let (mut rows, mut divisors) = centred(norm, x);
            self.place(scale, &[1], &mut divisors)?;
            rows.part(divisors.runs);
            for (row, divisor) in rows.data.chunks_exact_mut(width[0]).zip(&divisors.data) {
                for x in row {
                    *x /= divisor;
                }
            }
            self.place(normalized, &width, &mut rows)?;
            if self.changes(scale) || self.changes(normalized) {
                for row in rows.data.chunks_exact_mut(width[0]) {
                    row.iter_mut().zip(norm.gamma()).for_each(|(x, gamma)| *x *= gamma);
                    row.iter_mut()
                        .zip(norm.beta().unwrap_or_default())
                        .for_each(|(x, beta)| *x += beta);
                }
                y = Some(rows);
            }
        }
        let mut y = y.map_or_else(|| x.map(|x| normed(norm, x)), Ok)?;
        self.place(out, &width, &mut y)?;
        Ok(y)
    }

    /// The stream \[tokens, width\] that enters the first layer.
    fn embed(&mut self, name: StackName, inputs: &[Input]) -> Result<Rows, Error> {
        let (description, weights) = (self.model.description(), self.model.weights());
        let (embedding, first) = (&description.embedding, self.first);
        let width = embedding.features.unwrap_or(description.width);
        let ids_of = |input: &'_ Input| match name {
            StackName::Decoder => input.decoder_ids.clone(),
            StackName::Only | StackName::Encoder => input.ids.clone(),
        };
        let sound = weights.frames.as_ref().filter(|_| name == StackName::Encoder);
        let mut data = Vec::new();
        for input in inputs {
            let ids = ids_of(input);
            data.extend(match (sound, &weights.tokens) {
                (Some(sound), _) => sound.read(&input.features)?,
                (None, TokenEmbedding::Patches(projection)) => {
                    let class = weights.types.as_ref().map(Tensor::to_f32).unwrap_or_default();
                    let patches = embedding.patches.map(|patches| patches.cut(&input.pixels));
                    [class, product(projection, &patches.unwrap_or_default())?].concat()
                }
                (None, TokenEmbedding::Rows(table)) => {
                    rows(table, ids.iter().map(|id| *id as usize), width)
                }
                (None, TokenEmbedding::Tied(table)) => table.forward(&ids)?.into_vec(),
            });
        }
        for x in &mut data {
            *x *= embedding.scale;
        }
        let (runs, tokens) = (inputs.len(), data.len() / width / inputs.len());
        let mut x = Rows { runs, tokens, data };
        let only = name == StackName::Only;
        if only {
            self.place(Place::Embedding(EmbeddingPlace::Tokens), &[width], &mut x)?;
        }
        // Positions of a recording are tensors of the encoder, as many as it has tokens.
        let learned = embedding.positions.filter(|_| sound.is_none());
        let (table, norm) = match (sound, name) {
            (Some(sound), _) => (Some(&sound.positions), None),
            (None, StackName::Encoder) => {
                (weights.encoder_positions.as_ref(), weights.encoder_embedding_norm.as_ref())
            }
            _ => (weights.positions.as_ref(), weights.embedding_norm.as_ref()),
        };
        if let Some(table) = table {
            let numbers: Vec<usize> = match learned {
                Some(positions) if embedding.patches.is_none() => {
                    inputs.iter().flat_map(|x| positions.rows(&ids_of(x), first)).collect()
                }
                _ => (0..tokens).collect(),
            };
            if let Some(positions) = learned
                && numbers.iter().any(|row| *row >= positions.count)
            {
                let (all, most) = (first + tokens, positions.most());
                return Err(Error::Range(format!(
                    "{all} tokens are too many: the model has positions for {most}"
                )));
            }
            let runs = numbers.len() / tokens;
            let data = rows(table, numbers.into_iter(), width);
            let mut added = Rows { runs, tokens, data };
            if only {
                self.place(Place::Embedding(EmbeddingPlace::Positions), &[width], &mut added)?;
            }
            x.add(&added);
        }
        if let (Some(table), None, true) = (&weights.types, embedding.patches, embedding.types > 0)
        {
            let kind =
                |input: &Input, token| input.types.get(token).map_or(0, |kind| *kind as usize);
            let kinds = inputs.iter().flat_map(|x| (0..tokens).map(move |token| kind(x, token)));
            let kinds: Vec<usize> = kinds.collect();
            x.add(&Rows { runs, tokens, data: rows(table, kinds.into_iter(), width) });
        }
        if let Some(norm) = norm {
            x = x.map(|x| normed(norm, x))?;
        }
        match &weights.projection {
            Some(projection) => x.map(|x| product(projection, x)),
            None => Ok(x),
        }
    }

    /// The stream after all layers and the final norm.
    fn layers(
        &mut self,
        name: StackName,
        stack: &Stack,
        weights: &StackWeights,
        mut x: Rows,
        memory: Option<&Rows>,
    ) -> Result<Rows, Error> {
        let first = self.first;
        let positions = first..first + x.tokens;
        let divisors = self.model.weights().divisors.as_deref();
        let angles = stack.rotary.iter().map(|rotary| rotary.between(positions.clone(), divisors));
        let angles = angles.collect::<Result<Vec<_>, _>>()?;
        let bias = stack.bias(weights.relative.as_deref(), first, [x.tokens, positions.end]);
        let start = self.start(name, stack);
        let from = self.from.filter(|_| !self.changes_embedding());
        if let Some(known) = from.and_then(|from| from.0.get(&(name, start))) {
            // The rows of this run's tokens, which are the last ones.
            x.data = known[known.len() - x.data.len()..].to_vec();
        }
        for (layer, of_layer) in weights.layers.iter().enumerate().skip(start) {
            let setting = LayerSetting {
                name,
                stack,
                layer,
                angles: stack.turns.get(layer).and_then(|turns| angles.get((*turns)?)),
                bias: bias.as_deref(),
                distances: weights.distances.as_deref(),
                last_query: layer + 1 == stack.layers() && self.needs_last_query(name, stack),
            };
            x = self.layer(of_layer, x, memory, &setting)?;
        }
        if let Some(streams) = &mut self.streams {
            streams.0.insert((name, stack.layers()), x.data.clone());
        }
        match &weights.norm {
            Some(norm) => self.norm(norm, |place| Place::FinalNorm(name, place), &x),
            None => Ok(x),
        }
    }

    /// Whether only the last position leaves the last layer. Then only its query and its feed-forward layer are computed.
    fn needs_last_query(&self, name: StackName, stack: &Stack) -> bool {
        let last = Some(stack.layers().saturating_sub(1));
        let norm = |place: &NormPlace| self.changes(Place::FinalNorm(name, *place));
        let untouched = self.changed_layers(name).max() < last && !NormPlace::ALL.iter().any(norm);
        let places = self.keep.is_empty() && self.streams.is_none() && untouched;
        self.last_only && places && name != StackName::Encoder && !stack.cross && !stack.has_bias()
    }

    /// Whether a run differs from the unchanged one before the layers.
    fn changes_embedding(&self) -> bool {
        self.plans.iter().any(Plan::changes_embedding)
            || self.hooks.keys().any(|place| matches!(place, Place::Embedding(_)))
    }

    /// The layers of a stack in which a run may differ from the unchanged one.
    fn changed_layers(&self, stack: StackName) -> impl Iterator<Item = usize> {
        let hooked = self.hooks.keys().filter_map(move |place| place.layer_of(stack));
        self.plans.iter().flat_map(move |plan| plan.layers(stack)).chain(hooked)
    }

    /// The layer to begin with. All layers before it are as in the earlier run, and none of their places is requested.
    fn start(&self, name: StackName, stack: &Stack) -> usize {
        if self.from.is_none() || self.changes_embedding() {
            return 0;
        }
        let first = |name| self.changed_layers(name).min();
        let encoder_changes = name == StackName::Decoder && first(StackName::Encoder).is_some();
        let changed =
            if encoder_changes { 0 } else { first(name).unwrap_or_else(|| stack.layers()) };
        let wanted = self.keep.layers(name).min().unwrap_or_else(|| stack.layers());
        changed.min(wanted)
    }

    /// The stream after a layer.
    fn layer(
        &mut self,
        weights: &Layer,
        mut x: Rows,
        memory: Option<&Rows>,
        setting: &LayerSetting<'_>,
    ) -> Result<Rows, Error> {
        let LayerSetting { name, stack, layer, angles, bias, distances, last_query } = *setting;
        let (block, width) = (&stack.block, [self.model.description().width]);
        let place = |place: StreamPlace| name.place(layer, place);
        let norm_at = |norm| move |place| name.place(layer, LayerPlace::Norm(norm, place));
        if let Some(streams) = &mut self.streams {
            streams.0.insert((name, layer), x.data.clone());
        }
        self.place(place(StreamPlace::Pre), &width, &mut x)?;
        let norm_1 = weights.norm_1.as_ref().filter(|_| block.placement.has_before());
        let normed_x =
            norm_1.map(|norm| self.norm(norm, norm_at(NormName::First), &x)).transpose()?;
        let mut caches = self.caches.take();
        let of_attention = Setting {
            of: name.own(),
            layer,
            block,
            last_query,
            scale: block.scale_in(layer),
            causal: stack.causal,
            window: stack.windows.get(layer).copied().flatten(),
            angles,
            bias,
            distances,
            memory: None,
            inputs: Some(Inputs { norm: norm_1, stream: &x }),
            cache: match name {
                StackName::Encoder => None,
                _ => caches.as_mut().and_then(|caches| caches.own.get_mut(layer)),
            },
        };
        let normed_x = normed_x.as_ref().unwrap_or(&x);
        let mut out = self.attention(&weights.attention, normed_x, of_attention)?;
        self.caches = caches;
        if last_query {
            x = x.last();
        }
        if let Some((after, _)) = &weights.after {
            out = self.norm(after, norm_at(NormName::FirstAfter), &out)?;
        }
        self.place(place(StreamPlace::AttentionOut), &width, &mut out)?;
        if block.parallel {
            let mlp = self.feed_forward(weights, &x, setting)?;
            x.add(&out);
            x.add(&mlp);
            self.place(place(StreamPlace::Post), &width, &mut x)?;
            return Ok(x);
        }
        x.add(&out);
        self.place(place(StreamPlace::Mid), &width, &mut x)?;
        let after = block.placement == Placement::After;
        // The norm of the sum that the feed-forward layer reads.
        let mut of_sum = (weights.norm_1.as_ref(), NormName::First);
        if let (Some((norm, attention)), Some(memory)) = (&weights.cross, memory) {
            let normed_x = if after {
                if let Some(norm) = &weights.norm_1 {
                    x = self.norm(norm, norm_at(NormName::First), &x)?;
                }
                of_sum = (Some(norm), NormName::Second);
                x.clone()
            } else {
                self.norm(norm, norm_at(NormName::Second), &x)?
            };
            let mut caches = self.caches.take();
            let of_cross = Setting {
                of: Which::Cross,
                layer,
                block,
                last_query: false,
                scale: block.scale,
                causal: false,
                window: None,
                angles: None,
                bias: None,
                distances: None,
                memory: Some(memory),
                inputs: None,
                cache: caches.as_mut().and_then(|caches| caches.cross.get_mut(layer)),
            };
            let mut out = self.attention(attention, &normed_x, of_cross)?;
            self.caches = caches;
            self.place(place(StreamPlace::CrossAttentionOut), &width, &mut out)?;
            x.add(&out);
            self.place(place(StreamPlace::MidCross), &width, &mut x)?;
        }
        if let (Some(norm), name) = of_sum
            && after
        {
            // The stream that the feed-forward layer reads is also the one that its output is added to.
            self.place(place(StreamPlace::FeedForwardIn), &width, &mut x)?;
            x = self.norm(norm, norm_at(name), &x)?;
        }
        let mlp = self.feed_forward(weights, &x, setting)?;
        x.add(&mlp);
        self.place(place(StreamPlace::Post), &width, &mut x)?;
        if let Some(norm) = weights.norm_2.as_ref().filter(|_| after) {
            x = self.norm(norm, norm_at(stack.norm_2()), &x)?;
            self.place(place(StreamPlace::NormedPost), &width, &mut x)?;
        }
        Ok(x)
    }

    /// What the feed-forward layer adds to the stream, with the norms around it.
    fn feed_forward(
        &mut self,
        weights: &Layer,
        x: &Rows,
        setting: &LayerSetting<'_>,
    ) -> Result<Rows, Error> {
        let LayerSetting { name, stack, layer, .. } = *setting;
        let (width, hidden) = ([self.model.description().width], [stack.block.hidden]);
        let place = |place: FeedForwardPlace| name.place(layer, place);
        let stream = |place: StreamPlace| name.place(layer, place);
        let norm_at = |norm| move |place| name.place(layer, LayerPlace::Norm(norm, place));
        let placement = stack.block.placement;
        let mut read = None;
        if placement != Placement::After && self.wants(stream(StreamPlace::FeedForwardIn)) {
            self.place(stream(StreamPlace::FeedForwardIn), &width, read.insert(x.clone()))?;
        }
        let x = read.as_ref().unwrap_or(x);
        let norm = weights.norm_2.as_ref().filter(|_| placement.has_before());
        let normed_x = norm.map(|norm| self.norm(norm, norm_at(stack.norm_2()), x)).transpose()?;
        let x = normed_x.as_ref().unwrap_or(x);
        let mut out = match (&weights.feed_forward, stack.experts_of(layer)) {
            (FeedForwards::Experts { router, each, shared, .. }, Some(experts)) => {
                let activation = stack.block.activation;
                let places = [FeedForwardPlace::ExpertWeights, FeedForwardPlace::ExpertIndices];
                let places = places.map(place);
                let mut out = self.mixture(places, (router, each), (experts, activation), x)?;
                if let Some(shared) = shared {
                    out.add(&x.map(|x| of_all_tokens(shared, x, activation))?);
                }
                out
            }
            (layer, _) => {
                let FeedForward { gate, up, down } = layer.one()?;
                let mut features = x.map(|x| product(gate.as_ref().unwrap_or(up), x))?;
                self.place(place(FeedForwardPlace::Pre), &hidden, &mut features)?;
                stack.block.activation.apply(&mut features.data);
                if gate.is_some() {
                    let mut up = x.map(|x| product(up, x))?;
                    self.place(place(FeedForwardPlace::PreLinear), &hidden, &mut up)?;
                    features.multiply(up);
                }
                self.place(place(FeedForwardPlace::Post), &hidden, &mut features)?;
                features.map(|x| product(down, x))?
            }
        };
        out.scale(stack.block.output_scale);
        if let Some((_, after)) = &weights.after {
            out = self.norm(after, norm_at(NormName::SecondAfter), &out)?;
        }
        self.place(stream(StreamPlace::FeedForwardOut), &width, &mut out)?;
        Ok(out)
    }
}

/// The settings that the layers of a run share, and the index of one of the layers.
#[derive(Clone, Copy)]
struct LayerSetting<'s> {
    name: StackName,
    stack: &'s Stack,
    layer: usize,
    angles: Option<&'s Rotary>,
    bias: Option<&'s [f32]>,
    distances: Option<&'s [f32]>,
    /// Whether only the last token of each run leaves the layer.
    last_query: bool,
}

impl Model {
    /// The logits of the last hidden states. For a model that classifies, `read` has the position that is read in each run, or
    /// one position for all runs.
    pub(crate) fn head(&self, x: Rows, read: &[usize]) -> Result<Option<Values>, Error> {
        let weights = self.weights();
        let Some(head) = &weights.head else { return Ok(None) };
        match &self.description().head {
            OutputHead::None | OutputHead::Pooled { .. } | OutputHead::Other { .. } => Ok(None),
            OutputHead::Classes { pooler, position, .. } => {
                let mut states = self.states(&x, *position, read)?;
                if let (Some(activation), Some(linear)) = (pooler, &weights.pooler) {
                    states = product(linear, &states)?;
                    activation.apply(&mut states);
                }
                if let Some(norm) = &weights.pooler_norm {
                    states = normed(norm, &states)?;
                }
                Ok(Some(by_run(x.runs, vec![head.outputs()], product(head, &states)?)))
            }
            OutputHead::Tokens { transform, scale, softcap } => {
                let mut x = x;
                if let (Some((activation, _)), Some((linear, norm))) =
                    (transform, &weights.transform)
                {
                    x = x.map(|x| product(linear, x))?;
                    activation.apply(&mut x.data);
                    x = x.map(|x| normed(norm, x))?;
                }
                x.scale(*scale);
                let mut logits = product(head, &x.data)?;
                if let Some(cap) = softcap {
                    for x in &mut logits {
                        *x /= cap;
                    }
                    Activation::Tanh.apply(&mut logits);
                    for x in &mut logits {
                        *x *= cap;
                    }
                }
                Ok(Some(by_run(x.runs, vec![x.tokens, self.description().vocabulary], logits)))
            }
        }
    }
}

impl Model {
    /// The vector of the whole input, if the model has one.
    fn pooled(&self, x: &Rows, read: &[usize]) -> Result<Option<Values>, Error> {
        let (weights, head) = (self.weights(), &self.description().head);
        let OutputHead::Pooled { position, activation, .. } = head else { return Ok(None) };
        let mut states = self.states(x, *position, read)?;
        if let Some(norm) = &weights.pooler_norm {
            states = normed(norm, &states)?;
        }
        if let Some(linear) = &weights.pooler {
            states = product(linear, &states)?;
            if let Some(activation) = activation {
                activation.apply(&mut states);
            }
        }
        let features = states.len() / x.runs;
        Ok(Some(by_run(x.runs, vec![features], states)))
    }

    /// What a head reads of each run: the state of the position in `read`, or one of several positions.
    fn states(&self, x: &Rows, position: ClassPosition, read: &[usize]) -> Result<Vec<f32>, Error> {
        let width = self.description().width;
        let before = self.description().embedding.patches.map_or(0, |patches| patches.before());
        let of_patches =
            |run: &[f32]| mean(run.get(before * width..).unwrap_or_default(), width, 0, width);
        let of_run = |(run, read): (&[f32], &usize)| {
            Ok(match position {
                ClassPosition::Mean => mean(run, width, 0, width),
                ClassPosition::Patches => of_patches(run),
                ClassPosition::FirstAndPatches => [run[..width].to_vec(), of_patches(run)].concat(),
                ClassPosition::FirstTwo => run[..2 * width].to_vec(),
                ClassPosition::Probe => return self.probed(run),
                ClassPosition::First | ClassPosition::Token { .. } | ClassPosition::Last { .. } => {
                    run[read * width..(read + 1) * width].to_vec()
                }
            })
        };
        let states: Result<Vec<Vec<f32>>, Error> =
            x.each().zip(read.iter().cycle()).map(of_run).collect();
        Ok(states?.concat())
    }

    /// What a learned query reads of the states \[tokens, width\].
    fn probed(&self, x: &[f32]) -> Result<Vec<f32>, Error> {
        let Some(probe) = &self.weights().probe else {
            return Err(Error::Unsupported("the model has no query of the whole image".into()));
        };
        let block = &self.description().stack.block;
        let (heads, width) = (block.heads, self.description().width);
        let (keys, values) = (product(&probe.key, x)?, product(&probe.value, x)?);
        let tokens = x.len() / width;
        let split = |what, data, tokens| Heads::split(what, data, [1, tokens, width], heads);
        let attention = Attention::new().scale(block.scale);
        let read = attention.forward(
            split("the query", &probe.query, 1)?,
            split("the keys", &keys, tokens)?,
            split("the values", &values, tokens)?,
        )?;
        let mut out = product(&probe.out, read.as_slice())?;
        let FeedForward { up, down, .. } = &probe.feed_forward;
        let mut features = product(up, &normed(&probe.norm, &out)?)?;
        block.activation.apply(&mut features);
        let added = product(down, &features)?;
        out.iter_mut().zip(added).for_each(|(x, y)| *x += y);
        Ok(out)
    }
}

/// The numbers of runs of this shape. If there are several runs, they are a first dimension.
fn by_run(runs: usize, shape: Vec<usize>, data: Vec<f32>) -> Values {
    Values { shape: shaped(runs, shape), data }
}

fn shaped(runs: usize, mut shape: Vec<usize>) -> Vec<usize> {
    if runs > 1 {
        shape.insert(0, runs);
    }
    shape
}

/// The numerator of a norm for each row of x, and its divisor: x less its mean (layer norm) and √(variance + ε), or x and
/// √(mean of x² + ε). Computed in `f64`.
fn centred(norm: &Norm, x: &Rows) -> (Rows, Rows) {
    let (mut rows, width) = (x.clone(), norm.features().max(1));
    let divisor = |row: &mut [f32]| {
        let mean_of = |numbers: &mut dyn Iterator<Item = f64>| numbers.sum::<f64>() / width as f64;
        let mean = match norm.beta() {
            Some(_) => mean_of(&mut row.iter().map(|x| f64::from(*x))),
            None => 0.0,
        };
        let square = mean_of(&mut row.iter().map(|x| (f64::from(*x) - mean).powi(2)));
        for x in row {
            *x = (f64::from(*x) - mean) as f32;
        }
        (square + f64::from(norm.epsilon())).sqrt() as f32
    };
    let data = rows.data.chunks_exact_mut(width).map(divisor).collect();
    (rows, Rows { data, ..*x })
}

/// The rows of a table with these indices, one after another.
fn rows(table: &Tensor, numbers: impl ExactSizeIterator<Item = usize>, width: usize) -> Vec<f32> {
    let mut all = vec![0.0; numbers.len() * width];
    all.chunks_exact_mut(width).zip(numbers).for_each(|(row, number)| table.widen(number, row));
    all
}

/// The layer's output for each row of x.
pub(crate) fn product(layer: &Linear, x: &[f32]) -> Result<Vec<f32>, Error> {
    let rows = x.len() / layer.inputs().max(1);
    let x = Sequences::new("the stream", x, [1, rows, layer.inputs()])?;
    let fresh = || Ok(layer.forward(x)?.into_vec());
    numbers(rows * layer.outputs(), fresh, |out| Ok(layer.forward_into(x, out)?))
}

pub(crate) fn normed(norm: &Norm, x: &[f32]) -> Result<Vec<f32>, Error> {
    let (len, features) = (x.len(), norm.features());
    let x = Sequences::new("the stream", x, [1, len / features, features])?;
    numbers(len, || Ok(norm.forward(x)?.into_vec()), |out| Ok(norm.forward_into(x, out)?))
}

/// The lengths that inputs must have in common if they run together.
fn lengths(input: &Input) -> [usize; 4] {
    [input.ids.len(), input.decoder_ids.len(), input.pixels.len(), input.features.len()]
}
