use anyhow::Result;
use regard::{
    Activation, Attention, Encoder, EncoderBlock, EncoderParts, FeedForward, MultiHeadAttention,
    PositionTable, Projections, Sequences,
};

use crate::check::Model;
use crate::files::Files;

pub fn bert(files: &Files) -> Result<Model> {
    let (d, hidden) = (files.size("hidden_size")?, files.size("intermediate_size")?);
    let epsilon = files.number("layer_norm_eps")?;

    let words = files.embedding("bert.embeddings.word_embeddings.weight", d)?;
    let positions = files.weight("bert.embeddings.position_embeddings.weight")?;
    let positions = PositionTable::learned(positions, files.size("max_position_embeddings")?, d)?;
    let kinds = files.weight("bert.embeddings.token_type_embeddings.weight")?;
    let norm = files.layer_norm("bert.embeddings.LayerNorm", epsilon)?;
    let tied = words.output_head();
    let embed = move |ids: &[u32], first: usize| -> Result<Vec<f32>> {
        let (mut x, shape) = (words.forward(ids)?, [1, ids.len(), d]);
        positions.add(&mut x, shape, first)?;
        for token in x.chunks_mut(d) {
            regard_kernels::add(token, &kinds[..d])?; // one sentence: all tokens are of the first kind
        }
        Ok(norm.forward(x.sequences())?.into_vec())
    };

    let block = |i: usize| -> Result<EncoderBlock> {
        let name = |part: &str| format!("bert.encoder.layer.{i}.{part}");
        let square = |part: &str| files.linear(&name(&format!("attention.{part}")), d, d);
        let projections = Projections {
            query: square("self.query")?,
            key: square("self.key")?,
            value: square("self.value")?,
            output: square("output.dense")?,
        };
        let up = files.linear(&name("intermediate.dense"), d, hidden)?;
        let down = files.linear(&name("output.dense"), hidden, d)?;
        let norm = |part: &str| files.layer_norm(&name(part), epsilon);
        Ok(EncoderBlock::post_norm(EncoderParts {
            attention_norm: norm("attention.output.LayerNorm")?,
            attention: MultiHeadAttention::new(files.size("num_attention_heads")?, projections)?,
            feed_forward_norm: norm("output.LayerNorm")?,
            feed_forward: FeedForward::new(up, Activation::Gelu, down)?,
        })?)
    };
    let blocks = (0..files.size("num_hidden_layers")?).map(block).collect::<Result<_>>()?;

    let transform = files.linear("cls.predictions.transform.dense", d, d)?;
    let norm = files.layer_norm("cls.predictions.transform.LayerNorm", epsilon)?;
    let logits = tied.with_bias(files.weight("cls.predictions.bias")?)?;
    let head = move |x: Sequences<'_>| -> Result<Vec<f32>> {
        let mut y = transform.forward(x)?;
        Activation::Gelu.apply(&mut y);
        let y = norm.forward(y.sequences())?;
        Ok(logits.forward(y.sequences())?.into_vec())
    };
    Ok(Model {
        embed: Box::new(embed),
        encoder: Encoder::new(blocks, None)?,
        attention: Box::new(|_| Attention::new()),
        head: Box::new(head),
    })
}
