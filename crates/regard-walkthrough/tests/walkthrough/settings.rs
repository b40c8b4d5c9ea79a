//! The effect of the settings in every example.

use crate::arithmetic::assert_recomputed;
use crate::common::{ALL, at, cells, cuts, is_near, named, passes, run, step, without};
use proptest::prelude::*;
use regard_kernels::Temperature;
use regard_walkthrough::{
    Example, Kind, Settings, Walkthrough, Without, softmax_curve, softmax_gradient_norm, why_scale,
};

const COLD: Settings = Settings { temperature: Temperature::ZERO, causal: false, without: None };
const CAUSAL: Settings = Settings { temperature: Temperature::ONE, causal: true, without: None };

/// Checks every cell with its arithmetic, label, text and check of a walkthrough.
fn assert_sound(walk: &Walkthrough) {
    let name = walk.example.name();
    for (i, step) in walk.steps.iter().enumerate() {
        let (key, (rows, cols)) = (&step.key, step.matrix.shape());
        assert!(
            walk.steps[..i].iter().all(|s| s.key != *key && s.name != step.name),
            "{name}: {key} is there twice"
        );
        assert_eq!((step.row_labels.len(), step.col_labels.len()), (rows, cols), "{name} {key}");
        assert!(!step.name.is_empty() && step.meaning.ends_with('.'), "{name} {key}");
        assert!(step.meaning.chars().count() > 20 && rows * cols < 2100, "{name} {key}");
        for (row, col) in cells(step) {
            assert!(!step.matrix.get(row, col).is_nan(), "{name} {key}");
        }
        assert_eq!((step.explain(rows, 0), step.explain(0, cols)), (None, None));
    }
    for check in &walk.checks {
        let exempt =
            walk.settings.without == Some(Without::Softmax) && check.name == "rows sum to 1";
        assert_eq!(passes(check), !exempt, "{name}, {:?}: {check:?}", walk.settings);
    }
    assert_recomputed(walk);
}

#[test]
fn every_example_is_sound_with_every_setting() {
    for &example in Example::ALL {
        for t in [0.0, 1e-40, 0.5, 2.0, 1e30, f32::INFINITY] {
            for causal in [false, true] {
                for without in cuts() {
                    assert_sound(&run(example, &Settings { causal, without, ..at(t) }));
                }
            }
        }
    }
}

/// Without a limit a check never fails. At first each check has a limit, which is not larger than the errors of single
/// precision.
#[test]
fn every_example_is_checked_against_limits_worth_having() {
    for &example in Example::ALL {
        for causal in [false, true] {
            for check in run(example, &Settings { causal, ..Settings::default() }).checks {
                assert_eq!(check.holds(), Some(true), "{}: {check:?}", example.name());
            }
        }
    }
    let cold = run(Example::ILoveRobotics, &COLD);
    let precision = cold.checks.iter().find(|c| c.name == "single precision suffices").unwrap();
    assert_eq!(precision.holds(), None, "ties at T = 0: {precision:?}");
    assert!(precision.meaning.contains("no limit"), "{}", precision.meaning);
}

#[test]
fn the_steps_come_in_the_order_of_computation() {
    let walk = run(Example::MathOfAttention, &Settings::default());
    assert_eq!(walk.steps.iter().map(|s| s.key.to_string()).collect::<Vec<_>>(), ALL);
    assert_eq!(run(Example::MathOfAttention, &CAUSAL).steps[9].key, named("masked_scores"));
    let json = walk.to_json();
    let json: Vec<_> = json.as_object().unwrap().keys().collect();
    assert_eq!(json[4..15], ALL);
    for (i, step) in walk.steps.iter().enumerate() {
        assert!(walk.to_json()["max_error"][step.key.to_string()].is_f64(), "{i}");
    }
}

#[test]
fn at_zero_the_largest_score_takes_all_and_ties_share() {
    let walk = run(Example::ILoveRobotics, &COLD);
    let weights = &step(&walk, "weights").matrix;
    assert_eq!(weights.row(0), [1.0, 0.0, 0.0]);
    assert_eq!(weights.row(1), [1.0 / 3.0; 3]);
    assert_eq!(weights.row(2), [0.5, 0.5, 0.0]);
}

#[test]
fn at_infinity_all_visible_keys_share() {
    let hot = Settings { temperature: Temperature::INFINITE, ..CAUSAL };
    let walk = run(Example::MathOfAttention, &hot);
    let weights = &step(&walk, "weights").matrix;
    for i in 0..4 {
        for j in 0..4 {
            let expected = if j <= i { 1.0 / (i + 1) as f32 } else { 0.0 };
            assert_eq!(weights.get(i, j), expected);
        }
    }
    assert!(walk.to_json()["settings"]["temperature"].is_null());
}

