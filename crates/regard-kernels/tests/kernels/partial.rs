//! Parts of the keys, computed separately and merged; and attention sinks.

use crate::common::{self, Attended, Case, Matrix, Random, bits};
use proptest::prelude::*;
use regard_kernels::{CHUNK_KEYS, Mask, Mat, MatMut, Partial, Position, Stage, merge_finished};

/// The result of parts of the keys. A part begins at 0 and at each of `starts`.
fn by_parts(case: &Case, starts: &[usize]) -> Attended {
    let (n_q, d_v) = (case.q.rows, case.v.cols);
    let ends: Vec<usize> = starts.iter().copied().chain([case.k.rows]).collect();
    let compute = |part: &mut Partial<'_>, start: usize, end: usize| {
        let attention = case.attention().mask(case.mask().keys(start, end));
        attention
            .forward_partial(case.q.view(), case.k.view(), case.v.view(), part, &mut case.scratch())
            .unwrap();
    };
    let (mut out, mut state) = (Matrix::filled(n_q, d_v, f32::NAN), vec![f32::NAN; 2 * n_q]);
    let mut log_sum_exp = vec![f32::NAN; n_q];
    let mut sum = case.attention().partial(case.q.cols, out.view_mut(), &mut state).unwrap();
    compute(&mut sum, 0, ends[0]);
    for ends in ends.windows(2) {
        let (mut out, mut state) = (Matrix::filled(n_q, d_v, f32::NAN), vec![f32::NAN; 2 * n_q]);
        let mut part = case.attention().partial(case.q.cols, out.view_mut(), &mut state).unwrap();
        compute(&mut part, ends[0], ends[1]);
        sum.merge(&part).unwrap();
    }
    sum.finish(Some(&mut log_sum_exp)).unwrap();
    Attended { out, log_sum_exp }
}

/// Four queries on 10,000 keys.
fn long(seed: u64) -> Case {
    let mut case = Case::random(4, 10_000, 8, 5, &mut Random(seed));
    case.causal = Some(Position::Offset(9_997));
    case
}

