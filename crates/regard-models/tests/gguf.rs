//! GGUF files of the families that llama.cpp's converter changes most: norms with 1 added, fused and interleaved projections,
//! rotary scaling in metadata and tensors; against transformers with the dequantized weights.
#![expect(clippy::unwrap_used, reason = "a test fails with a panic")]

mod data;

use regard_models::{Model, RopeScaling};

/// A text longer than the original context of the models that have one, and a shorter one.
fn check(name: &str) -> Model {
    let model = Model::open(data::path(&format!("{name}.gguf"))).unwrap();
    for (prefix, tokens) in [("long", data::IDS.len()), ("short", 6)] {
        data::check(&model, tokens, &format!("{name}.expected.safetensors"), prefix);
    }
    model
}

#[test]
fn qwen3() {
    check("qwen3");
}

#[test]
fn qwen3_with_yarn() {
    let model = check("qwen3-yarn");
    let scaling = &model.description().stack.block.rotary.as_ref().unwrap().scaling;
    assert!(matches!(scaling, RopeScaling::Yarn { .. }), "{scaling:?}");
}

#[test]
fn gemma2() {
    check("gemma2");
}

#[test]
fn phi3() {
    check("phi3");
}

#[test]
fn phi3_with_divisors_of_frequencies() {
    let model = check("phi3-longrope");
    let scaling = &model.description().stack.block.rotary.as_ref().unwrap().scaling;
    assert!(matches!(scaling, RopeScaling::LongRope { .. }), "{scaling:?}");
}

#[test]
fn gptneox() {
    check("gptneox");
}

#[test]
fn gptneox_with_serial_sublayers() {
    check("gptneox-serial");
}
