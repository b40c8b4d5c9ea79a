//! The contract of attention in plain `f64` loops that share nothing with the kernels, and helpers that make inputs and compare
//! results.

#![allow(
    dead_code,
    clippy::allow_attributes,
    reason = "each test binary uses its own part of this"
)]
#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use core::fmt::Display;

use regard_kernels::{
    Attention, Mask, Mat, MatMut, Position, Stage, Temperature, Window, attention_scratch_len,
    matmul,
};

/// Half an ULP of `f32`, relative: the largest error of one rounding.
pub const U: f64 = 5.960_464_477_539_063e-8;

/// A dense matrix that owns its elements.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matrix<T = f32> {
    pub rows: usize,
    pub cols: usize,
    pub data: Vec<T>,
}

impl<T: Copy> Matrix<T> {
    pub fn from_fn(rows: usize, cols: usize, mut f: impl FnMut(usize, usize) -> T) -> Self {
        let data = (0..rows * cols).map(|i| f(i / cols, i % cols)).collect();
        Self { rows, cols, data }
    }

    pub fn view(&self) -> Mat<'_, T> {
        Mat::new(&self.data, self.rows, self.cols).unwrap()
    }

    pub fn row(&self, i: usize) -> &[T] {
        &self.data[i * self.cols..][..self.cols]
    }

    pub fn at(&self, i: usize, j: usize) -> T {
        self.row(i)[j]
    }

    pub fn set(&mut self, i: usize, j: usize, x: T) {
        self.data[i * self.cols + j] = x;
    }

    pub fn transposed(&self) -> Self {
        Self::from_fn(self.cols, self.rows, |i, j| self.at(j, i))
    }

    /// The rows with these numbers, in this order.
    pub fn pick(&self, rows: &[usize]) -> Self {
        Self::from_fn(rows.len(), self.cols, |i, j| self.at(rows[i], j))
    }

    pub fn pick_cols(&self, cols: &[usize]) -> Self {
        Self::from_fn(self.rows, cols.len(), |i, j| self.at(i, cols[j]))
    }
}

impl Matrix {
    pub fn filled(rows: usize, cols: usize, x: f32) -> Self {
        Self::from_fn(rows, cols, |_, _| x)
    }

    pub fn view_mut(&mut self) -> MatMut<'_> {
        MatMut::new(&mut self.data, self.rows, self.cols).unwrap()
    }

    pub fn bits(&self) -> Vec<u32> {
        self.data.iter().map(|x| x.to_bits()).collect()
    }

    /// Uniform in [−size, size].
    pub fn random(rows: usize, cols: usize, size: f32, random: &mut Random) -> Self {
        Self::from_fn(rows, cols, |_, _| random.within(size))
    }
}

/// A small generator of pseudo-random numbers, the same on every machine: `SplitMix64`.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number in 0..n.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Uniform in [−size, size], with 24 random bits.
    pub fn within(&mut self, size: f32) -> f32 {
        ((self.next() >> 40) as f32 / 8_388_608.0 - 1.0) * size
    }

    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

/// Σ aᵢbᵢ, and Σ |aᵢbᵢ|, to which its rounding error is relative.
pub fn dot(a: &[f32], b: &[f32]) -> (f64, f64) {
    let products = || a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b));
    (products().sum(), products().map(f64::abs).sum())
}

/// γₙ = n·u / (1 − n·u). n roundings in a chain change a sum of products by at most γₙ·Σ |aᵢbᵢ|, in any order of addition
/// (Higham, Accuracy and Stability of Numerical Algorithms, 3.1).
pub fn gamma(n: usize) -> f64 {
    let nu = n as f64 * U;
    nu / (1.0 - nu)
}

