//! Scores with the positions apart from the contents (He et al. 2021, DeBERTa).
//!
//! Beside the product q·k of a query and a key, a score has two others: that of the query and the key r of their distance, and that
//! of the key and the query s of their distance. All three have one factor:
//!
//! ```text
//! score = (q·k + q·r + k·s) · scale
//! ```
//!
//! r and s are a layer's own projections of a table with a row for each range of distances. Only the rows of the distances in the
//! text are projected.

use regard_kernels::{Mat, MatMut, matmul};

use super::run::product;
use crate::weights::AttentionWeights;
use crate::{Disentangled, Error};

/// The parts of the scores \[heads, queries, keys\] that come from the positions: q·r and k·s, times the scale.
pub(crate) type PositionScores = [Option<Vec<f32>>; 2];

impl Disentangled {
    /// The parts for queries and keys \[tokens, heads · size\]. `table` is \[rows, width\].
    pub(crate) fn parts(
        &self,
        weights: &AttentionWeights,
        table: &[f32],
        [q, k]: [&[f32]; 2],
        [tokens, heads, size]: [usize; 3],
        scale: f32,
    ) -> Result<PositionScores, Error> {
        let [key, query] = &weights.of_positions;
        let width = weights.q.inputs();
        // The rows of the distances from 1 − tokens to tokens − 1.
        let distances = 2 * tokens - 1;
        let mut rows = Vec::with_capacity(distances * width);
        for distance in 0..distances {
            let row = self.row(distance as isize - (tokens as isize - 1));
            rows.extend_from_slice(&table[row * width..][..width]);
        }
        let part = |layer: &regard::Linear, x: &[f32], is_key: bool| {
            let rows = product(layer, &rows)?;
            let mut out = vec![0.0; heads * tokens * tokens];
            let (mut turned, mut all) =
                (vec![0.0; size * distances], vec![0.0; tokens * distances]);
            for (head, out) in out.chunks_exact_mut(tokens * tokens).enumerate() {
                for (distance, row) in rows.chunks_exact(heads * size).enumerate() {
                    for (i, x) in row[head * size..][..size].iter().enumerate() {
                        turned[i * distances + distance] = *x;
                    }
                }
                let mut multiply = || {
                    let x = Mat::strided(&x[head * size..], tokens, size, heads * size)?;
                    let turned = Mat::new(&turned, size, distances)?;
                    matmul(x, turned, MatMut::new(&mut all, tokens, distances)?)
                };
                multiply().map_err(regard::Error::from)?;
                for (at, out) in out.iter_mut().enumerate() {
                    let (query, key) = (at / tokens, at % tokens);
                    let token = if is_key { key } else { query };
                    *out = all[token * distances + query + tokens - 1 - key] * scale;
                }
            }
            Ok::<_, Error>(out)
        };
        let of_queries = key.as_ref().map(|layer| part(layer, q, false)).transpose()?;
        let of_keys = query.as_ref().map(|layer| part(layer, k, true)).transpose()?;
        Ok([of_queries, of_keys])
    }

    /// The row of a distance, the query's position less the key's.
    fn row(&self, distance: isize) -> usize {
        let middle = self.span as isize;
        (middle + self.range(distance)).clamp(0, 2 * middle - 1) as usize
    }

    /// A distance, or the number of its range: up to half of the span each distance has its own, and then ranges widen with the
    /// logarithm of the distance.
    fn range(&self, distance: isize) -> isize {
        let (half, size) = (self.span / 2, distance.unsigned_abs());
        let Some(most) = self.buckets_to.filter(|_| size > half && half > 0) else {
            return distance;
        };
        // Computed in f32, as in the training of the model.
        let share = (size as f32 / half as f32).ln() / ((most - 1) as f32 / half as f32).ln();
        let range = (share * (half - 1) as f32).ceil() as isize + half as isize;
        range * distance.signum()
    }
}

/// The sum of the parts.
pub(crate) fn sum(parts: PositionScores) -> Option<Vec<f32>> {
    let [mut first, second] = parts;
    match (&mut first, second) {
        (Some(sum), Some(other)) => sum.iter_mut().zip(other).for_each(|(x, y)| *x += y),
        (None, second) => first = second,
        (Some(_), None) => {}
    }
    first
}
