//! Tensors in and out of safetensors files.

use std::borrow::Cow;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use half::{bf16, f16};
use safetensors::tensor::{View, serialize};
use safetensors::{Dtype, SafeTensors};

use crate::whole_file;

/// A tensor of numbers, widened to `f32`.
#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub(crate) data: Vec<f32>,
    pub(crate) shape: Vec<usize>,
    /// How it stood in the file.
    pub(crate) dtype: Dtype,
}

/// The float tensor `name`, if the file has it.
pub(crate) fn floats(file: &SafeTensors<'_>, name: &str) -> Result<Option<Tensor>> {
    let Ok(view) = file.tensor(name) else { return Ok(None) };
    let bytes = view.data();
    let data = match view.dtype() {
        Dtype::F32 => bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        Dtype::F16 => bytes.as_chunks().0.iter().map(|b| f16::from_le_bytes(*b).to_f32()).collect(),
        Dtype::BF16 => {
            bytes.as_chunks().0.iter().map(|b| bf16::from_le_bytes(*b).to_f32()).collect()
        }
        other => bail!("tensor `{name}` is {other:?}, but F32, F16 or BF16 is needed"),
    };
    Ok(Some(Tensor { data, shape: view.shape().to_vec(), dtype: view.dtype() }))
}

/// The float tensor `name`, which the file must have.
pub(crate) fn required(file: &SafeTensors<'_>, name: &str) -> Result<Tensor> {
    floats(file, name)?.with_context(|| {
        let mut names = file.names();
        names.sort_unstable();
        format!("tensor `{name}` is missing; the file has {}", names.join(", "))
    })
}

/// The boolean tensor `name` (BOOL or U8, nonzero is true) with its shape, if the file has it in one of these types.
pub(crate) fn booleans(file: &SafeTensors<'_>, name: &str) -> Option<(Vec<bool>, Vec<usize>)> {
    let view = file.tensor(name).ok()?;
    matches!(view.dtype(), Dtype::BOOL | Dtype::U8)
        .then(|| (view.data().iter().map(|b| *b != 0).collect(), view.shape().to_vec()))
}

/// The lengths (I64) in tensor `name`, if the file has it.
pub(crate) fn lengths(file: &SafeTensors<'_>, name: &str) -> Result<Option<Vec<usize>>> {
    let Ok(view) = file.tensor(name) else { return Ok(None) };
    ensure!(view.dtype() == Dtype::I64, "tensor `{name}` is {:?}, but I64 is needed", view.dtype());
    ensure!(
        view.shape().len() <= 1,
        "tensor `{name}` has the shape {:?}, but [batch] is needed",
        view.shape()
    );
    let numbers = view.data().as_chunks().0.iter().map(|b| i64::from_le_bytes(*b));
    let lengths =
        numbers.map(|n| usize::try_from(n).with_context(|| format!("tensor `{name}` holds {n}")));
    lengths.collect::<Result<_>>().map(Some)
}

impl View for Tensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let numbers = self.data.iter();
        match self.dtype {
            Dtype::F16 => numbers.flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
            Dtype::BF16 => numbers.flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
            _ => numbers.flat_map(|x| x.to_le_bytes()).collect(),
        }
    }

    fn data_len(&self) -> usize {
        self.data.len() * self.dtype.bitsize() / 8
    }
}

/// Writes `tensors` to `path`, whole or not at all.
pub(crate) fn write(path: &Path, tensors: Vec<(&'static str, Tensor)>) -> Result<()> {
    let file = serialize(tensors, None).context("laying out the output file")?;
    whole_file::write(path, &file).with_context(|| format!("writing {}", path.display()))
}
