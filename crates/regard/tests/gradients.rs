//! Gradients against central differences of the formula in f64, and against closed forms.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use common::numbers;
use proptest::prelude::*;
use regard::{
    Attention, Gradients, Heads, Linear, Mask, MaskTensor, MultiHeadAttention, Pairing, Position,
    Projections, Rotary, Sequences, Temperature, Tensor, Threads, Window, alibi_slopes,
    softmax_backward, softmax_jacobian,
};

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|x| f64::from(*x)).collect()
}

/// What is attended to, and how. Queries stand at the end of their entry's keys.
#[derive(Clone, Debug)]
struct Case {
    batch: usize,
    kv_heads: usize,
    group: usize,
    n_q: usize,
    n_k: usize,
    d_k: usize,
    d_v: usize,
    causal: bool,
    window: Option<Window>,
    /// Of the batch entries; none if it is empty.
    key_lengths: Vec<usize>,
    /// A slope for each head; none if it is empty.
    slopes: Vec<f32>,
    sinks: bool,
    scale: Option<f32>,
    softcap: Option<f32>,
    temperature: f32,
    /// Of the additive mask.
    bias: Option<[usize; 4]>,
    threads: usize,
}

/// Two query heads on each of two key/value heads, in two entries, and nothing that masks.
const PLAIN: Case = Case {
    batch: 2,
    kv_heads: 2,
    group: 2,
    n_q: 4,
    n_k: 6,
    d_k: 3,
    d_v: 2,
    causal: false,
    window: None,
    key_lengths: vec![],
    slopes: vec![],
    sinks: false,
    scale: None,
    softcap: None,
    temperature: 1.0,
    bias: None,
    threads: 1,
};

/// Everything that has a gradient.
#[derive(Clone)]
struct Inputs {
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    scale: f64,
    bias: Vec<f64>,
    sinks: Vec<f64>,
}

impl Case {
    fn heads(&self) -> usize {
        self.kv_heads * self.group
    }

    /// Σ d_out ∘ out, by the formula.
    fn loss(&self, x: &Inputs, d_out: &[f64]) -> f64 {
        let Self { kv_heads, n_q, n_k, d_k, d_v, .. } = *self;
        let mut loss = 0.0;
        for entry in 0..self.batch {
            for head in 0..self.heads() {
                let kv = entry * kv_heads + head / self.group;
                let len = self.key_lengths.get(entry).copied().unwrap_or(n_k);
                for i in 0..n_q {
                    let place = (i + len) as f64 - n_q as f64;
                    let row = (entry * self.heads() + head) * n_q + i;
                    let score = |j: usize| {
                        let dot: f64 = (0..d_k)
                            .map(|t| x.q[row * d_k + t] * x.k[(kv * n_k + j) * d_k + t])
                            .sum();
                        let mut score = dot * x.scale;
                        if let Some(cap) = self.softcap.map(f64::from) {
                            score = cap * (score / cap).tanh();
                        }
                        if let Some([b, h, rows, keys]) = self.bias {
                            let at = |n: usize, i: usize| if n == 1 { 0 } else { i };
                            score += x.bias[((at(b, entry) * h + at(h, head)) * rows
                                + at(rows, i))
                                * keys
                                + at(keys, j)];
                        }
                        score -= self
                            .slopes
                            .get(head)
                            .map_or(0.0, |slope| f64::from(*slope) * (j as f64 - place).abs());
                        score / f64::from(self.temperature)
                    };
                    let seen = |j: &usize| {
                        let Window { left, right } = self.window.unwrap_or_default();
                        let (to_right, far) = (*j as f64 - place, |n: Option<usize>| {
                            n.map_or(f64::MAX, |n| n as f64)
                        });
                        *j < len
                            && (!self.causal || to_right <= 0.0)
                            && (-to_right <= far(left) && to_right <= far(right))
                    };
                    let weights: Vec<_> =
                        (0..n_k).filter(seen).map(|j| (j, score(j).exp())).collect();
                    let sink = x
                        .sinks
                        .get(head)
                        .map_or(0.0, |sink| (sink / f64::from(self.temperature)).exp());
                    let sum: f64 = weights.iter().map(|(_, w)| w).sum::<f64>() + sink;
                    for (j, w) in weights {
                        let value: f64 = (0..d_v)
                            .map(|c| d_out[row * d_v + c] * x.v[(kv * n_k + j) * d_v + c])
                            .sum();
                        loss += w / sum * value;
                    }
                }
            }
        }
        loss
    }

