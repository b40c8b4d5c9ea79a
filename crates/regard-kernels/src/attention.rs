use core::mem::take;
use core::ops::Range;

use crate::error::{Error, check_len, check_shape};
use crate::fused::{Fused, Softmax, Values, packed_values};
use crate::mask::Bounds;
use crate::partial::{CHUNK_KEYS, Partial};
use crate::scores::{BLOCK, Block, Scores, Sink, Softcap, Steps, TILE};
use crate::simd::{Kernel, LANES, NARROW, Panel, Simd, dispatch, sqrt};
use crate::small::{FixedSmall, Small};
use crate::softmax::{scale_row, share_beside_sink, softmax_row};
use crate::{Mask, Mat, MatMut, Temperature};

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
/// [`forward`](Self::forward) is fused: it never holds more than 24 × 256 scores (the online softmax of Milakov and
/// Gimelshein 2018, tiled as in FlashAttention, Dao et al. 2022). An output row's bits depend on that query, the keys, the
/// values and its mask alone: not on the rows beside it.
///
/// ```
/// use regard_kernels::{Attention, Mask, Mat, MatMut, Position, attention_scratch_len};
/// let (q, k) = ([[1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]);
/// let v = [[1.0], [3.0]];
/// let mut out = [[0.0]; 2];
/// let mut scratch = [0.0; attention_scratch_len(2, 2, 2, 1)];
/// let causal = Attention::new().mask(Mask::NONE.causal(Position::TopLeft));
/// causal.forward(Mat::from(&q), Mat::from(&k), Mat::from(&v), MatMut::from(&mut out), &mut scratch)?;
/// assert_eq!(out[0], [1.0]); // the first query sees the first key alone
/// # Ok::<(), regard_kernels::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Attention<'a> {
    scale: Option<f32>,
    softcap: Option<Softcap>,
    mask: Mask<'a>,
    temperature: Temperature,
    sink: Option<f32>,
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

/// Elements of `f32` scratch memory that [`Attention::forward`] and [`Attention::scores`] need (the latter with d_v = 0).
///
/// With t = min(n_k, 256) keys a tile, b queries a block and ⌈ ⌉₁₆ for rounding up to a multiple of 16:
/// - (⌈t⌉₁₆ + 16) × min(n_q, b) for the scores of a tile,
/// - ⌈t⌉₁₆ × d_k for its keys, transposed (for one query 16 × d_k are enough),
/// - t × ⌈d_v⌉₁₆ for a copy of its values from b′ queries on; below, t × 16 if d_v is no multiple of 16, else nothing,
/// - 2·n_q, and 15 to start at a multiple of 64 bytes,
/// - for more than [`CHUNK_KEYS`] keys n_q × (d_v + 2) for what the next chunk of them comes to.
///
/// b = 24 and b′ = 12 where there is an operating system, because there are caches then; on bare metal b = 6, and whole
/// panels of values are never copied. Cortex-M and RISC-V (b = 6) read keys and values where they lie: only the first and
/// the last line count there.
#[must_use]
pub const fn attention_scratch_len(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    let [scores, keys, values] = scratch_parts(n_q, n_k, d_k, d_v);
    scores
        .saturating_add(keys)
        .saturating_add(values)
        .saturating_add(n_q.saturating_mul(2))
        .saturating_add(chunk_len(n_q, n_k, d_v))
        .saturating_add(ALIGNMENT - 1)
}

/// Bytes of RAM of one attention in `f32`.
///
/// Query \[n_q, d_k\], key \[n_k, d_k\], value \[n_k, d_v\], output \[n_q, d_v\] and the
/// [scratch memory](attention_scratch_len): 4·(n_q + n_k)·(d_k + d_v) and what the scratch takes.
///
/// ```
/// // That these shapes fit into 64 KiB is said where they are chosen, and checked by the compiler.
/// const _: () = assert!(regard_kernels::attention_bytes(64, 64, 32, 32) <= 64 * 1024);
/// ```
#[must_use]
pub const fn attention_bytes(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    let scratch = attention_scratch_len(n_q, n_k, d_k, d_v);
    tensor_elements(n_q, n_k, d_k, d_v).saturating_add(scratch).saturating_mul(size_of::<f32>())
}

/// Elements of query, key, value and output together.
pub(crate) const fn tensor_elements(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
    n_q.saturating_add(n_k).saturating_mul(d_k.saturating_add(d_v))
}

