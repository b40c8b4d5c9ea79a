//! The rows of an attention on 8-bit integers, in groups: scores, weights, and the weighted sums of the values.

use super::exponent::{Exponent, HIDDEN, weigh};
use super::ratio::Ratio;
use crate::arch::int8::{
    Factor, GROUP, Queries, Values, dsp_query_words, dsp_value_words, query_words, value_words,
};
use crate::arch::{Kernel, Simd};
use crate::attention::Visible;
use crate::invariant::Promised as _;
use crate::{Mat, MatMut};

/// The words of scratch memory for the scores of a group, for its queries and for the values.
const fn scratch_parts(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> [usize; 3] {
    let rows = rows_at_once(n_q);
    [score_words(rows, n_k), query_words(rows, d_k), value_words(n_q, n_k, d_v)]
}

const fn rows_at_once(n_q: usize) -> usize {
    if n_q < GROUP { 1 } else { GROUP }
}

const fn score_words(rows: usize, n_k: usize) -> usize {
    n_k.div_ceil(4).saturating_mul(4).saturating_mul(rows)
}

/// [`scratch_len`] of the core without vectors that needs most: a core with the DSP extension.
pub(crate) const fn scalar_scratch_len(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    let rows = rows_at_once(n_q);
    score_words(rows, n_k)
        .saturating_add(dsp_query_words(rows, d_k))
        .saturating_add(dsp_value_words(n_q, n_k, d_v))
}

pub(crate) const fn scratch_len(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    let [scores, queries, values] = scratch_parts(n_q, n_k, d_k, d_v);
    scores.saturating_add(queries).saturating_add(values)
}

/// Computes all rows. The shapes fit, and `scratch` has [`scratch_len`] words.
pub(crate) struct Rows<'a> {
    pub(crate) q: Mat<'a, i8>,
    pub(crate) k: Mat<'a, i8>,
    pub(crate) v: Mat<'a, i8>,
    pub(crate) out: MatMut<'a, i8>,
    pub(crate) visible: Visible<'a>,
    pub(crate) exponent: Exponent,
    pub(crate) ratio: Ratio,
    pub(crate) scratch: &'a mut [i32],
}

impl Kernel for Rows<'_> {
    type Output = ();

    /// Sums of integers have the same bits in any order, so the loops leave it to the compiler to use the tier's vectors.
    #[inline(always)]
    fn run<S: Simd>(self, _: S) {
        let Self { q, k, v, out, visible, exponent, ratio, scratch } = self;
        let [scores, queries, values] = scratch_parts(q.rows(), k.rows(), k.cols(), v.cols());
        let mut rest = scratch;
        let mut part = |len: usize| rest.split_off_mut(..len).promised();
        let (scores, queries) = (part(scores), part(queries));
        let values = Values::new(v, part(values));
        let mut groups = Groups { q, k, v: values, out, visible, exponent, ratio, scores, queries };
        let whole = q.rows() - q.rows() % GROUP;
        for first in (0..whole).step_by(GROUP) {
            groups.compute::<GROUP>(first);
        }
        for row in whole..q.rows() {
            groups.compute::<1>(row);
        }
    }
}

struct Groups<'a> {
    q: Mat<'a, i8>,
    k: Mat<'a, i8>,
    v: Values<'a>,
    out: MatMut<'a, i8>,
    visible: Visible<'a>,
    exponent: Exponent,
    ratio: Ratio,
    scores: &'a mut [i32],
    queries: &'a mut [i32],
}

impl Groups<'_> {
    /// Computes the `R` rows from `first` on.
    #[inline(always)]
    fn compute<const R: usize>(&mut self, first: usize) {
        let (keys, by_all) = self.visible.range_of_rows(first, R);
        // The transposed values are read in whole words of four bytes, so the keys begin at a multiple of four.
        let start = keys.start & !3;
        let scores = self.scores.as_chunks_mut::<R>().0;
        let scores = scores.get_mut(..(keys.end - start).next_multiple_of(4)).promised();

        let queries = Queries::new(core::array::from_fn(|r| self.q.row(first + r)), self.queries);
        // Keys after the last one may get any scores: `hide` hides them.
        queries.dots(self.k, start, scores);

        let mut factors = [Factor::ZERO; R];
        let hides = self.visible.may_hide(&by_all, &(start..start + scores.len()));
        for (r, factor) in (0..R).zip(&mut factors) {
            if hides {
                hide(&self.visible, first + r, start, scores, r);
            }
            *factor = self.ratio.divided_by(weigh(&self.exponent, scores, r));
        }
        self.v.weigh(scores, start, &factors, self.out.rows_from(first));
    }
}

/// Hides the keys that query `row` may not see. `scores` are those of the keys from `first` on, and those of the query are
/// numbered `r`.
#[inline(always)]
fn hide<const R: usize>(
    visible: &Visible<'_>,
    row: usize,
    first: usize,
    scores: &mut [[i32; R]],
    r: usize,
) {
    let r = r.min(R - 1); // tells the compiler that r < R
    let range = visible.range(row);
    let (before, after) = (range.start.saturating_sub(first), range.end.saturating_sub(first));
    for scores in scores.get_mut(..before).promised() {
        scores[r] = HIDDEN;
    }
    for scores in scores.get_mut(after..).promised() {
        scores[r] = HIDDEN;
    }
    if let Some(allowed) = visible.allowed(row) {
        for (scores, allowed) in scores.iter_mut().zip(allowed.get(first..).promised()) {
            if !allowed {
                scores[r] = HIDDEN;
            }
        }
    }
}
