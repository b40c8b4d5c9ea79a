//! Llama and its descendants: RMS norms, rotary positions, grouped queries, a gated feed-forward layer.

use anyhow::{Context as _, Result};
use regard::{
    Activation, Attention, Encoder, EncoderBlock, EncoderParts, FeedForward, GatedParts, Linear,
    Mask, MultiHeadAttention, OutputNorms, Pairing, Position, Projections, Rotary, Sequences,
    Window,
};

use crate::check::Model;
use crate::files::Files;

pub fn llama(files: &Files) -> Result<Model> {
    let parts = Parts::of(files)?;
    let logits = files.linear("lm_head", parts.d, files.size("vocab_size")?)?;
    parts.model(files, causal(), logits, |_, attention| Ok(attention), |_, block| Ok(block))
}

/// With norms of each head's queries and keys. Embedding and output head are tied; weights are in `bf16`.
pub fn qwen3(files: &Files) -> Result<Model> {
    let parts = Parts::of(files)?;
    let logits = files.embedding(EMBEDDING, parts.d)?.output_head();
    let normed = |i: usize, attention: MultiHeadAttention| {
        let norm = |part: &str| {
            files.rms_norm(&format!("model.layers.{i}.self_attn.{part}"), parts.epsilon, 0.0)
        };
        Ok(attention.with_qk_norms(norm("q_norm")?, norm("k_norm")?)?)
    };
    parts.model(files, causal(), logits, normed, |_, block| Ok(block))
}

/// With fused projections, and half of each head's features turned. Weights are in `f16`.
pub fn phi3(files: &Files) -> Result<Model> {
    let parts = Parts::of(files)?;
    let logits = files.linear("lm_head", parts.d, files.size("vocab_size")?)?;
    let sliding = sliding(files.size("sliding_window")?);
    let attention = Box::new(move |_| sliding.clone());
    parts.model(files, attention, logits, |_, attention| Ok(attention), |_, block| Ok(block))
}

/// With norms before and after each sublayer, soft caps, and a window in every other layer.
pub fn gemma2(files: &Files) -> Result<Model> {
    let parts = Parts { activation: Activation::GeluTanh, norm_offset: 1.0, ..Parts::of(files)? };
    let words = files.embedding(EMBEDDING, parts.d)?;
    let logits = words.output_head();
    let scale = files.number("query_pre_attn_scalar")?.powf(-0.5) as f32;
    let (cap, last_cap) =
        (files.number("attn_logit_softcapping")?, files.number("final_logit_softcapping")? as f32);
    let sliding = sliding(files.size("sliding_window")?);
    let attention = move |layer: usize| {
        let attention = if layer.is_multiple_of(2) { sliding.clone() } else { causal()(layer) };
        attention.scale(scale).softcap(cap as f32)
    };
    let between = |i: usize, block: EncoderBlock| {
        let norm = |part: &str| parts.norm(files, &format!("model.layers.{i}.{part}"));
        Ok(block.with_output_norms(OutputNorms {
            attention: norm("post_attention_layernorm")?,
            feed_forward: norm("post_feedforward_layernorm")?,
        })?)
    };
    let model =
        parts.model(files, Box::new(attention), logits, |_, attention| Ok(attention), between)?;
    let (logits, root) = (model.head, (parts.d as f32).sqrt());
    let embed = move |ids: &[u32], _: usize| -> Result<Vec<f32>> {
        Ok(words.forward(ids)?.into_iter().map(|x| x * root).collect())
    };
    let head = move |x: Sequences<'_>| -> Result<Vec<f32>> {
        Ok(logits(x)?.into_iter().map(|x| last_cap * (x / last_cap).tanh()).collect())
    };
    Ok(Model { embed: Box::new(embed), head: Box::new(head), ..model })
}

const EMBEDDING: &str = "model.embed_tokens.weight";

type Attend = Box<dyn Fn(usize) -> Attention<'static>>;

fn causal() -> Attend {
    Box::new(|_| Attention::new().mask(Mask::CAUSAL))
}

/// A token sees itself and the `width` − 1 tokens before it.
fn sliding(width: usize) -> Attention<'static> {
    let window = Window { left: Some(width - 1), right: None };
    Attention::new().mask(Mask::CAUSAL.window(Position::BottomRight, window))
}

/// What all of them have.
struct Parts {
    d: usize,
    hidden: usize,
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    epsilon: f64,
    rotary: Rotary,
    activation: Activation,
    /// What is added to the weights of norms.
    norm_offset: f32,
}

