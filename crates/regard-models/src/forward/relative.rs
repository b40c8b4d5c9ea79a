//! The position bias of T5 (Raffel et al. 2020, section 2.1): a learned number for each head and each bucket of distances.

use crate::RelativeBias;

impl RelativeBias {
    /// The bias \[heads, queries, keys\] from `table` \[buckets, heads\], for queries from position `first` on.
    ///
    /// An encoder's first half of the buckets is for keys at or before the query, and the second half for those after it.
    pub(crate) fn bias(
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
