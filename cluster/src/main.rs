//! The program `regard-mpi`: `regard attend` on many machines.

mod file;

use core::ops::Range;
use core::slice;
use std::panic;
use std::process::{self, ExitCode};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Parser as _;
use indicatif::{ProgressBar, ProgressFinish};
use mpi::Threading;
use mpi::topology::SimpleCommunicator;
use mpi::traits::Communicator as _;
use regard::{CHUNK_KEYS, Threads};
use regard_mpi::{Error, RankTokens, agree, attend, query_block, share};
use regard_tensors::attend::{AttendOptions, Optional, check_range, wider};
use regard_tensors::safetensors::Dtype;

use self::file::{Input, Output, Part, Rows};

/// Attention over many machines, with the bits of one
#[derive(clap::Parser)]
#[command(version)]
enum Command {
    /// Compute attention over the tensors of a safetensors file; each rank computes its part
    ///
    /// The tensors and options are those of `regard attend`, which describes them. The scores cannot be written. Each rank
    /// reads its tokens from the file and writes its part of the output. --threads is for each rank.
    #[command(verbatim_doc_comment)]
    Attend(AttendOptions),
}

fn main() -> ExitCode {
    // The other ranks would wait for a rank that ends with a panic. If a rank aborts, MPI ends the others.
    let print = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        print(info);
        process::abort();
    }));
    // Only this thread calls MPI.
    let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else {
        eprintln!("error: MPI cannot be started");
        return ExitCode::FAILURE;
    };
    let world = universe.world();
    let options = match Command::try_parse() {
        Ok(Command::Attend(options)) => Ok(options),
        Err(e) if !e.use_stderr() => Err((e.to_string(), 0)), // --help and --version
        Err(e) => Err((e.to_string(), 2)),
    };
    // Each rank may have been started with other arguments.
    let wrong = options.as_ref().err().map_or(Ok(()), |(said, _)| Err(said.as_str()));
    let (said, code) = match (agree(&world, wrong), options) {
        (Ok(()), Ok(options)) => match run(&world, &options) {
            Ok(()) => return ExitCode::SUCCESS,
            Err((e, code)) => (format!("error: {e}\n"), code),
        },
        (Err(Error::Rank { reason, .. }), Err((_, code))) => (reason, code),
        (Err(e), _) => (format!("error: {e}\n"), 2),
        (Ok(()), Err((said, code))) => (said, code),
    };
    if world.rank() == 0 && code == 0 {
        print!("{said}");
    } else if world.rank() == 0 {
        eprint!("{said}");
    }
    ExitCode::from(code)
}

/// The single row of a tensor that is the same for all tokens.
const FIRST: Range<usize> = 0..1;

/// The tensors and options that a rank reads.
struct Inputs {
    q: Rows,
    k: Rows,
    v: Rows,
    queries: Vec<Range<usize>>,
    keys: Vec<Range<usize>>,
    /// The dimensions that the tensors have in the file.
    dimensions: usize,
    has_past: bool,
    optional: Optional,
}

fn run(world: &SimpleCommunicator, options: &AttendOptions) -> Result<(), (Error, u8)> {
    let bad_input = |e| (e, 2);
    let inputs = read(world, options).with_context(|| options.input.display().to_string());
    let inputs = agree(world, inputs).map_err(bad_input)?;
    let bar = if world.rank() == 0 { ProgressBar::new(0) } else { ProgressBar::hidden() };
    let bar = bar.with_finish(ProgressFinish::AndClear);
    let progress = |done: usize, all: usize| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    };
    let prepared = || {
        let (n_q, n_k) = (inputs.q.shape[2], inputs.k.shape[2]);
        let attention = options.attention(&inputs.optional, n_q, n_k)?.progress(&progress);
        let q = RankTokens { heads: inputs.q.heads("query")?, places: &inputs.queries };
        let k = RankTokens { heads: inputs.k.heads("key")?, places: &inputs.keys };
        Ok::<_, anyhow::Error>((
            attention,
            q,
            k,
            inputs.v.heads("value")?,
            match options.threads {
                0 => Threads::each_core()?,
                count => Threads::new(count)?,
            },
        ))
    };
    let (attention, q, k, v, threads) = agree(world, prepared()).map_err(bad_input)?;
    let attended = threads.install(|| attend(world, &attention, q, k, v)).map_err(bad_input)?;
    bar.finish_and_clear();
    let dtype = wider(inputs.q.dtype, inputs.v.dtype);
    agree(world, check_range("output", &attended.0, dtype)).map_err(bad_input)?;
    write(world, options, inputs, attended).map_err(|e| (e, 1))
}

