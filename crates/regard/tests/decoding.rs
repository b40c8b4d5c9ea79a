//! A prefill in parts and then token by token, behind caches, has the bits of all tokens at once.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use common::{bits, numbers};
use regard::{
    Activation, Attention, Encoder, EncoderBlock, EncoderParts, Error, FeedForward, GatedParts,
    Heads, KvCache, KvCacheShape, Linear, Mask, MultiHeadAttention, Norm, Pairing, Position,
    Projections, Rotary, Sequences, Stage, Window, alibi_slopes,
};

/// A prefill, another, then tokens one by one.
const STEPS: [usize; 7] = [5, 3, 1, 1, 1, 1, 1];
const TOKENS: usize = 13;
const BATCH: usize = 2;
const FEATURES: usize = 24;

/// Four query heads of six features on two key/value heads.
fn layer(seed: u64, pairing: Option<Pairing>) -> MultiHeadAttention {
    let linear = |i, outputs| {
        let weight = numbers(FEATURES * outputs, seed + i);
        Linear::new(weight, FEATURES, outputs)
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

fn block(seed: u64) -> EncoderBlock {
    let linear = |i, inputs, outputs| {
        Linear::new(numbers(inputs * outputs, seed + i), inputs, outputs).unwrap()
    };
    let feed_forward = FeedForward::gated(GatedParts {
        gate: linear(0, 24, 40),
        activation: Activation::Silu,
        up: linear(1, 24, 40),
        down: linear(2, 40, 24),
    })
    .unwrap();
    let norm = |i| Norm::rms(numbers(FEATURES, seed + i), 1e-6).unwrap();
    EncoderBlock::pre_norm(EncoderParts {
        attention_norm: norm(3),
        attention: layer(seed + 20, Some(Pairing::HalfSplit)),
        feed_forward_norm: norm(4),
        feed_forward,
    })
    .unwrap()
}

/// `step` for the tokens of each of `STEPS`, side by side as all tokens at once.
fn in_steps(x: &[f32], mut step: impl FnMut(Sequences<'_>) -> Vec<f32>) -> Vec<f32> {
    let (mut first, mut out) = (0, vec![0.0; x.len()]);
    for n in STEPS {
        let of = |entry: usize| {
            (entry * TOKENS + first) * FEATURES..(entry * TOKENS + first + n) * FEATURES
        };
        let part: Vec<f32> = (0..BATCH).flat_map(|entry| x[of(entry)].to_vec()).collect();
        let y = step(Sequences::new("x", &part, [BATCH, n, FEATURES]).unwrap());
        for (entry, y) in y.chunks(n * FEATURES).enumerate() {
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

#[test]
fn a_stack_decodes_token_by_token() {
    let x = numbers(BATCH * TOKENS * FEATURES, 1);
    let all = Sequences::new("x", &x, [BATCH, TOKENS, FEATURES]).unwrap();
    let model = Encoder::new(
        vec![block(100), block(200)],
        Some(Norm::rms(vec![1.0; FEATURES], 1e-6).unwrap()),
    )
    .unwrap();
    let slopes = alibi_slopes(4);
    for attention in described(&slopes) {
        let mut caches = model.caches(BATCH, TOKENS).unwrap();
        let found = in_steps(&x, |x| model.forward_cached(x, &mut caches, &attention).unwrap());
        assert_eq!(bits(&found), bits(&model.forward(all, &attention).unwrap()), "{attention:?}");

        let block = &model.blocks()[0];
        let mut cache = block.cache(BATCH, TOKENS).unwrap();
        let found = in_steps(&x, |x| block.forward_cached(x, &mut cache, &attention).unwrap());
        assert_eq!(bits(&found), bits(&block.forward(all, &attention).unwrap()), "{attention:?}");
    }
}

/// The keys that a layer leaves in its cache are turned by where their tokens stand.
#[test]
fn the_cache_holds_turned_keys() {
    let (x, rotary) =
        (numbers(TOKENS * FEATURES, 1), Rotary::new(6, TOKENS, 100.0, Pairing::HalfSplit).unwrap());
    let layer = layer(2, Some(Pairing::HalfSplit));
    let mut cache = layer.cache(1, TOKENS).unwrap();
    let (before, after) = x.split_at(5 * FEATURES);
    for (x, n) in [(before, 5), (after, 8)] {
        layer
            .forward_cached(
                Sequences::new("x", x, [1, n, FEATURES]).unwrap(),
                &mut cache,
                &Attention::new(),
            )
            .unwrap();
    }
    let to_key = Linear::new(numbers(FEATURES * 12, 3), FEATURES, 12)
        .unwrap()
        .with_bias(numbers(12, 13))
        .unwrap();
    let mut keys = to_key.forward(Sequences::new("x", &x, [1, TOKENS, FEATURES]).unwrap()).unwrap();
    rotary.rotate(&mut keys, [1, TOKENS, 2, 6], 0).unwrap();
    let keys = Heads::split("key", &keys, [1, 2, TOKENS, 6]).unwrap();
    // The scores of the unit vectors are the keys' numbers.
    let unit: Vec<f32> = (0..2 * 36).map(|i| if i % 36 % 7 == 0 { 1.0 } else { 0.0 }).collect();
    let unit = Heads::new("query", &unit, [1, 2, 6, 6]).unwrap();
    let numbers = |keys| Attention::new().scores(Stage::Raw, unit, keys).unwrap();
    assert_eq!(bits(&numbers(cache.keys())), bits(&numbers(keys)));
}

#[test]
fn after_an_error_the_caches_are_as_they_were() {
    let x = numbers(TOKENS * FEATURES, 1);
    let tokens = |n: usize| Sequences::new("x", &x[..n * FEATURES], [1, n, FEATURES]).unwrap();
    let (causal, layer) = (Attention::new().mask(Mask::CAUSAL), layer(2, Some(Pairing::HalfSplit)));
    let mut cache = layer.cache(1, 20).unwrap();
    layer.forward_cached(tokens(12), &mut cache, &causal).unwrap();
    let message = |result: Result<Vec<f32>, Error>| result.unwrap_err().to_string();
    assert_eq!(
        message(layer.forward_cached(tokens(2), &mut cache, &causal)),
        "the rotary table has 13 positions, but 14 are needed"
    );
    // Found out behind the place where keys and values were appended.
    assert_eq!(
        message(layer.forward_cached(
            tokens(1),
            &mut cache,
            &Attention::new().mask(Mask::CAUSAL.key_lengths(&[14]))
        )),
        "the key length of batch entry 0 is 14, but key has 13 tokens"
    );
    assert_eq!(cache.len(), 12);

    let model = Encoder::new(vec![block(100), block(200)], None).unwrap();
    let mut caches = model.caches(1, 8).unwrap();
    model.forward_cached(tokens(6), &mut caches, &causal).unwrap();
    let shape = KvCacheShape { capacity: 7, ..caches[1].shape() };
    let mut smaller = KvCache::new(shape).unwrap();
    smaller.append(caches[1].keys(), caches[1].values()).unwrap();
    caches[1] = smaller;
    assert_eq!(
        message(model.forward_cached(tokens(2), &mut caches, &causal)),
        "the cache of keys and values has room for 7 tokens and holds 6 of batch entry 0: 2 more do not fit"
    );
    assert_eq!(caches.iter().map(KvCache::len).collect::<Vec<_>>(), [6, 6]);
    assert!(matches!(
        model.forward_cached(tokens(1), &mut caches[..1], &causal),
        Err(Error::Shape { tensor: "the caches", .. })
    ));
}

/// Behind a cache, positions that are right only without one give other states: they are refused.
#[test]
fn a_mask_that_places_new_tokens_elsewhere_is_refused() {
    let x = numbers(TOKENS * FEATURES, 1);
    let tokens = |n: usize| Sequences::new("x", &x[..n * FEATURES], [1, n, FEATURES]).unwrap();
    let layer = layer(2, None);
    let slopes = alibi_slopes(4);
    let (start, window) = (Position::TopLeft, Window { left: Some(1), right: None });
    let mut cache = layer.cache(1, TOKENS).unwrap();
    let top_left = Attention::new().mask(Mask::NONE.causal(start));
    layer.forward_cached(tokens(5), &mut cache, &top_left).unwrap(); // nothing is cached: they stand there
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
