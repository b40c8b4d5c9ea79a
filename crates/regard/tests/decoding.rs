//! A prefill in parts that is continued token by token with caches has the bits of all tokens at once.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

mod common;

use core::ops::Deref;

use common::{bits, numbers};
use half::{bf16, f16};
use regard::{
    Activation, Attention, Decoder, DecoderAttention, DecoderBlock, DecoderCache, DecoderParts,
    Element, Encoder, EncoderBlock, EncoderParts, Error, FeedForward, GatedParts, Heads, Keep,
    KvCache, KvCacheShape, LayerWorkspace, Linear, Mask, MultiHeadAttention, Norm, Pairing,
    Position, Projections, Rotary, Sequences, Stage, Tensor, Window, alibi_slopes,
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
fn in_steps<Y: Deref<Target = [f32]>>(
    x: &[f32],
    mut step: impl FnMut(Sequences<'_>) -> Y,
) -> Vec<f32> {
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
    let message = |result: Result<Tensor<3>, Error>| result.unwrap_err().to_string();
    assert_eq!(
        message(layer.forward_cached(tokens(2), &mut cache, &causal)),
        "the rotary table has 13 positions, but 14 are needed"
    );
    // This error is found after keys and values are appended.
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

/// Prompts of different lengths side by side: each sequence has the bits that it has alone, rotary positions included.
#[test]
fn sequences_of_different_lengths_are_decoded_side_by_side() {
    const LENGTHS: [usize; 2] = [5, 2];
    let model = Encoder::new(vec![block(100), block(200)], None).unwrap();
    let x = numbers(BATCH * TOKENS * FEATURES, 1);
    let token = |entry: usize, i: usize| &x[(entry * TOKENS + i) * FEATURES..][..FEATURES];
    let causal = Attention::new().mask(Mask::CAUSAL);
    let alone: Vec<Tensor<3>> = x
        .chunks(TOKENS * FEATURES)
        .map(|x| {
            let x = Sequences::new("x", x, [1, TOKENS, FEATURES]).unwrap();
            model.forward(x, &causal).unwrap()
        })
        .collect();
    let mut caches = model.caches(BATCH, TOKENS).unwrap();
    // The second prompt is padded with tokens that are no numbers: they must not show.
    let prompts: Vec<f32> = (0..BATCH)
        .flat_map(|entry| (0..LENGTHS[0]).map(move |i| (entry, i)))
        .flat_map(|(entry, i)| {
            if i < LENGTHS[entry] { token(entry, i).to_vec() } else { vec![f32::NAN; FEATURES] }
        })
        .collect();
    let prompts = Sequences::new("x", &prompts, [BATCH, LENGTHS[0], FEATURES]).unwrap();
    let y = model.forward_cached(prompts, &mut caches, &causal).unwrap();
    for (entry, len) in LENGTHS.into_iter().enumerate() {
        let found = &y[entry * LENGTHS[0] * FEATURES..][..len * FEATURES];
        assert_eq!(bits(found), bits(&alone[entry][..len * FEATURES]), "prompt {entry}");
    }
    for cache in &mut caches {
        cache.truncate_each(&LENGTHS).unwrap();
    }
    for step in 0..6 {
        let places = LENGTHS.map(|len| len + step);
        let next = [token(0, places[0]), token(1, places[1])].concat();
        let next = Sequences::new("x", &next, [BATCH, 1, FEATURES]).unwrap();
        let y = model.forward_cached(next, &mut caches, &causal).unwrap();
        for (entry, place) in places.into_iter().enumerate() {
            let expected = &alone[entry][place * FEATURES..][..FEATURES];
            let found = &y[entry * FEATURES..][..FEATURES];
            assert_eq!(bits(found), bits(expected), "token {place} of sequence {entry}");
        }
    }
    // One offset cannot be right for both.
    let offset = Attention::new().mask(Mask::NONE.causal(Position::Offset(11)));
    let next = Sequences::new("x", &x[..BATCH * FEATURES], [BATCH, 1, FEATURES]).unwrap();
    let error = model.forward_cached(next, &mut caches, &offset).unwrap_err();
    assert!(matches!(error, Error::CachePosition { first: 11, cached: 8, .. }), "{error}");
}

/// A cache in half precision gives a token the same bits whether it comes alone or in a prefill, and other bits than `f32`.
fn half_caches<T: Element>() {
    let model = Encoder::new(vec![block(100), block(200)], None).unwrap();
    let x = numbers(BATCH * TOKENS * FEATURES, 1);
    let all = Sequences::new("x", &x, [BATCH, TOKENS, FEATURES]).unwrap();
    let causal = Attention::new().mask(Mask::CAUSAL);
    let mut caches = model.caches_of::<T>(BATCH, TOKENS).unwrap();
    let whole = model.forward_cached(all, &mut caches, &causal).unwrap();
    for cache in &mut caches {
        cache.truncate(0);
    }
    let found = in_steps(&x, |x| model.forward_cached(x, &mut caches, &causal).unwrap());
    assert_eq!(bits(&found), bits(&whole));
    assert_ne!(bits(&found), bits(&model.forward(all, &causal).unwrap()));
}

#[test]
fn caches_of_layers_hold_half_precision() {
    half_caches::<f16>();
    half_caches::<bf16>();
}

/// A decoder block with rotary positions, whose memory has 10 features.
fn decoder_block(seed: u64) -> DecoderBlock {
    let linear = |i, inputs, outputs| {
        Linear::from_pytorch(numbers(inputs * outputs, seed + i), inputs, outputs).unwrap()
    };
    let norm = |i| Norm::rms(numbers(FEATURES, seed + i), 1e-6).unwrap();
    let cross = Projections {
        query: linear(0, 24, 24),
        key: linear(1, 10, 12),
        value: linear(2, 10, 16),
        output: linear(3, 32, 24),
    };
    let rotary = Rotary::new(4, TOKENS, 100.0, Pairing::Interleaved).unwrap();
    DecoderBlock::pre_norm(DecoderParts {
        self_attention_norm: norm(4),
        self_attention: layer(seed + 20, Some(Pairing::HalfSplit)),
        cross_attention_norm: norm(5),
        cross_attention: MultiHeadAttention::new(4, cross).unwrap().with_rotary(rotary).unwrap(),
        feed_forward_norm: norm(6),
        feed_forward: FeedForward::new(linear(7, 24, 30), Activation::Relu, linear(8, 30, 24))
            .unwrap(),
    })
    .unwrap()
}

#[test]
fn a_decoder_keeps_the_keys_of_its_memory() {
    let (x, memory) = (numbers(BATCH * TOKENS * FEATURES, 1), numbers(BATCH * 6 * 10, 2));
    let memory = Sequences::new("memory", &memory, [BATCH, 6, 10]).unwrap();
    let norm = Norm::rms(numbers(FEATURES, 3), 1e-6).unwrap();
    let model = Decoder::new(vec![decoder_block(100), decoder_block(200)], Some(norm)).unwrap();
    let attention = DecoderAttention {
        self_attention: Attention::new().mask(Mask::CAUSAL),
        cross_attention: Attention::new().softcap(2.0),
    };
    let all = Sequences::new("x", &x, [BATCH, TOKENS, FEATURES]).unwrap();
    let whole = model.forward(all, memory, &attention).unwrap();
    let mut caches = model.caches(memory, TOKENS).unwrap();
    let found = in_steps(&x, |x| model.forward_cached(x, &mut caches, &attention).unwrap());
    assert_eq!(bits(&found), bits(&whole));
    assert!(caches.iter().all(|cache| (cache.len(), cache.capacity()) == (TOKENS, TOKENS)));

    // After an error, whichever block it is in, the caches are as they were.
    caches[0].truncate(4);
    caches[1].truncate(5);
    let x = Sequences::new("x", &x[..BATCH * 9 * FEATURES], [BATCH, 9, FEATURES]).unwrap();
    assert!(model.forward_cached(x, &mut caches, &attention).is_err(), "the second cache is full");
    assert_eq!(caches.iter().map(DecoderCache::len).collect::<Vec<_>>(), [4, 5]);
    assert!(matches!(
        model.forward_cached(x, &mut caches[..1], &attention),
        Err(Error::Shape { tensor: "the caches", .. })
    ));
    let other = Sequences::new("memory", &[0.0; 22], [1, 2, 11]).unwrap();
    assert_eq!(
        model.caches(other, TOKENS).unwrap_err().to_string(),
        "the memory must have the shape [1, 2, 10] (the cross-attention's key and value inputs), not [1, 2, 11]"
    );
}

/// An attention by layer, states and weights are what the blocks give one after another; and so is decoding into memory.
#[test]
fn one_pass_gives_what_the_blocks_give() {
    let x = numbers(BATCH * TOKENS * FEATURES, 1);
    let shape = [BATCH, TOKENS, FEATURES];
    let all = Sequences::new("x", &x, shape).unwrap();
    let norm = Norm::rms(numbers(FEATURES, 3), 1e-6).unwrap();
    let model = Encoder::new(vec![block(100), block(200)], Some(norm)).unwrap();
    let window = Window { left: Some(2), right: None };
    let attention = |layer: usize| {
        let sliding = Mask::CAUSAL.window(Position::BottomRight, window);
        Attention::new().mask(if layer == 1 { sliding } else { Mask::CAUSAL })
    };
    let run = model.forward_with(all, attention, Keep::ALL).unwrap();
    let mut state = x.clone();
    for (layer, block) in model.blocks().iter().enumerate() {
        assert_eq!(bits(&run.states[layer]), bits(&state));
        let view = Sequences::new("x", &state, shape).unwrap();
        let (next, weights) = block.forward_with_weights(view, &attention(layer)).unwrap();
        assert_eq!(bits(&run.weights[layer]), bits(&weights));
        assert_eq!(bits(&next), bits(&block.forward(view, &attention(layer)).unwrap()));
        state = next.into_vec();
    }
    assert_eq!(bits(&run.states[2]), bits(&state));
    let output =
        model.norm().unwrap().forward(Sequences::new("x", &state, shape).unwrap()).unwrap();
    assert_eq!(bits(&run.output), bits(&output));
    assert_eq!((run.states.len(), run.weights.len()), (3, 2));
    let nothing = model.forward_with(all, attention, Keep::NOTHING).unwrap();
    assert_eq!(bits(&nothing.output), bits(&run.output));
    assert_eq!((nothing.states.len(), nothing.weights.len()), (0, 0));

    let (mut caches, mut workspace) = (model.caches(BATCH, TOKENS).unwrap(), LayerWorkspace::new());
    let found = in_steps(&x, |x| {
        let mut y = vec![0.0; x.shape().iter().product()];
        model.forward_into(x, Some(&mut caches), attention, &mut y, &mut workspace).unwrap();
        y
    });
    assert_eq!(bits(&found), bits(&run.output));
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
    assert!(Attention::new().forward(none, none, none).unwrap().is_empty());
    let heads = 1 << 20;
    let queries = Heads::<f32>::new("queries", &[], [heads, heads, 3, 0]).unwrap();
    let keys = Heads::<f32>::new("keys", &[], [heads, heads, 5000, 0]).unwrap();
    assert!(Attention::new().forward(queries, keys, keys).unwrap().is_empty());
}
