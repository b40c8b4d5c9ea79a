//! Gradients of attention: what training needs, and asking which token mattered.

use std::sync::Mutex;

use regard_kernels::{
    Attention as Kernel, Error as KernelError, Mat, MatMut, Stage, attention_scratch_len, dot, exp, matmul,
    matmul_transposed,
};

use crate::error::{Error, check_shape};
use crate::view::{check_elements, saturating_product, zeros};
use crate::{Attention, Heads, Threads};

/// The gradients of a loss with respect to what an attention computed from: see [`Attention::backward`].
///
/// ```
/// use regard::{Attention, Heads};
/// let (x, v) = (Heads::new("x", &[0.0], [1, 1, 1, 1])?, Heads::new("value", &[6.0], [1, 1, 1, 1])?);
/// let attention = Attention::new().sinks(&[0.0]); // the sink has half the weight, and the output is 3
/// let (out, log_sum_exp) = attention.forward_with_log_sum_exp(x, x, v)?;
/// let gradients = attention.backward(x, x, v, &out, &log_sum_exp, &[1.0])?;
/// assert_eq!(gradients.value, [0.5]);
/// assert_eq!(gradients.sinks, Some(vec![-1.5])); // P·(0 − out)
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Gradients {
    /// \[batch, heads, n_q, d_k\].
    pub query: Vec<f32>,
    /// \[batch, kv_heads, n_k, d_k\].
    pub key: Vec<f32>,
    /// \[batch, kv_heads, n_k, d_v\].
    pub value: Vec<f32>,
    /// Of the number that dot products are multiplied by.
    pub scale: f32,
    /// In the shape of the additive mask, where there is one: summed over what it was broadcast to.
    pub bias: Option<Vec<f32>>,
    /// \[heads\], of the [sinks](Attention::sinks), where there are any.
    pub sinks: Option<Vec<f32>>,
}

/// Queries whose weights are computed anew at a time: so memory grows with the number of keys, and not with its square.
const BLOCK: usize = 32;

