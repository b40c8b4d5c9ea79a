use core::ops::Range;

use crate::error::{Error, check_len, check_shape};
use crate::mask::Bounds;
use crate::matmul::{for_row_groups, load_rows, store_rows};
use crate::simd::{Kernel, LANES, Panel, Simd, dispatch, multiply_tile, pack_panel};
use crate::softmax::{divide, flatten_if_infinite, log_sum_exp, max, rescale, softmax_row, weigh};
use crate::{Mask, Mat, MatMut, Temperature};

/// Keys a tile: the maximum and the sums of a row are brought up to date once a tile, in this fixed grid of keys.
const TILE: usize = 64;
/// The most rows that share a tile's scores.
const GROUP: usize = 6;

/// One scaled dot-product attention, described: scale, soft cap, mask and temperature.
///
/// With Q \[n_q, d_k\], K \[n_k, d_k\] and V \[n_k, d_v\], in this order:
/// 1. scores = QKᵀ × scale, 1/√d_k unless given (Vaswani et al. 2017, equation 1);
/// 2. soft cap, where given: c·tanh(score / c);
/// 3. the additive mask, where given, then −∞ where the [mask](Mask) hides a key;
/// 4. divided by the [temperature](Temperature);
/// 5. softmax over each row, then weights · V.
///
/// A row that may see nothing has zero weights, a zero output and a log-sum-exp of −∞. NaN where the mask hides it does
/// not leak; NaN at a visible place shows in that row's output.
///
/// [`forward`](Self::forward) is fused: it never holds more than 6 × 64 scores (the online softmax of Milakov and
/// Gimelshein 2018, tiled as in FlashAttention, Dao et al. 2022). An output row's bits depend on that query, the keys, the
/// values and its mask alone: not on the rows beside it.
///
/// ```
/// use regard_kernels::{Attention, Mask, Mat, MatMut, Position, attention_scratch_len};
/// let (q, k) = ([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]);
/// let v = [[1.0], [3.0]];
/// let mut out = [[0.0]; 2];
/// let mut scratch = [0.0; attention_scratch_len(2, 2, 2)];
/// let causal = Attention::new().mask(Mask::NONE.causal(Position::TopLeft));
/// causal.forward(Mat::from(&q), Mat::from(&k), Mat::from(&v), MatMut::from(&mut out), &mut scratch)?;
/// assert_eq!(out[0], [1.0]); // the first query sees the first key alone
/// # Ok::<(), regard_kernels::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Attention<'a> {
    scale: Option<f32>,
    softcap: Option<f32>,
    mask: Mask<'a>,
    temperature: Temperature,
}

/// How far the scores have come: what [`Attention::scores`] gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// QKᵀ × scale.
    Raw,
    /// After the soft cap.
    Softcapped,
    /// After the additive mask, with −∞ where a key may not be seen.
    Masked,
    /// After temperature and softmax: each row a distribution.
    Weights,
}

/// Elements of `f32` scratch memory that [`Attention::forward`] and [`Attention::scores`] need.
///
/// A tile of transposed keys, the scores of 6 rows, and two numbers a query:
/// ⌈min(n_k, 64)⌉₁₆ × (d_k + 6) + 2·n_q, where ⌈ ⌉₁₆ rounds up to a multiple of 16 (64 for the 6 rows of scores).
#[must_use]
pub const fn attention_scratch_len(n_q: usize, n_k: usize, d_k: usize) -> usize {
    let keys = if n_k < TILE { n_k.div_ceil(LANES) * LANES } else { TILE };
    keys.saturating_mul(d_k).saturating_add(GROUP * TILE).saturating_add(n_q.saturating_mul(2))
}

impl<'a> Attention<'a> {
    /// Scale 1/√d_k, no soft cap, no mask, temperature 1.
    #[must_use]
    pub const fn new() -> Self {
        Self { scale: None, softcap: None, mask: Mask::NONE, temperature: Temperature::ONE }
    }

    /// What the dot products are multiplied by, instead of 1/√d_k.
    #[must_use]
    pub const fn scale(mut self, scale: f32) -> Self {
        self.scale = Some(scale);
        self
    }

