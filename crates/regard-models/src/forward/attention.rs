//! One attention of a layer: queries, keys and values, the weights where someone wants them, and the output of each head.

use regard::{Attention, Heads, KvCache, Mask, MaskTensor, Position, Rotary, Stage, Window};

use super::Rows;
use super::run::{Runner, normed, product};
use crate::change::AttentionChanges;
use crate::weights::AttentionWeights;
use crate::{Block, Error};

/// The settings of an attention of a layer.
pub(super) struct Setting<'s> {
    /// Such as `blocks.3.attn`.
    pub(super) prefix: String,
    pub(super) block: &'s Block,
    /// Whether only the last token of each run is a query.
    pub(super) last_query: bool,
    pub(super) scale: f32,
    pub(super) causal: bool,
    pub(super) window: Option<usize>,
    pub(super) angles: Option<&'s Rotary>,
    /// \[heads, queries, keys\]
    pub(super) bias: Option<&'s [f32]>,
    /// The encoder's output, where keys and values are made of that and not of the stream.
    pub(super) memory: Option<&'s Rows>,
    pub(super) cache: Option<&'s mut KvCache>,
}

impl Setting<'_> {
    fn mask(&self) -> Mask<'static> {
        let mask = if self.causal { Mask::CAUSAL } else { Mask::NONE };
        match self.window {
            Some(window) => {
                let left = Some(window.saturating_sub(1));
                mask.window(Position::BottomRight, Window { left, right: None })
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
        let Block { heads, kv_heads, head_size, .. } = *setting.block;
        let (of_queries, of_keys) = ([heads, head_size], [kv_heads, head_size]);
        let place = |name: &str| format!("{}.{name}", setting.prefix);
        let to_queries = |x: &Rows| x.map(|x| product(&weights.q, x));
        let mut q = if setting.last_query { to_queries(&x.last())? } else { to_queries(x)? };
        self.place(&place("hook_q"), &of_queries, &mut q)?;

        // An encoder's keys and values are the same for every token that the decoder writes.
        let known = setting.memory.is_some()
            && setting.cache.as_ref().is_some_and(|cache| !cache.is_empty());
        let (mut k, mut v) = (Rows::new(0, Vec::new()), Rows::new(0, Vec::new()));
        if !known {
            let source = setting.memory.unwrap_or(x);
            k = source.map(|x| product(&weights.k, x))?;
            v = source.map(|x| product(&weights.v, x))?;
            self.place(&place("hook_k"), &of_keys, &mut k)?;
            self.place(&place("hook_v"), &of_keys, &mut v)?;
        }
        if let Some((q_norm, k_norm)) = &weights.qk_norm {
            q = q.map(|q| normed(q_norm, q))?;
            k = k.map(|k| normed(k_norm, k))?;
        }
        if let Some(angles) = setting.angles {
            for (x, heads) in [(&mut q, heads), (&mut k, kv_heads)] {
                let shape = [x.runs, x.tokens, heads, head_size];
                angles.rotate(&mut x.data, shape, angles.positions() - x.tokens)?;
            }
            self.place(&place("hook_rot_q"), &of_queries, &mut q)?;
            self.place(&place("hook_rot_k"), &of_keys, &mut k)?;
        }
        let runs = q.runs.max(k.runs).max(v.runs);
        for x in [&mut q, &mut k, &mut v] {
            x.part(runs);
        }
        let tokens = q.tokens;
        let shape = |heads, tokens| [runs, heads, tokens, head_size];
        let q = Heads::split("the queries", &q.data, shape(heads, tokens))?;
        let new_k = Heads::split("the keys", &k.data, shape(kv_heads, k.tokens))?;
        let new_v = Heads::split("the values", &v.data, shape(kv_heads, v.tokens))?;
        let (prefix, mut mask, bias) = (setting.prefix.clone(), setting.mask(), setting.bias);
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
        // Runs with changes inside of an attention do not go together with others.
        let changes = match self.plans {
            [plan] => plan.attention(&prefix),
            _ => AttentionChanges::default(),
        };
        let uncut = changes.uncut(self.first, [heads, tokens, keys]);
        if let Some(uncut) = &uncut {
            mask = mask.allowed(MaskTensor::new(uncut, &[heads, tokens, keys])?);
        }
        let mut attention = Attention::new().scale(setting.scale).mask(mask);
        if let Some(cap) = setting.block.softcap {
            attention = attention.softcap(cap);
        }

        let mut z = attention.forward(q, k, v)?; // [runs, heads, tokens, head size]
        for (head, temperature) in &changes.temperatures {
            let changed = attention.clone().temperature(*temperature).forward(q, k, v)?;
            copy_head([heads, *head], &changed, &mut z, tokens * head_size);
        }
        let scores = format!("{prefix}.hook_attn_scores");
        if self.keep.has(&scores) {
            let values = attention.scores(Stage::Masked, q, k)?;
            self.keep_at(scores, runs, vec![heads, tokens, keys], values.into_vec());
        }
        let pattern = format!("{prefix}.hook_pattern");
        if self.keep.has(&pattern) {
            let mut weights = attention.scores(Stage::Weights, q, k)?;
            for (head, temperature) in &changes.temperatures {
                let changed = attention.clone().temperature(*temperature);
                let changed = changed.scores(Stage::Weights, q, k)?;
                copy_head([heads, *head], &changed, &mut weights, tokens * keys);
            }
            self.keep_at(pattern, runs, vec![heads, tokens, keys], weights.into_vec());
        }
        let mut z = Rows { runs, tokens, data: by_token(&z, heads, tokens, head_size) };
        self.place(&format!("{prefix}.hook_z"), &of_queries, &mut z)?;
        z.map(|z| product(&weights.out, z))
    }
}

/// The numbers of one of the `heads` of each run, `len` of them, from one result to another.
fn copy_head([heads, head]: [usize; 2], from: &[f32], to: &mut [f32], len: usize) {
    let numbers = head * len..(head + 1) * len;
    let runs = from.chunks_exact(heads * len).zip(to.chunks_exact_mut(heads * len));
    for (from, to) in runs {
        to[numbers.clone()].copy_from_slice(&from[numbers.clone()]);
    }
}

/// \[runs, tokens, heads, head size\] from \[runs, heads, tokens, head size\].
fn by_token(x: &[f32], heads: usize, tokens: usize, head_size: usize) -> Vec<f32> {
    let mut all = Vec::with_capacity(x.len());
    for run in x.chunks_exact((heads * tokens * head_size).max(1)) {
        for (token, head) in (0..tokens).flat_map(|token| (0..heads).map(move |head| (token, head)))
        {
            all.extend_from_slice(&run[(head * tokens + token) * head_size..][..head_size]);
        }
    }
    all
}
