//! Three tiny models, BERT, GPT-2 and Llama, assembled from their weights by the blocks of `regard`: their hidden states,
//! attentions and logits agree with those that `transformers` computes in `f64`.

#![expect(clippy::print_stdout, reason = "errors are measured")]

use std::fs;

use anyhow::{Context as _, Result, ensure};
use regard::{
    Activation, Attention, Encoder, EncoderBlock, EncoderParts, FeedForward, GatedParts, Linear,
    Mask, MultiHeadAttention, Norm, Pairing, PositionTable, Projections, Rotary, Sequences,
};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

/// A model's files.
struct Files {
    config: Value,
    weights: Vec<u8>,
    expected: Vec<u8>,
}

impl Files {
    fn read(model: &str) -> Result<Self> {
        let folder = format!("{}/golden/models/{model}", env!("CARGO_MANIFEST_DIR"));
        let read = |name: &str| {
            fs::read(format!("{folder}/{name}")).with_context(|| format!("{folder}/{name}"))
        };
        Ok(Self {
            config: serde_json::from_slice(&read("config.json")?)?,
            weights: read("model.safetensors")?,
            expected: read("expected.safetensors")?,
        })
    }

    fn size(&self, key: &str) -> Result<usize> {
        Ok(self.config[key].as_u64().with_context(|| format!("{key} in config.json"))? as usize)
    }

    fn number(&self, key: &str) -> Result<f64> {
        self.config[key].as_f64().with_context(|| format!("{key} in config.json"))
    }
}

