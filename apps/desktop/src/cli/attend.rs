use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, ensure};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressFinish};
use regard::{Attention, Mask, MaskTensor, Threads};
use regard_kernels::{Position, Stage, Temperature, Window};
use safetensors::Dtype;
use safetensors::tensor::serialize;

use super::destination::Destination;
use super::failure::{BadInput as _, Failure};
use super::inputs::{AttendInputs, heads};
use super::summary::counted;
use super::tensors::Tensor;
use super::threads;

/// Compute attention over the tensors of a safetensors file
///
/// Reads `q`, `k` and `v` of 2 dimensions, 3 ([heads, n, d]) or 4 ([batch, heads, n, d]; fewer K/V heads mean grouped queries),
/// in F32, F16 or BF16; `v` may have another type than `q` and `k`. Optional tensors are:
///
/// - `attn_mask`: BOOL or U8 (a key may be seen where it is nonzero), or floats (added to the scores); broadcast from the right
///   as in NumPy; with `kv_lengths` it may end with the longest of them
/// - `past_key` and `past_value`: earlier keys and values, which precede `k` and `v`
/// - `kv_lengths` (I64, [batch]): the number of keys of each entry, past ones included; the other keys are padding
/// - `sinks` (floats, [heads]): scores that take part in the softmax and have no value
/// - `alibi_slopes` (floats, [heads]): −slope · distance is added to the scores
///
/// Writes `output`, on request `scores` and `log_sum_exp`, and with a past `present_key` and `present_value`. Computes in F32,
/// and writes in the types of the input.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    /// The safetensors file to read
    #[arg(long, value_name = "IN.safetensors")]
    input: PathBuf,

    /// The safetensors file to write
    #[arg(long, value_name = "OUT.safetensors")]
    output: PathBuf,

    /// Overwrite the file that is read
    #[arg(long)]
    force: bool,

    /// Hide the keys after each query's position: top-left (query i is at key i), bottom-right (the last query is at the last
    /// key) or OFFSET (query i is at key OFFSET + i)
    #[arg(long, value_name = "POSITION", allow_hyphen_values = true)]
    causal: Option<Position>,

    /// Multiply the dot products by S [default: 1/√d]
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    scale: Option<f32>,

    /// Cap the scores softly: C·tanh(score / C)
    #[arg(long, value_name = "C")]
    softcap: Option<f32>,

    /// Divide the scores by T before softmax: 0 keeps the largest score alone, inf makes the weights uniform
    #[arg(long, value_name = "T", default_value = "1")]
    temperature: Temperature,

    /// Let each query see at most LEFT keys before its position and RIGHT keys after it (inf: no limit)
    #[arg(long, value_name = "LEFT,RIGHT", allow_hyphen_values = true)]
    window: Option<Window>,

    /// The queries' positions for --window and `alibi_slopes`, in the words of --causal [default: as --causal]
    #[arg(long, value_name = "POSITION", allow_hyphen_values = true)]
    position: Option<Position>,

    /// Also write the scores at this stage
    #[arg(long, value_parser = stage(), value_name = "STAGE")]
    scores: Option<Stage>,

    /// Also write `log_sum_exp` of each query's scores after the temperature, in F32: with it, results over disjoint keys can
    /// be merged
    #[arg(long)]
    lse: bool,

    /// Threads to use, at most one for each core [default: one for each core]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
}

/// The stages, each with its description.
fn stage() -> impl TypedValueParser<Value = Stage> {
    let described = Stage::ALL.iter().map(|stage| {
        PossibleValue::new(stage.word()).help(match stage {
            Stage::Raw => "q·k × scale",
            Stage::Softcapped => "After the soft cap",
            Stage::Masked => "After the mask",
            _ => "After softmax",
        })
    });
    PossibleValuesParser::new(described).try_map(|word| word.parse())
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let output = Destination::new(&args.output, args.force)?;
    let file = || args.input.display().to_string();
    let inputs = AttendInputs::read(&args.input, args.scores.is_some());
    let inputs = inputs.with_context(file).bad_input()?;
    output.check()?;
    let uses_position = args.window.is_some() || inputs.alibi_slopes.is_some();
    if args.position.is_some() && !uses_position {
        return Err(anyhow!("--position is for --window and `alibi_slopes`, and there is neither"))
            .bad_input();
    }
    let threads = Threads::new(threads(args.threads)).bad_input()?;
    let results = threads.install(|| attend(inputs, args)).with_context(file).bad_input()?;
    output.write(&serialize(results, None).context("laying out the output file")?)
}