    fn check(&self) {
        let Self { batch, kv_heads, n_q, n_k, d_k, d_v, .. } = *self;
        let heads = self.heads();
        let (q, k) =
            (numbers(batch * heads * n_q * d_k, 1), numbers(batch * kv_heads * n_k * d_k, 2));
        let (v, d_out) =
            (numbers(batch * kv_heads * n_k * d_v, 3), numbers(batch * heads * n_q * d_v, 4));
        let bias = numbers(self.bias.map_or(0, |shape| shape.iter().product()), 5);
        let end = Position::BottomRight;
        let mut mask = Mask::NONE;
        if self.causal {
            mask = mask.causal(end);
        }
        if let Some(window) = self.window {
            mask = mask.window(end, window);
        }
        if !self.key_lengths.is_empty() {
            mask = mask.key_lengths(&self.key_lengths);
        }
        if !self.slopes.is_empty() {
            mask = mask.alibi(end, &self.slopes);
        }
        if let Some(shape) = self.bias {
            mask = mask.bias(MaskTensor::new(&bias, &shape).unwrap());
        }
        let temperature = Temperature::new(self.temperature).unwrap();
        let mut attention = Attention::new().mask(mask).temperature(temperature);
        let sinks = numbers(if self.sinks { heads } else { 0 }, 6);
        if self.sinks {
            attention = attention.sinks(&sinks);
        }
        if let Some(scale) = self.scale {
            attention = attention.scale(scale);
        }
        if let Some(cap) = self.softcap {
            attention = attention.softcap(cap);
        }
        let query = Heads::new("query", &q, [batch, heads, n_q, d_k]).unwrap();
        let key = Heads::new("key", &k, [batch, kv_heads, n_k, d_k]).unwrap();
        let value = Heads::new("value", &v, [batch, kv_heads, n_k, d_v]).unwrap();
        let threads = Threads::new(self.threads).unwrap();
        let gradients = threads.install(|| {
            let out = attention.forward(query, key, value)?;
            attention.backward(query, key, value, &out, &d_out)
        });
        let Gradients { query, key, value, scale, bias: d_bias, sinks: d_sinks, .. } =
            gradients.unwrap();

        let inputs = Inputs {
            q: wide(&q),
            k: wide(&k),
            v: wide(&v),
            scale: self.scale.map_or_else(|| 1.0 / (d_k as f64).sqrt(), f64::from),
            bias: wide(&bias),
            sinks: wide(&sinks),
        };
        let d_out = wide(&d_out);
        self.compare(&inputs, &d_out, &query, |x| &mut x.q);
        self.compare(&inputs, &d_out, &key, |x| &mut x.k);
        self.compare(&inputs, &d_out, &value, |x| &mut x.v);
        self.compare(&inputs, &d_out, &[scale], |x| core::slice::from_mut(&mut x.scale));
        assert_eq!(d_bias.is_some(), self.bias.is_some());
        self.compare(&inputs, &d_out, &d_bias.map_or_else(Vec::new, Tensor::into_vec), |x| {
            &mut x.bias
        });
        assert_eq!(d_sinks.is_some(), self.sinks);
        self.compare(&inputs, &d_out, &d_sinks.unwrap_or_default(), |x| &mut x.sinks);
    }

