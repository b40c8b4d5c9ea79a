//! y = xWᵀ + b with W in the type in which the file stores it.
//!
//! A panel of [`PANEL`] rows of W is widened to `f32` in scratch memory, multiplied by all tokens, and forgotten: the whole of W
//! is never in memory twice. Panels are computed in parallel; each output is a sum in an order that depends neither on the
//! panel nor on the threads.

use rayon::prelude::*;
use regard::Threads;
use regard_kernels::{Mat, MatMut, matmul_transposed};

use super::Shared;
use crate::{Error, Tensor};

/// The rows of W that are widened at a time.
const PANEL: usize = 64;

/// A linear layer.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    /// \[outputs, inputs\]
    weight: Shared,
    /// \[outputs\]
    pub(crate) bias: Option<Vec<f32>>,
}

impl Linear {
    pub(crate) fn new(weight: Tensor, bias: Option<Vec<f32>>) -> Self {
        Self { weight: weight.into(), bias }
    }

    pub(crate) fn weight(&self) -> &Tensor {
        &self.weight
    }

    /// The layer of these outputs, in this order, or `None` if memory has no room.
    pub(crate) fn select(&self, rows: &[usize]) -> Option<Self> {
        let bias = self.bias.as_ref().map(|bias| rows.iter().map(|row| bias[*row]).collect());
        Some(Self { weight: self.weight.select_rows(rows)?.into(), bias })
    }

    /// y \[tokens, outputs\] for x \[tokens, inputs\].
    pub(crate) fn forward(&self, x: &[f32]) -> Result<Vec<f32>, Error> {
        let (outputs, inputs) = (self.weight.rows(), self.weight.cols());
        let tokens = x.len() / inputs.max(1);
        let x = Mat::new(x, tokens, inputs).map_err(regard::Error::from)?;
        // [outputs, tokens], so that a panel's outputs are neighbours.
        let mut columns = vec![0.0; outputs * tokens];
        let panel = |scratch: &mut Vec<f32>, (i, out): (usize, &mut [f32])| {
            let rows = out.len() / tokens;
            scratch.resize(rows * inputs, 0.0);
            self.weight.widen(i * PANEL, scratch);
            let weight = Mat::new(scratch, rows, inputs)?;
            matmul_transposed(weight, x, MatMut::new(out, rows, tokens)?)
        };
        let size = (PANEL * tokens).max(1);
        if Threads::current().count() > 1 {
            let panels = columns.par_chunks_mut(size).enumerate();
            panels.try_for_each_init(Vec::new, panel)
        } else {
            let mut scratch = Vec::new();
            columns.chunks_mut(size).enumerate().try_for_each(|job| panel(&mut scratch, job))
        }
        .map_err(regard::Error::from)?;
        if tokens == 1 {
            if let Some(bias) = &self.bias {
                columns.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
            }
            return Ok(columns);
        }
        let mut y = vec![0.0; outputs * tokens];
        for (token, row) in y.chunks_exact_mut(outputs.max(1)).enumerate() {
            for (output, y) in row.iter_mut().enumerate() {
                let bias = self.bias.as_ref().map_or(0.0, |bias| bias[output]);
                *y = columns[output * tokens + token] + bias;
            }
        }
        Ok(y)
    }
}
