use anyhow::Result;
use regard::{
    Activation, Attention, Encoder, EncoderBlock, EncoderParts, FeedForward, Keep, Linear,
    MultiHeadAttention, PositionTable, Projections, Sequences,
};

use crate::check::{compare, compare_all};
use crate::files::Files;

/// An image through the model: its states, its attentions and the logits of its labels.
pub fn check_vit(files: &Files) -> Result<()> {
    let (d, hidden) = (files.size("hidden_size")?, files.size("intermediate_size")?);
    let epsilon = files.number("layer_norm_eps")?;
    let block = |i: usize| -> Result<EncoderBlock> {
        let name = |part: &str| format!("vit.encoder.layer.{i}.{part}");
        let square = |part: &str| files.linear(&name(&format!("attention.{part}")), d, d);
        let projections = Projections {
            query: square("attention.query")?,
            key: square("attention.key")?,
            value: square("attention.value")?,
            output: square("output.dense")?,
        };
        let up = files.linear(&name("intermediate.dense"), d, hidden)?;
        let down = files.linear(&name("output.dense"), hidden, d)?;
        Ok(EncoderBlock::pre_norm(EncoderParts {
            attention_norm: files.layer_norm(&name("layernorm_before"), epsilon)?,
            attention: MultiHeadAttention::new(files.size("num_attention_heads")?, projections)?,
            feed_forward_norm: files.layer_norm(&name("layernorm_after"), epsilon)?,
            feed_forward: FeedForward::new(up, Activation::Gelu, down)?,
        })?)
    };
    let blocks = (0..files.size("num_hidden_layers")?).map(block).collect::<Result<_>>()?;
    let norm = files.layer_norm("vit.layernorm", epsilon)?;
    let encoder = Encoder::new(blocks, Some(norm))?;

    let x = embed(files, d)?;
    let shape = [1, x.len() / d, d];
    let x = Sequences::new("x", &x, shape)?;
    let run = encoder.forward_with(x, |_| Attention::new(), Keep::ALL)?;
    compare_all("hidden state", &run.states, &files.expected("hidden_states")?, d)?;
    compare_all("attentions of layer", &run.weights, &files.expected("attentions")?, shape[1])?;
    let labels = files.expected("logits")?;
    let classifier = files.linear("classifier", d, labels.len())?;
    let logits = classifier.forward(Sequences::new("y", &run.output[..d], [1, 1, d])?)?;
    compare("logits", &logits, &labels, labels.len())
}

/// The class token and the patches of the image, row by row, with their positions. The convolution over patches is a linear
/// layer of the numbers of a patch.
fn embed(files: &Files, d: usize) -> Result<Vec<f32>> {
    let (size, patch) = (files.size("image_size")?, files.size("patch_size")?);
    let (channels, across) = (files.size("num_channels")?, size / patch);
    let pixels = files.expected("pixel_values")?;
    let mut patches = Vec::new();
    for (row, column) in (0..across * across).map(|p| (p / across, p % across)) {
        for (channel, y) in (0..channels * patch).map(|i| (i / patch, i % patch)) {
            let start = (channel * size + row * patch + y) * size + column * patch;
            patches.extend_from_slice(&pixels[start..start + patch]);
        }
    }
    let (inputs, count) = (channels * patch * patch, across * across);
    let name = "vit.embeddings.patch_embeddings.projection";
    let projection = Linear::from_pytorch(files.weight(&format!("{name}.weight"))?, inputs, d)?
        .with_bias(files.weight(&format!("{name}.bias"))?)?;
    let mut x = files.weight("vit.embeddings.cls_token")?;
    x.extend(projection.forward(Sequences::new("patches", &patches, [1, count, inputs])?)?);
    let positions = files.weight("vit.embeddings.position_embeddings")?;
    PositionTable::learned(positions, count + 1, d)?.add(&mut x, [1, count + 1, d], 0)?;
    Ok(x)
}