impl Attention<'_> {
    /// The gradients of a loss of which `d_out` \[batch, heads, n_q, d_v\] is the gradient with respect to the output. `out`
    /// and `log_sum_exp` are what [`forward_with_log_sum_exp`](Self::forward_with_log_sum_exp) gave for the same tensors.
    ///
    /// The weights, which nobody kept, are computed anew from the log-sum-exp, a few queries at a time (Dao et al. 2022,
    /// FlashAttention, algorithm 4): with P the weights and S the scores, dV = PᵀdO, dS = P ∘ (dO·Vᵀ − rowsum(dO ∘ O)) / T,
    /// dQ = dS·K·scale and dK = dSᵀ·Q·scale. A sink is a score whose value is 0. Key/value heads are computed in parallel (with
    /// an additive mask, in turn).
    ///
    /// # Errors
    /// Names the tensor that does not fit the others; a temperature of 0, at which softmax has no slope, is refused.
    ///
    /// ```
    /// use regard::{Attention, Heads};
    /// // Two keys with equal scores: each value counts one half.
    /// let (q, k, v) = ([1.0], [2.0, 2.0], [3.0, 5.0]);
    /// let q = Heads::new("query", &q, [1, 1, 1, 1])?;
    /// let [k, v] = [Heads::new("key", &k, [1, 1, 2, 1])?, Heads::new("value", &v, [1, 1, 2, 1])?];
    /// let attention = Attention::new();
    /// let (out, log_sum_exp) = attention.forward_with_log_sum_exp(q, k, v)?;
    /// let gradients = attention.backward(q, k, v, &out, &log_sum_exp, &[1.0])?;
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
        log_sum_exp: &[f32],
        d_out: &[f32],
    ) -> Result<Gradients, Error> {
        let plan = self.plan(q, k)?;
        let ([batch, heads, n_q, d_k], [_, kv_heads, n_k, _]) = (q.shape(), k.shape());
        let [_, _, _, d_v] = v.shape();
        check_shape("value", &v.shape(), &[batch, kv_heads, n_k, d_v], "the batch, heads and tokens of key")?;
        check_elements("the output", out.len(), &[batch, heads, n_q, d_v])?;
        check_elements("the gradient of the output", d_out.len(), &[batch, heads, n_q, d_v])?;
        check_elements("the log-sum-exp", log_sum_exp.len(), &[batch, heads, n_q])?;
        let t = self.temperature.get();
        if t < f32::MIN_POSITIVE {
            let range = "greater than 0 for gradients";
            return Err(KernelError::Range { name: "temperature", value: t, range }.into());
        }
        let mut query = zeros("the gradient of query", &[batch, heads, n_q, d_k])?;
        let mut key = zeros("the gradient of key", &[batch, kv_heads, n_k, d_k])?;
        let mut value = zeros("the gradient of value", &[batch, kv_heads, n_k, d_v])?;
        let mut scales = zeros("the gradient of scale", &[batch, kv_heads])?;
        let mut sinks = zeros("the gradient of the sinks", &[batch, heads])?;
        let bias = plan.mask.as_ref().and_then(|mask| mask.bias_shape());
        let bias = bias.map(|shape| zeros("the gradient of the mask", &shape)).transpose()?.map(Mutex::new);

        // A key/value head and the query heads that share it are one job: nobody else adds to its gradients.
        let group = heads.checked_div(kv_heads).unwrap_or_default();
        let (mut queries, mut keys, mut values) = (query.as_mut_slice(), key.as_mut_slice(), value.as_mut_slice());
        let mut jobs = Vec::new();
        let of_sinks = sinks.chunks_mut(group.max(1));
        for (index, (scale, sinks)) in scales.iter_mut().zip(of_sinks).enumerate() {
            let query = queries.split_off_mut(..group * n_q * d_k).unwrap_or_default();
            let key = keys.split_off_mut(..n_k * d_k).unwrap_or_default();
            let value = values.split_off_mut(..n_k * d_v).unwrap_or_default();
            jobs.push((index / kv_heads, index % kv_heads, query, Sums { scale, key, value, sinks }));
        }
        let multiply_adds = saturating_product(&[batch, heads, n_q, n_k, 2 * d_k + 3 * d_v]);
        // Heads may share an additive mask, and sums must not depend on who comes first.
        let threads = if bias.is_some() { &Threads::ONE } else { self.thread_setting() };
        let scratch = Memory::len(n_q, n_k, d_k, d_v);
        threads.for_each(jobs, multiply_adds, scratch, |scratch, (entry, kv_head, query, mut sums)| {
            let (k, v) = (k.head(entry, kv_head)?, v.head(entry, kv_head)?);
            let mut memory = Memory::of(scratch, n_q, k, v);
            for (member, d_query) in query.chunks_mut((n_q * d_k).max(1)).enumerate() {
                let head = kv_head * group + member;
                let (q, token) = (q.head(entry, head)?, (entry * heads + head) * n_q);
                for first in (0..n_q).step_by(BLOCK) {
                    let rows = BLOCK.min(n_q - first);
                    let of = |width: usize| (token + first) * width..(token + first + rows) * width;
                    let block = Block {
                        kernel: plan.kernel((entry, head), (first, rows), (n_q, n_k))?,
                        scale: self.scale_for(d_k),
                        factor: if t.is_finite() { 1.0 / t } else { 0.0 },
                        softcap: self.softcap,
                        q: q.rows_from(first, rows),
                        k,
                        v,
                        out: Mat::new(out.get(of(d_v)).unwrap_or_default(), rows, d_v)?,
                        log_sum_exp: log_sum_exp.get(of(1)).unwrap_or_default(),
                        d_out: Mat::new(d_out.get(of(d_v)).unwrap_or_default(), rows, d_v)?,
                    };
                    let d_query = d_query.get_mut(first * d_k..(first + rows) * d_k).unwrap_or_default();
                    if let (Some(score), Some(sum)) = (self.sink(head), sums.sinks.get_mut(member)) {
                        *sum += block.of_sink(score)?;
                    }
                    let d_scores = block.backward(d_query, &mut sums, &mut memory)?;
                    if let (Some(mask), Some(Ok(mut bias))) = (&plan.mask, bias.as_ref().map(Mutex::lock)) {
                        mask.add_to_gradient(&mut bias, entry, head, first, d_scores);
                    }
                }
            }
            Ok(())
        })?;
        let bias = bias.and_then(|bias| bias.into_inner().ok());
        let of_head = |head: usize| sinks.iter().skip(head).step_by(heads).sum();
        let sinks = self.sink(0).is_some().then(|| (0..heads).map(of_head).collect());
        Ok(Gradients { query, key, value, scale: scales.iter().sum(), bias, sinks })
    }
}

