//! One attention of a layer: queries, keys and values, the weights where someone wants them, and the output of each head.

use regard::{Attention, Heads, KvCache, MaskTensor, MaskValues, Position, Stage, Temperature, Window};

use super::rotary::Angles;
use super::run::Runner;
use crate::weights::AttentionWeights;
use crate::{Block, Error};

/// What an attention of a layer needs besides the stream.
pub(super) struct Setting<'s> {
    /// Such as `blocks.3.attn`.
    pub(super) prefix: String,
    pub(super) block: &'s Block,
    pub(super) scale: f32,
    pub(super) causal: bool,
    pub(super) window: Option<usize>,
    pub(super) angles: Option<&'s Angles>,
    /// \[heads, queries, keys\]
    pub(super) bias: Option<&'s [f32]>,
    /// What the keys and values are made of, where that is not the stream: an encoder's output.
    pub(super) memory: Option<&'s [f32]>,
    pub(super) cache: Option<&'s mut KvCache>,
}

impl<'s> Setting<'s> {
    fn attention(&self) -> Attention<'s> {
        let mut attention = Attention::new().scale(self.scale);
        if let Some(cap) = self.block.softcap {
            attention = attention.softcap(cap);
        }
        if self.causal {
            attention = attention.causal(Position::BottomRight);
        }
        if let Some(window) = self.window {
            let left = Some(window.saturating_sub(1));
            attention = attention.window(Position::BottomRight, Window { left, right: None });
        }
        attention
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
        let threads = self.threads;
        let Block { heads, kv_heads, head_size, .. } = *setting.block;
        let tokens = x.len() / weights.q.weight().cols();
        let place = |name: &str| format!("{}.{name}", setting.prefix);
        let mut q = weights.q.forward(x, threads)?;
        self.place(&place("hook_q"), &[tokens, heads, head_size], &mut q)?;

        // An encoder's keys and values are the same for every token that the decoder writes.
        let known = setting.memory.is_some() && setting.cache.as_ref().is_some_and(|cache| !cache.is_empty());
        let (mut k, mut v) = (Vec::new(), Vec::new());
        let source = setting.memory.unwrap_or(x);
        let new_keys = if known { 0 } else { source.len() / weights.k.weight().cols() };
        if !known {
            k = weights.k.forward(source, threads)?;
            v = weights.v.forward(source, threads)?;
            self.place(&place("hook_k"), &[new_keys, kv_heads, head_size], &mut k)?;
            self.place(&place("hook_v"), &[new_keys, kv_heads, head_size], &mut v)?;
        }
        if let Some((q_norm, k_norm)) = &weights.qk_norm {
            q = self.norm_by(q_norm, &q)?;
            k = self.norm_by(k_norm, &k)?;
        }
        if let Some(angles) = setting.angles {
            angles.turn(&mut q, heads, head_size)?;
            angles.turn(&mut k, kv_heads, head_size)?;
            self.place(&place("hook_rot_q"), &[tokens, heads, head_size], &mut q)?;
            self.place(&place("hook_rot_k"), &[new_keys, kv_heads, head_size], &mut k)?;
        }
        let shape = |heads, tokens| [1, heads, tokens, head_size];
        let q = Heads::split("the queries", &q, shape(heads, tokens))?;
        let new_k = Heads::split("the keys", &k, shape(kv_heads, new_keys))?;
        let new_v = Heads::split("the values", &v, shape(kv_heads, new_keys))?;
        let base = setting.attention();
        let prefix = setting.prefix.clone();
        let bias = setting.bias;
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
        let attention = base.threads(threads.clone());
        let masked = match bias {
            Some(bias) => {
                let shape = [1, heads, tokens, keys];
                attention.clone().mask(MaskTensor::new(MaskValues::Bias(bias), &shape)?)
            }
            None => attention.clone(),
        };

        let mut z = by_token(&masked.forward(q, k, v)?, heads, tokens, head_size);
        let changed = self.plan.heads(&prefix);
        for stage in [Stage::Masked, Stage::Weights] {
            let name = if stage == Stage::Masked { "hook_attn_scores" } else { "hook_pattern" };
            let name = format!("{prefix}.{name}");
            if self.keep.has(&name) {
                let mut scores = masked.scores(stage, q, k)?;
                for change in &changed {
                    let one = change.attend(&attention, bias, [tokens, keys])?;
                    let (q, k) = (q.only(change.head)?, k.only(change.head / (heads / kv_heads))?);
                    let head = one.run(|attention| attention.scores(stage, q.heads(), k.heads()))?;
                    scores[change.head * tokens * keys..][..tokens * keys].copy_from_slice(&head);
                }
                self.keep_at(name, vec![heads, tokens, keys], scores);
            }
        }
        for change in &changed {
            let one = change.attend(&attention, bias, [tokens, keys])?;
            let kv_head = change.head / (heads / kv_heads);
            let (q, k, v) = (q.only(change.head)?, k.only(kv_head)?, v.only(kv_head)?);
            let head = one.run(|attention| attention.forward(q.heads(), k.heads(), v.heads()))?;
            for (token, row) in head.chunks_exact(head_size).enumerate() {
                z[(token * heads + change.head) * head_size..][..head_size].copy_from_slice(row);
            }
        }
        self.place(&format!("{prefix}.hook_z"), &[tokens, heads, head_size], &mut z)?;
        weights.out.forward(&z, threads)
    }
}
