//! The speed at which a model is opened, reads a text, writes a token, and is swept over its heads.
//!
//! Writing a token multiplies one row by every weight. The bytes per second are compared with those of a loop that only reads
//! memory with as many threads. The two take turns.

use core::hint::black_box;
use std::fs;
use std::thread;

use anyhow::Result;
use regard::Threads;
use regard_kernels::internal::read_all;
use regard_models::{Ablation, Change, Checkpoint, Input, Logits, Model, Sampler};
use serde_json::{Value, json};
use web_time::Instant;

use crate::duration;
use crate::timing::Timing;

/// The flags of `regard bench model`.
#[derive(Clone, Debug, clap::Args)]
pub struct ModelArgs {
    /// The tokens of each text that is read, where the model has positions for so many
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [16, 64, 128, 512])]
    tokens: Vec<usize>,

    /// The numbers of threads to measure with
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 2])]
    pub threads: Vec<usize>,

    /// The most samples of each measurement, which ends earlier after two seconds
    #[arg(long, value_name = "N", default_value_t = 15)]
    samples: usize,

    /// Also measure a sweep that ablates each head, at 32 tokens, against one run
    #[arg(long)]
    sweep: bool,
}

/// The seconds of two calls in turns, `samples` times or for two seconds, after one call of each.
fn in_turns(
    samples: usize,
    mut one: impl FnMut() -> Result<f64>,
    mut other: impl FnMut() -> Result<f64>,
) -> Result<[Timing; 2]> {
    const BUDGET: f64 = 2.0;
    let (mut of_one, mut of_other) = (Vec::new(), Vec::new());
    let start = Instant::now();
    one()?;
    other()?;
    while of_one.is_empty() || of_one.len() < samples && start.elapsed().as_secs_f64() < BUDGET {
        of_one.push(one()?);
        of_other.push(other()?);
    }
    Ok([Timing::of(of_one), Timing::of(of_other)])
}

