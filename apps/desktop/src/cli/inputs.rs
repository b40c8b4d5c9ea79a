//! What `regard attend` reads.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use regard::Heads;
use safetensors::{Dtype, SafeTensors};

use super::tensors::{self, Tensor};

const KNOWN: [&str; 9] =
    ["q", "k", "v", "attn_mask", "past_key", "past_value", "kv_lengths", "sinks", "alibi_slopes"];

/// The tensors of the file; q, k and v as [batch, heads, n, d], whatever their dimensions in the file.
pub(crate) struct AttendInputs {
    pub(crate) q: Tensor,
    /// With the past.
    pub(crate) k: Tensor,
    /// With the past.
    pub(crate) v: Tensor,
    /// The dimensions that q, k and v have in the file.
    pub(crate) rank: usize,
    pub(crate) has_past: bool,
    pub(crate) allowed: Option<(Vec<bool>, Vec<usize>)>,
    pub(crate) bias: Option<Tensor>,
    pub(crate) lengths: Option<Vec<usize>>,
    pub(crate) sinks: Option<Vec<f32>>,
    pub(crate) alibi_slopes: Option<Vec<f32>>,
}

impl AttendInputs {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).context("reading")?;
        let file = SafeTensors::deserialize(&bytes).context("reading")?;
        for name in file.names() {
            if !KNOWN.contains(&name) {
                anstream::eprintln!("note: tensor `{name}` is not used");
            }
        }
        Self::of(&file)
    }

    fn of(file: &SafeTensors<'_>) -> Result<Self> {
        let q = tensors::required(file, "q")?;
        let rank = q.shape.len();
        ensure!(
            (2..=4).contains(&rank),
            "tensor `q` has the shape {:?}, but 2, 3 or 4 dimensions are needed",
            q.shape
        );
        let like_q = |name: &str, tensor: Tensor| -> Result<Tensor> {
            ensure!(
                tensor.shape.len() == rank,
                "tensor `{name}` has the shape {:?}, but as many dimensions as `q` {:?} are needed",
                tensor.shape,
                q.shape
            );
            Ok(to_four_dimensions(tensor))
        };
        let mut k = like_q("k", tensors::required(file, "k")?)?;
        let mut v = like_q("v", tensors::required(file, "v")?)?;
        check_dtype("k", &k, "q", q.dtype)?;
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
        let bias = match allowed {
            Some(_) => None,
            None => {
                tensors::floats(file, "attn_mask").context("the mask is neither BOOL nor U8")?
            }
        };
        let lengths = tensors::lengths(file, "kv_lengths")?;
        let sinks = of_heads(file, "sinks", &q)?;
        let alibi_slopes = of_heads(file, "alibi_slopes", &q)?;
        Ok(Self {
            q: to_four_dimensions(q),
            k,
            v,
            rank,
            has_past,
            allowed,
            bias,
            lengths,
            sinks,
            alibi_slopes,
        })
    }
}

/// The heads of a tensor of four dimensions.
pub(crate) fn heads<'a>(name: &'static str, tensor: &'a Tensor) -> Result<Heads<'a>> {
    let shape = <[usize; 4]>::try_from(tensor.shape.as_slice()).context("four dimensions")?;
    Ok(Heads::new(name, &tensor.data, shape)?)
}

/// The numbers of tensor `name`, one a head of `q`, if the file has it.
fn of_heads(file: &SafeTensors<'_>, name: &str, q: &Tensor) -> Result<Option<Vec<f32>>> {
    let Some(tensor) = tensors::floats(file, name)? else { return Ok(None) };
    let heads = q.shape.iter().rev().nth(2).copied().unwrap_or(1);
    ensure!(
        tensor.shape == [heads],
        "tensor `{name}` has the shape {:?}, but [{heads}] is needed, one a head of `q` {:?}",
        tensor.shape,
        q.shape
    );
    Ok(Some(tensor.data))
}

fn check_dtype(name: &str, tensor: &Tensor, like: &str, dtype: Dtype) -> Result<()> {
    ensure!(
        tensor.dtype == dtype,
        "tensor `{name}` is {:?}, but `{like}` is {dtype:?}",
        tensor.dtype
    );
    Ok(())
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
    check_dtype(past_name, past, new_name, new.dtype)?;
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
