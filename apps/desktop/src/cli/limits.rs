//! Limits of what `regard attend` computes, checked by the shapes alone before any work.
//!
//! A file of 300 bytes can declare tensors of any number of rows if a row has no elements. Three numbers are therefore
//! limited: the rows of a tensor without elements, the multiply-adds, and the memory of the results.

use anyhow::{Result, ensure};

/// The most rows of a tensor without elements. Loops over such rows take time, although the rows take no memory.
const MOST_EMPTY_ROWS: u64 = 1 << 20;

/// The most multiply-adds of a call: about half a day at 10¹¹ a second.
const MOST_MULTIPLY_ADDS: u64 = 1 << 52;

pub(crate) fn check_rows(name: &str, shape: &[usize]) -> Result<()> {
    let rows = product(shape.iter().map(|n| (*n).max(1)));
    ensure!(
        !shape.contains(&0) || rows <= MOST_EMPTY_ROWS,
        "tensor `{name}` has the shape {shape:?}: a tensor without elements can have at most {MOST_EMPTY_ROWS} rows"
    );
    Ok(())
}

/// The shapes of a call: `q` [batch, heads, n_q, d_k], `k` and `v` with their past.
pub(crate) struct Call<'a> {
    pub(crate) q: &'a [usize],
    pub(crate) k: &'a [usize],
    pub(crate) v: &'a [usize],
    /// Whether the scores are written.
    pub(crate) scores: bool,
    /// Whether keys and values are written.
    pub(crate) present: bool,
}

impl Call<'_> {
    /// Checks the multiply-adds, and returns the bytes of the results: in `f32`, and once more as a file.
    pub(crate) fn bytes(&self) -> Result<u64> {
        let (&[batch, heads, n_q, d_k], &[_, _, n_k, _], &[_, _, _, d_v]) =
            (self.q, self.k, self.v)
        else {
            return Ok(0); // shapes that do not fit are refused elsewhere
        };
        let scores = product([batch, heads, n_q, n_k]);
        let work = scores.saturating_mul((d_k as u64).saturating_add(d_v as u64).max(1));
        ensure!(
            work <= MOST_MULTIPLY_ADDS,
            "{n_q} queries on {n_k} keys of {heads} heads take {work} multiply-adds, but at most {MOST_MULTIPLY_ADDS} are computed"
        );
        let mut results = product([batch, heads, n_q, d_v.saturating_add(1)]);
        if self.scores {
            results = results.saturating_add(scores);
        }
        if self.present {
            let [k, v] = [self.k, self.v].map(|shape| product(shape.iter().copied()));
            results = results.saturating_add(k).saturating_add(v);
        }
        Ok(results.saturating_mul(2).saturating_mul(size_of::<f32>() as u64))
    }
}

fn product(factors: impl IntoIterator<Item = usize>) -> u64 {
    factors.into_iter().fold(1, |product, n| product.saturating_mul(n as u64))
}
