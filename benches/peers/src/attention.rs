//! Attention.

use std::hint::black_box;

use anyhow::{Result, anyhow};
use burn_backend::TensorData;
use burn_backend::ops::AttentionModuleOptions;
use burn_flex::FlexTensor;
use burn_flex::ops::attention::attention as burn_attention;
use candle_core::{Device, Tensor};
use candle_nn::attention::{AttnMask, flash_attn};
use regard_benches::{Shape, Subject, numbers};

pub fn attention(shape: Shape) -> Result<Vec<Subject>> {
    Ok(vec![with_burn(shape), with_candle(shape)?])
}

/// [heads, tokens] of queries, keys and values, and the seeds of their numbers.
fn tensors(shape: Shape) -> [([usize; 2], f64); 3] {
    let Shape { heads, kv_heads, queries, keys, .. } = shape;
    [([heads, queries], 0.1), ([kv_heads, keys], 0.2), ([kv_heads, keys], 0.3)]
}

/// [batch, heads, tokens, dim]. burn chooses whole scores or tiles; causal is bottom-right.
fn with_burn(shape: Shape) -> Subject {
    let Shape { batch, dim, causal, threads, .. } = shape;
    let [q, k, v] = tensors(shape).map(|([heads, tokens], seed)| {
        let data = numbers(batch * heads * tokens * dim, seed);
        FlexTensor::from_data(TensorData::new(data, [batch, heads, tokens, dim]))
    });
    let options = AttentionModuleOptions { is_causal: causal, ..Default::default() };
    let call = move || {
        black_box(burn_attention(q.clone(), k.clone(), v.clone(), None, None, options));
        Ok(())
    };
    Subject::new("burn-flex", call).threads(threads)
}

/// [batch, tokens, heads, dim], with candle's own fused attention for the CPU.
fn with_candle(shape: Shape) -> Result<Subject> {
    let Shape { batch, queries, keys, dim, causal, threads, .. } = shape;
    let tensor = |([heads, tokens], seed): ([usize; 2], f64)| {
        let data = numbers(batch * heads * tokens * dim, seed);
        Tensor::from_vec(data, (batch, tokens, heads, dim), &Device::Cpu)
    };
    let [q, k, v] = tensors(shape).map(tensor);
    let (q, k, v) = (q?, k?, v?);
    let scale = 1.0 / (dim as f32).sqrt();
    let call = move || {
        let mask = match causal {
            true => AttnMask::causal_with_offset(keys.saturating_sub(queries)),
            false => AttnMask::None,
        };
        let out = flash_attn::<f32>(black_box(&q), &k, &v, scale, mask, None, None).map_err(|e| anyhow!(e))?;
        black_box(out);
        Ok(())
    };
    Ok(Subject::new("candle-nn", call).threads(threads))
}
