//! ONNX's conformance tests of `Attention`, through the library.

use anyhow::{Context as _, Result};
use regard::{Attention, Heads, MaskTensor, MaskValues};
use regard_tests::onnx::{Case, cases, compare};
use safetensors::Dtype;

#[test]
fn every_case_of_the_sample_is_met() {
    let cases = cases().unwrap();
    assert_eq!(cases.len(), 27);
    for case in cases {
        check(&case).with_context(|| case.name.clone()).unwrap();
    }
}

fn check(case: &Case) -> Result<()> {
    let shape_of = |name: &str| case.inputs[name].shape4();
    let (k, v) = (with_past(case, "past_key", "k"), with_past(case, "past_value", "v"));
    let past = case.inputs.get("past_key").map_or(0, |past| past.shape[2]);
    let grown = |[b, h, n, d]: [usize; 4]| [b, h, n + past, d];
    let q = Heads::new("q", &case.inputs["q"].data, shape_of("q"))?;
    let k = Heads::new("k", &k, grown(shape_of("k")))?;
    let v = Heads::new("v", &v, grown(shape_of("v")))?;

    let mut attention = Attention::new();
    if let Some(scale) = case.scale {
        attention = attention.scale(scale);
    }
    if let Some(cap) = case.softcap {
        attention = attention.softcap(cap);
    }
    if let Some(position) = case.causal {
        attention = attention.causal(position);
    }
    if let Some(window) = case.window {
        attention = attention.window(case.position, window);
    }
    let lengths: Vec<usize> =
        case.inputs.get("kv_lengths").map_or(vec![], |t| t.data.iter().map(|n| *n as usize).collect());
    if !lengths.is_empty() {
        attention = attention.key_lengths(&lengths);
    }
    let mask = case.inputs.get("attn_mask");
    let allowed: Vec<bool> = mask.map_or(vec![], |m| m.data.iter().map(|x| *x != 0.0).collect());
    if let Some(mask) = mask {
        let values = if mask.dtype == Dtype::U8 { MaskValues::Allowed(&allowed) } else { MaskValues::Bias(&mask.data) };
        attention = attention.mask(MaskTensor::new(values, &mask.shape)?);
    }

    compare("output", &attention.forward(q, k, v)?, &case.expected["output"].data)?;
    if let Some(stage) = case.stage {
        compare("scores", &attention.scores(stage, q, k)?, &case.expected["scores"].data)?;
    }
    Ok(())
}

/// The cached heads and then the new ones, token by token: written apart from the program's own way.
fn with_past(case: &Case, past: &str, new: &str) -> Vec<f32> {
    let new = &case.inputs[new];
    let Some(past) = case.inputs.get(past) else { return new.data.clone() };
    let [batch, heads, _, d] = new.shape4();
    let tokens = past.shape[2] + new.shape[2];
    let mut data = Vec::new();
    for head in 0..batch * heads {
        for token in 0..tokens {
            let (from, t) = match token.checked_sub(past.shape[2]) {
                Some(t) => (new, t),
                None => (past, token),
            };
            data.extend_from_slice(&from.data[(head * from.shape[2] + t) * d..][..d]);
        }
    }
    data
}
