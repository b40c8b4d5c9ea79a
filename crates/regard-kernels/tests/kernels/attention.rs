//! Fused attention against the contract in `f64`, over random shapes and masks.

use crate::common::{self, Attended, Case, Matrix, Random, assert_close, bits, gamma};
use proptest::prelude::*;
use regard_kernels::{Position, Stage, Temperature, Window, attention_scratch_len, naive};

const INF: f32 = f32::INFINITY;

/// Random shapes from empty ones to several tiles, with masks, scale, soft cap and a finite temperature above 0.
fn any_case(seed: u64) -> Case {
    let random = &mut Random(seed);
    let rows = |random: &mut Random| {
        let most = if cfg!(miri) {
            [4, 8, 20, 70][random.below(4)]
        } else {
            [4, 20, 70, 150][random.below(4)]
        };
        random.below(most)
    };
    // Some cases have several tiles of 256 keys.
    let n_k = if !cfg!(miri) && random.chance(25) { 200 + random.below(500) } else { rows(random) };
    let n_q = rows(random);
    let wide = if cfg!(miri) { 18 } else { 81 };
    let (d_k, d_v) = (random.below(wide), random.below(wide));
    let mut case = Case::random(n_q, n_k, d_k, d_v, random);
    case.add_masks(random);
    if random.chance(40) {
        case.scale = Some([0.0, -0.0, -0.3, 0.05, 1.0, random.within(1.5)][random.below(6)]);
    }
    if random.chance(25) {
        case.softcap = Some(random.within(10.0).abs() + 0.01);
    }
    if random.chance(25) {
        case.sink = Some([-INF, 0.0, 3.0, -2.5, random.within(9.0)][random.below(5)]);
    }
    if random.chance(40) {
        case.temperature = [0.05, 0.3, 2.0, 50.0, 1e6][random.below(5)];
    }
    case
}

/// Integers and a scale of 1. Every score is exact, so that equal scores are equal.
fn whole_numbers(seed: u64) -> Case {
    let random = &mut Random(seed);
    let (n_q, n_k, d) = (random.below(20), random.below(400), random.below(5));
    let mut number = |_: usize, _: usize| random.below(5) as f32 - 2.0;
    let (q, k) = (Matrix::from_fn(n_q, d, &mut number), Matrix::from_fn(n_k, d, &mut number));
    let mut case = Case::new(q, k, Matrix::random(n_k, 9, 1.0, random));
    case.scale = Some(1.0);
    case.add_masks(random);
    case.bias = case.bias.map(|m| Matrix::from_fn(n_q, n_k, |i, j| m.at(i, j).round()));
    case
}

fn row_bits(outcome: &Attended, i: usize) -> (Vec<u32>, Vec<u32>) {
    (bits(outcome.out.row(i)), bits(&outcome.log_sum_exp[i..=i]))
}

fn same_bits(a: &Attended, b: &Attended) -> bool {
    bits(&a.out.data) == bits(&b.out.data) && bits(&a.log_sum_exp) == bits(&b.log_sum_exp)
}

#[test]
fn every_number_of_rows_around_the_tile_sizes() {
    let random = &mut Random(1);
    for n_q in [0, 1, 2, 3, 5, 6, 7, 11, 13] {
        for n_k in [0, 1, 15, 16, 17, 63, 64, 65, 80, 129, 255, 256, 257, 272, 513] {
            for (d_k, d_v) in [(0, 0), (0, 5), (1, 1), (3, 17), (16, 16), (33, 0)] {
                if !cfg!(miri) || (n_q == 7 && n_k == 65) {
                    Case::random(n_q, n_k, d_k, d_v, random).assert_matches_reference();
                }
            }
        }
    }
}

#[test]
fn scores_so_large_that_one_key_takes_all() {
    let mut case = Case::random(5, 340, 8, 6, &mut Random(2));
    let mut alone = 0;
    for scale in [1e3, -1e3, 1e10, 1e30, -1e37] {
        case.scale = Some(scale);
        let (out, reference) = (case.run(), case.reference());
        for i in 0..5 {
            let mut keys: Vec<usize> = (0..340).collect();
            keys.sort_by(|a, b| reference.masked.at(i, *b).total_cmp(&reference.masked.at(i, *a)));
            let lead = reference.masked.at(i, keys[0]) - reference.masked.at(i, keys[1]);
            // Each of the two scores may have the error. e⁻¹⁰⁴ is less than half of the smallest f32, so the other weights are
            // 0 and nothing is rounded.
            if lead > 2.0 * reference.score_error[i] + 104.0 {
                alone += 1;
                assert_eq!(out.out.row(i), case.v.row(keys[0]), "scale {scale}, row {i}");
            }
        }
    }
    assert!(alone >= 20, "only {alone} of 25 rows had one key that takes all");
    case.scale = Some(f32::MIN_POSITIVE);
    case.assert_matches_reference();
}

