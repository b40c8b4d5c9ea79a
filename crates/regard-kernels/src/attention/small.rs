//! Attention over at most 16 keys, with values of at most 16 columns, and no hidden key. A query's scores, weights and output
//! are one block of lanes each, and only the transposed keys are kept in memory. The bits are those of [`tiles`](super::tiles).

use crate::arch::{Exp2ToZero, Kernel, LANES, Map as _, Panel, Simd, TARGET, pack_transposed_here};
use crate::softmax::{Divide, Weigher, log_sum_exp};
use crate::{Mat, MatMut, Temperature};

pub(super) struct Small<'a> {
    pub(super) q: Mat<'a>,
    pub(super) k: Mat<'a>,
    pub(super) v: Mat<'a>,
    pub(super) out: MatMut<'a>,
    /// The factor for differences of scores, which includes the scale.
    pub(super) factor: f32,
    pub(super) temperature: Temperature,
    /// Memory for the transposed keys.
    pub(super) panel: &'a mut [Panel],
    pub(super) log_sum_exp: Option<&'a mut [f32]>,
}

impl Small<'_> {
    /// Whether `n_k` keys and values of `d_v` columns are few enough for the registers.
    pub(super) fn fits(n_k: usize, d_v: usize) -> bool {
        !TARGET.in_place && (1..=LANES).contains(&n_k) && d_v <= LANES
    }
}

impl Kernel for Small<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let panel = self.panel.get_mut(..self.k.cols()).unwrap_or_default();
        pack_transposed_here(simd, self.k, panel);
        let rows = self.q.rows();
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

impl Small<'_> {
    #[inline(always)]
    fn rows<S: Simd, const R: usize>(&mut self, simd: S, row: usize) {
        let mut numbers = [0.0; LANES];
        for (i, number) in numbers.iter_mut().enumerate() {
            *number = i as f32;
        }
        let is_key = simd.gt(simd.splat(self.k.rows() as f32), simd.load(&numbers));
        let (factor, temperature) = (self.factor, self.temperature);
        let mut q: [&[f32]; R] = [&[]; R];
        for (r, q) in q.iter_mut().enumerate() {
            *q = self.q.row(row + r);
        }
        let mut scores = [simd.splat(0.0); R];
        for (t, k) in self.panel.iter().enumerate().take(self.k.cols()) {
            for (scores, q) in scores.iter_mut().zip(q) {
                let Some(q) = q.get(t) else { return };
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
            let weigher = Weigher::new(largest, factor * core::f32::consts::LOG2_E, temperature);
            *scores = weigher.of(simd, *scores, Exp2ToZero);
        }
        for ((scores, weights), sum) in scores.into_iter().zip(&mut weights).zip(&mut sums) {
            simd.store(scores, weights);
            *sum = simd.reduce_add(scores);
        }
        let mut values = [simd.splat(0.0); R];
        for t in 0..self.k.rows().min(LANES) {
            let v = simd.load_or(self.v.row(t), 0.0);
            for (values, weights) in values.iter_mut().zip(&weights) {
                *values = simd.mul_add(simd.splat(weights[t]), v, *values);
            }
        }
        for (r, values) in values.into_iter().enumerate() {
            simd.store_first(Divide::by(sums[r]).of(simd, values), self.out.row_mut(row + r));
            if let Some(l) = self.log_sum_exp.as_deref_mut().and_then(|l| l.get_mut(row + r)) {
                *l = log_sum_exp(largest[r], sums[r], factor, temperature);
            }
        }
    }
}