    /// Caps the scores softly at ±`cap`: cap·tanh(score / cap).
    #[must_use]
    pub const fn softcap(mut self, cap: f32) -> Self {
        self.softcap = Some(cap);
        self
    }

    /// Which keys each query may see.
    #[must_use]
    pub const fn mask(mut self, mask: Mask<'a>) -> Self {
        self.mask = mask;
        self
    }

    /// What the scores are divided by before softmax.
    #[must_use]
    pub const fn temperature(mut self, temperature: Temperature) -> Self {
        self.temperature = temperature;
        self
    }

    /// The attention's output \[n_q, d_v\] into `out`. `scratch` holds at least [`attention_scratch_len`] elements; what
    /// is in it does not matter.
    ///
    /// # Errors
    /// [`Error::Shape`] and [`Error::Length`] name the tensor that does not fit, [`Error::Scratch`] says how much is
    /// needed, [`Error::Range`] a soft cap or scale that is no number to compute with. `out` is then as it was.
    pub fn forward(
        &self,
        q: Mat<'_>,
        k: Mat<'_>,
        v: Mat<'_>,
        out: MatMut<'_>,
        scratch: &mut [f32],
    ) -> Result<(), Error> {
        self.forward_into(q, k, v, out, scratch, None)
    }

    /// As [`forward`](Self::forward), with the log-sum-exp of each row's scores (after temperature) in `log_sum_exp`
    /// \[n_q\]: what partial results over disjoint keys are merged by,
    /// where it is finite (at T = 0 it is the limit, mostly ±∞).
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and [`Error::Length`] if `log_sum_exp` is not n_q long.
    pub fn forward_with_log_sum_exp(
        &self,
        q: Mat<'_>,
        k: Mat<'_>,
        v: Mat<'_>,
        out: MatMut<'_>,
        log_sum_exp: &mut [f32],
        scratch: &mut [f32],
    ) -> Result<(), Error> {
        self.forward_into(q, k, v, out, scratch, Some(log_sum_exp))
    }

    fn forward_into(
        &self,
        q: Mat<'_>,
        k: Mat<'_>,
        v: Mat<'_>,
        out: MatMut<'_>,
        scratch: &mut [f32],
        log_sum_exp: Option<&mut [f32]>,
    ) -> Result<(), Error> {
        self.check_shapes(q, k)?;
        check_shape("value", v.shape(), (k.rows(), v.cols()), "a row for each key")?;
        check_shape("the output", out.shape(), (q.rows(), v.cols()), "queries × columns of value")?;
        if let Some(l) = &log_sum_exp {
            check_len("the log-sum-exp", l.len(), q.rows())?;
        }
        let (scores, stats) = self.scores_into(q, k, Stage::Masked, scratch)?;
        let (max, sum) = stats.split_at_mut_checked(q.rows()).unwrap_or_default();
        dispatch(Fused { scores, v, out, max, sum, log_sum_exp });
        Ok(())
    }

