//! How much memory gradients take.

use std::alloc::System;

use regard::{Attention, Heads, Threads};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static COUNTING: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// The weights of 2048 tokens would be 16 MiB. The count is that of the whole process, so this is its only test.
#[test]
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
