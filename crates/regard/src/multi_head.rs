use regard_kernels::{Mat, Stage};

use crate::error::{Error, check_shape};
use crate::threads::with_scratch;
use crate::view::{len_of, saturating_product, zeros};
use crate::{Attention, Heads, Linear, Rotary, Sequences, Threads};

/// Multi-head attention (Vaswani et al. 2017, section 3.2.2): project to queries, keys and values, split into heads,
/// attend in each, concatenate, project.
///
/// head_dim is the query projection's outputs / heads. A key projection with fewer outputs means fewer key/value heads:
/// grouped queries.
///
/// An example is on the [crate's page](crate).
#[derive(Clone, Debug)]
pub struct MultiHeadAttention {
    heads: usize,
    kv_heads: usize,
    query: Linear,
    key: Linear,
    value: Linear,
    output: Linear,
    rotary: Option<Rotary>,
}

impl MultiHeadAttention {
    /// A layer of `heads` query heads.
    ///
    /// # Errors
    /// [`Error::Heads`] if the heads do not divide the projections evenly, [`Error::Shape`] if the output projection does
    /// not take what the heads give.
    ///
    /// ```
    /// use regard::{Linear, MultiHeadAttention};
    /// let linear = |outputs| Linear::new(vec![0.0; 8 * outputs], 8, outputs);
    /// // Four query heads of two features; keys and values of two heads, each for two query heads.
    /// let layer = MultiHeadAttention::new(4, linear(8)?, linear(4)?, linear(4)?, linear(8)?)?;
    /// assert_eq!((layer.heads(), layer.kv_heads()), (4, 2));
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn new(
        heads: usize,
        query: Linear,
        key: Linear,
        value: Linear,
        output: Linear,
    ) -> Result<Self, Error> {
        let divides = |heads: usize, into: usize| heads != 0 && into.is_multiple_of(heads);
        let uneven = |heads, of, what, into| Err(Error::Heads { heads, of, what, into });
        if !divides(heads, query.outputs()) || query.outputs() == 0 {
            return uneven(heads, "query", "outputs of the query projection", query.outputs());
        }
        let head_dim = query.outputs() / heads;
        check_shape(
            "the key projection's outputs",
            &[key.outputs()],
            &[head_dim * (key.outputs() / head_dim).max(1)],
            "whole heads of the query projection's head_dim",
        )?;
        let kv_heads = key.outputs() / head_dim;
        if !divides(kv_heads, heads) {
            return uneven(kv_heads, "key/value", "query heads", heads);
        }
        if !divides(kv_heads, value.outputs()) {
            return uneven(
                kv_heads,
                "key/value",
                "outputs of the value projection",
                value.outputs(),
            );
        }
        let joined = heads.saturating_mul(value.outputs() / kv_heads);
        check_shape(
            "the output projection's inputs",
            &[output.inputs()],
            &[joined],
            "heads × value head_dim",
        )?;
        Ok(Self { heads, kv_heads, query, key, value, output, rotary: None })
    }

    /// The same layer with queries and keys turned by their positions, from 0 on, before they meet.
    ///
    /// # Errors
    /// [`Error::Shape`] if more features would turn than a head has.
    ///
    /// ```
    /// use regard::{Attention, Linear, MultiHeadAttention, Pairing, Rotary, Sequences};
    /// let identity = || Linear::new(vec![1.0, 0.0, 0.0, 1.0], 2, 2);
    /// let layer = MultiHeadAttention::new(1, identity()?, identity()?, identity()?, identity()?)?;
    /// let layer = layer.with_rotary(Rotary::new(2, 8, 10_000.0, Pairing::HalfSplit)?)?;
    /// let x = [1.0, 0.0, 1.0, 0.0];
    /// let x = Sequences::new("x", &x, [1, 2, 2])?; // the same token twice, at two places
    /// let weights = layer.weights(x, x, &Attention::new())?;
    /// assert!(weights[0] > weights[1]); // nearer is more alike
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn with_rotary(mut self, rotary: Rotary) -> Result<Self, Error> {
        rotary.check(0, self.query.outputs() / self.heads, 0)?;
        self.rotary = Some(rotary);
        Ok(self)
    }