#[test]
fn the_mask_hides_what_comes_after() {
    let walk = run(Example::MathOfAttention, &CAUSAL);
    let [masked, scaled] = ["masked_scores", "scaled_scores"].map(|key| &step(&walk, key).matrix);
    for i in 0..4 {
        for j in 0..4 {
            let expected = if j <= i { scaled.get(i, j) } else { f32::NEG_INFINITY };
            assert_eq!(masked.get(i, j), expected);
        }
    }
    // The first token sees only itself: its output is its value.
    assert_eq!(step(&walk, "output").matrix.row(0), step(&walk, "v").matrix.row(0));
    assert!(walk.checks.iter().any(|c| c.name == "nothing hidden is seen" && c.value == 0.0));
}

#[test]
fn by_hand_and_by_matrices_agree_with_every_mask() {
    for settings in [Settings::default(), CAUSAL, COLD] {
        let walk = run(Example::ILoveRobotics, &settings);
        for key in ["q", "raw_scores", "weights", "output"] {
            let by_hand = &step(&walk, &format!("love.{key}")).matrix;
            assert_eq!(by_hand.row(0), step(&walk, key).matrix.row(1), "{key}");
        }
    }
}

#[test]
fn without_projections_a_token_is_its_own_query_key_and_value() {
    let walk = run(Example::TheCatSat, &without(Without::Projections));
    assert!(walk.steps.iter().all(|s| !s.key.to_string().starts_with("w_")));
    for key in ["q", "k", "v"] {
        assert_eq!(step(&walk, key).matrix, step(&walk, "x").matrix);
    }
    let scores = &step(&walk, "raw_scores").matrix;
    assert_eq!(scores.as_slice(), [2.0, 0.0, 1.0, 0.0, 2.0, 1.0, 1.0, 1.0, 2.0]);
    let broken = walk.broken.unwrap();
    assert!(broken.contains("differ by at most 0,"), "{broken}");
}

#[test]
fn without_scaling_softmax_sees_the_raw_scores() {
    let walk = run(Example::AttentionScores, &without(Without::Scaling));
    assert_eq!(walk.step(named("scaled_scores")).map(|s| s.key), None);
    let expected = softmax_curve(&[2.0, 0.0, 1.0], &[Temperature::ONE]);
    assert_eq!(step(&walk, "weights").matrix.row(0), expected.row(0));
    assert!(walk.broken.unwrap().contains("The largest absolute score is 2 instead of 1"));
}

#[test]
fn without_softmax_the_scores_are_the_weights_and_hidden_ones_are_0() {
    let walk = run(Example::ILoveRobotics, &Settings { causal: true, ..without(Without::Softmax) });
    let weights = step(&walk, "weights");
    assert_eq!(weights.kind, Kind::Signed);
    for (j, expected) in [5.0 / 3.0_f64.sqrt(), 0.0, 0.0].into_iter().enumerate() {
        assert!(is_near(weights, (0, j), expected));
    }
    assert!(walk.broken.unwrap().contains("Each row should sum to 1"));
}

#[test]
fn every_example_tells_the_effect_of_a_step_that_is_left_out() {
    for &example in Example::ALL {
        assert_eq!(run(example, &Settings::default()).broken, None);
        for &w in Without::ALL {
            let walk = run(example, &without(w));
            let text = walk.broken.clone().unwrap();
            assert!(!text.contains("NaN") && text.ends_with('.'), "{text}");
            assert_eq!(walk.to_json()["broken"], *text);
            // The numbers are others, so there is nothing to correct.
            assert!(walk.steps.iter().all(|s| s.correction.is_none()));
        }
    }
}

#[test]
fn two_heads_stand_side_by_side() {
    let walk = run(Example::TwoHeads, &Settings::default());
    let all = &step(&walk, "concatenated").matrix;
    for i in 0..3 {
        assert_eq!(all.row(i)[..2], *step(&walk, "head_1.output").matrix.row(i));
        assert_eq!(all.row(i)[2..], *step(&walk, "head_2.output").matrix.row(i));
    }
    let json = walk.to_json();
    assert_eq!(json["heads"].as_array().unwrap().len(), 2);
    for key in ["raw_scores", "scaled_scores", "weights", "output"] {
        assert_eq!(json["heads"][1][key].as_array().unwrap().len(), 3, "{key}");
        assert!(json["max_error"][format!("head_2.{key}")].is_f64());
    }
    assert!(walk.checks.iter().any(|c| c.name == "two heads equal the layer"));
}

