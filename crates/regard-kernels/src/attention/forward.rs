//! The public functions of an attention: the output, its log-sum-exp, partial results and scores. They choose between all keys at
//! once, chunks of keys, and registers.

use core::mem::take;

use super::check::Call;
use super::mask::Mask;
use super::partial::{CHUNK_KEYS, Partial};
use super::scores::{Groups, NC, Scores};
use super::scratch::Scratch;
use super::tiles::Fused;
use super::values::Values;
use super::weights::OnlineSoftmax;
use super::{Attention, Stage, small};
use crate::arch::{Kernel, LANES, Simd, TARGET, dispatch, with_default_environment};
use crate::error::{Error, check_len, check_shape};
use crate::invariant::{Promised as _, broken};
use crate::softmax::{Softmax, scale_row, share_beside_sink};
use crate::{Mat, MatMut, Temperature};

impl Attention<'_> {
    /// Computes the attention's output \[n_q, d_v\] into `out`. `scratch` holds at least
    /// [`attention_scratch_len`](crate::attention_scratch_len) elements, of any values.
    ///
    /// # Errors
    /// [`Error::Shape`] and [`Error::Length`] name the tensor that does not fit, [`Error::Scratch`] says how much scratch memory is
    /// needed, and [`Error::Range`] names a scale, soft cap or sink that is not a usable number. `out` is then unchanged.
    pub fn forward(
        &self,
        q: Mat<'_>,
        k: Mat<'_>,
        v: Mat<'_>,
        out: MatMut<'_>,
        scratch: &mut [f32],
    ) -> Result<(), Error> {
        self.run::<true>(q, k, v, out, scratch, None)
    }

    /// As [`forward`](Self::forward), and writes the log-sum-exp of each row's scores (after temperature) to `log_sum_exp`
    /// \[n_q\]. If it is finite, [`merge_finished`](crate::merge_finished) can combine results over disjoint keys. At T = 0 it
    /// is the limit, mostly ±∞.
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
        self.run::<true>(q, k, v, out, scratch, Some(log_sum_exp))
    }

    /// [`forward`](Self::forward) for shapes that the compiler knows.
    #[inline]
    pub(crate) fn forward_known<
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
        // The transposed keys take at most 4 KiB of stack.
        if const { TARGET.knows_shapes && small::fits(N_K, D_V) && D_K <= 4 * LANES }
            && self.mask.is_none()
            && dispatch(small::Known { attention: self, q, k, v, out: &mut *out })
        {
            return Ok(());
        }
        let (q, k, v, out) = (q.into(), k.into(), v.into(), out.into());
        if N_K <= CHUNK_KEYS && self.sink.is_none() {
            // The compiler knows that the keys are not divided into chunks, and does not link the code for chunks.
            return self.run::<false>(q, k, v, out, scratch, None);
        }
        self.run::<true>(q, k, v, out, scratch, None)
    }

    /// Computes the attention over all keys at once, or in chunks if `CHUNKS` and there are more than [`CHUNK_KEYS`] keys or a
    /// sink.
    fn run<const CHUNKS: bool>(
        &self,
        q: Mat<'_>,
        k: Mat<'_>,
        v: Mat<'_>,
        out: MatMut<'_>,
        scratch: &mut [f32],
        log_sum_exp: Option<&mut [f32]>,
    ) -> Result<(), Error> {
        if CHUNKS && (k.rows() > CHUNK_KEYS || self.sink.is_some()) {
            return self.by_chunks(q, k, v, out, scratch, log_sum_exp);
        }
        let len = log_sum_exp.as_ref().map(|l| l.len());
        self.resolve(q, k, v, out.shape(), len, scratch, |mut call| {
            let state = take(&mut call.scratch.state);
            let softmax = OnlineSoftmax::new(call.rule, state, q.rows());
            let mut fused = call.fused(out, softmax, true);
            dispatch(&mut fused);
            if let Some(log_sum_exp) = log_sum_exp {
                with_default_environment(|| fused.softmax.log_sum_exp(log_sum_exp));
            }
        })
    }

    /// Computes the attention over [`CHUNK_KEYS`] keys at a time, and then adds the sink, which is in no chunk.
    #[inline(never)]
    fn by_chunks(
        &self,
        q: Mat<'_>,
        k: Mat<'_>,
        v: Mat<'_>,
        out: MatMut<'_>,
        scratch: &mut [f32],
        log_sum_exp: Option<&mut [f32]>,
    ) -> Result<(), Error> {
        let len = log_sum_exp.as_ref().map(|l| l.len());
        self.resolve(q, k, v, out.shape(), len, scratch, |mut call| {
            let state = take(&mut call.scratch.state);
            let softmax = OnlineSoftmax::new(call.rule, state, q.rows());
            let mut partial = Partial { out, softmax, sink: self.sink };
            call.chunks(&mut partial);
            partial.finish(log_sum_exp)
        })?
    }

    /// A [`Partial`] for queries of `d_k` elements: its output \[n_q, d_v\] is in `out`, and its state, two numbers for each
    /// query, in `state` \[2·n_q\]. The memory is either for [`forward_partial`](Self::forward_partial) to fill, or it holds
    /// what that function has written.
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
        let (_, rule) = self.rule(d_k);
        let softmax = OnlineSoftmax::new(rule, state, out.rows());
        Ok(Partial { out, softmax, sink: self.sink })
    }

    /// As [`forward`](Self::forward), over the keys that the mask shows, without the division by the sums of weights. The
    /// result replaces what `part` holds.
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
        self.resolve(q, k, v, part.out.shape(), None, scratch, |mut call| {
            part.softmax.rule = call.rule;
            part.sink = self.sink;
            call.chunks(part);
        })
    }

    /// Computes the scores \[n_q, n_k\] at a `stage` into `out`. (The fused computation never holds all of them.)
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
        self.check_scores(q, k)?;
        check_shape("the scores", out.shape(), (q.rows(), k.rows()), "queries × keys")?;
        let Scratch { tile, panels, .. } = Scratch::divide(scratch, q.rows(), k.shape(), 0)?;
        let mut described = *self;
        if stage == Stage::Raw {
            described.softcap = None;
        }
        if matches!(stage, Stage::Raw | Stage::Softcapped) {
            described.mask = Mask::NONE;
        }
        let visible = described.mask.visible(q.rows(), k.rows());
        let steps = Some(with_default_environment(|| described.steps(q.cols())));
        let scores = Scores {
            q,
            k,
            steps,
            visible: &visible,
            fused: false,
            row_by_row: false,
            panels,
            tile,
        };
        let softmax = (stage == Stage::Weights).then_some((self.temperature, self.sink));
        dispatch(WriteScores { scores, out, softmax });
        Ok(())
    }
}

