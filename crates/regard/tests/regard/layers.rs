//! The layers of a transformer. A linear layer and the activations are compared with their formulas in `f64`. The other layers
//! have the bits of the parts that they are made of, whose formulas the tests of gradients, of rotary positions and of the
//! kernels check. And the promises about threads, rows and errors.

use crate::bounded::{Num, assert_within};
use crate::common::{U, bits, numbers};
use proptest::prelude::*;
use regard::{
    Activation, Attention, Error, FeedForward, GatedParts, Heads, Linear, Mask, MultiHeadAttention,
    Norm, Pairing, PositionTable, Projections, Rotary, Sequences, Stage, Tensor, Threads,
};
use regard_kernels::{MatMut, layer_norm, rms_norm, tanh};

/// The weight and the bias of a linear layer. The weights are so small that sums stay around 1.
fn weights(inputs: usize, outputs: usize, seed: u64) -> (Vec<f32>, Vec<f32>) {
    let size = 1.5 / (inputs as f32).sqrt();
    let weight = numbers(inputs * outputs, seed).iter().map(|w| w * size).collect();
    (weight, numbers(outputs, seed + 1000))
}

fn linear(inputs: usize, outputs: usize, seed: u64) -> Linear {
    let (weight, bias) = weights(inputs, outputs, seed);
    Linear::from_conv1d(weight, [inputs, outputs]).unwrap().with_bias(bias).unwrap()
}

/// The projections of attention between features of `d` and of `memory` numbers.
fn projections(
    [d, memory]: [usize; 2],
    [heads, kv_heads]: [usize; 2],
    [d_k, d_v]: [usize; 2],
) -> Projections {
    Projections {
        query: linear(d, heads * d_k, 11),
        key: linear(memory, kv_heads * d_k, 12),
        value: linear(memory, kv_heads * d_v, 13),
        output: linear(heads * d_v, d, 14),
    }
}

/// A gated layer, and a layer without a gate, with the same weights.
fn feed_forward(d: usize, hidden: usize, activation: Activation, gated: bool) -> FeedForward {
    let (gate, up, down) = (linear(d, hidden, 23), linear(d, hidden, 21), linear(hidden, d, 22));
    if gated {
        FeedForward::gated(GatedParts { gate, activation, up, down }).unwrap()
    } else {
        FeedForward::new(up, activation, down).unwrap()
    }
}

