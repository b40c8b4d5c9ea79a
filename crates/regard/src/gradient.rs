//! Gradients of attention, for training and for asking which token mattered.
//!
//! With S the scores after the mask, P = softmax(S / T) the weights, O = P·V the output and dX the gradient of a loss with
//! respect to X (Dao et al. 2022, arXiv 2205.14135, appendix B.2):
//!
//! ```text
//! dV = Pᵀ·dO      dP = dO·Vᵀ      dSᵢⱼ = Pᵢⱼ·(dPᵢⱼ − Dᵢ) / T,   Dᵢ = Σⱼ Pᵢⱼ·dPᵢⱼ = dOᵢ·Oᵢ
//! dQ = scale · dR·K      dK = scale · dRᵀ·Q      d_scale = Σᵢ Qᵢ·(dR·K)ᵢ      d_bias = dS, summed over broadcast dimensions
//! ```
//!
//! where dR = dS without a soft cap, and dS ∘ (1 − (R/c)²) with a soft cap c and capped scores R. A sink is a score whose value
//! is 0: its gradient is −P_sink·Dᵢ / T, summed over the queries.
//!
//! P takes n_q × n_k numbers, so it is not kept. It is computed again, block by block, as in FlashAttention-2 (Dao 2023,
//! algorithm 2), with the loops exchanged: the outer loop is over queries, because a row's softmax needs all its keys.
//!
//! ```text
//! for each batch entry and key/value head             in parallel: no other job adds to its dK and dV
//!     K, V ← copies, with 0 for numbers that are not finite
//!     for each query head of the group, each block of 32 queries
//!         J  ← the keys that some query of the block sees
//!         S  ← scores of the block and J               32 × |J|, by the kernel
//!         P  ← softmax of each row                     in place of S
//!         dS ← P ∘ (dO·Vᵀ − D) / T                     32 × |J|
//!         dQ ← scale · dR·K                            written once
//!         dK ← dK + (scale · dR)ᵀ·Q,   dV ← dV + Pᵀ·dO
//! ```
//!
//! So the memory grows with the number of keys and not with its square. The weights come from a softmax over the row, not from
//! e^(S − log-sum-exp), because the log-sum-exp of large scores no longer has the differences between them.
//!
//! Hidden numbers must not reach a gradient. A weight of 0 has slope 0, whatever the value is. Rows of Q and dO of queries that
//! see no key are 0 in the products, because 0·NaN is NaN. Heads may share an additive mask. They then run one after the other,
//! because the bits of its gradient must not depend on the order of the threads.

use core::mem::take;
use core::ops::Range;
use std::sync::Mutex;

use regard_kernels::{
    Attention as Kernel, Error as KernelError, Mat, MatMut, Stage, Temperature,
    attention_scratch_len, dot, matmul, matmul_transposed, softmax, with_default_environment,
};

use crate::error::Error;
use crate::mask::ShortRows;
use crate::plan::Plan;
use crate::view::{check_elements, saturating_product, zeros};
use crate::{Attention, Heads, Tensor, Threads};

/// The gradients of a loss with respect to the inputs of an attention: see [`Attention::backward`].
///
/// ```
/// use regard::{Attention, Heads};
/// let (x, v) = (Heads::new("x", &[0.0], [1, 1, 1, 1])?, Heads::new("value", &[6.0], [1, 1, 1, 1])?);
/// let attention = Attention::new().sinks(&[0.0]); // the sink has half the weight, and the output is 3
/// let gradients = attention.backward(x, x, v, attention.forward(x, x, v)?.as_slice(), &[1.0])?;
/// assert_eq!(gradients.value, [0.5]);
/// assert_eq!(gradients.sinks, Some(vec![-1.5])); // P·(0 − out)
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Gradients {
    /// \[batch, heads, n_q, d_k\].
    pub query: Tensor<4>,
    /// \[batch, kv_heads, n_k, d_k\].
    pub key: Tensor<4>,
    /// \[batch, kv_heads, n_k, d_v\].
    pub value: Tensor<4>,
    /// The gradient of the scale.
    pub scale: f32,
    /// The gradient of the additive mask, if there is one. It has the mask's shape, padded to four dimensions, and is summed
    /// over the dimensions that were broadcast.
    pub bias: Option<Tensor<4>>,
    /// \[heads\]: the gradient of the [sinks](Attention::sinks), if there are any.
    pub sinks: Option<Vec<f32>>,
}

