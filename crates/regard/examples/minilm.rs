//! Embeds two sentences by a sentence transformer such as all-MiniLM-L6-v2, and prints how similar they are.
//!
//! `cargo run --release -p regard --example minilm -- FOLDER "A cat sits." "A cat is sitting."`, where the folder holds what
//! Hugging Face has of the model: config.json, model.safetensors, tokenizer.json.

#![expect(clippy::print_stdout, reason = "the result")]
use std::{env, fs};

use anyhow::{Context as _, Error, Result, bail};
use regard::{
    Activation, Attention, Embedding, Encoder, EncoderBlock, EncoderParts, FeedForward, Linear,
    MultiHeadAttention, Norm, PositionTable, Projections, Sequences,
};
use safetensors::SafeTensors;
use tokenizers::Tokenizer;

/// A BERT without its output head.
struct Model {
    words: Embedding,
    positions: PositionTable,
    kind: Vec<f32>,
    norm: Norm,
    encoder: Encoder,
}

impl Model {
    fn new(config: &serde_json::Value, file: &SafeTensors<'_>) -> Result<Self> {
        let size = |key: &str| config[key].as_u64().map(|n| n as usize).context(key.to_owned());
        let (d, hidden) = (size("hidden_size")?, size("intermediate_size")?);
        let prefix = if file.names().iter().any(|n| n.starts_with("bert.")) { "bert." } else { "" };
        let numbers = |name: &str| -> Result<Vec<f32>> {
            let tensor = file.tensor(&format!("{prefix}{name}")).context(name.to_owned())?;
            Ok(tensor.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
        };
        let linear = |name: &str, inputs, outputs| -> Result<Linear> {
            let layer = Linear::from_pytorch(numbers(&format!("{name}.weight"))?, inputs, outputs)?;
            Ok(layer.with_bias(numbers(&format!("{name}.bias"))?)?)
        };
        let epsilon = config["layer_norm_eps"].as_f64().context("layer_norm_eps")? as f32;
        let norm = |name: &str| -> Result<Norm> {
            let part = |part: &str| numbers(&format!("{name}.LayerNorm.{part}"));
            Ok(Norm::layer(part("weight")?, part("bias")?, epsilon)?)
        };
        let block = |i: usize| -> Result<EncoderBlock> {
            let name = |part: &str| format!("encoder.layer.{i}.{part}");
            let square = |part: &str| linear(&name(&format!("attention.{part}")), d, d);
            let (query, key) = (square("self.query")?, square("self.key")?);
            let (value, output) = (square("self.value")?, square("output.dense")?);
            let projections = Projections { query, key, value, output };
            let up = linear(&name("intermediate.dense"), d, hidden)?;
            let down = linear(&name("output.dense"), hidden, d)?;
            Ok(EncoderBlock::post_norm(EncoderParts {
                attention_norm: norm(&name("attention.output"))?,
                attention: MultiHeadAttention::new(size("num_attention_heads")?, projections)?,
                feed_forward_norm: norm(&name("output"))?,
                feed_forward: FeedForward::new(up, Activation::Gelu, down)?,
            })?)
        };
        let table = |kind: &str| numbers(&format!("embeddings.{kind}_embeddings.weight"));
        let positions = size("max_position_embeddings")?;
        let blocks = (0..size("num_hidden_layers")?).map(block);
        Ok(Self {
            words: Embedding::new(table("word")?, size("vocab_size")?, d)?,
            positions: PositionTable::learned(table("position")?, positions, d)?,
            kind: table("token_type")?[..d].to_vec(),
            norm: norm("embeddings")?,
            encoder: Encoder::new(blocks.collect::<Result<_>>()?, None)?,
        })
    }

    /// The mean of the last states of all tokens, \[features\].
    fn embed(&self, ids: &[u32]) -> Result<Vec<f32>> {
        let (mut x, d) = (self.words.forward(ids)?, self.kind.len());
        let shape = [1, ids.len(), d];
        self.positions.add(&mut x, shape, 0)?;
        x.iter_mut().zip(self.kind.iter().cycle()).for_each(|(x, kind)| *x += kind);
        let x = self.norm.forward(Sequences::new("x", &x, shape)?)?;
        let y = self.encoder.forward(Sequences::new("x", &x, shape)?, &Attention::new())?;
        Ok((0..d).map(|c| y.iter().skip(c).step_by(d).sum::<f32>() / ids.len() as f32).collect())
    }
}

fn main() -> Result<()> {
    let [_, folder, one, other] = &env::args().collect::<Vec<_>>()[..] else {
        bail!("usage: minilm FOLDER SENTENCE SENTENCE");
    };
    let config = serde_json::from_slice(&fs::read(format!("{folder}/config.json"))?)?;
    let bytes = fs::read(format!("{folder}/model.safetensors"))?;
    let model = Model::new(&config, &SafeTensors::deserialize(&bytes)?)?;
    let tokenizer = Tokenizer::from_file(format!("{folder}/tokenizer.json"));
    let mut tokenizer = tokenizer.map_err(Error::from_boxed)?;
    tokenizer.with_padding(None);
    let embed = |text: &str| -> Result<Vec<f32>> {
        let encoding = tokenizer.encode(text, true).map_err(Error::from_boxed)?;
        model.embed(encoding.get_ids())
    };
    println!("{:.6}", regard_kernels::cosine_similarity(&embed(one)?, &embed(other)?)?);
    Ok(())
}
