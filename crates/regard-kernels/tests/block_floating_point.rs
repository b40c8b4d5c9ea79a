//! Attention in block floating point: against attention in `f64`, within the documented bound; its rules for masks, limits and
//! numbers that are not finite; and its bits.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use core::f64::consts::TAU;
use core::fmt::Write as _;

use common::{Case, Matrix, Random, SHAPES, U};
use proptest::prelude::*;
use regard_kernels::block_floating_point::{Attention, attention_bytes, attention_scratch_len};
use regard_kernels::int8::default_scale;
use regard_kernels::{Error, Mask, Mat, MatMut, Position, Temperature, Window, fixed};

fn attention(case: &Case) -> Attention<'_> {
    let scale = case.scale.unwrap_or_else(|| default_scale(case.q.cols));
    let temperature = Temperature::new(case.temperature).unwrap();
    Attention::new(scale, temperature).unwrap().mask(case.mask())
}

fn scratch(case: &Case) -> Vec<i32> {
    let len = attention_scratch_len(case.q.rows, case.k.rows, case.q.cols, case.v.cols);
    vec![0x5555_5555; len]
}

fn run(case: &Case) -> Matrix {
    let mut out = Matrix::filled(case.q.rows, case.v.cols, f32::NAN);
    attention(case)
        .forward(case.q.view(), case.k.view(), case.v.view(), out.view_mut(), &mut scratch(case))
        .unwrap();
    out
}

fn largest(x: &[f32]) -> f64 {
    x.iter().fold(0.0, |largest, x| f64::max(largest, f64::from(x.abs())))
}

/// How far an output of row i may be off, as the documentation derives it, for any number of columns and keys.
fn bound(case: &Case, i: usize) -> f64 {
    let seen = case.mask().seen(case.q.rows, case.k.rows);
    let of = |m: &Matrix| largest(&m.data[seen.start * m.cols..seen.end * m.cols]);
    let (d, t) = (case.q.cols as f64, f64::from(case.temperature));
    let scale = f64::from(case.scale.unwrap_or_else(|| default_scale(case.q.cols)));
    let a = d * largest(case.q.row(i)) * of(&case.k) * scale / t;
    // Rounded mantissas, the shifts of the score's pairs, and the rounding of the scale.
    let score = a * (2_f64.powi(-14) * (1.0 + 2_f64.powi(-16) + d * 2_f64.powi(-15)) + 2.0 * U);
    let weight = score.exp() * (1.0 + 2_f64.powi(-15)) - 1.0;
    let moved = if weight < 0.5 { 2.0 * weight / (1.0 - weight) } else { 2.0 };
    let sums = case.k.rows as f64 * 2_f64.powi(-28);
    of(&case.v) * (moved.min(2.0) + 2_f64.powi(-15) + sums + 4.0 * U)
}

fn assert_near_reference(case: &Case) {
    let (found, reference) = (run(case), case.reference());
    for i in 0..case.q.rows {
        let tolerance = bound(case, i);
        for c in 0..case.v.cols {
            let what = format!("output [{i}, {c}] of {case:?}");
            common::assert_close(found.at(i, c), reference.out.at(i, c), tolerance, &what);
        }
    }
}

#[test]
fn every_shape_is_near_the_reference() {
    let random = &mut Random(11);
    let more = [(9, 257, 7, 18), (1, 5000, 3, 2), (4, 9, 1024, 1), (7, 4096, 2, 3)];
    for (n_q, n_k, d_k, d_v) in SHAPES.into_iter().chain(more) {
        let case = Case::random(n_q, n_k, d_k, d_v, random);
        // From all weights alike to all on one key.
        for scale in [None, Some(0.0), Some(1e-30), Some(1e-3), Some(3.0), Some(1e6)] {
            assert_near_reference(&Case { scale, ..case.clone() });
        }
    }
}

/// The largest mantissas of one sign, in as many columns and keys as there may be.
#[test]
#[cfg_attr(miri, ignore = "minutes")]
fn the_farthest_numbers_do_not_overflow() {
    let most = 2_f32.next_down();
    for (n_k, d_k) in [(3, 1 << 15), (1 << 15, 1), (1030, 7)] {
        for (q, k, v) in [(most, most, most), (most, -most, -most), (-most, -most, most)] {
            let k = Matrix::from_fn(n_k, d_k, |j, _| if j == 1 { -k } else { k });
            let v = Matrix::from_fn(n_k, 2, |_, c| if c == 0 { v } else { -v });
            let case = Case::new(Matrix::filled(1, d_k, q), k, v);
            for scale in [0.0, 1e-9, 1.0] {
                assert_near_reference(&Case { scale: Some(scale), ..case.clone() });
            }
        }
    }
}

