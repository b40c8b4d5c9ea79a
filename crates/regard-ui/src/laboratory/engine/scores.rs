//! The scores, by the kernels.

use regard::{Attention, Error, Heads, Mask, MaskTensor, Position, Stage, Window};

use super::super::tokens::Tokens;
use super::super::{LaboratoryInputs, TokenSource};

/// The scores \[n, n\] after scale, soft cap, biases and masks.
pub(super) fn scores(
    inputs: &LaboratoryInputs,
    tokens: &Tokens,
    progress: &(dyn Fn(f32) + Sync),
) -> Result<Vec<f32>, Error> {
    let (n, d) = (inputs.tokens, inputs.dim);
    let sink = if inputs.source == TokenSource::Seed { inputs.sink } else { 0.0 };
    let (queries, keys) = tokens.of_dim(d, sink);
    let shape = [1, 1, n, d];
    let allowed = (!inputs.painted.is_empty()).then(|| painted(inputs));
    let report = |done: usize, all: usize| progress(done as f32 / all.max(1) as f32);
    let (position, lengths, slopes) =
        (Position::TopLeft, inputs.keys.map(|keys| [keys]), inputs.alibi.map(|x| [x]));
    let (mut attention, mut mask) = (Attention::new().progress(&report), Mask::NONE);
    if !inputs.scaled {
        attention = attention.scale(1.0);
    }
    if inputs.causal {
        mask = mask.causal(position);
    }
    if let Some([left, right]) = inputs.window {
        mask = mask.window(position, Window { left: Some(left), right: Some(right) });
    }
    if let Some(lengths) = &lengths {
        mask = mask.key_lengths(lengths);
    }
    if let Some(slopes) = &slopes {
        mask = mask.alibi(position, slopes);
    }
    if let Some(cap) = inputs.softcap {
        attention = attention.softcap(cap);
    }
    if let Some(allowed) = &allowed {
        mask = mask.allowed(MaskTensor::new(allowed, &[n, n])?);
    }
    let (q, k) = (Heads::new("query", &queries, shape)?, Heads::new("key", &keys, shape)?);
    Ok(attention.mask(mask).scores(Stage::Masked, q, k)?.into_vec())
}

/// `true` where a key may be seen.
fn painted(inputs: &LaboratoryInputs) -> Vec<bool> {
    let n = inputs.tokens;
    let mut allowed = vec![true; n * n];
    for square in &inputs.painted {
        let (row, col) = square.cell;
        let cols = col.min(n)..col.saturating_add(square.side).min(n);
        for cells in allowed.chunks_exact_mut(n).skip(row).take(square.side) {
            cells[cols.clone()].fill(!square.hides);
        }
    }
    allowed
}
