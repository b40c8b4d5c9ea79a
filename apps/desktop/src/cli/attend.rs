use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use clap::ValueEnum;
use indicatif::ProgressBar;
use regard::{Attention, Heads, MaskTensor, MaskValues, Threads};
use regard_kernels::{Position, Stage, Temperature, Window};
use safetensors::SafeTensors;

use super::failure::{BadInput as _, Failure};
use super::parse_temperature;
use super::tensors::{self, Tensor};

/// Compute attention over the tensors of a safetensors file
///
/// Reads `q`, `k` and `v` of 2 dimensions, 3 ([heads, n, d]) or 4 ([batch, heads, n, d]; fewer K/V heads mean grouped
/// queries), F32, F16 or BF16; and, where present, `attn_mask` (BOOL or U8: nonzero may be seen; floats: added; broadcast
/// from the right), `past_key` and `past_value` (put before `k` and `v`) and `kv_lengths` (I64, [batch]). Writes `output`,
/// and `present_key`, `present_value` and `scores` where asked or implied.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The safetensors file to read
    #[arg(long, value_name = "IN.safetensors")]
    input: PathBuf,

    /// The safetensors file to write
    #[arg(long, value_name = "OUT.safetensors")]
    output: PathBuf,

    /// Hide the keys behind each query, which stands: top-left (query i at key i), bottom-right (the last query at the
    /// last key) or OFFSET + i
    #[arg(long, value_name = "POSITION", value_parser = parse_position, allow_hyphen_values = true)]
    causal: Option<Position>,

    /// What the dot products are multiplied by [default: 1/√d]
    #[arg(long, value_name = "S", allow_hyphen_values = true)]
    scale: Option<f32>,

    /// Cap the scores softly: C·tanh(score / C)
    #[arg(long, value_name = "C")]
    softcap: Option<f32>,

    /// What the scores are divided by before softmax: 0 for the largest score alone, inf for uniform
    #[arg(long, value_name = "T", default_value = "1", value_parser = parse_temperature)]
    temperature: Temperature,

    /// See at most LEFT keys before and RIGHT keys behind the query's place (inf: no limit)
    #[arg(long, value_name = "LEFT,RIGHT", value_parser = parse_window)]
    window: Option<Window>,

    /// Where the queries stand for --window: as for --causal [default: as --causal]
    #[arg(long, value_name = "POSITION", value_parser = parse_position, allow_hyphen_values = true)]
    position: Option<Position>,

    /// Also write the scores, as they are at this stage
    #[arg(long, value_enum, value_name = "STAGE")]
    scores: Option<ScoreStage>,

    /// Threads to use [default: one for each core]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ScoreStage {
    /// q·k × scale
    Raw,
    /// After the soft cap
    Softcapped,
    /// After the mask
    Masked,
    /// After softmax
    Weights,
}

impl From<ScoreStage> for Stage {
    fn from(stage: ScoreStage) -> Self {
        match stage {
            ScoreStage::Raw => Self::Raw,
            ScoreStage::Softcapped => Self::Softcapped,
            ScoreStage::Masked => Self::Masked,
            ScoreStage::Weights => Self::Weights,
        }
    }
}

fn parse_position(text: &str) -> Result<Position, String> {
    match text {
        "top-left" => Ok(Position::TopLeft),
        "bottom-right" => Ok(Position::BottomRight),
        offset => offset
            .parse()
            .map(Position::Offset)
            .map_err(|_e| "expected top-left, bottom-right or a whole number of keys".to_owned()),
    }
}

fn parse_window(text: &str) -> Result<Window, String> {
    let side = |side: &str| match side.trim() {
        "inf" => Ok(None),
        n => n.parse().map(Some).map_err(|_e| format!("expected two whole numbers (or inf) as in 128,0, not {n:?}")),
    };
    let (left, right) = text.split_once(',').ok_or("expected LEFT,RIGHT as in 128,0")?;
    Ok(Window { left: side(left)?, right: side(right)? })
}

pub(crate) fn run(args: &Args) -> Result<(), Failure> {
    let read = || format!("reading {}", args.input.display());
    let bytes = std::fs::read(&args.input).with_context(read).bad_input()?;
    let file = SafeTensors::deserialize(&bytes).with_context(read).bad_input()?;
    for name in file.names() {
        if !KNOWN.contains(&name) {
            anstream::eprintln!("note: tensor `{name}` is not used");
        }
    }
    let results =
        Inputs::read(&file).and_then(|inputs| inputs.attend(args)).with_context(|| args.input.display().to_string());
    tensors::write(&args.output, &results.bad_input()?)?;
    Ok(())
}

const KNOWN: [&str; 7] = ["q", "k", "v", "attn_mask", "past_key", "past_value", "kv_lengths"];

/// The tensors of the file; q, k and v as [batch, heads, n, d], whatever their dimensions in the file.
struct Inputs {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    /// The dimensions that q, k and v have in the file.
    rank: usize,
    has_past: bool,
    allowed: Option<(Vec<bool>, Vec<usize>)>,
    bias: Option<Tensor>,
    lengths: Option<Vec<usize>>,
}

