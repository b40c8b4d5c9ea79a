//! Tests that caches and half precision give the same bits as the same numbers, dense and in `f32`.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use common::{bits, numbers};
use half::{bf16, f16};
use proptest::prelude::*;
use regard::{
    Attention, Element, Error, Heads, KvCache, KvCacheShape, Linear, Mask, Position, Threads,
    Window,
};

proptest! {
    #[test]
    fn decoding_and_continued_prefill_against_a_cache_have_the_bits_of_the_whole(
        steps in prop::collection::vec(1..9_usize, 1..6),
        (batch, kv_heads, group) in (1..3_usize, 1..3_usize, 1..3_usize),
        (d_k, d_v) in (1..12_usize, 1..12_usize),
        window in prop::option::of(0..9_usize),
    ) {
        let (n, heads) = (steps.iter().sum::<usize>(), kv_heads * group);
        let q = numbers(batch * heads * n * d_k, 4);
        let (k, v) = (numbers(batch * kv_heads * n * d_k, 5), numbers(batch * kv_heads * n * d_v, 6));
        let attention = |position| {
            let window = Window { left: window, right: None };
            Attention::new().mask(Mask::NONE.causal(position).window(position, window))
        };
        let whole = attention(Position::TopLeft).forward(
            Heads::new("query", &q, [batch, heads, n, d_k]).unwrap(),
            Heads::new("key", &k, [batch, kv_heads, n, d_k]).unwrap(),
            Heads::new("value", &v, [batch, kv_heads, n, d_v]).unwrap(),
        ).unwrap();
        let mut cache = KvCache::new(KvCacheShape {
            batch, kv_heads, capacity: n, key_dim: d_k, value_dim: d_v,
        }).unwrap();
        for step in steps {
            let first = cache.len();
            let part = |x: &[f32], d: usize| -> Vec<f32> {
                x.chunks_exact(n * d).flat_map(|head| head[first * d..][..step * d].to_vec()).collect()
            };
            let (q, k, v) = (part(&q, d_k), part(&k, d_k), part(&v, d_v));
            let key = Heads::new("key", &k, [batch, kv_heads, step, d_k]).unwrap();
            cache.append(key, Heads::new("value", &v, [batch, kv_heads, step, d_v]).unwrap()).unwrap();
            let q = Heads::new("query", &q, [batch, heads, step, d_k]).unwrap();
            let offset = Position::Offset(first.cast_signed());
            let out = attention(offset).forward(q, cache.keys(), cache.values()).unwrap();
            prop_assert_eq!(bits(&out), bits(&part(whole.as_slice(), d_v)));
        }
    }
}

fn half_precision<T: Element>(from: fn(f32) -> T, to: fn(T) -> f32) {
    let shape = |heads, d| [2, heads, 70, d];
    let stored = |seed, shape: [usize; 4]| -> Vec<T> {
        numbers(shape.iter().product(), seed).into_iter().map(from).collect()
    };
    let (q, k, v) = (stored(7, shape(4, 24)), stored(8, shape(2, 24)), stored(9, shape(2, 10)));
    let wide = |x: &[T]| -> Vec<f32> { x.iter().map(|x| to(*x)).collect() };
    let (q32, k32, v32) = (wide(&q), wide(&k), wide(&v));
    let attention = Attention::new().mask(Mask::CAUSAL);
    let out = attention.forward(
        Heads::new("query", &q, shape(4, 24)).unwrap(),
        Heads::new("key", &k, shape(2, 24)).unwrap(),
        Heads::new("value", &v, shape(2, 10)).unwrap(),
    );
    let expected = attention.forward(
        Heads::new("query", &q32, shape(4, 24)).unwrap(),
        Heads::new("key", &k32, shape(2, 24)).unwrap(),
        Heads::new("value", &v32, shape(2, 10)).unwrap(),
    );
    assert_eq!(bits(&out.unwrap()), bits(&expected.unwrap()));
}

#[test]
fn half_precision_has_the_bits_of_the_same_numbers_in_f32() {
    half_precision(f16::from_f32, f16::to_f32);
    half_precision(bf16::from_f32, bf16::to_f32);
}

