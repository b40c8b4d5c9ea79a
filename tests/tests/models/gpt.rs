//! GPT-2 and GPT-NeoX: layer norms, and queries, keys and values in one projection.

use anyhow::Result;
use regard::{
    Activation, Attention, Encoder, EncoderBlock, EncoderParts, FeedForward, Linear, Mask,
    MultiHeadAttention, Pairing, PositionTable, Projections, Rotary, Sequences,
};

use crate::check::Model;
use crate::files::Files;

pub fn gpt2(files: &Files) -> Result<Model> {
    let d = files.size("n_embd")?;
    let epsilon = files.number("layer_norm_epsilon")?;
    let weight = |name: &str| files.weight(&format!("transformer.{name}"));

    let words = files.embedding("transformer.wte.weight", d)?;
    let positions = PositionTable::learned(weight("wpe.weight")?, files.size("n_positions")?, d)?;
    let logits = words.output_head();
    let embed = move |ids: &[u32], first: usize| -> Result<Vec<f32>> {
        let mut x = words.forward(ids)?;
        positions.add(&mut x, [1, ids.len(), d], first)?;
        Ok(x.into_vec())
    };

    // GPT-2 stores weights as [inputs, outputs].
    let straight = |name: &str, inputs: usize, outputs: usize| -> Result<Linear> {
        let layer = Linear::new(weight(&format!("{name}.weight"))?, inputs, outputs)?;
        Ok(layer.with_bias(weight(&format!("{name}.bias"))?)?)
    };
    let block = |i: usize| -> Result<EncoderBlock> {
        let name = |part: &str| format!("h.{i}.{part}");
        let [query, key, value] = straight(&name("attn.c_attn"), d, 3 * d)?.split([d; 3])?;
        let output = straight(&name("attn.c_proj"), d, d)?;
        let projections = Projections { query, key, value, output };
        let up = straight(&name("mlp.c_fc"), d, 4 * d)?;
        let down = straight(&name("mlp.c_proj"), 4 * d, d)?;
        let norm = |part: &str| files.layer_norm(&format!("transformer.h.{i}.{part}"), epsilon);
        Ok(EncoderBlock::pre_norm(EncoderParts {
            attention_norm: norm("ln_1")?,
            attention: MultiHeadAttention::new(files.size("n_head")?, projections)?,
            feed_forward_norm: norm("ln_2")?,
            feed_forward: FeedForward::new(up, Activation::GeluTanh, down)?,
        })?)
    };
    let blocks = (0..files.size("n_layer")?).map(block).collect::<Result<_>>()?;
    let norm = files.layer_norm("transformer.ln_f", epsilon)?;
    Ok(Model {
        embed: Box::new(embed),
        encoder: Encoder::new(blocks, Some(norm))?,
        attention: Box::new(|_| Attention::new().mask(Mask::CAUSAL)),
        head: Box::new(move |x: Sequences<'_>| Ok(logits.forward(x)?.into_vec())),
    })
}

pub fn gpt_neox(files: &Files) -> Result<Model> {
    let (d, hidden) = (files.size("hidden_size")?, files.size("intermediate_size")?);
    let (heads, epsilon) = (files.size("num_attention_heads")?, files.number("layer_norm_eps")?);
    let turned = (files.number("rotary_pct")? * (d / heads) as f64) as usize;
    let (positions, base) =
        (files.size("max_position_embeddings")?, files.number("rotary_emb_base")?);
    let rotary = Rotary::new(turned, positions, base, Pairing::HalfSplit)?;

    let block = |i: usize| -> Result<EncoderBlock> {
        let name = |part: &str| format!("gpt_neox.layers.{i}.{part}");
        let fused = files.linear(&name("attention.query_key_value"), d, 3 * d)?;
        let [query, key, value] = fused.split_by_head(heads)?;
        let output = files.linear(&name("attention.dense"), d, d)?;
        let projections = Projections { query, key, value, output };
        let up = files.linear(&name("mlp.dense_h_to_4h"), d, hidden)?;
        let down = files.linear(&name("mlp.dense_4h_to_h"), hidden, d)?;
        Ok(EncoderBlock::parallel(EncoderParts {
            attention_norm: files.layer_norm(&name("input_layernorm"), epsilon)?,
            attention: MultiHeadAttention::new(heads, projections)?.with_rotary(rotary.clone())?,
            feed_forward_norm: files.layer_norm(&name("post_attention_layernorm"), epsilon)?,
            feed_forward: FeedForward::new(up, Activation::Gelu, down)?,
        })?)
    };
    let blocks = (0..files.size("num_hidden_layers")?).map(block).collect::<Result<_>>()?;
    let norm = files.layer_norm("gpt_neox.final_layer_norm", epsilon)?;
    let words = files.embedding("gpt_neox.embed_in.weight", d)?;
    let logits = files.linear("embed_out", d, files.size("vocab_size")?)?;
    Ok(Model {
        embed: Box::new(move |ids: &[u32], _| Ok(words.forward(ids)?.into_vec())),
        encoder: Encoder::new(blocks, Some(norm))?,
        attention: Box::new(|_| Attention::new().mask(Mask::CAUSAL)),
        head: Box::new(move |x: Sequences<'_>| Ok(logits.forward(x)?.into_vec())),
    })
}
