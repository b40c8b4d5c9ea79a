//! Tests the messages for shapes that do not fit. They name the tensor, the shape that is needed and why, and the shape that
//! was given.

use regard::{
    Activation, Attention, Error, FeedForward, GatedParts, Heads, KvCache, KvCacheShape, Linear,
    Mask, MaskTensor, MultiHeadAttention, Norm, Pairing, Position, PositionTable, Projections,
    Rotary, RotaryFrequencies, RotaryScaling, Sequences, Temperature, softmax_backward,
};

const ZEROS: [f32; 240] = [0.0; 240];

fn heads(shape: [usize; 4]) -> Heads<'static> {
    Heads::new("x", &ZEROS[..shape.iter().product()], shape).unwrap()
}

fn sequences(shape: [usize; 3]) -> Sequences<'static> {
    Sequences::new("x", &ZEROS[..shape.iter().product()], shape).unwrap()
}

fn cache([batch, kv_heads, capacity, dim]: [usize; 4]) -> KvCacheShape {
    KvCacheShape { batch, kv_heads, capacity, key_dim: dim, value_dim: dim }
}

fn linear(inputs: usize, outputs: usize) -> Linear {
    Linear::from_conv1d(vec![0.0; inputs * outputs], [inputs, outputs]).unwrap()
}

/// The message of a result that must be an error.
#[track_caller]
fn said<T>(result: Result<T, Error>) -> String {
    result.err().unwrap().to_string()
}

/// Compares messages with the lines of a file.
#[track_caller]
fn assert_said(found: &[String], expected: &str) {
    assert!(found.iter().eq(expected.lines()), "{found:#?}\nexpected:\n{expected}");
}

#[test]
fn of_tensors() {
    let x = &ZEROS[..24];
    let bias = |shape: &[usize]| MaskTensor::new(&ZEROS[..6], shape);
    let found = [
        said(Heads::new("query", x, [1, 2, 3, 5])),
        said(Heads::split("key", x, [1, 3, 10], 2)),
        said(Heads::split("key", x, [1, 3, 8], 3)),
        said(Heads::split("key", x, [1, 3, 8], 2).unwrap().join_into(&mut [0.0; 23])),
        said(Sequences::new("x", x, [1, 5, 5])),
        said(bias(&[2, 4])),
        said(bias(&[1; 5])),
        said(KvCache::<f32>::new(cache([usize::MAX, 1, 1, 1]))),
    ];
    assert_said(&found, include_str!("errors/tensors.txt"));
}

#[test]
fn of_attention() {
    let (all, q) = (Attention::new(), heads([1, 2, 3, 4]));
    let mask = Mask::NONE.bias(MaskTensor::new(&ZEROS[..6], &[2, 3]).unwrap());
    let (one, two) = ([1.0], [1.0; 2]);
    let found = [
        said(all.forward(q, heads([1, 2, 4, 3]), heads([1, 2, 4, 3]))),
        said(all.forward(q, heads([2, 2, 3, 4]), heads([2, 2, 3, 4]))),
        said(all.forward(q, q, heads([1, 2, 4, 3]))),
        said(all.forward(q, heads([1, 3, 1, 4]), heads([1, 3, 1, 4]))),
        said(all.forward(q, heads([1, 0, 3, 4]), heads([1, 0, 3, 4]))),
        said(all.clone().mask(Mask::NONE.key_lengths(&[3, 3])).forward(q, q, q)),
        said(all.clone().mask(Mask::NONE.key_lengths(&[4])).forward(q, q, q)),
        said(all.clone().mask(mask).forward(q, q, q)),
        said(all.clone().mask(Mask::NONE.alibi(Position::TopLeft, &one)).forward(q, q, q)),
        said(all.clone().sinks(&[0.0; 3]).forward(q, q, q)),
        said(all.clone().scale(f32::NAN).forward(q, q, q)),
        said(all.clone().softcap(0.0).forward(q, q, q)),
        said(all.clone().sinks(&[0.0, f32::NAN]).forward(q, q, q)),
        said(Temperature::new(-1.0).map_err(Error::from)),
        said(all.backward(q, q, q, &ZEROS[..24], &ZEROS[..7])),
        said(softmax_backward(&two, &one, Temperature::ONE)),
    ];
    assert_said(&found, include_str!("errors/attention.txt"));
}

#[test]
fn of_caches() {
    let mut cache = KvCache::new(cache([1, 2, 3, 4])).unwrap();
    let found = [
        said(cache.append(heads([1, 1, 2, 4]), heads([1, 2, 2, 4]))),
        said(cache.append(heads([1, 2, 2, 4]), heads([1, 2, 1, 4]))),
        said(cache.append(heads([1, 2, 4, 4]), heads([1, 2, 4, 4]))),
    ];
    assert_said(&found, include_str!("errors/caches.txt"));
}