/// The queries whose weights are computed at a time.
const BLOCK: usize = 32;

impl Attention<'_> {
    /// The gradients of a loss, from its gradient `d_out` \[batch, heads, n_q, d_v\] with respect to the output. `out` is the
    /// output of [`forward`](Self::forward) for the same tensors.
    ///
    /// The weights are computed again, a few queries at a time and only for the keys that these may see (Dao 2023,
    /// FlashAttention-2, algorithm 2), so the memory grows with the number of keys and not with its square. Key/value heads are
    /// computed in parallel; with an additive mask, one after the other.
    ///
    /// # Errors
    /// An error names the tensor that does not fit the others. A temperature below 2⁻¹²⁶ is refused, because softmax has no
    /// slope at 0.
    ///
    /// ```
    /// use regard::{Attention, Heads};
    /// // Two keys with equal scores: each value counts one half.
    /// let (q, k, v) = ([1.0], [2.0, 2.0], [3.0, 5.0]);
    /// let q = Heads::new("query", &q, [1, 1, 1, 1])?;
    /// let [k, v] = [Heads::new("key", &k, [1, 1, 2, 1])?, Heads::new("value", &v, [1, 1, 2, 1])?];
    /// let attention = Attention::new();
    /// let gradients = attention.backward(q, k, v, attention.forward(q, k, v)?.as_slice(), &[1.0])?;
    /// assert_eq!(gradients.value, [0.5, 0.5]);
    /// assert_eq!(gradients.key, [-0.5, 0.5]); // P·(v − out)
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn backward(
        &self,
        q: Heads<'_>,
        k: Heads<'_>,
        v: Heads<'_>,
        out: &[f32],
        d_out: &[f32],
    ) -> Result<Gradients, Error> {
        let plan = Plan::with_values(self, q, k, v, None)?;
        let ([batch, heads, n_q, d_k], [_, kv_heads, n_k, d_v]) = (q.shape(), v.shape());
        check_elements("the output", out.len(), &[batch, heads, n_q, d_v])?;
        check_elements("the gradient of the output", d_out.len(), &[batch, heads, n_q, d_v])?;
        let inverse_temperature = with_default_environment(|| inverse(self.temperature))?;
        let mut query = Tensor::zeros("the gradient of query", [batch, heads, n_q, d_k])?;
        let mut key = Tensor::zeros("the gradient of key", [batch, kv_heads, n_k, d_k])?;
        let mut value = Tensor::zeros("the gradient of value", [batch, kv_heads, n_k, d_v])?;
        let mut scales = zeros("the gradient of scale", &[batch, kv_heads])?;
        let mut sinks = zeros("the gradient of the sinks", &[batch, heads])?;
        let bias = plan.mask.bias.as_ref();
        let bias = bias
            .map(|bias| Tensor::zeros("the gradient of the additive mask", bias.given_shape()))
            .transpose()?
            .map(Mutex::new);

        // A key/value head and the query heads that share it are one job.
        let group = heads.checked_div(kv_heads).unwrap_or(0);
        let (mut queries, mut keys, mut values) =
            (query.as_mut_slice(), key.as_mut_slice(), value.as_mut_slice());
        let mut jobs = Vec::new();
        let of_sinks = sinks.chunks_mut(group.max(1));
        for (index, (scale, sinks)) in scales.iter_mut().zip(of_sinks).enumerate() {
            let (query, key, value);
            (query, queries) = queries.split_at_mut(group * n_q * d_k);
            (key, keys) = keys.split_at_mut(n_k * d_k);
            (value, values) = values.split_at_mut(n_k * d_v);
            jobs.push((
                index / kv_heads,
                index % kv_heads,
                query,
                Sums { scale, key, value, sinks },
            ));
        }
        let width = d_k.saturating_mul(2).saturating_add(d_v.saturating_mul(3));
        let multiply_adds = saturating_product(&[batch, heads, n_q, n_k, width]);
        let threads = if bias.is_some() { Threads::ONE } else { Threads::current() };
        let scratch = JobMemory::len(n_q, n_k, d_k, d_v);
        threads.for_each(
            jobs,
            multiply_adds,
            scratch,
            |scratch, (entry, kv_head, query, mut sums)| {
                let (k, v) = (k.head(entry, kv_head)?, v.head(entry, kv_head)?);
                let mut memory = JobMemory::of(scratch, n_q, k, v);
                for (member, d_query) in query.chunks_mut((n_q * d_k).max(1)).enumerate() {
                    let head = kv_head * group + member;
                    let (q, token) = (q.head(entry, head)?, (entry * heads + head) * n_q);
                    for first in (0..n_q).step_by(BLOCK) {
                        let rows = BLOCK.min(n_q - first);
                        let span = plan.mask.span(entry, first, rows, [n_q, n_k]);
                        let (mut short, of_mask) =
                            (ShortRows::default(), [first..first + rows, span.clone()]);
                        let mask = plan.mask.of_block(
                            (entry, head),
                            first,
                            of_mask,
                            [n_q, n_k],
                            &mut short,
                        )?;
                        let within = mask.seen(rows, span.len());
                        let seen = span.start + within.start..span.start + within.end;
                        let of_block = (token + first) * d_v..(token + first + rows) * d_v;
                        let block = QueryBlock {
                            kernel: self.describe(
                                mask.columns(within.start, within.len(), rows, span.len()),
                                head,
                            ),
                            attention: self,
                            inverse_temperature,
                            sink: self.sink(head),
                            q: q.rows_from(first, rows),
                            k: k.rows_from(seen.start, seen.len()),
                            out: Mat::new(&out[of_block.clone()], rows, d_v)?,
                            d_out: Mat::new(&d_out[of_block], rows, d_v)?,
                            seen: seen.clone(),
                        };
                        let d_query = &mut d_query[first * d_k..(first + rows) * d_k];
                        with_default_environment(|| {
                            let d_scores =
                                block.backward(d_query, member, &mut sums, &mut memory)?;
                            if let (Some(mask), Some(Ok(mut bias))) =
                                (&plan.mask.bias, bias.as_ref().map(Mutex::lock))
                            {
                                let sum = bias.as_mut_slice();
                                mask.add_to_gradient(sum, (entry, head), first, seen, d_scores);
                            }
                            Ok::<_, Error>(())
                        })?;
                    }
                }
                Ok(())
            },
        )?;
        let bias = bias.and_then(|bias| bias.into_inner().ok());
        let of_head = |head: usize| sinks.iter().skip(head).step_by(heads).sum();
        let (scale, sinks) = with_default_environment(|| {
            let sinks = self.sink(0).is_some().then(|| (0..heads).map(of_head).collect());
            (scales.iter().sum(), sinks)
        });
        Ok(Gradients { query, key, value, scale, bias, sinks })
    }
}

