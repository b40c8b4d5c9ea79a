use regard::Temperature;
use regard_tests::attention_files::{Dtype, Folder, bytes, safetensors};

use super::*;
use crate::host::Disk;
use crate::laboratory::Square;

const MASKED: f32 = f32::NEG_INFINITY;

fn engine() -> Engine {
    Engine::new(Arc::new(Disk))
}

fn run(engine: &mut Engine, inputs: &LaboratoryInputs) -> LaboratoryOutcome {
    engine
        .run(
            LaboratoryRequest {
                inputs: inputs.clone(),
                pinned: None,
                shown: LaboratoryMatrix::Weights,
            },
            &|_| (),
        )
        .unwrap()
}

/// The same in `f64`, from the definition.
fn reference(inputs: &LaboratoryInputs, outcome: &LaboratoryOutcome) -> Vec<f64> {
    let (n, d) = (inputs.tokens, inputs.dim);
    let (q, k) = outcome.tokens.of_dim(d, inputs.sink);
    let mut weights = Vec::new();
    for i in 0..n {
        let score = |j: usize| {
            let product: f64 =
                (0..d).map(|t| f64::from(q[i * d + t]) * f64::from(k[j * d + t])).sum();
            let mut score = if inputs.scaled { product / (d as f64).sqrt() } else { product };
            if let Some(cap) = inputs.softcap {
                score = f64::from(cap) * (score / f64::from(cap)).tanh();
            }
            if let Some(slope) = inputs.alibi {
                score -= f64::from(slope) * i.abs_diff(j) as f64;
            }
            let outside = |[left, right]: [usize; 2]| j + left < i || j > i + right;
            let painted = inputs.painted.iter().rfind(|square| {
                let (row, col) = square.cell;
                (row..row + square.side).contains(&i) && (col..col + square.side).contains(&j)
            });
            let hidden = inputs.causal && j > i
                || inputs.window.is_some_and(outside)
                || inputs.keys.is_some_and(|keys| j >= keys)
                || painted.is_some_and(|square| square.hides);
            if hidden { f64::NEG_INFINITY } else { score / f64::from(inputs.temperature.get()) }
        };
        let scores: Vec<f64> = (0..n).map(score).collect();
        let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut row: Vec<f64> = scores
            .iter()
            .map(|s| if *s == f64::NEG_INFINITY { f64::NEG_INFINITY } else { (s - max).exp() })
            .collect();
        if inputs.hide_first {
            row[0] = f64::NEG_INFINITY;
        }
        let sum: f64 = row.iter().filter(|x| x.is_finite()).sum();
        weights.extend(row.iter().map(|x| if sum > 0.0 { x / sum } else { *x }));
    }
    weights
}

#[test]
fn weights_are_those_of_the_definition() {
    let base =
        LaboratoryInputs { tokens: 33, dim: 12, causal: false, ..LaboratoryInputs::default() };
    let square = |cell, side, hides| Square { cell, side, hides };
    let cases = [
        base.clone(),
        LaboratoryInputs { scaled: false, causal: true, ..base.clone() },
        LaboratoryInputs {
            window: Some([3, 1]),
            temperature: Temperature::new(0.3).unwrap(),
            ..base.clone()
        },
        LaboratoryInputs { keys: Some(20), alibi: Some(0.25), sink: 6.0, ..base.clone() },
        LaboratoryInputs { softcap: Some(1.5), hide_first: true, sink: 3.0, ..base.clone() },
        LaboratoryInputs {
            painted: vec![square((2, 3), 9, true), square((4, 5), 2, false)],
            ..base.clone()
        },
    ];
    let mut engine = engine();
    for inputs in cases {
        let outcome = run(&mut engine, &inputs);
        for (i, (found, right)) in
            outcome.weights.iter().zip(reference(&inputs, &outcome)).enumerate()
        {
            let close = (f64::from(*found) - right).abs() < 2e-6;
            assert!(
                close || *found == MASKED && right == f64::NEG_INFINITY,
                "{inputs:?} {i}: {found} {right}"
            );
        }
    }
}

#[test]
fn the_kernels_own_weights_have_the_same_bits() {
    let inputs = LaboratoryInputs {
        tokens: 70,
        temperature: Temperature::new(0.7).unwrap(),
        ..LaboratoryInputs::default()
    };
    let outcome = run(&mut engine(), &inputs);
    let (q, k) = outcome.tokens.of_dim(inputs.dim, inputs.sink);
    let shape = [1, 1, inputs.tokens, inputs.dim];
    let attention = Attention::new().mask(Mask::CAUSAL).temperature(inputs.temperature);
    let (q, k) = (Heads::new("query", &q, shape).unwrap(), Heads::new("key", &k, shape).unwrap());
    let weights = attention.scores(Stage::Weights, q, k).unwrap();
    for (ours, theirs) in outcome.weights.iter().zip(weights.as_slice()) {
        assert!(ours == theirs || *ours == MASKED && *theirs == 0.0, "{ours} {theirs}");
    }
}

