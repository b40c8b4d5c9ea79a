use core::ops::Range;

use super::Attention;
use super::mask::{Linked, Visible};
use super::scores::Steps;
use super::scratch::Scratch;
use super::weights::Weighting;
use crate::arch::sqrt;
use crate::error::{Error, check_len, check_shape};
use crate::{Mat, Temperature};

/// An attention for the tensors of one call: checked, with all that follows from the description.
pub(super) struct Call<'c> {
    pub(super) q: Mat<'c>,
    pub(super) k: Mat<'c>,
    pub(super) v: Mat<'c>,
    /// What is done to the dot products before the mask: nothing where the softmax multiplies by the
    /// scale.
    pub(super) steps: Option<Linked<Steps>>,
    pub(super) weighting: Weighting,
    pub(super) visible: &'c Visible<'c>,
    pub(super) scratch: Scratch<'c>,
}

impl Call<'_> {
    /// The same call with its scratch memory borrowed, without the parts for state and chunks.
    pub(super) fn reborrow(&mut self) -> Call<'_> {
        let Self { q, k, v, steps, weighting, visible, ref mut scratch } = *self;
        Call { q, k, v, steps, weighting, visible, scratch: scratch.reborrow() }
    }
}

impl Attention<'_> {
    /// Checks the tensors and the scratch memory, then runs the call. (Not a function that returns the
    /// call, because moving that would be the only thing for which firmware links memcpy.)
    #[inline(always)]
    pub(super) fn resolve<T>(
        &self,
        q: Mat<'_>,
        k: Mat<'_>,
        v: Mat<'_>,
        out: (usize, usize),
        log_sum_exp: Option<usize>,
        scratch: &mut [f32],
        run: impl FnOnce(Call<'_>) -> T,
    ) -> Result<T, Error> {
        self.check_scores(q, k)?;
        check_shape("value", v.shape(), (k.rows(), v.cols()), "a row for each key")?;
        check_shape("the output", out, (q.rows(), v.cols()), "queries × columns of value")?;
        if let Some(len) = log_sum_exp {
            check_len("the log-sum-exp", len, q.rows())?;
        }
        let scratch = Scratch::divide(scratch, q.rows(), k.shape(), v.cols())?;
        let (steps, weighting) = self.weighting(q.cols());
        let visible = &self.mask.visible(q.rows(), k.rows());
        Ok(run(Call { q, k, v, steps, weighting, visible, scratch }))
    }

    /// Whether query and key fit each other and the mask, and the description is one to compute with.
    pub(super) fn check_scores(&self, q: Mat<'_>, k: Mat<'_>) -> Result<(), Error> {
        check_shape("key", k.shape(), (k.rows(), q.cols()), "as many columns as query")?;
        self.mask.check(q.rows(), k.rows())?;
        self.check()
    }

    /// What is done to dot products of `d_k` elements, and how they become weights.
    pub(super) fn weighting(&self, d_k: usize) -> (Option<Linked<Steps>>, Weighting) {
        let (steps, factor) = match self.folded(d_k) {
            Some(factor) => (None, factor),
            None => (Some(self.steps(d_k)), self.temperature.factor()),
        };
        (steps, Weighting::new(self.temperature, factor))
    }

    /// Scale and soft cap, one after the other.
    pub(super) fn steps(&self, d_k: usize) -> Linked<Steps> {
        Linked::new(Steps { scale: self.scale_for(d_k), softcap: self.softcap })
    }

    /// The factor by which the softmax multiplies differences of dot products instead of differences of
    /// scores. It multiplies anyway, so that scale and temperature cost nothing; but only where nothing
    /// stands between them.
    #[inline]
    fn folded(&self, d_k: usize) -> Option<f32> {
        let factor = self.scale_for(d_k) * self.temperature.factor();
        let folds = self.softcap.is_none()
            && self.sink.is_none()
            && !self.mask.has_bias()
            && self.temperature.is_moderate()
            // 1/√d_k is always in the range. Saying so lets the compiler decide this at compile time.
            && (self.scale.is_none() && self.temperature == Temperature::ONE
                || FOLDED.contains(&factor));
        folds.then_some(factor)
    }

    #[inline]
    fn scale_for(&self, d_k: usize) -> f32 {
        self.scale.unwrap_or_else(|| default_scale(d_k))
    }
}

/// The factors that fold, 2⁻⁶⁴ to 2⁶⁴. They are positive, so that the largest dot product has the
/// largest score (even of two that would overflow only when multiplied); and of two dot products that
/// are further apart than the largest finite `f32`, one has no weight.
const FOLDED: Range<f32> = 1.0 / 18_446_744_073_709_551_616.0..18_446_744_073_709_551_616.0;

/// 1/√d_k; 1 for vectors without elements, whose dot products are all 0.
#[inline]
fn default_scale(d_k: usize) -> f32 {
    if d_k == 0 { 1.0 } else { 1.0 / sqrt(d_k as f32) }
}