    /// The scores \[n_q, n_k\] at a `stage` into `out`: what the fused computation never holds whole.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn scores(
        &self,
        stage: Stage,
        q: Mat<'_>,
        k: Mat<'_>,
        out: MatMut<'_>,
        scratch: &mut [f32],
    ) -> Result<(), Error> {
        self.check_shapes(q, k)?;
        check_shape("the scores", out.shape(), (q.rows(), k.rows()), "queries × keys")?;
        let (scores, _) = self.scores_into(q, k, stage, scratch)?;
        dispatch(Whole { scores, out, stage });
        Ok(())
    }

    fn check_shapes(&self, q: Mat<'_>, k: Mat<'_>) -> Result<(), Error> {
        check_shape("key", k.shape(), (k.rows(), q.cols()), "as many columns as query")?;
        self.mask.check(q.rows(), k.rows())?;
        self.check()
    }

    /// Whether scale and soft cap are numbers to compute with: what every call checks, along with the shapes.
    ///
    /// # Errors
    /// [`Error::Range`] names the one that is not.
    pub fn check(&self) -> Result<(), Error> {
        if let Some(scale) = self.scale
            && !scale.is_finite()
        {
            return Err(Error::Range { name: "scale", value: scale, range: "finite" });
        }
        match self.softcap {
            Some(c) if !(c > 0.0 && c.is_finite()) => {
                Err(Error::Range { name: "soft cap", value: c, range: "finite and greater than 0" })
            }
            _ => Ok(()),
        }
    }

    /// The tiles of scores over `scratch`, and the part of `scratch` that is for two numbers a query.
    fn scores_into<'t>(
        &self,
        q: Mat<'t>,
        k: Mat<'t>,
        stage: Stage,
        scratch: &'t mut [f32],
    ) -> Result<(Scores<'t>, &'t mut [f32])>
    where
        'a: 't,
    {
        let (n_q, d_k) = q.shape();
        let needed = attention_scratch_len(n_q, k.rows(), d_k);
        let found = scratch.len();
        let scratch = scratch.get_mut(..needed).ok_or(Error::Scratch { found, needed })?;
        let (stats, tiles) = scratch.split_at_mut_checked(2 * n_q).unwrap_or_default();
        let (scores, panels) = tiles.split_at_mut_checked(GROUP * TILE).unwrap_or_default();
        let mask = if matches!(stage, Stage::Raw | Stage::Softcapped) { Mask::NONE } else { self.mask };
        let scores = Scores {
            q,
            k,
            scale: self.scale.unwrap_or_else(|| default_scale(d_k)),
            softcap: self.softcap.filter(|_| stage != Stage::Raw),
            bounds: Bounds::new(&mask, n_q, k.rows()),
            temperature: self.temperature,
            panels: panels.as_chunks_mut().0,
            tile: scores.as_chunks_mut().0,
        };
        Ok((scores, stats))
    }
}

type Result<T, E = Error> = core::result::Result<T, E>;

/// 1/√d_k; 1 for vectors without elements, whose dot products are all 0.
fn default_scale(d_k: usize) -> f32 {
    if d_k == 0 { 1.0 } else { 1.0 / libm::sqrtf(d_k as f32) }
}

/// Computes the scores tile by tile: step 1 to 3 of [`Attention`].
struct Scores<'a> {
    q: Mat<'a>,
    k: Mat<'a>,
    scale: f32,
    softcap: Option<f32>,
    bounds: Bounds<'a>,
    temperature: Temperature,
    /// The tile's keys, transposed: a panel of d_k rows for every 16 keys.
    panels: &'a mut [Panel],
    /// The scores of up to 6 queries.
    tile: &'a mut [[f32; TILE]],
}

/// What becomes of the scores of a group of rows.
trait Sink {
    /// `tile[r]` holds the scores of query `row + r` for the `keys`, from its start on.
    fn take<S: Simd, const R: usize>(
        &mut self,
        simd: S,
        bounds: &Bounds<'_>,
        row: usize,
        keys: Range<usize>,
        tile: &mut [[f32; TILE]],
    );
}

