//! Results over some of the keys, and how they merge.

use super::weights::{OnlineSoftmax, WeightRule};
use crate::arch::{Kernel, Simd, dispatch, one_by_one};
use crate::error::{Error, check_len, check_shape};
use crate::invariant::broken;
use crate::softmax::{divide, nothing_seen, scale_row};
use crate::{Mat, MatMut, Temperature};

/// The result of an attention over some of the keys, not yet divided by the sum of its weights.
///
/// With it the keys can be divided among threads or machines, and need not all fit in memory at once. A part may have any
/// number of keys. [`Attention::forward`](crate::Attention::forward) computes parts of [`CHUNK_KEYS`] keys and merges them in
/// order. The same parts in the same order give the same bits.
///
/// ```
/// use regard_kernels::{Attention, Mask, Mat, MatMut, attention_scratch_len};
/// let (q, k, v) = ([[1.0, 2.0]], [[0.5, 1.0], [2.0, 0.0], [1.0, 1.0]], [[1.0], [2.0], [4.0]]);
/// let (q, k, v) = (Mat::from(&q), Mat::from(&k), Mat::from(&v));
/// let mut scratch = [0.0; attention_scratch_len(1, 3, 2, 1)];
/// let (mut out, mut other, mut states) = ([[0.0]], [[0.0]], [[0.0; 2]; 2]);
/// let [state, state_of_other] = &mut states;
///
/// let attention = Attention::new().mask(Mask::NONE.keys(0, 2));
/// let mut first = attention.partial(2, MatMut::from(&mut out), state)?;
/// attention.forward_partial(q, k, v, &mut first, &mut scratch)?;
/// let attention = Attention::new().mask(Mask::NONE.keys(2, 3));
/// let mut second = attention.partial(2, MatMut::from(&mut other), state_of_other)?;
/// attention.forward_partial(q, k, v, &mut second, &mut scratch)?;
/// first.merge(&second)?;
/// first.finish(None)?;
///
/// let mut whole = [[0.0]];
/// Attention::new().forward(q, k, v, MatMut::from(&mut whole), &mut scratch)?;
/// assert!((out[0][0] - whole[0][0]).abs() < 1e-6);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
#[derive(Debug)]
pub struct Partial<'a> {
    pub(crate) out: MatMut<'a>,
    pub(crate) softmax: OnlineSoftmax<'a>,
    /// The score of the attention sink, which belongs to no part.
    pub(crate) sink: Option<f32>,
}

/// Keys that [`Attention::forward`](crate::Attention::forward) computes as one [`Partial`].
pub const CHUNK_KEYS: usize = 4096;

/// Keys of a tile. Tiles begin at multiples of this number. The keys and values of a tile in which no key is
/// [seen](crate::Mask::seen) are not read.
pub const TILE_KEYS: usize = 256;

impl Partial<'_> {
    /// Adds the result of `other`, which has the same queries and different keys.
    ///
    /// # Errors
    /// [`Error::Shape`] if their outputs differ in shape.
    pub fn merge(&mut self, other: &Partial<'_>) -> Result<(), Error> {
        check_shape(
            "the other part's output",
            other.out.shape(),
            self.out.shape(),
            "as that of this part",
        )?;
        self.add(other);
        Ok(())
    }

    /// [`merge`](Self::merge) of parts whose shapes fit.
    pub(crate) fn add(&mut self, other: &Partial<'_>) {
        dispatch(Merge(self, other));
    }

    /// Divides the output by the sums of weights, which completes it. If `log_sum_exp` \[n_q\] is given, it
    /// receives the log-sum-exp of each query's scores after temperature.
    ///
    /// # Errors
    /// [`Error::Length`] if `log_sum_exp` is not n_q long.
    pub fn finish(self, log_sum_exp: Option<&mut [f32]>) -> Result<(), Error> {
        if let Some(l) = &log_sum_exp {
            check_len("the log-sum-exp", l.len(), self.out.rows())?;
        }
        dispatch(Normalize(self, log_sum_exp));
        Ok(())
    }
}

/// Merges the finished results of two attentions of the same queries over disjoint keys.
///
/// `out` \[n_q, d_v\] becomes their sum, weighted by e^(log-sum-exp), and `log_sum_exp` \[n_q\] that of all keys (Dao et al.
/// 2023, FlashAttention-2; Flash-Decoding). A result without weight, whose log-sum-exp is −∞, changes no bit, unless it is NaN.
/// If both log-sum-exps are +∞ (at T = 0, or with infinite scores), each result counts one half. If they are so large that
/// their last digit is worth more than the logarithm of the number of keys, that number is lost. A sink that both results have
/// counts twice. [`Partial`] is exact in these
/// cases too.
///
/// # Errors
/// [`Error::Shape`] and [`Error::Length`] if the results are not of one shape.
///
/// ```
/// use regard_kernels::{Mat, MatMut, merge_finished};
/// let (mut out, mut log_sum_exp) = ([[1.0]], [0.0]);
/// merge_finished(MatMut::from(&mut out), &mut log_sum_exp, Mat::from(&[[4.0]]), &[2.0_f32.ln()])?;
/// assert!((out[0][0] - 3.0).abs() < 1e-6 && (log_sum_exp[0] - 3.0_f32.ln()).abs() < 1e-6);
/// # Ok::<(), regard_kernels::Error>(())
/// ```
pub fn merge_finished(
    out: MatMut<'_>,
    log_sum_exp: &mut [f32],
    other: Mat<'_>,
    other_log_sum_exp: &[f32],
) -> Result<(), Error> {
    check_shape("the other output", other.shape(), out.shape(), "as that of this one")?;
    check_len("the log-sum-exp", log_sum_exp.len(), out.rows())?;
    check_len("the other log-sum-exp", other_log_sum_exp.len(), out.rows())?;
    dispatch(MergeFinished { out, log_sum_exp, other, other_log_sum_exp });
    Ok(())
}