/// The softmax of the contract for one row, and its log-sum-exp.
pub fn softmax(scores: &[f64], t: f64) -> (Vec<f64>, f64) {
    // As documented, the kernels read a subnormal temperature as 0.
    let zero = t < f64::from(f32::MIN_POSITIVE);
    if scores.iter().any(|s| s.is_nan()) {
        return (vec![f64::NAN; scores.len()], f64::NAN);
    }
    let seen = |s: f64| s > f64::NEG_INFINITY;
    let count = |f: &dyn Fn(f64) -> bool| scores.iter().filter(|s| f(**s)).count() as f64;
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if !seen(max) {
        return (vec![0.0; scores.len()], f64::NEG_INFINITY);
    }
    if t == f64::INFINITY {
        let n = count(&seen);
        return (scores.iter().map(|s| if seen(*s) { 1.0 / n } else { 0.0 }).collect(), n.ln());
    }
    if zero || max == f64::INFINITY {
        let ties = count(&|s| s == max);
        let weights = scores.iter().map(|s| if *s == max { 1.0 / ties } else { 0.0 }).collect();
        let shift = if max == 0.0 { 0.0 } else { f64::INFINITY.copysign(max) };
        return (weights, shift + ties.ln());
    }
    let weights: Vec<f64> = scores.iter().map(|s| ((s - max) / t).exp()).collect();
    let sum: f64 = weights.iter().sum();
    (weights.iter().map(|w| w / sum).collect(), max / t + sum.ln())
}

/// The tensors and the description of one attention.
#[derive(Clone, Debug, Default)]
pub struct Case {
    pub q: Matrix,
    pub k: Matrix,
    pub v: Matrix,
    pub scale: Option<f32>,
    pub softcap: Option<f32>,
    pub temperature: f32,
    pub causal: Option<Position>,
    pub window: Option<(Position, Window)>,
    pub key_len: Option<usize>,
    pub allowed: Option<Matrix<bool>>,
    pub bias: Option<Matrix>,
    pub alibi: Option<(Position, f32)>,
    pub sink: Option<f32>,
}

/// The result of a [`Case`] by the contract.
#[derive(Clone, Debug)]
pub struct Reference {
    pub raw: Matrix<f64>,
    pub softcapped: Matrix<f64>,
    pub masked: Matrix<f64>,
    pub weights: Matrix<f64>,
    pub out: Matrix<f64>,
    pub log_sum_exp: Vec<f64>,
    /// An upper bound of the rounding error in the row's masked scores.
    pub score_error: Vec<f64>,
}

/// Shapes of attentions (n_q, n_k, d_k, d_v): empty ones, some with more keys than a tile, and sizes around that of a vector.
pub const SHAPES: [(usize, usize, usize, usize); 13] = [
    (0, 3, 4, 5),
    (3, 0, 4, 5),
    (3, 4, 0, 5),
    (3, 4, 5, 0),
    (13, 260, 2, 3),
    (1, 258, 5, 17),
    (1, 1, 1, 1),
    (2, 15, 15, 15),
    (3, 16, 16, 16),
    (4, 17, 17, 17),
    (5, 64, 3, 33),
    (6, 63, 8, 2),
    (8, 63, 8, 2),
];

/// The results of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Attended {
    pub out: Matrix,
    pub log_sum_exp: Vec<f32>,
}

impl Case {
    pub fn new(q: Matrix, k: Matrix, v: Matrix) -> Self {
        Self { q, k, v, temperature: 1.0, ..Self::default() }
    }

    pub fn random(n_q: usize, n_k: usize, d_k: usize, d_v: usize, random: &mut Random) -> Self {
        Self::new(
            Matrix::random(n_q, d_k, 2.0, random),
            Matrix::random(n_k, d_k, 2.0, random),
            Matrix::random(n_k, d_v, 3.0, random),
        )
    }

    /// Gives the case masks of all kinds, composed at random.
    pub fn add_masks(&mut self, random: &mut Random) {
        let (n_q, n_k) = (self.q.rows, self.k.rows);
        let any_position = |random: &mut Random| match random.below(4) {
            0 => Position::TopLeft,
            1 => Position::BottomRight,
            _ => Position::Offset(random.below(n_k + n_k / 2 + 3) as isize - n_k as isize / 3),
        };
        if random.chance(35) {
            self.causal = Some(any_position(random));
        }
        if random.chance(25) {
            let side = |random: &mut Random| random.chance(70).then(|| random.below(n_k + 3));
            let window = Window { left: side(random), right: side(random) };
            self.window = Some((any_position(random), window));
        }
        if random.chance(25) {
            self.key_len = Some(random.below(n_k + 1));
        }
        if random.chance(25) {
            let hidden = random.below(100);
            self.allowed = Some(Matrix::from_fn(n_q, n_k, |_, _| !random.chance(hidden)));
        }
        if random.chance(25) {
            let hidden = random.below(50);
            self.bias = Some(Matrix::from_fn(n_q, n_k, |_, _| {
                if random.chance(hidden) { f32::NEG_INFINITY } else { random.within(4.0) }
            }));
        }
        if random.chance(25) {
            let slopes = [0.0, 0.5, 1.0 / 256.0, -0.125, 0.01];
            self.alibi = Some((any_position(random), slopes[random.below(5)]));
        }
    }

