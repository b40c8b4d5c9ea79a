//! The layers of a transformer, compared with plain `f64` loops within bounds that the loops also compute; and the promises
//! about threads, rows and errors.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::bounded::{Num, assert_within, softmax};
use common::{bits, numbers};
use proptest::prelude::*;
use regard::{
    Activation, Attention, Error, FeedForward, GatedParts, Linear, Mask, MultiHeadAttention, Norm,
    Pairing, PositionTable, Projections, Rotary, Sequences, Tensor, Threads,
};

/// Rows of numbers with their bounds.
type Rows = Vec<Vec<Num>>;

fn exact(x: &[f32], cols: usize) -> Rows {
    x.chunks(cols).map(|row| row.iter().copied().map(Num::exact).collect()).collect()
}

/// The weights of a linear layer, so small that sums stay around 1.
#[derive(Clone)]
struct Dense {
    weight: Vec<f32>,
    bias: Vec<f32>,
    inputs: usize,
    outputs: usize,
}

impl Dense {
    fn new(inputs: usize, outputs: usize, seed: u64) -> Self {
        let size = 1.5 / (inputs as f32).sqrt();
        let weight = numbers(inputs * outputs, seed).iter().map(|w| w * size).collect();
        Self { weight, bias: numbers(outputs, seed + 1000), inputs, outputs }
    }

    fn build(&self) -> Linear {
        Linear::from_conv1d(self.weight.clone(), [self.inputs, self.outputs])
            .unwrap()
            .with_bias(self.bias.clone())
            .unwrap()
    }

    fn of(&self, x: &Rows) -> Rows {
        let element = |row: &[Num], c: usize| {
            let weights = (0..self.inputs).map(|t| Num::exact(self.weight[t * self.outputs + c]));
            let bias = (Num::exact(self.bias[c]), Num::exact(1.0));
            Num::dot(row.iter().copied().zip(weights).chain([bias]))
        };
        x.iter().map(|row| (0..self.outputs).map(|c| element(row, c)).collect()).collect()
    }
}

#[derive(Clone)]
struct Normed {
    gamma: Vec<f32>,
    beta: Option<Vec<f32>>,
}

impl Normed {
    const EPSILON: f32 = 1e-5;

    fn new(d: usize, rms: bool, seed: u64) -> Self {
        Self { gamma: numbers(d, seed), beta: (!rms).then(|| numbers(d, seed + 1)) }
    }

    fn build(&self) -> Norm {
        match &self.beta {
            Some(beta) => Norm::layer(self.gamma.clone(), beta.clone(), Self::EPSILON).unwrap(),
            None => Norm::rms(self.gamma.clone(), Self::EPSILON).unwrap(),
        }
    }

    fn of(&self, x: &Rows) -> Rows {
        let row = |x: &Vec<Num>| -> Vec<Num> {
            let share = Num::constant(1.0 / x.len() as f64);
            let deviations = if self.beta.is_some() {
                let mean = Num::sum(x.iter().copied()).times(share);
                x.iter().map(|x| x.minus(mean)).collect()
            } else {
                x.clone()
            };
            let variance = Num::dot(deviations.iter().map(|x| (*x, *x))).times(share);
            let factor = variance.reciprocal_root(Self::EPSILON);
            let element = |(c, x): (usize, &Num)| {
                let scaled = x.times(factor).times(Num::exact(self.gamma[c]));
                match &self.beta {
                    Some(beta) => Num::sum([scaled, Num::exact(beta[c])]),
                    None => scaled,
                }
            };
            deviations.iter().enumerate().map(element).collect()
        };
        x.iter().map(row).collect()
    }
}

/// Attention with its projections, and with rotary positions if it has a pairing.
struct MultiHead {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    value_dim: usize,
    projections: [Dense; 4],
    pairing: Option<Pairing>,
}

impl MultiHead {
    fn new(
        [d, memory]: [usize; 2],
        [heads, kv_heads]: [usize; 2],
        [head_dim, value_dim]: [usize; 2],
        seed: u64,
    ) -> Self {
        let shapes = [
            (d, heads * head_dim),
            (memory, kv_heads * head_dim),
            (memory, kv_heads * value_dim),
            (heads * value_dim, d),
        ];
        let mut seed = seed;
        let projections = shapes.map(|(inputs, outputs)| {
            seed += 1;
            Dense::new(inputs, outputs, seed)
        });
        Self { heads, kv_heads, head_dim, value_dim, projections, pairing: None }
    }