    fn compare(
        &self,
        inputs: &Inputs,
        d_out: &[f64],
        found: &[f32],
        of: impl Fn(&mut Inputs) -> &mut [f64],
    ) {
        // Central differences are off by h² · f‴ / 6, some 1e-9 here; the gradient sums some hundred products of numbers
        // near 1 in f32.
        const H: f64 = 1e-5;
        let expected: Vec<f64> = (0..of(&mut inputs.clone()).len())
            .map(|i| {
                let at = |h: f64| {
                    let mut x = inputs.clone();
                    of(&mut x)[i] += h;
                    self.loss(&x, d_out)
                };
                (at(H) - at(-H)) / (2.0 * H)
            })
            .collect();
        let largest = expected.iter().fold(1.0, |max: f64, x| max.max(x.abs()));
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            let error = (f64::from(*found) - expected).abs();
            assert!(error <= 4e-6 * largest, "{found} is not {expected}, in {self:?}");
        }
    }
}

proptest! {
    #[test]
    fn gradients_are_those_of_central_differences(
        (batch, kv_heads, group) in (1..3_usize, 1..3_usize, 1..3_usize),
        (n_q, n_k, d_k, d_v) in (1..6_usize, 1..6_usize, 1..5_usize, 1..5_usize),
        (causal, sinks) in any::<(bool, bool)>(),
        window in prop::option::of((prop::option::of(0..4_usize), prop::option::of(0..4_usize))),
        lengths in prop::option::of((0..6_usize, 0..6_usize)),
        slope in prop::option::of(0.1..1.0_f32),
        scale in prop::option::of(0.1..2.0_f32),
        softcap in prop::option::of(0.5..3.0_f32),
        temperature in 0.3..3.0_f32,
        bias in prop::option::of(any::<[bool; 4]>()),
        threads in 1..3_usize,
    ) {
        let heads = kv_heads * group;
        let full = [batch, heads, n_q, n_k];
        let bias = bias.map(|given| [0, 1, 2, 3].map(|i| if given[i] { full[i] } else { 1 }));
        let window = window.map(|(left, right)| Window { left, right });
        let key_lengths = lengths.map(|(a, b)| [a.min(n_k), b.min(n_k)][..batch].to_vec()).unwrap_or_default();
        let slopes = slope.map(|slope| (1..=heads).map(|h| slope / h as f32).collect()).unwrap_or_default();
        Case {
            batch, kv_heads, group, n_q, n_k, d_k, d_v,
            causal, window, key_lengths, slopes, sinks, scale, softcap, temperature, bias, threads,
        }.check();
    }
}

/// Each of what an attention can be asked for, alone, on grouped queries.
#[test]
fn nothing_that_is_asked_for_lacks_its_gradient() {
    PLAIN.check();
    Case { causal: true, ..PLAIN }.check();
    Case { causal: true, n_q: 6, n_k: 4, ..PLAIN }.check(); // two queries before all keys see nothing
    Case { window: Some(Window { left: Some(1), right: Some(1) }), ..PLAIN }.check();
    Case { key_lengths: vec![2, 5], ..PLAIN }.check();
    Case { key_lengths: vec![0, 6], causal: true, ..PLAIN }.check();
    Case { slopes: alibi_slopes(4), ..PLAIN }.check();
    Case { sinks: true, ..PLAIN }.check();
    Case {
        sinks: true,
        temperature: 0.4,
        softcap: Some(1.5),
        causal: true,
        n_q: 6,
        n_k: 4,
        ..PLAIN
    }
    .check();
    Case { scale: Some(-0.8), ..PLAIN }.check();
    Case { softcap: Some(0.7), ..PLAIN }.check();
    Case { temperature: 0.4, ..PLAIN }.check();
    for mask in 0..16 {
        let full = [2, 4, 4, 6];
        let bias =
            [0, 1, 2, 3].map(|axis: usize| if (mask >> axis) & 1 == 1 { full[axis] } else { 1 });
        Case { bias: Some(bias), ..PLAIN }.check();
    }
}