#[test]
fn numbers_of_all_sizes_have_their_exponent() {
    let random = &mut Random(12);
    let case = Case::random(5, 9, 6, 3, random);
    let times =
        |m: &Matrix, factor: f32| Matrix::from_fn(m.rows, m.cols, |i, j| m.at(i, j) * factor);
    let expected = run(&case);
    for power in [-60, -40, -1, 1, 50, 126] {
        let factor = 2_f32.powi(power);
        // Powers of two change exponents alone.
        let v = times(&case.v, factor);
        assert_eq!(
            run(&Case { v, ..case.clone() }),
            times(&expected, factor),
            "values · 2^{power}"
        );
        let (q, scale) = (times(&case.q, factor), default_scale(6) / factor);
        if scale.is_normal() {
            assert_eq!(run(&Case { q, scale: Some(scale), ..case.clone() }), expected);
        }
    }
    // Below 2⁻⁶³ numbers are multiples of 2⁻⁷⁷, and subnormal ones are 0.
    let tiny = run(&Case { v: times(&case.v, 1e-24), ..case.clone() });
    for (found, expected) in tiny.data.iter().zip(&expected.data) {
        assert!((found - expected * 1e-24).abs() <= 2_f32.powi(-77), "{found}");
    }
    let subnormal = Matrix::filled(9, 3, 1e-40);
    assert_eq!(run(&Case { v: subnormal, ..case.clone() }), Matrix::filled(5, 3, 0.0));
    let zeros = Case { q: Matrix::filled(5, 6, -0.0), ..case };
    assert_near_reference(&zeros);
}

#[test]
fn temperatures_at_their_limits() {
    let random = &mut Random(13);
    let mut case = Case::random(5, 9, 4, 3, random);
    for row in 0..5 {
        let tied = case.k.row(3).to_vec();
        tied.iter().enumerate().for_each(|(c, x)| case.k.set(row + 4, c, *x)); // four keys alike
    }
    for temperature in [0.0, 1e-40, 0.5, 3.0, 1e30, f32::INFINITY] {
        case.temperature = temperature;
        let (found, reference) = (run(&case), case.reference());
        for (i, (found, expected)) in found.data.iter().zip(&reference.out.data).enumerate() {
            // Of the limit T = 0, whose largest scores are far from the next, only rounded values remain.
            let limit = temperature < f32::MIN_POSITIVE;
            let tolerance = if limit { 3.0 * 2_f64.powi(-14) } else { bound(&case, i / 3) };
            common::assert_close(*found, *expected, tolerance, &format!("T = {temperature}"));
        }
    }
}

#[test]
fn numbers_that_are_not_finite_are_named_and_nothing_is_written() {
    for x in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        for (at, name) in ["query", "key", "value"].into_iter().enumerate() {
            let mut case = Case::random(5, 7, 3, 2, &mut Random(14));
            [&mut case.q, &mut case.k, &mut case.v][at].set(4, 1, x);
            let mut out = Matrix::filled(5, 2, 7.0);
            let mut call = |case: &Case| {
                let (q, k, v) = (case.q.view(), case.k.view(), case.v.view());
                attention(case).forward(q, k, v, out.view_mut(), &mut scratch(case))
            };
            let error = call(&case).unwrap_err().to_string();
            let magnitude = x.abs();
            assert_eq!(error, format!("a number of {name} is {magnitude}, but must be finite"));
            // Padding may hold anything.
            case.key_len = Some(4);
            assert_eq!(call(&case).is_ok(), name != "query");
            assert!(name == "query" || out.data.iter().all(|x| x.is_finite() && *x != 7.0));
        }
    }
}

