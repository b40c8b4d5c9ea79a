//! Attention over at most 16 keys, with values of at most 16 columns, and no hidden key. A query's scores, weights and output
//! are one block of lanes each, and only the transposed keys are kept in memory. The bits are those of [`tiles`](super::tiles).

use super::Attention;
use super::tiles::Fused;
use super::weights::{OnlineSoftmax, WeightRule};
use crate::arch::{Exp2ToZero, Kernel, LANES, Map as _, Panel, Simd, pack_transposed_here};
use crate::invariant::Promised as _;
use crate::softmax::{Divide, Powers};
use crate::{Mat, MatMut};

/// Whether the keys, the weights and the values of `d_v` columns fit in registers.
#[inline(always)]
pub(super) const fn fits(n_k: usize, d_v: usize) -> bool {
    1 <= n_k && n_k <= LANES && d_v <= LANES
}

/// An attention that [`fits`], in which every query sees every key.
pub(super) struct Small<'a> {
    q: Mat<'a>,
    k: Mat<'a>,
    v: Mat<'a>,
    out: MatMut<'a>,
    /// For the transposed keys: at least a block for each of their columns.
    panel: &'a mut [Panel],
    /// The state of all queries, or of none.
    softmax: OnlineSoftmax<'a>,
}

impl<'a> Small<'a> {
    /// `fused`, if it [`fits`] and every query sees every key.
    #[inline(always)]
    pub(super) fn new<'f: 'a>(fused: &'a mut Fused<'f>) -> Option<Self> {
        let Fused { scores, values, out, softmax, whole } = fused;
        let (q, k, v) = (scores.q, scores.k, values.v);
        let is_small = fits(k.rows(), v.cols())
            && *whole
            && scores.steps.is_none()
            && !scores
                .visible
                .may_hide(&scores.visible.range_of_rows(0, q.rows()).1, &(0..k.rows()));
        is_small.then(|| Small {
            q,
            k,
            v,
            out: out.reborrow(),
            panel: scores.panels,
            softmax: softmax.reborrow(),
        })
    }
}

/// A [`Small`] of shapes that the compiler knows, without a mask. The transposed keys are on the stack.
pub(super) struct Known<'a, const N_Q: usize, const N_K: usize, const D_K: usize, const D_V: usize>
{
    pub(super) attention: &'a Attention<'a>,
    pub(super) q: &'a [[f32; D_K]; N_Q],
    pub(super) k: &'a [[f32; D_K]; N_K],
    pub(super) v: &'a [[f32; D_V]; N_K],
    pub(super) out: &'a mut [[f32; D_V]; N_Q],
}

impl<const N_Q: usize, const N_K: usize, const D_K: usize, const D_V: usize> Kernel
    for Known<'_, N_Q, N_K, D_K, D_V>
{
    /// Whether it is computed. It is not if a step stands between the scores and the softmax.
    type Output = bool;

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) -> bool {
        let Self { attention, q, k, v, out } = self;
        let Some(factor) = attention.folded(D_K) else { return false };
        let rule = WeightRule::new(attention.temperature, factor);
        let softmax = OnlineSoftmax::new(rule, &mut [], 0);
        let panel = &mut [[0.0; LANES]; D_K];
        Small { q: q.into(), k: k.into(), v: v.into(), out: out.into(), panel, softmax }.run(simd);
        true
    }
}

impl Kernel for Small<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let panel = self.panel.get_mut(..self.k.cols()).promised();
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
        let Self { q: queries, k, v, out, panel, softmax } = self;
        let WeightRule { factor, temperature, .. } = softmax.rule;
        let n_k = k.rows();
        let mut numbers = [0.0; LANES];
        for (i, number) in numbers.iter_mut().enumerate() {
            *number = i as f32;
        }
        let is_key = simd.gt(simd.splat(n_k as f32), simd.load(&numbers));
        let mut q: [&[f32]; R] = [&[]; R];
        for (r, q) in q.iter_mut().enumerate() {
            *q = queries.row(row + r);
        }
        let mut scores = [simd.splat(0.0); R];
        for (t, k) in panel.iter().enumerate().take(k.cols()) {
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