#[test]
fn more_queries_than_a_block() {
    for softcap in [None, Some(1.0)] {
        let (n_q, n_k) = (37, 41);
        let case = Case { batch: 1, kv_heads: 1, n_q, n_k, causal: true, sinks: true, ..PLAIN };
        Case { softcap, temperature: 0.7, threads: 2, ..case }.check();
    }
}

#[test]
fn a_sink_without_weight_has_no_gradient() {
    let x = Heads::new("x", &[1.0, 2.0], [1, 1, 2, 1]).unwrap();
    // The first query sees nothing, neither a key nor the sink.
    let mask = MaskTensor::new(&[false, true], &[2, 1]).unwrap();
    let attention = Attention::new().mask(Mask::NONE.allowed(mask)).sinks(&[f32::NEG_INFINITY]);
    let (out, log_sum_exp) = attention.forward_with_log_sum_exp(x, x, x).unwrap();
    assert_eq!(log_sum_exp[0], f32::NEG_INFINITY);
    let gradients = attention.backward(x, x, x, &out, &[1.0, 1.0]).unwrap();
    assert_eq!(gradients.sinks, Some(vec![0.0]));
}

#[test]
fn what_no_query_sees_has_gradient_zero_even_if_it_is_nan() {
    let (q, d_out) = (numbers(4, 1), numbers(4, 2));
    let (mut k, mut v) = (numbers(6, 3), numbers(6, 4));
    k[4..].fill(f32::NAN);
    v[4..].fill(f32::NAN);
    let q = Heads::new("query", &q, [1, 1, 2, 2]).unwrap();
    let (k, v) = (
        Heads::new("key", &k, [1, 1, 3, 2]).unwrap(),
        Heads::new("value", &v, [1, 1, 3, 2]).unwrap(),
    );
    // The first query sees nothing at all, the second the keys 0 and 1.
    let hidden = [false, false, false, true, true, false];
    let mask = MaskTensor::new(&hidden, &[2, 3]).unwrap();
    let attention = Attention::new().mask(Mask::NONE.allowed(mask));
    let out = attention.forward(q, k, v).unwrap();
    let gradients = attention.backward(q, k, v, &out, &d_out).unwrap();
    assert_eq!(gradients.query[..2], [0.0; 2]);
    assert_eq!((&gradients.key[4..], &gradients.value[4..]), (&[0.0; 2][..], &[0.0; 2][..]));
    assert!(
        [&gradients.query[..], &gradients.key, &gradients.value]
            .concat()
            .iter()
            .all(|x| x.is_finite())
    );
}

#[test]
fn a_query_that_sees_nothing_has_no_part_even_if_it_is_nan() {
    let (q, x) = ([f32::NAN, 1.0], [1.0, 2.0]);
    let (q, x) = (
        Heads::new("query", &q, [1, 1, 2, 1]).unwrap(),
        Heads::new("x", &x, [1, 1, 2, 1]).unwrap(),
    );
    // The second query sees the first key alone, the first sees none; whatever is asked of its output.
    let attention = Attention::new().mask(Mask::NONE.causal(Position::Offset(-1)));
    let out = attention.forward(q, x, x).unwrap();
    let gradients = attention.backward(q, x, x, &out, &[f32::NAN, 3.0]).unwrap();
    assert!(gradients.query == [0.0; 2] && gradients.key == [0.0; 2] && gradients.scale == 0.0);
    assert_eq!(gradients.value, [3.0, 0.0]);
}