impl<'c> Call<'c> {
    /// The attention over the keys that the mask shows, into `out`. If these are the `whole` of the keys, it also divides by the
    /// sums of weights.
    #[inline(always)]
    fn fused<'f>(self, out: MatMut<'f>, softmax: OnlineSoftmax<'f>, whole: bool) -> Fused<'f>
    where
        'c: 'f,
    {
        let Self { q, k, v, steps, visible, scratch, .. } = self;
        let Scratch { tile, panels, values, .. } = scratch;
        let scores = Scores { q, k, steps, visible, fused: true, row_by_row: false, panels, tile };
        Fused { scores, values: Values::new(&k, v, values), out, softmax, whole }
    }

    /// Computes the attention over [`CHUNK_KEYS`] keys from `start` on into `partial`.
    fn chunk(&mut self, start: usize, partial: &mut Partial<'_>) {
        let visible = self.visible.of_chunk(start..start + CHUNK_KEYS);
        let mut call = self.reborrow();
        call.visible = &visible;
        dispatch(&mut call.fused(partial.out.reborrow(), partial.softmax.reborrow(), false));
    }

    /// Computes the attention over all keys that the mask shows, chunk by chunk, and merges the chunks in order.
    fn chunks(&mut self, partial: &mut Partial<'_>) {
        let (n_q, n_k, d_v) = (self.q.rows(), self.k.rows(), self.v.cols());
        self.chunk(0, partial);
        let memory = take(&mut self.scratch.chunk);
        // A single chunk has no memory for the next one.
        let (state, out) = memory.split_at_mut_checked(2 * n_q).promised_unless(n_k <= CHUNK_KEYS);
        let mut start = CHUNK_KEYS;
        while start < n_k {
            let Ok(out) = MatMut::new(out, n_q, d_v) else { return broken() };
            let softmax = OnlineSoftmax::new(self.rule, state, n_q);
            let mut next = Partial { out, softmax, sink: None };
            self.chunk(start, &mut next);
            partial.add(&next);
            start += CHUNK_KEYS;
        }
    }
}

/// Writes the scores \[n_q, n_k\] to `out`.
struct WriteScores<'a> {
    scores: Scores<'a>,
    out: MatMut<'a>,
    /// The temperature and the sink, if the scores become weights.
    softmax: Option<(Temperature, Option<f32>)>,
}

impl Kernel for WriteScores<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(mut self, simd: S) {
        let rows = self.out.rows();
        for i in 0..rows {
            self.out.row_mut(i).fill(f32::NEG_INFINITY); // the scores of a tile that is skipped are hidden
        }
        let seen = self.scores.seen();
        let mut groups = Groups::default();
        let mut start = seen.start / NC * NC;
        while start < seen.end {
            let keys = self.scores.begin(simd, start, &seen);
            let mut first = 0;
            while first < rows {
                for group in
                    self.scores.block(simd, first, &keys, &mut groups).into_iter().flatten()
                {
                    for row in group.row..group.row + group.rows {
                        let scores = self.scores.tile.row_mut(row - first);
                        let scores = scores.get(group.first..group.end).promised();
                        let out = self.out.row_mut(row).get_mut(start + group.first..);
                        for (out, score) in out.promised().iter_mut().zip(scores) {
                            *out = *score;
                        }
                    }
                }
                first += self.scores.block_rows::<S>();
            }
            start += NC;
        }
        if let Some((temperature, sink)) = self.softmax {
            for i in 0..rows {
                let row = self.out.row_mut(i);
                let [(max, sum)] = Softmax([&mut *row], temperature).run(simd);
                if let Some(sink) = sink {
                    scale_row(simd, row, share_beside_sink(simd, max, sum, sink, temperature));
                }
            }
        }
    }
}
