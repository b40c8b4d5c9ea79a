use regard_kernels::{Mat, Stage};

use crate::error::{Error, check_shape};
use crate::threads::Scratch;
use crate::view::{len_of, saturating_product, zeros};
use crate::{Attention, Heads, Linear, Rotary, Sequences, Tensor, Threads};

/// Multi-head attention (Vaswani et al. 2017, section 3.2.2): projects to queries, keys and values, splits them into heads,
/// attends in each head, joins the heads, and projects the result.
///
/// head_dim is the number of the query projection's outputs / heads. A key projection with fewer outputs means fewer key/value
/// heads, which is grouped-query attention.
///
/// The [crate's page](crate) has an example.
#[derive(Clone, Debug)]
#[doc(alias = "MHA")]
#[doc(alias = "GQA")]
#[doc(alias = "SelfAttention")]
pub struct MultiHeadAttention {
    heads: usize,
    kv_heads: usize,
    projections: Projections,
    rotary: Option<Rotary>,
}

/// The projections of a [`MultiHeadAttention`] layer.
///
/// [`MultiHeadAttention::new`] has an example.
#[derive(Clone, Debug)]
pub struct Projections {
    /// \[features, heads · head_dim\].
    pub query: Linear,
    /// \[key features, kv_heads · head_dim\].
    pub key: Linear,
    /// \[value features, kv_heads · value head_dim\].
    pub value: Linear,
    /// \[heads · value head_dim, outputs\].
    pub output: Linear,
}

impl MultiHeadAttention {
    /// A layer with `heads` query heads.
    ///
    /// # Errors
    /// [`Error::Heads`] if the heads do not divide the projections evenly, [`Error::Shape`] if the inputs of the output
    /// projection are not the outputs of the heads.
    ///
    /// ```
    /// use regard::{Linear, MultiHeadAttention, Projections};
    /// let linear = |outputs| Linear::from_pytorch(vec![0.0; 8 * outputs], [outputs, 8]);
    /// // Four query heads of two features on two key/value heads, each of which serves two query heads.
    /// let projections =
    ///     Projections { query: linear(8)?, key: linear(4)?, value: linear(4)?, output: linear(8)? };
    /// let layer = MultiHeadAttention::new(4, projections)?;
    /// assert_eq!((layer.heads(), layer.kv_heads()), (4, 2));
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn new(heads: usize, projections: Projections) -> Result<Self, Error> {
        let Projections { query, key, value, output } = &projections;
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
        Ok(Self { heads, kv_heads, projections, rotary: None })
    }

    /// The same layer with rotary positions: queries and keys are rotated by their positions, from 0 on, before they are
    /// multiplied.
    ///
    /// # Errors
    /// [`Error::Shape`] if more features would be rotated than a head has.
    ///
    /// ```
    /// use regard::{Attention, Linear, MultiHeadAttention, Pairing, Projections, Rotary, Sequences};
    /// let identity = Linear::from_pytorch([1.0, 0.0, 0.0, 1.0], [2, 2])?;
    /// let [query, key, value, output] = [(); 4].map(|()| identity.clone()); // clones share the weight
    /// let layer = MultiHeadAttention::new(1, Projections { query, key, value, output })?
    ///     .with_rotary(Rotary::new(2, 8, 10_000.0, Pairing::HalfSplit)?)?;
    /// let x = [1.0, 0.0, 1.0, 0.0];
    /// let x = Sequences::new("x", &x, [1, 2, 2])?; // the same token twice, at two places
    /// let weights = layer.attention_weights(x, x, &Attention::new())?;
    /// assert!(weights.as_slice()[0] > weights.as_slice()[1]); // nearer is more alike
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[doc(alias = "RoPE")]
    pub fn with_rotary(mut self, rotary: Rotary) -> Result<Self, Error> {
        rotary.check(0, self.head_dim(), 0)?;
        self.rotary = Some(rotary);
        Ok(self)
    }

