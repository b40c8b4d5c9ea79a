//! One attention of a layer: queries, keys and values, the weights if they are requested, and the output of each head.

use std::collections::BTreeMap;

use regard::{
    Attention, Heads, KvCache, Linear, Mask, MaskTensor, Norm, Position, Rotary, Stage,
    Temperature, Window,
};
use regard_kernels::{Mat, MatMut, matmul, softmax_rows};

use super::memory::{leave, numbers};
use super::run::{Runner, normed, product};
use super::{Rows, sum};
use crate::change::AttentionChanges;
use crate::weights::AttentionWeights;
use crate::{AttentionPlace, Block, Error, Place, Which};

/// The settings of an attention of a layer.
pub(super) struct Setting<'s> {
    /// Which attention it is.
    pub(super) of: Which,
    pub(super) layer: usize,
    pub(super) block: &'s Block,
    /// Whether only the last token of each run is a query.
    pub(super) last_query: bool,
    pub(super) scale: f32,
    pub(super) causal: bool,
    pub(super) window: Option<usize>,
    pub(super) angles: Option<&'s Rotary>,
    /// \[heads, queries, keys\]
    pub(super) bias: Option<&'s [f32]>,
    /// The rows of distances of [`Disentangled`](crate::Disentangled).
    pub(super) distances: Option<&'s [f32]>,
    /// The encoder's output, if keys and values are computed from it and not from the stream.
    pub(super) memory: Option<&'s Rows>,
    /// The streams of the heads, if each head can read a stream of its own.
    pub(super) inputs: Option<Inputs<'s>>,
    pub(super) cache: Option<&'s mut KvCache>,
}

/// The stream that the heads of a layer read.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'s> {
    /// The norm of it, if there is one before the attention.
    pub(super) norm: Option<&'s Norm>,
    /// Before the norm.
    pub(super) stream: &'s Rows,
}

impl Setting<'_> {
    fn mask(&self) -> Mask<'static> {
        let mask = if self.causal { Mask::CAUSAL } else { Mask::NONE };
        match self.window {
            Some(window) => {
                let left = Some(window.saturating_sub(1));
                let right = left.filter(|_| !self.causal);
                mask.window(Position::BottomRight, Window { left, right })
            }
            None => mask,
        }
    }
}

