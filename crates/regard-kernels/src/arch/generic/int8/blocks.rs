//! Attention on 8-bit integers for vectors of 16 words of 32 bits, which have instructions that multiply
//! several small integers a word and add the products.
//!
//! ```text
//! pack all keys: panels of 16, so that a row of a panel holds the same columns of 16 keys, a word each
//! pack all values: panels of 16 columns, of which a row holds, a word a column, the values of keys j and j + 16
//! for each group of ROWS queries:
//!     for each BLOCK = 32 keys that the group sees:               ROWS × 2 sums stay in registers
//!         scores[query, block] ← Σₜ query[t] · panel[t]           t counts words
//!     for each query:
//!         m ← max(scores)
//!         for each block: words j of weights ← weights of keys j and j + 16, as two halves
//!     for each 2 panels of values:                                ROWS × 2 sums stay in registers
//!         Σ weights[query, word] · panel[word], over the group's words
//!         out ← the sums times the query's factor
//! ```
//!
//! A word of a query and of a key holds four bytes where the machine multiplies those (VNNI, sdot), else two
//! halves. VNNI multiplies unsigned by signed bytes: 128 is added to each byte of a key
//! ([`KEY_BIAS`](Integers::KEY_BIAS)). This adds 128 · Σ query to all scores of a query, which leaves their
//! distances, and so the weights, as they are.
//! The weights are computed in halves from the logarithm on: a 16-bit multiplication takes a fraction of
//! a 32-bit one.

use crate::attention::Visible;
use crate::int8::exponent::HIDDEN;
use crate::int8::{Exponent, Factor, Rows, halve};
use crate::{Mat, MatMut};

/// Words of a vector.
const LANES: usize = 16;
/// The queries of a group.
pub(crate) const ROWS: usize = 8;
/// The keys of a block: two vectors of scores, of which a vector of weights is made.
const BLOCK: usize = 2 * LANES;

/// 16 words.
type Words = [i32; LANES];

/// What is asked of a vector of 16 words. A value that implements it proves that the CPU can do it.
pub(crate) trait Integers: Copy {
    /// The numbers of a query in a word: 4 bytes, or 2 halves.
    const PER_WORD: usize;
    /// What is added to each byte of a key, without carry.
    const KEY_BIAS: u8 = 0;
    /// Whether the registers hold the sums of ROWS queries × 2 vectors; else they hold those of half as many queries × 1.
    const WIDE: bool;
    type V: Copy;

    /// Runs `kernel` as a function of its own, compiled for these vectors.
    fn call<K: IntegerKernel>(self, kernel: K);
    fn load(self, x: &Words) -> Self::V;
    fn store(self, v: Self::V, out: &mut Words);
    fn splat(self, x: i32) -> Self::V;
    fn max(self, a: Self::V, b: Self::V) -> Self::V;
    /// sum + the products of the bytes or halves of a query's and a key's word.
    fn add_products(self, sum: Self::V, query: Self::V, key: Self::V) -> Self::V;
    /// sum + the products of both halves of `weight`, the same word everywhere, and of `values` from [`halves`](Self::halves).
    fn add_halves(self, sum: Self::V, weight: Self::V, values: Self::V) -> Self::V;
    /// sum + both halves of the weights.
    fn add_weights(self, sum: Self::V, weights: Self::V) -> Self::V;
    /// The [weights](Exponent::weight) of two scores a word, the first in the lower half, by their distance from `max`.
    fn weights(self, exponent: &Exponent, max: Self::V, low: Self::V, high: Self::V) -> Self::V;
    /// Two numbers for each word, in the order that suits [`add_halves`](Self::add_halves).
    fn halves(self, low: &[i8; LANES], high: &[i8; LANES]) -> Self::V;
    /// `out` ← the sums [times](Factor::times) the factor.
    fn rescale(self, sums: Self::V, factor: Factor, out: &mut [i8; LANES]);
}

/// A computation on integers. As with [`Kernel`](crate::arch::Kernel), all that it calls is inlined.
pub(crate) trait IntegerKernel {
    fn run<I: Integers>(self, integers: I);
}