/// 1/T, the factor of softmax's slope.
///
/// # Errors
/// [`KernelError::Range`] if it is not finite.
pub(crate) fn inverse(temperature: Temperature) -> Result<f32, Error> {
    let t = temperature.get();
    if temperature.is_zero() {
        let range = "2⁻¹²⁶ or more for gradients";
        return Err(KernelError::Range { name: "temperature", value: t, range }.into());
    }
    Ok(1.0 / t)
}

/// The gradients to which the blocks of a job add.
struct Sums<'a> {
    scale: &'a mut f32,
    key: &'a mut [f32],
    value: &'a mut [f32],
    /// One gradient for each query head that shares the key/value head.
    sinks: &'a mut [f32],
}

/// Consecutive queries of a head, and the keys that some of them may see.
struct QueryBlock<'a> {
    kernel: Kernel<'a>,
    attention: &'a Attention<'a>,
    inverse_temperature: f32,
    sink: Option<f32>,
    q: Mat<'a>,
    k: Mat<'a>,
    out: Mat<'a>,
    d_out: Mat<'a>,
    seen: Range<usize>,
}

impl QueryBlock<'_> {
    /// Writes the gradient of the queries, and adds to the other gradients. Returns the gradient of the scores after the mask,
    /// \[rows, keys seen\].
    fn backward<'m>(
        &self,
        d_query: &mut [f32],
        member: usize,
        sums: &mut Sums<'_>,
        memory: &'m mut JobMemory<'_>,
    ) -> Result<&'m [f32], Error> {
        let ((rows, d_k), n_k, d_v) = (self.q.shape(), self.seen.len(), self.out.cols());
        let JobMemory { pairs, row, product, q, d_out, kernel, keys, values } = memory;
        let [weights, d_scores, d_dots, transposed] =
            pairs.each_mut().map(|memory| &mut memory[..rows * n_k]);
        let of_keys = |width: usize| self.seen.start * width..self.seen.end * width;
        let keys = Mat::new(&keys[of_keys(d_k)], n_k, d_k)?;
        let values = Mat::new(&values[of_keys(d_v)], n_k, d_v)?;

        // dS = P ∘ (dO·Vᵀ − rowsum(dO ∘ O)) / T.
        self.kernel.scores(
            Stage::Masked,
            self.q,
            self.k,
            MatMut::new(weights, rows, n_k)?,
            kernel,
        )?;
        matmul_transposed(self.d_out, values, MatMut::new(d_scores, rows, n_k)?)?;
        for i in 0..rows {
            let of_row = |width: usize| i * width..(i + 1) * width;
            let weights = &mut weights[of_row(n_k)];
            let of_sink = self.weigh(weights, row);
            let mean = dot(self.d_out.row(i), self.out.row(i))?;
            for (d, p) in d_scores[of_row(n_k)].iter_mut().zip(&*weights) {
                *d = self.slope(*p, *d - mean);
            }
            // A query that sees no key takes part in no gradient, even if it is NaN. Its sink has all the weight.
            let sees = weights.iter().any(|p| *p != 0.0);
            if sees {
                sums.sinks[member] += self.slope(of_sink, -mean);
            }
            for (copies, given) in [(&mut *q, self.q), (&mut *d_out, self.d_out)] {
                let copy = &mut copies[of_row(given.cols())];
                if sees { copy.copy_from_slice(given.row(i)) } else { copy.fill(0.0) }
            }
        }
        let q = Mat::new(&q[..rows * d_k], rows, d_k)?;
        let d_out = Mat::new(&d_out[..rows * d_v], rows, d_v)?;

        // The gradient through the soft cap, whose slope is 1 − (R / cap)².
        d_dots.copy_from_slice(d_scores);
        if let Some(cap) = self.attention.softcap {
            self.kernel.scores(
                Stage::Softcapped,
                self.q,
                self.k,
                MatMut::new(transposed, rows, n_k)?,
                kernel,
            )?;
            for (d, capped) in d_dots.iter_mut().zip(&*transposed) {
                let share = capped / cap;
                *d = if *d == 0.0 { 0.0 } else { *d * (1.0 - share * share) };
            }
        }

        let scale = self.attention.scale_for(d_k);
        matmul(Mat::new(d_dots, rows, n_k)?, keys, MatMut::new(d_query, rows, d_k)?)?;
        for (i, d_query) in d_query.chunks_exact_mut(d_k.max(1)).enumerate() {
            *sums.scale += dot(q.row(i), d_query)?;
            for x in d_query {
                *x *= scale;
            }
        }
        transpose(d_dots, n_k, scale, transposed);
        let sum = &mut sums.key[of_keys(d_k)];
        add_product(Mat::new(transposed, n_k, rows)?, q, product, sum)?;
        transpose(weights, n_k, 1.0, transposed);
        let sum = &mut sums.value[of_keys(d_v)];
        add_product(Mat::new(transposed, n_k, rows)?, d_out, product, sum)?;
        Ok(d_scores)
    }

    /// Replaces a query's scores by their weights. `row` is memory for it. Returns the weight of the query's sink.
    fn weigh(&self, scores: &mut [f32], row: &mut [f32]) -> f32 {
        let n = scores.len();
        row[..n].copy_from_slice(scores);
        row[n] = self.sink.unwrap_or(f32::NEG_INFINITY);
        softmax(&mut row[..=n], self.attention.temperature);
        scores.copy_from_slice(&row[..n]);
        row[n]
    }

    /// The gradient of a score with the weight p. Without weight it is 0, whatever d is.
    fn slope(&self, p: f32, d: f32) -> f32 {
        if p == 0.0 { 0.0 } else { p * d * self.inverse_temperature }
    }
}