/// Elements for what a chunk of keys comes to.
const fn chunk_len(n_q: usize, n_k: usize, d_v: usize) -> usize {
    if n_k > CHUNK_KEYS { n_q.saturating_mul(d_v.saturating_add(2)) } else { 0 }
}

/// The elements of a cache line.
const ALIGNMENT: usize = 16;

/// Elements for the scores, the keys and the values of a tile.
const fn scratch_parts(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> [usize; 3] {
    let tile = if n_k < TILE { n_k } else { TILE };
    let block = if n_q < BLOCK { n_q } else { BLOCK };
    [
        // Rows that are no power of two apart, which would compete for the same places of a cache.
        block * (tile.next_multiple_of(LANES) + LANES),
        match (NARROW, n_q) {
            (true, _) => 0,
            (false, 1) if tile > LANES => LANES.saturating_mul(d_k),
            (false, _) => tile.next_multiple_of(LANES).saturating_mul(d_k),
        },
        packed_values(n_q, d_v).saturating_mul(tile * LANES),
    ]
}

impl<'a> Attention<'a> {
    /// Scale 1/√d_k, no soft cap, no mask, temperature 1.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            scale: None,
            softcap: None,
            mask: Mask::NONE,
            temperature: Temperature::ONE,
            sink: None,
        }
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
        self.softcap = Some(Softcap::new(cap));
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

    /// An attention sink: a score, the same for each query, that takes part in the softmax and gives no value, as if there
    /// were one more key, always seen, whose value is 0 (Agarwal et al. 2025, gpt-oss; Xiao et al. 2023, arXiv 2309.17453).
    /// Neither scale nor soft cap nor mask concern it, the temperature does; the log-sum-exp counts it.
    ///
    /// ```
    /// use regard_kernels::{Attention, Mat, MatMut, attention_scratch_len};
    /// let (q, k, v, mut out) = ([[1.0]], [[0.0]], [[4.0]], [[0.0]]);
    /// let mut scratch = [0.0; attention_scratch_len(1, 1, 1, 1)];
    /// let (q, k, v) = (Mat::from(&q), Mat::from(&k), Mat::from(&v));
    /// Attention::new().sink(0.0).forward(q, k, v, MatMut::from(&mut out), &mut scratch)?;
    /// assert_eq!(out, [[2.0]]); // the sink, whose score is that of the key, took one half
    /// # Ok::<(), regard_kernels::Error>(())
    /// ```
    #[must_use]
    pub const fn sink(mut self, score: f32) -> Self {
        self.sink = Some(score);
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
        if k.rows() > CHUNK_KEYS || self.sink.is_some() {
            return self.forward_chunks(q, k, v, out, scratch, log_sum_exp);
        }
        self.forward_whole(q, k, v, out, scratch, log_sum_exp)
    }

    /// [`forward`](Self::forward) of few keys and without a sink: a program whose shapes the compiler knows need not link more.
    fn forward_whole(
        &self,
        q: Mat<'_>,
        k: Mat<'_>,
        v: Mat<'_>,
        out: MatMut<'_>,
        scratch: &mut [f32],
        log_sum_exp: Option<&mut [f32]>,
    ) -> Result<(), Error> {
        self.check_all(q, k, v, &out)?;
        if let Some(l) = &log_sum_exp {
            check_len("the log-sum-exp", l.len(), q.rows())?;
        }
        let parts = Parts::of(scratch, q.rows(), k.shape(), v.cols())?;
        let Parts { tile, panels, values, stats, .. } = parts;
        let folded = self.folded(q.cols());
        let (steps, factor) = match folded {
            Some(factor) => (Steps::default(), factor),
            None => (Steps::new(self.scale_for(q.cols()), self.softcap), self.temperature.factor()),
        };
        let bounds = Bounds::new(&self.mask, q.rows(), k.rows());
        if folded.is_some()
            && Small::fits(k.rows(), v.cols())
            && !bounds.may_hide(0, q.rows(), &(0..k.rows()))
        {
            dispatch(Small {
                q,
                k,
                v,
                out,
                factor,
                temperature: self.temperature,
                panel: panels,
                log_sum_exp,
            });
            return Ok(());
        }
        let (max, sum) = stats.split_at_mut_checked(q.rows()).unwrap_or_default();
        let prepare = self.temperature.preparation();
        let softmax = Softmax { temperature: self.temperature, factor, prepare, max, sum };
        let scores = Scores { q, k, steps, bounds: &bounds, panels, tile };
        let values = Values::new(v, values);
        let mut fused = Fused { scores, values, out, softmax, whole: true };
        fuse(&mut fused);
        if let Some(out) = log_sum_exp {
            fused.softmax.log_sum_exp(out);
        }
        Ok(())
    }

    /// [`forward`](Self::forward) by parts: where there are many keys, or a sink, which is no key of any part.
    #[inline(never)]
    fn forward_chunks(
        &self,
        q: Mat<'_>,
        k: Mat<'_>,
        v: Mat<'_>,
        out: MatMut<'_>,
        scratch: &mut [f32],
        log_sum_exp: Option<&mut [f32]>,
    ) -> Result<(), Error> {
        self.check_all(q, k, v, &out)?;
        if let Some(l) = &log_sum_exp {
            check_len("the log-sum-exp", l.len(), q.rows())?;
        }
        let mut parts = Parts::of(scratch, q.rows(), k.shape(), v.cols())?;
        let mut all = self.partial(q.cols(), out, take(&mut parts.stats))?;
        self.add_chunks(q, k, v, &mut parts, &mut all);
        all.finish(log_sum_exp)
    }

    /// A [`Partial`] of queries with `d_k` elements, whose output \[n_q, d_v\] is in `out`, and two numbers a query in `state`
    /// \[2·n_q\]: to be computed there by [`forward_partial`](Self::forward_partial), or what that has left there.
    ///
    /// # Errors
    /// [`Error::Length`] if `state` has another length.
    pub fn partial<'p>(
        &self,
        d_k: usize,
        out: MatMut<'p>,
        state: &'p mut [f32],
    ) -> Result<Partial<'p>, Error> {
        check_len("the state", state.len(), out.rows().saturating_mul(2))?;
        let (max, sum) = state.split_at_mut_checked(out.rows()).unwrap_or_default();
        Ok(Partial { out, softmax: self.softmax(d_k, max, sum), sink: self.sink })
    }

    /// As [`forward`](Self::forward), for the keys that the mask shows alone. What `part` held before does not matter.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_partial(
        &self,
        q: Mat<'_>,
        k: Mat<'_>,
        v: Mat<'_>,
        part: &mut Partial<'_>,
        scratch: &mut [f32],
    ) -> Result<(), Error> {
        self.check_all(q, k, v, &part.out)?;
        let mut parts = Parts::of(scratch, q.rows(), k.shape(), v.cols())?;
        let Softmax { max, sum, .. } = &mut part.softmax;
        part.softmax = self.softmax(q.cols(), take(max), take(sum));
        part.sink = self.sink;
        self.add_chunks(q, k, v, &mut parts, part);
        Ok(())
    }

    /// What all keys that the mask shows come to, [`CHUNK_KEYS`] at a time, merged in their order.
    fn add_chunks(
        &self,
        q: Mat<'_>,
        k: Mat<'_>,
        v: Mat<'_>,
        parts: &mut Parts<'_>,
        part: &mut Partial<'_>,
    ) {
        self.chunk(q, k, v, 0, parts, part);
        let (stats, out) =
            take(&mut parts.chunk).split_at_mut_checked(2 * q.rows()).unwrap_or_default();
        let mut start = CHUNK_KEYS;
        while start < k.rows() {
            let (max, sum) = stats.split_at_mut_checked(q.rows()).unwrap_or_default();
            let Ok(out) = MatMut::new(out, q.rows(), v.cols()) else { return };
            let mut next = Partial { out, softmax: self.softmax(q.cols(), max, sum), sink: None };
            self.chunk(q, k, v, start, parts, &mut next);
            part.add(&next);
            start += CHUNK_KEYS;
        }
    }

    /// What the chunk of keys from `start` on comes to.
    fn chunk(
        &self,
        q: Mat<'_>,
        k: Mat<'_>,
        v: Mat<'_>,
        start: usize,
        parts: &mut Parts<'_>,
        part: &mut Partial<'_>,
    ) {
        let steps = match self.folded(q.cols()) {
            Some(_) => Steps::default(),
            None => Steps::new(self.scale_for(q.cols()), self.softcap),
        };
        let bounds = Bounds::new(&self.mask, q.rows(), k.rows()).within(start, start + CHUNK_KEYS);
        let scores = Scores {
            q,
            k,
            steps,
            bounds: &bounds,
            panels: parts.panels,
            tile: parts.tile.rows_from(0),
        };
        let values = Values::new(v, parts.values);
        let Softmax { temperature, factor, prepare, ref mut max, ref mut sum } = part.softmax;
        let softmax = Softmax { temperature, factor, prepare, max, sum };
        fuse(&mut Fused { scores, values, out: part.out.rows_from(0), softmax, whole: false });
    }

    /// How scores become weights.
    fn softmax<'s>(&self, d_k: usize, max: &'s mut [f32], sum: &'s mut [f32]) -> Softmax<'s> {
        let factor = self.folded(d_k).unwrap_or_else(|| self.temperature.factor());
        Softmax {
            temperature: self.temperature,
            factor,
            prepare: self.temperature.preparation(),
            max,
            sum,
        }
    }

    #[inline(always)]
    fn check_all(&self, q: Mat<'_>, k: Mat<'_>, v: Mat<'_>, out: &MatMut<'_>) -> Result<(), Error> {
        self.check_shapes(q, k)?;
        check_shape("value", v.shape(), (k.rows(), v.cols()), "a row for each key")?;
        check_shape("the output", out.shape(), (q.rows(), v.cols()), "queries × columns of value")
    }

    /// [`forward`](Self::forward) where the compiler knows the shapes.
    #[inline]
    pub(crate) fn forward_fixed<
        const N_Q: usize,
        const N_K: usize,
        const D_K: usize,
        const D_V: usize,
    >(
        &self,
        q: &[[f32; D_K]; N_Q],
        k: &[[f32; D_K]; N_K],
        v: &[[f32; D_V]; N_K],
        out: &mut [[f32; D_V]; N_Q],
        scratch: &mut [f32],
    ) -> Result<(), Error> {
        // Code of its own for each shape is worth it where code is cheap.
        if !cfg!(target_os = "none")
            && Small::fits(N_K, D_V)
            && self.mask.is_none()
            && let Some(factor) = self.folded(D_K)
        {
            dispatch(FixedSmall { q, k, v, out, factor, temperature: self.temperature });
            return Ok(());
        }
        let (q, k, v, out) = (q.into(), k.into(), v.into(), out.into());
        if N_K <= CHUNK_KEYS && self.sink.is_none() {
            return self.forward_whole(q, k, v, out, scratch, None);
        }
        self.forward(q, k, v, out, scratch)
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
        let Parts { tile, panels, .. } = Parts::of(scratch, q.rows(), k.shape(), 0)?;
        let softcap = self.softcap.filter(|_| stage != Stage::Raw);
        let steps = Steps::new(self.scale_for(q.cols()), softcap);
        let mask =
            if matches!(stage, Stage::Raw | Stage::Softcapped) { Mask::NONE } else { self.mask };
        let bounds = Bounds::new(&mask, q.rows(), k.rows());
        let softmax = (stage == Stage::Weights).then_some((self.temperature, self.sink));
        dispatch(Whole {
            scores: Scores { q, k, steps, bounds: &bounds, panels, tile },
            out,
            softmax,
        });
        Ok(())
    }

    /// What the softmax multiplies by in place of scale and temperature, where nothing stands between them: it multiplies
    /// anyway.
    #[inline]
    fn folded(&self, d_k: usize) -> Option<f32> {
        let factor = self.scale_for(d_k) * self.temperature.factor();
        let folds = self.softcap.is_none()
            && self.sink.is_none()
            && !self.mask.has_bias()
            && self.temperature.is_moderate()
            // 1/√d_k always is; said so, it is known before the program runs.
            && (self.scale.is_none() && self.temperature == Temperature::ONE || FOLDED.contains(&factor));
        folds.then_some(factor)
    }

    #[inline]
    fn scale_for(&self, d_k: usize) -> f32 {
        self.scale.unwrap_or_else(|| default_scale(d_k))
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
        if let Some(sink) = self.sink
            && (sink.is_nan() || sink == f32::INFINITY)
        {
            return Err(Error::Range {
                name: "the sink's score",
                value: sink,
                range: "less than ∞",
            });
        }
        match self.softcap.map(Softcap::get) {
            Some(c) if !(c > 0.0 && c.is_finite()) => {
                Err(Error::Range { name: "soft cap", value: c, range: "finite and greater than 0" })
            }
            _ => Ok(()),
        }
    }
}