    pub fn mask(&self) -> Mask<'_> {
        let mut mask = Mask::NONE;
        if let Some(position) = self.causal {
            mask = mask.causal(position);
        }
        if let Some((position, window)) = self.window {
            mask = mask.window(position, window);
        }
        if let Some(len) = self.key_len {
            mask = mask.key_len(len);
        }
        if let Some(allowed) = &self.allowed {
            mask = mask.allowed(allowed.view());
        }
        if let Some(bias) = &self.bias {
            mask = mask.bias(bias.view());
        }
        if let Some((position, slope)) = self.alibi {
            mask = mask.alibi(position, slope);
        }
        mask
    }

    pub fn attention(&self) -> Attention<'_> {
        let mut attention = Attention::new()
            .mask(self.mask())
            .temperature(Temperature::new(self.temperature).unwrap());
        if let Some(scale) = self.scale {
            attention = attention.scale(scale);
        }
        if let Some(cap) = self.softcap {
            attention = attention.softcap(cap);
        }
        if let Some(sink) = self.sink {
            attention = attention.sink(sink);
        }
        attention
    }

    /// Scratch memory full of NaN, because its contents must not matter.
    pub fn scratch(&self) -> Vec<f32> {
        vec![f32::NAN; attention_scratch_len(self.q.rows, self.k.rows, self.q.cols, self.v.cols)]
    }

    pub fn run(&self) -> Attended {
        self.run_masked(self.mask())
    }

    /// [`run`](Self::run) with another mask.
    pub fn run_masked(&self, mask: Mask<'_>) -> Attended {
        let mut out = Matrix::filled(self.q.rows, self.v.cols, f32::NAN);
        let mut log_sum_exp = vec![f32::NAN; self.q.rows];
        let (q, k, v) = (self.q.view(), self.k.view(), self.v.view());
        let (attention, scratch) = (self.attention().mask(mask), &mut self.scratch());
        attention
            .forward_with_log_sum_exp(q, k, v, out.view_mut(), &mut log_sum_exp, scratch)
            .unwrap();
        Attended { out, log_sum_exp }
    }

    /// The result of `rows` queries from `first` on, computed alone.
    pub fn run_rows(&self, first: usize, rows: usize) -> Attended {
        let numbers: Vec<usize> = (first..first + rows).collect();
        let mask = self.mask().rows(first, rows, self.q.rows, self.k.rows);
        Self { q: self.q.pick(&numbers), ..self.clone() }.run_masked(mask)
    }

    pub fn scores(&self, stage: Stage) -> Matrix {
        let mut out = Matrix::filled(self.q.rows, self.k.rows, f32::NAN);
        self.attention()
            .scores(stage, self.q.view(), self.k.view(), out.view_mut(), &mut self.scratch())
            .unwrap();
        out
    }

    /// The key at which query i stands.
    fn stands_at(&self, position: Position, i: usize) -> i128 {
        let n_k = self.key_len.unwrap_or(self.k.rows) as i128;
        match position {
            Position::TopLeft => i as i128,
            Position::BottomRight => n_k - self.q.rows as i128 + i as i128,
            Position::Offset(o) => o as i128 + i as i128,
        }
    }

    /// The bias that ALiBi adds to a score.
    pub fn linear_bias(&self, i: usize, j: usize) -> f64 {
        self.alibi.map_or(0.0, |(p, slope)| {
            -f64::from(slope) * (self.stands_at(p, i) - j as i128).unsigned_abs() as f64
        })
    }

    /// Whether query i may see key j, written after the words of the contract.
    pub fn sees(&self, i: usize, j: usize) -> bool {
        let n_k = self.key_len.unwrap_or(self.k.rows) as i128;
        let stands_at = |p: Position| self.stands_at(p, i);
        let key = j as i128;
        let causal = self.causal.is_none_or(|p| key <= stands_at(p));
        let window = self.window.is_none_or(|(p, w)| {
            w.left.is_none_or(|left| key >= stands_at(p) - left as i128)
                && w.right.is_none_or(|right| key <= stands_at(p) + right as i128)
        });
        let allowed = self.allowed.as_ref().is_none_or(|m| m.at(i, j));
        let bias = self.bias.as_ref().is_none_or(|m| m.at(i, j) != f32::NEG_INFINITY);
        causal && window && allowed && bias && key < n_k
    }

    /// The keys that query i may see.
    pub fn seen(&self, i: usize) -> Vec<usize> {
        (0..self.k.rows).filter(|j| self.sees(i, *j)).collect()
    }

    pub fn reference(&self) -> Reference {
        let (n_q, n_k, d_k) = (self.q.rows, self.k.rows, self.q.cols);
        let default_scale = if d_k == 0 { 1.0 } else { 1.0 / (d_k as f64).sqrt() };
        let scale = self.scale.map_or(default_scale, f64::from);
        let dots = Matrix::from_fn(n_q, n_k, |i, j| dot(self.q.row(i), self.k.row(j)));
        let raw = Matrix::from_fn(n_q, n_k, |i, j| dots.at(i, j).0 * scale);
        let softcapped = Matrix::from_fn(n_q, n_k, |i, j| match self.softcap.map(f64::from) {
            Some(c) => c * (raw.at(i, j) / c).tanh(),
            None => raw.at(i, j),
        });
        let seen: Vec<Vec<usize>> = (0..n_q).map(|i| self.seen(i)).collect();
        let mut masked = Matrix::from_fn(n_q, n_k, |_, _| f64::NEG_INFINITY);
        for (i, seen) in seen.iter().enumerate() {
            for &j in seen {
                let bias = self.bias.as_ref().map_or(0.0, |m| f64::from(m.at(i, j)));
                masked.set(i, j, softcapped.at(i, j) + bias + self.linear_bias(i, j));
            }
        }
        let t = f64::from(self.temperature);
        let with_sink = |i: usize| -> Vec<f64> {
            masked.row(i).iter().copied().chain(self.sink.map(f64::from)).collect()
        };
        let rows: Vec<_> = (0..n_q).map(|i| softmax(&with_sink(i), t)).collect();
        let weights = Matrix::from_fn(n_q, n_k, |i, j| rows[i].0[j]);
        let out = Matrix::from_fn(n_q, self.v.cols, |i, c| {
            seen[i].iter().map(|j| weights.at(i, *j) * f64::from(self.v.at(*j, c))).sum()
        });
        let score_error = |(i, seen): (usize, &Vec<usize>)| {
            let error = |j: &usize| {
                // The errors of the sum over d_k and of the product with the scale (which is rounded twice); then of tanh with
                // its two divisions and products, which makes no difference larger; then of the addition of the bias.
                let product = gamma(d_k + 4) * dots.at(i, *j).1 * scale.abs();
                let capped = softcapped.at(i, *j).abs();
                let cap = if self.softcap.is_some() { 6.0 * U * capped } else { 0.0 };
                // Before ALiBi is added, the score may be larger than after it.
                let linear = 3.0 * U * self.linear_bias(i, *j).abs();
                product + cap + linear + U * masked.at(i, *j).abs()
            };
            seen.iter().map(error).fold(0.0, f64::max)
        };
        let score_error = seen.iter().enumerate().map(score_error).collect();
        let log_sum_exp = rows.into_iter().map(|r| r.1).collect();
        Reference { raw, softcapped, masked, weights, out, log_sum_exp, score_error }
    }

    /// The largest score of row i, that of the sink included.
    pub fn largest_score(&self, reference: &Reference, i: usize) -> f64 {
        let sink = self.sink.map_or(f64::NEG_INFINITY, f64::from);
        reference.masked.row(i).iter().copied().fold(sink, f64::max)
    }

    /// The largest |value| of a column that query i may see.
    pub fn largest_value(&self, i: usize) -> f64 {
        let values = self.seen(i).into_iter().flat_map(|j| self.v.row(j));
        values.fold(0.0, |m, v| f64::max(m, f64::from(v.abs())))
    }

    /// The relative error of the weights of row i, averaged over the row.
    ///
    /// An error of e in each of two scores changes e^((s − max)/T) by a factor of e^(2e/T). The exponent (s − max)/T itself is
    /// rounded three times (difference, reciprocal, product), relative to its size. `exp` adds 2u, the rescaling for each
    /// further tile of 64 keys 4u, and the sums over keys γₙ.
    pub fn weight_error(&self, reference: &Reference, i: usize) -> f64 {
        let t = f64::from(self.temperature);
        let scores = reference.masked.row(i);
        let max = self.largest_score(reference, i);
        let spread = |s: f64| if s < max { ((max - s) / t).min(104.0) } else { 0.0 };
        let mean: f64 =
            scores.iter().zip(reference.weights.row(i)).map(|(s, w)| w * spread(*s)).sum();
        let exponent = 2.0 * reference.score_error[i] / t + 4.0 * U * mean;
        exponent.exp_m1() + gamma(self.k.rows + 8 + 4 * self.k.rows.div_ceil(64))
    }

    /// The error of an output of row i. Weights with a relative error of ε in the numerator and in the denominator move a mean
    /// of values by 2ε of the largest value. The last term is a step of the subnormal numbers for each of up to seven
    /// roundings.
    pub fn output_error(&self, reference: &Reference, i: usize) -> f64 {
        2.5 * self.weight_error(reference, i) * self.largest_value(i) + 1e-44
    }

    /// The error of the log-sum-exp of row i. It moves by the weights' relative error, and its own roundings (1/T, product,
    /// logarithm, sum) are relative to its parts.
    pub fn log_sum_exp_error(&self, reference: &Reference, i: usize) -> f64 {
        let max = self.largest_score(reference, i);
        let size = if max.is_finite() {
            (max / f64::from(self.temperature)).abs() + reference.log_sum_exp[i].abs()
        } else {
            0.0
        };
        1.5 * self.weight_error(reference, i) + 4.0 * U * size
    }

    /// Asserts that the fused result is that of the reference, within the bounds of `f32`. It serves finite temperatures above
    /// 0.
    pub fn assert_matches_reference(&self) {
        self.assert_outcome_matches_reference(&self.run());
    }

    pub fn assert_outcome_matches_reference(&self, found: &Attended) {
        let reference = self.reference();
        for i in 0..self.q.rows {
            let tolerance = self.output_error(&reference, i);
            for c in 0..self.v.cols {
                assert_close(
                    found.out.at(i, c),
                    reference.out.at(i, c),
                    tolerance,
                    format_args!("output [{i}, {c}]"),
                );
            }
            let lse = reference.log_sum_exp[i];
            let tolerance = self.log_sum_exp_error(&reference, i);
            assert_close(found.log_sum_exp[i], lse, tolerance, format_args!("log-sum-exp [{i}]"));
        }
    }
}