/// The scratch memory of a job, divided into parts.
struct JobMemory<'m> {
    /// Four matrices \[BLOCK, n_k\].
    pairs: [&'m mut [f32]; 4],
    /// The scores of a query, and of its sink.
    row: &'m mut [f32],
    /// A product \[n_k, d_k\] or \[n_k, d_v\].
    product: &'m mut [f32],
    /// \[BLOCK, d_k\] and \[BLOCK, d_v\]. Rows of queries that see no key are 0.
    q: &'m mut [f32],
    d_out: &'m mut [f32],
    kernel: &'m mut [f32],
    /// Keys and values. Numbers that are not finite are replaced by 0, because a hidden NaN must not reach a product.
    keys: &'m [f32],
    values: &'m [f32],
}

impl<'m> JobMemory<'m> {
    /// The number of elements of all parts.
    fn len(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
        let rows = BLOCK.min(n_q);
        let width = d_k.saturating_add(d_v);
        saturating_product(&[4, rows, n_k])
            .saturating_add(n_k.saturating_add(1))
            .saturating_add(n_k.saturating_mul(d_k.max(d_v)))
            .saturating_add(rows.saturating_mul(width))
            .saturating_add(attention_scratch_len(rows, n_k, d_k, 0))
            .saturating_add(n_k.saturating_mul(width))
    }