proptest! {
    #[test]
    fn linear_layers_are_their_formula((n, inputs, outputs) in (0_usize..30, 0_usize..60, 1_usize..40)) {
        let (x, (weight, bias)) = (numbers(n * inputs, 1), weights(inputs, outputs, 2));
        let layer = linear(inputs, outputs, 2);
        let rows = Sequences::new("x", &x, [1, n, inputs]).unwrap();
        let found = layer.forward(rows).unwrap();
        let mut old = vec![f32::NAN; n * outputs];
        layer.forward_into(rows, &mut old).unwrap();
        prop_assert_eq!(bits(&old), bits(&found));
        let element = |i: usize| {
            let (row, c) = (i / outputs, i % outputs);
            let term = |t: usize| (x[row * inputs + t], weight[t * outputs + c]);
            let terms = (0..inputs).map(term).chain([(bias[c], 1.0)]);
            Num::dot(terms.map(|(a, b)| (Num::exact(a), Num::exact(b))))
        };
        assert_within(found.as_slice(), &[(0..n * outputs).map(element).collect()]);
    }

    #[test]
    fn attention_with_positions_has_the_bits_of_its_parts(
        (kv_heads, group, d_k, d_v, d) in (1_usize..3, 1_usize..4, 1_usize..10, 1_usize..10, 1_usize..24),
        (memory, n, n_k) in (1_usize..20, 1_usize..12, 1_usize..9),
        (causal, cross) in any::<(bool, bool)>(),
        pairing in prop::sample::select(vec![None, Some(Pairing::HalfSplit), Some(Pairing::Interleaved)]),
    ) {
        let (heads, memory) = (kv_heads * group, if cross { memory } else { d });
        // Features are rotated in pairs.
        let d_k = if pairing.is_some() { 2 * d_k } else { d_k };
        let parts = projections([d, memory], [heads, kv_heads], [d_k, d_v]);
        let mut layer = MultiHeadAttention::new(heads, parts.clone()).unwrap();
        let rotary = pairing.map(|pairing| Rotary::new(d_k, 64, 100.0, pairing).unwrap());
        if let Some(rotary) = &rotary {
            layer = layer.with_rotary(rotary.clone()).unwrap();
        }
        let (x, other) = (numbers(2 * n * d, 1), numbers(2 * n_k * memory, 2));
        let query = Sequences::new("x", &x, [2, n, d]).unwrap();
        let other = Sequences::new("memory", &other, [2, n_k, memory]).unwrap();
        let key = if cross { other } else { query };
        let attention = Attention::new().mask(if causal { Mask::CAUSAL } else { Mask::NONE });

        let mut q = parts.query.forward(query).unwrap();
        let [mut k, v] = [&parts.key, &parts.value].map(|part| part.forward(key).unwrap());
        if let Some(rotary) = &rotary {
            for (x, heads) in [(&mut q, heads), (&mut k, kv_heads)] {
                let [batch, n, _] = x.shape();
                rotary.rotate(x.as_mut_slice(), [batch, n, heads, d_k], 0).unwrap();
            }
        }
        let [q, k, v] = [(&q, heads), (&k, kv_heads), (&v, kv_heads)]
            .map(|(x, heads)| Heads::split("x", x.as_slice(), x.shape(), heads).unwrap());
        let joined = attention.forward(q, k, v).unwrap().join().unwrap();
        let expected = parts.output.forward(joined.sequences()).unwrap();
        prop_assert_eq!(bits(&layer.forward(query, key, key, &attention).unwrap()), bits(&expected));
        let weights = layer.attention_weights(query, key, &attention).unwrap();
        prop_assert_eq!(bits(&weights), bits(&attention.scores(Stage::Weights, q, k).unwrap()));
    }

    #[test]
    fn norms_have_the_bits_of_their_kernels((n, d) in (0_usize..20, 1_usize..40), rms: bool) {
        const EPSILON: f32 = 1e-5;
        let (gamma, beta, mut x) = (numbers(d, 30), numbers(d, 31), numbers(n * d, 1));
        let norm = if rms {
            Norm::rms(gamma.clone(), EPSILON)
        } else {
            Norm::layer(gamma.clone(), beta.clone(), EPSILON)
        };
        let mut found = vec![f32::NAN; n * d];
        norm.unwrap().forward_into(Sequences::new("x", &x, [1, n, d]).unwrap(), &mut found).unwrap();
        let rows = MatMut::new(&mut x, n, d).unwrap();
        if rms {
            rms_norm(rows, &gamma, EPSILON).unwrap();
        } else {
            layer_norm(rows, &gamma, &beta, EPSILON).unwrap();
        }
        prop_assert_eq!(bits(&found), bits(&x));
    }

    #[test]
    fn feed_forward_layers_have_the_bits_of_their_parts(
        (n, d, hidden) in (0_usize..30, 1_usize..40, 0_usize..60),
        gated: bool,
    ) {
        let activation = Activation::Silu;
        let x = numbers(n * d, 3);
        let x = Sequences::new("x", &x, [1, n, d]).unwrap();
        let up = linear(d, hidden, 21).forward(x).unwrap();
        let mut features = if gated { linear(d, hidden, 23).forward(x).unwrap() } else { up.clone() };
        activation.apply(features.as_mut_slice());
        if gated {
            features.as_mut_slice().iter_mut().zip(up.as_slice()).for_each(|(x, up)| *x *= up);
        }
        let expected = linear(hidden, d, 22).forward(features.sequences()).unwrap();
        let found = feed_forward(d, hidden, activation, gated).forward(x).unwrap();
        prop_assert_eq!(bits(&found), bits(&expected));
    }
}