impl Parts {
    fn of(files: &Files) -> Result<Self> {
        let (d, heads) = (files.size("hidden_size")?, files.size("num_attention_heads")?);
        let head_dim = files.size("head_dim").unwrap_or(d / heads);
        let rope = &files.config["rope_parameters"];
        let base = rope["rope_theta"].as_f64().or_else(|| files.config["rope_theta"].as_f64());
        let share = rope["partial_rotary_factor"].as_f64().unwrap_or(1.0);
        let (turned, positions) =
            ((share * head_dim as f64) as usize, files.size("max_position_embeddings")?);
        Ok(Self {
            d,
            hidden: files.size("intermediate_size")?,
            heads,
            kv_heads: files.size("num_key_value_heads")?,
            head_dim,
            epsilon: files.number("rms_norm_eps")?,
            rotary: Rotary::new(
                turned,
                positions,
                base.context("rope_theta")?,
                Pairing::HalfSplit,
            )?,
            activation: Activation::Silu,
            norm_offset: 0.0,
        })
    }

    fn norm(&self, files: &Files, name: &str) -> Result<regard::Norm> {
        files.rms_norm(name, self.epsilon, self.norm_offset)
    }

    /// The model, whose attentions and blocks `attend` and `between` complete.
    fn model(
        &self,
        files: &Files,
        attention: Attend,
        logits: Linear,
        attend: impl Fn(usize, MultiHeadAttention) -> Result<MultiHeadAttention>,
        between: impl Fn(usize, EncoderBlock) -> Result<EncoderBlock>,
    ) -> Result<Model> {
        let block = |i: usize| -> Result<EncoderBlock> {
            let name = |part: &str| format!("model.layers.{i}.{part}");
            let [query, key, value] = self.queries_keys_values(files, i)?;
            let output =
                files.linear(&name("self_attn.o_proj"), self.heads * self.head_dim, self.d)?;
            let projections = Projections { query, key, value, output };
            let layer = MultiHeadAttention::new(self.heads, projections)?;
            let layer = layer.with_rotary(self.rotary.clone())?;
            let before = self.norm(files, &name("pre_feedforward_layernorm"));
            let feed_forward_norm =
                before.or_else(|_| self.norm(files, &name("post_attention_layernorm")))?;
            let block = EncoderBlock::pre_norm(EncoderParts {
                attention_norm: self.norm(files, &name("input_layernorm"))?,
                attention: attend(i, layer)?,
                feed_forward_norm,
                feed_forward: self.feed_forward(files, i)?,
            })?;
            between(i, block)
        };
        let blocks = (0..files.size("num_hidden_layers")?).map(block).collect::<Result<_>>()?;
        let words = files.embedding(EMBEDDING, self.d)?;
        Ok(Model {
            embed: Box::new(move |ids: &[u32], _| Ok(words.forward(ids)?.into_vec())),
            encoder: Encoder::new(blocks, Some(self.norm(files, "model.norm")?))?,
            attention,
            head: Box::new(move |x: Sequences<'_>| Ok(logits.forward(x)?.into_vec())),
        })
    }

    /// The three projections, which may be one in the file.
    fn queries_keys_values(&self, files: &Files, i: usize) -> Result<[Linear; 3]> {
        let name = |part: &str| format!("model.layers.{i}.self_attn.{part}_proj");
        let (q, kv) = (self.heads * self.head_dim, self.kv_heads * self.head_dim);
        if let Ok(fused) = files.linear(&name("qkv"), self.d, q + 2 * kv) {
            return Ok(fused.split([q, kv, kv])?);
        }
        let projection = |part: &str, outputs: usize| files.linear(&name(part), self.d, outputs);
        Ok([projection("q", q)?, projection("k", kv)?, projection("v", kv)?])
    }

    /// The feed-forward layer, whose first two projections may be one in the file.
    fn feed_forward(&self, files: &Files, i: usize) -> Result<FeedForward> {
        let name = |part: &str| format!("model.layers.{i}.mlp.{part}_proj");
        let (d, hidden, activation) = (self.d, self.hidden, self.activation);
        let [gate, up] = match files.linear(&name("gate_up"), d, 2 * hidden) {
            Ok(fused) => fused.split([hidden; 2])?,
            Err(_) => {
                [files.linear(&name("gate"), d, hidden)?, files.linear(&name("up"), d, hidden)?]
            }
        };
        let down = files.linear(&name("down"), hidden, d)?;
        Ok(FeedForward::gated(GatedParts { gate, activation, up, down })?)
    }
}
