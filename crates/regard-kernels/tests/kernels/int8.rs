//! Attention on 8-bit integers. It is compared bit for bit with the same definition in wide integers, and within a bound with
//! attention in `f64`. Its bits are the same everywhere.

use core::f64::consts::{LN_2, LOG2_E, TAU};
use core::fmt::Write as _;

use crate::common::{self, Case, Matrix, Random, SHAPES, array};
use proptest::prelude::*;
use regard_kernels::int8::{
    Attention, Scales, attention_scratch_len, default_scale, dequantize, quantize, scale_for,
};
use regard_kernels::{Mat, MatMut, Position, Temperature, fixed};

/// An attention on integers, and the same attention on the numbers that these stand for.
#[derive(Clone, Debug)]
struct Quantized {
    q: Matrix<i8>,
    k: Matrix<i8>,
    v: Matrix<i8>,
    scales: Scales,
    real: Case,
}

/// The relative error of a weight, without its rounding to a multiple of 2⁻¹⁴. It has four parts:
/// - 1.2e-4 of the polynomial and its three truncated products, which a test in `arch/generic/int8/plain.rs` finds by trying
///   all fractions;
/// - the multiplier has 16 significant bits, so it moves y ≤ 16 by at most 16 · 2⁻¹⁶ = 2⁻¹², and 2^−y by the factor ln 2 of
///   that;
/// - the bits of the distance that are shifted out are worth less than 2¹⁶ · 2⁻²⁸ = 2⁻¹² of y;
/// - the fraction of y is cut to 15 bits: 2⁻¹⁵.
const WEIGHT_ERROR: f64 = 1.2e-4 + LN_2 * (2.0 / 4096.0 + 1.0 / 32768.0);

const SCALES: Scales = Scales { query: 0.031, key: 0.027, value: 0.02, output: 0.013 };

impl Quantized {
    fn new(q: Matrix<i8>, k: Matrix<i8>, v: Matrix<i8>, scales: Scales) -> Self {
        let real = |m: &Matrix<i8>, scale| {
            Matrix::from_fn(m.rows, m.cols, |i, j| f32::from(m.at(i, j)) * scale)
        };
        let real = Case::new(real(&q, scales.query), real(&k, scales.key), real(&v, scales.value));
        Self { q, k, v, scales, real }
    }

    fn random(n_q: usize, n_k: usize, d_k: usize, d_v: usize, random: &mut Random) -> Self {
        let mut integers = |rows, cols| Matrix::from_fn(rows, cols, |_, _| random.next() as i8);
        Self::new(integers(n_q, d_k), integers(n_k, d_k), integers(n_k, d_v), SCALES)
    }

    fn softmax_scale(&self) -> f32 {
        self.real.scale.unwrap_or_else(|| default_scale(self.q.cols))
    }

