//! Tests the lesson of each example on numbers that are computed here.

use crate::common::{is_near, named, run, step, without};
use regard_kernels::Temperature;
use regard_walkthrough::{Example, Inputs, Settings, Step, Walkthrough, Without};

/// The term that layer norm adds to the variance.
const EPSILON: f64 = 1e-5_f32 as f64;

fn holds(walk: &Walkthrough, name: &str) {
    let check =
        walk.checks.iter().find(|c| c.name == name).unwrap_or_else(|| panic!("no check {name}"));
    assert_eq!(check.holds(), Some(true), "{check:?}");
}

#[test]
fn without_positions_order_means_nothing_and_with_them_it_does() {
    // The statements about order also hold with the causal mask, which hides nothing there.
    for causal in [false, true] {
        order_means_nothing(&run(Example::Positions, &Settings { causal, ..Settings::default() }));
    }
}

fn order_means_nothing(walk: &Walkthrough) {
    let plain = &step(walk, "plain.output").matrix;
    assert_eq!(plain.row(0), plain.row(3), "both \"the\"");
    assert_ne!(step(walk, "output").matrix.row(0), step(walk, "output").matrix.row(3));
    // The check compares each row with the other's, within the bounds of both.
    holds(walk, "permuted tokens give permuted outputs");
    let moved = &step(walk, "moved").matrix;
    for i in [0, 1, 3, 4] {
        let (row, bound) = (moved.row(i), step(walk, "moved").bound(i, 0).unwrap());
        assert!(f64::from(row[0]) <= bound && row[1] > 0.05, "{row:?}");
    }
}

#[test]
fn layer_norm_makes_loud_and_quiet_tokens_alike() {
    let walk = run(Example::LayerNorm, &Settings::default());
    let norm = step(&walk, "norm");
    // (x − mean) / √(variance + ε) of [1, 2, 3, 6]: mean 3, variance 3.5.
    let root = (3.5 + EPSILON).sqrt();
    for (j, expected) in [-2.0 / root, -1.0 / root, 0.0, 3.0 / root + 0.5].into_iter().enumerate() {
        assert!(is_near(norm, (1, j), expected), "{} {expected}", norm.matrix.get(1, j));
    }
    // A token a hundred times as small, with a variance of 3.5·10⁻⁴, shrinks further by the ε that is added to it.
    let factor = (3.5e-4 / (3.5e-4 + EPSILON)).sqrt();
    for (j, loud) in [-2.0, -1.0, 0.0, 3.0].map(|x: f64| x / 3.5_f64.sqrt()).into_iter().enumerate()
    {
        let shift = if j == 3 { 0.5 } else { 0.0 };
        assert!(is_near(norm, (0, j), loud * factor + shift), "{} {loud}", norm.matrix.get(0, j));
    }
}

#[test]
fn a_feed_forward_layer_by_hand() {
    let walk = run(Example::FeedForward, &Settings::default());
    // "the" = [1, 0, 1, 0]: rows 1 and 3 of W₁ plus b₁, negative numbers set to 0; then rows of W₂ plus b₂.
    let raw = step(&walk, "hidden_raw").matrix.row(0);
    assert_eq!(raw, [1.5, -1.0, 0.5, -0.5, 0.5, -1.0, 0.0, 0.0]);
    assert_eq!(step(&walk, "hidden").matrix.row(0), [1.5, 0.0, 0.5, 0.0, 0.5, 0.0, 0.0, 0.0]);
    for (j, expected) in [0.75, -0.15, 0.75, -0.85].into_iter().enumerate() {
        assert!(is_near(step(&walk, "fed"), (0, j), expected), "{j} {expected}");
    }
}

#[test]
fn a_block_step_by_step_is_that_of_the_layers() {
    for causal in [false, true] {
        for heads in [1, 2, 4] {
            let mut inputs = Inputs::new(Example::Block);
            inputs.set_heads(heads).unwrap();
            inputs.set(named("gamma_1"), 0, 2, -1.5).unwrap();
            let settings = Settings { causal, ..Settings::default() };
            let walk = Walkthrough::compute(&inputs, &settings).unwrap();
            holds(&walk, "step by step equals the layers");
        }
    }
    let walk = run(Example::Block, &Settings::default());
    let order: Vec<String> = walk.steps.iter().map(|s| s.key.to_string()).collect();
    let place =
        |key: &str| order.iter().position(|k| *k == key).unwrap_or_else(|| panic!("no {key}"));
    let keys = "x positions placed norm_1 q head_2.weights output residual norm_2 hidden fed";
    assert!(keys.split(' ').is_sorted_by_key(place));
    assert_eq!(order.last().map(String::as_str), Some("block_output"));
}

