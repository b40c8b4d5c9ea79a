//! One attention of a layer: queries, keys and values, the weights where someone wants them, and the output of each head.

use regard::{Attention, Heads, KvCache, Mask, MaskTensor, Position, Stage, Window};

use super::run::{Runner, last_rows, normed, product, spread};
use crate::change::AttentionChanges;
use crate::weights::AttentionWeights;
use crate::{Block, Error};

/// What an attention of a layer needs besides the stream.
pub(super) struct Setting<'s> {
    /// Such as `blocks.3.attn`.
    pub(super) prefix: String,
    pub(super) block: &'s Block,
    /// Of one run.
    pub(super) tokens: usize,
    /// Whether only the last token of each run is a query.
    pub(super) last_query: bool,
    pub(super) scale: f32,
    pub(super) causal: bool,
    pub(super) window: Option<usize>,
    pub(super) angles: Option<&'s regard::Rotary>,
    /// \[heads, queries, keys\]
    pub(super) bias: Option<&'s [f32]>,
    /// What the keys and values are made of, where that is not the stream: an encoder's output, and its tokens of one run.
    pub(super) memory: Option<(&'s [f32], usize)>,
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
        x: &[f32],
        setting: Setting<'_>,
    ) -> Result<Vec<f32>, Error> {
        let Block { heads, kv_heads, head_size, .. } = *setting.block;
        let width = weights.q.inputs();
        let place = |name: &str| format!("{}.{name}", setting.prefix);
        let (tokens, mut q) = if setting.last_query {
            (1, product(&weights.q, &last_rows(x, setting.tokens, width))?)
        } else {
            (setting.tokens, product(&weights.q, x)?)
        };
        self.place(&place("hook_q"), &[tokens, heads, head_size], &mut q)?;

        // An encoder's keys and values are the same for every token that the decoder writes.
        let known = setting.memory.is_some()
            && setting.cache.as_ref().is_some_and(|cache| !cache.is_empty());
        let (mut k, mut v) = (Vec::new(), Vec::new());
        let (source, keys) = setting.memory.unwrap_or((x, setting.tokens));
        let new_keys = if known { 0 } else { keys };
        if !known {
            k = product(&weights.k, source)?;
            v = product(&weights.v, source)?;
            self.place(&place("hook_k"), &[new_keys, kv_heads, head_size], &mut k)?;
            self.place(&place("hook_v"), &[new_keys, kv_heads, head_size], &mut v)?;
        }
        if let Some((q_norm, k_norm)) = &weights.qk_norm {
            q = normed(q_norm, &q)?;
            k = normed(k_norm, &k)?;
        }
        if let Some(angles) = setting.angles {
            let turn = |x: &mut [f32], heads: usize, tokens: usize| {
                let runs = x.len() / (tokens * heads * head_size).max(1);
                angles.rotate(x, [runs, tokens, heads, head_size], angles.positions() - tokens)
            };
            turn(&mut q, heads, tokens)?;
            turn(&mut k, kv_heads, new_keys)?;
            self.place(&place("hook_rot_q"), &[tokens, heads, head_size], &mut q)?;
            self.place(&place("hook_rot_k"), &[new_keys, kv_heads, head_size], &mut k)?;
        }
        let runs = (q.len() / (tokens * heads * head_size)).max(if known {
            1
        } else {
            k.len().max(v.len()) / (new_keys * kv_heads * head_size)
        });
        spread(&mut q, runs * tokens * heads * head_size);
        spread(&mut k, runs * new_keys * kv_heads * head_size);
        spread(&mut v, runs * new_keys * kv_heads * head_size);
        let shape = |heads, tokens| [runs, heads, tokens, head_size];
        let q = Heads::split("the queries", &q, shape(heads, tokens))?;
        let new_k = Heads::split("the keys", &k, shape(kv_heads, new_keys))?;
        let new_v = Heads::split("the values", &v, shape(kv_heads, new_keys))?;
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
            self.keep_at(scores, &[heads, tokens, keys], values.into_vec());
        }
        let pattern = format!("{prefix}.hook_pattern");
        if self.keep.has(&pattern) {
            let mut weights = attention.scores(Stage::Weights, q, k)?;
            for (head, temperature) in &changes.temperatures {
                let changed = attention.clone().temperature(*temperature);
                let changed = changed.scores(Stage::Weights, q, k)?;
                copy_head([heads, *head], &changed, &mut weights, tokens * keys);
            }
            self.keep_at(pattern, &[heads, tokens, keys], weights.into_vec());
        }
        let mut z = by_token(&z, heads, tokens, head_size);
        self.place(&format!("{prefix}.hook_z"), &[tokens, heads, head_size], &mut z)?;
        product(&weights.out, &z)
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