/// Words of scratch memory for the scores of a group, its queries, the packed keys and the packed values.
const fn parts(n_k: usize, d_k: usize, d_v: usize) -> [usize; 4] {
    let keys = n_k.div_ceil(BLOCK).saturating_mul(BLOCK);
    // Two numbers a word; where four are, half of the memory stays unused.
    let words = d_k.div_ceil(2);
    [
        keys.saturating_mul(ROWS),
        words.saturating_mul(ROWS),
        keys.saturating_mul(words),
        (keys / 2).saturating_mul(d_v.div_ceil(LANES).saturating_mul(LANES)),
    ]
}

/// Words of scratch memory for `n_q` queries. Up to 15 are left out, so that the rest begins with a cache line: a load that
/// crosses two lines takes twice as long. Few queries do not repay the packing.
pub(crate) const fn scratch_len(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    if n_q < ROWS {
        return 0;
    }
    let [scores, queries, keys, values] = parts(n_k, d_k, d_v);
    let parts = scores.saturating_add(queries).saturating_add(keys).saturating_add(values);
    parts.saturating_add(LANES - 1)
}

/// `scratch` has [`scratch_len`] words, and there are at least [`ROWS`] queries.
impl IntegerKernel for Rows<'_> {
    #[inline(always)]
    fn run<I: Integers>(self, integers: I) {
        let Self { q, k, v, mut out, visible, exponent, ratio, scratch } = self;
        let [scores, queries, keys, values] = parts(k.rows(), k.cols(), v.cols());
        // Where the address is unknown, as in Miri, the memory begins at its start.
        let offset = scratch.as_ptr().align_offset(size_of::<Words>()).min(LANES - 1);
        let scratch = scratch.get_mut(offset..).unwrap_or_default();
        let (scores, rest) = scratch.split_at_mut_checked(scores).unwrap_or_default();
        let (queries, rest) = rest.split_at_mut_checked(queries).unwrap_or_default();
        let (keys, rest) = rest.split_at_mut_checked(keys).unwrap_or_default();
        let values = rest.get_mut(..values).unwrap_or_default();
        let words = k.cols().div_ceil(I::PER_WORD);
        let height = k.rows().next_multiple_of(BLOCK);
        let (scores, queries) = (scores, queries.as_chunks_mut::<ROWS>().0);
        let queries = queries.get_mut(..words).unwrap_or_default();
        let (keys, values) = (keys.as_chunks_mut().0, values.as_chunks_mut().0);
        pack_keys::<I>(k, words, keys);
        pack_values(integers, v, height / 2, values);

        for first in (0..q.rows()).step_by(ROWS) {
            let count = ROWS.min(q.rows() - first);
            let (seen, _) = visible.range_of_rows(first, count);
            let blocks = seen.start / BLOCK..seen.end.div_ceil(BLOCK).max(seen.start / BLOCK);
            let (start, len) = (blocks.start * BLOCK, blocks.len() * BLOCK);
            pack_queries::<I>(q.rows_from(first, count), queries);
            let panels = keys.get(2 * blocks.start * words..).unwrap_or_default();
            integers.call(Score { queries, panels, words, scores, len });

            for r in 0..count {
                let scores = scores.get_mut(r * len..(r + 1) * len).unwrap_or_default();
                hide(&visible, first + r, start, scores);
            }
            let mut totals = [0; ROWS];
            integers.call(Weigh { exponent: &exponent, scores, len, totals: &mut totals });
            let mut factors = [Factor::ZERO; ROWS];
            for (r, factor) in factors.iter_mut().enumerate().take(count) {
                let words = scores.get_mut(r * len..r * len + len / 2).unwrap_or_default();
                *factor = ratio.divided_by(halve(totals[r], words.iter_mut()));
            }
            let out = out.rows_from(first);
            integers.call(Add {
                weights: scores,
                len,
                values,
                start: start / 2,
                height: height / 2,
                factors,
                count,
                out,
            });
        }
    }
}

/// The scores of a group.
struct Score<'a> {
    queries: &'a [[i32; ROWS]],
    /// The panels of the first key of the group and after.
    panels: &'a [Words],
    /// The words of a query.
    words: usize,
    /// \[ROWS, len\].
    scores: &'a mut [i32],
    len: usize,
}

impl IntegerKernel for Score<'_> {
    #[inline(always)]
    fn run<I: Integers>(mut self, integers: I) {
        for panel in 0..self.len / BLOCK {
            if I::WIDE {
                self.tile::<I, ROWS, 2>(integers, 2 * panel, 0);
            } else {
                for (panel, half) in
                    [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(p, half)| (2 * panel + p, half))
                {
                    self.tile::<I, { ROWS / 2 }, 1>(integers, panel, half);
                }
            }
        }
    }
}