fn attend(inputs: AttendInputs, args: &Args) -> Result<Vec<(&'static str, Tensor)>> {
    let (q, k, v) = (heads("q", &inputs.q)?, heads("k", &inputs.k)?, heads("v", &inputs.v)?);
    let bar = ProgressBar::new(0).with_finish(ProgressFinish::AndClear);
    let progress = |done: usize, all: usize| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    };
    let attention = describe(&inputs, args)?.progress(&progress);
    let [batch, heads, n_q, _] = q.shape();
    let [_, _, n_k, _] = k.shape();
    let [_, _, _, d_v] = v.shape();
    // The results have as many dimensions as the tensors of the file.
    let missing = 4 - inputs.rank;
    let tensor = |data, shape: &[usize], dtype| Tensor {
        data,
        shape: shape.iter().skip(missing).copied().collect(),
        dtype,
    };

    let dtype = inputs.q.dtype;
    let mut results = Vec::new();
    let output = if args.lse {
        let (output, log_sum_exp) = attention.forward_with_log_sum_exp(q, k, v)?;
        results.push((
            "log_sum_exp",
            tensor(log_sum_exp.into_vec(), &[batch, heads, n_q], Dtype::F32),
        ));
        output
    } else {
        attention.forward(q, k, v)?
    };
    results.push(("output", tensor(output.into_vec(), &[batch, heads, n_q, d_v], dtype)));
    if let Some(stage) = args.scores {
        let scores = attention.scores(stage, q, k)?;
        results.push(("scores", tensor(scores.into_vec(), &[batch, heads, n_q, n_k], dtype)));
    }
    if inputs.has_past {
        let AttendInputs { k, v, .. } = inputs;
        results.push(("present_key", tensor(k.data, &k.shape, k.dtype)));
        results.push(("present_value", tensor(v.data, &v.shape, v.dtype)));
    }
    Ok(results)
}

fn describe<'a>(inputs: &'a AttendInputs, args: &Args) -> Result<Attention<'a>> {
    let mut attention = Attention::new().temperature(args.temperature);
    let mut mask = Mask::NONE;
    if let Some(scale) = args.scale {
        attention = attention.scale(scale);
    }
    if let Some(cap) = args.softcap {
        attention = attention.softcap(cap);
    }
    if let Some(position) = args.causal {
        mask = mask.causal(position);
    }
    if let Some(window) = args.window {
        mask = mask.window(position(inputs, args, "--window")?, window);
    }
    if let Some(slopes) = &inputs.alibi_slopes {
        mask = mask.alibi(position(inputs, args, "`alibi_slopes`")?, slopes);
    }
    if let Some(sinks) = &inputs.sinks {
        attention = attention.sinks(sinks);
    }
    if let Some(lengths) = &inputs.lengths {
        mask = mask.key_lengths(lengths);
    }
    if let Some((allowed, shape)) = &inputs.allowed {
        mask = mask.allowed(MaskTensor::new(allowed, shape)?);
    }
    if let Some(bias) = &inputs.bias {
        mask = mask.bias(MaskTensor::new(&bias.data, &bias.shape)?);
    }
    Ok(attention.mask(mask))
}

/// The queries' positions. They need no argument only if there are as many queries as keys, and no past and no key lengths.
fn position(inputs: &AttendInputs, args: &Args, what: &str) -> Result<Position> {
    if let Some(position) = args.position.or(args.causal) {
        return Ok(position);
    }
    let (n_q, n_k) = (inputs.q.shape[2], inputs.k.shape[2]);
    ensure!(
        n_q == n_k && inputs.lengths.is_none(),
        "{what} over {} and {} needs --position: top-left, bottom-right or an offset",
        counted(n_q, "query", "queries"),
        counted(n_k, "key", "keys")
    );
    Ok(Position::TopLeft)
}
