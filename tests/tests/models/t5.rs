use anyhow::{Context as _, Result, ensure};
use regard::{
    Activation, Attention, Decoder, DecoderAttention, DecoderBlock, DecoderParts, Embedding,
    Encoder, EncoderBlock, EncoderParts, FeedForward, Keep, LayerWorkspace, Mask, MaskTensor,
    MultiHeadAttention, Projections, Sequences,
};

use crate::check::{compare, compare_all, largest};
use crate::files::Files;

struct T5 {
    d: usize,
    words: Embedding,
    encoder: Encoder,
    decoder: Decoder,
    encoder_bias: Bias,
    decoder_bias: Bias,
}

/// The relative bias of a stack, which all its layers share.
struct Bias {
    /// \[buckets, heads\].
    table: Vec<f32>,
    heads: usize,
    farthest: usize,
    both_ways: bool,
}

impl Bias {
    fn of(files: &Files, stack: &str) -> Result<Self> {
        let name = format!("{stack}.block.0.layer.0.SelfAttention.relative_attention_bias.weight");
        Ok(Self {
            table: files.weight(&name)?,
            heads: files.size("num_heads")?,
            farthest: files.size("relative_attention_max_distance")?,
            both_ways: stack == "encoder",
        })
    }

    /// \[heads, n, keys\] for `n` queries that stand at `first` and after it.
    fn for_queries(&self, first: usize, n: usize, keys: usize) -> Vec<f32> {
        let mut bias = Vec::new();
        for (head, i, j) in (0..self.heads)
            .flat_map(|h| (0..n).flat_map(move |i| (0..keys).map(move |j| (h, i, j))))
        {
            bias.push(self.table[self.bucket(first + i, j) * self.heads + head]);
        }
        bias
    }

    /// Raffel et al. 2020, section 2.1, and the code that came with it: half of the buckets are single distances, the others
    /// grow as their logarithm.
    fn bucket(&self, query: usize, key: usize) -> usize {
        let all = self.table.len() / self.heads;
        let (buckets, first, distance) = if self.both_ways {
            (all / 2, if key > query { all / 2 } else { 0 }, query.abs_diff(key))
        } else {
            (all, 0, query.saturating_sub(key))
        };
        let exact = buckets / 2;
        if distance < exact {
            return first + distance;
        }
        let share =
            (distance as f64 / exact as f64).ln() / (self.farthest as f64 / exact as f64).ln();
        first + (exact + (share * (buckets - exact) as f64) as usize).min(buckets - 1)
    }
}

impl T5 {
    fn read(files: &Files) -> Result<Self> {
        let (d, d_kv, hidden) = (files.size("d_model")?, files.size("d_kv")?, files.size("d_ff")?);
        let heads = files.size("num_heads")?;
        let attention = |name: &str| -> Result<MultiHeadAttention> {
            let linear = |part: &str, inputs, outputs| {
                files.linear(&format!("{name}.{part}"), inputs, outputs)
            };
            let inner = heads * d_kv;
            let projections = Projections {
                query: linear("q", d, inner)?,
                key: linear("k", d, inner)?,
                value: linear("v", d, inner)?,
                output: linear("o", inner, d)?,
            };
            Ok(MultiHeadAttention::new(heads, projections)?)
        };
        let norm = |name: &str| files.rms_norm(name, files.number("layer_norm_epsilon")?, 0.0);
        let feed_forward = |name: &str| -> Result<FeedForward> {
            let up = files.linear(&format!("{name}.wi"), d, hidden)?;
            let down = files.linear(&format!("{name}.wo"), hidden, d)?;
            Ok(FeedForward::new(up, Activation::Relu, down)?)
        };
        let encoder = |i: usize| -> Result<EncoderBlock> {
            let name = |part: &str| format!("encoder.block.{i}.layer.{part}");
            Ok(EncoderBlock::pre_norm(EncoderParts {
                attention_norm: norm(&name("0.layer_norm"))?,
                attention: attention(&name("0.SelfAttention"))?,
                feed_forward_norm: norm(&name("1.layer_norm"))?,
                feed_forward: feed_forward(&name("1.DenseReluDense"))?,
            })?)
        };
        let decoder = |i: usize| -> Result<DecoderBlock> {
            let name = |part: &str| format!("decoder.block.{i}.layer.{part}");
            Ok(DecoderBlock::pre_norm(DecoderParts {
                self_attention_norm: norm(&name("0.layer_norm"))?,
                self_attention: attention(&name("0.SelfAttention"))?,
                cross_attention_norm: norm(&name("1.layer_norm"))?,
                cross_attention: attention(&name("1.EncDecAttention"))?,
                feed_forward_norm: norm(&name("2.layer_norm"))?,
                feed_forward: feed_forward(&name("2.DenseReluDense"))?,
            })?)
        };
        let blocks = (0..files.size("num_layers")?).map(encoder).collect::<Result<_>>()?;
        let encoder = Encoder::new(blocks, Some(norm("encoder.final_layer_norm")?))?;
        let blocks = (0..files.size("num_decoder_layers")?).map(decoder).collect::<Result<_>>()?;
        let decoder = Decoder::new(blocks, Some(norm("decoder.final_layer_norm")?))?;
        Ok(Self {
            d,
            words: files.embedding("shared.weight", d)?,
            encoder,
            decoder,
            encoder_bias: Bias::of(files, "encoder")?,
            decoder_bias: Bias::of(files, "decoder")?,
        })
    }