    fn build(&self) -> MultiHeadAttention {
        let [query, key, value, output] = self.projections.each_ref().map(Dense::build);
        let projections = Projections { query, key, value, output };
        let mut layer = MultiHeadAttention::new(self.heads, projections).unwrap();
        if let Some(pairing) = self.pairing {
            let rotary = Rotary::new(self.head_dim, 64, 100.0, pairing).unwrap();
            layer = layer.with_rotary(rotary).unwrap();
        }
        layer
    }

    /// Rotates queries or keys of one sequence: each head's part of a row by the row's number.
    fn turned(&self, x: Rows) -> Rows {
        let d = self.head_dim;
        let Some(pairing) = self.pairing else { return x };
        let mut turned = x.clone();
        for (t, (from, to)) in x.iter().zip(&mut turned).enumerate() {
            for (from, to) in from.chunks(d).zip(to.chunks_mut(d)) {
                for i in 0..d / 2 {
                    let (a, b) = if pairing == Pairing::HalfSplit {
                        (i, i + d / 2)
                    } else {
                        (2 * i, 2 * i + 1)
                    };
                    let (sin, cos) = (t as f64 / 100_f64.powf(2.0 * i as f64 / d as f64)).sin_cos();
                    let [sin, cos, back] = [sin, cos, -sin].map(Num::constant);
                    to[a] = Num::dot([(from[a], cos), (from[b], back)]);
                    to[b] = Num::dot([(from[b], cos), (from[a], sin)]);
                }
            }
        }
        turned
    }

    fn of(&self, query: &Rows, key: &Rows, causal: bool) -> Rows {
        let [q, k, v] = [(0, query), (1, key), (2, key)].map(|(i, x)| self.projections[i].of(x));
        let (q, k) = (self.turned(q), self.turned(k));
        let d = self.head_dim;
        let part = |x: &[Num], head: usize| x[head * d..][..d].to_vec();
        let scale = Num::constant(1.0 / (d as f64).sqrt());
        let row = |i: usize| -> Vec<Num> {
            let head = |h: usize| -> Vec<Num> {
                let kv = h / (self.heads / self.kv_heads);
                let seen = if causal { i + 1 } else { key.len() };
                let score = |j: usize| {
                    Num::dot(part(&q[i], h).into_iter().zip(part(&k[j], kv))).times(scale)
                };
                let weights = softmax(&(0..seen).map(score).collect::<Vec<_>>());
                let column = |c: usize| {
                    Num::dot((0..seen).map(|j| (weights[j], v[j][kv * self.value_dim + c])))
                };
                (0..self.value_dim).map(column).collect()
            };
            (0..self.heads).flat_map(head).collect()
        };
        self.projections[3].of(&(0..query.len()).map(row).collect())
    }
}