    /// Of query, key, value and output.
    pub(crate) fn projections(&self) -> [&Linear; 4] {
        [&self.query, &self.key, &self.value, &self.output]
    }

    pub(crate) fn rotary(&self) -> Option<&Rotary> {
        self.rotary.as_ref()
    }

    /// The features of queries.
    pub(crate) fn query_features(&self) -> usize {
        self.query.inputs()
    }

    /// The features of keys and of values.
    pub(crate) fn key_value_features(&self) -> [usize; 2] {
        [self.key.inputs(), self.value.inputs()]
    }

    /// The features of the output.
    pub(crate) fn outputs(&self) -> usize {
        self.output.outputs()
    }

    /// The number of query heads.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// The number of key/value heads.
    pub fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// The output \[batch, n_q, outputs\] for `query` \[batch, n_q, …\], `key` and `value` \[batch, n_k, …\]. The same
    /// sequences three times are self-attention; other ones for `key` and `value`, cross-attention.
    ///
    /// `attention` says how the heads attend: masks, scale, temperature.
    ///
    /// # Errors
    /// Names the tensor that does not fit the layer or the others.
    ///
    /// ```
    /// use regard::{Attention, Linear, MultiHeadAttention, Sequences};
    /// let one = || Linear::new([1.0], 1, 1);
    /// let layer = MultiHeadAttention::new(1, one()?, one()?, one()?, Linear::new([10.0], 1, 1)?)?;
    /// // Cross-attention: one token attends to three others.
    /// let (x, memory) = (Sequences::new("x", &[0.0], [1, 1, 1])?, Sequences::new("x", &[1.0, 3.0, 8.0], [1, 3, 1])?);
    /// assert_eq!(layer.forward(x, memory, memory, &Attention::new())?, [40.0]); // ten times their mean
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward(
        &self,
        query: Sequences<'_>,
        key: Sequences<'_>,
        value: Sequences<'_>,
        attention: &Attention<'_>,
    ) -> Result<Vec<f32>, Error> {
        self.output_of(&self.attend(query, key, value, attention)?, query)
    }

    /// The output for `query`, of which the heads gave `attended`.
    pub(crate) fn output_of(
        &self,
        attended: &[f32],
        query: Sequences<'_>,
    ) -> Result<Vec<f32>, Error> {
        let [batch, n_q, _] = query.shape();
        let mut out = zeros("the output", &[batch, n_q, self.output.outputs()])?;
        self.join(attended, n_q, &mut out, false)?;
        Ok(out)
    }

    /// What the heads give, \[batch, heads, n_q, value head_dim\].
    pub(crate) fn attend(
        &self,
        query: Sequences<'_>,
        key: Sequences<'_>,
        value: Sequences<'_>,
        attention: &Attention<'_>,
    ) -> Result<Vec<f32>, Error> {
        self.project([query, key, value], 0, |[q, k, v]| attention.forward(q, k, v))
    }