#[test]
fn a_softcap_bounds_scores_that_overflowed() {
    let mut case = Case::random(4, 40, 8, 6, &mut Random(3));
    case.scale = Some(3e38);
    case.softcap = Some(2.0);
    // Each score is ±2, with the sign of its dot product.
    case.assert_matches_reference();
}

#[test]
fn infinite_scores_follow_the_limit() {
    let mut k = Matrix::filled(100, 1, 1.0);
    k.set(3, 0, INF);
    k.set(90, 0, INF);
    k.set(50, 0, -INF);
    let v = Matrix::from_fn(100, 2, |i, c| (i + 100 * c) as f32);
    let q = Matrix { rows: 2, cols: 1, data: vec![1.0, -1.0] };
    let case = Case::new(q, k, v);
    // Two scores are +∞, and share the weight evenly. For the other query they are −∞, and key 50, whose score is +∞, takes
    // all.
    assert_eq!(
        case.run(),
        Attended {
            out: Matrix { rows: 2, cols: 2, data: vec![46.5, 146.5, 50.0, 150.0] },
            log_sum_exp: vec![INF; 2]
        }
    );
    assert_eq!(case.scores(Stage::Weights).row(0)[90], 0.5);

    let mut hidden = case.clone();
    hidden.allowed = Some(Matrix::from_fn(2, 100, |_, j| ![3, 50, 90].contains(&j)));
    hidden.assert_matches_reference();

    // If every visible score is −∞, the row has no weight.
    let case = Case::new(
        Matrix::filled(1, 1, -1.0),
        Matrix::filled(70, 1, INF),
        Matrix::filled(70, 3, 1.0),
    );
    assert_eq!(case.run(), Attended { out: Matrix::filled(1, 3, 0.0), log_sum_exp: vec![-INF] });
}