#[test]
fn two_texts_attend_across() {
    let walk = run(Example::CrossAttention, &Settings { causal: true, ..Settings::default() });
    let weights = step(&walk, "weights");
    assert_eq!(weights.matrix.shape(), (2, 3));
    assert_eq!((weights.row_labels[1].as_str(), weights.col_labels[1].as_str()), ("chat", "cat"));
    // "le" finds "the", and "chat" finds "cat". Nothing is hidden, although the settings are causal.
    let row = |i| weights.matrix.row(i);
    let largest = |i| (0..3).max_by(|a, b| row(i)[*a].total_cmp(&row(i)[*b]));
    assert_eq!([largest(0), largest(1)], [Some(0), Some(1)]);
    assert!(walk.step(named("masked_scores")).is_none());
}

#[test]
fn rotary_scores_depend_on_the_distance_alone() {
    let walk = run(Example::Rotary, &Settings::default());
    holds(&walk, "scores depend on the distance alone");
    let (scores, shifted) = (step(&walk, "raw_scores"), step(&walk, "shifted.raw_scores"));
    let (q, k) = (step(&walk, "q"), step(&walk, "k"));
    // By hand: pair i of the token at t is multiplied by e^(i·t·100^(−i/2)), and the score is the real part of q·k̄.
    let turned = |x: &Step, t: usize, pair: usize| {
        let (sin, cos) = (t as f64 * 100_f64.powf(-(pair as f64) / 2.0)).sin_cos();
        let (a, b) = (x.exact.get(t, 2 * pair), x.exact.get(t, 2 * pair + 1));
        [a * cos - b * sin, a * sin + b * cos]
    };
    for (m, n) in (0..4).flat_map(|m| (0..4).map(move |n| (m, n))) {
        let score: f64 = (0..2)
            .map(|pair| {
                let ([a, b], [c, d]) = (turned(q, m, pair), turned(k, n, pair));
                a * c + b * d
            })
            .sum();
        // A dozen operations on numbers below 4, in double precision.
        assert!((scores.exact.get(m, n) - score).abs() <= 64.0 * f64::EPSILON, "{m} {n}");
        assert!((shifted.exact.get(m, n) - score).abs() <= 128.0 * f64::EPSILON, "{m} {n}");
    }
    // "ball" follows both "red": equal distances have equal scores, and the other distance has another score.
    assert!((scores.exact.get(0, 1) - scores.exact.get(2, 3)).abs() <= 64.0 * f64::EPSILON);
    assert!((scores.exact.get(0, 1) - scores.exact.get(0, 3)).abs() > 0.5);
}

#[test]
fn grouped_query_heads_share_keys_and_ask_different_questions() {
    let walk = run(Example::GroupedQueries, &Settings::default());
    holds(&walk, "four heads equal the layer");
    let of = |head: usize, key: &str| &step(&walk, &format!("head_{head}.{key}")).matrix;
    for key in ["k", "v"] {
        assert_eq!(of(1, key), of(2, key));
        assert_eq!(of(3, key), of(4, key));
        assert_ne!(of(1, key), of(3, key));
    }
    for (a, b) in [(1, 2), (3, 4), (1, 3)] {
        assert_ne!(of(a, "weights"), of(b, "weights"));
    }
    // 2 · 2 key/value heads · 2 features · 4 bytes.
    assert_eq!(step(&walk, "savings").matrix.row(1), [8.0, 32.0]);
    assert_eq!(step(&walk, "savings").matrix.row(2), [16.0, 64.0]);
}

#[test]
fn one_query_with_a_cache_gives_the_last_row_of_the_whole_bit_for_bit() {
    for (t, without) in [(1.0, None), (0.25, None), (1.0, Some(Without::Scaling))] {
        let temperature = Temperature::new(t).unwrap();
        let settings = Settings { temperature, without, ..Settings::default() };
        let walk = run(Example::KvCache, &settings);
        holds(&walk, "the cached row has the same bits");
        let (one, all) = (step(&walk, "next.output"), step(&walk, "whole.output"));
        let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(one.matrix.shape(), (1, 4));
        assert_eq!(bits(one.matrix.row(0)), bits(all.matrix.row(4)));
    }
}