#[test]
fn half_precision_is_widened_where_somebody_sees_it() {
    const KEYS: usize = 9_000;
    let stored =
        |seed, len| -> Vec<f16> { numbers(len, seed).into_iter().map(f16::from_f32).collect() };
    let (q, k, v) = (stored(1, 3 * 8), stored(2, KEYS * 8), stored(3, KEYS * 5));
    let wide = |x: &[f16]| -> Vec<f32> { x.iter().map(|x| x.to_f32()).collect() };
    let (q32, k32, v32) = (wide(&q), wide(&k), wide(&v));
    let nan = vec![f16::NAN; KEYS * 8];
    let end = Position::BottomRight;
    for threads in [1, 2] {
        let threads = Threads::new(threads).unwrap();
        for mask in [
            Mask::NONE.window(end, Window { left: Some(300), right: Some(0) }),
            Mask::NONE.window(Position::Offset(4_090), Window { left: Some(2), right: Some(9) }),
            Mask::CAUSAL.key_lengths(&[4_097]),
            Mask::NONE.key_lengths(&[0]),
        ] {
            let attention = Attention::new().mask(mask);
            // The earlier contents of the thread's memory must not show.
            let poison = Heads::new("x", &nan, [1, 1, KEYS, 8]).unwrap();
            let query = Heads::new("query", &q, [1, 1, 3, 8]).unwrap();
            threads.install(|| Attention::new().forward(query, poison, poison)).unwrap();
            let key = Heads::new("key", &k, [1, 1, KEYS, 8]).unwrap();
            let value = Heads::new("value", &v, [1, 1, KEYS, 5]).unwrap();
            let out = threads.install(|| attention.forward(query, key, value));
            let query = Heads::new("query", &q32, [1, 1, 3, 8]).unwrap();
            let key = Heads::new("key", &k32, [1, 1, KEYS, 8]).unwrap();
            let value = Heads::new("value", &v32, [1, 1, KEYS, 5]).unwrap();
            let expected = threads.install(|| attention.forward(query, key, value));
            assert_eq!(bits(&out.unwrap()), bits(&expected.unwrap()), "{attention:?}");
        }
    }
}

#[test]
fn nothing_of_any_shape_is_stored_and_computed_at_once() {
    let none: [f32; 0] = [];
    let shape =
        KvCacheShape { batch: usize::MAX, kv_heads: 1, capacity: 0, key_dim: 4, value_dim: 4 };
    let mut cache = KvCache::new(shape).unwrap();
    let tokens = Heads::new("the tokens", &none, [usize::MAX, 1, 0, 4]).unwrap();
    cache.append(tokens, tokens).unwrap();
    assert!(cache.is_empty());
    let two = Threads::new(2).unwrap();
    let q = Heads::new("query", &none, [1, 1, 1, 0]).unwrap();
    let k = Heads::new("key", &none, [1, 1, usize::MAX, 0]).unwrap();
    assert_eq!(two.install(|| Attention::new().forward(q, k, k)).unwrap(), none);
    let x = Heads::new("x", &none, [1, 1, 0, usize::MAX]).unwrap();
    let gradients = two.install(|| Attention::new().backward(x, x, x, &none, &none));
    assert_eq!(gradients.unwrap().key, none);
    for layer in
        [Linear::from_conv1d(none, [usize::MAX, 0]), Linear::from_pytorch(none, [usize::MAX, 0])]
    {
        layer.unwrap();
    }
}

#[test]
fn a_full_cache_says_so_and_stays_as_it_was() {
    let shape = KvCacheShape { batch: 1, kv_heads: 1, capacity: 2, key_dim: 1, value_dim: 1 };
    let mut cache = KvCache::new(shape).unwrap();
    let three = [1.0, 2.0, 3.0];
    let three = Heads::new("key", &three, [1, 1, 3, 1]).unwrap();
    let error = cache.append(three, three).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot append 3 tokens to the cache of keys and values: it holds 0 and has room for 2"
    );
    assert_eq!((cache.len(), cache.capacity(), cache.is_empty()), (0, 2, true));
    let other = Heads::new("value", &[1.0, 2.0], [1, 1, 1, 2]).unwrap();
    let one = Heads::new("key", &[1.0], [1, 1, 1, 1]).unwrap();
    assert!(matches!(cache.append(one, other), Err(Error::Shape { tensor: "value", .. })));
    cache.append(one, one).unwrap();
    cache.truncate(0);
    assert!(cache.is_empty());
}