#[test]
fn scaling_keeps_softmax_the_same_for_every_dimension() {
    let rows = why_scale(Temperature::ONE).unwrap();
    assert_eq!(rows.iter().map(|r| r.d).collect::<Vec<_>>(), [4, 16, 64, 256, 1024]);
    assert!(rows.is_sorted_by(|a, b| a.raw.largest < b.raw.largest));
    assert!(rows[4].raw.largest > 0.9, "{:?}", rows[4]);
    assert!(rows.is_sorted_by(|a, b| a.raw.entropy > b.raw.entropy));
    assert!(rows.is_sorted_by(|a, b| a.raw.gradient > b.raw.gradient));
    for row in &rows {
        let root = (row.d as f64).sqrt();
        assert!((row.raw.std / root - 1.0).abs() < 0.1, "{row:?}");
        assert!((row.scaled.std - 1.0).abs() < 0.1, "{row:?}");
        assert!((0.3..0.4).contains(&row.scaled.largest), "{row:?}");
        assert!((1.8..2.0).contains(&row.scaled.entropy), "{row:?}");
    }
    let walk = run(Example::WhyScale, &Settings::default());
    let table = step(&walk, "by_dimension");
    assert_eq!((table.kind, table.matrix.shape()), (Kind::Table, (5, 8)));
    assert_eq!(f64::from(table.matrix.get(3, 2)), f64::from(rows[3].raw.largest as f32));
    let json = walk.to_json();
    assert_eq!(json["labels"]["by_dimension"]["rows"][4], "d = 1024");
}

/// Softmax divides by T first, so its slope is divided by T. At both ends of T the slope is 0.
#[test]
fn the_gradient_through_softmax_knows_the_temperature() {
    for t in [0.0, 1e-40, f32::INFINITY] {
        for row in why_scale(Temperature::new(t).unwrap()).unwrap() {
            assert_eq!((row.raw.gradient, row.scaled.gradient), (0.0, 0.0), "T = {t}");
        }
    }
    let t = 2.0;
    let walk = run(Example::ILoveRobotics, &at(t));
    let weights = &step(&walk, "weights").exact;
    let nudged = |scores: &[f64]| {
        let powers: Vec<f64> = scores.iter().map(|s| (s / f64::from(t)).exp()).collect();
        let sum: f64 = powers.iter().sum();
        powers.into_iter().map(|p| p / sum).collect::<Vec<_>>()
    };
    for i in 0..3 {
        // The slopes are differences: each weight for each score.
        let scores = step(&walk, "scaled_scores").exact.row(i);
        let mut squares = 0.0;
        for j in 0..3 {
            let [above, below] = [1e-6, -1e-6].map(|by| {
                let mut scores = scores.to_vec();
                scores[j] += by;
                nudged(&scores)
            });
            squares += above.iter().zip(below).map(|(a, b)| ((a - b) / 2e-6).powi(2)).sum::<f64>();
        }
        let norm = softmax_gradient_norm(weights.row(i).iter().copied(), f64::from(t));
        // A central difference over h = 10⁻⁶ has an error of h²/6 times a third derivative below 1/T³ ≤ 1, and of the
        // rounding of two weights over 2h: 3·10⁻¹⁰ for each of nine slopes.
        let tolerance = 3.0 * (1e-12 / 6.0 + 2.0 * f64::EPSILON / 2e-6);
        assert!((norm - squares.sqrt()).abs() < tolerance, "{norm} {}", squares.sqrt());
    }
}

#[test]
fn names_read_back_and_unknown_ones_list_the_known() {
    for &example in Example::ALL {
        assert_eq!(example.name().parse(), Ok(example));
    }
    for &w in Without::ALL {
        assert_eq!(w.name().parse(), Ok(w));
    }
    let error = "x".parse::<Example>().unwrap_err().to_string();
    assert_eq!(
        error,
        "there is no example called \"x\"; choose one of foundations, i-love-robotics, attention-scores, \
         math-of-attention, the-cat-sat, why-scale, two-heads, positions, rotary, kv-cache, grouped-queries, layer-norm, feed-forward, \
         block, cross-attention, gradients, seeded"
    );
}

proptest! {
    /// At low temperatures the checks allow only the errors of rounding.
    #[test]
    fn checks_hold_at_every_temperature(exponent in -6.0_f32..8.0, causal: bool, which in 0..Example::ALL.len()) {
        let temperature = Temperature::new(10_f32.powf(exponent)).unwrap();
        assert_sound(&run(Example::ALL[which], &Settings { temperature, causal, without: None }));
    }
}
