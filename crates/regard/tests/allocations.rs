//! A call that uses the workspace of the one before allocates nothing.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::alloc::System;

use half::f16;
use regard::{
    Activation, Attention, Element, Embedding, FeedForward, GatedParts, Heads, LayerWorkspace,
    Linear, Mask, MultiHeadAttention, Norm, Pairing, Projections, Rotary, Sequences, Threads,
    Workspace,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One test, because tests run side by side and the count is of all.
#[test]
fn memory_is_used_again_and_gradients_take_little() {
    // First, because the threads that another test ends allocate at their own pace.
    decoding_allocates_nothing_after_the_first_token();
    second_calls_allocate_nothing();
    gradients_take_memory_in_proportion_to_the_tokens();
}

fn second_calls_allocate_nothing() {
    let (heads, n, d) = (8, 512, 64);
    let x = vec![0.5; heads * n * d];
    let x = Heads::new("x", &x, [1, heads, n, d]).unwrap();
    let (mut out, mut workspace) = (vec![0.0; heads * n * d], Workspace::new());
    let mut count = |attention: &Attention<'_>| {
        let before = COUNTING.stats().allocations;
        attention.forward_into(x, x, x, &mut out, &mut workspace).unwrap();
        COUNTING.stats().allocations - before
    };
    let causal = Attention::new().mask(Mask::CAUSAL);
    assert!(Threads::ONE.install(|| count(&causal)) > 0, "the first call takes memory");
    assert_eq!(Threads::ONE.install(|| count(&causal)), 0);

    let threads = 2;
    let two = Threads::new(threads).unwrap();
    for _ in 0..10 {
        two.install(|| count(&causal)); // each thread finds its scratch memory when it first has work
    }
    // Rayon keeps a box for each thread that it wakes, and now and then takes a block for its queue. On a busy machine a thread
    // may find its first work, and take its scratch memory, only now: the best of the calls counts.
    assert!((0..20).map(|_| two.install(|| count(&causal))).min() <= Some(threads));
}

/// The layers of a model that decodes with a cache, with weights in `f32` and in `f16`.
fn decoding_allocates_nothing_after_the_first_token() {
    fn tokens<T: Element>(one: T) -> Vec<usize> {
        const D: usize = 64;
        fn view(x: &[f32; D]) -> Sequences<'_> {
            Sequences::new("x", x, [1, 1, D]).unwrap()
        }
        let linear = |inputs, outputs| {
            Linear::from_pytorch(vec![one; inputs * outputs], inputs, outputs).unwrap()
        };
        let (query, output) = (linear(D, D), linear(D, D));
        let (key, value) = (linear(D, D / 2), linear(D, D / 2));
        let norm = |d| Norm::rms(vec![1.0; d], 1e-6).unwrap();
        let attention = MultiHeadAttention::new(4, Projections { query, key, value, output })
            .and_then(|layer| layer.with_rotary(Rotary::new(D / 4, 32, 1e4, Pairing::HalfSplit)?))
            .and_then(|layer| layer.with_qk_norms(norm(D / 4), norm(D / 4)))
            .unwrap();
        let (gate, up, down) = (linear(D, 160), linear(D, 160), linear(160, D));
        let activation = Activation::Silu;
        let feed_forward = FeedForward::gated(GatedParts { gate, activation, up, down }).unwrap();
        let embedding = Embedding::new(vec![one; 100 * D], 100, D).unwrap();
        let (norm, head) = (norm(D), embedding.output_head());
        let mut cache = attention.cache(1, 16).unwrap();
        let (mut x, mut y, mut z, mut logits) = ([0.0; D], [0.0; D], [0.0; D], [0.0; 100]);
        let (causal, mut workspace) = (Attention::new().mask(Mask::CAUSAL), LayerWorkspace::new());
        let mut token = |id: u32| {
            let before = COUNTING.stats().allocations;
            embedding.forward_into(&[id], &mut x).unwrap();
            norm.forward_into(view(&x), &mut y).unwrap();
            let done = attention.forward_cached_into(
                view(&y),
                &mut cache,
                &causal,
                &mut z,
                &mut workspace,
            );
            done.unwrap();
            feed_forward.forward_into(view(&z), &mut y).unwrap();
            head.forward_into(view(&y), &mut logits).unwrap();
            COUNTING.stats().allocations - before
        };
        Threads::ONE.install(|| (0..16).map(&mut token).collect())
    }
    for tokens in [tokens(0.125_f32), tokens(f16::from_f32(0.125))] {
        assert!(tokens[0] > 0, "the first token takes memory");
        assert_eq!(tokens[1..], [0; 15]);
    }
}

/// The weights of 8192 tokens would be 256 MiB.
fn gradients_take_memory_in_proportion_to_the_tokens() {
    let bytes = |n: usize| {
        let x = vec![0.5; n * 4];
        let x = Heads::new("x", &x, [1, 1, n, 4]).unwrap();
        // A thread of its own begins without scratch memory.
        let attend = || {
            let out = Attention::new().forward(x, x, x).unwrap();
            Attention::new().backward(x, x, x, &out, &out).unwrap();
        };
        let attend = || Threads::ONE.install(attend);
        let before = COUNTING.stats().bytes_allocated;
        std::thread::scope(|scope| scope.spawn(attend).join()).unwrap();
        COUNTING.stats().bytes_allocated - before
    };
    let (half, whole) = (bytes(4096), bytes(8192));
    assert!(whole < 10 << 20, "{whole} bytes");
    assert!(whole < half * 21 / 10, "{half} bytes for half the tokens, {whole} for all");
}