#[test]
fn bad_calls_are_refused() {
    let case = Case::random(5, 7, 3, 2, &mut Random(15));
    let bias = Matrix::filled(5, 7, 0.0);
    let call = |attention: Attention<'_>, scratch: &mut [i32]| {
        let mut out = Matrix::filled(5, 2, 7.0);
        let (q, k, v) = (case.q.view(), case.k.view(), case.v.view());
        let error = attention.forward(q, k, v, out.view_mut(), scratch).unwrap_err();
        assert!(out.data.iter().all(|x| *x == 7.0));
        error.to_string()
    };
    let masked = |mask| attention(&case).mask(mask);
    assert_eq!(
        call(masked(Mask::NONE.bias(bias.view())), &mut scratch(&case)),
        "an additive mask is not computed on block floating point"
    );
    assert!(call(masked(Mask::NONE.key_len(8)), &mut scratch(&case)).contains("key has 7"));
    let few = &mut scratch(&case)[1..];
    let needed = few.len() + 1;
    assert_eq!(
        call(attention(&case), few),
        format!("the scratch memory has {} elements, but {needed} are needed", needed - 1)
    );
    for (n_k, d_k) in [(32769, 1), (1, 32769)] {
        let (q, k, v) = (vec![0.0; d_k], vec![0.0; n_k * d_k], vec![0.0; n_k]);
        let (q, k) = (Mat::new(&q, 1, d_k).unwrap(), Mat::new(&k, n_k, d_k).unwrap());
        let (v, mut out) = (Mat::new(&v, n_k, 1).unwrap(), [[7.0]]);
        let scratch = &mut vec![0; attention_scratch_len(1, n_k, d_k, 1)];
        let attention = Attention::new(1.0, Temperature::ONE).unwrap();
        let error = attention.forward(q, k, v, MatMut::from(&mut out), scratch).unwrap_err();
        assert!(matches!(error, Error::Range { value: 32769.0, .. }), "{error}");
    }
    assert!(Attention::new(f32::NAN, Temperature::ONE).is_err());
    assert!(Attention::new(f32::INFINITY, Temperature::ONE).is_err());
}

#[test]
fn the_memory_of_astronomical_shapes_is_not_an_overflow() {
    assert_eq!(attention_scratch_len(4, usize::MAX, 1, 1), usize::MAX);
    assert_eq!(attention_scratch_len(1, 1, 1, usize::MAX), usize::MAX);
    assert_eq!(attention_bytes(1, 1, usize::MAX, 1), usize::MAX);
    // Four rows of 64 weights and of 32 sums, and a row of 32 numbers; the tensors are 64 × 32 each.
    assert_eq!(attention_bytes(64, 64, 32, 30), 4 * (64 * (32 + 32 + 30 + 30) + 4 * 96 + 32));
}

/// A mask of each kind or none, by chance.
fn with_masks(mut case: Case, random: &mut Random) -> Case {
    let (n_q, n_k) = (case.q.rows, case.k.rows);
    let mut position = || match random.below(3) {
        0 => Position::TopLeft,
        1 => Position::BottomRight,
        _ => Position::Offset(random.below(n_k + 3) as isize - 2),
    };
    let (causal, at) = (position(), position());
    case.causal = random.chance(50).then_some(causal);
    case.window = random.chance(40).then(|| {
        let [left, right] = [(); 2].map(|()| random.chance(70).then(|| random.below(9)));
        (at, Window { left, right })
    });
    case.key_len = random.chance(40).then(|| random.below(n_k + 1));
    case.allowed = random.chance(40).then(|| Matrix::from_fn(n_q, n_k, |_, _| random.chance(60)));
    case
}

fn random_case(random: &mut Random) -> Case {
    let [n_q, n_k, d_k, d_v] = [13, 40, 20, 20].map(|n| 1 + random.below(n));
    let case = Case::random(n_q, n_k, d_k, d_v, random);
    let scale = Some(default_scale(d_k) * 3_f32.powi(random.below(5) as i32 - 2));
    with_masks(Case { scale, ..case }, random)
}

