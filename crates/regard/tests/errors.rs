//! Tests the messages for shapes that do not fit. They name the tensor, the shape that is needed and why, and the shape that
//! was given.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use regard::{
    Activation, Attention, Error, FeedForward, GatedParts, Heads, KvCache, KvCacheShape, Linear,
    Mask, MaskTensor, MultiHeadAttention, Norm, Pairing, Position, PositionTable, Projections,
    Rotary, Sequences, Temperature, softmax_backward,
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

#[track_caller]
fn assert_said<const N: usize>(table: [(String, &str); N]) {
    for (found, expected) in table {
        assert_eq!(found, expected);
    }
}

#[test]
fn of_tensors() {
    let x = &ZEROS[..24];
    let bias = |shape: &[usize]| MaskTensor::new(&ZEROS[..6], shape);
    assert_said([
        (
            said(Heads::new("query", x, [1, 2, 3, 5])),
            "query has 24 elements, which do not fill the shape [1, 2, 3, 5]",
        ),
        (
            said(Heads::split("key", x, [1, 3, 10], 2)),
            "key has 24 elements, which do not fill the shape [1, 3, 10]",
        ),
        (
            said(Heads::split("key", x, [1, 3, 8], 3)),
            "8 features cannot be divided evenly among 3 key heads",
        ),
        (
            said(Heads::split("key", x, [1, 3, 8], 2).unwrap().join_into(&mut [0.0; 23])),
            "the joined heads has 23 elements, which do not fill the shape [1, 3, 2, 4]",
        ),
        (
            said(Sequences::new("x", x, [1, 5, 5])),
            "x has 24 elements, which do not fill the shape [1, 5, 5]",
        ),
        (
            said(bias(&[2, 4])),
            "the additive mask has 6 elements, which do not fill the shape [2, 4]",
        ),
        (
            said(bias(&[1; 5])),
            "the additive mask has 5 dimensions, [1, 1, 1, 1, 1], but at most 4 are possible",
        ),
        (
            said(KvCache::<f32>::new(cache([usize::MAX, 1, 1, 1]))),
            "the cache of keys of the shape [18446744073709551615, 1, 1, 1] does not fit in memory",
        ),
    ]);
}

#[test]
fn of_attention() {
    let (all, q) = (Attention::new(), heads([1, 2, 3, 4]));
    let mask = Mask::NONE.bias(MaskTensor::new(&ZEROS[..6], &[2, 3]).unwrap());
    let (one, two) = ([1.0], [1.0; 2]);
    assert_said([
        (
            said(all.forward(q, heads([1, 2, 4, 3]), heads([1, 2, 4, 3]))),
            "key must have the shape [1, 2, 4, 4] (the batch and head_dim of query), not [1, 2, 4, 3]",
        ),
        (
            said(all.forward(q, heads([2, 2, 3, 4]), heads([2, 2, 3, 4]))),
            "key must have the shape [1, 2, 3, 4] (the batch and head_dim of query), not [2, 2, 3, 4]",
        ),
        (
            said(all.forward(q, q, heads([1, 2, 4, 3]))),
            "value must have the shape [1, 2, 3, 3] (the batch, heads and tokens of key), not [1, 2, 4, 3]",
        ),
        (
            said(all.forward(q, heads([1, 3, 1, 4]), heads([1, 3, 1, 4]))),
            "2 query heads cannot be divided evenly among 3 key/value heads",
        ),
        (
            said(all.forward(q, heads([1, 0, 3, 4]), heads([1, 0, 3, 4]))),
            "2 query heads cannot be divided evenly among 0 key/value heads",
        ),
        (said(all.forward_into(q, q, q, &mut [0.0; 5], &mut regard::Workspace::new())), OUTPUT),
        (
            said(all.clone().mask(Mask::NONE.key_lengths(&[3, 3])).forward(q, q, q)),
            "the key lengths must have the shape [1] (one a batch entry), not [2]",
        ),
        (
            said(all.clone().mask(Mask::NONE.key_lengths(&[4])).forward(q, q, q)),
            "the key length of batch entry 0 is 4, but key has 3 tokens",
        ),
        (
            said(all.clone().mask(mask).forward(q, q, q)),
            "the additive mask must have the shape [1, 1, 3, 3] (broadcast to [batch, heads, queries, keys]), not [1, 1, 2, 3]",
        ),
        (
            said(all.clone().mask(Mask::NONE.alibi(Position::TopLeft, &one)).forward(q, q, q)),
            "the slopes of ALiBi must have the shape [2] (one a head of query), not [1]",
        ),
        (
            said(all.clone().sinks(&[0.0; 3]).forward(q, q, q)),
            "the sinks must have the shape [2] (one a head of query), not [3]",
        ),
        (said(all.clone().scale(f32::NAN).forward(q, q, q)), "scale is NaN, but must be finite"),
        (
            said(all.clone().softcap(0.0).forward(q, q, q)),
            "soft cap is 0, but must be finite and at least 2⁻¹²⁶",
        ),
        (
            said(all.clone().sinks(&[0.0, f32::NAN]).forward(q, q, q)),
            "the sink's score is NaN, but must be less than ∞",
        ),
        (
            said(Temperature::new(-1.0).map_err(Error::from)),
            "temperature is -1, but must be 0 or greater",
        ),
        (
            said(all.backward(q, q, q, &ZEROS[..24], &ZEROS[..7])),
            "the gradient of the output has 7 elements, which do not fill the shape [1, 2, 3, 4]",
        ),
        (
            said(softmax_backward(&two, &one, Temperature::ONE)),
            "the gradient of the weights must have the shape [2] (as many as weights), not [1]",
        ),
    ]);
}

