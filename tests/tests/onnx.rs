//! ONNX's conformance tests of `Attention`, through the library.

use anyhow::{Context as _, Result, ensure};
use half::{bf16, f16};
use regard::{Attention, Element, Heads, KvCache, KvCacheShape, Mask, MaskTensor};
use regard_tests::onnx::{Case, cases, compare};
use regard_tests::tensor::Tensor;
use safetensors::Dtype;

#[test]
fn every_case_is_met() {
    let cases = cases().unwrap();
    assert_eq!(cases.len(), 93);
    for case in cases {
        check(&case).with_context(|| case.name.clone()).unwrap();
    }
}

/// The output, and the scores where the case has them.
type Results = (Vec<f32>, Option<Vec<f32>>);

fn check(case: &Case) -> Result<()> {
    let single = run(case, |x| x)?;
    let stored = match case.inputs["q"].dtype {
        Dtype::F16 => run(case, f16::from_f32)?,
        Dtype::BF16 => run(case, bf16::from_f32)?,
        _ => single.clone(),
    };
    ensure!(stored == single, "numbers stored in half precision are the same numbers");
    compare("output", &stored.0, &case.expected["output"])?;
    ensure!(stored.1.is_some() == case.expected.contains_key("scores"), "scores are there, or not");
    stored.1.map_or(Ok(()), |scores| compare("scores", &scores, &case.expected["scores"]))
}

/// Runs the case on tensors of `T`.
fn run<T: Element + Default>(case: &Case, of: fn(f32) -> T) -> Result<Results> {
    let stored = |tensor: &Tensor| -> Vec<T> { tensor.data.iter().map(|x| of(*x)).collect() };
    let [q, k, v] = ["q", "k", "v"].map(|name| stored(&case.inputs[name]));
    let shape_of = |name: &str| case.inputs[name].shape4();
    let q = Heads::new("q", &q, shape_of("q"))?;
    let k = Heads::new("k", &k, shape_of("k"))?;
    let v = Heads::new("v", &v, shape_of("v"))?;

    let mut attention = Attention::new();
    if let Some(scale) = case.scale {
        attention = attention.scale(scale);
    }
    if let Some(cap) = case.softcap {
        attention = attention.softcap(cap);
    }
    let mut shown = Mask::NONE;
    if let Some(position) = case.causal {
        shown = shown.causal(position);
    }
    if let Some(window) = case.window {
        shown = shown.window(case.position, window);
    }
    let lengths: Option<Vec<usize>> =
        case.inputs.get("kv_lengths").map(|t| t.data.iter().map(|n| *n as usize).collect());
    if let Some(lengths) = &lengths {
        shown = shown.key_lengths(lengths);
    }
    let mask = case.inputs.get("attn_mask");
    let allowed: Vec<bool> = mask.map_or(vec![], |m| m.data.iter().map(|x| *x != 0.0).collect());
    if let Some(mask) = mask {
        shown = if mask.dtype == Dtype::BOOL {
            shown.allowed(MaskTensor::new(&allowed, &mask.shape)?)
        } else {
            shown.bias(MaskTensor::new(&mask.data, &mask.shape)?)
        };
    }
    let attention = attention.mask(shown);
    let results = |k, v| -> Result<Results> {
        let scores = case.stage.map(|stage| attention.scores(stage, q, k)).transpose()?;
        Ok((attention.forward(q, k, v)?.into_vec(), scores.map(regard::Tensor::into_vec)))
    };

    let (Some(past_key), Some(past_value)) =
        (case.inputs.get("past_key"), case.inputs.get("past_value"))
    else {
        return results(k, v);
    };
    let ([batch, heads, past, d_k], [_, _, new, _], [_, _, _, d_v]) =
        (past_key.shape4(), k.shape(), v.shape());
    let mut cache = KvCache::new(KvCacheShape {
        batch,
        kv_heads: heads,
        capacity: past + new,
        key_dim: d_k,
        value_dim: d_v,
    })?;
    let (keys, values) = (stored(past_key), stored(past_value));
    cache.append(
        Heads::new("past_key", &keys, past_key.shape4())?,
        Heads::new("past_value", &values, past_value.shape4())?,
    )?;
    cache.append(k, v)?;
    results(cache.keys(), cache.values())
}
