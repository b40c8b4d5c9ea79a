//! Scores unfolded: each agrees with the trace bit for bit, its steps with each other, and its errors with their bounds.
use regard_models::{AttentionPlace, Change, HeadAddress, Model, Score, Trace, WhyHidden};
use regard_tests::models::FAMILIES;

use crate::common::{changed, input, open};

/// The unit roundoff of `f32`.
const U: f64 = f32::EPSILON as f64 / 2.0;

/// Checks a score against the trace of the same pass, its own steps, and the bounds of rounding.
fn check(score: &Score, trace: &Trace, what: &str) {
    let place = |place| trace.at(score.head.place(place)).unwrap();
    let scores = place(AttentionPlace::Scores);
    let [_, queries, keys] = scores.shape[..] else { panic!("{what}") };
    let start = (score.head.head * queries + score.query) * keys;
    let kept = scores.data[start + score.key];
    assert_eq!(score.score.unwrap_or(f32::NEG_INFINITY).to_bits(), kept.to_bits(), "{what}");
    assert_eq!(score.hidden.is_some(), kept == f32::NEG_INFINITY, "{what}");
    let weight = place(AttentionPlace::Pattern).data[start + score.key];
    assert_eq!(score.weight.value.to_bits(), weight.to_bits(), "{what}");
    assert_eq!(score.scaled, score.dot.value * score.scale, "{what}");
    if score.softcap.is_none() {
        assert_eq!(score.capped, score.scaled, "{what}");
    }
    if score.hidden.is_none() {
        assert_eq!(score.score, Some(score.capped + score.bias.unwrap_or(0.0)), "{what}");
    }
    let row = &scores.data[start..start + keys];
    let maximum = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    assert_eq!(score.maximum.unwrap_or(f32::NEG_INFINITY), maximum, "{what}");

    // A sum of d products is off by at most γ Σ|qᵢkᵢ|, γ = d·u / (1 − d·u) (Higham 2002, section 3.1).
    let d = score.q.len() as f64;
    let sum_of = |products: &[f64]| products.iter().map(|x| x.abs()).sum::<f64>();
    let gamma = d * U / (1.0 - d * U);
    assert!(score.dot.error.abs() <= gamma * sum_of(&score.products), "{what}: {:?}", score.dot);
    assert_eq!(score.dot.error, f64::from(score.dot.value) - score.dot.reference, "{what}");
    // No key is longer than the longest, so δ bounds the error of every score of the row: of the dot product and the scale;
    // of tanh, 8 ulp; and of the bias. Where scores are off by δ, weights are off by a factor of at most exp(2δ/T); exp, the
    // sum of n of them and the division add (n + 8) u, and each exponent (s − m)/T is off by 4 u of its size.
    if score.temperature == 0.0 || score.temperature.is_infinite() {
        return; // which keys tie is not a matter of rounding
    }
    let last = [AttentionPlace::TurnedKey, AttentionPlace::NormedKey];
    let last = last.iter().find_map(|place| trace.at(score.head.place(*place)));
    let last = last.filter(|_| score.q_before.is_some());
    let multiplied = last.unwrap_or_else(|| place(AttentionPlace::Key));
    let longest = multiplied.data.chunks(score.k.len()).map(|k| {
        let products = k.iter().zip(&score.q).map(|(k, q)| f64::from(*k) * f64::from(*q));
        sum_of(&products.collect::<Vec<_>>())
    });
    let longest = longest.fold(0.0, f64::max) * f64::from(score.scale).abs();
    let largest =
        row.iter().filter(|x| x.is_finite()).fold(0.0_f64, |m, x| m.max(f64::from(x.abs())));
    let t = f64::from(score.temperature);
    let delta = (gamma + 2.0 * U) * longest + 16.0 * U * largest;
    let exponent = 4.0 * U * 2.0 * largest / t;
    let relative = (2.0 * (delta / t + exponent)).exp_m1() + (keys as f64 + 8.0) * U;
    let bound = relative * score.weight.reference + f64::from(f32::MIN_POSITIVE);
    assert!(score.weight.error.abs() <= bound, "{what}: {:?}, bound {bound}", score.weight);
}

/// The heads with a diagonal of the queries and keys of a small input. One of them, if it is named, has every query and key.
fn check_heads(name: &str, model: &Model, changes: &[Change], whole: Option<HeadAddress>) {
    let input = input(model);
    let pass = changed(model.pass(), changes);
    let trace = pass.clone().keep(["*attn.hook*"]).run(&input).unwrap();
    let heads = model.description().heads();
    for (i, head) in heads.into_iter().enumerate() {
        let pattern = trace.at(head.place(AttentionPlace::Pattern)).unwrap();
        let [_, queries, keys] = pattern.shape[..] else { panic!("{name}") };
        for (query, key) in (0..queries).flat_map(|i| (0..keys).map(move |j| (i, j))) {
            if Some(head) == whole || (query * keys + key) % 17 == i % 17 {
                let score = pass.score(&input, head, query, key).unwrap();
                check(&score, &trace, &format!("{name}: head {head}, query {query}, key {key}"));
            }
        }
    }
}