    fn attention(&self) -> Attention<'_> {
        let temperature = Temperature::new(self.real.temperature).unwrap();
        Attention::new(self.scales, self.softmax_scale(), temperature)
            .unwrap()
            .mask(self.real.mask())
    }

    fn scratch_len(&self) -> usize {
        attention_scratch_len(self.q.rows, self.k.rows, self.q.cols, self.v.cols)
    }

    fn run(&self) -> Matrix<i8> {
        let mut out = Matrix::from_fn(self.q.rows, self.v.cols, |_, _| 7);
        let view = MatMut::new(&mut out.data, self.q.rows, self.v.cols).unwrap();
        let scratch = &mut vec![i32::MIN; self.scratch_len()];
        self.attention()
            .forward(self.q.view(), self.k.view(), self.v.view(), view, scratch)
            .unwrap();
        out
    }

    /// The dot product of a query and a key: at most 2¹⁵ products of 8-bit integers.
    fn score(&self, i: usize, j: usize) -> i32 {
        let products = self.q.row(i).iter().zip(self.k.row(j));
        products.map(|(q, k)| i32::from(*q) * i32::from(*k)).sum()
    }

    /// The definition, in integers too wide to overflow.
    fn reference(&self) -> Matrix<i8> {
        let t = if self.real.temperature < f32::MIN_POSITIVE {
            0.0
        } else {
            f64::from(self.real.temperature)
        };
        let per_unit = f64::from(self.scales.query)
            * f64::from(self.scales.key)
            * f64::from(self.softmax_scale());
        let log2 = if per_unit == 0.0 { 0.0 } else { per_unit * LOG2_E / t };
        let ratio = f64::from(self.scales.value) / f64::from(self.scales.output);

        let mut out = Matrix::from_fn(self.q.rows, self.v.cols, |_, _| 0);
        for i in 0..self.q.rows {
            let seen = self.real.seen(i);
            let scores: Vec<i128> = seen.iter().map(|j| self.score(i, *j).into()).collect();
            let max = scores.iter().copied().max().unwrap_or_default();
            let mut weights: Vec<i128> =
                scores.iter().map(|score| weight(max - score, log2)).collect();
            let total: i128 = weights.iter().sum();
            let halvings = (0..64).find(|n| total >> n < 1 << 23).unwrap();
            if halvings > 0 {
                for w in &mut weights {
                    *w = (*w + (1 << (halvings - 1))) >> halvings;
                }
            }
            for c in 0..self.v.cols {
                let sum =
                    seen.iter().zip(&weights).map(|(j, w)| w * i128::from(self.v.at(*j, c))).sum();
                out.set(i, c, rescaled(sum, weights.iter().sum(), ratio));
            }
        }
        out
    }

    fn assert_matches_references(&self) {
        let found = self.run();
        assert_eq!(found, self.reference(), "{self:?}");

        let real = self.real.reference();
        let ratio = f64::from(self.scales.value) / f64::from(self.scales.output);
        let t = f64::from(self.real.temperature);
        let scale = f64::from(self.softmax_scale());
        // The real numbers are products of an integer and a scale, each rounded to f32 with a relative error of ½ ULP.
        let rounding = 2_f64.powi(-24);
        for i in 0..self.q.rows {
            let weights = real.weights.row(i);
            // The divisor of the softmax: the largest weight is 1 before the division.
            let sum = 1.0 / weights.iter().copied().fold(0.0, f64::max);
            let off = |w: f64| WEIGHT_ERROR * w * sum + 1.0 / 16384.0 + sum / 8_388_608.0;
            let seen = self.real.seen(i);
            // So the error of a score, divided by T, is at most two roundings of Σ |q·k|. A weight changes by the factor e^±2
            // of the largest of these errors: one for its own score, and one for the scores of the sum. In the limit T = 0
            // equal scores stay equal.
            let size = |j: &usize| -> f64 {
                let (q, k) = (self.real.q.row(i), self.real.k.row(*j));
                q.iter().zip(k).map(|(q, k)| f64::from((q * k).abs())).sum()
            };
            let largest = seen.iter().map(size).fold(0.0, f64::max) * scale;
            let moves =
                if t < f64::from(f32::MIN_POSITIVE) { 0.0 } else { 2.0 * rounding * largest / t };
            let real_off = (2.01 * moves).exp_m1();
            let least: f64 = sum - seen.iter().map(|j| off(weights[*j])).sum::<f64>();
            for c in 0..self.v.cols {
                let mean = real.out.at(i, c) / f64::from(self.scales.value);
                let moved: f64 = seen
                    .iter()
                    .map(|j| off(weights[*j]) * (f64::from(self.v.at(*j, c)) - mean).abs() / least)
                    .sum();
                let expected = (mean * ratio).clamp(-128.0, 127.0);
                let real_moved: f64 = seen
                    .iter()
                    .map(|j| weights[*j] * (f64::from(self.v.at(*j, c)) - mean).abs() * real_off)
                    .sum();
                let real_moved = real_moved + 128.0 * rounding;
                let tolerance = 0.5 + ratio / 4096.0 + (moved + real_moved) * ratio;
                let found = f64::from(found.at(i, c));
                let what = "row may see nothing";
                assert!(!seen.is_empty() || found == 0.0, "{what}");
                assert!(
                    (found - expected).abs() <= tolerance,
                    "[{i}, {c}]: {found}, {expected} ± {tolerance}: {self:?}"
                );
            }
        }
    }
}