    /// The number of query heads.
    #[must_use]
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// The number of key/value heads.
    #[must_use]
    pub fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// The number of output features.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.projections.output.outputs()
    }

    /// The features of a head's queries and keys.
    #[must_use]
    pub fn head_dim(&self) -> usize {
        self.projections.query.outputs() / self.heads
    }

    /// The features of a head's values.
    #[must_use]
    pub fn value_head_dim(&self) -> usize {
        self.projections.value.outputs() / self.kv_heads
    }

    /// The output \[batch, n_q, outputs\] for `query` \[batch, n_q, …\], `key` and `value` \[batch, n_k, …\]. The same
    /// sequences for all three are self-attention; other sequences for `key` and `value` are cross-attention.
    ///
    /// `attention` describes what the heads compute: masks, scale, temperature.
    ///
    /// # Errors
    /// An error names the tensor that does not fit the layer or the others.
    ///
    /// ```
    /// use regard::{Attention, Linear, MultiHeadAttention, Projections, Sequences};
    /// let one = || Linear::from_pytorch([1.0], [1, 1]);
    /// let output = Linear::from_pytorch([10.0], [1, 1])?;
    /// let projections = Projections { query: one()?, key: one()?, value: one()?, output };
    /// let layer = MultiHeadAttention::new(1, projections)?;
    /// // Cross-attention: one token attends to three others.
    /// let x = Sequences::new("x", &[0.0], [1, 1, 1])?;
    /// let memory = Sequences::new("x", &[1.0, 3.0, 8.0], [1, 3, 1])?;
    /// let y = layer.forward(x, memory, memory, &Attention::new())?;
    /// assert_eq!(y, [40.0]); // ten times their mean
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward(
        &self,
        query: Sequences<'_>,
        key: Sequences<'_>,
        value: Sequences<'_>,
        attention: &Attention<'_>,
    ) -> Result<Tensor<3>, Error> {
        let [batch, n_q, _] = query.shape();
        let mut out = Tensor::zeros(OUTPUT, [batch, n_q, self.outputs()])?;
        self.attend([query, key, value], 0, out.as_mut_slice(), |heads, out| {
            attention.attend(heads.into(), out, &mut [])
        })?;
        Ok(out)
    }

    /// Writes the output to `out` \[batch, n_q, outputs\]. `by` computes the heads' outputs from the heads of queries, keys and
    /// values. `first` is the position of the first token of each entry.
    pub(crate) fn attend(
        &self,
        [query, key, value]: [Sequences<'_>; 3],
        first: usize,
        out: &mut [f32],
        by: impl FnOnce([Heads<'_>; 3], &mut [f32]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (of, [batch, n_q, _]) = (&self.projections, query.shape());
        let q_len = len_of("the queries", &of.query.check("query", query)?)?;
        let k_len = len_of("the keys", &of.key.check("key", key)?)?;
        let v_len = len_of("the values", &of.value.check("value", value)?)?;
        let shape = [batch, self.heads, n_q, self.value_head_dim()];
        let len = len_of("the outputs of the heads", &shape)?;
        let all = [q_len, k_len, v_len, len].into_iter().fold(0, usize::saturating_add);
        let scratch = &mut Scratch::of(all)?[..];
        let (q, rest) = scratch.split_at_mut(q_len);
        let (k, rest) = rest.split_at_mut(k_len);
        let (v, attended) = rest.split_at_mut(v_len);
        self.turned(&of.query, query, first, q)?;
        self.turned(&of.key, key, first, k)?;
        of.value.forward_then(value, v, |_, _| Ok(()))?;
        let heads = [
            split("query", q, query, self.heads, &of.query)?,
            split("key", k, key, self.kv_heads, &of.key)?,
            split("value", v, value, self.kv_heads, &of.value)?,
        ];
        by(heads, attended)?;
        self.project(Heads::dense(attended, shape), out)
    }

    /// Applies the output projection to the heads' outputs \[batch, heads, n_q, value head_dim\].
    fn project(&self, attended: Heads<'_>, out: &mut [f32]) -> Result<(), Error> {
        let output = &self.projections.output;
        let (inputs, outputs) = (output.inputs(), output.outputs());
        let rows = out.len().checked_div(outputs).unwrap_or(0);
        let scratch = |rows| saturating_product(&[rows, inputs]);
        let work = output.multiply_adds(rows);
        Threads::current().for_each_rows(
            out,
            outputs,
            Threads::ROWS,
            work,
            scratch,
            |scratch, first, out| {
                let count = out.len() / outputs;
                let joined = &mut scratch[..count * inputs];
                attended.join_rows(first, joined);
                output.rows(Mat::new(joined, count, inputs)?, out)
            },
        )
    }

    /// The queries or the keys of x, rotated if the layer has rotary positions. `first` is the position of the first token of
    /// each entry.
    fn turned(
        &self,
        projection: &Linear,
        x: Sequences<'_>,
        first: usize,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let ([_, n, _], head_dim) = (x.shape(), self.head_dim());
        if let Some(rotary) = &self.rotary {
            rotary.check(n, head_dim, first)?;
        }
        projection.forward_then(x, out, |row, rows| {
            let Some(rotary) = &self.rotary else { return Ok(()) };
            let position = |i: usize| first + (row + i) % n.max(1);
            rotary.rotate_rows(rows, projection.outputs() / head_dim, head_dim, position)
        })
    }

    /// The attention weights \[batch, heads, n_q, n_k\] of a [`forward`](Self::forward) with the same arguments.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    ///
    /// ```
    /// use regard::{Attention, Linear, Mask, MultiHeadAttention, Projections, Sequences};
    /// let one = || Linear::from_pytorch([1.0], [1, 1]);
    /// let projections = Projections { query: one()?, key: one()?, value: one()?, output: one()? };
    /// let layer = MultiHeadAttention::new(1, projections)?;
    /// let x = Sequences::new("x", &[7.0, 7.0], [1, 2, 1])?; // the same token twice
    /// let weights = layer.attention_weights(x, x, &Attention::new().mask(Mask::CAUSAL))?;
    /// assert_eq!(weights, [1.0, 0.0, 0.5, 0.5]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn attention_weights(
        &self,
        query: Sequences<'_>,
        key: Sequences<'_>,
        attention: &Attention<'_>,
    ) -> Result<Tensor<4>, Error> {
        let of = &self.projections;
        let mut q = zeros("the queries", &of.query.check("query", query)?)?;
        let mut k = zeros("the keys", &of.key.check("key", key)?)?;
        self.turned(&of.query, query, 0, &mut q)?;
        self.turned(&of.key, key, 0, &mut k)?;
        let q = split("query", &q, query, self.heads, &of.query)?;
        let k = split("key", &k, key, self.kv_heads, &of.key)?;
        attention.scores(Stage::Weights, q, k)
    }
}

const OUTPUT: &str = "the output";

/// The outputs of `projection` for `x`, split into heads without a copy.
fn split<'a>(
    name: &'static str,
    projected: &'a [f32],
    x: Sequences<'_>,
    heads: usize,
    projection: &Linear,
) -> Result<Heads<'a>, Error> {
    let [batch, n, _] = x.shape();
    Heads::split(name, projected, [batch, n, projection.outputs()], heads)
}
