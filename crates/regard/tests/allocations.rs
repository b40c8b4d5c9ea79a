//! Tests that a call which uses the workspace of an earlier call allocates nothing.

#![expect(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::alloc::System;

use regard::{
    Attention, Heads, Linear, Mask, MultiHeadAttention, Pairing, Projections, Rotary, Sequences,
    Threads, Workspace,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One test, because tests run in parallel and the count is that of the whole process.
#[test]
fn memory_is_used_again_and_gradients_take_little() {
    second_calls_allocate_nothing();
    gradients_take_memory_in_proportion_to_the_tokens();
}

fn second_calls_allocate_nothing() {
    let (heads, n, d) = (8, 256, 64);
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

    decoding_allocates_nothing();

    let threads = 2;
    let two = Threads::new(threads).unwrap();
    for _ in 0..10 {
        two.install(|| count(&causal)); // each thread takes its scratch memory when it first has work
    }
    // Rayon allocates a box for each thread that it wakes, and sometimes a block for its queue. On a busy machine a thread may
    // take its scratch memory only now. So the lowest count of several calls is tested.
    assert!((0..20).map(|_| two.install(|| count(&causal))).min() <= Some(threads));
}

/// Appends one token at a time to a cache, through all projections.
fn decoding_allocates_nothing() {
    const FEATURES: usize = 64;
    let linear = |outputs: usize| {
        Linear::from_pytorch(vec![0.01; FEATURES * outputs], [outputs, FEATURES]).unwrap()
    };
    let projections =
        Projections { query: linear(64), key: linear(16), value: linear(16), output: linear(64) };
    let rotary = Rotary::new(16, 64, 1e4, Pairing::HalfSplit).unwrap();
    let layer = MultiHeadAttention::new(4, projections).unwrap().with_rotary(rotary).unwrap();
    let (x, mut out) = ([0.5; FEATURES], [0.0; FEATURES]);
    let x = Sequences::new("x", &x, [1, 1, FEATURES]).unwrap();
    let (mut cache, mut workspace) = (layer.cache(1, 64).unwrap(), Workspace::new());
    let causal = Attention::new().mask(Mask::CAUSAL);
    let mut count = || {
        let before = COUNTING.stats().allocations;
        layer.forward_cached_into(x, &mut cache, &causal, &mut out, &mut workspace).unwrap();
        COUNTING.stats().allocations - before
    };
    Threads::ONE.install(|| {
        count();
        assert_eq!((0..20).map(|_| count()).sum::<usize>(), 0);
    });
}

/// The weights of 2048 tokens would be 16 MiB.
fn gradients_take_memory_in_proportion_to_the_tokens() {
    let bytes = |n: usize| {
        let x = vec![0.5; n * 4];
        let x = Heads::new("x", &x, [1, 1, n, 4]).unwrap();
        // A new thread has no scratch memory yet.
        let attend = || {
            let out = Attention::new().forward(x, x, x).unwrap();
            Attention::new().backward(x, x, x, out.as_slice(), out.as_slice()).unwrap();
        };
        let attend = || Threads::ONE.install(attend);
        let before = COUNTING.stats().bytes_allocated;
        std::thread::scope(|scope| scope.spawn(attend).join()).unwrap();
        COUNTING.stats().bytes_allocated - before
    };
    let (half, whole) = (bytes(1024), bytes(2048));
    assert!(whole < 3 << 20, "{whole} bytes");
    assert!(whole < half * 21 / 10, "{half} bytes for half the tokens, {whole} for all");
}