/// 2^−(distance · log2) in units of 2⁻¹⁴, as the crate's documentation defines it.
fn weight(distance: i128, log2: f64) -> i128 {
    if log2 * 2_f64.powi(28) >= f64::from(u32::MAX) {
        return if distance == 0 { 1 << 14 } else { 0 };
    }
    let shift = (0..30).find(|s| log2 * 2_f64.powi(28 + s) >= 32768.0).unwrap_or(30);
    let multiplier = (log2 * 2_f64.powi(28 + shift) + 0.5).floor() as i128;
    let y = (distance >> shift) * multiplier;
    if y >= 1 << 32 {
        return 0;
    }
    let (whole, x) = (y / (1 << 28), y % (1 << 28) / (1 << 13));
    let horner = [2565, 15107, 45311].into_iter().fold(0, |p: i128, c| c - p * x / 32768);
    let p = 32768 - horner * x / 65536;
    (p / (1 << whole) + 1) / 2
}

/// sum / total · ratio, as the crate's documentation defines it.
fn rescaled(sum: i128, total: i128, ratio: f64) -> i8 {
    if total == 0 {
        return 0;
    }
    let exponent = (0..64).find(|e| ratio * 2_f64.powi(*e) >= 2_f64.powi(29)).unwrap();
    let mantissa = (ratio * 2_f64.powi(exponent)) as i128;
    let bits = (0..64).find(|n| total >> n == 0).unwrap(); // total < 2^bits
    let multiplier = (mantissa << bits) / total;
    let product = (sum * multiplier).div_euclid(1 << 32);
    let shift = exponent + bits - 32;
    (product + (1 << (shift - 1))).div_euclid(1 << shift).clamp(-128, 127) as i8
}

#[test]
fn the_scratch_memory_of_astronomical_shapes_is_not_an_overflow() {
    for n_q in [1, 4, 8] {
        assert!(attention_scratch_len(n_q, usize::MAX, 1, 1) >= usize::MAX / 2);
        // The scratch memory for the values depends on the tier. Whatever it is, the sum must not overflow.
        assert!(attention_scratch_len(n_q, 40, 1, usize::MAX) >= 40);
    }
}

#[test]
fn every_shape_gives_the_references_bits() {
    let random = &mut Random(8);
    let mut shapes = SHAPES.to_vec();
    shapes.extend([
        (9, 256, 7, 18),
        (9, 257, 7, 18),
        (8, 9, 64, 16),
        (4, 1100, 6, 5),
        (1, 5000, 3, 2),
    ]);
    for (n_q, n_k, d_k, d_v) in shapes {
        let case = Quantized::random(n_q, n_k, d_k, d_v, random);
        case.assert_matches_references();
        let shift = |scale| Quantized {
            real: Case { scale: Some(scale), ..case.real.clone() },
            ..case.clone()
        };
        // The scales go from equal weights to a single key with all weight.
        for scale in [0.0, 1e-30, 1e-3, 3.0, 1e6, f32::MAX] {
            let case = shift(scale);
            assert_eq!(case.run(), case.reference(), "scale {scale}, {n_q} × {n_k} × {d_k}");
        }
    }
}