impl Score<'_> {
    /// The scores of the `group`-th `R` queries with the keys of `P` panels.
    #[inline(always)]
    fn tile<I: Integers, const R: usize, const P: usize>(
        &mut self,
        integers: I,
        panel: usize,
        group: usize,
    ) {
        let mut panels: [&[Words]; P] = [&[]; P];
        for (p, panel) in (panel..).zip(&mut panels) {
            *panel = self.panels.get(p * self.words..(p + 1) * self.words).unwrap_or_default();
        }
        if panels.iter().any(|panel| panel.len() != self.queries.len()) {
            debug_assert!(false, "{} words", self.words);
            return;
        }
        let mut sums = [[integers.splat(0); P]; R];
        for (t, queries) in self.queries.iter().enumerate() {
            let mut keys = [integers.splat(0); P];
            for (keys, panel) in keys.iter_mut().zip(panels) {
                // SAFETY: t is less than the number of words of a query, which is that of a panel.
                *keys = integers.load(unsafe { panel.get_unchecked(t) });
            }
            let Some(queries) = queries.as_chunks::<R>().0.get(group) else { return };
            for (sums, query) in sums.iter_mut().zip(queries) {
                let query = integers.splat(*query);
                for (sum, keys) in sums.iter_mut().zip(keys) {
                    *sum = integers.add_products(*sum, query, keys);
                }
            }
        }
        for (r, sums) in sums.into_iter().enumerate() {
            let start = (group * R + r) * self.len + panel * LANES;
            let scores = self.scores.get_mut(start..).unwrap_or_default();
            for (scores, sums) in scores.as_chunks_mut().0.iter_mut().zip(sums) {
                integers.store(sums, scores);
            }
        }
    }
}

/// Turns the scores of each query into weights, two a word, in their first half. `totals` become their sums.
struct Weigh<'a> {
    exponent: &'a Exponent,
    /// \[ROWS, len\].
    scores: &'a mut [i32],
    len: usize,
    totals: &'a mut [u32; ROWS],
}

impl IntegerKernel for Weigh<'_> {
    #[inline(always)]
    fn run<I: Integers>(mut self, integers: I) {
        for group in 0..ROWS / 4 {
            self.rows::<I, 4>(integers, group);
        }
    }
}

impl Weigh<'_> {
    /// The `group`-th `R` queries, side by side: each row alone would wait for its maximum.
    #[inline(always)]
    fn rows<I: Integers, const R: usize>(&mut self, integers: I, group: usize) {
        let mut rest = self.scores.get_mut(group * R * self.len..).unwrap_or_default();
        let mut rows: [&mut [Words]; R] = core::array::from_fn(|_| {
            let (scores, after) =
                core::mem::take(&mut rest).split_at_mut_checked(self.len).unwrap_or_default();
            rest = after;
            scores.as_chunks_mut().0
        });
        let vectors = self.len / LANES;
        if rows.iter().any(|row| row.len() != vectors) || !vectors.is_multiple_of(2) {
            debug_assert!(false, "{vectors} vectors");
            return;
        }
        let mut max = [integers.splat(HIDDEN); R];
        for i in 0..vectors {
            for (max, row) in max.iter_mut().zip(&rows) {
                // SAFETY: i < vectors, which is the length of each row.
                *max = integers.max(*max, integers.load(unsafe { row.get_unchecked(i) }));
            }
        }
        for max in &mut max {
            let mut lanes = [0; LANES];
            integers.store(*max, &mut lanes);
            let mut largest = HIDDEN;
            for lane in lanes {
                largest = largest.max(lane);
            }
            // Where nothing is seen, any number keeps HIDDEN far away: no weight.
            *max = integers.splat(if largest == HIDDEN { 0 } else { largest });
        }
        let mut totals = [integers.splat(0); R];
        for block in 0..vectors / 2 {
            for ((total, max), row) in totals.iter_mut().zip(max).zip(&mut rows) {
                // SAFETY: 2 · block + 1 < vectors, which is the length of each row. What is written has been read.
                let (low, high) = unsafe {
                    (
                        integers.load(row.get_unchecked(2 * block)),
                        integers.load(row.get_unchecked(2 * block + 1)),
                    )
                };
                let weights = integers.weights(self.exponent, max, low, high);
                *total = integers.add_weights(*total, weights);
                // SAFETY: as above.
                integers.store(weights, unsafe { row.get_unchecked_mut(block) });
            }
        }
        for (r, totals) in (group * R..).zip(totals) {
            let mut lanes = [0; LANES];
            integers.store(totals, &mut lanes);
            let mut sum = 0_u32;
            for lane in lanes {
                sum = sum.wrapping_add(lane as u32);
            }
            if let Some(total) = self.totals.get_mut(r) {
                *total = sum;
            }
        }
    }
}