fn read(world: &SimpleCommunicator, options: &AttendOptions) -> Result<Inputs> {
    let file = Input::open(&options.input)?;
    if let Ok(output) = options.output.canonicalize() {
        ensure!(output.is_file(), "{} is no regular file", output.display());
        let same = output == options.input.canonicalize()?;
        ensure!(!same || options.force, "the output would overwrite it; --force allows it");
    }
    let dimensions = ["q", "k", "v"].map(|name| file.info(name).map_or(0, |info| info.shape.len()));
    let [_, heads, n_q, _] = file.shape("q")?;
    ensure!(
        (2..=4).contains(&dimensions[0]) && dimensions == [dimensions[0]; 3],
        "tensors `q`, `k` and `v` have {dimensions:?} dimensions, but 2, 3 or 4 are needed, as many in each"
    );
    let has_past = match ["past_key", "past_value"].map(|name| file.info(name).is_some()) {
        [true, false] => bail!("tensor `past_key` comes without `past_value`"),
        [false, true] => bail!("tensor `past_value` comes without `past_key`"),
        [has_past, _] => has_past,
    };
    let names = [["past_key", "k"], ["past_value", "v"]];
    let [of_k, of_v] = [0, 1].map(|i| &names[i][usize::from(!has_past)..]);
    let counts =
        |names: &[&str]| names.iter().map(|name| Ok(file.shape(name)?[2])).sum::<Result<usize>>();
    let (n_k, values) = (counts(of_k)?, counts(of_v)?);
    ensure!(n_k == values, "there are {n_k} keys and {values} values");

    let (ranks, rank) = (world.size() as usize, world.rank() as usize);
    let queries = share(n_q, query_block(n_q, ranks), ranks, rank);
    let keys = share(n_k, CHUNK_KEYS, ranks, rank);
    let (q, k) = (file.floats(&["q"], &queries)?, file.floats(of_k, &keys)?);
    ensure!(k.dtype == q.dtype, "tensor `k` is {:?}, but `q` is {:?}", k.dtype, q.dtype);
    let (mut allowed, mut bias) = (None, None);
    if let Some(info) = file.info("attn_mask") {
        // A mask of one row is for all queries.
        let mut shape = file.shape("attn_mask")?;
        let (rows, own) = (shape[2], queries.iter().map(Range::len).sum());
        ensure!(rows == 1 || rows == n_q, "tensor `attn_mask` has {rows} rows, but `q` has {n_q}");
        let places = if rows == 1 { slice::from_ref(&FIRST) } else { &queries };
        shape[2] = if rows == 1 { 1 } else { own };
        if matches!(info.dtype, Dtype::BOOL | Dtype::U8) {
            let mut shown = Vec::new();
            file.tokens(&["attn_mask"], places, |bytes, _| {
                shown.extend(bytes.iter().map(|b| *b != 0));
                Ok(())
            })?;
            allowed = Some((shown, shape.to_vec()));
        } else {
            bias = Some((file.floats(&["attn_mask"], places)?.data, shape.to_vec()));
        }
    }
    let of_heads = |name: &str| -> Result<Option<Vec<f32>>> {
        let Some(info) = file.info(name) else { return Ok(None) };
        ensure!(
            info.shape == [heads],
            "tensor `{name}` has the shape {:?}, but [{heads}] is needed",
            info.shape
        );
        Ok(Some(file.floats(&[name], slice::from_ref(&FIRST))?.data))
    };
    let lengths = match file.info("kv_lengths") {
        None => None,
        Some(info) => {
            let fits = info.dtype == Dtype::I64 && info.shape.len() <= 1;
            ensure!(
                fits,
                "tensor `kv_lengths` is {:?} {:?}, but I64 [batch] is needed",
                info.dtype,
                info.shape
            );
            let mut lengths = Vec::new();
            file.tokens(&["kv_lengths"], slice::from_ref(&FIRST), |bytes, _| {
                lengths.extend(bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b)));
                Ok(())
            })?;
            let length =
                |n| usize::try_from(n).with_context(|| format!("tensor `kv_lengths` holds {n}"));
            Some(lengths.into_iter().map(length).collect::<Result<_>>()?)
        }
    };
    let (v, sinks, alibi_slopes) =
        (file.floats(of_v, &keys)?, of_heads("sinks")?, of_heads("alibi_slopes")?);
    let dimensions = dimensions[0];
    let optional = Optional { allowed, bias, lengths, sinks, alibi_slopes };
    Ok(Inputs { q, k, v, queries, keys, dimensions, has_past, optional })
}

fn write(
    world: &SimpleCommunicator,
    options: &AttendOptions,
    inputs: Inputs,
    (output, log_sum_exp): (Vec<f32>, Vec<f32>),
) -> Result<(), Error> {
    let Inputs { q, k, v, queries, keys, dimensions, has_past, .. } = inputs;
    let part = |name, dtype, shape: &[usize], places: &[Range<usize>], data| Part {
        name,
        dtype,
        shape: shape.iter().skip(4 - dimensions).copied().collect(),
        size: [shape[2], shape.get(3).copied().unwrap_or(1)],
        places: places.to_owned(),
        data,
    };
    let ([batch, heads, n_q, _], [_, _, _, d_v]) = (q.shape, v.shape);
    let (dtype, mut parts) = (wider(q.dtype, v.dtype), Vec::new());
    if options.lse {
        parts.push(part("log_sum_exp", Dtype::F32, &[batch, heads, n_q], &queries, log_sum_exp));
    }
    parts.push(part("output", dtype, &[batch, heads, n_q, d_v], &queries, output));
    if has_past {
        parts.push(part("present_key", k.dtype, &k.shape, &keys, k.data));
        parts.push(part("present_value", v.dtype, &v.shape, &keys, v.data));
    }
    let (path, is_first) = (&options.output, world.rank() == 0);
    let written = || format!("writing {}", path.display());
    let output = agree(world, Output::new(path, &parts).with_context(written))?;
    // The file is locked until this function ends.
    let temporary = if is_first { output.create().map(Some) } else { Ok(None) };
    let _temporary = agree(world, temporary.with_context(written))?;
    let finished = agree(world, output.write(&parts).with_context(written)).and_then(|()| {
        let renamed = if is_first { output.finish() } else { Ok(()) };
        agree(world, renamed.with_context(written))
    });
    if finished.is_err() && is_first {
        output.remove();
    }
    finished
}
