//! Tensors of safetensors files, as numbers of one type.

use anyhow::Result;
use half::{bf16, f16};
use safetensors::{Dtype, SafeTensors};

/// A tensor of a file. Booleans are stored as 0 and 1, lengths as whole numbers.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its numbers.
    pub data: Vec<f32>,
    /// The type in which the file stores it.
    pub dtype: Dtype,
}

impl Tensor {
    /// Reads the tensor `name`, if the file has it.
    ///
    /// # Errors
    /// If its type is one that neither ONNX's `Attention` nor `regard attend` uses.
    pub fn read(file: &SafeTensors<'_>, name: &str) -> Result<Option<Self>> {
        let Ok(view) = file.tensor(name) else { return Ok(None) };
        let bytes = view.data();
        let data = match view.dtype() {
            Dtype::F32 => bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
            Dtype::F16 => {
                bytes.as_chunks().0.iter().map(|b| f16::from_le_bytes(*b).to_f32()).collect()
            }
            Dtype::BF16 => {
                bytes.as_chunks().0.iter().map(|b| bf16::from_le_bytes(*b).to_f32()).collect()
            }
            Dtype::I64 => {
                bytes.as_chunks().0.iter().map(|b| i64::from_le_bytes(*b) as f32).collect()
            }
            Dtype::BOOL => bytes.iter().map(|b| f32::from(*b)).collect(),
            other => anyhow::bail!("{name} is {other:?}"),
        };
        Ok(Some(Self { shape: view.shape().to_vec(), data, dtype: view.dtype() }))
    }

    /// The numbers as the bytes of a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let numbers = self.data.iter();
        match self.dtype {
            Dtype::F16 => numbers.flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
            Dtype::BF16 => numbers.flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
            Dtype::I64 => numbers.flat_map(|x| (*x as i64).to_le_bytes()).collect(),
            Dtype::BOOL => numbers.map(|x| *x as u8).collect(),
            _ => numbers.flat_map(|x| x.to_le_bytes()).collect(),
        }
    }

    /// The shape of a tensor of four dimensions.
    ///
    /// # Panics
    /// If the tensor has another number of dimensions.
    pub fn shape4(&self) -> [usize; 4] {
        self.shape.as_slice().try_into().expect("four dimensions")
    }

    /// Reshapes \[batch, tokens, heads · dim\] to \[batch, heads, tokens, dim\], and leaves four dimensions unchanged.
    pub(crate) fn split_heads(self, heads: usize) -> Self {
        let &[batch, tokens, features] = self.shape.as_slice() else { return self };
        let dim = features / heads;
        let mut data = Vec::with_capacity(self.data.len());
        for entry in 0..batch {
            for head in 0..heads {
                for token in 0..tokens {
                    data.extend_from_slice(
                        &self.data[(entry * tokens + token) * features + head * dim..][..dim],
                    );
                }
            }
        }
        Self { shape: vec![batch, heads, tokens, dim], data, dtype: self.dtype }
    }
}