#[test]
#[cfg_attr(miri, ignore = "minutes")]
fn ten_thousand_keys_split_at_random_places_merge_to_the_whole() {
    for seed in 0..8 {
        let random = &mut Random(seed);
        let mut case = long(seed);
        case.sink = (seed % 2 == 0).then_some(1.5);
        case.temperature = [1.0, 0.05, 30.0][random.below(3)];
        let mut starts: Vec<usize> = (0..=random.below(12)).map(|_| random.below(10_001)).collect();
        starts.sort_unstable();
        let parts = by_parts(&case, &starts);
        case.assert_outcome_matches_reference(&parts);
        case.assert_matches_reference();
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes")]
fn chunks_merged_in_order_have_the_bits_of_the_whole() {
    let starts: Vec<usize> = (CHUNK_KEYS..10_000).step_by(CHUNK_KEYS).collect();
    for (temperature, sink) in
        [(1.0, None), (0.0, None), (f32::INFINITY, None), (0.3, Some(2.0)), (0.0, Some(-1.0))]
    {
        let mut case = long(3);
        (case.temperature, case.sink) = (temperature, sink);
        let (whole, parts) = (case.run(), by_parts(&case, &starts));
        assert_eq!(bits(&whole.out.data), bits(&parts.out.data), "T = {temperature}");
        assert_eq!(bits(&whole.log_sum_exp), bits(&parts.log_sum_exp), "T = {temperature}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes")]
fn a_row_of_many_keys_has_the_same_bits_alone() {
    let case = long(4);
    let whole = case.run();
    for i in 0..4 {
        assert_eq!(bits(&case.run_rows(i, 1).out.data), bits(whole.out.row(i)));
    }
}

#[test]
#[cfg_attr(miri, ignore = "minutes")]
fn at_temperature_zero_ties_in_different_chunks_share() {
    let n_k = CHUNK_KEYS + 10;
    let k = Matrix::from_fn(n_k, 1, |j, _| {
        if [5, CHUNK_KEYS + 1, CHUNK_KEYS + 2].contains(&j) { 7.0 } else { 1.0 }
    });
    let v = Matrix::from_fn(n_k, 1, |j, _| j as f32);
    let mut case = Case::new(Matrix::filled(1, 1, 1.0), k, v);
    case.temperature = 0.0;
    // Integers below 2²⁴ are added exactly; only 1/3 and the product with it are rounded.
    let exact = (5.0 + 2.0 * CHUNK_KEYS as f64 + 3.0) / 3.0;
    common::assert_close(case.run().out.data[0], exact, common::gamma(2) * exact, "output");
}

proptest! {
    #[test]
    fn parts_of_any_size_and_parts_without_keys(
        seed: u64,
        (n_q, n_k) in (0..9_usize, 0..60_usize),
        mut starts in prop::collection::vec(0..61_usize, 0..5),
    ) {
        let random = &mut Random(seed);
        let mut case = Case::random(n_q, n_k, random.below(6), random.below(6), random);
        case.allowed = Some(Matrix::from_fn(n_q, n_k, |_, _| random.chance(60)));
        case.sink = random.chance(30).then(|| random.within(4.0));
        case.alibi = random.chance(30).then_some((Position::BottomRight, 0.25));
        for start in &mut starts {
            *start = (*start).min(n_k);
        }
        starts.sort_unstable();
        case.assert_outcome_matches_reference(&by_parts(&case, &starts));
    }
}

#[test]
fn finished_results_merge_by_their_log_sum_exp() {
    let mut out = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]];
    let mut log_sum_exp = [0.0, f32::NEG_INFINITY, 100.0];
    let other = [[3.0, 6.0], [7.0, 8.0], [9.0, 9.0]];
    let sums = [0.0, -3.0, f32::NEG_INFINITY];
    merge_finished(MatMut::from(&mut out), &mut log_sum_exp, Mat::from(&other), &sums).unwrap();
    assert_eq!(out, [[2.0, 4.0], [7.0, 8.0], [5.0, 6.0]], "what saw nothing changes nothing");
    assert_eq!(log_sum_exp, [2.0_f32.ln(), -3.0, 100.0]);
}

#[test]
fn a_sink_takes_weight_and_gives_no_value() {
    let mut case = Case::random(3, 20, 4, 2, &mut Random(5));
    let without = case.run();
    case.sink = Some(f32::NEG_INFINITY);
    // A sink without weight changes nothing.
    assert_eq!(bits(&case.run().out.data), bits(&without.out.data));
    // All keys are hidden, so the sink has all weight.
    case.sink = Some(0.5);
    case.allowed = Some(Matrix::from_fn(3, 20, |_, _| false));
    let alone = case.run();
    assert_eq!((alone.out.data, alone.log_sum_exp), (vec![0.0; 6], vec![0.5; 3]));
    assert_eq!(case.scores(Stage::Weights).data, [0.0; 60]);
    // At T = 0 the larger score takes all weight.
    (case.allowed, case.temperature) = (None, 0.0);
    case.sink = Some(1e6);
    assert_eq!(case.run().out.data, [0.0; 6]);
    assert_eq!(case.scores(Stage::Weights).data, [0.0; 60]);
    case.sink = Some(-1e6);
    assert_eq!(case.run().out.data, Case { sink: None, ..case.clone() }.run().out.data);
}

/// If a key has a score of −∞ and a value that is not finite, the value shows in its column of every row that sees the key,
/// whatever the other keys are and however the keys are divided. It shows nowhere else. The weight of such a key is 0.
#[test]
#[cfg_attr(miri, ignore = "minutes")]
fn a_visible_nan_shows_although_its_score_is_minus_infinity() {
    let chunk = CHUNK_KEYS;
    for (n_k, infinite, place, d_v) in [
        (1, 1, 0, 8), // in registers, which hold 16 columns
        (2, 2, 1, 16),
        (9, 9, 4, 16),
        (9, 5, 4, 16),
        (9, 9, 4, 20),       // in one tile
        (300, 300, 299, 20), // in two tiles
        (300, 256, 3, 20),
        (5000, 5000, 17, 20), // in two chunks
        (5000, chunk, 17, 20),
        (9000, chunk + 300, chunk + 299, 20), // the first chunk has no weight at all
    ] {
        for (n_q, sink) in
            [(1, None), (1, Some(0.5)), (7, None), (40, Some(-f32::INFINITY)), (40, None)]
        {
            // One of the cases of several chunks has several blocks of queries.
            let n_q = if n_k > chunk && infinite != chunk { n_q.min(12) } else { n_q };
            let score = |j: usize| if j < infinite { -f32::INFINITY } else { 0.5 };
            let q = Matrix::from_fn(n_q, 2, |_, c| [1.0, 0.25][c]);
            let k = Matrix::from_fn(n_k, 2, |j, c| [score(j), 1.0][c]);
            let mut case = Case { sink, ..Case::new(q, k, Matrix::filled(n_k, d_v, 1.0)) };
            for (value, t) in [(f32::NAN, 1.0), (f32::INFINITY, 1.0), (f32::NAN, 0.0), (1.0, 1.0)] {
                case.v.set(place, 7, value);
                case.temperature = t;
                let what = format!(
                    "{n_q} × {n_k} keys, {infinite} infinite, {value} at {place}, sink {sink:?}"
                );
                let check = |out: &Matrix| {
                    for row in out.data.chunks(d_v) {
                        assert_eq!(row[7].is_nan(), !value.is_finite(), "{what}: {row:?}");
                        let mut others = row.iter().enumerate().filter(|(j, _)| *j != 7);
                        let is_right =
                            |x: &f32| x.is_finite() && (infinite < n_k || x.to_bits() == 0);
                        assert!(others.all(|(_, x)| is_right(x)), "{what}: {row:?}");
                    }
                };
                check(&case.run().out);
                // The same keys in parts, merged before and after they are finished. Some parts see no key.
                for split in [0, 1, n_k / 2, infinite, n_k] {
                    check(&by_parts(&case, &[split]).out);
                    if sink.is_none() {
                        let part = |start, end| case.run_masked(Mask::NONE.keys(start, end));
                        let (mut sum, other) = (part(0, split), part(split, n_k));
                        let Attended { out, log_sum_exp } = &mut sum;
                        let (view, sums) = (other.out.view(), &other.log_sum_exp);
                        merge_finished(out.view_mut(), log_sum_exp, view, sums).unwrap();
                        check(&sum.out);
                    }
                }
            }
        }
    }
}