#[test]
fn gradients_of_one_call_agree() {
    for causal in [false, true] {
        let settings = Settings { causal, ..Settings::default() };
        let walk = run(Example::Gradients, &settings);
        holds(&walk, "step by step equals the gradients of one call");
        // A step against the gradient reduces the loss.
        let mut inputs = Inputs::new(Example::Gradients);
        for key in ["w_q", "w_k", "w_v"] {
            let gradient = &step(&walk, &format!("d_{key}")).matrix;
            for (i, j) in (0..4).flat_map(|i| (0..4).map(move |j| (i, j))) {
                let w = inputs.matrix(named(key)).unwrap().get(i, j);
                inputs.set(named(key), i, j, w - 0.1 * f64::from(gradient.get(i, j))).unwrap();
            }
        }
        let learned = Walkthrough::compute(&inputs, &settings).unwrap();
        let [before, after] = [&walk, &learned].map(|walk| step(walk, "loss").matrix.get(0, 0));
        assert!(after < before - 0.05, "{after} {before}");
    }
}

#[test]
fn the_first_tokens_weight_on_later_tokens_is_told_for_all_heads() {
    let walk = run(Example::TwoHeads, &without(Without::Mask));
    let first = |head: usize| {
        step(&walk, &format!("head_{head}.weights")).exact.row(0)[1..].iter().sum::<f64>()
    };
    let [one, two] = [first(1), first(2)];
    let rounded = |x: f64| format!("{x:.3}").trim_end_matches('0').to_owned();
    assert_ne!(rounded(one), rounded(f64::midpoint(one, two)), "the heads differ");
    let text = walk.broken.clone().unwrap();
    let gives = format!("the first token gives {}.", rounded(f64::midpoint(one, two)));
    assert!(text.contains(&gives), "{text}");
}

#[test]
fn without_the_mask_tokens_see_the_future() {
    let settings = without(Without::Mask);
    for causal in [false, true] {
        let walk = run(Example::ILoveRobotics, &Settings { causal, ..settings });
        assert!(walk.step(named("masked_scores")).is_none());
        // Row "I": 0.168 + 0.299 later; row "love": 0.333; row "robotics": none.
        let text = walk.broken.unwrap();
        let gives =
            "gives 0.267 of its attention to tokens after it, and the first token gives 0.467";
        assert!(text.contains(gives), "{text}");
        assert!(text.contains("2 of 3 outputs change, by at most "), "{text}");
    }
    let cross = run(Example::CrossAttention, &settings).broken.unwrap();
    assert!(cross.contains("no mask to leave out"), "{cross}");
    let none = run(Example::LayerNorm, &settings).broken.unwrap();
    assert_eq!(none, "This example computes no attention, so it has no mask to leave out.");
}

#[test]
fn what_broke_follows_what_was_typed() {
    let mut inputs = Inputs::new(Example::AttentionScores);
    inputs.set(named("q"), 0, 0, 100.0).unwrap();
    let cut = |without| {
        Walkthrough::compute(&inputs, &crate::common::without(without)).unwrap().broken.unwrap()
    };
    let scaling = cut(Without::Scaling);
    assert!(scaling.starts_with("The largest absolute score is 101 instead of 50.5."), "{scaling}");
    let softmax = cut(Without::Softmax);
    assert!(softmax.contains("from 1.5 to 75.75"), "{softmax}");

    let one = Inputs::seeded(vec!["a".to_owned(), "b".to_owned()], 4, 1, 2, 3).unwrap();
    let text = Walkthrough::compute(&one, &without(Without::Scaling)).unwrap().broken.unwrap();
    assert!(text.contains("√1 = 1"), "{text}");
}

#[test]
fn the_diagonal_is_of_one_text_alone() {
    let says = |example, key: &str| {
        step(&run(example, &Settings::default()), key).meaning.contains("the diagonal")
    };
    assert!(says(Example::TheCatSat, "weights") && says(Example::TwoHeads, "head_2.weights"));
    assert!(!says(Example::CrossAttention, "weights") && !says(Example::WhyScale, "weights"));
}