/// What the blocks of a job add to.
struct Sums<'a> {
    scale: &'a mut f32,
    key: &'a mut [f32],
    value: &'a mut [f32],
    /// One for each query head that shares the key/value head.
    sinks: &'a mut [f32],
}

/// Some queries of a head, and what is known of them.
struct Block<'a> {
    kernel: Kernel<'a>,
    scale: f32,
    /// 1/T.
    factor: f32,
    softcap: Option<f32>,
    q: Mat<'a>,
    k: Mat<'a>,
    v: Mat<'a>,
    out: Mat<'a>,
    log_sum_exp: &'a [f32],
    d_out: Mat<'a>,
}

impl Block<'_> {
    /// Writes the queries' gradient, adds to the others, and returns that of the scores after the mask \[rows, n_k\].
    fn backward<'m>(
        &self,
        d_query: &mut [f32],
        sums: &mut Sums<'_>,
        memory: &'m mut Memory<'_>,
    ) -> Result<&'m [f32], Error> {
        let ((rows, d_k), n_k) = (self.q.shape(), self.k.rows());
        let Memory { pairs, product, kernel, keys, values } = memory;
        let [weights, d_scores, d_dots, transposed] =
            pairs.each_mut().map(|memory| memory.get_mut(..rows * n_k).unwrap_or_default());
        let (keys, values) = (Mat::new(keys, n_k, d_k)?, Mat::new(values, n_k, self.v.cols())?);

        // P = e^(S/T − log-sum-exp).
        self.kernel.scores(Stage::Masked, self.q, self.k, MatMut::new(weights, rows, n_k)?, kernel)?;
        for (row, log_sum_exp) in weights.chunks_exact_mut(n_k.max(1)).zip(self.log_sum_exp) {
            for x in row.iter_mut() {
                *x = self.exponent(*x, *log_sum_exp);
            }
            exp(row);
        }

        // dS = P ∘ (dO·Vᵀ − rowsum(dO ∘ O)) / T.
        matmul_transposed(self.d_out, values, MatMut::new(d_scores, rows, n_k)?)?;
        for (i, (d_scores, weights)) in
            d_scores.chunks_exact_mut(n_k.max(1)).zip(weights.chunks_exact(n_k.max(1))).enumerate()
        {
            let mean = self.mean(i)?;
            for (d, p) in d_scores.iter_mut().zip(weights) {
                *d = if *p == 0.0 { 0.0 } else { p * (*d - mean) * self.factor };
            }
        }

        // Back through the soft cap: d/dx cap·tanh(x/cap) = 1 − (its value / cap)².
        d_dots.copy_from_slice(d_scores);
        if let Some(cap) = self.softcap {
            self.kernel.scores(Stage::Softcapped, self.q, self.k, MatMut::new(transposed, rows, n_k)?, kernel)?;
            for (d, capped) in d_dots.iter_mut().zip(&*transposed) {
                let share = capped / cap;
                *d = if *d == 0.0 { 0.0 } else { *d * (1.0 - share * share) };
            }
        }

        matmul(Mat::new(d_dots, rows, n_k)?, keys, MatMut::new(d_query, rows, d_k)?)?;
        for (i, d_query) in d_query.chunks_exact_mut(d_k.max(1)).enumerate() {
            *sums.scale += dot(self.q.row(i), d_query)?;
            for x in d_query {
                *x *= self.scale;
            }
        }
        transpose(d_dots, n_k, self.scale, transposed);
        add_product(Mat::new(transposed, n_k, rows)?, self.q, product, sums.key)?;
        transpose(weights, n_k, 1.0, transposed);
        add_product(Mat::new(transposed, n_k, rows)?, self.d_out, product, sums.value)?;
        Ok(d_scores)
    }

    /// What the queries add to the gradient of their head's sink, of this score: p·(0 − rowsum(dO ∘ O)) / T each.
    fn of_sink(&self, score: f32) -> Result<f32, Error> {
        let mut sum = 0.0;
        for (i, log_sum_exp) in self.log_sum_exp.iter().enumerate() {
            let mut weight = [self.exponent(score, *log_sum_exp)];
            exp(&mut weight);
            let [p] = weight;
            sum -= if p == 0.0 { 0.0 } else { p * self.mean(i)? * self.factor };
        }
        Ok(sum)
    }

    /// What e is raised to for a score's weight. −∞ stays by selection: −∞ · 0 and −∞ − (−∞) are no numbers.
    fn exponent(&self, score: f32, log_sum_exp: f32) -> f32 {
        if score == f32::NEG_INFINITY { score } else { score * self.factor - log_sum_exp }
    }

    /// rowsum(dO ∘ O): the mean of a row's weights' gradients, by the weights.
    fn mean(&self, row: usize) -> Result<f32, Error> {
        Ok(dot(self.d_out.row(row), self.out.row(row))?)
    }
}

