//! Tests that caches and half precision give the same bits as the same numbers, dense and in `f32`.

use crate::common::{bits, numbers};
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

/// Asserts the promise for attention of `queries` on `keys` tokens, on one thread and on two.
fn half_precision<T: Element>(
    from: fn(f32) -> T,
    [queries, keys]: [usize; 2],
    attention: &Attention<'_>,
) {
    let stored = |name, seed, shape: [usize; 4]| {
        let narrow: Vec<T> = numbers(shape.iter().product(), seed).into_iter().map(from).collect();
        let wide: Vec<f32> = narrow.iter().map(|x| (*x).into()).collect();
        (name, narrow, wide, shape)
    };
    let all = [
        stored("query", 7, [2, 4, queries, 24]),
        stored("key", 8, [2, 2, keys, 24]),
        stored("value", 9, [2, 2, keys, 10]),
    ];
    let nan = vec![from(f32::NAN); 2 * 2 * keys * 24];
    let poison = Heads::new("x", &nan, [2, 2, keys, 24]).unwrap();
    let [q, k, v] =
        all.each_ref().map(|(name, narrow, _, shape)| Heads::new(name, narrow, *shape).unwrap());
    let [q32, k32, v32] =
        all.each_ref().map(|(name, _, wide, shape)| Heads::new(name, wide, *shape).unwrap());
    for threads in [1, 2] {
        Threads::new(threads).unwrap().install(|| {
            // The earlier contents of the thread's memory must not show.
            Attention::new().forward(q, poison, poison).unwrap();
            let out = attention.forward(q, k, v).unwrap();
            let expected = attention.forward(q32, k32, v32).unwrap();
            assert_eq!(bits(&out), bits(&expected), "{attention:?}");
        });
    }
}

#[test]
fn half_precision_has_the_bits_of_the_same_numbers_in_f32() {
    let end = Position::BottomRight;
    let near = Window { left: Some(300), right: Some(0) };
    let few = Window { left: Some(2), right: Some(9) };
    // Many queries, and few queries on so many keys that a part of them is widened at a time.
    for (size, mask) in [
        ([70, 70], Mask::CAUSAL),
        ([3, 9_000], Mask::NONE.window(end, near)),
        ([3, 9_000], Mask::NONE.window(Position::Offset(4_090), few)),
        ([3, 9_000], Mask::CAUSAL.key_lengths(&[4_097, 0])),
    ] {
        let attention = Attention::new().mask(mask);
        half_precision(f16::from_f32, size, &attention);
        half_precision(bf16::from_f32, size, &attention);
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
    cache.append(three, three).unwrap_err();
    assert_eq!((cache.len(), cache.capacity(), cache.is_empty()), (0, 2, true));
    let other = Heads::new("value", &[1.0, 2.0], [1, 1, 1, 2]).unwrap();
    let one = Heads::new("key", &[1.0], [1, 1, 1, 1]).unwrap();
    assert!(matches!(cache.append(one, other), Err(Error::Shape { tensor: "value", .. })));
    cache.append(one, one).unwrap();
    cache.truncate(0);
    assert!(cache.is_empty());
}
