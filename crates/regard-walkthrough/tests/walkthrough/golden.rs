//! Every number of the five notebooks, computed again in double precision and compared with the walkthroughs.

use crate::common::{ALL, cells, is_near, named, step};
use regard_walkthrough::random::{NumpyRng, TorchRng};
use regard_walkthrough::{Example, Settings, StepKey, Walkthrough};
use serde_json::Value;

fn golden(example: &str) -> Value {
    let all: Value = serde_json::from_str(include_str!("../golden/seed_examples.json"))
        .expect("the golden file is JSON");
    all[example].clone()
}

fn run(example: Example) -> Walkthrough {
    crate::common::run(example, &Settings::default())
}

/// All numbers in a list of any depth.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(list) => list.iter().flat_map(numbers).collect(),
        number => vec![number.as_f64().unwrap_or_else(|| panic!("{number} is no number"))],
    }
}

/// Checks that a step's numbers are those of a list, within its bound.
fn assert_near(walk: &Walkthrough, key: StepKey, golden: &Value) {
    let (name, step, golden) = (walk.example.name(), walk.step(key).unwrap(), numbers(golden));
    assert_eq!(step.matrix.as_slice().len(), golden.len());
    for (cell, golden) in cells(step).zip(golden) {
        let found = step.matrix.get(cell.0, cell.1);
        assert!(is_near(step, cell, golden), "{name} {key}{cell:?}: {found} {golden}");
    }
}

/// Checks that every step of the notebook exists.
fn compare(example: Example, golden: &Value, keys: &[&str]) {
    let walk = run(example);
    for key in keys {
        let theirs = golden.get(key).or_else(|| golden.get(key.to_uppercase())).or_else(|| {
            let (w, letter) = key.split_once('_')?;
            golden.get(format!("{}_{}", w.to_uppercase(), letter.to_uppercase()))
        });
        let theirs = theirs.unwrap_or_else(|| panic!("the golden file has no {key}"));
        assert_near(&walk, named(key), theirs);
        let json: Vec<f32> = numbers(&walk.to_json()[*key]).iter().map(|x| *x as f32).collect();
        assert_eq!(json, step(&walk, key).matrix.as_slice(), "in JSON");
    }
}

#[test]
fn math_of_attention() {
    compare(Example::MathOfAttention, &golden("000_math_of_attention"), &ALL);
}

#[test]
fn the_cat_sat_and_its_causal_twin() {
    let golden = golden("001_self_attention_step_by_step");
    compare(Example::TheCatSat, &golden, &ALL);
    compare(Example::TheCatSat, &golden, &["causal_weights", "causal_output"]);
    assert_eq!(run(Example::TheCatSat).to_json()["tokens"], golden["tokens"]);

    let causal = Settings { causal: true, ..Settings::default() };
    let walk = Walkthrough::run(Example::TheCatSat, &causal).unwrap();
    assert_near(&walk, named("weights"), &golden["causal_weights"]);
    assert_near(&walk, named("output"), &golden["causal_output"]);
    let json = walk.to_json();
    assert_eq!(json["masked_scores"][0][1], Value::Null, "−∞");
    assert_eq!(json.get("causal_weights"), None, "its own twin");
}

#[test]
fn foundations() {
    let golden = golden("002_mathematical_foundations");
    compare(Example::Foundations, &golden, &ALL);
    let walk = run(Example::Foundations);
    let json = walk.to_json();
    for (part, keys) in [
        ("dot", &["x", "y", "dot", "cosine", "norm_x"] as &[&str]),
        ("softmax", &["scores", "t1", "t2"]),
        ("matmul", &["A", "B", "AB"]),
    ] {
        for key in keys {
            assert_near(&walk, named(&format!("{part}.{key}")), &golden[part][*key]);
            assert!(json["max_error"][format!("{part}.{key}")].is_f64());
        }
        assert_eq!(json[part].as_object().unwrap().len(), keys.len());
    }
}

#[test]
fn i_love_robotics_and_the_row_worked_by_hand() {
    let golden = golden("003_full_walkthrough");
    compare(Example::ILoveRobotics, &golden, &ALL);
    let json = run(Example::ILoveRobotics).to_json();
    assert_eq!(json["tokens"], golden["tokens"]);
    for key in ["q", "raw_scores", "scaled_scores", "weights", "output"] {
        assert_eq!(json["love"][key], json[key][1], "by hand as by matrices: {key}");
    }
    let said = &golden["document_says"];
    assert_eq!(numbers(&json["love"]["q"]), numbers(&said["q_love"]));
    assert_eq!(numbers(&json["love"]["raw_scores"]), numbers(&said["raw_scores_love"]));
    let correction = json["corrections"]["output"].as_str().unwrap();
    assert!(correction.contains("[1.332, 0.666, 0.666]") && correction.contains("[4/3, 2/3, 2/3]"));
}

#[test]
fn attention_scores() {
    let golden = golden("004_calculating_attention_scores");
    let keys = ["q", "k", "raw_scores", "scaled_scores", "weights"];
    compare(Example::AttentionScores, &golden, &keys);
    let json = run(Example::AttentionScores).to_json();
    assert_eq!(json.get("output"), None);
    let correction = json["corrections"]["weights"].as_str().unwrap();
    let (said, right) = ("[0.576, 0.212, 0.212]", "[0.506, 0.186, 0.307]");
    assert!(correction.contains(said) && correction.contains(right), "{correction}");
}

#[test]
fn pytorch_draws_the_same() {
    let golden = golden("000_math_of_attention");
    let mut rng = TorchRng::seed(42);
    for (key, n) in [("X", 32), ("W_Q", 64), ("W_K", 64), ("W_V", 64)] {
        for (ours, theirs) in rng.randn(n).into_iter().zip(numbers(&golden[key])) {
            assert_eq!(ours, theirs as f32, "{key}, bit for bit");
        }
    }
}

/// PyTorch prints four decimals.
#[test]
fn pytorch_draws_the_same_small_tensors() {
    let cases: [(u32, &[f32]); 2] = [
        (42, &[0.3367, 0.1288, 0.2345, 0.2303, -1.1229, -0.1863]),
        (0, &[1.5410, -0.2934, -2.1788, 0.5684, -1.0845]),
    ];
    for (seed, expected) in cases {
        for (ours, theirs) in TorchRng::seed(seed).randn(expected.len()).iter().zip(expected) {
            // Half of the last decimal, and the rounding of the number.
            let bound = 0.5e-4 + f32::EPSILON * theirs.abs();
            assert!((ours - theirs).abs() <= bound, "seed {seed}: {ours} for {theirs}");
        }
    }
}

#[test]
fn a_tensor_that_is_no_multiple_of_16_ends_in_a_fresh_block() {
    let (short, long) = (TorchRng::seed(7).randn(16), TorchRng::seed(7).randn(20));
    assert_eq!(long.len(), 20);
    assert_eq!(long[..4], short[..4]);
    assert_ne!(long[4..16], short[4..16]);
}

#[test]
fn numpy_draws_the_same() {
    let golden = golden("002_mathematical_foundations");
    let mut rng = NumpyRng::seed(0);
    for (key, n) in [("X", 24), ("W_Q", 36), ("W_K", 36), ("W_V", 36)] {
        for (ours, theirs) in rng.randn(n).into_iter().zip(numbers(&golden[key])) {
            // A logarithm, a root and two products of numbers below 8, with a few roundings of double precision each.
            let bound = 8.0 * 4.0 * f64::EPSILON;
            assert!((ours - theirs).abs() <= bound, "{key}: {ours} for {theirs}");
        }
    }
}
