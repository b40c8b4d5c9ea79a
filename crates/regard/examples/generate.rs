//! Continues a text with a Llama, which writes its most probable token at each step.
//!
//! `cargo run --release -p regard --example generate -- FOLDER "Once upon a time" 20`: FOLDER holds config.json,
//! model.safetensors (`f32` or `bf16`) and tokenizer.json, as Hugging Face has them.

#![expect(clippy::print_stdout, reason = "the result")]
use std::{env, fs};

use anyhow::{Context as _, Error, Result, bail};
use half::bf16;
use regard::*;
use safetensors::{Dtype, SafeTensors};
use tokenizers::Tokenizer;

/// A model's configuration and weights.
struct Files<'a>(serde_json::Value, SafeTensors<'a>);

impl Files<'_> {
    fn number(&self, key: &str) -> Result<f64> {
        let found = self.0[key].as_f64().or_else(|| self.0["rope_parameters"][key].as_f64());
        found.with_context(|| format!("no {key} in config.json"))
    }

    /// A weight \[outputs, inputs\], which stays in `bf16` if it is stored so.
    fn linear(&self, name: &str, inputs: usize, outputs: usize) -> Result<Linear> {
        let tensor = self.1.tensor(name).with_context(|| name.to_owned())?;
        if tensor.dtype() == Dtype::BF16 {
            let weight = tensor.data().as_chunks().0.iter().map(|b| bf16::from_le_bytes(*b));
            return Ok(Linear::from_pytorch(weight.collect::<Vec<_>>(), inputs, outputs)?);
        }
        let weight = tensor.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b));
        Ok(Linear::from_pytorch(weight.collect::<Vec<_>>(), inputs, outputs)?)
    }

    /// A vector, which is the only row of a table.
    fn norm(&self, name: &str, d: usize) -> Result<Norm> {
        let weight = Embedding::tied_to(&self.linear(name, d, 1)?).forward(&[0])?;
        Ok(Norm::rms(weight.into_vec(), self.number("rms_norm_eps")? as f32)?)
    }

    fn block(&self, i: usize, positions: usize) -> Result<EncoderBlock> {
        let size = |key: &str| self.number(key).map(|size| size as usize);
        let (d, hidden) = (size("hidden_size")?, size("intermediate_size")?);
        let (heads, kv_heads) = (size("num_attention_heads")?, size("num_key_value_heads")?);
        let head_dim = size("head_dim").unwrap_or(d / heads);
        let (q, kv) = (heads * head_dim, kv_heads * head_dim);
        let linear = |part: &str, inputs: usize, outputs: usize| {
            self.linear(&format!("model.layers.{i}.{part}_proj.weight"), inputs, outputs)
        };
        let norm = |part: &str| self.norm(&format!("model.layers.{i}.{part}_layernorm.weight"), d);
        let (query, key) = (linear("self_attn.q", d, q)?, linear("self_attn.k", d, kv)?);
        let (value, output) = (linear("self_attn.v", d, kv)?, linear("self_attn.o", q, d)?);
        let projections = Projections { query, key, value, output };
        let base = self.number("rope_theta")?;
        let rotary = Rotary::new(head_dim, positions, base, Pairing::HalfSplit)?;
        let (gate, up) = (linear("mlp.gate", d, hidden)?, linear("mlp.up", d, hidden)?);
        let (activation, down) = (Activation::Silu, linear("mlp.down", hidden, d)?);
        Ok(EncoderBlock::pre_norm(EncoderParts {
            attention_norm: norm("input")?,
            attention: MultiHeadAttention::new(heads, projections)?.with_rotary(rotary)?,
            feed_forward_norm: norm("post_attention")?,
            feed_forward: FeedForward::gated(GatedParts { gate, activation, up, down })?,
        })?)
    }
}

fn main() -> Result<()> {
    let [_, folder, text, count] = &env::args().collect::<Vec<_>>()[..] else {
        bail!("usage: generate FOLDER TEXT TOKENS");
    };
    let read = |name: &str| fs::read(format!("{folder}/{name}"));
    let (config, weights) = (read("config.json")?, read("model.safetensors")?);
    let files = Files(serde_json::from_slice(&config)?, SafeTensors::deserialize(&weights)?);
    let file = format!("{folder}/tokenizer.json");
    let tokenizer = Tokenizer::from_file(file).map_err(Error::from_boxed)?;
    let mut ids = tokenizer.encode(&text[..], true).map_err(Error::from_boxed)?.get_ids().to_vec();
    let tokens = ids.len() + count.parse::<usize>()?;
    let size = |key: &str| files.number(key).map(|size| size as usize);
    let (d, vocabulary) = (size("hidden_size")?, size("vocab_size")?);
    let words = Embedding::tied_to(&files.linear("model.embed_tokens.weight", d, vocabulary)?);
    let untied = files.linear("lm_head.weight", d, vocabulary);
    let head = untied.unwrap_or_else(|_| words.output_head());
    let blocks = (0..size("num_hidden_layers")?).map(|i| files.block(i, tokens));
    let norm = files.norm("model.norm.weight", d)?;
    let model = Encoder::new(blocks.collect::<Result<_>>()?, Some(norm))?;

    let (mut caches, mut first) = (model.caches(1, tokens)?, 0);
    while ids.len() < tokens {
        let x = words.forward(&ids[first..])?;
        let x = Sequences::new("x", &x, [1, ids.len() - first, d])?;
        first = ids.len();
        let y = model.forward_cached(x, &mut caches, &Attention::new().mask(Mask::CAUSAL))?;
        let logits = head.forward(Sequences::new("y", &y[y.len() - d..], [1, 1, d])?)?;
        let best = (0..vocabulary).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
        ids.push(best.context("no token")? as u32);
    }
    println!("{}", tokenizer.decode(&ids, true).map_err(Error::from_boxed)?);
    Ok(())
}
