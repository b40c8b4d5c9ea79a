//! ONNX's own conformance tests of its `Attention` operator, all of opsets 23 to 25, as attentions of `regard`.
//!
//! They are `golden/onnx_attention.*`, Copyright (c) ONNX Project Contributors, Apache-2.0, written by
//! `golden/onnx_attention.py`. The operator takes \[batch, tokens, heads · dim\] or \[batch, heads, tokens, dim\]; here it is
//! always the latter.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use half::{bf16, f16};
use regard::{Position, Stage, Window};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use crate::tensor::Tensor;

/// One conformance test.
#[derive(Clone, Debug)]
pub struct Case {
    /// The test's name in ONNX.
    pub name: String,
    /// The inputs by the names of `regard attend`: `q`, `k`, `v`, `attn_mask`, `past_key`, `past_value`, `kv_lengths`.
    pub inputs: BTreeMap<&'static str, Tensor>,
    /// The expected results: `output`, `present_key`, `present_value`, `scores`.
    pub expected: BTreeMap<&'static str, Tensor>,
    /// The scale, if it is not 1/√d.
    pub scale: Option<f32>,
    /// The soft cap.
    pub softcap: Option<f32>,
    /// The causal mask.
    pub causal: Option<Position>,
    /// The window.
    pub window: Option<Window>,
    /// The position of the queries among the keys.
    pub position: Position,
    /// The stage of the matrix `scores`.
    pub stage: Option<Stage>,
}

/// All cases.
///
/// # Errors
/// If the golden files cannot be read.
pub fn cases() -> Result<Vec<Case>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/onnx_attention");
    let json: Value = serde_json::from_slice(&std::fs::read(format!("{folder}.json"))?)?;
    let bytes = std::fs::read(format!("{folder}.safetensors"))?;
    let file = SafeTensors::deserialize(&bytes)?;
    let cases = json.as_object().context("an object of cases")?;
    cases.iter().map(|(name, case)| read(name, case, &file).with_context(|| name.clone())).collect()
}

fn read(name: &str, json: &Value, file: &SafeTensors<'_>) -> Result<Case> {
    let attribute = |key: &str| json["attrs"].get(key);
    let whole = |key: &str| attribute(key)?.as_i64();
    let number = |key: &str| attribute(key)?.as_f64().map(|x| x as f32);
    let query_heads = whole("q_num_heads").unwrap_or(0) as usize;
    let kv_heads = whole("kv_num_heads").unwrap_or(0) as usize;

    let tensor = |theirs: &str| Tensor::read(file, &format!("{name}/{theirs}"));
    let mut inputs = BTreeMap::new();
    let names =
        [("q", "Q"), ("k", "K"), ("v", "V"), ("attn_mask", "attn_mask"), ("past_key", "past_key")];
    for (ours, theirs) in
        names.into_iter().chain([("past_value", "past_value"), ("kv_lengths", "nonpad_kv_seqlen")])
    {
        if let Some(tensor) = tensor(theirs)? {
            let tensor = match ours {
                "q" => tensor.split_heads(query_heads),
                "k" | "v" => tensor.split_heads(kv_heads),
                _ => tensor,
            };
            inputs.insert(ours, tensor);
        }
    }
    let mut expected = BTreeMap::new();
    for (ours, theirs) in [
        ("output", "out_Y"),
        ("present_key", "out_present_key"),
        ("present_value", "out_present_value"),
        ("scores", "out_qk_matmul_output"),
    ] {
        if let Some(tensor) = tensor(theirs)? {
            expected.insert(
                ours,
                if ours == "output" { tensor.split_heads(query_heads) } else { tensor },
            );
        }
    }

    // In ONNX, queries come after the keys of a cache inside the operator. With key lengths, the last query is at the last key.
    let past = inputs.get("past_key").map_or(0, |past| past.shape[2]);
    let position = if inputs.contains_key("kv_lengths") {
        Position::BottomRight
    } else {
        Position::Offset(past as isize)
    };
    let side = |key: &str| usize::try_from(whole(key)?).ok();
    let window = Window { left: side("left_window_size"), right: side("right_window_size") };
    let stages = [Stage::Raw, Stage::Softcapped, Stage::Masked, Stage::Weights];
    Ok(Case {
        name: name.to_owned(),
        stage: expected
            .contains_key("scores")
            .then(|| stages[whole("qk_matmul_output_mode").unwrap_or(0) as usize]),
        inputs,
        expected,
        scale: number("scale"),
        softcap: number("softcap").filter(|cap| *cap > 0.0), // 0 means no soft cap
        causal: (whole("is_causal") == Some(1)).then_some(position),
        window: (window != Window::default()).then_some(window),
        position,
    })
}

/// Checks that `found` is `expected` within max(1, |expected|) times
/// - 2⁻¹⁵ = 512 · u in `f32`, where u = 2⁻²⁴ is the relative error of a rounding. The numbers of the cases lie within ±1,
///   with d_k = 8 and at most 18 keys. A score with its mask is at most √8 + 1, and 16 roundings (8 products and sums, scale,
///   soft cap, mask) move it by 62·u. That moves a weight by the factor e^(±2 · 62·u); its exponential, sum and division add
///   24 roundings, and the weighted sum of values of at most 1 adds 18: 166·u in all. The operator's reference computes in
///   `f32`, too, so the distance is at most twice that;
/// - ε = 2⁻¹⁰ in F16 and 2⁻⁷ in BF16, the distance between two numbers at 1. The reference rounds weights and output to this
///   type, each by at most ε/2. It rounds the scores, too, with a smaller effect.
///
/// −∞ and NaN must agree exactly.
///
/// # Errors
/// If an element is farther away; the message names the first.
pub fn compare(what: &str, found: &[f32], expected: &Tensor) -> Result<()> {
    let (dtype, expected) = (expected.dtype, &expected.data);
    let tolerance = match dtype {
        Dtype::F16 => f16::EPSILON.to_f32(),
        Dtype::BF16 => bf16::EPSILON.to_f32(),
        _ => 2_f32.powi(-15),
    };
    anyhow::ensure!(
        found.len() == expected.len(),
        "{what}: {} elements, not {}",
        found.len(),
        expected.len()
    );
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        let close =
            f == e || (f.is_nan() && e.is_nan()) || (f - e).abs() <= tolerance * e.abs().max(1.0);
        anyhow::ensure!(close, "{what}[{i}] is {f}, not {e}");
    }
    Ok(())
}