#[test]
fn the_ends_of_the_temperature_are_limits() {
    let mut engine = engine();
    let at = |temperature| LaboratoryInputs {
        tokens: 16,
        causal: false,
        temperature,
        ..LaboratoryInputs::default()
    };
    let cold = run(&mut engine, &at(Temperature::ZERO));
    assert!(cold.weights.chunks(16).all(|row| row.iter().filter(|w| **w == 1.0).count() == 1));
    let hot = run(&mut engine, &at(Temperature::INFINITE));
    assert!(hot.weights.iter().all(|w| *w == 1.0 / 16.0));
}

#[test]
fn another_temperature_keeps_the_scores() {
    let mut engine = engine();
    let inputs = LaboratoryInputs::default();
    let before = run(&mut engine, &inputs);
    let after = run(
        &mut engine,
        &LaboratoryInputs { temperature: Temperature::new(3.0).unwrap(), ..inputs.clone() },
    );
    assert!(Arc::ptr_eq(&before.scores.0, &after.scores.0));
    assert_ne!(before.weights, after.weights);
    let other = run(&mut engine, &LaboratoryInputs { causal: false, ..inputs });
    assert!(!Arc::ptr_eq(&before.scores.0, &other.scores.0));
}

#[test]
fn a_difference_is_b_minus_a() {
    let mut engine = engine();
    let a = LaboratoryInputs { tokens: 9, ..LaboratoryInputs::default() };
    let b = LaboratoryInputs { causal: false, ..a.clone() };
    let mut ask = |b: &LaboratoryInputs, shown| {
        let request =
            LaboratoryRequest { inputs: b.clone(), pinned: Some(Box::new(a.clone())), shown };
        engine.run(request, &|_| ()).unwrap()
    };
    let outcome = ask(&b, LaboratoryMatrix::Difference);
    let pinned = outcome.pinned.unwrap();
    for (i, difference) in outcome.numbers.iter().enumerate() {
        let a = if pinned[i] == MASKED { 0.0 } else { pinned[i] };
        assert_eq!(*difference, outcome.weights[i] - a);
    }
    assert!(
        ask(&a, LaboratoryMatrix::Difference).numbers.iter().all(|x| *x == 0.0 || *x == MASKED)
    );
    assert_eq!(ask(&a, LaboratoryMatrix::Difference).numbers[1], MASKED);
    let smaller = ask(&LaboratoryInputs { tokens: 5, ..b.clone() }, LaboratoryMatrix::Difference);
    assert!(smaller.note.is_some() && smaller.numbers.len() == 25);
    assert_eq!(
        ask(&LaboratoryInputs { tokens: 5, ..b }, LaboratoryMatrix::Pinned).numbers.len(),
        81
    );
}

/// A sink takes so much that softmax has nothing left for the others: without it, they still sum to 1.
#[test]
fn the_others_sum_to_1_when_the_first_token_is_hidden() {
    for t in [0.0, 0.05, 1.0] {
        let temperature = Temperature::new(t).unwrap();
        let inputs = LaboratoryInputs {
            tokens: 6,
            sink: 16.0,
            causal: false,
            hide_first: true,
            temperature,
            ..LaboratoryInputs::default()
        };
        let outcome = run(&mut engine(), &inputs);
        for row in outcome.weights.chunks(6) {
            assert_eq!(row[0], MASKED);
            assert!((row[1..].iter().sum::<f32>() - 1.0).abs() < 1e-6, "T = {t}: {row:?}");
        }
    }
}

/// Keys that a program masked by a large negative number are masked in the picture too, as those of a file of scores are.
#[test]
fn a_large_negative_score_far_from_the_others_is_a_mask() {
    for (mask, found) in [(f32::MIN, f32::MIN), (-1e9, -1e9), (-1e4, -1e4), (-5e3, MASKED)] {
        let tensors = [("q", [1_f32, 1.0]), ("k", [mask, 2.0])];
        let tensors = tensors.map(|(name, x)| (name, Dtype::F32, [2, 1], bytes(&x)));
        let folder = Folder::new();
        let path = folder.file("masked.safetensors", safetensors(&tensors, &[]));
        let source = TokenSource::File { path, head: 0 };
        let inputs = LaboratoryInputs {
            source,
            tokens: 2,
            dim: 1,
            causal: false,
            scaled: false,
            ..LaboratoryInputs::default()
        };
        let request = LaboratoryRequest { inputs, pinned: None, shown: LaboratoryMatrix::Scores };
        let outcome = engine().run(request, &|_| ()).unwrap();
        let hidden = if found == MASKED { mask } else { MASKED };
        assert_eq!(
            (outcome.masked, &outcome.numbers[..]),
            (found, &[hidden, 2.0, hidden, 2.0][..])
        );
        assert_eq!(**outcome.scores, [mask, 2.0, mask, 2.0]);
    }
}