/// The numbers of a tensor.
fn numbers(bytes: &[u8], name: &str) -> Result<Vec<f32>> {
    let file = SafeTensors::deserialize(bytes)?;
    let view = file.tensor(name).with_context(|| name.to_owned())?;
    ensure!(view.dtype() == Dtype::F32, "{name} is {:?}", view.dtype());
    Ok(view.data().as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
}

fn token_ids(expected: &[u8]) -> Result<Vec<usize>> {
    let file = SafeTensors::deserialize(expected)?;
    Ok(file
        .tensor("input_ids")?
        .data()
        .as_chunks()
        .0
        .iter()
        .map(|b| i64::from_le_bytes(*b) as usize)
        .collect())
}

/// The function from the last hidden states to logits.
type Head = dyn Fn(Sequences<'_>) -> Result<Vec<f32>>;

/// A model between its embeddings and its logits.
struct Model {
    embedded: Vec<f32>,
    encoder: Encoder,
    head: Box<Head>,
}

/// Compares every hidden state, attention and logit with the expected one.
fn check(model: &Model, files: &Files, attention: &Attention<'_>) -> Result<()> {
    let features =
        files.size(if files.config["n_embd"].is_u64() { "n_embd" } else { "hidden_size" })?;
    let n = model.embedded.len() / features;
    let (states, attentions) =
        (numbers(&files.expected, "hidden_states")?, numbers(&files.expected, "attentions")?);
    let blocks = model.encoder.blocks();
    let mut states = states.chunks(n * features);
    let mut attentions = attentions.chunks(attentions.len() / blocks.len());

    let shape = [1, n, features];
    let mut x = model.embedded.clone();
    for (layer, block) in blocks.iter().enumerate() {
        compare(
            &format!("hidden state {layer}"),
            &x,
            states.next().context("a hidden state")?,
            features,
        )?;
        let (y, weights) =
            block.forward_with_weights(Sequences::new("x", &x, shape)?, attention)?;
        compare(
            &format!("attentions of layer {layer}"),
            &weights,
            attentions.next().context("attentions")?,
            n,
        )?;
        x = y;
    }
    // The last hidden state is taken after the final norm, if the model has one. The stack must agree with its blocks.
    if let Some(norm) = model.encoder.norm() {
        x = norm.forward(Sequences::new("x", &x, shape)?)?;
    }
    compare(
        "the last hidden state",
        &x,
        states.next().context("the last hidden state")?,
        features,
    )?;
    ensure!(states.next().is_none() && attentions.next().is_none(), "the file has more hidden states or attentions than the model");
    ensure!(
        x == model.encoder.forward(Sequences::new("x", &model.embedded, shape)?, attention)?,
        "the stack differs"
    );

    let logits = numbers(&files.expected, "logits")?;
    compare("logits", &(model.head)(Sequences::new("x", &x, shape)?)?, &logits, logits.len() / n)
}

/// Each row of `found` within 1e-5 of the expected one's length, and each element within 1e-4 of its size, but for those that are
/// so much smaller than the row's largest that `f32` cannot tell them.
fn compare(what: &str, found: &[f32], expected: &[f32], row: usize) -> Result<()> {
    ensure!(
        found.len() == expected.len(),
        "{what}: {} elements, not {}",
        found.len(),
        expected.len()
    );
    let (mut worst_row, mut worst) = (0.0_f64, 0.0_f64);
    for (found, expected) in found.chunks(row).zip(expected.chunks(row)) {
        let largest = expected.iter().fold(0.0_f64, |m, x| m.max(f64::from(x.abs())));
        let (mut error, mut length) = (0.0, 0.0);
        for (f, e) in found.iter().zip(expected) {
            let (f, e) = (f64::from(*f), f64::from(*e));
            error += (f - e) * (f - e);
            length += e * e;
            let tolerance = 1e-4 * e.abs() + 1e-6 * largest;
            ensure!((f - e).abs() <= tolerance, "{what}: {f} instead of {e} ± {tolerance:e}");
            worst = worst.max((f - e).abs() / (e.abs() + 1e-2 * largest));
        }
        worst_row = worst_row.max((error / length).sqrt());
    }
    println!("{what}: rows within {worst_row:.1e}, elements within {worst:.1e}, relatively");
    ensure!(worst_row < 1e-5, "{what}: a row is {worst_row:e} off");
    Ok(())
}

/// The given rows of a table \[rows, features\], one after another.
fn look_up(table: &[f32], features: usize, rows: &[usize]) -> Vec<f32> {
    rows.iter().flat_map(|row| &table[row * features..][..features]).copied().collect()
}

/// A linear layer from `name`.weight \[outputs, inputs\], as PyTorch stores it, and `name`.bias.
fn linear(files: &Files, name: &str, inputs: usize, outputs: usize) -> Result<Linear> {
    let layer = Linear::from_pytorch(
        &numbers(&files.weights, &format!("{name}.weight"))?,
        inputs,
        outputs,
    )?;
    match numbers(&files.weights, &format!("{name}.bias")) {
        Ok(bias) => Ok(layer.with_bias(bias)?),
        Err(_no_bias) => Ok(layer),
    }
}

fn layer_norm(files: &Files, name: &str, epsilon: f64) -> Result<Norm> {
    let part = |part: &str| numbers(&files.weights, &format!("{name}.{part}"));
    Ok(Norm::layer(part("weight")?, part("bias")?, epsilon as f32)?)
}

fn rms_norm(files: &Files, name: &str, epsilon: f64) -> Result<Norm> {
    Ok(Norm::rms(numbers(&files.weights, &format!("{name}.weight"))?, epsilon as f32)?)
}

fn bert(files: &Files) -> Result<Model> {
    let (d, hidden) = (files.size("hidden_size")?, files.size("intermediate_size")?);
    let epsilon = files.number("layer_norm_eps")?;
    let weights = |name: &str| numbers(&files.weights, name);
    let ids = token_ids(&files.expected)?;
    let n = ids.len();

    let words = weights("bert.embeddings.word_embeddings.weight")?;
    let mut embedded = look_up(&words, d, &ids);
    let positions = weights("bert.embeddings.position_embeddings.weight")?;
    PositionTable::learned(positions, files.size("max_position_embeddings")?, d)?.add(
        &mut embedded,
        [1, n, d],
        0,
    )?;
    let kinds = weights("bert.embeddings.token_type_embeddings.weight")?;
    for token in embedded.chunks_mut(d) {
        regard_kernels::add(token, &kinds[..d])?; // one sentence: all tokens are of the first kind
    }
    let norm = layer_norm(files, "bert.embeddings.LayerNorm", epsilon)?;
    let embedded = norm.forward(Sequences::new("x", &embedded, [1, n, d])?)?;

    let block = |i: usize| -> Result<EncoderBlock> {
        let name = |part: &str| format!("bert.encoder.layer.{i}.{part}");
        let square = |part: &str| linear(files, &name(&format!("attention.{part}")), d, d);
        let [q, k, v] = [square("self.query")?, square("self.key")?, square("self.value")?];
        let projections =
            Projections { query: q, key: k, value: v, output: square("output.dense")? };
        let attention = MultiHeadAttention::new(files.size("num_attention_heads")?, projections)?;
        let up = linear(files, &name("intermediate.dense"), d, hidden)?;
        let feed_forward = FeedForward::new(
            up,
            Activation::Gelu,
            linear(files, &name("output.dense"), hidden, d)?,
        )?;
        let norm = |part: &str| layer_norm(files, &name(part), epsilon);
        Ok(EncoderBlock::post_norm(EncoderParts {
            attention_norm: norm("attention.output.LayerNorm")?,
            attention,
            feed_forward_norm: norm("output.LayerNorm")?,
            feed_forward,
        })?)
    };
    let blocks = (0..files.size("num_hidden_layers")?).map(block).collect::<Result<_>>()?;

    let transform = linear(files, "cls.predictions.transform.dense", d, d)?;
    let norm = layer_norm(files, "cls.predictions.transform.LayerNorm", epsilon)?;
    let bias = weights("cls.predictions.bias")?;
    let logits = Linear::from_pytorch(&words, d, bias.len())?.with_bias(bias)?; // the embeddings once more
    let head = move |x: Sequences<'_>| -> Result<Vec<f32>> {
        let mut y = transform.forward(x)?;
        Activation::Gelu.apply(&mut y);
        let y = norm.forward(Sequences::new("x", &y, x.shape())?)?;
        Ok(logits.forward(Sequences::new("x", &y, x.shape())?)?)
    };
    Ok(Model { embedded, encoder: Encoder::new(blocks, None)?, head: Box::new(head) })
}

fn gpt2(files: &Files) -> Result<Model> {
    let d = files.size("n_embd")?;
    let epsilon = files.number("layer_norm_epsilon")?;
    let weights = |name: &str| numbers(&files.weights, &format!("transformer.{name}"));
    let ids = token_ids(&files.expected)?;

    let words = weights("wte.weight")?;
    let mut embedded = look_up(&words, d, &ids);
    let positions = PositionTable::learned(weights("wpe.weight")?, files.size("n_positions")?, d)?;
    positions.add(&mut embedded, [1, ids.len(), d], 0)?;

    // GPT-2 stores weights as [inputs, outputs].
    let straight = |name: &str, inputs: usize, outputs: usize| -> Result<Linear> {
        let layer = Linear::new(weights(&format!("{name}.weight"))?, inputs, outputs)?;
        Ok(layer.with_bias(weights(&format!("{name}.bias"))?)?)
    };
    let block = |i: usize| -> Result<EncoderBlock> {
        let name = |part: &str| format!("h.{i}.{part}");
        let [query, key, value] = straight(&name("attn.c_attn"), d, 3 * d)?.split([d; 3])?;
        let output = straight(&name("attn.c_proj"), d, d)?;
        let projections = Projections { query, key, value, output };
        let attention = MultiHeadAttention::new(files.size("n_head")?, projections)?;
        let up = straight(&name("mlp.c_fc"), d, 4 * d)?;
        let feed_forward =
            FeedForward::new(up, Activation::GeluTanh, straight(&name("mlp.c_proj"), 4 * d, d)?)?;
        let norm = |part: &str| layer_norm(files, &format!("transformer.{}", name(part)), epsilon);
        Ok(EncoderBlock::pre_norm(EncoderParts {
            attention_norm: norm("ln_1")?,
            attention,
            feed_forward_norm: norm("ln_2")?,
            feed_forward,
        })?)
    };
    let blocks = (0..files.size("n_layer")?).map(block).collect::<Result<_>>()?;
    let norm = layer_norm(files, "transformer.ln_f", epsilon)?;
    let logits = Linear::from_pytorch(&words, d, words.len() / d)?;
    let head = move |x: Sequences<'_>| Ok(logits.forward(x)?);
    Ok(Model { embedded, encoder: Encoder::new(blocks, Some(norm))?, head: Box::new(head) })
}

fn llama(files: &Files) -> Result<Model> {
    let (d, hidden) = (files.size("hidden_size")?, files.size("intermediate_size")?);
    let (heads, kv_heads) =
        (files.size("num_attention_heads")?, files.size("num_key_value_heads")?);
    let head_dim = files.size("head_dim")?;
    let epsilon = files.number("rms_norm_eps")?;
    let base = files.config["rope_parameters"]["rope_theta"].as_f64().context("rope_theta")?;
    let ids = token_ids(&files.expected)?;
    let embedded = look_up(&numbers(&files.weights, "model.embed_tokens.weight")?, d, &ids);

    let block = |i: usize| -> Result<EncoderBlock> {
        let name = |part: &str| format!("model.layers.{i}.{part}");
        let projection = |part: &str, outputs: usize| {
            linear(files, &name(&format!("self_attn.{part}_proj")), d, outputs)
        };
        let (q, k, v) = (heads * head_dim, kv_heads * head_dim, kv_heads * head_dim);
        let output = linear(files, &name("self_attn.o_proj"), q, d)?;
        let (query, key, value) = (projection("q", q)?, projection("k", k)?, projection("v", v)?);
        let projections = Projections { query, key, value, output };
        let attention = MultiHeadAttention::new(heads, projections)?;
        let rotary = Rotary::new(
            head_dim,
            files.size("max_position_embeddings")?,
            base,
            Pairing::HalfSplit,
        )?;
        let up = |part: &str| linear(files, &name(&format!("mlp.{part}_proj")), d, hidden);
        let down = linear(files, &name("mlp.down_proj"), hidden, d)?;
        let (gate, activation) = (up("gate")?, Activation::Silu);
        let feed_forward =
            FeedForward::gated(GatedParts { gate, activation, up: up("up")?, down })?;
        let norm = |part: &str| rms_norm(files, &name(part), epsilon);
        Ok(EncoderBlock::pre_norm(EncoderParts {
            attention_norm: norm("input_layernorm")?,
            attention: attention.with_rotary(rotary)?,
            feed_forward_norm: norm("post_attention_layernorm")?,
            feed_forward,
        })?)
    };
    let blocks = (0..files.size("num_hidden_layers")?).map(block).collect::<Result<_>>()?;
    let norm = rms_norm(files, "model.norm", epsilon)?;
    let logits = linear(files, "lm_head", d, files.size("vocab_size")?)?;
    let head = move |x: Sequences<'_>| Ok(logits.forward(x)?);
    Ok(Model { embedded, encoder: Encoder::new(blocks, Some(norm))?, head: Box::new(head) })
}

#[test]
fn bert_is_met() -> Result<()> {
    let files = Files::read("tiny-bert")?;
    check(&bert(&files)?, &files, &Attention::new())
}

#[test]
fn gpt2_is_met() -> Result<()> {
    let files = Files::read("tiny-gpt2")?;
    check(&gpt2(&files)?, &files, &Attention::new().mask(Mask::CAUSAL))
}

#[test]
fn llama_is_met() -> Result<()> {
    let files = Files::read("tiny-llama")?;
    check(&llama(&files)?, &files, &Attention::new().mask(Mask::CAUSAL))
}