#[test]
fn large_scores_have_the_gradients_of_their_weights() {
    let q = Heads::new("query", &[1.0], [1, 1, 1, 1]).unwrap();
    let (k, v) = ([0.5; 4], [1.0, 2.0, 3.0, 4.0]);
    let (k, v) = (
        Heads::new("key", &k, [1, 1, 4, 1]).unwrap(),
        Heads::new("value", &v, [1, 1, 4, 1]).unwrap(),
    );
    for bias in [0.0, -1e5, -1e9, f32::MIN, 1e30] {
        // The log-sum-exp of four such scores is that of one.
        let bias = [bias];
        let bias = MaskTensor::new(&bias, &[1]).unwrap();
        let attention = Attention::new().mask(Mask::NONE.bias(bias));
        let out = attention.forward(q, k, v).unwrap();
        let gradients = attention.backward(q, k, v, &out, &[1.0]).unwrap();
        assert_eq!(gradients.value, [0.25; 4], "{bias:?}");
        assert_eq!(gradients.key, [-0.375, -0.125, 0.125, 0.375], "{bias:?}");
    }
    // A score of ∞ has all weight, and no slope.
    let bias = [0.0, f32::INFINITY, 0.0, 0.0];
    let bias = MaskTensor::new(&bias, &[4]).unwrap();
    let attention = Attention::new().mask(Mask::NONE.bias(bias));
    let out = attention.forward(q, k, v).unwrap();
    let gradients = attention.backward(q, k, v, &out, &[1.0]).unwrap();
    assert_eq!(gradients.value, [0.0, 1.0, 0.0, 0.0]);
    assert_eq!(gradients.key, [0.0; 4]);
    // And a sink shares the weight of a key of its score, however cold it is.
    let (k, v) = (
        Heads::new("key", &[2.0], [1, 1, 1, 1]).unwrap(),
        Heads::new("value", &[4.0], [1, 1, 1, 1]).unwrap(),
    );
    let cold = Attention::new().sinks(&[2.0]).temperature(Temperature::new(1e-30).unwrap());
    let out = cold.forward(q, k, v).unwrap();
    let gradients = cold.backward(q, k, v, &out, &[1.0]).unwrap();
    assert!(out == [2.0] && gradients.value == [0.5]);
    assert_eq!(gradients.sinks, Some(vec![-1e30]));
}

#[test]
fn a_temperature_of_zero_has_no_gradient() {
    let x = Heads::new("x", &[1.0], [1, 1, 1, 1]).unwrap();
    let attention = Attention::new().temperature(Temperature::new(0.0).unwrap());
    let error = attention.backward(x, x, x, &[1.0], &[1.0]).unwrap_err();
    assert_eq!(error.to_string(), "temperature is 0, but must be 2⁻¹²⁶ or more for gradients");
    let hot = Attention::new().temperature(Temperature::new(f32::INFINITY).unwrap());
    let out = hot.forward(x, x, x).unwrap();
    let gradients = hot.backward(x, x, x, &out, &[3.0]).unwrap();
    assert!(gradients.query == [0.0] && gradients.value == [3.0]);
}

#[test]
fn softmax_has_its_jacobian() {
    let (weights, t) = ([0.2, 0.3, 0.5], Temperature::new(2.0).unwrap());
    let jacobian = softmax_jacobian(&weights, t).unwrap();
    for (i, p) in weights.iter().enumerate() {
        for (j, other) in weights.iter().enumerate() {
            let expected = if i == j { p * (1.0 - p) } else { -p * other } / 2.0;
            assert!((jacobian[i * 3 + j] - expected).abs() < 1e-7);
        }
    }
    let d_weights = [1.0, -2.0, 0.5];
    let product = softmax_backward(&weights, &d_weights, t).unwrap();
    for (row, found) in jacobian.chunks_exact(3).zip(product) {
        let expected: f32 = row.iter().zip(d_weights).map(|(x, d)| x * d).sum();
        assert!((found - expected).abs() < 1e-6);
    }
    assert!(softmax_backward(&weights, &[1.0], t).is_err());
    let zero = Temperature::new(0.0).unwrap();
    assert!(
        softmax_backward(&weights, &d_weights, zero).is_err()
            && softmax_jacobian(&weights, zero).is_err()
    );
}

