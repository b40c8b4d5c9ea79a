//! Tests that a prefill in parts, continued token by token with caches, has the bits of all tokens at once.

use crate::common::{bits, numbers};
use regard::{
    Attention, Error, Heads, KvCache, KvCacheShape, Linear, Mask, MultiHeadAttention, Pairing,
    Position, Projections, Rotary, Sequences, Stage, Tensor, Window, alibi_slopes,
};

/// Two prefills, and then tokens one by one.
const STEPS: [usize; 7] = [5, 3, 1, 1, 1, 1, 1];
const TOKENS: usize = 13;
const BATCH: usize = 2;
const FEATURES: usize = 24;

/// Four query heads of six features on two key/value heads.
fn layer(seed: u64, pairing: Option<Pairing>) -> MultiHeadAttention {
    let linear = |i, outputs| {
        let weight = numbers(FEATURES * outputs, seed + i);
        Linear::from_conv1d(weight, [FEATURES, outputs])
            .unwrap()
            .with_bias(numbers(outputs, seed + 10 + i))
            .unwrap()
    };
    let (query, key, value, output) = (linear(0, 24), linear(1, 12), linear(2, 12), linear(3, 24));
    let layer = MultiHeadAttention::new(4, Projections { query, key, value, output }).unwrap();
    match pairing {
        Some(pairing) => {
            layer.with_rotary(Rotary::new(6, TOKENS, 100.0, pairing).unwrap()).unwrap()
        }
        None => layer,
    }
}