#[test]
fn of_layers() {
    let mha = |heads, [k, v]: [usize; 2], output| {
        let projections =
            Projections { query: linear(4, 8), key: linear(4, k), value: linear(5, v), output };
        MultiHeadAttention::new(heads, projections)
    };
    let layer = mha(4, [8, 8], linear(8, 4)).unwrap();
    let (all, rotary) =
        (Attention::new(), |features| Rotary::new(features, 8, 1e4, Pairing::HalfSplit));
    let (x, y) = (sequences([1, 3, 4]), sequences([1, 3, 5]));
    let table = PositionTable::sinusoidal(4, 2).unwrap();
    let found = [
        said(linear(2, 3).with_bias(vec![0.0; 2])),
        said(Linear::from_conv1d([0.0; 5], [2, 3])),
        said(Linear::from_pytorch([0.0; 5], [3, 2])),
        said(linear(3, 2).forward(x)),
        said(mha(3, [8, 8], linear(8, 4))),
        said(mha(2, [6, 8], linear(8, 4))),
        said(mha(4, [6, 6], linear(12, 4))),
        said(mha(4, [8, 6], linear(8, 4))),
        said(mha(4, [8, 8], linear(7, 4))),
        said(layer.forward(y, x, y, &all)),
        said(layer.forward(x, y, y, &all)),
        said(layer.forward(x, x, x, &all)),
        said(layer.attention_weights(x, y, &all)),
        said(layer.forward(x, x, sequences([1, 2, 5]), &all)),
        said(rotary(3)),
        said(layer.clone().with_rotary(rotary(4).unwrap())),
        said(table.add(&mut [0.0; 6], [1, 2, 3], 0)),
        said(table.add(&mut [0.0; 6], [1, 3, 2], 2)),
        said(Norm::rms(vec![1.0; 3], 0.0).unwrap().forward(x)),
        said(Norm::layer(vec![1.0; 3], vec![1.0; 2], 0.0)),
    ];
    assert_said(&found, include_str!("errors/layers.txt"));
}

#[test]
fn of_ranges() {
    let norm = |epsilon| Norm::rms(vec![1.0; 3], epsilon);
    let base = |base| RotaryFrequencies::new(4, base);
    let linear = |factor| RotaryFrequencies::scaled(4, 10.0, RotaryScaling::Linear { factor });
    let llama = |low_frequency_factor, high_frequency_factor| {
        let (factor, original_positions) = (2.0, 100.0);
        let scaling = RotaryScaling::Llama3 {
            factor,
            low_frequency_factor,
            high_frequency_factor,
            original_positions,
        };
        RotaryFrequencies::scaled(4, 10.0, scaling)
    };
    let found = [
        said(norm(-1e-6)),
        said(norm(f32::NAN)),
        said(norm(f32::INFINITY)),
        said(base(0.0)),
        said(base(-1.0)),
        said(base(f64::NAN)),
        said(base(f64::INFINITY)),
        said(RotaryFrequencies::new(3, 10.0)),
        said(RotaryFrequencies::custom(&[1.0, f64::NAN])),
        said(RotaryFrequencies::custom(&[-1.0])),
        said(base(10.0).unwrap().with_amplitude(0.0)),
        said(linear(0.0)),
        said(linear(f64::NAN)),
        said(llama(0.0, 1.0)),
        said(llama(1.0, 1.0)),
    ];
    assert_said(&found, include_str!("errors/ranges.txt"));
}

#[test]
fn of_partial_results() {
    let (all, x) = (Attention::new(), heads([1, 1, 3, 2]));
    let [two, three] = [0..2, 0..3].map(|range| [range]);
    let mut partial = all.partial(x, &three, [3, 3], 2).unwrap();
    let found = [
        said(all.partial(x, &two, [3, 3], 2)),
        said(all.partial(x, &[0..1, 4..6], [5, 3], 2)),
        said(partial.add(1, x, x)),
        said(partial.merge([&[0.0; 6], &[0.0]])),
    ];
    assert_said(&found, include_str!("errors/partial_results.txt"));
}

#[test]
fn of_feed_forward_layers() {
    let found = [
        said(FeedForward::new(linear(4, 8), Activation::Relu, linear(7, 4))),
        said(FeedForward::gated(GatedParts {
            gate: linear(4, 7),
            activation: Activation::Relu,
            up: linear(4, 8),
            down: linear(8, 4),
        })),
    ];
    assert_said(&found, include_str!("errors/feed_forward_layers.txt"));
}

/// A weight [2, 4], as PyTorch stores it, whose shape is given the wrong way around. The first tensor that is passed to the
/// layer gives an error.
#[test]
fn of_a_swapped_weight() {
    let swapped = || Linear::from_pytorch([0.0; 8], [4, 2]).unwrap();
    let projections = Projections {
        query: linear(4, 4),
        key: linear(4, 4),
        value: linear(4, 4),
        output: swapped(),
    };
    let found = [
        said(swapped().forward(sequences([1, 3, 4]))),
        said(swapped().with_bias(vec![0.0; 2])),
        said(FeedForward::new(linear(2, 4), Activation::Relu, swapped())),
        said(MultiHeadAttention::new(2, projections)),
    ];
    assert_said(&found, include_str!("errors/a_swapped_weight.txt"));
}