struct Merge<'m, 'a, 'b>(&'m mut Partial<'a>, &'m Partial<'b>);

impl Kernel for Merge<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self(Partial { out, softmax, .. }, other) = self;
        let OnlineSoftmax { max, sum, .. } = &other.softmax;
        for (i, (max, sum)) in max.iter().zip(sum.iter()).enumerate() {
            merge_row(simd, (out.row_mut(i), softmax, i), (other.out.view().row(i), *max, *sum));
        }
    }
}

/// Merges into row i of a part the same row of another part: its output, reference and sum.
#[inline(always)]
fn merge_row<S: Simd>(
    simd: S,
    (out, softmax, i): (&mut [f32], &mut OnlineSoftmax<'_>, usize),
    (other, other_max, other_sum): (&[f32], f32, f32),
) {
    let OnlineSoftmax { rule, max, sum } = softmax;
    let (Some(max), Some(sum)) = (max.get_mut(i), sum.get_mut(i)) else { return broken() };
    // If the other part has seen no key, its output holds no result, and no bit of it may take part. A part that has seen keys,
    // all without weight, takes part: it holds zeros, or NaN.
    if nothing_seen(other_sum) {
        return;
    }
    if nothing_seen(*sum) {
        for (x, y) in out.iter_mut().zip(other) {
            *x = *y;
        }
        (*max, *sum) = (other_max, other_sum);
        return;
    }
    let largest = if other_max > *max { other_max } else { *max };
    let own = rule.weight(simd, *max, largest);
    let others = rule.weight(simd, other_max, largest);
    for (x, y) in out.iter_mut().zip(other) {
        one_by_one(x);
        *x = *x * own + *y * others;
    }
    *sum = *sum * own + other_sum * others;
    *max = largest;
}

struct Normalize<'a, 'l>(Partial<'a>, Option<&'l mut [f32]>);

impl Kernel for Normalize<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self(Partial { mut out, softmax, sink }, log_sum_exp) = self;
        if let Some(sink) = sink {
            // The sink counts as one more key, whose value is 0.
            let score = softmax.rule.prepared(sink);
            for (i, (max, sum)) in softmax.max.iter_mut().zip(softmax.sum.iter_mut()).enumerate() {
                let largest = if score > *max { score } else { *max };
                let weight = |s: f32| softmax.rule.weight(simd, s, largest);
                let out = out.row_mut(i);
                if nothing_seen(*sum) {
                    out.fill(0.0);
                } else if largest != *max {
                    let rescale = weight(*max);
                    *sum *= rescale;
                    scale_row(simd, out, rescale);
                }
                *sum += weight(score);
                *max = largest;
            }
        }
        for (i, sum) in softmax.sum.iter().enumerate() {
            divide(simd, out.row_mut(i), *sum);
        }
        if let Some(log_sum_exp) = log_sum_exp {
            softmax.log_sum_exp(log_sum_exp);
        }
    }
}

struct MergeFinished<'m> {
    out: MatMut<'m>,
    log_sum_exp: &'m mut [f32],
    other: Mat<'m>,
    other_log_sum_exp: &'m [f32],
}

impl Kernel for MergeFinished<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let Self { mut out, log_sum_exp, other, other_log_sum_exp } = self;
        let seen = |log_sum_exp: f32| if log_sum_exp == f32::NEG_INFINITY { 0.0 } else { 1.0 };
        for (i, (l, other_l)) in log_sum_exp.iter_mut().zip(other_log_sum_exp).enumerate() {
            if seen(*other_l) == 0.0 {
                // The other part holds zeros, or NaN where the value of a key with a score of −∞ is not finite.
                for (x, y) in
                    out.row_mut(i).iter_mut().zip(other.row(i)).filter(|(_, y)| y.is_nan())
                {
                    *x = *y;
                }
                continue;
            }
            // The result is divided already: its reference is its log-sum-exp, and its sum of weights is 1.
            let (mut max, mut sum) = ([*l], [seen(*l)]);
            let rule = WeightRule::new(Temperature::ONE, 1.0);
            let mut softmax = OnlineSoftmax { rule, max: &mut max, sum: &mut sum };
            merge_row(simd, (out.row_mut(i), &mut softmax, 0), (other.row(i), *other_l, 1.0));
            softmax.log_sum_exp(core::slice::from_mut(l));
            let [sum] = sum;
            divide(simd, out.row_mut(i), sum);
        }
    }
}