/// Calls `step` for the tokens of each of `STEPS`, and joins the results in the order of all tokens.
fn in_steps(x: &[f32], mut step: impl FnMut(Sequences<'_>) -> Tensor<3>) -> Vec<f32> {
    let (mut first, mut out) = (0, vec![0.0; x.len()]);
    for n in STEPS {
        let of = |entry: usize| {
            (entry * TOKENS + first) * FEATURES..(entry * TOKENS + first + n) * FEATURES
        };
        let part: Vec<f32> = (0..BATCH).flat_map(|entry| x[of(entry)].to_vec()).collect();
        let y = step(Sequences::new("x", &part, [BATCH, n, FEATURES]).unwrap());
        for (entry, y) in y.as_slice().chunks(n * FEATURES).enumerate() {
            out[of(entry)].copy_from_slice(y);
        }
        first += n;
    }
    assert_eq!(first, TOKENS);
    out
}

fn described(slopes: &[f32]) -> [Attention<'_>; 3] {
    let end = Position::BottomRight;
    let window = Window { left: Some(4), right: None };
    [
        Attention::new().mask(Mask::CAUSAL),
        Attention::new().mask(Mask::CAUSAL.window(end, window)),
        Attention::new().mask(Mask::CAUSAL.alibi(end, slopes)).softcap(3.0),
    ]
}

#[test]
fn a_layer_continues_its_cache() {
    let x = numbers(BATCH * TOKENS * FEATURES, 1);
    let all = Sequences::new("x", &x, [BATCH, TOKENS, FEATURES]).unwrap();
    let slopes = alibi_slopes(4);
    for pairing in [None, Some(Pairing::Interleaved), Some(Pairing::HalfSplit)] {
        let layer = layer(2, pairing);
        for attention in described(&slopes) {
            let mut cache = layer.cache(BATCH, TOKENS).unwrap();
            let found = in_steps(&x, |x| layer.forward_cached(x, &mut cache, &attention).unwrap());
            assert_eq!(cache.len(), TOKENS);
            let whole = layer.forward(all, all, all, &attention).unwrap();
            assert_eq!(bits(&found), bits(&whole), "{pairing:?}, {attention:?}");
        }
    }
}

/// A cache that grows has the same bits as a cache that is large from the start.
#[test]
fn a_cache_grows() {
    let x = numbers(BATCH * TOKENS * FEATURES, 1);
    let (layer, causal) = (layer(2, Some(Pairing::HalfSplit)), Attention::new().mask(Mask::CAUSAL));
    let run = |capacity| {
        let mut cache = layer.cache(BATCH, capacity).unwrap();
        let out = in_steps(&x, |x| {
            cache.reserve(x.shape()[1]).unwrap();
            layer.forward_cached(x, &mut cache, &causal).unwrap()
        });
        (out, cache.capacity())
    };
    let ((grown, capacity), (large, _)) = (run(0), run(TOKENS));
    assert_eq!(bits(&grown), bits(&large));
    assert_eq!(capacity, 20); // 0, 5, 10, 20
}

/// With a sliding window, a cache that forgets the tokens that no query sees gives the outputs of a cache that holds all
/// tokens.
#[test]
fn a_cache_forgets_what_no_window_reaches() {
    const LEFT: usize = 3;
    let x = numbers(BATCH * TOKENS * FEATURES, 1);
    let all = Sequences::new("x", &x, [BATCH, TOKENS, FEATURES]).unwrap();
    let window = Window { left: Some(LEFT), right: None };
    let near = Attention::new().mask(Mask::CAUSAL.window(Position::BottomRight, window));
    let layer = layer(2, Some(Pairing::Interleaved));
    let mut cache = layer.cache(BATCH, 5 + LEFT).unwrap(); // the longest step and a window
    let found = in_steps(&x, |x| {
        let out = layer.forward_cached(x, &mut cache, &near).unwrap();
        cache.keep_last(LEFT);
        out
    });
    assert_eq!((cache.len(), cache.position()), (LEFT, TOKENS));
    let expected = layer.forward(all, all, all, &near).unwrap();
    // The keys are at other places among the 16 lanes of the sum of weights, and the chains over keys begin elsewhere. So each
    // head's output differs by 2·(keys + 8) roundings of at most max|v| ≤ 25, and an output sums 24 of them times weights of at
    // most 1.
    let bound = 24.0 * 2.0 * (LEFT as f32 + 9.0) * 25.0 * f32::EPSILON / 2.0;
    for (found, expected) in found.iter().zip(expected.as_slice()) {
        assert!((found - expected).abs() <= bound, "{found} is not {expected} ± {bound:e}");
    }
    // A step that is refused leaves the position unchanged.
    let (one, wrong) = ([0.0; BATCH * FEATURES], Mask::NONE.causal(Position::TopLeft));
    let one = Sequences::new("x", &one, [BATCH, 1, FEATURES]).unwrap();
    layer.forward_cached(one, &mut cache, &Attention::new().mask(wrong)).unwrap_err();
    assert_eq!((cache.len(), cache.position()), (LEFT, TOKENS));
    cache.clear();
    assert_eq!((cache.len(), cache.position()), (0, 0));
}

/// The keys that a layer stores in its cache are rotated by the positions of their tokens.
#[test]
fn the_cache_holds_turned_keys() {
    let (x, rotary) =
        (numbers(TOKENS * FEATURES, 1), Rotary::new(6, TOKENS, 100.0, Pairing::HalfSplit).unwrap());
    let layer = layer(2, Some(Pairing::HalfSplit));
    let mut cache = layer.cache(1, TOKENS).unwrap();
    let (before, after) = x.split_at(5 * FEATURES);
    for (x, n) in [(before, 5), (after, 8)] {
        let x = Sequences::new("x", x, [1, n, FEATURES]).unwrap();
        layer.forward_cached(x, &mut cache, &Attention::new()).unwrap();
    }
    let to_key = Linear::from_conv1d(numbers(FEATURES * 12, 3), [FEATURES, 12])
        .unwrap()
        .with_bias(numbers(12, 13))
        .unwrap();
    let mut keys = to_key.forward(Sequences::new("x", &x, [1, TOKENS, FEATURES]).unwrap()).unwrap();
    rotary.rotate(keys.as_mut_slice(), [1, TOKENS, 2, 6], 0).unwrap();
    let keys = Heads::split("key", keys.as_slice(), [1, TOKENS, 12], 2).unwrap();
    // The scores of unit vectors are the numbers of the keys.
    let unit: Vec<f32> = (0..2 * 36).map(|i| if i % 36 % 7 == 0 { 1.0 } else { 0.0 }).collect();
    let unit = Heads::new("query", &unit, [1, 2, 6, 6]).unwrap();
    let numbers = |keys| Attention::new().scores(Stage::Raw, unit, keys).unwrap();
    assert_eq!(bits(&numbers(cache.keys())), bits(&numbers(keys)));
}

#[test]
fn after_an_error_the_cache_is_as_it_was() {
    let x = numbers(TOKENS * FEATURES, 1);
    let tokens = |n: usize| Sequences::new("x", &x[..n * FEATURES], [1, n, FEATURES]).unwrap();
    let (causal, layer) = (Attention::new().mask(Mask::CAUSAL), layer(2, Some(Pairing::HalfSplit)));
    let mut cache = layer.cache(1, 20).unwrap();
    layer.forward_cached(tokens(12), &mut cache, &causal).unwrap();
    let message = |result: Result<Tensor<3>, Error>| result.unwrap_err().to_string();
    assert_eq!(
        message(layer.forward_cached(tokens(2), &mut cache, &causal)),
        "the rotary table has 13 positions, but 14 are needed"
    );
    // This error is found after the keys and values have been appended.
    let too_long = Attention::new().mask(Mask::CAUSAL.key_lengths(&[14]));
    assert_eq!(
        message(layer.forward_cached(tokens(1), &mut cache, &too_long)),
        "the key length of batch entry 0 is 14, but key has 13 tokens"
    );
    assert_eq!(cache.len(), 12);

    let mut full = layer.cache(1, 7).unwrap();
    layer.forward_cached(tokens(6), &mut full, &causal).unwrap();
    assert_eq!(
        message(layer.forward_cached(tokens(2), &mut full, &causal)),
        "cannot append 2 tokens to the cache of keys and values: it holds 6 and has room for 7"
    );
    assert_eq!(full.len(), 6);
}

/// Positions that are right only without a cache would give other outputs, so they are refused.
#[test]
fn a_mask_that_places_new_tokens_elsewhere_is_refused() {
    let x = numbers(TOKENS * FEATURES, 1);
    let tokens = |n: usize| Sequences::new("x", &x[..n * FEATURES], [1, n, FEATURES]).unwrap();
    let layer = layer(2, None);
    let slopes = alibi_slopes(4);
    let (start, window) = (Position::TopLeft, Window { left: Some(1), right: None });
    let mut cache = layer.cache(1, TOKENS).unwrap();
    let top_left = Attention::new().mask(Mask::NONE.causal(start));
    layer.forward_cached(tokens(5), &mut cache, &top_left).unwrap(); // nothing is cached, so the positions are right
    for (mask, part, first) in [
        (Mask::NONE.causal(start), "causal", 0),
        (Mask::CAUSAL.window(start, window), "window", 0),
        (Mask::CAUSAL.alibi(start, &slopes), "ALiBi", 0),
        (Mask::NONE.causal(Position::Offset(4)), "causal", 4),
        (Mask::NONE.causal(Position::Offset(-1)), "causal", -1),
    ] {
        let error = layer.forward_cached(tokens(1), &mut cache, &Attention::new().mask(mask));
        let said = error.unwrap_err().to_string();
        let place =
            format!("the {part} mask places the first query at key {first}, but it stands after 5");
        assert!(said.starts_with(&place), "{said}");
        assert_eq!(cache.len(), 5);
    }
    let offset = Attention::new().mask(Mask::NONE.causal(Position::Offset(5)));
    let here = layer.forward_cached(tokens(1), &mut cache, &offset).unwrap();
    cache.truncate(5);
    let causal = Attention::new().mask(Mask::CAUSAL);
    assert_eq!(here, layer.forward_cached(tokens(1), &mut cache, &causal).unwrap());
}

#[test]
fn a_cache_for_no_sequences_takes_tokens_of_any_size() {
    const MANY: usize = 1 << 40; // two such sizes overflow a product
    let shape = KvCacheShape { batch: 0, kv_heads: 1, capacity: 4, key_dim: MANY, value_dim: MANY };
    let mut cache = KvCache::<f32>::new(shape).unwrap();
    let tokens = Heads::new("tokens", &[], [0, 1, MANY, MANY]).unwrap();
    cache.append(tokens, tokens).unwrap();
    assert_eq!((cache.len(), cache.keys().shape()), (0, [0, 1, 0, MANY]));
}

#[test]
fn attention_of_any_number_of_heads_without_tokens_is_nothing() {
    let none = Heads::<f32>::new("none", &[], [1 << 31, 1 << 31, 0, 4]).unwrap();
    assert!(Attention::new().forward(none, none, none).unwrap().as_slice().is_empty());
    let heads = 1 << 20;
    let queries = Heads::<f32>::new("queries", &[], [heads, heads, 3, 0]).unwrap();
    let keys = Heads::<f32>::new("keys", &[], [heads, heads, 5000, 0]).unwrap();
    assert!(Attention::new().forward(queries, keys, keys).unwrap().as_slice().is_empty());
}