#[test]
fn activations_are_their_formulas() {
    const GELU_TANH: f64 = 0.797_884_560_802_865_4; // √(2/π)
    type Formula = fn(f64) -> f64;
    let formulas: [(Activation, Formula); 7] = [
        (Activation::Relu, |x| x.max(0.0)),
        (Activation::Gelu, |x| 0.5 * x * libm::erfc(-x * core::f64::consts::FRAC_1_SQRT_2)),
        (Activation::GeluTanh, |x| {
            0.5 * x * (1.0 + (GELU_TANH * (x + 0.044715 * x * x * x)).tanh())
        }),
        (Activation::QuickGelu, |x| x / (1.0 + (-1.702 * x).exp())),
        (Activation::Silu, |x| x / (1.0 + (-x).exp())),
        (Activation::Tanh, f64::tanh),
        (Activation::ReluSquared, |x| x.max(0.0) * x.max(0.0)),
    ];
    for (activation, formula) in formulas {
        let x = numbers(100, 4);
        let mut found = x.clone();
        activation.apply(&mut found);
        let expected = x.iter().map(|x| Num::exact(*x).apply(1.0, formula)).collect();
        assert_within(&found, &[expected]);
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
        let projections = projections([d, d], [4, 2], [d / 4, d / 4]);
        let rotary = Rotary::new(d / 4, 64, 100.0, Pairing::HalfSplit).unwrap();
        let attention = MultiHeadAttention::new(4, projections).unwrap();
        Self {
            norm: Norm::rms(numbers(d, 120), 1e-5).unwrap(),
            attention: attention.with_rotary(rotary).unwrap(),
            feed_forward: feed_forward(d, 3 * d, Activation::Silu, true),
        }
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
            let found = run(&x[..first * d], [1, first, d], Threads::ONE);
            assert!(found == all[..first * d], "the first {first} tokens");
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
            assert!((f64::from(*x) - expected).abs() <= U, "feature {i} of position {t}");
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
    let table = PositionTable::sinusoidal(4, 2).unwrap();
    let mut x = [1.0; 6];
    assert!(matches!(table.add(&mut x, [1, 3, 2], usize::MAX), Err(Error::Positions { .. })));
    assert!(matches!(table.add(&mut x, [1, 1, 2], 0), Err(Error::Elements { .. })));
    assert!(matches!(PositionTable::sinusoidal(usize::MAX, 2), Err(Error::Memory { .. })));
    assert!(matches!(
        Rotary::new(2, usize::MAX, 1e4, Pairing::HalfSplit),
        Err(Error::Memory { .. })
    ));
    let rotary = Rotary::new(4, 4, 1e4, Pairing::HalfSplit).unwrap();
    rotary.rotate(&mut x, [1, 3, 1, 2], 0).unwrap_err();
    let mut x8 = [1.0; 8];
    assert!(matches!(
        rotary.rotate(&mut x8, [1, 2, 1, 4], 3),
        Err(Error::Positions { needed: 5, table: 4, .. })
    ));
    assert_eq!((x, x8), ([1.0; 6], [1.0; 8]), "left as they were");
    // The sequence of this layer is longer than its angles.
    let projections = projections([4, 4], [1, 1], [4, 4]);
    let layer = MultiHeadAttention::new(1, projections).unwrap().with_rotary(rotary).unwrap();
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
        let down = Linear::from_conv1d(vec![0.0; 4], [d, 1]).unwrap();
        let layer = FeedForward::new(weightless(d), Activation::Relu, down).unwrap();
        assert!(matches!(layer.forward(x), Err(Error::Memory { .. })));
        let output = Linear::from_conv1d(vec![0.0; 8], [d, 2]).unwrap();
        let (query, key, value) = (weightless(d), weightless(d), weightless(d));
        let heads = MultiHeadAttention::new(2, Projections { query, key, value, output }).unwrap();
        assert!(matches!(heads.forward(x, x, x, &Attention::new()), Err(Error::Memory { .. })));
    }
}

/// A platform's `tanh` has last bits of its own.
#[test]
fn tanh_has_the_bits_of_the_kernel_not_of_the_platform() {
    let numbers: Vec<f32> = (-900..900).map(|i| i as f32 * 0.01 + 0.003).collect();
    let (mut found, mut expected) = (numbers.clone(), numbers.clone());
    Activation::Tanh.apply(&mut found);
    tanh(&mut expected);
    assert_eq!(bits(&found), bits(&expected));
    let platform: Vec<f32> = numbers.iter().map(|x| x.tanh()).collect();
    assert_ne!(bits(&found), bits(&platform), "the test cannot tell the two apart");
}