#[test]
fn the_farthest_numbers_do_not_overflow() {
    for (n_q, n_k, d_k) in [(1, 3, 1 << 15), (5, 6, 2053), (5, 1030, 2), (1, 1 << 17, 1)] {
        for fill in [-128, 127] {
            let k = Matrix::from_fn(n_k, d_k, |j, _| if j == 1 { 127 } else { -128 });
            let v = Matrix::from_fn(n_k, 6, |_, c| if c == 0 { -128 } else { fill });
            let mut case = Quantized::new(Matrix::from_fn(n_q, d_k, |_, _| fill), k, v, SCALES);
            for scale in [0.0, 1e-9, 1.0] {
                case.real.scale = Some(scale);
                assert_eq!(case.run(), case.reference(), "{n_q} × {n_k} × {d_k}, scale {scale}");
            }
        }
    }
}

/// The sum of the weights is just below a power of two, and each weight is rounded up when it is halved.
#[test]
#[cfg_attr(miri, ignore = "minutes")]
fn as_many_keys_as_there_may_be_keep_their_sum_in_range() {
    for n in [511, 512, 513, 2048, 4096, 1 << 17] {
        let scales = Scales { query: 1.0, key: 1.0, value: 1.0, output: 1.0 };
        let attention = Attention::new(scales, 9.3e-5, Temperature::ONE).unwrap();
        let (mut k, v, mut out) = (vec![0; n], vec![100; n], [[0]]);
        k[0] = 1;
        let mut scratch = vec![0; attention_scratch_len(1, n, 1, 1)];
        let (k, v) = (Mat::new(&k, n, 1).unwrap(), Mat::new(&v, n, 1).unwrap());
        attention.forward(Mat::from(&[[1]]), k, v, MatMut::from(&mut out), &mut scratch).unwrap();
        assert_eq!(out, [[100]], "{n} keys");
    }
}

#[test]
fn temperatures_at_their_limits() {
    let random = &mut Random(9);
    let mut case = Quantized::random(5, 9, 4, 3, random);
    for row in 0..5 {
        let tied = case.k.row(3).to_vec();
        tied.iter().enumerate().for_each(|(c, x)| case.k.set(row + 4, c, *x)); // four equal keys
    }
    for temperature in [0.0, 1e-40, 1e-30, 0.1, 1e30, f32::INFINITY] {
        case.real.temperature = temperature;
        assert_eq!(case.run(), case.reference(), "T = {temperature}");
    }
    case.scales.output = case.scales.value;
    case.real.temperature = f32::INFINITY;
    let mean = |c| (0..9).map(|j| f64::from(case.v.at(j, c))).sum::<f64>() / 9.0;
    let found = case.run();
    for c in 0..3 {
        assert!((f64::from(found.at(4, c)) - mean(c)).abs() <= 0.51, "the mean of all values");
    }
}

/// Masks of all kinds that attention on integers takes, at random.
fn with_masks(mut case: Quantized, random: &mut Random) -> Quantized {
    case.real.add_masks(random);
    (case.real.bias, case.real.alibi) = (None, None);
    case
}