/// A number of things: "1 thread", "2 threads".
fn counted(n: usize, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

fn seconds<T>(call: impl FnOnce() -> Result<T>) -> Result<f64> {
    let start = Instant::now();
    black_box(call()?);
    Ok(start.elapsed().as_secs_f64())
}

/// Reads all numbers once, divided among the threads.
fn read(numbers: &[f32], threads: usize) -> f32 {
    thread::scope(|scope| {
        let share = numbers.len().div_ceil(threads).max(1);
        let mut shares = numbers.chunks(share);
        let own = shares.next().unwrap_or_default();
        let others: Vec<_> = shares.map(|part| scope.spawn(move || read_all(part))).collect();
        let own = read_all(own);
        others.into_iter().filter_map(|other| other.join().ok()).fold(own, |sum, x| sum + x)
    })
}

/// Measures a model, and passes each result to `tell` as a line of text and as JSON. `open` reads only the headers of its
/// files.
///
/// # Errors
/// The errors of opening and running it, and those of `tell`.
pub fn measure_model(
    open: impl Fn() -> Result<Checkpoint>,
    args: &ModelArgs,
    mut tell: impl FnMut(String, Value) -> Result<()>,
) -> Result<()> {
    opening(&open, args, &mut tell)?;
    let model = Model::load(&open()?)?;
    for count in &args.threads {
        let threads = Threads::new(*count)?;
        threads.install(|| run(&model, args, threads.count(), &mut tell))?;
    }
    Ok(())
}

/// Measures the time to open the model and to write a token, and the time to read its files. A model that is part of the
/// program has no files.
fn opening(
    open: &impl Fn() -> Result<Checkpoint>,
    args: &ModelArgs,
    tell: &mut impl FnMut(String, Value) -> Result<()>,
) -> Result<()> {
    let files = open()?.files();
    let mut first_tokens = Vec::new();
    let [load, file] = in_turns(
        args.samples.min(5),
        || {
            let start = Instant::now();
            let model = Model::load(&open()?)?;
            let loaded = start.elapsed().as_secs_f64();
            if first_token(&model)? {
                first_tokens.push(start.elapsed().as_secs_f64());
            }
            Ok(loaded)
        },
        || seconds(|| Ok(files.iter().map(fs::read).collect::<Result<Vec<_>, _>>()?)),
    )?;
    let warm = first_tokens.split_off(first_tokens.len().min(1));
    let first_token = (!warm.is_empty()).then(|| Timing::of(warm));
    let subjects = [("open", "open", Some(load)), ("first_token", "first token", first_token)];
    for (op, name, timing) in subjects {
        let Some(Timing { median, .. }) = timing else { continue };
        let (time, ratio) = (duration(median), median / file.median);
        if files.is_empty() {
            let text = format!("{name:<16} {time:>10}   from memory");
            tell(text, json!({ "op": op, "median_s": median }))?;
            continue;
        }
        let reading = duration(file.median);
        tell(
            format!("{name:<16} {time:>10}   {ratio:.2} × reading the files ({reading})"),
            json!({ "op": op, "median_s": median, "read_s": file.median, "ratio": ratio }),
        )?;
    }
    Ok(())
}

/// Writes the first token after a short text, if the model writes.
fn first_token(model: &Model) -> Result<bool> {
    if !model.description().stack.causal || model.description().encoder.is_some() {
        return Ok(false);
    }
    let input = match model.tokenizer() {
        Some(tokenizer) => tokenizer.encode("The cat sat on the", None)?,
        None => Input::tokens([0; 5]),
    };
    black_box(model.generate(&input, 1, &[])?);
    Ok(true)
}

fn run(
    model: &Model,
    args: &ModelArgs,
    threads: usize,
    tell: &mut impl FnMut(String, Value) -> Result<()>,
) -> Result<()> {
    let description = model.description();
    let causal = description.stack.causal;
    let most = description.embedding.positions.map_or(usize::MAX, |p| p.count - p.first);
    let vocabulary = u32::try_from(description.vocabulary)?;
    let input = |tokens: usize, seed: usize| {
        let id = |i: usize| ((i * 7919 + seed * 104_729 + 5) as u32) % vocabulary.max(1);
        let ids: Vec<u32> = (0..tokens).map(id).collect();
        match &description.embedding.patches {
            Some(p) => Input::image(vec![0.1; p.channels * p.height * p.width]),
            None if description.encoder.is_some() => Input::tokens(ids.as_slice()).decoder(ids),
            None => Input::tokens(ids),
        }
    };
    let shapes = args.tokens.iter().map(|tokens| (1, *tokens)).chain([(8, 32)]);
    for (batch, tokens) in shapes.filter(|(_, tokens)| *tokens <= most) {
        let inputs: Vec<Input> = (0..batch).map(|seed| input(tokens, seed)).collect();
        let pass = if causal { model.pass().last_logits() } else { model.pass() };
        let [timing, _] =
            in_turns(args.samples, || seconds(|| Ok(pass.run_batch(&inputs)?)), || Ok(0.0))?;
        tell(
            format!(
                "read {:<11} {:>10}   {}   {:.0} tokens/s",
                format!("{batch} × {tokens}"),
                duration(timing.median),
                counted(threads, "thread"),
                (batch * tokens) as f64 / timing.median
            ),
            json!({
                "op": "read", "batch": batch, "tokens": tokens, "threads": threads, "median_s": timing.median,
                "spread": timing.spread,
            }),
        )?;
    }
    if causal && description.encoder.is_none() {
        token(model, args, threads, &input(16, 0), tell)?;
    }
    if args.sweep {
        sweep(model, threads, &input(32, 0), tell)?;
    }
    Ok(())
}

/// Measures a token that continues a text, in turns with a loop that reads memory and so removes all weights from the caches;
/// and consecutive tokens, as in real use.
fn token(
    model: &Model,
    args: &ModelArgs,
    threads: usize,
    input: &Input,
    tell: &mut impl FnMut(String, Value) -> Result<()>,
) -> Result<()> {
    /// The numbers that the loop reads: 1 GiB, which is several times a last-level cache.
    const NUMBERS: usize = 1 << 28;
    let bytes = model.product_bytes();
    let numbers = vec![1.0; NUMBERS];
    let mut writing = model.write(input, 4 + 2 * args.samples, &[], Sampler::greedy())?;
    writing.next().transpose()?; // reads the text
    let [token, reading] = in_turns(
        args.samples,
        || seconds(|| Ok(writing.next().transpose()?)),
        || seconds(|| Ok(read(black_box(&numbers), threads))),
    )?;
    let following = (0..args.samples).map(|_| seconds(|| Ok(writing.next().transpose()?)));
    let following = Timing::of(following.collect::<Result<_>>()?).median;
    let speed = bytes as f64 / token.median;
    let bandwidth = size_of_val(numbers.as_slice()) as f64 / reading.median;
    let share = speed / bandwidth;
    tell(
        format!(
            "write a token    {:>10}   {}   {:.1} GB/s, {:.0}% of the {:.1} GB/s of a loop that reads; then {}",
            duration(token.median),
            counted(threads, "thread"),
            speed / 1e9,
            100.0 * share,
            bandwidth / 1e9,
            duration(following)
        ),
        json!({
            "op": "write", "threads": threads, "median_s": token.median, "spread": token.spread, "bytes": bytes,
            "bandwidth": bandwidth, "fraction_of_bandwidth": share, "following_s": following,
        }),
    )
}

/// Measures the ablation of all heads in turn, against one run.
fn sweep(
    model: &Model,
    threads: usize,
    input: &Input,
    tell: &mut impl FnMut(String, Value) -> Result<()>,
) -> Result<()> {
    let unchanged = model.baseline(input)?;
    let ablated = |head| Change::Ablate { head, to: Ablation::Zero };
    let changes: Vec<Change> = model.description().heads().into_iter().map(ablated).collect();
    let last = if model.description().stack.causal { Logits::Last } else { Logits::All };
    let [all, one] = in_turns(
        3,
        || seconds(|| Ok(model.sweep(&unchanged, &changes, last, &mut |_| Ok(()))?)),
        || seconds(|| Ok(model.pass().run(input)?)),
    )?;
    let ratio = all.median / one.median;
    tell(
        format!(
            "sweep {:<10} {:>10}   {}   {ratio:.1} × one run ({})",
            counted(changes.len(), "head"),
            duration(all.median),
            counted(threads, "thread"),
            duration(one.median)
        ),
        json!({
            "op": "sweep", "heads": changes.len(), "threads": threads, "median_s": all.median, "one_s": one.median,
            "ratio": ratio,
        }),
    )
}