impl Runner<'_> {
    /// The attention's output \[tokens, width\] for x \[tokens, width\].
    pub(super) fn attention(
        &mut self,
        weights: &AttentionWeights,
        x: &Rows,
        setting: Setting<'_>,
    ) -> Result<Rows, Error> {
        use AttentionPlace::{
            Key, KeyIn, NormedKey, NormedQuery, Output, Pattern, Query, QueryIn, Scores, TurnedKey,
            TurnedQuery, Value, ValueIn,
        };
        let Block { heads, kv_heads, head_size, .. } = *setting.block;
        let (of_queries, of_keys) = ([heads, head_size], [kv_heads, head_size]);
        let place = |place: AttentionPlace| setting.of.place(setting.layer, place);
        let inputs = setting.inputs;
        let mut q = if setting.last_query {
            x.last().map(|x| product(&weights.q, x))?
        } else {
            self.projection(place(QueryIn), &weights.q, x, heads, inputs)?
        };
        let clip = |x: &mut Rows| {
            if let Some(most) = setting.block.clip {
                x.data.iter_mut().for_each(|x| *x = x.clamp(-most, most));
            }
        };
        clip(&mut q);
        self.place(place(Query), &of_queries, &mut q)?;

        // The keys and values of an encoder are the same for every token that the decoder writes.
        let known = setting.memory.is_some()
            && setting.cache.as_ref().is_some_and(|cache| !cache.is_empty());
        let (mut k, mut v) = (Rows::new(0, Vec::new()), Rows::new(0, Vec::new()));
        if !known {
            let source = setting.memory.unwrap_or(x);
            k = self.projection(place(KeyIn), &weights.k, source, kv_heads, inputs)?;
            v = self.projection(place(ValueIn), &weights.v, source, kv_heads, inputs)?;
            [&mut k, &mut v].into_iter().for_each(clip);
            self.place(place(Key), &of_keys, &mut k)?;
            self.place(place(Value), &of_keys, &mut v)?;
        }
        if let Some((q_norm, k_norm)) = &weights.qk_norm {
            q = q.map(|q| normed(q_norm, q))?;
            k = k.map(|k| normed(k_norm, k))?;
            self.place(place(NormedQuery), &of_queries, &mut q)?;
            self.place(place(NormedKey), &of_keys, &mut k)?;
        }
        if let Some(angles) = setting.angles {
            for (x, heads) in [(&mut q, heads), (&mut k, kv_heads)] {
                let shape = [x.runs, x.tokens, heads, head_size];
                angles.rotate(&mut x.data, shape, angles.positions() - x.tokens)?;
            }
            if let Some(growth) = setting.block.growth {
                let (first, tokens) = (angles.positions() - q.tokens, q.tokens);
                for (i, row) in q.data.chunks_exact_mut(heads * head_size).enumerate() {
                    let factor = growth.at(first + i % tokens);
                    for x in row {
                        *x *= factor;
                    }
                }
            }
            self.place(place(TurnedQuery), &of_queries, &mut q)?;
            self.place(place(TurnedKey), &of_keys, &mut k)?;
        }
        let at = (setting.of, setting.layer);
        let of_runs: Vec<&AttentionChanges> =
            self.plans.iter().map(|plan| plan.attention(at)).collect();
        let [scores, pattern] = [place(Scores), place(Pattern)];
        // Fused kernels do not store the weights. If a hook changes them, products of matrices replace the fused kernel.
        let by_hand = self.changes(scores) || self.changes(pattern);
        let is_changed = by_hand || of_runs.iter().any(|changes| !changes.is_empty());
        let runs = [q.runs, k.runs, v.runs, if is_changed { self.runs } else { 1 }];
        let runs = runs.into_iter().max().unwrap_or(1);
        for x in [&mut q, &mut k, &mut v] {
            x.part(runs);
        }
        let tokens = q.tokens;
        let of_positions = match (setting.block.disentangled, setting.distances) {
            (Some(of), Some(table)) => {
                let mut all = Vec::with_capacity(runs * heads * tokens * tokens);
                for pair in q.each().zip(k.each()) {
                    let sizes = [tokens, heads, head_size];
                    let parts = of.parts(weights, table, pair.into(), sizes, setting.scale)?;
                    all.extend(sum(parts).unwrap_or_else(|| vec![0.0; heads * tokens * tokens]));
                }
                Some(all)
            }
            _ => None,
        };
        let shape = |heads, tokens| [runs, tokens, heads * head_size];
        let of_values = v.data.as_slice();
        let q = Heads::split("the queries", &q.data, shape(heads, tokens), heads)?;
        let new_k = Heads::split("the keys", &k.data, shape(kv_heads, k.tokens), kv_heads)?;
        let new_v = Heads::split("the values", of_values, shape(kv_heads, v.tokens), kv_heads)?;
        let (mut mask, bias) = (setting.mask(), setting.bias);
        let (k, v) = match setting.cache {
            Some(cache) => {
                if !known {
                    cache.append(new_k, new_v)?;
                }
                (cache.keys(), cache.values())
            }
            None => (new_k, new_v),
        };
        let [_, _, keys, _] = k.shape();
        if let Some(bias) = bias {
            mask = mask.bias(MaskTensor::new(bias, &[heads, tokens, keys])?);
        }
        if let Some(bias) = &of_positions {
            mask = mask.bias(MaskTensor::new(bias, &[runs, heads, tokens, keys])?);
        }
        let edges = [heads, tokens, keys];
        let mut uncut = Vec::new();
        if of_runs.iter().any(|changes| !changes.cuts.is_empty()) {
            uncut.extend(of_runs.iter().flat_map(|changes| changes.uncut(self.first, edges)));
            mask = mask.allowed(MaskTensor::new(&uncut, &[runs, heads, tokens, keys])?);
        }
        let mut attention = Attention::new().scale(setting.scale).mask(mask);
        if let Some(cap) = setting.block.softcap {
            attention = attention.softcap(cap);
        }
        let sinks = weights.sinks.as_deref();
        if let Some(sinks) = sinks {
            attention = attention.sinks(sinks);
        }
        // By run and head. If a head has several temperatures, the last one counts.
        let temperatures: BTreeMap<usize, Temperature> = (0..)
            .zip(&of_runs)
            .flat_map(|(run, changes)| {
                changes.temperatures.iter().map(move |(head, t)| (run * heads + head, *t))
            })
            .collect();
        let tempered = |compute: &dyn Fn(&Attention<'_>) -> Result<Vec<f32>, Error>| {
            let mut all = compute(&attention)?;
            let len = all.len() / (runs * heads);
            for (head, temperature) in &temperatures {
                let sinks = sinks.map(|sinks| sinks_at(sinks, *temperature));
                let one = compute(&at_temperature(&attention, *temperature, sinks.as_deref()))?;
                let numbers = head * len..(head + 1) * len;
                all[numbers.clone()].copy_from_slice(&one[numbers]);
            }
            Ok::<_, Error>(all)
        };
        let of_heads = |data| Rows { runs, tokens: heads, data };

        let changed_scores = if self.wants(scores) {
            let mut values = of_heads(attention.scores(Stage::Masked, q, k)?.into_vec());
            self.place(scores, &[tokens, keys], &mut values)?;
            self.changes(scores).then(|| values.into_vec())
        } else {
            None
        };
        let changed_weights = if by_hand || self.wants(pattern) {
            let data = match changed_scores {
                Some(mut scores) => {
                    let len = tokens * keys;
                    for (head, rows) in scores.chunks_exact_mut(len.max(1)).enumerate() {
                        let temperature = temperatures.get(&head).copied();
                        if let Some(sinks) = sinks {
                            let temperature = temperature.unwrap_or(Temperature::ONE);
                            weigh_beside(rows, keys, sinks[head % heads], temperature)?;
                            continue;
                        }
                        let rows = MatMut::new(rows, tokens, keys).map_err(regard::Error::from)?;
                        softmax_rows(rows, temperature.unwrap_or(Temperature::ONE));
                    }
                    scores
                }
                None => {
                    tempered(&|attention| Ok(attention.scores(Stage::Weights, q, k)?.into_vec()))?
                }
            };
            let mut values = of_heads(data);
            self.place(pattern, &[tokens, keys], &mut values)?;
            by_hand.then(|| values.into_vec())
        } else {
            None
        };
        let z = match changed_weights {
            Some(weights) => {
                weighted(&weights, of_values, [runs, heads, kv_heads], [tokens, keys, head_size])?
            }
            None => tempered(&|attention| {
                let fresh = || Ok(attention.forward(q, k, v)?.into_vec());
                let len = runs * heads * tokens * head_size;
                numbers(len, fresh, |z| Ok(attention.forward_into(q, k, v, z)?))
            })?,
        };
        let of_heads =
            Heads::new("the outputs of the heads", &z, [runs, heads, tokens, head_size])?;
        let join = |out: &mut [f32]| of_heads.join_into(out);
        let fresh = || {
            let mut data = vec![0.0; z.len()];
            join(&mut data).map(|()| data)
        };
        let data = numbers(z.len(), fresh, join)?;
        leave(z);
        let mut z = Rows { runs, tokens, data };
        self.place(place(Output), &of_queries, &mut z)?;
        self.output(place(AttentionPlace::Result), &weights.out, setting.block, &z)
    }

    /// The queries, keys or values of x. At this place each head can read a stream of its own: a row that differs from the
    /// stream goes through the norm and the projection alone.
    fn projection(
        &mut self,
        place: Place,
        layer: &Linear,
        x: &Rows,
        heads: usize,
        inputs: Option<Inputs<'_>>,
    ) -> Result<Rows, Error> {
        let mut out = x.map(|x| product(layer, x))?;
        let Some(Inputs { norm, stream }) = inputs else { return Ok(out) };
        if !self.wants(place) {
            return Ok(out);
        }
        let width = layer.inputs().max(1);
        let copies = stream.data.chunks_exact(width).flat_map(|row| row.repeat(heads));
        let mut read = Rows { data: copies.collect(), ..*stream };
        self.place(place, &[heads, width], &mut read)?;
        let mut stream = stream.clone();
        let runs = read.runs.max(out.runs);
        for x in [&mut read, &mut stream, &mut out] {
            x.part(runs);
        }
        let (row, own_row) = (
            |i: usize| &read.data[i * width..][..width],
            |i: usize| &stream.data[i * width..][..width],
        );
        let all = 0..read.data.len() / width;
        let differ: Vec<usize> = all.filter(|i| row(*i) != own_row(i / heads)).collect();
        if differ.is_empty() {
            return Ok(out);
        }
        let mut rows: Vec<f32> = differ.iter().flat_map(|i| row(*i)).copied().collect();
        if let Some(norm) = norm {
            rows = normed(norm, &rows)?;
        }
        let (rows, size) = (product(layer, &rows)?, layer.outputs() / heads);
        for (i, row) in differ.iter().zip(rows.chunks_exact(layer.outputs())) {
            out.data[i * size..][..size].copy_from_slice(&row[i % heads * size..][..size]);
        }
        Ok(out)
    }

    /// The attention's output for z \[tokens, heads · head size\]. At this place each head's share can be read and changed.
    fn output(
        &mut self,
        place: Place,
        layer: &Linear,
        block: &Block,
        z: &Rows,
    ) -> Result<Rows, Error> {
        let (heads, scale) = (block.heads, block.output_scale);
        let mut out = z.map(|z| product(layer, z))?;
        out.scale(scale);
        if !self.wants(place) {
            return Ok(out);
        }
        let (inputs, width) = (layer.inputs(), layer.outputs().max(1));
        let (size, plain) = (inputs / heads, layer.clone().with_bias(vec![0.0; width])?);
        // The share of each head alone; those of the others are zeros.
        let mut alone = vec![0.0; z.data.len() * heads];
        let rows = alone.chunks_exact_mut(inputs.max(1)).zip(z.data.chunks_exact(size.max(1)));
        for (i, (row, z)) in rows.enumerate() {
            row[i % heads * size..][..size].copy_from_slice(z);
        }
        let mut result = z.map(|_| product(&plain, &alone))?;
        result.scale(scale);
        self.place(place, &[heads, width], &mut result)?;
        if self.changes(place) {
            out.part(result.runs);
            let sums = result.data.chunks_exact(width * heads);
            for (out, shares) in out.data.chunks_exact_mut(width).zip(sums) {
                for (i, out) in out.iter_mut().enumerate() {
                    let bias = layer.bias().map_or(0.0, |bias| bias[i]);
                    *out = shares.iter().skip(i).step_by(width).sum::<f32>() + bias * scale;
                }
            }
        }
        Ok(out)
    }
}