impl Scores<'_> {
    #[inline(always)]
    fn run<S: Simd>(&mut self, simd: S, sink: &mut impl Sink) {
        let n_q = self.q.rows();
        let seen = self.bounds.range_of_rows(0, n_q);
        for start in (0..self.k.rows()).step_by(TILE) {
            let tile = start..(start + TILE).min(self.k.rows());
            if n_q == 0 || intersect(&tile, &seen).is_empty() {
                continue; // no query of this call sees it
            }
            self.pack(tile.start);
            for_row_groups!(n_q, |row, R| self.group::<S, R>(simd, row, &tile, sink));
        }
    }

    #[inline(always)]
    fn pack(&mut self, start: usize) {
        let d_k = self.q.cols();
        // For d_k = 0 there is nothing to transpose.
        for (p, panel) in self.panels.chunks_exact_mut(d_k.max(1)).enumerate() {
            let rows = LANES.min(TILE.saturating_sub(p * LANES));
            pack_panel(self.k.rows_from(start + p * LANES, rows), panel);
        }
    }

    /// The scores of rows `row..row + R` for the keys of a tile, as far as one of them may see.
    #[inline(always)]
    fn group<S: Simd, const R: usize>(&mut self, simd: S, row: usize, tile: &Range<usize>, sink: &mut impl Sink) {
        let seen = intersect(tile, &self.bounds.range_of_rows(row, R));
        if seen.is_empty() {
            return;
        }
        // Whole panels from the tile's start on, so that a key's lane does not depend on the mask.
        let first = (seen.start - tile.start) / LANES;
        let keys = tile.start + first * LANES..seen.end;
        let d_k = self.q.cols();
        let q = self.q.rows_from(row, R);
        let scale = simd.splat(self.scale);
        for p in 0..keys.len().div_ceil(LANES) {
            let panel = self.panels.get((first + p) * d_k..(first + p + 1) * d_k).unwrap_or_default();
            let Ok(panel) = Mat::new(panel.as_flattened(), d_k, LANES) else { return };
            let acc = multiply_tile::<S, R>(simd, q, panel, [simd.splat(0.0); R]);
            for (scores, acc) in self.tile.iter_mut().zip(acc) {
                let lanes = scores.get_mut(p * LANES..).unwrap_or_default();
                simd.store_first(simd.mul(acc, scale), lanes);
            }
        }
        for (r, scores) in self.tile.iter_mut().take(R).enumerate() {
            let scores = scores.get_mut(..keys.len()).unwrap_or_default();
            if let Some(cap) = self.softcap {
                for score in scores.iter_mut() {
                    *score = cap * libm::tanhf(*score / cap);
                }
            }
            self.bounds.apply(row + r, keys.start, scores);
        }
        sink.take::<S, R>(simd, &self.bounds, row, keys, self.tile);
    }
}

fn intersect(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    a.start.max(b.start)..a.end.min(b.end)
}

/// The scores, whole.
struct Whole<'a> {
    scores: Scores<'a>,
    out: MatMut<'a>,
    stage: Stage,
}

struct CopyRows<'o, 'a>(&'o mut MatMut<'a>);

impl Sink for CopyRows<'_, '_> {
    #[inline(always)]
    fn take<S: Simd, const R: usize>(
        &mut self,
        _simd: S,
        _bounds: &Bounds<'_>,
        row: usize,
        keys: Range<usize>,
        tile: &mut [[f32; TILE]],
    ) {
        for (r, scores) in tile.iter().take(R).enumerate() {
            let out = self.0.row_mut(row + r).get_mut(keys.clone()).unwrap_or_default();
            for (out, score) in out.iter_mut().zip(scores) {
                *out = *score;
            }
        }
    }
}

impl Kernel for Whole<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let rows = self.out.rows();
        for i in 0..rows {
            self.out.row_mut(i).fill(f32::NEG_INFINITY); // what no tile reaches is hidden
        }
        self.scores.run(simd, &mut CopyRows(&mut self.out));
        if self.stage == Stage::Weights {
            for i in 0..rows {
                softmax_row(simd, self.out.row_mut(i), self.scores.temperature);
            }
        }
    }
}

/// The fused attention: the scores of a tile become weights and meet the values at once.
struct Fused<'a> {
    scores: Scores<'a>,
    v: Mat<'a>,
    out: MatMut<'a>,
    /// Each query's largest score so far.
    max: &'a mut [f32],
    /// Each query's sum of e^((score − max)/T) so far.
    sum: &'a mut [f32],
    log_sum_exp: Option<&'a mut [f32]>,
}

struct Accumulate<'o, 'a> {
    v: Mat<'a>,
    out: &'o mut MatMut<'a>,
    max: &'o mut [f32],
    sum: &'o mut [f32],
    temperature: Temperature,
    /// Whether the values of the tile that starts at this key are finite, once it has been asked.
    finite: Option<(usize, bool)>,
}