#[test]
fn a_row_that_sees_nothing_is_zero() {
    let random = &mut Random(4);
    let mut case = Case::random(10, 90, 7, 20, random);
    let zero = |case: &Case, rows: &[usize]| {
        let (outcome, weights) = (case.run(), case.scores(Stage::Weights));
        for i in 0..10 {
            let nothing = rows.contains(&i);
            assert_eq!(row_bits(&outcome, i).0.iter().all(|b| *b == 0), nothing, "output row {i}");
            assert_eq!(outcome.log_sum_exp[i] == -INF, nothing, "log-sum-exp {i}");
            assert_eq!(bits(weights.row(i)).iter().all(|b| *b == 0), nothing, "weights of row {i}");
        }
        case.assert_matches_reference();
    };
    for temperature in [1.0, 0.25] {
        case.temperature = temperature;
        zero(&case, &[]);
        zero(&Case { causal: Some(Position::Offset(-3)), ..case.clone() }, &[0, 1, 2]);
        zero(&Case { key_len: Some(0), ..case.clone() }, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        zero(&Case { allowed: Some(Matrix::from_fn(10, 90, |i, _| i != 4)), ..case.clone() }, &[4]);
        let bias = Matrix::from_fn(10, 90, |i, _| if i > 7 { -INF } else { 1.0 });
        zero(&Case { bias: Some(bias), ..case.clone() }, &[8, 9]);
        let window = Window { left: Some(2), right: Some(0) };
        zero(&Case { window: Some((Position::Offset(85), window)), ..case.clone() }, &[7, 8, 9]);
    }
    // There are more queries than keys: with bottom-right positions the first queries see no key.
    let mut case = Case::random(10, 6, 7, 20, random);
    case.causal = Some(Position::BottomRight);
    zero(&case, &[0, 1, 2, 3]);
}

#[test]
fn a_query_sees_only_itself_in_a_window_of_nothing() {
    let mut case = Case::random(30, 30, 4, 8, &mut Random(5));
    case.window = Some((Position::TopLeft, Window { left: Some(0), right: Some(0) }));
    assert_eq!(case.run().out.data, case.v.data);
}

#[test]
fn positions_differ_where_numbers_of_queries_and_keys_do() {
    // V numbers the keys, and all scores are equal. So an output is the mean of the keys that are seen.
    let case = |causal| Case {
        causal: Some(causal),
        ..Case::new(
            Matrix::filled(2, 1, 0.0),
            Matrix::filled(5, 1, 0.0),
            Matrix::from_fn(5, 1, |i, _| i as f32),
        )
    };
    assert_eq!(case(Position::TopLeft).run().out.data, [0.0, 0.5]);
    assert_eq!(case(Position::BottomRight).run().out.data, [1.5, 2.0]);
    assert_eq!(case(Position::Offset(1)).run().out.data, [0.5, 1.0]);
    // The last query stands at the last key that is no padding.
    let padded = Case { key_len: Some(3), ..case(Position::BottomRight) };
    assert_eq!(padded.run().out.data, [0.5, 1.0]);
}

/// One case for every kind of mask. Query 5 may not see the key `hidden`, and query 9 may.
fn one_of_each_mask() -> (Vec<(&'static str, Case)>, usize) {
    let case = Case::random(12, 100, 9, 20, &mut Random(6));
    let hidden = 70;
    let only_nine = |i: usize, j: usize| j != hidden || i == 9;
    let cases = vec![
        ("causal", Case { causal: Some(Position::Offset(61)), ..case.clone() }),
        (
            "window",
            Case {
                window: Some((Position::Offset(56), Window { left: None, right: Some(5) })),
                ..case.clone()
            },
        ),
        ("boolean", Case { allowed: Some(Matrix::from_fn(12, 100, only_nine)), ..case.clone() }),
        (
            "additive",
            Case {
                bias: Some(Matrix::from_fn(
                    12,
                    100,
                    |i, j| if only_nine(i, j) { 0.5 } else { -INF },
                )),
                ..case
            },
        ),
    ];
    for (name, case) in &cases {
        assert!(!case.sees(5, hidden) && case.sees(9, hidden), "{name}");
    }
    (cases, hidden)
}

#[test]
fn nan_at_a_hidden_place_does_not_leak_and_at_a_visible_one_shows_in_that_row_only() {
    let (cases, j) = one_of_each_mask();
    for (name, case) in cases {
        for temperature in [1.0, 0.0, INF] {
            let clean = Case { temperature, ..case.clone() };
            let expected = clean.run();
            for bad in [f32::NAN, INF, -INF] {
                // NaN in a value leaves the other columns as they are, whatever its weight.
                let mut broken = clean.clone();
                broken.v.set(j, 17, bad);
                let found = broken.run();
                for i in 0..12 {
                    for c in 0..20 {
                        let x = found.out.at(i, c);
                        if clean.sees(i, j) && c == 17 {
                            assert!(!x.is_finite(), "{name}: value {bad} at [{i}, {c}] gave {x}");
                        } else {
                            let expected = expected.out.at(i, c).to_bits();
                            assert_eq!(x.to_bits(), expected, "{name}: value {bad} at [{i}, {c}]");
                        }
                    }
                }
                assert_eq!(bits(&found.log_sum_exp), bits(&expected.log_sum_exp));
            }
            // NaN in a key makes the whole row NaN.
            let mut broken = clean.clone();
            broken.k.set(j, 8, f32::NAN);
            let (found, weights) = (broken.run(), broken.scores(Stage::Weights));
            for i in 0..12 {
                if clean.sees(i, j) {
                    assert!(found.out.row(i).iter().all(|x| x.is_nan()), "{name}: key, row {i}");
                    assert!(found.log_sum_exp[i].is_nan());
                    assert!(weights.row(i).iter().all(|x| x.is_nan()));
                } else {
                    assert_eq!(row_bits(&found, i), row_bits(&expected, i), "{name}: key, row {i}");
                    assert!(weights.row(i).iter().all(|x| x.is_finite()));
                    assert_eq!(weights.at(i, j), 0.0);
                }
            }
            // NaN in a query changes its own row alone.
            let mut broken = clean.clone();
            broken.q.set(5, 0, f32::NAN);
            let found = broken.run();
            for i in 0..12 {
                if i == 5 {
                    assert!(found.out.row(i).iter().all(|x| x.is_nan()), "{name}: query");
                } else {
                    let (found, expected) = (row_bits(&found, i), row_bits(&expected, i));
                    assert_eq!(found, expected, "{name}: query, row {i}");
                }
            }
        }
    }
}

#[test]
fn nan_in_an_additive_mask_is_hidden_by_the_other_masks() {
    let mut case = Case::random(8, 80, 5, 18, &mut Random(7));
    case.bias = Some(Matrix::random(8, 80, 1.0, &mut Random(8)));
    case.causal = Some(Position::Offset(66));
    case.key_len = Some(72);
    case.allowed = Some(Matrix::from_fn(8, 80, |i, j| (i + j) % 3 != 0));
    let expected = case.run();
    let mut broken = case.clone();
    let seen = Matrix::from_fn(8, 80, |i, j| case.sees(i, j));
    let bias = case.bias.as_ref().unwrap();
    broken.bias =
        Some(Matrix::from_fn(8, 80, |i, j| if seen.at(i, j) { bias.at(i, j) } else { f32::NAN }));
    assert!(same_bits(&broken.run(), &expected));
    let at = (0..80).find(|j| seen.at(3, *j)).unwrap();
    broken.bias.as_mut().unwrap().set(3, at, f32::NAN);
    let found = broken.run();
    for i in 0..8 {
        if i == 3 {
            assert!(found.out.row(i).iter().all(|x| x.is_nan()));
        } else {
            assert_eq!(row_bits(&found, i), row_bits(&expected, i));
        }
    }
}

#[test]
fn nothing_but_minus_infinity_to_see_gives_each_value_the_weight_0() {
    // A few keys, which fit in registers: alone, and with a query that must not see one of them.
    let one = |rows: usize, x: f32| Matrix::filled(rows, 1, x);
    for columns in [1, 16, 17] {
        for (rows, value) in [(1, 3.0), (2, 3.0), (1, INF), (2, INF)] {
            let v = Matrix::filled(2, columns, value);
            let mut case = Case::new(one(rows, 1.0), one(2, -INF), v);
            case.causal = (rows == 2).then_some(Position::TopLeft);
            let expected = 0.0 * value; // NaN if the value is infinite
            let out = case.run().out;
            let last = out.row(rows - 1).iter().map(|x| x.to_bits());
            let is_equal = |x: u32| {
                x == 0 && expected == 0.0 || f32::from_bits(x).is_nan() && expected.is_nan()
            };
            assert!(last.into_iter().all(is_equal), "{rows} queries, {columns} columns of {value}");
        }
    }
}

#[test]
fn finite_values_have_a_finite_mean_up_to_the_stated_size() {
    // (keys, the score of every key from the second tile on). With score 0 all weights are 1. With 2.77 the scores of the
    // second tile are nearly 4, in units of log₂, above the reference, so its weights are nearly 2⁴.
    for (n_k, later) in [(2, 0.0), (17, 0.0), (512, 2.77), (5000, 2.77)] {
        let (q, k) = (
            Matrix::filled(3, 1, 1.0),
            Matrix::from_fn(n_k, 1, |j, _| if j < 256 { 0.0 } else { later }),
        );
        let largest = 2_f32.powi(123) / n_k as f32;
        for d_v in [1, 16, 17] {
            for value in [largest, -largest] {
                let mut case = Case::new(q.clone(), k.clone(), Matrix::filled(n_k, d_v, value));
                case.scale = Some(1.0);
                case.run().out.data.iter().for_each(|x| {
                    // There are at most 32 chains of at most 256 multiply-adds.
                    assert_close(*x, f64::from(value), f64::from(largest) * gamma(300), "mean");
                });
            }
        }
    }
    // For larger values the sum overflows, although the mean is 3e38.
    let mut case =
        Case::new(Matrix::filled(1, 1, 0.0), Matrix::filled(2, 1, 0.0), Matrix::filled(2, 1, 3e38));
    assert_eq!(case.run().out.data, [f32::INFINITY]);
    case.v = Matrix::filled(2, 1, 1.7e38);
    assert_eq!(case.run().out.data, [1.7e38]);
}

#[test]
fn an_output_is_never_minus_zero() {
    // A negative product that underflows gives −0. The result must be the same whether a hidden tile is added or skipped.
    let k = Matrix { rows: 2, cols: 1, data: vec![0.0, 20.0] };
    let v = Matrix { rows: 2, cols: 1, data: vec![-1e-45, -0.0] };
    assert_eq!(Case::new(Matrix::filled(1, 1, 1.0), k, v).run().out.bits(), [0]);
}

#[test]
fn the_default_scale_is_that_of_the_paper_and_temperature_scales_like_it() {
    let case = Case::random(6, 90, 16, 8, &mut Random(9));
    // A power of two changes no mantissa, so halving the scale and the temperature leaves the result the same to the last bit.
    for (scale, temperature) in [(0.25, 1.0), (0.125, 0.5)] {
        let explicit = Case { scale: Some(scale), temperature, ..case.clone() };
        assert!(same_bits(&case.run(), &explicit.run()), "{scale}, {temperature}; 1/√16");
    }
    assert_eq!(Temperature::default().get(), 1.0);
}

#[test]
fn what_is_in_the_scratch_memory_does_not_matter() {
    for seed in 0..if cfg!(miri) { 2 } else { 30 } {
        let case = any_case(seed);
        let expected = case.run();
        for garbage in [0.0, 1.0, -INF, INF] {
            let mut out = Matrix::filled(case.q.rows, case.v.cols, garbage);
            let mut log_sum_exp = vec![garbage; case.q.rows];
            let needed = attention_scratch_len(case.q.rows, case.k.rows, case.q.cols, case.v.cols);
            let mut scratch = vec![garbage; needed + 10];
            let (q, k, v) = (case.q.view(), case.k.view(), case.v.view());
            let attention = case.attention();
            attention
                .forward_with_log_sum_exp(q, k, v, out.view_mut(), &mut log_sum_exp, &mut scratch)
                .unwrap();
            assert!(same_bits(&Attended { out, log_sum_exp }, &expected), "seed {seed}, {garbage}");
            assert!(
                scratch[needed..].iter().all(|x| *x == garbage),
                "writes after the end of what it asked for"
            );
        }
    }
}

#[test]
fn the_naive_loops_agree() {
    let mut case = Case::random(40, 40, 24, 12, &mut Random(13));
    for causal in [false, true] {
        case.causal = causal.then_some(Position::TopLeft);
        let mut out = Matrix::filled(40, 12, f32::NAN);
        naive::attention(
            case.q.view(),
            case.k.view(),
            case.v.view(),
            out.view_mut(),
            |i| if causal { i + 1 } else { 40 },
            &mut [0.0; 40],
        );
        let (found, reference) = (case.run(), case.reference());
        for i in 0..40 {
            // Both are within the bound of `assert_outcome_matches_reference` from the same exact result.
            let tolerance = 2.0 * case.output_error(&reference, i);
            for c in 0..12 {
                assert_close(out.at(i, c), f64::from(found.out.at(i, c)), tolerance, "output");
            }
        }
    }
}

#[test]
fn the_scratch_length_is_what_its_formula_says() {
    assert_eq!(attention_scratch_len(3, 3, 4, 4), 3 * 32 + 16 * 4 + 3 * 16 + 6 + 15);
    assert_eq!(attention_scratch_len(10, 1000, 64, 64), 10 * 272 + 256 * 64 + 20 + 15);
    assert_eq!(attention_scratch_len(100, 1000, 64, 65), 36 * 272 + 256 * 64 + 256 * 80 + 200 + 15);
    assert_eq!(attention_scratch_len(0, 0, 0, 0), 15);
    assert_eq!(attention_scratch_len(usize::MAX, 1, 1, 1), usize::MAX); // it saturates
}

#[test]
fn the_limits_of_temperature() {
    for seed in 0..if cfg!(miri) { 2 } else { 100 } {
        for t in [0.0, 1e-45, INF] {
            let case = Case { temperature: t, ..whole_numbers(seed) };
            let (found, reference) = (case.run(), case.reference());
            for i in 0..case.q.rows {
                // The weights before the division are 1 and 0, so only the sums of values are rounded.
                let tolerance = gamma(case.k.rows + 3) * case.largest_value(i) * 1.5;
                let what = format_args!("seed {seed}, T = {t}");
                for c in 0..9 {
                    assert_close(found.out.at(i, c), reference.out.at(i, c), tolerance, what);
                }
                // The sum of ones is exact, and the logarithm within 1 ULP, 2u of its size.
                let lse = reference.log_sum_exp[i];
                let tolerance = if lse.is_finite() { 2.0 * common::U * lse.abs() } else { 0.0 };
                assert_close(found.log_sum_exp[i], lse, tolerance, what);
            }
            let weights = case.scores(Stage::Weights);
            for (found, exact) in weights.data.iter().zip(reference.weights.data) {
                // 1/n is rounded; its product with 1 is not.
                assert_close(*found, exact, gamma(1) * exact, "weight");
            }
        }
    }
}

proptest! {
    #[test]
    fn any_attention_is_the_references(seed: u64) {
        any_case(seed).assert_matches_reference();
    }

    #[test]
    fn every_stage_of_the_scores_is_the_references(seed: u64) {
        let case = any_case(seed);
        let reference = case.reference();
        let size = |i, j| common::dot(case.q.row(i), case.k.row(j)).1;
        let sizes = Matrix::from_fn(case.q.rows, case.k.rows, size);
        let stages = [
            (Stage::Raw, &reference.raw),
            (Stage::Softcapped, &reference.softcapped),
            (Stage::Masked, &reference.masked),
            (Stage::Weights, &reference.weights),
        ];
        for (stage, expected) in stages {
            let found = case.scores(stage);
            for i in 0..case.q.rows {
                let scale = case.scale.map_or(1.0, f64::from).abs();
                let (t, max) = (f64::from(case.temperature), case.largest_score(&reference, i));
                let weight_error = 2.0 * case.weight_error(&reference, i);
                for j in 0..case.k.rows {
                    let tolerance = if stage == Stage::Weights {
                        let spread = ((max - reference.masked.at(i, j)) / t).min(104.0);
                        let own = if spread.is_finite() { 4.0 * common::U * spread } else { 0.0 };
                        // A subnormal weight may become 0.
                        expected.at(i, j) * (weight_error + own) + f64::from(f32::MIN_POSITIVE)
                    } else {
                        // As in `Reference::score_error`, for this score; 1e-44 for a step of the subnormal numbers.
                        let size = sizes.at(i, j) * scale;
                        let linear = gamma(3) * case.linear_bias(i, j).abs();
                        gamma(case.q.cols + 12) * size + linear + gamma(3) * expected.at(i, j).abs() + 1e-44
                    };
                    assert_close(found.at(i, j), expected.at(i, j), tolerance, format_args!("{stage:?} [{i}, {j}]"));
                }
            }
        }
    }

    #[test]
    fn weights_are_distributions(seed: u64) {
        let case = any_case(seed);
        let (weights, reference) = (case.scores(Stage::Weights), case.reference());
        for i in 0..case.q.rows {
            let sum: f64 = weights.row(i).iter().map(|x| f64::from(*x)).sum();
            // With a sink the weights of the keys add up to less than 1.
            let expected: f64 = reference.weights.row(i).iter().sum();
            let tolerance = gamma(case.k.rows + 1)
                + if case.sink.is_some() { 3.0 * case.weight_error(&reference, i) } else { 0.0 };
            prop_assert!((sum - expected).abs() <= tolerance, "row {} sums to {}", i, sum);
            for j in 0..case.k.rows {
                prop_assert!(case.sees(i, j) || weights.at(i, j).to_bits() == 0);
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_alone_as_among_others(seed: u64) {
        let case = any_case(seed);
        let n_q = case.q.rows;
        if n_q > 0 {
            let whole = case.run();
            let random = &mut Random(seed);
            let first = random.below(n_q);
            for rows in [1, 1 + random.below(n_q - first)] {
                let part = case.run_rows(first, rows);
                for i in 0..rows {
                    prop_assert_eq!(row_bits(&part, i), row_bits(&whole, first + i));
                }
            }
        }
    }

    /// The same rows with NaN and infinities at random places, where the kernels leave their fast path.
    #[test]
    fn a_row_with_bad_numbers_has_the_same_bits_alone_as_among_others(seed: u64) {
        let mut case = any_case(seed);
        let random = &mut Random(seed);
        for _ in 0..random.below(4) {
            let bad = [f32::NAN, INF, -INF][random.below(3)];
            let matrix = if random.chance(70) { &mut case.v } else { &mut case.k };
            if !matrix.data.is_empty() {
                let at = random.below(matrix.data.len());
                matrix.data[at] = bad;
            }
        }
        let (whole, masked) = (case.run(), case.scores(Stage::Masked));
        for i in 0..case.q.rows {
            prop_assert_eq!(row_bits(&case.run_rows(i, 1), 0), row_bits(&whole, i));
            let seen = case.seen(i);
            let bad_key = seen.iter().any(|j| case.k.row(*j).iter().any(|x| !x.is_finite()));
            let none = masked.row(i).iter().all(|score| *score == -INF);
            for (c, out) in whole.out.row(i).iter().enumerate() {
                let values = || seen.iter().map(|j| case.v.at(*j, c));
                let bad_value = values().any(|x| !x.is_finite());
                prop_assert!(bad_key || bad_value || out.is_finite(), "[{}, {}] is {}", i, c, out);
                // A row whose scores are all −∞ gives no weight to a value, not even to NaN.
                prop_assert!(none || out.is_nan() || !values().any(f32::is_nan));
            }
        }
    }
}