impl Inputs {
    fn read(file: &SafeTensors<'_>) -> Result<Self> {
        let q = tensors::required(file, "q")?;
        let rank = q.shape.len();
        ensure!((2..=4).contains(&rank), "tensor `q` has the shape {:?}, but 2, 3 or 4 dimensions are needed", q.shape);
        let like_q = |name: &str, tensor: Tensor| -> Result<Tensor> {
            ensure!(
                tensor.shape.len() == rank,
                "tensor `{name}` has the shape {:?}, but as many dimensions as `q` {:?} are needed",
                tensor.shape,
                q.shape
            );
            ensure!(tensor.dtype == q.dtype, "tensor `{name}` is {:?}, but `q` is {:?}", tensor.dtype, q.dtype);
            Ok(to_four_dimensions(tensor))
        };
        let mut k = like_q("k", tensors::required(file, "k")?)?;
        let mut v = like_q("v", tensors::required(file, "v")?)?;
        let past = (tensors::floats(file, "past_key")?, tensors::floats(file, "past_value")?);
        let has_past = past.0.is_some();
        match past {
            (Some(past_key), Some(past_value)) => {
                k = concatenate("past_key", &like_q("past_key", past_key)?, "k", &k)?;
                v = concatenate("past_value", &like_q("past_value", past_value)?, "v", &v)?;
            }
            (None, None) => {}
            (Some(_), None) => bail!("tensor `past_key` comes without `past_value`"),
            (None, Some(_)) => bail!("tensor `past_value` comes without `past_key`"),
        }
        let allowed = tensors::booleans(file, "attn_mask");
        let bias = if allowed.is_none() { tensors::floats(file, "attn_mask")? } else { None };
        let lengths = tensors::lengths(file, "kv_lengths")?;
        Ok(Self { q: to_four_dimensions(q), k, v, rank, has_past, allowed, bias, lengths })
    }

    fn attend(&self, args: &Args) -> Result<Vec<(&'static str, Tensor)>> {
        let (q, k, v) = (heads("q", &self.q)?, heads("k", &self.k)?, heads("v", &self.v)?);
        let bar = ProgressBar::new(0);
        let progress = |done: usize, all: usize| {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
        };
        let attention = self.attention(args)?.progress(&progress);
        let [batch, heads, n_q, _] = q.shape();
        let [_, _, n_k, _] = k.shape();
        let [_, _, _, d_v] = v.shape();
        let mut results = vec![("output", self.result(attention.forward(q, k, v)?, [batch, heads, n_q, d_v]))];
        if let Some(stage) = args.scores {
            let scores = attention.scores(stage.into(), q, k)?;
            results.push(("scores", self.result(scores, [batch, heads, n_q, n_k])));
        }
        if self.has_past {
            results.push(("present_key", self.result(self.k.data.clone(), k.shape())));
            results.push(("present_value", self.result(self.v.data.clone(), v.shape())));
        }
        bar.finish_and_clear();
        Ok(results)
    }

    fn attention(&self, args: &Args) -> Result<Attention<'_>> {
        let mut attention = Attention::new().temperature(args.temperature).threads(Threads::new(args.threads)?);
        if let Some(scale) = args.scale {
            attention = attention.scale(scale);
        }
        if let Some(cap) = args.softcap {
            attention = attention.softcap(cap);
        }
        if let Some(position) = args.causal {
            attention = attention.causal(position);
        }
        if let Some(window) = args.window {
            attention = attention.window(self.window_position(args)?, window);
        }
        if let Some(lengths) = &self.lengths {
            attention = attention.key_lengths(lengths);
        }
        if let Some((allowed, shape)) = &self.allowed {
            attention = attention.mask(MaskTensor::new(MaskValues::Allowed(allowed), shape)?);
        }
        if let Some(bias) = &self.bias {
            attention = attention.mask(MaskTensor::new(MaskValues::Bias(&bias.data), &bias.shape)?);
        }
        Ok(attention)
    }

    /// Where the queries stand for a window. Only for as many queries as keys, all of them there, is there nothing to say.
    fn window_position(&self, args: &Args) -> Result<Position> {
        if let Some(position) = args.position.or(args.causal) {
            return Ok(position);
        }
        let (n_q, n_k) = (self.q.shape[2], self.k.shape[2]);
        ensure!(
            n_q == n_k && self.lengths.is_none(),
            "--window over {n_q} queries and {n_k} keys needs --position: top-left, bottom-right or an offset"
        );
        Ok(Position::TopLeft)
    }

    /// A result in the type of q, with as many dimensions.
    fn result(&self, data: Vec<f32>, shape: [usize; 4]) -> Tensor {
        Tensor { data, shape: shape[shape.len() - self.rank..].to_vec(), dtype: self.q.dtype }
    }
}

fn heads<'a>(name: &'static str, tensor: &'a Tensor) -> Result<Heads<'a>> {
    let shape = <[usize; 4]>::try_from(tensor.shape.as_slice()).context("four dimensions")?;
    Ok(Heads::new(name, &tensor.data, shape)?)
}

/// Missing dimensions on the left are 1.
fn to_four_dimensions(mut tensor: Tensor) -> Tensor {
    while tensor.shape.len() < 4 {
        tensor.shape.insert(0, 1);
    }
    tensor
}

/// `past` and then `new`, head by head, along the tokens.
fn concatenate(past_name: &str, past: &Tensor, new_name: &str, new: &Tensor) -> Result<Tensor> {
    let (p, n) = (&past.shape, &new.shape);
    ensure!(
        p[..2] == n[..2] && p[3] == n[3],
        "tensor `{past_name}` has the shape {p:?}, which does not go before `{new_name}` {n:?}: \
         only the number of tokens, the last but one, may differ"
    );
    let tokens = p[2].checked_add(n[2]).context("too many tokens")?;
    let shape = vec![n[0], n[1], tokens, n[3]];
    let mut data = Vec::with_capacity(past.data.len() + new.data.len());
    for head in 0..n[0] * n[1] {
        for (tensor, len) in [(past, p[2] * p[3]), (new, n[2] * n[3])] {
            data.extend_from_slice(&tensor.data[head * len..][..len]);
        }
    }
    Ok(Tensor { data, shape, dtype: new.dtype })
}