proptest! {
    #[test]
    fn masked_attention_is_near_the_reference(seed: u64) {
        assert_near_reference(&random_case(&mut Random(seed)));
    }

    #[test]
    fn keys_that_no_query_sees_and_gaps_between_rows_do_not_matter(seed: u64) {
        let random = &mut Random(seed);
        let case = random_case(random);
        let seen = case.mask().seen(case.q.rows, case.k.rows);
        let strided = |m: &Matrix, known: &dyn Fn(usize) -> bool| -> Vec<f32> {
            let stride = m.cols + 3;
            let len = (m.rows - 1) * stride + m.cols;
            let at = |i: usize| if i % stride < m.cols && known(i / stride) { m.at(i / stride, i % stride) } else { f32::NAN };
            (0..len).map(at).collect()
        };
        let (q, k, v) = (&case.q, &case.k, &case.v);
        let (queries, keys, values) =
            (strided(q, &|_| true), strided(k, &|j| seen.contains(&j)), strided(v, &|j| seen.contains(&j)));
        let mut out = vec![7.0; (q.rows - 1) * (v.cols + 3) + v.cols];
        attention(&case).forward(
            Mat::strided(&queries, q.rows, q.cols, q.cols + 3).unwrap(),
            Mat::strided(&keys, k.rows, k.cols, k.cols + 3).unwrap(),
            Mat::strided(&values, v.rows, v.cols, v.cols + 3).unwrap(),
            MatMut::strided(&mut out, q.rows, v.cols, v.cols + 3).unwrap(),
            &mut scratch(&case),
        ).unwrap();
        let expected = run(&case);
        for (i, x) in out.iter().enumerate() {
            let (row, col) = (i / (v.cols + 3), i % (v.cols + 3));
            prop_assert_eq!(*x, if col < v.cols { expected.at(row, col) } else { 7.0 });
        }
    }

    #[test]
    fn a_row_is_the_same_beside_any_others(seed: u64) {
        let random = &mut Random(seed);
        let [n_q, n_k] = [12, 40].map(|n| 1 + random.below(n));
        let case = Case::random(n_q, n_k, 9, 17, random);
        let whole = run(&case);
        let rows: Vec<usize> = (0..=random.below(9)).map(|_| random.below(n_q)).collect();
        let part = run(&Case { q: case.q.pick(&rows), ..case });
        prop_assert_eq!(part, whole.pick(&rows));
    }
}

fn check_fixed<const N_Q: usize, const N_K: usize, const D: usize, const SCRATCH: usize>() {
    fn array<const R: usize, const C: usize>(m: &Matrix) -> [[f32; C]; R] {
        core::array::from_fn(|i| m.row(i).try_into().unwrap())
    }
    let case = Case::random(N_Q, N_K, D, D, &mut Random(5));
    let (q, k, v) = (array::<N_Q, D>(&case.q), array::<N_K, D>(&case.k), array::<N_K, D>(&case.v));
    let (mut out, scratch) = ([[7.0; D]; N_Q], &mut [-1; SCRATCH]);
    fixed::block_floating_point_attention(&attention(&case), &q, &k, &v, &mut out, scratch)
        .unwrap();
    assert_eq!(out.as_flattened(), run(&case).data, "{N_Q} × {N_K} × {D}");
}

#[test]
fn both_doors_give_the_same_bits() {
    check_fixed::<1, 5, 4, { attention_scratch_len(1, 5, 4, 4) }>();
    check_fixed::<9, 65, 24, { attention_scratch_len(9, 65, 24, 24) }>();
}

/// A line of the table: errors on numbers with mean 0 and variance 1.
fn accuracy(n: usize, d: usize, causal: bool, trials: usize) -> String {
    let random = &mut Random(n as u64 * 100 + d as u64);
    let mut normal = |rows, cols| {
        Matrix::from_fn(rows, cols, |_, _| {
            let [a, b] = [(); 2].map(|()| (random.next() >> 11) as f64 / (1_u64 << 53) as f64);
            ((-2.0 * (1.0 - a).ln()).sqrt() * (TAU * b).cos()) as f32
        })
    };
    let (mut errors, mut squares, mut largest_error) = (0.0, 0.0, 0.0_f64);
    for _ in 0..trials {
        let mut case = Case::new(normal(n, d), normal(n, d), normal(n, d));
        case.causal = causal.then_some(Position::TopLeft);
        let most = largest(&case.v.data);
        for (found, expected) in run(&case).data.iter().zip(&case.reference().out.data) {
            let error = (f64::from(*found) - expected).abs();
            errors += error;
            squares += expected * expected;
            largest_error = largest_error.max(error / most);
        }
    }
    let count = (trials * n * d) as f64;
    let (mean, size) = (errors / count, (squares / count).sqrt());
    let mask = if causal { "causal" } else { "none" };
    format!("| {n} | {d} | {mask} | {size:.3} | {mean:.1e} | {largest_error:.1e} |\n")
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn the_documentation_has_the_measured_accuracy() {
    let mut table = String::from(
        "| queries, keys | columns | mask | output, root mean square | mean error | largest error / V |\n\
         |---|---|---|---|---|---|\n",
    );
    for (n, d, causal, trials) in [
        (8, 8, false, 200),
        (16, 16, false, 100),
        (32, 32, false, 50),
        (64, 64, false, 10),
        (64, 64, true, 10),
        (1024, 64, false, 1),
    ] {
        write!(table, "{}", accuracy(n, d, causal, trials)).unwrap();
    }
    let documented = include_str!("../src/block_floating_point/accuracy.md");
    assert!(documented.contains(&table), "measured:\n{table}");
}