    /// The logits of hidden states: by the embedding, which is tied, of states divided by √d.
    fn logits(&self, x: &[f32]) -> Result<Vec<f32>> {
        let x: Vec<f32> = x.iter().map(|x| x / (self.d as f32).sqrt()).collect();
        let shape = [1, x.len() / self.d, self.d];
        Ok(self.words.output_head().forward(Sequences::new("x", &x, shape)?)?.into_vec())
    }
}

/// How the decoder attends with a bias \[heads, n_q, n_k\]. T5 does not scale its scores.
fn attention(bias: MaskTensor<'_>) -> DecoderAttention<'_> {
    DecoderAttention {
        self_attention: Attention::new().scale(1.0).mask(Mask::CAUSAL.bias(bias)),
        cross_attention: Attention::new().scale(1.0),
    }
}

/// Both stacks' states and attentions and the logits; then the tokens that the decoder writes with its caches.
pub fn check_t5(files: &Files) -> Result<()> {
    let model = T5::read(files)?;
    let (d, heads) = (model.d, model.encoder_bias.heads);
    let ids = files.ids("input_ids")?;
    let n = ids.len();
    let x = model.words.forward(&ids)?;
    let bias = model.encoder_bias.for_queries(0, n, n);
    let bias = MaskTensor::new(&bias, &[heads, n, n])?;
    let encoding = |_| Attention::new().scale(1.0).mask(Mask::NONE.bias(bias));
    let mut run =
        model.encoder.forward_with(Sequences::new("x", &x, [1, n, d])?, encoding, Keep::ALL)?;
    *run.states.last_mut().context("a state")? = run.output.clone(); // after the norm
    compare_all(
        "hidden state of the encoder",
        &run.states,
        &files.expected("encoder_hidden_states")?,
        d,
    )?;
    compare_all(
        "attentions of encoder layer",
        &run.weights,
        &files.expected("encoder_attentions")?,
        n,
    )?;
    let memory = Sequences::new("memory", &run.output, [1, n, d])?;

    let ids = files.ids("decoder_input_ids")?;
    let m = ids.len();
    let x = model.words.forward(&ids)?;
    let bias = model.decoder_bias.for_queries(0, m, m);
    let bias = MaskTensor::new(&bias, &[heads, m, m])?;
    let x = Sequences::new("x", &x, [1, m, d])?;
    let mut run = model.decoder.forward_with(x, memory, |_| attention(bias), Keep::ALL)?;
    *run.states.last_mut().context("a state")? = run.output.clone(); // after the norm
    compare_all(
        "hidden state of the decoder",
        &run.states,
        &files.expected("decoder_hidden_states")?,
        d,
    )?;
    compare_all(
        "attentions of decoder layer",
        &run.self_weights,
        &files.expected("decoder_attentions")?,
        m,
    )?;
    compare_all(
        "cross-attentions of layer",
        &run.cross_weights,
        &files.expected("cross_attentions")?,
        n,
    )?;
    let expected = files.expected("logits")?;
    compare("logits", &model.logits(&run.output)?, &expected, expected.len() / m)?;

    // With caches, one token after another.
    let expected = files.ids("generated")?;
    let mut caches = model.decoder.caches(memory, expected.len())?;
    let start = files.size("decoder_start_token_id")? as u32;
    let (mut workspace, mut generated, mut ids) = (LayerWorkspace::new(), Vec::new(), vec![start]);
    while generated.len() < expected.len() {
        let (first, n) = (caches[0].len(), ids.len());
        let x = model.words.forward(&ids)?;
        let bias = model.decoder_bias.for_queries(first, n, first + n);
        let bias = MaskTensor::new(&bias, &[heads, n, first + n])?;
        let mut y = vec![0.0; x.len()];
        let x = Sequences::new("x", &x, [1, n, d])?;
        model.decoder.forward_into(x, &mut caches, |_| attention(bias), &mut y, &mut workspace)?;
        let logits = model.logits(&y[y.len() - d..])?;
        ids = vec![largest(&logits).context("a logit")?];
        generated.push(ids[0]);
    }
    ensure!(generated == expected, "{generated:?} instead of {expected:?}");
    Ok(())
}
