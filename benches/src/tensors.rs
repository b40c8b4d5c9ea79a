//! Queries, keys and values for the measurement of attention.

use anyhow::Result;
use regard::Heads;
use regard_kernels::{Mat, MatMut};

use crate::{Shape, numbers};

/// The inputs of attention: the heads of each tensor in sequence.
#[derive(Clone)]
pub(crate) struct Tensors {
    shape: Shape,
    /// \[batch, heads, queries, dim\].
    q: Vec<f32>,
    /// \[batch, kv_heads, keys, dim\].
    k: Vec<f32>,
    /// \[batch, kv_heads, keys, dim\].
    v: Vec<f32>,
}

impl Tensors {
    pub(crate) fn new(shape: Shape) -> Self {
        let Shape { batch, heads, kv_heads, queries, keys, dim, .. } = shape;
        let [k, v] = [0.2, 0.3].map(|seed| numbers(batch * kv_heads * keys * dim, seed));
        Self { shape, q: numbers(batch * heads * queries * dim, 0.1), k, v }
    }

    pub(crate) fn shape(&self) -> Shape {
        self.shape
    }

    /// The number of elements of the output.
    pub(crate) fn out_len(&self) -> usize {
        self.q.len()
    }

    /// The queries, keys and values of all heads.
    pub(crate) fn views(&self) -> Result<[Heads<'_>; 3]> {
        let Shape { batch, heads, kv_heads, queries, keys, dim, .. } = self.shape;
        let q = Heads::new("q", &self.q, [batch, heads, queries, dim])?;
        let k = Heads::new("k", &self.k, [batch, kv_heads, keys, dim])?;
        Ok([q, k, Heads::new("v", &self.v, [batch, kv_heads, keys, dim])?])
    }

    /// The queries, keys and values of each head of the batch, with the head's part of `out`.
    pub(crate) fn heads<'a>(
        &'a self,
        out: &'a mut [f32],
    ) -> impl Iterator<Item = Result<(Mat<'a>, Mat<'a>, Mat<'a>, MatMut<'a>)>> {
        let Shape { heads, kv_heads, queries, keys, dim, .. } = self.shape;
        let (q_len, k_len) = (queries * dim, keys * dim);
        let parts = self.q.chunks_exact(q_len).zip(out.chunks_exact_mut(q_len)).enumerate();
        parts.map(move |(i, (q, out))| {
            let start = i / (heads / kv_heads) * k_len;
            let (k, v) = (&self.k[start..][..k_len], &self.v[start..][..k_len]);
            let (k, v) = (Mat::new(k, keys, dim)?, Mat::new(v, keys, dim)?);
            Ok((Mat::new(q, queries, dim)?, k, v, MatMut::new(out, queries, dim)?))
        })
    }
}
