//! The fused attention, as in FlashAttention (Dao et al. 2022, arXiv 2205.14135). The scores of a tile become weights and are
//! multiplied by the values before the next tile is computed, so the n_q × n_k weights never exist together.
//!
//! ```text
//! for each tile of NC = 256 keys that some query sees, in ascending order:
//!     transpose the tile's keys, pack its values               once for all queries
//!     for each block of MC queries:
//!         scores[block, tile]                                     see `scores`
//!         scores → weights; m and l are updated, out is rescaled if needed      see `weights`
//!         out[block] += weights · V[tile]                         see `values`
//! after the last tile:
//!     out[query] ← out[query] / l[query]
//! ```
//!
//! The weights of a block (on AVX2 24 × 256 × 4 bytes = 24 KiB, on AVX-512 36 KiB) stay in the first-
//! and second-level caches between their computation and their use.

use super::scores::{Groups, NC, Scores};
use super::small::Small;
use super::values::{AddValues, Values};
use super::weights::{OnlineSoftmax, UpdateSoftmax};
use crate::MatMut;
use crate::arch::{Kernel, Simd, shared};
use crate::softmax::divide;

/// An attention over all keys that its scores see.
pub(super) struct Fused<'a> {
    pub(super) scores: Scores<'a>,
    pub(super) values: Values<'a>,
    /// \[n_q, d_v\].
    pub(super) out: MatMut<'a>,
    pub(super) softmax: OnlineSoftmax<'a>,
    /// Whether these are all keys. The output is then divided by the sums of weights.
    pub(super) whole: bool,
}

/// Implemented for a reference, because moving the struct would call memcpy.
impl Kernel for &mut Fused<'_> {
    type Output = ();

    shared! { inline(always),
    /// On bare metal a function of its own, which all shapes share.
    fn run<S: Simd>(self, simd: S) {
        if const { !S::NARROW }
            && let Some(small) = Small::new(self)
        {
            return simd.call(small);
        }
        let Fused { scores, values, out, softmax, whole } = self;
        scores.row_by_row = S::NARROW && scores.visible.hides_value(scores.q.rows(), &values.v);
        softmax.clear();
        let seen = scores.seen();
        let mut groups = Groups::default();
        let mut start = seen.start / NC * NC;
        while start < seen.end {
            let keys = scores.begin(simd, start, &seen);
            values.begin(simd, keys.clone());
            let mut row = 0;
            while row < scores.q.rows() {
                if let Some(groups) = scores.block(simd, row, &keys, &mut groups) {
                    let next = values.next(groups, out.rows());
                    let (visible, row_by_row) = (scores.visible, scores.row_by_row);
                    let scores = &mut scores.tile;
                    simd.call(UpdateSoftmax { groups, visible, start, row, scores, softmax, out, next });
                    let weights = scores.view();
                    AddValues { weights, row, visible, row_by_row, values, out }.run(simd, groups);
                }
                row += scores.block_rows::<S>();
            }
            start += NC;
        }
        if *whole {
            for (i, sum) in softmax.sum.iter().enumerate() {
                divide(simd, out.row_mut(i), *sum);
            }
        }
    }
    }
}