/// The outputs of a group.
struct Add<'a> {
    /// \[ROWS, len\], of which the first half of each row holds words of weights.
    weights: &'a [i32],
    len: usize,
    /// Panels of `height` rows.
    values: &'a [Words],
    /// The row of a panel that belongs to the first word of the weights.
    start: usize,
    height: usize,
    factors: [Factor; ROWS],
    /// The rows that exist.
    count: usize,
    out: MatMut<'a, i8>,
}

impl IntegerKernel for Add<'_> {
    #[inline(always)]
    fn run<I: Integers>(mut self, integers: I) {
        let panels = self.out.shape().1.div_ceil(LANES);
        let mut panel = 0;
        while panel < panels {
            if !I::WIDE {
                self.tile::<I, { ROWS / 2 }, 1>(integers, panel, 0);
                self.tile::<I, { ROWS / 2 }, 1>(integers, panel, ROWS / 2);
                panel += 1;
            } else if panel + 1 < panels {
                self.tile::<I, ROWS, 2>(integers, panel, 0);
                panel += 2;
            } else {
                self.tile::<I, ROWS, 1>(integers, panel, 0);
                panel += 1;
            }
        }
    }
}

impl Add<'_> {
    /// The outputs of `R` queries from `row` on, in the columns of `P` panels.
    #[inline(always)]
    fn tile<I: Integers, const R: usize, const P: usize>(
        &mut self,
        integers: I,
        panel: usize,
        row: usize,
    ) {
        let words = self.len / 2;
        let mut panels: [&[Words]; P] = [&[]; P];
        for (p, panel) in (panel..).zip(&mut panels) {
            let start = p * self.height + self.start;
            *panel = self.values.get(start..start + words).unwrap_or_default();
        }
        let mut rows: [&[i32]; R] = [&[]; R];
        for (r, row) in (row..).zip(&mut rows) {
            *row = self.weights.get(r * self.len..r * self.len + words).unwrap_or_default();
        }
        if panels.iter().any(|panel| panel.len() != words)
            || rows.iter().any(|row| row.len() != words)
        {
            debug_assert!(false, "{words} words");
            return;
        }
        let mut sums = [[integers.splat(0); P]; R];
        for t in 0..words {
            let mut values = [integers.splat(0); P];
            for (values, panel) in values.iter_mut().zip(panels) {
                // SAFETY: t < words, which is the length of each panel.
                *values = integers.load(unsafe { panel.get_unchecked(t) });
            }
            for (sums, row) in sums.iter_mut().zip(rows) {
                // SAFETY: t < words, which is the length of each row.
                let weight = integers.splat(unsafe { *row.get_unchecked(t) });
                for (sum, values) in sums.iter_mut().zip(values) {
                    *sum = integers.add_halves(*sum, weight, values);
                }
            }
        }
        for (r, sums) in (row..self.count).zip(sums) {
            let Some(factor) = self.factors.get(r) else { return };
            let mut rest = self.out.row_mut(r).get_mut(panel * LANES..).unwrap_or_default();
            for sums in sums {
                let mut lanes = [0; LANES];
                integers.rescale(sums, *factor, &mut lanes);
                let (out, after) = rest.split_at_mut(LANES.min(rest.len()));
                if let Some(out) = out.first_chunk_mut() {
                    *out = lanes;
                } else {
                    for (out, lane) in out.iter_mut().zip(lanes) {
                        *out = lane;
                    }
                }
                rest = after;
            }
        }
    }
}