    /// Calls `then` with the heads of queries, keys and values of tokens that stand at `first` and behind it.
    pub(crate) fn project<R>(
        &self,
        [query, key, value]: [Sequences<'_>; 3],
        first: usize,
        then: impl FnOnce([Heads<'_>; 3]) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let q_len = len_of("the queries", &self.query.check("query", query)?)?;
        let k_len = len_of("the keys", &self.key.check("key", key)?)?;
        let v_len = len_of("the values", &self.value.check("value", value)?)?;
        with_scratch(q_len.saturating_add(k_len).saturating_add(v_len), |scratch| {
            let (q, rest) = scratch.split_at_mut_checked(q_len).unwrap_or_default();
            let (k, v) = rest.split_at_mut_checked(k_len).unwrap_or_default();
            self.turned(&self.query, query, first, q)?;
            self.turned(&self.key, key, first, k)?;
            self.value.forward_into(value, v, |_, _| Ok(()))?;
            then([
                split("query", q, query, self.heads, &self.query)?,
                split("key", k, key, self.kv_heads, &self.key)?,
                split("value", v, value, self.kv_heads, &self.value)?,
            ])
        })
    }

    /// The output projection of what the heads gave for `n_q` queries an entry, into `out` or `onto` what is there.
    pub(crate) fn join(
        &self,
        attended: &[f32],
        n_q: usize,
        out: &mut [f32],
        onto: bool,
    ) -> Result<(), Error> {
        let (inputs, outputs) = (self.output.inputs(), self.output.outputs());
        let rows = out.len().checked_div(outputs).unwrap_or(0);
        let scratch = |rows| saturating_product(&[rows, inputs]);
        let work = self.output.multiply_adds(rows);
        Threads::current().for_each_rows(
            out,
            outputs,
            Threads::ROWS,
            work,
            scratch,
            |scratch, first, out| {
                let count = out.len() / outputs;
                let joined = scratch.get_mut(..count * inputs).unwrap_or_default();
                join_heads(attended, [self.heads, n_q, inputs / self.heads], first, joined);
                let joined = Mat::new(joined, count, inputs)?;
                if onto { self.output.add_rows(joined, out) } else { self.output.rows(joined, out) }
            },
        )
    }

    /// What `projection`, that of queries or keys, makes of x, turned by the positions from `start` on.
    pub(crate) fn turned(
        &self,
        projection: &Linear,
        x: Sequences<'_>,
        start: usize,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let [_, n, _] = x.shape();
        let head_dim = self.query.outputs() / self.heads;
        if let Some(rotary) = &self.rotary {
            rotary.check(n, head_dim, start)?;
        }
        projection.forward_into(x, out, |first, rows| {
            let Some(rotary) = &self.rotary else { return Ok(()) };
            rotary.rotate_rows(rows, projection.outputs() / head_dim, head_dim, |row| {
                start + (first + row) % n.max(1)
            })
        })
    }

    /// The attention weights \[batch, heads, n_q, n_k\] of the same call.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    ///
    /// ```
    /// use regard::{Attention, Linear, Mask, MultiHeadAttention, Sequences};
    /// let one = || Linear::new([1.0], 1, 1);
    /// let layer = MultiHeadAttention::new(1, one()?, one()?, one()?, one()?)?;
    /// let x = Sequences::new("x", &[7.0, 7.0], [1, 2, 1])?; // the same token twice
    /// let weights = layer.weights(x, x, &Attention::new().mask(Mask::CAUSAL))?;
    /// assert_eq!(weights, [1.0, 0.0, 0.5, 0.5]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn weights(
        &self,
        query: Sequences<'_>,
        key: Sequences<'_>,
        attention: &Attention<'_>,
    ) -> Result<Vec<f32>, Error> {
        let mut q = zeros("the queries", &self.query.check("query", query)?)?;
        let mut k = zeros("the keys", &self.key.check("key", key)?)?;
        self.turned(&self.query, query, 0, &mut q)?;
        self.turned(&self.key, key, 0, &mut k)?;
        let q = split("query", &q, query, self.heads, &self.query)?;
        attention.scores(Stage::Weights, q, split("key", &k, key, self.kv_heads, &self.key)?)
    }
}

/// The heads of what `projection` made of `x`, without a copy.
pub(crate) fn split<'a>(
    name: &'static str,
    projected: &'a [f32],
    x: Sequences<'_>,
    heads: usize,
    projection: &Linear,
) -> Result<Heads<'a>, Error> {
    let [batch, n, _] = x.shape();
    Heads::split(name, projected, [batch, heads, n, projection.outputs() / heads])
}

/// Rows \[heads · d\] of as many tokens from the `first` of all on as `joined` has room for, out of \[batch, heads, n, d\].
pub(crate) fn join_heads(x: &[f32], [heads, n, d]: [usize; 3], first: usize, joined: &mut [f32]) {
    for (row, joined) in joined.chunks_exact_mut((heads * d).max(1)).enumerate() {
        let (entry, token) = ((first + row) / n.max(1), (first + row) % n.max(1));
        for (head, joined) in joined.chunks_exact_mut(d.max(1)).enumerate() {
            let start = ((entry * heads + head) * n + token) * d;
            if let Some(head) = x.get(start..start + d) {
                joined.copy_from_slice(head);
            }
        }
    }
}