proptest! {
    #[test]
    fn masked_attention_is_the_references(seed: u64) {
        let random = &mut Random(seed);
        let [n_q, n_k, d_k, d_v] = [13, 40, 20, 20].map(|n| 1 + random.below(n));
        let mut case = Quantized::random(n_q, n_k, d_k, d_v, random);
        case.scales.output = 0.02 * 1.5_f32.powi(random.below(9) as i32 - 4);
        case.real.scale = Some(default_scale(d_k) * 3_f32.powi(random.below(5) as i32 - 2));
        with_masks(case, random).assert_matches_references();
    }

    #[test]
    fn the_order_of_keys_does_not_matter(seed: u64) {
        let random = &mut Random(seed);
        let [n_q, n_k] = [9, 700].map(|n| 1 + random.below(n));
        let case = Quantized::random(n_q, n_k, 5, 6, random);
        let mut order: Vec<usize> = (0..n_k).collect();
        random.shuffle(&mut order);
        let moved = Quantized { k: case.k.pick(&order), v: case.v.pick(&order), ..case.clone() };
        prop_assert_eq!(case.run(), moved.run());
    }

    #[test]
    fn a_row_is_the_same_alone(seed: u64) {
        let random = &mut Random(seed);
        let [n_q, n_k] = [12, 40].map(|n| 1 + random.below(n));
        let case = with_masks(Quantized::random(n_q, n_k, 9, 17, random), random);
        let whole = case.run();
        for i in 0..n_q {
            let mut out = [7; 17];
            let attention = case.attention().mask(case.real.mask().rows(i, 1, n_q, n_k));
            let scratch = &mut vec![7; attention_scratch_len(1, n_k, 9, 17)];
            let view = MatMut::new(&mut out, 1, 17).unwrap();
            attention.forward(case.q.view().rows_from(i, 1), case.k.view(), case.v.view(), view, scratch).unwrap();
            prop_assert_eq!(&out, whole.row(i));
        }
    }

    #[test]
    fn one_visible_key_gives_its_value(seed: u64) {
        let random = &mut Random(seed);
        let [n_q, n_k, d_v] = [9, 30, 20].map(|n| 1 + random.below(n));
        let mut case = Quantized::random(n_q, n_k, 3, d_v, random);
        case.scales.output = case.scales.value;
        let visible: Vec<usize> = (0..n_q).map(|_| random.below(n_k)).collect();
        case.real.allowed = Some(Matrix::from_fn(n_q, n_k, |i, j| visible[i] == j));
        prop_assert_eq!(case.run(), case.v.pick(&visible));
    }

    #[test]
    fn hidden_keys_and_gaps_between_rows_do_not_matter(seed: u64) {
        let random = &mut Random(seed);
        let [n_q, n_k, d_k, d_v] = [9, 30, 20, 20].map(|n| 1 + random.below(n));
        let case = with_masks(Quantized::random(n_q, n_k, d_k, d_v, random), random);
        // Each row but the last is followed by a gap of random numbers, and the last one ends with the memory.
        let mut strided = |m: &Matrix<i8>| -> Vec<i8> {
            let stride = m.cols + 3;
            let len = (m.rows - 1) * stride + m.cols;
            (0..len).map(|i| if i % stride < m.cols { m.at(i / stride, i % stride) } else { random.next() as i8 }).collect()
        };
        let (q, k, v) = (strided(&case.q), strided(&case.k), strided(&case.v));
        let mut out = vec![7; (n_q - 1) * (d_v + 3) + d_v];
        case.attention().forward(
            Mat::strided(&q, n_q, d_k, d_k + 3).unwrap(),
            Mat::strided(&k, n_k, d_k, d_k + 3).unwrap(),
            Mat::strided(&v, n_k, d_v, d_v + 3).unwrap(),
            MatMut::strided(&mut out, n_q, d_v, d_v + 3).unwrap(),
            &mut vec![7; case.scratch_len()],
        ).unwrap();
        let expected = case.run();
        for (i, x) in out.iter().enumerate() {
            let (row, col) = (i / (d_v + 3), i % (d_v + 3));
            prop_assert_eq!(*x, if col < d_v { expected.at(row, col) } else { 7 });
        }
        let mut noisy = case.clone();
        for j in 0..n_k {
            if (0..n_q).all(|i| !case.real.sees(i, j)) {
                (0..d_k).for_each(|c| noisy.k.set(j, c, random.next() as i8));
                (0..d_v).for_each(|c| noisy.v.set(j, c, random.next() as i8));
            }
        }
        prop_assert_eq!(noisy.run(), expected);
    }
}

