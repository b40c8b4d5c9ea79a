use regard_kernels::Stage;

use crate::error::{Error, check_shape};
use crate::{Attention, Heads, Linear, Sequences};

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
}

impl MultiHeadAttention {
    /// A layer of `heads` query heads.
    ///
    /// # Errors
    /// [`Error::Heads`] if the heads do not divide the projections evenly, [`Error::Shape`] if the output projection does
    /// not take what the heads give.
    pub fn new(heads: usize, query: Linear, key: Linear, value: Linear, output: Linear) -> Result<Self, Error> {
        let divides = |heads: usize, into: usize| heads != 0 && into.is_multiple_of(heads);
        let uneven = |heads, of, what, into| Err(Error::Heads { heads, of, what, into });
        if !divides(heads, query.outputs()) || query.outputs() == 0 {
            return uneven(heads, "query", "the query projection's outputs", query.outputs());
        }
        let head_dim = query.outputs() / heads;
        check_shape(
            "the key projection's outputs",
            &[key.outputs() % head_dim],
            &[0],
            "what is left after whole heads of the query projection's head_dim",
        )?;
        let kv_heads = key.outputs() / head_dim;
        if !divides(kv_heads, heads) {
            return uneven(kv_heads, "key/value", "query heads", heads);
        }
        if !divides(kv_heads, value.outputs()) {
            return uneven(kv_heads, "key/value", "the value projection's outputs", value.outputs());
        }
        let joined = heads * (value.outputs() / kv_heads);
        check_shape("the output projection's inputs", &[output.inputs()], &[joined], "heads × value head_dim")?;
        Ok(Self { heads, kv_heads, query, key, value, output })
    }

    /// The number of query heads.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// The number of key/value heads.
    pub fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// Of query, key, value and output.
    pub(crate) fn projections(&self) -> [&Linear; 4] {
        [&self.query, &self.key, &self.value, &self.output]
    }

    /// The output \[batch, n_q, outputs\] for `query` \[batch, n_q, …\], `key` and `value` \[batch, n_k, …\]. The same
    /// sequences three times are self-attention; other ones for `key` and `value`, cross-attention.
    ///
    /// `attention` says how the heads attend: masks, scale, temperature, threads.
    ///
    /// # Errors
    /// Names the tensor that does not fit the layer or the others.
    pub fn forward(
        &self,
        query: Sequences<'_>,
        key: Sequences<'_>,
        value: Sequences<'_>,
        attention: &Attention<'_>,
    ) -> Result<Vec<f32>, Error> {
        let threads = attention.thread_setting();
        let q = self.query.forward(query, threads)?;
        let k = self.key.forward(key, threads)?;
        let v = self.value.forward(value, threads)?;
        let out = attention.forward(
            split("query", &q, query, self.heads, &self.query)?,
            split("key", &k, key, self.kv_heads, &self.key)?,
            split("value", &v, value, self.kv_heads, &self.value)?,
        )?;
        let [batch, n_q, _] = query.shape();
        let joined = join_heads(&out, batch, self.heads, n_q, self.output.inputs() / self.heads);
        self.output.forward(Sequences::new(&joined, [batch, n_q, self.output.inputs()])?, threads)
    }

    /// The attention weights \[batch, heads, n_q, n_k\] of the same call.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn weights(
        &self,
        query: Sequences<'_>,
        key: Sequences<'_>,
        attention: &Attention<'_>,
    ) -> Result<Vec<f32>, Error> {
        let threads = attention.thread_setting();
        let q = self.query.forward(query, threads)?;
        let k = self.key.forward(key, threads)?;
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

/// \[batch, heads, n, d\] to \[batch, n, heads · d\].
pub(crate) fn join_heads(x: &[f32], batch: usize, heads: usize, n: usize, d: usize) -> Vec<f32> {
    let mut joined = Vec::with_capacity(x.len());
    for entry in 0..batch {
        for token in 0..n {
            for head in 0..heads {
                let start = ((entry * heads + head) * n + token) * d;
                joined.extend_from_slice(x.get(start..start + d).unwrap_or_default());
            }
        }
    }
    joined
}
