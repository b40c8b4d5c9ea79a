//! The results of an attention: outputs, log-sum-exp and scores. The way of a call goes from [`Attention::forward`] to `plan`,
//! which checks the shapes and divides the work, and from there to the kernel for each block of queries.

use regard_kernels::Stage;

use crate::error::Error;
use crate::plan::{Block, Output, Plan};
use crate::view::check_elements;
use crate::{Attention, Element, Heads, Tensor};

impl Attention<'_> {
    /// The output \[batch, heads, n_q, d_v\] for `q` \[batch, heads, n_q, d_k\], `k` \[batch, kv_heads, n_k, d_k\] and
    /// `v` \[batch, kv_heads, n_k, d_v\].
    ///
    /// # Errors
    /// An error names the tensor that does not fit the others.
    ///
    /// ```
    /// use regard::{Attention, Heads};
    /// let (q, k, v) = ([1.0], [0.0, 3_f32.ln()], [4.0, 8.0]); // the weights are 1/4 and 3/4
    /// let [k, v] = [Heads::new("key", &k, [1, 1, 2, 1])?, Heads::new("value", &v, [1, 1, 2, 1])?];
    /// let out = Attention::new().forward(Heads::new("query", &q, [1, 1, 1, 1])?, k, v)?;
    /// assert!((out.as_slice()[0] - 7.0).abs() < 1e-5);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward<Q: Element, T: Element>(
        &self,
        q: Heads<'_, Q>,
        k: Heads<'_, T>,
        v: Heads<'_, T>,
    ) -> Result<Tensor<4>, Error> {
        let mut out = Tensor::zeros(OUTPUT, output_shape(q.shape(), v.shape()))?;
        self.attend((q, k, v), out.as_mut_slice(), &mut [])?;
        Ok(out)
    }

    /// [`forward`](Self::forward) into `out` \[batch · heads · n_q · d_v\], whatever it holds.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and [`Error::Elements`] if `out` has another number of elements.
    ///
    /// ```
    /// use regard::{Attention, Heads};
    /// let (x, mut out) = (Heads::new("x", &[3.0], [1, 1, 1, 1])?, [0.0]);
    /// Attention::new().forward_into(x, x, x, &mut out)?;
    /// assert_eq!(out, [3.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward_into<Q: Element, T: Element>(
        &self,
        q: Heads<'_, Q>,
        k: Heads<'_, T>,
        v: Heads<'_, T>,
        out: &mut [f32],
    ) -> Result<(), Error> {
        check_elements(OUTPUT, out.len(), &output_shape(q.shape(), v.shape()))?;
        self.attend((q, k, v), out, &mut [])
    }

    /// As [`forward`](Self::forward), and also returns the log-sum-exp \[batch, heads, n_q\] of each row's scores, which are
    /// divided by the temperature.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    ///
    /// ```
    /// use regard::{Attention, Heads};
    /// let (q, k) = (Heads::new("query", &[0.0], [1, 1, 1, 1])?, Heads::new("key", &[1.0; 4], [1, 1, 4, 1])?);
    /// let (out, log_sum_exp) = Attention::new().forward_with_log_sum_exp(q, k, k)?; // four scores of 0
    /// assert!(out == [1.0] && log_sum_exp == [4_f32.ln()]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward_with_log_sum_exp<Q: Element, T: Element>(
        &self,
        q: Heads<'_, Q>,
        k: Heads<'_, T>,
        v: Heads<'_, T>,
    ) -> Result<(Tensor<4>, Tensor<3>), Error> {
        let [batch, heads, n_q, _] = q.shape();
        let mut out = Tensor::zeros(OUTPUT, output_shape(q.shape(), v.shape()))?;
        let mut log_sum_exp = Tensor::zeros("the log-sum-exp", [batch, heads, n_q])?;
        self.attend((q, k, v), out.as_mut_slice(), log_sum_exp.as_mut_slice())?;
        Ok((out, log_sum_exp))
    }

    /// Writes the output, and the log-sum-exp unless it is empty.
    pub(crate) fn attend<Q: Element, T: Element>(
        &self,
        (q, k, v): (Heads<'_, Q>, Heads<'_, T>, Heads<'_, T>),
        out: &mut [f32],
        log_sum_exp: &mut [f32],
    ) -> Result<(), Error> {
        let plan = Plan::with_values(self, q, k, v, None)?;
        let ([_, _, _, d_k], [_, _, _, d_v]) = (k.shape(), v.shape());
        if plan.is_worth_splitting() {
            return plan.run_split((q, k, v), out, log_sum_exp);
        }
        let widened = widened::<Q, T>(d_k, d_v);
        let (cols, most_keys) = (d_v, usize::MAX);
        let output = Output { out, cols, of_rows: log_sum_exp, most_keys, widened, d_v };
        plan.run(output, |kernel, job, scratch| {
            let ([q, k, v], scratch) = job.tensors(&plan, (q, k, v), scratch)?;
            if job.of_rows.is_empty() {
                return Ok(kernel.forward(q, k, v, job.out, scratch)?);
            }
            Ok(kernel.forward_with_log_sum_exp(q, k, v, job.out, job.of_rows, scratch)?)
        })
    }

    /// The scores \[batch, heads, n_q, n_k\] at a `stage`.
    ///
    /// # Errors
    /// An error names the tensor that does not fit the others.
    ///
    /// ```
    /// use regard::{Attention, Heads, Mask, Position, Stage};
    /// let (q, k) = ([3.0], [2.0, 4.0]);
    /// let (q, k) = (Heads::new("query", &q, [1, 1, 1, 1])?, Heads::new("key", &k, [1, 1, 2, 1])?);
    /// let first = Mask::NONE.causal(Position::TopLeft); // the query stands at the first key
    /// let scores = |stage| Attention::new().scale(0.5).mask(first).scores(stage, q, k);
    /// assert_eq!(scores(Stage::Raw)?, [3.0, 6.0]); // after the scale
    /// assert_eq!(scores(Stage::Masked)?, [3.0, f32::NEG_INFINITY]);
    /// assert_eq!(scores(Stage::Weights)?, [1.0, 0.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn scores<Q: Element, T: Element>(
        &self,
        stage: Stage,
        q: Heads<'_, Q>,
        k: Heads<'_, T>,
    ) -> Result<Tensor<4>, Error> {
        let plan = Plan::new(self, q, k, None)?;
        let ([batch, heads, n_q, d_k], [_, _, n_k, _]) = (q.shape(), k.shape());
        let mut out = Tensor::zeros("the scores", [batch, heads, n_q, n_k])?;
        let widened = widened::<Q, T>(d_k, 0);
        let (out_slice, most_keys) = (out.as_mut_slice(), usize::MAX);
        let output =
            Output { out: out_slice, cols: n_k, of_rows: &mut [], most_keys, widened, d_v: 0 };
        plan.run(output, |kernel, job, scratch| {
            let Block { entry, head, first, rows, .. } = job.block;
            let (q, k) = (q.head(entry, head)?, k.head(entry, plan.kv_head(head))?);
            let (q, scratch) = Q::widened(q.rows_from(first, rows), 0..rows, scratch)?;
            let (k, scratch) = T::widened(k, 0..n_k, scratch)?;
            Ok(kernel.scores(stage, q, k, job.out, scratch)?)
        })?;
        Ok(out)
    }
}

const OUTPUT: &str = "the output";

/// \[batch, heads, n_q, d_v\].
fn output_shape([batch, heads, n_q, _]: [usize; 4], [_, _, _, d_v]: [usize; 4]) -> [usize; 4] {
    [batch, heads, n_q, d_v]
}

/// The elements of `f32` memory in which a job widens its tensors: for each query, and for each key with its value.
pub(crate) fn widened<Q: Element, T: Element>(d_k: usize, d_v: usize) -> [usize; 2] {
    [d_k.saturating_mul(Q::MEMORY), d_k.saturating_add(d_v).saturating_mul(T::MEMORY)]
}