/// The scores of sinks beside scores that a temperature divides, which the sinks are not: each times the temperature.
pub(crate) fn sinks_at(sinks: &[f32], temperature: Temperature) -> Vec<f32> {
    sinks.iter().map(|sink| sink * temperature.get()).collect()
}

/// An attention whose scores are divided by a temperature, and whose sinks, times the temperature, are not. At ∞ all scores are 0.
pub(crate) fn at_temperature<'a>(
    attention: &Attention<'a>,
    temperature: Temperature,
    sinks: Option<&'a [f32]>,
) -> Attention<'a> {
    let attention = attention.clone();
    match sinks {
        None => attention.temperature(temperature),
        Some(_) if temperature.get() == f32::INFINITY => attention.scale(0.0),
        Some(sinks) => attention.temperature(temperature).sinks(sinks),
    }
}

/// Makes weights of rows of scores beside a sink.
fn weigh_beside(
    rows: &mut [f32],
    keys: usize,
    sink: f32,
    temperature: Temperature,
) -> Result<(), Error> {
    for row in rows.chunks_exact_mut(keys.max(1)) {
        let (mut all, mut temperature) = (row.to_vec(), temperature);
        if temperature.get() == f32::INFINITY {
            all.iter_mut().filter(|x| x.is_finite()).for_each(|x| *x = 0.0);
            temperature = Temperature::ONE;
        }
        all.extend(sinks_at(&[sink], temperature));
        softmax_rows(MatMut::new(&mut all, 1, keys + 1).map_err(regard::Error::from)?, temperature);
        row.copy_from_slice(&all[..keys]);
    }
    Ok(())
}

/// Weights \[runs, heads, tokens, keys\] times values \[runs, keys, kv heads, head size\], as \[runs, heads, tokens, head size\].
fn weighted(
    weights: &[f32],
    values: &[f32],
    [runs, heads, kv_heads]: [usize; 3],
    [tokens, keys, size]: [usize; 3],
) -> Result<Vec<f32>, Error> {
    let mut z = vec![0.0; runs * heads * tokens * size];
    let of_heads = z
        .chunks_exact_mut((tokens * size).max(1))
        .zip(weights.chunks_exact((tokens * keys).max(1)));
    for (i, (z, weights)) in of_heads.enumerate() {
        let (run, kv_head) = (i / heads, i % heads / (heads / kv_heads).max(1));
        let first = (run * keys * kv_heads + kv_head) * size;
        let mut product = || {
            let values = Mat::strided(&values[first..], keys, size, kv_heads * size)?;
            matmul(Mat::new(weights, tokens, keys)?, values, MatMut::new(z, tokens, size)?)
        };
        product().map_err(regard::Error::from)?;
    }
    Ok(z)
}