fn check_fixed<const N_Q: usize, const N_K: usize, const D: usize, const SCRATCH: usize>() {
    let mut case = Quantized::random(N_Q, N_K, D, D, &mut Random(5));
    for causal in [None, Some(Position::BottomRight)] {
        case.real.causal = causal;
        let (q, k, v) =
            (array::<_, N_Q, D>(&case.q), array::<_, N_K, D>(&case.k), array::<_, N_K, D>(&case.v));
        let mut out = [[7; D]; N_Q];
        fixed::int8_attention(&case.attention(), &q, &k, &v, &mut out, &mut [-1; SCRATCH]).unwrap();
        assert_eq!(out.as_flattened(), case.run().data, "{N_Q} × {N_K} × {D}, {causal:?}");
    }
}

#[test]
fn both_doors_give_the_same_bits() {
    macro_rules! shapes {
        ($([$n_q:literal, $n_k:literal, $d:literal])+) => {
            $(check_fixed::<$n_q, $n_k, $d, { attention_scratch_len($n_q, $n_k, $d, $d) }>();)+
        };
    }
    shapes!([1, 1, 1] [1, 5, 4] [3, 3, 4] [4, 4, 8] [5, 17, 3] [6, 64, 16] [9, 65, 24] [16, 16, 16] [1, 300, 64]);
}

#[test]
fn the_scales_of_values_and_output_may_be_far_apart() {
    assert!(Attention::new(SCALES, 0.0, Temperature::ONE).is_ok());
    // Powers of two at both ends of the range are exact.
    let one = |value, output| {
        let scales = Scales { value, output, ..SCALES };
        let mut out = [[0; 2]];
        let attention = Attention::new(scales, 1.0, Temperature::ONE).unwrap();
        fixed::int8_attention(&attention, &[[1]], &[[1]], &[[64, -3]], &mut out, &mut [0; 8])
            .unwrap();
        out[0]
    };
    assert_eq!(one(1.0, 128.0), [1, 0]); // 0.5 is rounded up
    assert_eq!(one(1.0, 0.5), [127, -6]);
    assert_eq!(one(2048.0, 1.0), [127, -128]);
}

#[test]
fn the_default_scale_is_the_nearest_number_or_its_neighbour() {
    for d in (0..3000).chain([4096, 32768, 65535, 1 << 20]) {
        let exact = if d == 0 { 1.0 } else { 1.0 / (d as f64).sqrt() };
        assert!((f64::from(default_scale(d)) - exact).abs() <= 2.01 * common::U * exact, "{d}");
    }
}

#[test]
fn numbers_are_quantized_to_the_nearest() {
    const INF: f32 = f32::INFINITY;
    const NAN: f32 = f32::NAN;
    let x =
        [-1000.0, -128.5, -127.5, -2.5, -1.5, -0.5, -0.0, 0.5, 1.5, 2.5, 126.5, 127.49, INF, NAN];
    let mut found = [7; 14];
    quantize(&x.map(|x| x * 0.25), 0.25, &mut found).unwrap();
    assert_eq!(found, [-128, -128, -128, -2, -2, 0, 0, 0, 2, 2, 126, 127, 127, 0]);
    let mut back = [0.0; 14];
    dequantize(&found, 0.25, &mut back).unwrap();
    assert_eq!(back[..4], [-32.0, -32.0, -32.0, -0.5]);

    assert_eq!(scale_for(&[1.0, -254.0]), 2.0);
    for none in [&[] as &[f32], &[0.0], &[1e-44], &[f32::INFINITY], &[f32::NAN]] {
        assert_eq!(scale_for(none), 1.0, "{none:?}");
    }
}

fn hash(numbers: &[i8]) -> u64 {
    common::hash(numbers.iter().map(|x| x.cast_unsigned()))
}