/// The layer's own forward pass is tested elsewhere: here its slope is, by central differences of it in f32, which are good to
/// some 1e-3.
fn check_layer(rotary: Option<&Rotary>) {
    let (batch, n_q, n_k, d, heads, kv_heads, d_k, d_v) = (2, 3, 4, 5, 4, 2, 3, 2);
    let sizes = [(d, heads * d_k), (d, kv_heads * d_k), (d, kv_heads * d_v), (heads * d_v, d)];
    // Weights and biases of the four projections, then query, key and value.
    let mut parameters: Vec<Vec<f32>> = sizes
        .iter()
        .zip(1..)
        .flat_map(|((inputs, outputs), i)| {
            [numbers(inputs * outputs, i), numbers(*outputs, 10 + i)]
        })
        .collect();
    parameters.extend([
        numbers(batch * n_q * d, 21),
        numbers(batch * n_k * d, 22),
        numbers(batch * n_k * d, 23),
    ]);
    let d_out = numbers(batch * n_q * d, 24);
    let attention = Attention::new().mask(Mask::CAUSAL);

    let layer = |p: &[Vec<f32>]| {
        let linear = |i: usize| {
            let (inputs, outputs) = sizes[i];
            Linear::new(p[2 * i].clone(), inputs, outputs)
                .unwrap()
                .with_bias(p[2 * i + 1].clone())
                .unwrap()
        };
        let layer = MultiHeadAttention::new(
            heads,
            Projections { query: linear(0), key: linear(1), value: linear(2), output: linear(3) },
        )
        .unwrap();
        match rotary {
            Some(rotary) => layer.with_rotary(rotary.clone()).unwrap(),
            None => layer,
        }
    };
    let sequences = |x: &[f32]| x.len() / (batch * d);
    let loss = |p: &[Vec<f32>]| -> f64 {
        let [q, k, v] = [&p[8], &p[9], &p[10]]
            .map(|x| Sequences::new("x", x, [batch, sequences(x), d]).unwrap());
        let out = layer(p).forward(q, k, v, &attention).unwrap();
        out.iter().zip(&d_out).map(|(y, d)| f64::from(*y) * f64::from(*d)).sum()
    };
    let [q, k, v] = [8, 9, 10].map(|i: usize| {
        let x: &Vec<f32> = &parameters[i];
        Sequences::new("x", x, [batch, sequences(x), d]).unwrap()
    });
    let g = layer(&parameters).backward(q, k, v, &attention, &d_out).unwrap();
    let found = [
        g.query.weight,
        g.query.bias,
        g.key.weight,
        g.key.bias,
        g.value.weight,
        g.value.bias,
        g.output.weight,
        g.output.bias,
        g.query.input,
        g.key.input,
        g.value.input,
    ];
    for (i, found) in found.iter().enumerate() {
        assert_eq!(found.len(), parameters[i].len());
        for (j, found) in found.iter().enumerate() {
            let at = |h: f32| {
                let mut p = parameters.clone();
                p[i][j] += h;
                (f64::from(p[i][j]), loss(&p))
            };
            let ((x, y), (x_before, y_before)) = (at(1e-2), at(-1e-2));
            let expected = (y - y_before) / (x - x_before);
            assert!(
                (f64::from(*found) - expected).abs() < 2e-3,
                "{found} is not {expected}: parameter {i}, {j}"
            );
        }
    }
}

#[test]
fn the_whole_multi_head_layer_has_a_backward_pass() {
    check_layer(None);
}

#[test]
fn rotary_positions_have_a_backward_pass() {
    for pairing in [Pairing::Interleaved, Pairing::HalfSplit] {
        check_layer(Some(&Rotary::new(2, 8, 10.0, pairing).unwrap()));
    }
}