/// Hides what query `row` may not see of the keys from `start` on, whose scores these are.
#[inline(always)]
fn hide(visible: &Visible<'_>, row: usize, start: usize, scores: &mut [i32]) {
    let seen = visible.range(row);
    let (before, after) = (seen.start.saturating_sub(start), seen.end.saturating_sub(start));
    scores.get_mut(..before).unwrap_or_default().fill(HIDDEN);
    scores.get_mut(after..).unwrap_or_default().fill(HIDDEN);
    if let Some(allowed) = visible.allowed(row) {
        for (score, allowed) in scores.iter_mut().zip(allowed.get(start..).unwrap_or_default()) {
            if !allowed {
                *score = HIDDEN;
            }
        }
    }
}

/// A word of a query or a key: `PER_WORD` of the four bytes, from number `part` · `PER_WORD` on.
#[inline(always)]
fn word<I: Integers>(bytes: [i8; 4], part: usize) -> i32 {
    let [a, b, c, d] = bytes;
    let bytes = [a as u8, b as u8, c as u8, d as u8];
    let halves = |low: i8, high: i8| i32::from(i16::from(low) as u16) | (i32::from(high) << 16);
    match (I::PER_WORD, part) {
        (4, _) => i32::from_le_bytes(bytes),
        (_, 0) => halves(a, b),
        _ => halves(c, d),
    }
}

/// Calls `$each` with the number of each word of `$row`, and the word. Numbers that do not exist are 0.
macro_rules! for_words {
    ($row:expr, |$t:ident, $word:ident| $each:expr) => {{
        let (whole, rest) = $row.as_chunks::<4>();
        let mut last = [0; 4];
        for (last, x) in last.iter_mut().zip(rest) {
            *last = *x;
        }
        let parts = 4 / I::PER_WORD;
        for (i, bytes) in whole.iter().enumerate() {
            for part in 0..parts {
                let ($t, $word) = (i * parts + part, word::<I>(*bytes, part));
                $each
            }
        }
        for part in 0..rest.len().div_ceil(I::PER_WORD) {
            let ($t, $word) = (whole.len() * parts + part, word::<I>(last, part));
            $each
        }
    }};
}

/// The queries' words: a row holds the same word of all queries, with 0 for queries that do not exist.
#[inline(always)]
fn pack_queries<I: Integers>(q: Mat<'_, i8>, words: &mut [[i32; ROWS]]) {
    if q.rows() < ROWS {
        words.fill([0; ROWS]);
    }
    for r in 0..q.rows() {
        for_words!(q.row(r), |t, word| if let Some(words) = words.get_mut(t) {
            words[r % ROWS] = word;
        });
    }
}

/// The keys' words in panels of 16 keys. Keys that do not exist keep what was there: their scores are hidden.
#[inline(always)]
fn pack_keys<I: Integers>(k: Mat<'_, i8>, words: usize, panels: &mut [Words]) {
    // Bytes that hold 0 or 128 are added without carry by an exclusive or.
    const { assert!(I::KEY_BIAS.trailing_zeros() >= 7) };
    let bias = i32::from_le_bytes([I::KEY_BIAS; 4]);
    for i in 0..k.rows() {
        let panel = panels.get_mut(i / LANES * words..).unwrap_or_default();
        for_words!(k.row(i), |t, word| if let Some(lanes) = panel.get_mut(t) {
            lanes[i % LANES] = word ^ bias;
        });
    }
}

/// The values in panels of 16 columns, `height` rows each, with 0 for keys and columns that do not exist.
#[inline(always)]
fn pack_values<I: Integers>(integers: I, v: Mat<'_, i8>, height: usize, panels: &mut [Words]) {
    for (p, panel) in panels.chunks_mut(height.max(1)).enumerate() {
        for (t, words) in panel.iter_mut().enumerate() {
            let key = t / LANES * BLOCK + t % LANES;
            let (mut low, mut high) = ([0; LANES], [0; LANES]);
            columns(v, key, p * LANES, &mut low);
            columns(v, key + LANES, p * LANES, &mut high);
            integers.store(integers.halves(&low, &high), words);
        }
    }
}

/// 16 columns of a row, as far as they exist.
#[inline(always)]
fn columns(v: Mat<'_, i8>, row: usize, col: usize, out: &mut [i8; LANES]) {
    if row >= v.rows() {
        return;
    }
    let row = v.row(row).get(col..).unwrap_or_default();
    if let Some(whole) = row.first_chunk() {
        *out = *whole;
    } else {
        for (to, from) in out.iter_mut().zip(row) {
            *to = *from;
        }
    }
}
