//! How fast a model reads a text, writes a token, is opened, and is swept over its heads.
//!
//! A token that continues a text is multiplied by every weight once, so its time is compared with that of a loop that only reads
//! as many bytes, on as many threads, in turns with it.

use core::hint::black_box;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::Result;
use regard::Threads;
use regard_models::{Ablation, Change, Input, Model, Sampler};
use serde_json::{Value, json};
use web_time::Instant;

use crate::duration;
use crate::timing::Timing;

/// What `regard bench model` measures.
#[derive(Clone, Debug, clap::Args)]
pub struct ModelArgs {
    /// The tokens of each text that is read, where the model has positions for so many
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [16, 64, 128, 512])]
    tokens: Vec<usize>,

    /// The numbers of threads to measure with
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 2])]
    threads: Vec<usize>,

    /// The most samples of each measurement, which ends earlier after two seconds
    #[arg(long, value_name = "N", default_value_t = 15)]
    samples: usize,

    /// Also measure a sweep that ablates each head, at 32 tokens, against one run
    #[arg(long)]
    sweep: bool,
}

/// A line of the results.
#[derive(Clone, Debug)]
pub struct ModelLine {
    text: String,
    json: Value,
}

impl ModelLine {
    /// As text, for people.
    pub fn row(&self) -> String {
        format!("{}\n", self.text)
    }

    /// A JSON object, on one line.
    pub fn json(&self) -> String {
        format!("{}\n", self.json)
    }
}

/// The seconds of two calls in turns, `samples` times or for two seconds; and one call of each before.
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

/// The seconds that a call takes.
fn seconds<T>(call: impl FnOnce() -> Result<T>) -> Result<f64> {
    let start = Instant::now();
    black_box(call()?);
    Ok(start.elapsed().as_secs_f64())
}

/// Reads all numbers once, a share on each thread.
fn read(numbers: &[u64], threads: usize) -> u64 {
    let sum = |part: &[u64]| {
        let (blocks, rest) = part.as_chunks::<32>();
        let mut sums = [0_u64; 32];
        for block in blocks {
            for (sum, x) in sums.iter_mut().zip(block) {
                *sum = sum.wrapping_add(*x);
            }
        }
        sums.iter().chain(rest).fold(0_u64, |sum, x| sum.wrapping_add(*x))
    };
    if threads == 1 {
        return sum(numbers);
    }
    thread::scope(|scope| {
        let share = numbers.len().div_ceil(threads).max(1);
        let parts: Vec<_> =
            numbers.chunks(share).map(|part| scope.spawn(move || sum(part))).collect();
        parts.into_iter().filter_map(|part| part.join().ok()).fold(0, u64::wrapping_add)
    })
}

/// Measures the model in a file or folder, and tells each result.
///
/// # Errors
/// The errors of opening and running it, and those of `tell`.
pub fn measure_model(
    path: &Path,
    args: &ModelArgs,
    mut tell: impl FnMut(&ModelLine) -> Result<()>,
) -> Result<()> {
    let files = files(path)?;
    let [load, file] = in_turns(
        args.samples.min(5),
        || seconds(|| Ok(Model::open(path)?)),
        || seconds(|| Ok(files.iter().map(fs::read).collect::<Result<Vec<_>, _>>()?)),
    )?;
    let ratio = load.median / file.median;
    tell(&ModelLine {
        text: format!(
            "open             {:>10}   {ratio:.2} × reading the files ({})",
            duration(load.median),
            duration(file.median)
        ),
        json: json!({ "op": "open", "median_s": load.median, "read_s": file.median, "ratio": ratio }),
    })?;
    let model = Model::open(path)?;
    for count in &args.threads {
        let threads = Threads::new(*count)?;
        threads.install(|| run(&model, args, threads.count(), &mut tell))?;
    }
    Ok(())
}

fn run(
    model: &Model,
    args: &ModelArgs,
    threads: usize,
    tell: &mut impl FnMut(&ModelLine) -> Result<()>,
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
        tell(&ModelLine {
            text: format!(
                "read {:<11} {:>10}   {threads} threads   {:.0} tokens/s",
                format!("{batch} × {tokens}"),
                duration(timing.median),
                (batch * tokens) as f64 / timing.median
            ),
            json: json!({
                "op": "read", "batch": batch, "tokens": tokens, "threads": threads, "median_s": timing.median,
                "spread": timing.spread,
            }),
        })?;
    }
    if causal && description.encoder.is_none() {
        token(model, args, threads, &input(16, 0), tell)?;
    }
    if args.sweep {
        sweep(model, threads, &input(32, 0), tell)?;
    }
    Ok(())
}

/// A token that continues a text, and a loop that reads as many bytes as the weights that it meets.
fn token(
    model: &Model,
    args: &ModelArgs,
    threads: usize,
    input: &Input,
    tell: &mut impl FnMut(&ModelLine) -> Result<()>,
) -> Result<()> {
    let bytes = model.product_bytes();
    let numbers = vec![1_u64; bytes / 8];
    let mut writing = model.write(input, 4 + args.samples, &[], Sampler::greedy())?;
    writing.next().transpose()?; // reads the text
    let [token, reading] = in_turns(
        args.samples,
        || seconds(|| Ok(writing.next().transpose()?)),
        || seconds(|| Ok(read(black_box(&numbers), threads))),
    )?;
    let speed = |timing: &Timing| bytes as f64 / timing.median / 1e9;
    let share = reading.median / token.median;
    tell(&ModelLine {
        text: format!(
            "write a token    {:>10}   {threads} threads   {:.1} GB/s, {:.0}% of the {:.1} GB/s of a loop that reads",
            duration(token.median),
            speed(&token),
            100.0 * share,
            speed(&reading)
        ),
        json: json!({
            "op": "write", "threads": threads, "median_s": token.median, "spread": token.spread, "bytes": bytes,
            "read_s": reading.median, "fraction_of_bandwidth": share,
        }),
    })
}

/// All heads ablated in turn, against one run.
fn sweep(
    model: &Model,
    threads: usize,
    input: &Input,
    tell: &mut impl FnMut(&ModelLine) -> Result<()>,
) -> Result<()> {
    let unchanged = model.baseline(input)?;
    let ablated = |head| Change::Ablate { head, to: Ablation::Zero };
    let changes: Vec<Change> = model.description().heads().into_iter().map(ablated).collect();
    let last = model.description().stack.causal;
    let [all, one] = in_turns(
        3,
        || seconds(|| Ok(model.sweep(&unchanged, &changes, last, &mut |_| ())?)),
        || seconds(|| Ok(model.pass().run(input)?)),
    )?;
    let ratio = all.median / one.median;
    tell(&ModelLine {
        text: format!(
            "sweep {:<10} {:>10}   {threads} threads   {ratio:.1} × one run ({})",
            format!("{} heads", changes.len()),
            duration(all.median),
            duration(one.median)
        ),
        json: json!({
            "op": "sweep", "heads": changes.len(), "threads": threads, "median_s": all.median, "one_s": one.median,
            "ratio": ratio,
        }),
    })
}

/// The files of a model: those of weights and the tokenizer.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path)? {
        let path = entry?.path();
        let is_read = path.extension().is_some_and(|kind| kind == "safetensors")
            || path.file_name().is_some_and(|name| name == "tokenizer.json");
        files.extend(is_read.then_some(path));
    }
    Ok(files)
}
