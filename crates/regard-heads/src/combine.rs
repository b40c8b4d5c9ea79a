use rayon::iter::{IndexedParallelIterator as _, ParallelIterator as _};
use rayon::slice::ParallelSliceMut as _;
use regard_kernels::{Mat, MatMut, matmul};
use serde::{Deserialize, Serialize};

use super::error::counted;
use super::maps::no_such;
use super::{AttentionMaps, Error, HeadId, Progress, tell};

/// A matrix of an attention, queries × keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MapPart {
    /// One head.
    Head(HeadId),
    /// The mean of the heads of a layer (by its index in the file).
    Mean(usize),
    /// Attention rollout up to a layer (by its index in the file).
    Rollout(usize),
}

/// The number of rows that a thread computes at a time.
const ROWS: usize = 64;

impl AttentionMaps {
    /// The numbers of a part, queries × keys, row by row.
    ///
    /// # Errors
    /// [`Error::Missing`]; for rollout also [`Error::Unfit`] and [`Error::Cancelled`].
    pub fn part(&self, part: MapPart, progress: &Progress<'_>) -> Result<Vec<f32>, Error> {
        match part {
            MapPart::Head(id) => Ok(self.head(id).into_owned()),
            MapPart::Mean(layer) => self.mean(layer, progress),
            MapPart::Rollout(layer) => self.rollout(layer, progress),
        }
    }

    /// The title of a part, with the layer numbers of the file.
    pub fn title(&self, part: MapPart) -> String {
        let number = |layer| self.layer_number(layer);
        match part {
            MapPart::Head(id) => format!("Head {}", self.name_of(id)),
            MapPart::Mean(layer) => format!("Layer {}, mean of the heads", number(layer)),
            MapPart::Rollout(layer) => format!("Attention rollout to layer {}", number(layer)),
        }
    }

    /// The mean of the heads of `layer` (by its index in the file), queries × keys, row by row. Where a head has NaN, the mean is
    /// NaN.
    ///
    /// # Errors
    /// [`Error::Missing`], or [`Error::Cancelled`].
    pub fn mean(&self, layer: usize, progress: &Progress<'_>) -> Result<Vec<f32>, Error> {
        let shape = self.shape();
        if layer >= shape.layers {
            return Err(no_such("layer", layer, &counted(shape.layers, "layer")));
        }
        let part = 1.0 / shape.heads as f32;
        let mut mean = vec![0.0; shape.size()];
        for head in 0..shape.heads {
            tell(progress, head, shape.heads)?;
            mean.par_chunks_mut(shape.keys).enumerate().for_each(|(query, sums)| {
                let row = self.row(HeadId { layer, head }, query);
                sums.iter_mut().zip(&*row).for_each(|(sum, w)| *sum += part * w);
            });
        }
        Ok(mean)
    }

    /// Attention rollout from the tokens to the output of `layer` (by its index in the file): \[n, n\], row by row. Row i
    /// estimates how much of each token reaches position i.
    ///
    /// For each layer, the heads are averaged to A, the residual connection is added, (A + I) / 2, and each row is divided by
    /// its sum. The product of these matrices is the rollout: Abnar & Zuidema, "Quantifying Attention Flow in Transformers",
    /// ACL 2020.
    ///
    /// # Errors
    /// [`Error::Unfit`], [`Error::Missing`], or [`Error::Cancelled`].
    pub fn rollout(&self, layer: usize, progress: &Progress<'_>) -> Result<Vec<f32>, Error> {
        let n = self.shape().keys;
        if !self.is_self_attention() {
            return Err(Error::Unfit(format!(
                "rollout needs self-attention, with as many queries as keys, of the same tokens; the matrices of the file are {} × {n}",
                self.shape().queries
            )));
        }
        let with_residual = |l: usize| {
            self.with_residual(l, &|part| progress((l as f32 + part) / (layer + 1) as f32))
        };
        let mut rollout = with_residual(0)?;
        let mut next = vec![0.0; n * n];
        for l in 1..=layer {
            let a = with_residual(l)?;
            let before = Mat::new(&rollout, n, n)?;
            next.par_chunks_mut(ROWS * n)
                .zip(rayon::slice::ParallelSlice::par_chunks(&*a, ROWS * n))
                .try_for_each(|(next, a)| {
                    let rows = a.len() / n;
                    matmul(Mat::new(a, rows, n)?, before, MatMut::new(next, rows, n)?)
                })?;
            core::mem::swap(&mut rollout, &mut next);
        }
        Ok(rollout)
    }

    /// (A + I) / 2, each row divided by its sum.
    fn with_residual(&self, layer: usize, progress: &Progress<'_>) -> Result<Vec<f32>, Error> {
        let n = self.shape().keys;
        let mut a = self.mean(layer, progress)?;
        for (i, row) in a.chunks_exact_mut(n).enumerate() {
            row[i] += 1.0;
            let sum: f64 = row.iter().copied().map(f64::from).sum();
            for w in row {
                *w = (f64::from(*w) / sum) as f32;
            }
        }
        Ok(a)
    }
}