#[test]
fn nearly_all_scores_lie_within_three_standard_deviations() {
    let walk = run(Example::WhyScale, &Settings::default());
    assert!(step(&walk, "by_dimension").meaning.contains("within ±3√d"));
    let (raw, scaled) = (step(&walk, "raw_scores"), step(&walk, "scaled_scores"));
    let within = |step: &Step, limit: f32| {
        step.matrix.as_slice().iter().filter(|s| s.abs() <= limit).count()
    };
    assert!(within(raw, 3.0 * 16.0) >= 39 && within(scaled, 3.0) >= 39, "of 40, at d = 256");
    let mean = raw.matrix.as_slice().iter().sum::<f32>() / 40.0;
    assert!(mean.abs() < 3.0 * 16.0 / 40_f32.sqrt(), "{mean}");
}

/// The text of the masked scores says so.
#[test]
fn a_large_negative_number_hides_like_infinity_until_all_is_hidden() {
    let walk = run(Example::TheCatSat, &Settings { causal: true, ..Settings::default() });
    let masked = step(&walk, "masked_scores");
    assert!(masked.meaning.contains("lower triangle") && masked.meaning.contains("−10⁹"));
    for i in 0..3 {
        let mut row: Vec<f32> = masked.matrix.row(i).iter().map(|s| s.max(-1e9)).collect();
        regard_kernels::softmax(&mut row, regard_kernels::Temperature::ONE);
        assert_eq!(row, step(&walk, "weights").matrix.row(i));
    }
    let mut hidden = [-1e9_f32; 4];
    regard_kernels::softmax(&mut hidden, regard_kernels::Temperature::ONE);
    assert_eq!(hidden, [0.25; 4]);
}

#[test]
fn every_gradient_has_the_rows_and_columns_of_its_matrix() {
    for without in [None, Some(Without::Scaling), Some(Without::Projections)] {
        let walk = run(Example::Gradients, &Settings { without, ..Settings::default() });
        for of in ["x", "w_q", "w_k", "w_v", "q", "k", "v", "weights"] {
            let Some(of) = walk.step(named(of)) else { continue };
            let gradient = step(&walk, &format!("d_{}", of.key));
            assert_eq!(gradient.row_labels, of.row_labels, "{}", gradient.key);
            assert_eq!(gradient.col_labels, of.col_labels, "{}", gradient.key);
        }
        let place = |key: &str| walk.steps.iter().position(|step| step.key == named(key));
        assert!(place("loss") < place("d_output"), "the loss comes first");
    }
}

#[test]
fn the_four_lines_are_those_of_the_steps() {
    let lines =
        |example, settings: &Settings| run(example, settings).in_four_lines().map(|l| l.join("\n"));
    let plain = Settings::default();
    assert_eq!(
        lines(Example::ILoveRobotics, &plain).as_deref(),
        Some(
            "Q = X·W_Q,  K = X·W_K,  V = X·W_V\nS = Q·Kᵀ / √d_k\nA = softmax(S), row by row\nO = A·V"
        )
    );
    let settings = Settings {
        temperature: regard_kernels::Temperature::new(2.0).expect("a temperature"),
        causal: true,
        without: None,
    };
    assert_eq!(
        lines(Example::Block, &settings).as_deref(),
        Some(
            "Q = N₁·W_Q,  K = N₁·W_K,  V = N₁·W_V\n\
             S₁ = Q₁·K₁ᵀ / √d_k,  −∞ where j > i,  and so in each of 2 heads\n\
             A₁ = softmax(S₁ / T), row by row\n\
             O = [A₁·V₁ A₂·V₂]·W_O"
        )
    );
    assert!(
        lines(Example::CrossAttention, &settings)
            .is_some_and(|l| l.contains("K = E·W_K") && !l.contains("−∞"))
    );
    assert!(lines(Example::Positions, &plain).is_some_and(|l| l.starts_with("Q = H·W_Q")));
    let cut = |without| {
        lines(Example::TheCatSat, &Settings { without: Some(without), ..plain })
            .expect("there is an output")
    };
    assert!(cut(Without::Projections).starts_with("Q = X,  K = X,  V = X\n"));
    assert!(
        !cut(Without::Scaling).contains("√d_k")
            && cut(Without::Softmax).contains("A = S, without softmax")
    );
    assert_eq!(lines(Example::AttentionScores, &plain), None);
}
