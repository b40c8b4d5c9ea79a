use anyhow::{Context as _, Result};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressFinish};
use regard::{Stage, Threads};
use regard_tensors::attend::{AttendOptions, check_range, wider};
use safetensors::Dtype;
use safetensors::tensor::serialize;

use super::destination::Destination;
use super::inputs::{AttendInputs, heads};
use super::tensors::Tensor;
use super::threads;
use crate::failure::{BadInput as _, Failure};

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
/// Writes `output`, on request `scores` and `log_sum_exp`, and with a past `present_key` and `present_value`. Computes in F32.
/// Writes `scores` in the type of `q` and `k`, and `output` in that of `q` and `v`, or in F32 if these differ. A number beyond
/// the range of its type is an error.
///
/// What is computed, edge cases included: docs/contract.md.
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(flatten)]
    options: AttendOptions,

    /// Also write the scores at this stage
    #[arg(long, value_parser = stage(), value_name = "STAGE")]
    scores: Option<Stage>,
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

pub(crate) fn run(Args { options, scores }: &Args) -> Result<(), Failure> {
    let output = Destination::new(&options.output, options.force)?;
    let file = || options.input.display().to_string();
    let inputs = AttendInputs::read(&options.input, scores.is_some());
    let inputs = inputs.with_context(file).bad_input()?;
    output.check()?;
    let threads = Threads::new(threads(options.threads)).bad_input()?;
    let attend = || attend(inputs, options, *scores);
    let results = threads.install(attend).with_context(file).bad_input()?;
    output.write(&serialize(results, None).context("laying out the output file")?)
}

fn attend(
    inputs: AttendInputs,
    options: &AttendOptions,
    scores: Option<Stage>,
) -> Result<Vec<(&'static str, Tensor)>> {
    let (q, k, v) = (heads("q", &inputs.q)?, heads("k", &inputs.k)?, heads("v", &inputs.v)?);
    let bar = ProgressBar::new(0).with_finish(ProgressFinish::AndClear);
    let progress = |done: usize, all: usize| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    };
    let [batch, heads, n_q, _] = q.shape();
    let [_, _, n_k, _] = k.shape();
    let [_, _, _, d_v] = v.shape();
    let attention = options.attention(&inputs.optional, n_q, n_k)?.progress(&progress);
    // The results have as many dimensions as the tensors of the file.
    let missing = 4 - inputs.rank;
    let tensor = |data, shape: &[usize], dtype| Tensor {
        data,
        shape: shape.iter().skip(missing).copied().collect(),
        dtype,
    };

    let dtype = inputs.q.dtype;
    let mut results = Vec::new();
    let output = if options.lse {
        let (output, log_sum_exp) = attention.forward_with_log_sum_exp(q, k, v)?;
        results.push((
            "log_sum_exp",
            tensor(log_sum_exp.into_vec(), &[batch, heads, n_q], Dtype::F32),
        ));
        output
    } else {
        attention.forward(q, k, v)?
    };
    let output_dtype = wider(dtype, inputs.v.dtype);
    results.push(("output", tensor(output.into_vec(), &[batch, heads, n_q, d_v], output_dtype)));
    if let Some(stage) = scores {
        let scores = attention.scores(stage, q, k)?;
        results.push(("scores", tensor(scores.into_vec(), &[batch, heads, n_q, n_k], dtype)));
    }
    for (name, tensor) in &results {
        check_range(name, &tensor.data, tensor.dtype)?;
    }
    if inputs.has_past {
        let AttendInputs { k, v, .. } = inputs;
        results.push(("present_key", tensor(k.data, &k.shape, k.dtype)));
        results.push(("present_value", tensor(v.data, &v.shape, v.dtype)));
    }
    Ok(results)
}