fn activation_of(activation: Activation, x: f64) -> f64 {
    match activation {
        Activation::Relu => x.max(0.0),
        Activation::GeluTanh => {
            0.5 * x
                * (1.0 + ((2.0 / core::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
        }
        Activation::QuickGelu => x / (1.0 + (-1.702 * x).exp()),
        Activation::Silu => x / (1.0 + (-x).exp()),
        _ => 0.5 * x * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2),
    }
}

struct Feed {
    gate: Option<Dense>,
    up: Dense,
    down: Dense,
    activation: Activation,
}

impl Feed {
    fn new(d: usize, hidden: usize, activation: Activation, gated: bool, seed: u64) -> Self {
        let gate = gated.then(|| Dense::new(d, hidden, seed + 2));
        Self {
            gate,
            up: Dense::new(d, hidden, seed),
            down: Dense::new(hidden, d, seed + 1),
            activation,
        }
    }

    fn build(&self) -> FeedForward {
        let (up, down) = (self.up.build(), self.down.build());
        match &self.gate {
            Some(gate) => {
                let (gate, activation) = (gate.build(), self.activation);
                FeedForward::gated(GatedParts { gate, activation, up, down }).unwrap()
            }
            None => FeedForward::new(up, self.activation, down).unwrap(),
        }
    }

    fn of(&self, x: &Rows) -> Rows {
        /// The largest slope of the activation functions, which is that of GELU.
        const SLOPE: f64 = 1.13;
        let activate = |x: Num| x.apply(SLOPE, |x| activation_of(self.activation, x));
        let all = |x: Rows| -> Rows {
            x.into_iter().map(|x| x.into_iter().map(activate).collect()).collect()
        };
        let up = self.up.of(x);
        let Some(gate) = &self.gate else { return self.down.of(&all(up)) };
        let gate = all(gate.of(x));
        let times = |(g, u): (&Num, &Num)| g.times(*u);
        let rows = gate.iter().zip(&up);
        self.down.of(&rows.map(|(g, u)| g.iter().zip(u).map(times).collect()).collect())
    }
}

fn activation() -> impl Strategy<Value = Activation> {
    prop::sample::select(vec![
        Activation::Relu,
        Activation::Gelu,
        Activation::GeluTanh,
        Activation::QuickGelu,
        Activation::Silu,
    ])
}

fn pairing() -> impl Strategy<Value = Option<Pairing>> {
    prop::sample::select(vec![None, Some(Pairing::HalfSplit), Some(Pairing::Interleaved)])
}

proptest! {
    #[test]
    fn attention_with_positions_is_its_formula(
        (kv_heads, group, d_k, d_v, d) in (1_usize..3, 1_usize..4, 1_usize..10, 1_usize..10, 1_usize..24),
        (memory, n, n_k) in (1_usize..20, 1_usize..12, 1_usize..9),
        (causal, cross) in any::<(bool, bool)>(),
        pairing in pairing(),
    ) {
        let memory = if cross { memory } else { d };
        // Features are rotated in pairs.
        let d_k = if pairing.is_some() { 2 * d_k } else { d_k };
        let mut heads = MultiHead::new([d, memory], [kv_heads * group, kv_heads], [d_k, d_v], 10);
        heads.pairing = pairing;
        let layer = heads.build();
        let (x, other) = (numbers(2 * n * d, 1), numbers(2 * n_k * memory, 2));
        let query = Sequences::new("x", &x, [2, n, d]).unwrap();
        let other_view = Sequences::new("memory", &other, [2, n_k, memory]).unwrap();
        let (key, keys, n_k) = if cross { (other_view, &other, n_k) } else { (query, &x, n) };
        let causal = causal && !cross;
        let attention = Attention::new().mask(if causal { Mask::CAUSAL } else { Mask::NONE });
        let found = layer.forward(query, key, key, &attention).unwrap();
        for (entry, found) in found.as_slice().chunks(n * d).enumerate() {
            let x = exact(&x[entry * n * d..][..n * d], d);
            let key = exact(&keys[entry * n_k * memory..][..n_k * memory], memory);
            assert_within(found, &heads.of(&x, &key, causal));
        }
        let weights = layer.attention_weights(query, key, &attention).unwrap();
        prop_assert_eq!(weights.as_slice().len(), 2 * kv_heads * group * n * n_k);
        // Each weight is rounded twice, and their sum n_k times.
        let tolerance = (n_k + 2) as f32 * f32::EPSILON;
        prop_assert!(weights.as_slice().chunks(n_k).all(|row| (row.iter().sum::<f32>() - 1.0).abs() <= tolerance));
    }

    #[test]
    fn norms_are_their_formulas((n, d) in (0_usize..20, 1_usize..40), rms: bool) {
        let (norm, x) = (Normed::new(d, rms, 30), numbers(n * d, 1));
        let found = norm.build().forward(Sequences::new("x", &x, [1, n, d]).unwrap()).unwrap();
        assert_within(found.as_slice(), &norm.of(&exact(&x, d)));
    }

    #[test]
    fn feed_forward_layers_are_their_formulas(
        (n, d, hidden) in (0_usize..30, 1_usize..40, 0_usize..60),
        activation in activation(),
        gated: bool,
    ) {
        let feed = Feed::new(d, hidden, activation, gated, 7);
        let x = numbers(n * d, 3);
        let found = feed.build().forward(Sequences::new("x", &x, [1, n, d]).unwrap()).unwrap();
        assert_within(found.as_slice(), &feed.of(&exact(&x, d)));
    }
}

/// A norm, an attention and a gated feed-forward layer, so large that all threads take part.
struct Layers {
    norm: Norm,
    attention: MultiHeadAttention,
    feed_forward: FeedForward,
}

impl Layers {
    fn new(d: usize) -> Self {
        let mut heads = MultiHead::new([d, d], [4, 2], [d / 4, d / 4], 100);
        heads.pairing = Some(Pairing::HalfSplit);
        let feed = Feed::new(d, 3 * d, Activation::Silu, true, 110);
        let norm = Normed::new(d, true, 120).build();
        Self { norm, attention: heads.build(), feed_forward: feed.build() }
    }

    fn forward(&self, x: Sequences<'_>, attention: &Attention<'_>) -> Result<Tensor<3>, Error> {
        let normed = self.norm.forward(x)?;
        let x = normed.sequences();
        self.feed_forward.forward(self.attention.forward(x, x, x, attention)?.sequences())
    }
}

#[test]
fn neither_threads_nor_other_entries_nor_later_tokens_show_in_the_bits() {
    let (d, n) = (96, 61);
    let layers = Layers::new(d);
    let x = numbers(3 * n * d, 5);
    let run = |x: &[f32], shape: [usize; 3], threads: Threads| {
        let (x, causal) = (Sequences::new("x", x, shape), Attention::new().mask(Mask::CAUSAL));
        bits(&threads.install(|| layers.forward(x.unwrap(), &causal)).unwrap())
    };
    let all = run(&x, [3, n, d], Threads::ONE);
    for threads in [2, 3, 8] {
        assert!(run(&x, [3, n, d], Threads::new(threads).unwrap()) == all, "{threads} threads");
    }
    for (x, all) in x.chunks(n * d).zip(all.chunks(n * d)) {
        assert!(run(x, [1, n, d], Threads::ONE) == all, "one entry alone");
        for first in [1, 7, 40] {
            assert!(
                run(&x[..first * d], [1, first, d], Threads::ONE) == all[..first * d],
                "the first {first} tokens"
            );
        }
    }
}

#[test]
fn positions_are_added_by_place() {
    let table = PositionTable::sinusoidal(20, 6).unwrap();
    let mut x = vec![0.0; 2 * 3 * 6];
    table.add(&mut x, [2, 3, 6], 4).unwrap();
    for (row, x) in x.chunks(6).enumerate() {
        let t = (4 + row % 3) as f64;
        for (i, x) in x.iter().enumerate() {
            let angle = t / 10_000_f64.powf((i / 2 * 2) as f64 / 6.0);
            let expected = if i % 2 == 0 { angle.sin() } else { angle.cos() };
            // The table is computed in f64 and rounded once. The largest sine is 1.
            let limit = f64::from(f32::EPSILON) / 2.0;
            assert!((f64::from(*x) - expected).abs() <= limit, "feature {i} of position {t}");
        }
    }
    let learned = PositionTable::learned(numbers(20 * 6, 8), [20, 6]).unwrap();
    let mut x = vec![0.0; 20 * 6];
    learned.add(&mut x, [1, 20, 6], 0).unwrap();
    assert_eq!(x, numbers(20 * 6, 8));
    learned.add(&mut [], [5, 0, 6], 20).unwrap();
}

#[test]
fn parts_refuse_what_does_not_fit() {
    for epsilon in [-1e-6, f32::NAN, f32::INFINITY] {
        assert!(
            Norm::rms(vec![1.0; 3], epsilon).unwrap_err().to_string().starts_with("epsilon is ")
        );
    }
    let table = PositionTable::sinusoidal(4, 2).unwrap();
    let mut x = [1.0; 6];
    assert!(matches!(table.add(&mut x, [1, 3, 2], usize::MAX), Err(Error::Positions { .. })));
    assert!(matches!(table.add(&mut x, [1, 1, 2], 0), Err(Error::Elements { .. })));
    assert!(matches!(PositionTable::sinusoidal(usize::MAX, 2), Err(Error::Memory { .. })));

    for base in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(Rotary::new(2, 4, base, Pairing::HalfSplit).is_err(), "{base}");
    }
    assert!(matches!(
        Rotary::new(2, usize::MAX, 1e4, Pairing::HalfSplit),
        Err(Error::Memory { .. })
    ));
    let rotary = Rotary::new(4, 4, 1e4, Pairing::HalfSplit).unwrap();
    assert_eq!(
        rotary.rotate(&mut x, [1, 3, 1, 2], 0).unwrap_err().to_string(),
        "rotary features must have the shape [2] (at most head_dim), not [4]"
    );
    let mut x8 = [1.0; 8];
    assert!(matches!(
        rotary.rotate(&mut x8, [1, 2, 1, 4], 3),
        Err(Error::Positions { needed: 5, table: 4, .. })
    ));
    assert_eq!((x, x8), ([1.0; 6], [1.0; 8]), "left as they were");
    // The sequence of this layer is longer than its angles.
    let layer = MultiHead::new([4, 4], [1, 1], [4, 4], 1).build().with_rotary(rotary).unwrap();
    let long = numbers(5 * 4, 1);
    let long = Sequences::new("x", &long, [1, 5, 4]).unwrap();
    assert!(matches!(
        layer.forward(long, long, long, &Attention::new()),
        Err(Error::Positions { .. })
    ));
}

#[test]
fn outputs_of_a_weight_of_several_pages_are_those_of_its_rows() {
    let (inputs, outputs) = (500, 1050);
    let (weight, x) = (numbers(inputs * outputs, 41), numbers(inputs, 42));
    let turned: Vec<f32> =
        (0..inputs * outputs).map(|i| weight[i % outputs * inputs + i / outputs]).collect();
    let x = Sequences::new("x", &x, [1, 1, inputs]).unwrap();
    let rows = Linear::from_pytorch(&weight, [outputs, inputs]).unwrap().forward(x).unwrap();
    let columns = Linear::from_conv1d(&turned, [inputs, outputs]).unwrap().forward(x).unwrap();
    assert_eq!(bits(&rows), bits(&columns));
    for row in [0, 15, 16, outputs - 1] {
        let one = Linear::from_pytorch(&weight[row * inputs..][..inputs], [1, inputs]).unwrap();
        assert_eq!(bits(&one.forward(x).unwrap()), bits(&rows.as_slice()[row..=row]));
    }
}

#[test]
fn empty_sequences_and_sizes_larger_than_memory_are_no_panics() {
    let d = 4;
    let layers = Layers::new(8);
    let none: [f32; 0] = [];
    for shape in [[0, 3, 8], [2, 0, 8], [0, 0, 8]] {
        let x = Sequences::new("x", &none, shape).unwrap();
        let y = layers.forward(x, &Attention::new()).unwrap();
        let weights = layers.attention.attention_weights(x, x, &Attention::new()).unwrap();
        let [batch, n, _] = shape;
        assert_eq!((y.shape(), weights.shape()), (shape, [batch, 4, n, n]));
    }
    // Rows without elements, as many as a number can hold.
    for many in [1 << 40, usize::MAX] {
        let x = Sequences::new("x", &none, [1, many, 0]).unwrap();
        assert_eq!(Norm::rms(vec![], 0.0).unwrap().forward(x).unwrap(), none);
        let weightless = |outputs| Linear::from_conv1d::<f32>([], [0, outputs]).unwrap();
        let layer = FeedForward::new(
            weightless(d),
            Activation::Relu,
            Linear::from_conv1d(vec![0.0; 4], [d, 1]).unwrap(),
        )
        .unwrap();
        assert!(matches!(layer.forward(x), Err(Error::Memory { .. })));
        let output = Linear::from_conv1d(vec![0.0; 8], [d, 2]).unwrap();
        let (query, key, value) = (weightless(d), weightless(d), weightless(d));
        let heads = MultiHeadAttention::new(2, Projections { query, key, value, output }).unwrap();
        assert!(matches!(heads.forward(x, x, x, &Attention::new()), Err(Error::Memory { .. })));
    }
}