/// The scratch memory of a job, as its steps use it.
struct Memory<'m> {
    /// \[BLOCK, n_k\] each.
    pairs: [&'m mut [f32]; 4],
    /// A product \[n_k, d_k\] or \[n_k, d_v\].
    product: &'m mut [f32],
    kernel: &'m mut [f32],
    /// Keys and values, with 0 for what is not finite: what no query sees has gradient 0, but 0 · NaN is NaN.
    keys: &'m [f32],
    values: &'m [f32],
}

impl<'m> Memory<'m> {
    fn lens(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> [usize; 5] {
        let rows = BLOCK.min(n_q);
        let kernel = attention_scratch_len(rows, n_k, d_k, 0);
        let of_keys = |width: usize| n_k.saturating_mul(width);
        [of_keys(rows), of_keys(d_k.max(d_v)), kernel, of_keys(d_k), of_keys(d_v)]
    }

    /// Elements in all.
    fn len(n_q: usize, n_k: usize, d_k: usize, d_v: usize) -> usize {
        let [pairs, rest @ ..] = Self::lens(n_q, n_k, d_k, d_v);
        rest.iter().fold(pairs.saturating_mul(4), |sum, n| sum.saturating_add(*n))
    }

    fn of(mut scratch: &'m mut [f32], n_q: usize, k: Mat<'_>, v: Mat<'_>) -> Self {
        let mut next = |len: usize| -> &'m mut [f32] {
            let (part, rest) = core::mem::take(&mut scratch).split_at_mut_checked(len).unwrap_or_default();
            scratch = rest;
            part
        };
        let [pairs, product, kernel, keys, values] = Self::lens(n_q, k.rows(), k.cols(), v.cols());
        Self {
            pairs: [pairs; 4].map(&mut next),
            product: next(product),
            kernel: next(kernel),
            keys: copy_finite(k, next(keys)),
            values: copy_finite(v, next(values)),
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

/// out ← xᵀ · factor, for x of `cols` columns.
pub(crate) fn transpose(x: &[f32], cols: usize, factor: f32, out: &mut [f32]) {
    let rows = x.len().checked_div(cols).unwrap_or_default();
    for (i, row) in x.chunks_exact(cols.max(1)).enumerate() {
        for (j, x) in row.iter().enumerate() {
            if let Some(out) = out.get_mut(j * rows + i) {
                *out = x * factor;
            }
        }
    }
}

/// sum ← sum + a·b, by way of `product`.
fn add_product(a: Mat<'_>, b: Mat<'_>, product: &mut [f32], sum: &mut [f32]) -> Result<(), Error> {
    let product = product.get_mut(..sum.len()).unwrap_or_default();
    matmul(a, b, MatMut::new(product, a.rows(), b.cols())?)?;
    for (sum, x) in sum.iter_mut().zip(product) {
        *sum += *x;
    }
    Ok(())
}
