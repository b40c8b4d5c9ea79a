//! The biases of scores by distance: that of T5 (Raffel et al. 2020, section 2.1), a learned number for each head and each bucket of
//! distances; and ALiBi (Press et al. 2022), a slope for each head.

use crate::{RelativeBias, Stack};

impl Stack {
    /// The bias \[heads, queries, keys\] of the scores, if there is one, for queries from position `first` on. `table` has the
    /// learned numbers of T5.
    pub(crate) fn bias(
        &self,
        table: Option<&[f32]>,
        first: usize,
        edges: [usize; 2],
    ) -> Option<Vec<f32>> {
        let block = &self.block;
        if let (Some(relative), Some(table)) = (&block.relative, table) {
            return Some(relative.bias(table, block.heads, !self.causal, first, edges));
        }
        let [queries, keys] = edges;
        let row = |slope: f32, query: usize| {
            (0..keys).map(move |key| -slope * query.saturating_sub(key) as f32)
        };
        let head = |slope: &f32| {
            let slope = *slope;
            (first..first + queries).flat_map(move |query| row(slope, query))
        };
        (!block.slopes.is_empty()).then(|| block.slopes.iter().flat_map(head).collect())
    }

    /// Whether scores have a bias by distance.
    pub(crate) fn has_bias(&self) -> bool {
        let block = &self.block;
        block.relative.is_some() || block.disentangled.is_some() || !block.slopes.is_empty()
    }
}

impl RelativeBias {
    /// The bias \[heads, queries, keys\] from `table` \[buckets, heads\], for queries from position `first` on.
    ///
    /// An encoder's first half of the buckets is for keys at or before the query, and the second half for those after it.
    fn bias(
        &self,
        table: &[f32],
        heads: usize,
        both_ways: bool,
        first: usize,
        [queries, keys]: [usize; 2],
    ) -> Vec<f32> {
        let mut bias = vec![0.0; heads * queries * keys];
        for (i, row) in bias.chunks_exact_mut(keys.max(1)).enumerate() {
            let (head, query) = (i / queries, first + i % queries);
            for (key, x) in row.iter_mut().enumerate() {
                *x = table[self.bucket(query, key, both_ways) * heads + head];
            }
        }
        bias
    }

    /// Half of the buckets are for one distance each; the others widen with the logarithm of the distance.
    fn bucket(&self, query: usize, key: usize, both_ways: bool) -> usize {
        let (first, buckets, distance) = if both_ways {
            let half = self.buckets / 2;
            (if key > query { half } else { 0 }, half, query.abs_diff(key))
        } else {
            (0, self.buckets, query.saturating_sub(key))
        };
        let exact = buckets / 2;
        if distance < exact || exact == 0 {
            return first + distance.min(buckets.saturating_sub(1));
        }
        // Computed in f32 and truncated, as in the training of the model.
        let share = (distance as f32 / exact as f32).ln()
            / (self.max_distance as f64 / exact as f64).ln() as f32;
        let wide = (share * (buckets - exact) as f32) as usize;
        first + (exact + wide).min(buckets - 1)
    }
}