    /// Divides scratch memory of [`len`](Self::len) elements.
    fn of(mut scratch: &'m mut [f32], n_q: usize, k: Mat<'_>, v: Mat<'_>) -> Self {
        let mut next = |len: usize| {
            let part;
            (part, scratch) = take(&mut scratch).split_at_mut(len);
            part
        };
        let (rows, (n_k, d_k), d_v) = (BLOCK.min(n_q), k.shape(), v.cols());
        Self {
            pairs: [(); 4].map(|()| next(rows * n_k)),
            row: next(n_k + 1),
            product: next(n_k * d_k.max(d_v)),
            q: next(rows * d_k),
            d_out: next(rows * d_v),
            kernel: next(attention_scratch_len(rows, n_k, d_k, 0)),
            keys: copy_finite(k, next(n_k * d_k)),
            values: copy_finite(v, next(n_k * d_v)),
        }
    }
}

fn copy_finite<'m>(m: Mat<'_>, out: &'m mut [f32]) -> &'m [f32] {
    for (i, row) in out.chunks_exact_mut(m.cols().max(1)).enumerate() {
        for (x, y) in row.iter_mut().zip(m.row(i)) {
            *x = if y.is_finite() { *y } else { 0.0 };
        }
    }
    out
}

/// out ← xᵀ · factor, for x with `cols` columns.
fn transpose(x: &[f32], cols: usize, factor: f32, out: &mut [f32]) {
    let rows = x.len().checked_div(cols).unwrap_or(0);
    for (i, row) in x.chunks_exact(cols.max(1)).enumerate() {
        for (j, x) in row.iter().enumerate() {
            out[j * rows + i] = x * factor;
        }
    }
}

/// sum ← sum + a·b. `product` is memory for the product.
fn add_product(a: Mat<'_>, b: Mat<'_>, product: &mut [f32], sum: &mut [f32]) -> Result<(), Error> {
    let product = &mut product[..sum.len()];
    matmul(a, b, MatMut::new(product, a.rows(), b.cols())?)?;
    for (sum, x) in sum.iter_mut().zip(product) {
        *sum += *x;
    }
    Ok(())
}
