//! GGUF files of the families that llama.cpp's converter changes most: norms with 1 added, fused and interleaved projections,
//! rotary scaling in metadata and tensors; against transformers with the dequantized weights.
#![expect(clippy::unwrap_used, reason = "a test fails with a panic")]

mod data;

use std::fs;

use regard_models::{Checkpoint, Description, Frequencies, Head, Model, RotaryScaling};

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
    assert!(matches!(scaling, Frequencies::Scaled(RotaryScaling::Yarn { .. })), "{scaling:?}");
    let json = serde_json::to_value(scaling).unwrap();
    assert_eq!((&json["yarn"]["truncate"], &json["yarn"]["fast"]), (&true.into(), &32.0.into()));
    assert_eq!(&serde_json::from_value::<Frequencies>(json).unwrap(), scaling);
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
    assert!(matches!(scaling, Frequencies::LongRope { .. }), "{scaling:?}");
}

#[test]
fn gptneox() {
    check("gptneox");
}

#[test]
fn gptneox_with_serial_sublayers() {
    check("gptneox-serial");
}

/// The description of a file without these keys, which have another name in it.
fn without(name: &str, keys: &[&str]) -> Description {
    let mut bytes = fs::read(data::path(&format!("{name}.gguf"))).unwrap();
    for key in keys {
        let at = bytes.windows(key.len()).position(|window| window == key.as_bytes());
        bytes[at.unwrap() + key.len() - 1] = b'_';
    }
    let name = format!("{name}.gguf");
    Description::of(&Checkpoint::from_files(&name, [(name.clone(), bytes)]).unwrap()).unwrap()
}

/// As in transformers' classes, and for Gemma 2's caps and window in llama.cpp.
#[test]
fn keys_that_a_file_leaves_out_are_the_familys() {
    let gemma = without(
        "gemma2",
        &[
            "gemma2.attn_logit_softcapping",
            "gemma2.final_logit_softcapping",
            "gemma2.attention.sliding_window",
            "gemma2.attention.layer_norm_rms_epsilon",
        ],
    );
    assert_eq!(gemma.stack.block.softcap, Some(50.0));
    assert!(matches!(gemma.head, Head::Tokens { softcap: Some(30.0), .. }));
    assert_eq!(gemma.stack.windows, [Some(4096), None]);
    assert_eq!(gemma.stack.block.norm.epsilon, 1e-6);
    let phi3 = without(
        "phi3",
        &["phi3.attention.layer_norm_rms_epsilon", "phi3.attention.sliding_window"],
    );
    assert_eq!((phi3.stack.block.norm.epsilon, &phi3.stack.windows[..]), (1e-5, &[None][..]));
    let neox = without("gptneox", &["gptneox.attention.layer_norm_epsilon"]);
    assert_eq!(neox.stack.block.norm.epsilon, 1e-5);
}