#[test]
fn results_have_the_recorded_bits() {
    let random = &mut Random(2026);
    let mut case = Quantized::random(23, 350, 40, 33, random);
    let plain = hash(&case.run().data);
    case.real.causal = Some(Position::Offset(300));
    case.real.temperature = 0.7;
    let masked = hash(&case.run().data);
    let small = hash(&Quantized::random(8, 24, 16, 16, random).run().data);
    // Change these only with a change of the kernels that is meant to change bits, and say so in the changelog.
    let found = [plain, masked, small];
    let expected = [0x5189_fd7c_f764_aca9, 0x75b6_f1bc_7ae0_a190, 0x312b_9906_4b66_11b0];
    assert_eq!(found, expected, "{found:#018x?}");
}

/// A normal number with mean 0 and variance 1 (Box and Muller 1958), the same on every machine.
fn normal(random: &mut Random) -> f32 {
    let uniform =
        |random: &mut Random| ((random.next() >> 11) as f64 + 0.5) / 9_007_199_254_740_992.0;
    let radius = libm::sqrt(-2.0 * libm::log(uniform(random)));
    (radius * libm::cos(TAU * uniform(random))) as f32
}

/// One line of the table in the documentation: `trials` attentions on unit-normal numbers, `i8` compared with `f32`.
fn accuracy(n: usize, d: usize, causal: bool, trials: usize) -> String {
    let random = &mut Random(7);
    let (mut errors, mut squares, mut largest, mut changed, mut rows) = (0.0, 0.0, 0.0_f64, 0, 0);
    for _ in 0..trials {
        let [q, k, v] = [(); 3].map(|()| Matrix::from_fn(n, d, |_, _| normal(random)));
        let mut real = Case::new(q, k, v);
        real.causal = causal.then_some(Position::TopLeft);
        let out = real.run().out;
        let [query, key, value, output] =
            [&real.q, &real.k, &real.v, &out].map(|m| scale_for(&m.data));
        let integers = |m: &Matrix, scale| {
            let mut integers = vec![0; m.data.len()];
            quantize(&m.data, scale, &mut integers).unwrap();
            Matrix { rows: m.rows, cols: m.cols, data: integers }
        };
        let (q, k, v) =
            (integers(&real.q, query), integers(&real.k, key), integers(&real.v, value));
        let scores = real.reference().masked;
        let scales = Scales { query, key, value, output };
        let case = Quantized { q, k, v, scales, real };
        for (found, expected) in case.run().data.iter().zip(&out.data) {
            let error = f64::from((f32::from(*found) * output - expected).abs());
            errors += error;
            largest = largest.max(error);
            squares += f64::from(*expected).powi(2);
        }
        for i in 0..n {
            let score = |j: usize| case.score(i, j);
            let seen = case.real.seen(i);
            let first = *seen
                .iter()
                .max_by(|a, b| scores.at(i, **a).total_cmp(&scores.at(i, **b)))
                .unwrap();
            let best = score(first);
            changed += usize::from(seen.into_iter().any(|j| score(j) > best));
            rows += 1;
        }
    }
    let count = (trials * n * d) as f64;
    let (mean, size) = (errors / count, (squares / count).sqrt());
    let share = 100.0 * f64::from(changed as u32) / f64::from(rows);
    let mask = if causal { "causal" } else { "none" };
    format!("| {n} | {d} | {mask} | {size:.3} | {mean:.4} | {largest:.3} | {share:.1} % |\n")
}

#[test]
#[cfg_attr(miri, ignore = "takes minutes there")]
fn the_documentation_has_the_measured_accuracy() {
    let mut table = String::from(
        "| queries, keys | columns | mask | output, root mean square | mean error | largest error | largest weight moves |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for (n, d, causal, trials) in [
        (8, 8, false, 200),
        (16, 16, false, 100),
        (32, 32, false, 50),
        (64, 32, false, 20),
        (64, 64, false, 20),
        (64, 64, true, 20),
        (256, 64, false, 4),
        (1024, 64, false, 1),
    ] {
        write!(table, "{}", accuracy(n, d, causal, trials)).unwrap();
    }
    let documented = include_str!("../../src/int8/accuracy.md");
    assert!(documented.contains(&table), "measured:\n{table}");
}
