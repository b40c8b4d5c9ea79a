//! Attention over at most 16 keys, with values of at most 16 columns, and no hidden key. A query's scores, weights and output
//! are one block of lanes each, and only the transposed keys are kept in memory. The bits are those of [`tiles`](super::tiles).

use super::tiles::Fused;
use super::values::Values;
use super::weights::WeightRule;
use crate::arch::{Exp2ToZero, Kernel, LANES, Map as _, Simd, pack_transposed_here};
use crate::invariant::Promised as _;
use crate::softmax::{Divide, Powers};

/// Whether keys, weights and values fit in registers, and no key is hidden.
#[inline(always)]
pub(super) fn fits(Fused { scores, values, whole, .. }: &Fused<'_>) -> bool {
    let n_k = scores.k.rows();
    (1..=LANES).contains(&n_k)
        && values.v.cols() <= LANES
        && *whole
        && scores.steps.is_none()
        && !scores.visible.may_hide(&scores.visible.range_of_rows(0, scores.q.rows()).1, &(0..n_k))
}

/// An attention that [`fits`].
pub(super) struct Small<'f, 'a>(pub(super) &'f mut Fused<'a>);

impl Kernel for Small<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let scores = &mut self.0.scores;
        let panel = scores.panels.get_mut(..scores.k.cols()).promised();
        pack_transposed_here(simd, scores.k, panel);
        let rows = scores.q.rows();
        let mut row = 0;
        while row + 4 <= rows {
            self.rows::<S, 4>(simd, row);
            row += 4;
        }
        while row < rows {
            self.rows::<S, 1>(simd, row);
            row += 1;
        }
    }
}

impl Small<'_, '_> {
    #[inline(always)]
    fn rows<S: Simd, const R: usize>(&mut self, simd: S, row: usize) {
        let Fused { scores: tensors, values: Values { v, .. }, out, softmax, .. } = &mut *self.0;
        let WeightRule { factor, temperature, .. } = softmax.rule;
        let n_k = tensors.k.rows();
        let mut numbers = [0.0; LANES];
        for (i, number) in numbers.iter_mut().enumerate() {
            *number = i as f32;
        }
        let is_key = simd.gt(simd.splat(n_k as f32), simd.load(&numbers));
        let mut q: [&[f32]; R] = [&[]; R];
        for (r, q) in q.iter_mut().enumerate() {
            *q = tensors.q.row(row + r);
        }
        let mut scores = [simd.splat(0.0); R];
        for (t, k) in tensors.panels.iter().enumerate().take(tensors.k.cols()) {
            for (scores, q) in scores.iter_mut().zip(q) {
                let q = q.get(t).promised_or(&0.0);
                *scores = simd.mul_add(simd.splat(*q), simd.load(k), *scores);
            }
        }
        // Each step is computed for all queries before the next step, because the steps of a single query wait for each other.
        let (mut weights, mut largest, mut sums) = ([[0.0; LANES]; R], [0.0; R], [0.0; R]);
        for (scores, largest) in scores.iter_mut().zip(&mut largest) {
            *scores = simd.select(is_key, *scores, simd.splat(f32::NEG_INFINITY));
            *largest = simd.reduce_max(simd.max(*scores, simd.splat(f32::NEG_INFINITY)));
        }
        for (scores, largest) in scores.iter_mut().zip(largest) {
            let powers = Powers::new(largest, factor * core::f32::consts::LOG2_E, temperature);
            *scores = powers.of(simd, *scores, Exp2ToZero);
        }
        for ((scores, weights), sum) in scores.into_iter().zip(&mut weights).zip(&mut sums) {
            simd.store(scores, weights);
            *sum = simd.reduce_add(scores);
        }
        let mut values = [simd.splat(0.0); R];
        for t in 0..n_k.min(LANES) {
            let v = simd.load_or(v.row(t), 0.0);
            for (values, weights) in values.iter_mut().zip(&weights) {
                *values = simd.mul_add(simd.splat(weights[t]), v, *values);
            }
        }
        for (r, values) in values.into_iter().enumerate() {
            simd.store_first(Divide::by(sums[r]).of(simd, values), out.row_mut(row + r));
            if let (Some(max), Some(sum)) =
                (softmax.max.get_mut(row + r), softmax.sum.get_mut(row + r))
            {
                (*max, *sum) = (largest[r], sums[r]);
            }
        }
    }
}
