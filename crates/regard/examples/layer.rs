//! How long a layer of a small BERT takes, beside its matrix products at this machine's peak.
//!
//! 128 tokens of 384 features, 12 heads, 1536 hidden features: `cargo run --release -p regard --example layer -- 1` (threads).

#![expect(clippy::print_stdout, reason = "what it is for")]

use core::hint::black_box;
use std::env;
use std::time::Instant;

use regard::{
    Activation, Attention, EncoderBlock, EncoderParts, Error, FeedForward, Linear,
    MultiHeadAttention, Norm, Projections, Sequences, Threads,
};
use regard_kernels::multiply_add_rounds;

const TOKENS: usize = 128;
const FEATURES: usize = 384;
const HEADS: usize = 12;
const HIDDEN: usize = 1536;

/// Numbers between −0.05 and 0.05 that look random.
fn numbers(len: usize, seed: u64) -> Vec<f32> {
    let mut random = fastrand::Rng::with_seed(seed);
    (0..len).map(|_| 2.0 * random.f32() - 1.0).collect()
}

fn linear(inputs: usize, outputs: usize, seed: u64) -> Result<Linear, Error> {
    Linear::new(numbers(inputs * outputs, seed), inputs, outputs)?
        .with_bias(numbers(outputs, seed + 1))
}

/// The shortest of many runs on these threads, in ms.
fn shortest<R>(threads: &Threads, mut run: impl FnMut() -> Result<R, Error>) -> Result<f64, Error> {
    let mut shortest = f64::MAX;
    for _ in 0..300 {
        let start = Instant::now();
        black_box(threads.install(&mut run)?);
        shortest = shortest.min(start.elapsed().as_secs_f64());
    }
    Ok(shortest * 1e3)
}

fn main() -> Result<(), Error> {
    let count = env::args().nth(1).and_then(|count| count.parse().ok()).unwrap_or(1);
    let threads = Threads::new(count)?;
    let square = |seed| linear(FEATURES, FEATURES, seed);
    let projections =
        Projections { query: square(1)?, key: square(3)?, value: square(5)?, output: square(7)? };
    let heads = MultiHeadAttention::new(HEADS, projections)?;
    let (up, down) = (linear(FEATURES, HIDDEN, 9)?, linear(HIDDEN, FEATURES, 11)?);
    let feed_forward = FeedForward::new(up.clone(), Activation::Gelu, down)?;
    let norm = || Norm::layer(vec![1.0; FEATURES], vec![0.0; FEATURES], 1e-12);
    let block = EncoderBlock::post_norm(EncoderParts {
        attention_norm: norm()?,
        attention: heads.clone(),
        feed_forward_norm: norm()?,
        feed_forward: feed_forward.clone(),
    })?;
    let x = numbers(TOKENS * FEATURES, 99);
    let x = Sequences::new("x", &x, [1, TOKENS, FEATURES])?;
    let attention = Attention::new();

    let mut peak = 0.0_f64; // multiply-adds a ms, of one thread
    for _ in 0..50 {
        let start = Instant::now();
        let (multiply_adds, sum) = multiply_add_rounds(100_000);
        black_box(sum);
        peak = peak.max(multiply_adds as f64 / start.elapsed().as_secs_f64() / 1e3);
    }
    peak *= threads.count() as f64;
    println!("{count} thread(s), at most {:.1} GFLOP/s", 2e-6 * peak);
    let report = |name: &str, multiply_adds: usize, ms: f64| {
        let ideal = multiply_adds as f64 / peak;
        println!(
            "{name:24} {ms:7.3} ms, {:.2} × the {ideal:.3} ms of its products at peak",
            ms / ideal
        );
    };
    let projection = TOKENS * FEATURES * FEATURES;
    let (attend, feed) = (2 * TOKENS * TOKENS * FEATURES, 2 * TOKENS * FEATURES * HIDDEN);
    report(
        "the block",
        4 * projection + attend + feed,
        shortest(&threads, || block.forward(x, &attention))?,
    );
    report(
        "multi-head attention",
        4 * projection + attend,
        shortest(&threads, || heads.forward(x, x, x, &attention))?,
    );
    report("feed-forward layer", feed, shortest(&threads, || feed_forward.forward(x))?);
    report("its first projection", feed / 2, shortest(&threads, || up.forward(x))?);
    let norm = norm()?;
    println!("{:24} {:7.3} ms", "layer norm", shortest(&threads, || norm.forward(x))?);
    let hidden = numbers(TOKENS * HIDDEN, 5).iter().map(|x| 50.0 * x).collect::<Vec<f32>>();
    for activation in [Activation::Gelu, Activation::GeluTanh, Activation::Silu, Activation::Relu] {
        let apply = || {
            let mut x = hidden.clone();
            activation.apply(&mut x);
            Ok(x)
        };
        let element = shortest(&threads, apply)? * 1e6 / hidden.len() as f64;
        println!("{:24} {element:7.2} ns an element", format!("{activation:?}"));
    }
    Ok(())
}