/// On bare metal a function of its own, which all shapes share.
#[cfg_attr(target_os = "none", inline(never))]
#[cfg_attr(not(target_os = "none"), inline(always))]
fn fuse(fused: &mut Fused<'_>) {
    dispatch(fused);
}

/// What the softmax can multiply by in place of scale and temperature: positive, so that the largest dot product has the
/// largest score (two that overflow only when multiplied are told apart); and where two dot products are further apart
/// than any finite `f32`, one of them has no weight.
const FOLDED: Range<f32> = 1.0 / 18_446_744_073_709_551_616.0..18_446_744_073_709_551_616.0; // 2⁻⁶⁴..2⁶⁴

/// The caller's scratch memory.
struct Parts<'t> {
    tile: MatMut<'t>,
    panels: &'t mut [Panel],
    values: &'t mut [Panel],
    /// Two numbers a query.
    stats: &'t mut [f32],
    /// Where there is more than one chunk of keys: two numbers a query, and an output.
    chunk: &'t mut [f32],
}

impl<'t> Parts<'t> {
    fn of(
        scratch: &'t mut [f32],
        n_q: usize,
        (n_k, d_k): (usize, usize),
        d_v: usize,
    ) -> Result<Self> {
        let needed = attention_scratch_len(n_q, n_k, d_k, d_v);
        let found = scratch.len();
        let scratch = scratch.get_mut(..needed).ok_or(Error::Scratch { found, needed })?;
        // Where the address is not known, as in Miri, the start is as good as any other place.
        let offset = scratch.as_ptr().align_offset(ALIGNMENT * size_of::<f32>()).min(ALIGNMENT - 1);
        let aligned = scratch.get_mut(offset..).unwrap_or_default();
        let [tile, panels, values] = scratch_parts(n_q, n_k, d_k, d_v);
        let block = BLOCK.min(n_q);
        let width = tile.checked_div(block).unwrap_or_default();
        let (tile, rest) = aligned.split_at_mut_checked(tile).unwrap_or_default();
        let (panels, rest) = rest.split_at_mut_checked(panels).unwrap_or_default();
        let (values, rest) = rest.split_at_mut_checked(values).unwrap_or_default();
        let (stats, chunk) = rest.split_at_mut_checked(2 * n_q).unwrap_or_default();
        let chunk = chunk.get_mut(..chunk_len(n_q, n_k, d_v)).unwrap_or_default();
        Ok(Self {
            tile: MatMut::new(tile, block, width)?,
            panels: panels.as_chunks_mut().0,
            values: values.as_chunks_mut().0,
            stats,
            chunk,
        })
    }
}