const OUTPUT: &str = "the output has 5 elements, which do not fill the shape [1, 2, 3, 4]";

#[test]
fn of_caches() {
    let mut cache = KvCache::new(cache([1, 2, 3, 4])).unwrap();
    assert_said([
        (
            said(cache.append(heads([1, 1, 2, 4]), heads([1, 2, 2, 4]))),
            "key must have the shape [1, 2, 2, 4] (as the cache), not [1, 1, 2, 4]",
        ),
        (
            said(cache.append(heads([1, 2, 2, 4]), heads([1, 2, 1, 4]))),
            "value must have the shape [1, 2, 2, 4] (as the cache and key), not [1, 2, 1, 4]",
        ),
        (
            said(cache.append(heads([1, 2, 4, 4]), heads([1, 2, 4, 4]))),
            "cannot append 4 tokens to the cache of keys and values: it holds 0 and has room for 3",
        ),
    ]);
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
    assert_said([
        (
            said(linear(2, 3).with_bias(vec![0.0; 2])),
            "the bias must have the shape [3] (a number for each output), not [2]",
        ),
        (
            said(Linear::from_conv1d([0.0; 5], [2, 3])),
            "the weight has 5 elements, which do not fill the shape [2, 3]",
        ),
        (
            said(Linear::from_pytorch([0.0; 5], [3, 2])),
            "the weight has 5 elements, which do not fill the shape [3, 2]",
        ),
        (
            said(linear(3, 2).forward(x)),
            "the input must have the shape [1, 3, 3] (the layer's inputs), not [1, 3, 4]",
        ),
        (
            said(mha(3, [8, 8], linear(8, 4))),
            "8 outputs of the query projection cannot be divided evenly among 3 query heads",
        ),
        (
            said(mha(2, [6, 8], linear(8, 4))),
            "the key projection's outputs must have the shape [4] (whole heads of the query projection's head_dim), not [6]",
        ),
        (
            said(mha(4, [6, 6], linear(12, 4))),
            "4 query heads cannot be divided evenly among 3 key/value heads",
        ),
        (
            said(mha(4, [8, 6], linear(8, 4))),
            "6 outputs of the value projection cannot be divided evenly among 4 key/value heads",
        ),
        (
            said(mha(4, [8, 8], linear(7, 4))),
            "the output projection's inputs must have the shape [8] (heads × value head_dim), not [7]",
        ),
        (
            said(layer.forward(y, x, y, &all)),
            "query must have the shape [1, 3, 4] (the layer's inputs), not [1, 3, 5]",
        ),
        (
            said(layer.forward(x, y, y, &all)),
            "key must have the shape [1, 3, 4] (the layer's inputs), not [1, 3, 5]",
        ),
        (
            said(layer.forward(x, x, x, &all)),
            "value must have the shape [1, 3, 5] (the layer's inputs), not [1, 3, 4]",
        ),
        (
            said(layer.attention_weights(x, y, &all)),
            "key must have the shape [1, 3, 4] (the layer's inputs), not [1, 3, 5]",
        ),
        (
            said(layer.forward(x, x, sequences([1, 2, 5]), &all)),
            "value must have the shape [1, 4, 3, 2] (the batch, heads and tokens of key), not [1, 4, 2, 2]",
        ),
        (said(rotary(3)), "rotary features must have the shape [2] (pairs of features), not [3]"),
        (
            said(layer.clone().with_rotary(rotary(4).unwrap())),
            "rotary features must have the shape [2] (at most head_dim), not [4]",
        ),
        (
            said(table.add(&mut [0.0; 6], [1, 2, 3], 0)),
            "the input must have the shape [1, 2, 2] (the position table's features), not [1, 2, 3]",
        ),
        (
            said(table.add(&mut [0.0; 6], [1, 3, 2], 2)),
            "the position table has 4 positions, but 5 are needed",
        ),
        (
            said(Norm::rms(vec![1.0; 3], 0.0).unwrap().forward(x)),
            "the input must have the shape [1, 3, 3] (the norm's features), not [1, 3, 4]",
        ),
        (
            said(Norm::layer(vec![1.0; 3], vec![1.0; 2], 0.0)),
            "beta must have the shape [3] (as many as gamma), not [2]",
        ),
    ]);
}

#[test]
fn of_feed_forward_layers() {
    assert_said([
        (
            said(FeedForward::new(linear(4, 8), Activation::Relu, linear(7, 4))),
            "the down projection's inputs must have the shape [8] (the up projection's outputs), not [7]",
        ),
        (
            said(FeedForward::gated(GatedParts {
                gate: linear(4, 7),
                activation: Activation::Relu,
                up: linear(4, 8),
                down: linear(8, 4),
            })),
            "the gate projection must have the shape [4, 8] (that of the up projection), not [4, 7]",
        ),
    ]);
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
    assert_said([
        (
            said(swapped().forward(sequences([1, 3, 4]))),
            "the input must have the shape [1, 3, 2] (the layer's inputs), not [1, 3, 4]",
        ),
        (
            said(swapped().with_bias(vec![0.0; 2])),
            "the bias must have the shape [4] (a number for each output), not [2]",
        ),
        (
            said(FeedForward::new(linear(2, 4), Activation::Relu, swapped())),
            "the down projection's inputs must have the shape [4] (the up projection's outputs), not [2]",
        ),
        (
            said(MultiHeadAttention::new(2, projections)),
            "the output projection's inputs must have the shape [4] (heads × value head_dim), not [2]",
        ),
    ]);
}