/// Asserts that two numbers are close. Equal infinities are close, and so are two NaN.
#[track_caller]
pub fn assert_close(found: f32, expected: f64, tolerance: f64, what: impl Display) {
    let found = f64::from(found);
    let close = if expected.is_nan() {
        found.is_nan()
    } else if expected.is_infinite() || found.is_infinite() {
        // A number within rounding of the largest `f32` may round to it or to ∞.
        found == expected
            || (found.is_infinite()
                && expected.abs() >= f64::from(f32::MAX)
                && found * expected > 0.0)
    } else {
        (found - expected).abs() <= tolerance
    };
    assert!(
        close,
        "{what} is {found:e}, not {expected:e} ± {tolerance:e} (off by {:e})",
        (found - expected).abs()
    );
}

/// Whether the active tier rounds a multiply-add once: (1 + ε)² − (1 + 2ε) then keeps its ε².
pub fn is_fused() -> bool {
    let x = 1.0 + 2_f32.powi(-13);
    let mut out = [[0.0]];
    let (a, b) = ([[1.0, x]], [[-(1.0 + 2_f32.powi(-12))], [x]]);
    matmul((&a).into(), (&b).into(), (&mut out).into()).unwrap();
    out[0][0] != 0.0
}

/// The rows as arrays, for the functions of `fixed`.
pub fn array<T: Copy, const R: usize, const C: usize>(m: &Matrix<T>) -> [[T; C]; R] {
    core::array::from_fn(|i| core::array::from_fn(|j| m.at(i, j)))
}

/// Fowler, Noll and Vo's hash (1a, 64 bits).
pub fn hash(bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The bits, with one payload for all NaN, because the contract does not say which payload results.
pub fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() }).collect()
}
