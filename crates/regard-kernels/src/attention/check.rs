//! The checks of a call, and the values that follow from the description for its tensors.

use core::ops::Range;

use super::Attention;
use super::mask::{Linked, Visible};
use super::scores::Steps;
use super::scratch::Scratch;
use super::weights::WeightRule;
use crate::arch::{sqrt, with_default_environment};
use crate::error::{Error, check_len, check_shape};
use crate::{Mat, Temperature};

/// An attention on the tensors of one call, which fit each other, with the values that follow from its description.
pub(super) struct Call<'c> {
    pub(super) q: Mat<'c>,
    pub(super) k: Mat<'c>,
    pub(super) v: Mat<'c>,
    /// The steps between the dot products and the mask: scale and soft cap. `None` if the softmax multiplies by the scale
    /// itself.
    pub(super) steps: Option<Linked<Steps>>,
    pub(super) rule: WeightRule,
    pub(super) visible: &'c Visible<'c>,
    pub(super) scratch: Scratch<'c>,
}

impl Call<'_> {
    /// The same call with its scratch memory borrowed, without the parts for the state and for chunks.
    pub(super) fn reborrow(&mut self) -> Call<'_> {
        let Self { q, k, v, steps, rule, visible, ref mut scratch } = *self;
        Call { q, k, v, steps, rule, visible, scratch: scratch.reborrow() }
    }
}

impl Attention<'_> {
    /// Checks the tensors and the scratch memory, then runs the call. (A function that returned the call would move it, and for
    /// that move alone firmware would link memcpy.)
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
        let (steps, rule) = self.rule(q.cols());
        let visible = &self.mask.visible(q.rows(), k.rows());
        Ok(run(Call { q, k, v, steps, rule, visible, scratch }))
    }

    /// Whether query and key fit each other and the mask, and the description has usable numbers.
    pub(super) fn check_scores(&self, q: Mat<'_>, k: Mat<'_>) -> Result<(), Error> {
        check_shape("key", k.shape(), (k.rows(), q.cols()), "as many columns as query")?;
        self.mask.check(q.rows(), k.rows())?;
        self.check()
    }

    /// The steps between dot products of `d_k` elements and the mask, and how scores become weights.
    pub(super) fn rule(&self, d_k: usize) -> (Option<Linked<Steps>>, WeightRule) {
        let (steps, factor) = with_default_environment(|| match self.folded(d_k) {
            Some(factor) => (None, factor),
            None => (Some(self.steps(d_k)), self.temperature.factor()),
        });
        (steps, WeightRule::new(self.temperature, factor))
    }

    /// Scale and soft cap, in this order.
    pub(super) fn steps(&self, d_k: usize) -> Linked<Steps> {
        Linked::new(Steps { scale: self.scale_for(d_k), softcap: self.softcap })
    }

    /// The factor by which the softmax multiplies differences of dot products instead of differences of scores. The softmax
    /// multiplies in any case, so the scale and the temperature take no time in it. `None` if something stands between the
    /// scale and the softmax.
    #[inline]
    pub(super) fn folded(&self, d_k: usize) -> Option<f32> {
        let factor = self.scale_for(d_k) * self.temperature.factor();
        let folds = self.softcap.is_none()
            && self.sink.is_none()
            && !self.mask.has_bias()
            && self.temperature.is_moderate()
            // 1/√d_k is always in the range. The first of these conditions lets the compiler decide this at compile time.
            && (self.scale.is_none() && self.temperature == Temperature::ONE
                || FOLDED.contains(&factor));
        folds.then_some(factor)
    }

    #[inline]
    fn scale_for(&self, d_k: usize) -> f32 {
        self.scale.unwrap_or_else(|| default_scale(d_k))
    }
}

/// The factors that the softmax can apply, 2⁻⁶⁴ to 2⁶⁴. They are positive, so the largest dot product has the largest score,
/// even if two scores would overflow only when multiplied. If two dot products are further apart than the largest finite `f32`,
/// the lower one has no weight.
const FOLDED: Range<f32> = 1.0 / 18_446_744_073_709_551_616.0..18_446_744_073_709_551_616.0;

/// 1/√d_k; 1 for vectors without elements, whose dot products are all 0.
#[inline]
fn default_scale(d_k: usize) -> f32 {
    if d_k == 0 { 1.0 } else { 1.0 / sqrt(d_k as f32) }
}
