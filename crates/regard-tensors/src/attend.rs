//! What the programs `regard attend` and `regard-mpi attend` share: their options, the optional tensors of a file, the attention
//! that both describe, and the types of numbers in a file.

use std::path::PathBuf;

use anyhow::{Result, bail, ensure};
use half::{bf16, f16};
use regard::{Attention, Mask, MaskTensor, Position, Temperature, Window};
use safetensors::Dtype;

/// The options of `regard attend` and `regard-mpi attend`. The comments of the fields are their help.
#[derive(Debug, clap::Args)]
pub struct AttendOptions {
    /// The safetensors file to read
    #[arg(long, value_name = "IN.safetensors")]
    pub input: PathBuf,

    /// The safetensors file to write
    #[arg(long, value_name = "OUT.safetensors")]
    pub output: PathBuf,

    /// Overwrite the file that is read
    #[arg(long)]
    pub force: bool,

    /// Hide the keys after each query's position: top-left (query i is at key i), bottom-right (the last query is at the last
    /// key) or OFFSET (query i is at key OFFSET + i). With `kv_lengths`, bottom-right goes by each entry's length, which is wrong
    /// for texts padded at the right (docs/contract.md)
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

    /// Also write `log_sum_exp` of each query's scores after the temperature, in F32: with it, results over disjoint keys can
    /// be merged
    #[arg(long)]
    pub lse: bool,

    /// Threads to use, at most one for each core [default: one for each core]
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub threads: usize,
}

/// The optional tensors of a file, each with its shape where that is free.
#[derive(Debug, Default)]
pub struct Optional {
    /// `attn_mask`, if it is boolean: whether a query may see a key.
    pub allowed: Option<(Vec<bool>, Vec<usize>)>,
    /// `attn_mask`, if it has numbers: they are added to the scores.
    pub bias: Option<(Vec<f32>, Vec<usize>)>,
    /// `kv_lengths`: the number of keys of each entry of the batch.
    pub lengths: Option<Vec<usize>>,
    /// `sinks`: a score for each head.
    pub sinks: Option<Vec<f32>>,
    /// `alibi_slopes`: a slope for each head.
    pub alibi_slopes: Option<Vec<f32>>,
}

impl AttendOptions {
    /// The attention of `n_q` queries over `n_k` keys.
    ///
    /// # Errors
    /// If options contradict each other, or a tensor's shape is not that of a mask.
    pub fn attention<'a>(
        &self,
        tensors: &'a Optional,
        n_q: usize,
        n_k: usize,
    ) -> Result<Attention<'a>> {
        let mut attention = Attention::new().temperature(self.temperature);
        let mut mask = Mask::NONE;
        if let Some(scale) = self.scale {
            attention = attention.scale(scale);
        }
        if let Some(cap) = self.softcap {
            attention = attention.softcap(cap);
        }
        if let Some(sinks) = &tensors.sinks {
            attention = attention.sinks(sinks);
        }
        if let Some(position) = self.causal {
            mask = mask.causal(position);
        }
        let uses_position = self.window.is_some() || tensors.alibi_slopes.is_some();
        ensure!(
            self.position.is_none() || uses_position,
            "--position is for --window and `alibi_slopes`, and there is neither"
        );
        // Without an argument, the positions are known only if there are as many queries as keys, and no key lengths.
        let position = match self.position.or(self.causal) {
            Some(position) => position,
            None if uses_position && (n_q != n_k || tensors.lengths.is_some()) => bail!(
                "--window or `alibi_slopes` needs --position (top-left, bottom-right or an offset): the number of queries is {n_q}, that of keys {n_k}"
            ),
            None => Position::TopLeft,
        };
        if let Some(window) = self.window {
            mask = mask.window(position, window);
        }
        if let Some(slopes) = &tensors.alibi_slopes {
            mask = mask.alibi(position, slopes);
        }
        if let Some(lengths) = &tensors.lengths {
            mask = mask.key_lengths(lengths);
        }
        if let Some((allowed, shape)) = &tensors.allowed {
            mask = mask.allowed(MaskTensor::new(allowed, shape)?);
        }
        if let Some((bias, shape)) = &tensors.bias {
            mask = mask.bias(MaskTensor::new(bias, shape)?);
        }
        Ok(attention.mask(mask))
    }
}

/// Appends the numbers of tensor `name` of a file, widened to `f32`.
///
/// # Errors
/// If the type is none of F32, F16 and BF16.
pub fn widen(name: &str, dtype: Dtype, bytes: &[u8], numbers: &mut Vec<f32>) -> Result<()> {
    let halves = || bytes.as_chunks().0.iter();
    match dtype {
        Dtype::F32 => numbers.extend(bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b))),
        Dtype::F16 => numbers.extend(halves().map(|b| f16::from_le_bytes(*b).to_f32())),
        Dtype::BF16 => numbers.extend(halves().map(|b| bf16::from_le_bytes(*b).to_f32())),
        other => bail!("tensor `{name}` is {other:?}, but F32, F16 or BF16 is needed"),
    }
    Ok(())
}

/// The type that holds the numbers of both types: F32, if they differ.
#[must_use]
pub fn wider(a: Dtype, b: Dtype) -> Dtype {
    if a == b { a } else { Dtype::F32 }
}

/// `Ok` if [`narrow`] makes no number of tensor `name` infinite.
///
/// # Errors
/// The first number that is beyond the range of the type.
pub fn check_range(name: &str, numbers: &[f32], dtype: Dtype) -> Result<()> {
    // The largest number, plus half a unit of its last digit: from there on numbers are rounded to ∞.
    let end = match dtype {
        Dtype::F16 => 65_520.0,
        Dtype::BF16 => f32::from_bits(0x7f7f_8000),
        _ => f32::INFINITY,
    };
    if let Some(x) = numbers.iter().find(|x| (end..f32::INFINITY).contains(&x.abs())) {
        bail!(
            "tensor `{name}` holds {x}, which is beyond the range of {dtype:?}: give the input in F32"
        );
    }
    Ok(())
}

/// The bytes of numbers in a type of floats of a file.
#[must_use]
pub fn narrow(numbers: &[f32], dtype: Dtype) -> Vec<u8> {
    match dtype {
        Dtype::F16 => numbers.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
        Dtype::BF16 => numbers.iter().flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
        _ => numbers.iter().flat_map(|x| x.to_le_bytes()).collect(),
    }
}
