//! The inputs of `regard attend`.

use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use regard::Heads;
use regard_tensors::attend::Optional;
use safetensors::Dtype;
use safetensors::tensor::TensorView;

use super::limits::{self, check_rows};
use super::tensors::{self, Tensor, TensorsOfFile};
use crate::model_files;
use crate::say::tell;

const KNOWN: [&str; 9] =
    ["q", "k", "v", "attn_mask", "past_key", "past_value", "kv_lengths", "sinks", "alibi_slopes"];

/// The tensors of the file. q, k and v are [batch, heads, n, d], whatever their dimensions in the file.
pub(crate) struct AttendInputs {
    pub(crate) q: Tensor,
    /// The keys, with the past.
    pub(crate) k: Tensor,
    /// The values, with the past.
    pub(crate) v: Tensor,
    /// The number of dimensions of q, k and v in the file.
    pub(crate) rank: usize,
    pub(crate) has_past: bool,
    pub(crate) optional: Optional,
}

impl AttendInputs {
    /// Reads a file. `scores` tells whether the scores are written, for the limits on sizes.
    pub(crate) fn read(path: &Path, scores: bool) -> Result<Self> {
        let file = TensorsOfFile::read(path)?;
        let results = bytes_of_results(&file, scores)?;
        model_files::allow("the results take", results).map_err(|failure| failure.error)?;
        for (name, _) in file.shapes() {
            if !KNOWN.contains(&name.as_str()) {
                tell(format_args!("note: tensor `{name}` is not used"));
            }
        }
        Self::of(&file)
    }

    fn of(file: &TensorsOfFile) -> Result<Self> {
        let q = tensors::required(file, "q")?;
        let rank = q.shape().len();
        ensure!(
            (2..=4).contains(&rank),
            "tensor `q` has the shape {:?}, but 2, 3 or 4 dimensions are needed",
            q.shape()
        );
        let numbers = tensors::numbers("q", &q)?;
        let k = with_past(file, "past_key", "k", &q)?;
        let v = with_past(file, "past_value", "v", &q)?;
        check_dtype("k", k.dtype, "q", q.dtype())?;
        let past = ["past_key", "past_value"].map(|name| file.tensor(name).is_some());
        let has_past = match past {
            [true, false] => bail!("tensor `past_key` comes without `past_value`"),
            [false, true] => bail!("tensor `past_value` comes without `past_key`"),
            [has_past, _] => has_past,
        };
        let allowed = tensors::booleans(file, "attn_mask");
        let bias = match allowed {
            Some(_) => None,
            None => {
                tensors::floats(file, "attn_mask").context("the mask is neither BOOL nor U8")?
            }
        };
        let bias = bias.map(|bias| (bias.data, bias.shape));
        let lengths = tensors::lengths(file, "kv_lengths")?;
        let sinks = of_heads(file, "sinks", q.shape())?;
        let alibi_slopes = of_heads(file, "alibi_slopes", q.shape())?;
        let q = Tensor { shape: to_four_dimensions(&numbers.shape), ..numbers };
        let optional = Optional { allowed, bias, lengths, sinks, alibi_slopes };
        Ok(Self { q, k, v, rank, has_past, optional })
    }
}

/// The heads of a tensor of four dimensions.
pub(crate) fn heads<'a>(name: &'static str, tensor: &'a Tensor) -> Result<Heads<'a>> {
    let shape = <[usize; 4]>::try_from(tensor.shape.as_slice()).context("four dimensions")?;
    Ok(Heads::new(name, &tensor.data, shape)?)
}

/// The number of bytes of the results, from the shapes in a file. Shapes that do not fit each other are refused later.
fn bytes_of_results(file: &TensorsOfFile, scores: bool) -> Result<u64> {
    for (name, shape) in file.shapes() {
        check_rows(&name, shape)?;
    }
    let shape = |name: &str| Some(to_four_dimensions(file.tensor(name)?.shape()));
    let with_past = |past: &str, new: &str| {
        let (past, mut new) = (shape(past), shape(new).unwrap_or_default());
        if let (Some(&[_, _, tokens, _]), [_, _, all, _]) = (past.as_deref(), &mut new[..]) {
            *all = all.saturating_add(tokens);
        }
        new
    };
    let (k, v) = (with_past("past_key", "k"), with_past("past_value", "v"));
    let q = shape("q").unwrap_or_default();
    let present = file.tensor("past_key").is_some();
    limits::Call { q: &q, k: &k, v: &v, scores, present }.bytes()
}

/// The numbers of tensor `name`, one for each head of `q`, if the file has it.
fn of_heads(file: &TensorsOfFile, name: &str, q: &[usize]) -> Result<Option<Vec<f32>>> {
    let Some(tensor) = tensors::floats(file, name)? else { return Ok(None) };
    let heads = q.iter().rev().nth(2).copied().unwrap_or(1);
    ensure!(
        tensor.shape == [heads],
        "tensor `{name}` has the shape {:?}, but [{heads}] is needed, one a head of `q` {q:?}",
        tensor.shape
    );
    Ok(Some(tensor.data))
}

fn check_dtype(name: &str, dtype: Dtype, like: &str, expected: Dtype) -> Result<()> {
    ensure!(dtype == expected, "tensor `{name}` is {dtype:?}, but `{like}` is {expected:?}");
    Ok(())
}

/// The shape, padded with 1 on the left.
fn to_four_dimensions(shape: &[usize]) -> Vec<usize> {
    let missing = 4_usize.saturating_sub(shape.len());
    core::iter::repeat_n(1, missing).chain(shape.iter().copied()).collect()
}

/// Tensor `new` of the file. With a past, it is `past` followed by `new`, head by head, along the tokens.
fn with_past(file: &TensorsOfFile, past: &str, new: &str, q: &TensorView<'_>) -> Result<Tensor> {
    let like_q = |name: &str, view: &TensorView<'_>| -> Result<Vec<usize>> {
        ensure!(
            view.shape().len() == q.shape().len(),
            "tensor `{name}` has the shape {:?}, but as many dimensions as `q` {:?} are needed",
            view.shape(),
            q.shape()
        );
        Ok(to_four_dimensions(view.shape()))
    };
    let view = tensors::required(file, new)?;
    let shape = like_q(new, &view)?;
    let Some(past_view) = file.tensor(past) else {
        return Ok(Tensor { shape, ..tensors::numbers(new, &view)? });
    };
    let past_shape = like_q(past, &past_view)?;
    check_dtype(past, past_view.dtype(), new, view.dtype())?;
    let (p, n) = (&past_shape, &shape);
    ensure!(
        p[..2] == n[..2] && p[3] == n[3],
        "tensor `{past}` has the shape {p:?}, which does not go before `{new}` {n:?}: \
         only the number of tokens, the last but one, may differ"
    );
    let tokens = p[2].checked_add(n[2]).context("too many tokens")?;
    let mut both = Tensor { shape: vec![n[0], n[1], tokens, n[3]], ..Tensor::empty(view.dtype()) };
    let (views, heads) = ([(past, &past_view), (new, &view)], n[0] * n[1]);
    both.data
        .reserve_exact(views.iter().map(|(_, view)| view.shape().iter().product::<usize>()).sum());
    for head in 0..heads {
        for (name, view) in views {
            let len = view.data().len() / heads;
            both.push(name, &view.data()[head * len..][..len])?;
        }
    }
    Ok(both)
}