#[test]
fn a_score_agrees_with_the_trace_in_every_family() {
    for name in FAMILIES {
        check_heads(name, &open(name), &[], None);
    }
}

#[test]
fn a_score_follows_the_changes() {
    let head: HeadAddress = "1.2".parse().unwrap();
    let cases = [0.0, 0.3, 7.0, f32::INFINITY].map(|t| [("tiny-gpt2", t), ("tiny-gpt_oss", t)]);
    for (name, temperature) in cases.into_iter().flatten() {
        let model = open(name);
        let changes = [
            Change::Temperature { head, temperature },
            Change::Cut { head, query: 5, key: 2 },
            Change::Ablate { head: "0.1".parse().unwrap(), to: regard_models::Ablation::Zero },
        ];
        check_heads(name, &model, &changes, Some(head));
        let cut = changed(model.pass(), &changes).score(&input(&model), head, 5, 2).unwrap();
        assert_eq!((cut.hidden, cut.score, cut.weight.value), (Some(WhyHidden::Cut), None, 0.0));
        assert_eq!(cut.temperature, temperature);
        let text = serde_json::to_string(&cut).unwrap();
        let read: Score = serde_json::from_str(&text).unwrap();
        let numbers =
            |score: &Score| (score.temperature, score.q.clone(), score.hidden, score.maximum);
        assert_eq!(numbers(&read), numbers(&cut));
        let text = serde_json::to_string(&changes).unwrap();
        assert_eq!(serde_json::from_str::<Vec<Change>>(&text).unwrap(), changes);
    }
}

#[test]
fn a_query_that_sees_nothing_has_no_maximum() {
    let model = open("tiny-gpt2");
    let head: HeadAddress = "0.0".parse().unwrap();
    let pass = model.pass().change(Change::Cut { head, query: 0, key: 0 });
    let score = pass.score(&input(&model), head, 0, 0).unwrap();
    assert_eq!((score.maximum, score.sum, score.weight.value), (None, 0.0, 0.0));
    assert_eq!(score.weight.error, 0.0);
}

#[test]
fn nan_shows_in_the_reference_too() {
    let model = open("tiny-gpt2");
    let width = model.description().width;
    let place = "blocks.0.hook_resid_pre".parse().unwrap();
    let nan = Change::Add { place, position: None, vector: vec![f32::NAN; width] };
    let score = model.pass().change(nan).score(&input(&model), "0.0".parse().unwrap(), 1, 0);
    let score = score.unwrap();
    assert!(score.weight.value.is_nan() && score.weight.reference.is_nan(), "{score:?}");
    assert!(score.maximum.is_some_and(f32::is_nan) && score.sum.is_nan(), "{score:?}");
}

#[test]
fn why_a_key_is_hidden_is_told() {
    let model = open("tiny-gemma2"); // layer 0 has a window of 5
    let input = input(&model);
    let why = |head: &str, query, key| {
        model.pass().score(&input, head.parse().unwrap(), query, key).unwrap().hidden
    };
    assert_eq!(why("0.0", 3, 4), Some(WhyHidden::Causal));
    assert_eq!(why("0.0", 6, 1), Some(WhyHidden::Window));
    assert_eq!(why("0.0", 6, 2), None);
    assert_eq!(why("1.0", 6, 1), None);
}

#[test]
fn a_score_that_is_not_there_is_refused() {
    let model = open("tiny-t5");
    let input = input(&model);
    for (head, query, key, part) in [
        ("cross.0.0", 4, 0, "4 queries and 9 keys"),
        ("decoder.0.0", 0, 4, "4 queries and 4 keys"),
        ("encoder.0.9", 0, 0, "no head encoder.0.9"),
        ("0.0", 0, 0, "encoder, decoder and cross"),
    ] {
        let error = model.pass().score(&input, head.parse().unwrap(), query, key).unwrap_err();
        assert!(error.to_string().contains(part), "{error}");
    }
    let one = open("tiny-gpt2").pass().score(
        &regard_models::Input::tokens([3]),
        "0.0".parse().unwrap(),
        1,
        0,
    );
    let said = one.unwrap_err().to_string();
    assert!(said.ends_with("head 0.0 has 1 query and 1 key"), "{said}");
}