impl Kernel for Fused<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let temperature = self.scores.temperature;
        self.max.fill(f32::NEG_INFINITY);
        self.sum.fill(0.0);
        for i in 0..self.out.rows() {
            self.out.row_mut(i).fill(0.0);
        }
        let Self { scores, v, out, max, sum, .. } = &mut self;
        scores.run(simd, &mut Accumulate { v: *v, out, max, sum, temperature, finite: None });
        for (i, sum) in self.sum.iter().enumerate() {
            divide(simd, self.out.row_mut(i), *sum);
        }
        if let Some(l) = self.log_sum_exp {
            for ((l, max), sum) in l.iter_mut().zip(&*self.max).zip(&*self.sum) {
                *l = log_sum_exp(*max, *sum, temperature);
            }
        }
    }
}

impl Sink for Accumulate<'_, '_> {
    #[inline(always)]
    fn take<S: Simd, const R: usize>(
        &mut self,
        simd: S,
        bounds: &Bounds<'_>,
        row: usize,
        keys: Range<usize>,
        tile: &mut [[f32; TILE]],
    ) {
        let stats = self.max.iter_mut().zip(self.sum.iter_mut()).skip(row);
        for (r, (scores, (old_max, sum))) in tile.iter_mut().take(R).zip(stats).enumerate() {
            let scores = scores.get_mut(..keys.len()).unwrap_or_default();
            flatten_if_infinite(scores, self.temperature);
            let tile_max = max(simd, scores);
            // The larger one; a NaN on either side reaches the sum through the weights.
            let new_max = if *old_max > tile_max { *old_max } else { tile_max };
            let tile_sum = weigh(simd, scores, new_max, self.temperature);
            if new_max > *old_max && *sum != 0.0 {
                let factor = rescale(simd, *old_max, new_max, self.temperature);
                *sum *= factor;
                multiply(simd, self.out.row_mut(row + r), factor);
            }
            *sum += tile_sum;
            *old_max = new_max;
        }
        let Ok(weights) = Mat::strided(tile.as_flattened(), R, keys.len(), TILE) else { return };
        let v = self.v.rows_from(keys.start, keys.len());
        if bounds.may_hide(row, R, &keys) && !self.is_tile_finite(keys.start) {
            // 0 · NaN is NaN: a hidden value must not take part at all.
            for r in 0..R {
                for (t, key) in keys.clone().enumerate().filter(|(_, key)| bounds.sees(row + r, *key)) {
                    self.add::<S, 1>(simd, row + r, weights.block(r, 1, t, 1), self.v.rows_from(key, 1));
                }
            }
        } else {
            self.add::<S, R>(simd, row, weights, v);
        }
    }
}

impl Accumulate<'_, '_> {
    /// Whether all values of the tile that `key` lies in are finite.
    fn is_tile_finite(&mut self, key: usize) -> bool {
        let start = key / TILE * TILE;
        match self.finite {
            Some((known, finite)) if known == start => finite,
            _ => {
                let finite = is_finite(self.v.rows_from(start, TILE));
                self.finite = Some((start, finite));
                finite
            }
        }
    }

    /// out\[row..row + R\] += weights · v.
    #[inline(always)]
    fn add<S: Simd, const R: usize>(&mut self, simd: S, row: usize, weights: Mat<'_>, v: Mat<'_>) {
        for col in (0..v.cols()).step_by(LANES) {
            let acc = load_rows::<S, R>(simd, self.out, row, col);
            let acc = multiply_tile::<S, R>(simd, weights, v.block(0, v.rows(), col, LANES), acc);
            store_rows(simd, acc, self.out, row, col);
        }
    }
}

#[inline(always)]
fn multiply<S: Simd>(simd: S, row: &mut [f32], factor: f32) {
    let factor = simd.splat(factor);
    for chunk in row.chunks_mut(LANES) {
        let product = simd.mul(simd.load_or(chunk, 0.0), factor);
        simd.store_first(product, chunk);
    }
}

fn is_finite(m: Mat<'_>) -> bool {
    (0..m.rows()).all(|i| m.row(i).iter().all(|x| x.is_finite()))
}