type Result<T, E = Error> = core::result::Result<T, E>;

/// 1/√d_k; 1 for vectors without elements, whose dot products are all 0.
#[inline]
fn default_scale(d_k: usize) -> f32 {
    if d_k == 0 { 1.0 } else { 1.0 / sqrt(d_k as f32) }
}

/// The scores, whole.
struct Whole<'a> {
    scores: Scores<'a>,
    out: MatMut<'a>,
    /// Whether they become weights, by which temperature, and beside which sink.
    softmax: Option<(Temperature, Option<f32>)>,
}

struct CopyRows<'o, 'a>(&'o mut MatMut<'a>);

impl Sink for CopyRows<'_, '_> {
    #[inline(always)]
    fn begin<S: Simd>(&mut self, _simd: S, _keys: Range<usize>) {}

    #[inline(always)]
    fn take<S: Simd>(&mut self, _simd: S, _bounds: &Bounds<'_>, mut block: Block<'_>) {
        for group in block.groups {
            for row in group.row..group.row + group.rows {
                let scores = block
                    .scores
                    .row_mut(row - block.row)
                    .get(group.first..group.end)
                    .unwrap_or_default();
                let out =
                    self.0.row_mut(row).get_mut(block.start + group.first..).unwrap_or_default();
                for (out, score) in out.iter_mut().zip(scores) {
                    *out = *score;
                }
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
        if let Some((temperature, sink)) = self.softmax {
            for i in 0..rows {
                let row = self.out.row_mut(i);
                let (max, sum) = softmax_row(simd, row, temperature);
                if let Some(sink) = sink {
                    scale_row(simd, row, share_beside_sink(simd, max, sum, sink, temperature));
                }
            }
        }
    }
}
