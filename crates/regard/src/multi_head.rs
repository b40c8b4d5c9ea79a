use regard_kernels::{Mat, Stage};

use crate::error::{Error, check_shape};
use crate::kv_cache::LayerCache;
use crate::threads::with_scratch;
use crate::view::{check_elements, grown, len_of, saturating_product, zeros};
use crate::{Attention, Heads, Linear, Norm, Rotary, Sequences, Tensor, Threads, Workspace};

/// Multi-head attention (Vaswani et al. 2017, section 3.2.2): project to queries, keys and values, split into heads,
/// attend in each head, concatenate the heads, project.
///
/// head_dim is the query projection's outputs / heads. A key projection with fewer outputs means fewer key/value heads:
/// grouped queries.
///
/// An example is on the [crate's page](crate).
#[derive(Clone, Debug)]
#[doc(alias = "MHA")]
#[doc(alias = "GQA")]
#[doc(alias = "SelfAttention")]
pub struct MultiHeadAttention {
    heads: usize,
    kv_heads: usize,
    projections: Projections,
    /// The norms of queries and of keys.
    qk_norms: Option<[Norm; 2]>,
    rotary: Option<Rotary>,
}

/// The projections of a [`MultiHeadAttention`] layer.
///
/// A model that stores queries, keys and values as one fused projection is split first: see [`Linear::split`] and
/// [`Linear::split_by_head`].
///
/// ```
/// use regard::{Linear, MultiHeadAttention, Projections};
/// let fused = Linear::from_pytorch(vec![0.0; 24 * 8], 8, 24)?; // q | k | v
/// let [query, key, value] = fused.split([8, 8, 8])?;
/// let output = Linear::from_pytorch(vec![0.0; 8 * 8], 8, 8)?;
/// let layer = MultiHeadAttention::new(4, Projections { query, key, value, output })?;
/// assert_eq!((layer.heads(), layer.kv_heads()), (4, 4));
/// # Ok::<(), regard::Error>(())
/// ```
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

/// What queries attend to.
pub(crate) enum Keys<'a> {
    /// Keys and values of these sequences.
    Of(Sequences<'a>, Sequences<'a>),
    /// Those of the query's tokens and of the tokens before them, which are in the cache.
    Cached(&'a mut dyn LayerCache),
}

/// The memory in which a layer keeps what it computes on the way.
///
/// A call that uses the workspace of an earlier call of the same shapes, or of larger ones, allocates nothing: see
/// [`MultiHeadAttention::forward_into`].
#[derive(Clone, Debug, Default)]
pub struct LayerWorkspace {
    attention: Workspace,
    /// The heads' outputs, \[batch, heads, n_q, value head_dim\].
    attended: Vec<f32>,
}

impl LayerWorkspace {
    /// A workspace without memory: the first call takes it.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl MultiHeadAttention {
    /// A layer of `heads` query heads.
    ///
    /// # Errors
    /// [`Error::Heads`] if the heads do not divide the projections evenly, [`Error::Shape`] if the output projection does
    /// not take what the heads give.
    ///
    /// ```
    /// use regard::{Linear, MultiHeadAttention, Projections};
    /// let linear = |outputs| Linear::from_pytorch(vec![0.0; 8 * outputs], 8, outputs);
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
        Ok(Self { heads, kv_heads, projections, qk_norms: None, rotary: None })
    }

    /// The same layer with rotary positions: queries and keys are turned by their positions, from 0 on, before they meet.
    ///
    /// # Errors
    /// [`Error::Shape`] if more features would turn than a head has.
    ///
    /// ```
    /// use regard::{Attention, Linear, MultiHeadAttention, Pairing, Projections, Rotary, Sequences};
    /// let identity = Linear::from_pytorch([1.0, 0.0, 0.0, 1.0], 2, 2)?;
    /// let [query, key, value, output] = [(); 4].map(|()| identity.clone()); // clones share the weight
    /// let layer = MultiHeadAttention::new(1, Projections { query, key, value, output })?
    ///     .with_rotary(Rotary::new(2, 8, 10_000.0, Pairing::HalfSplit)?)?;
    /// let x = [1.0, 0.0, 1.0, 0.0];
    /// let x = Sequences::new("x", &x, [1, 2, 2])?; // the same token twice, at two places
    /// let weights = layer.weights(x, x, &Attention::new())?;
    /// assert!(weights[0] > weights[1]); // nearer is more alike
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[doc(alias = "RoPE")]
    pub fn with_rotary(mut self, rotary: Rotary) -> Result<Self, Error> {
        rotary.check(0, self.head_dim(), 0)?;
        self.rotary = Some(rotary);
        Ok(self)
    }

    /// The same layer with norms of each head's queries and keys, after the projections and before rotary positions: the
    /// QK-norm of Qwen 3 (Henry et al. 2020). Both norms are of head_dim features and serve all heads.
    ///
    /// # Errors
    /// [`Error::Shape`] if a norm has another number of features than a head.
    ///
    /// ```
    /// use regard::{Attention, Linear, MultiHeadAttention, Norm, Projections, Sequences};
    /// let one = Linear::from_pytorch([1.0], 1, 1)?;
    /// let [query, key, value, output] = [(); 4].map(|()| one.clone());
    /// let layer = MultiHeadAttention::new(1, Projections { query, key, value, output })?
    ///     .with_qk_norms(Norm::rms(vec![1.0], 0.0)?, Norm::rms(vec![1.0], 0.0)?)?;
    /// let x = Sequences::new("x", &[2.0, 200.0], [1, 2, 1])?;
    /// assert_eq!(layer.weights(x, x, &Attention::new())?, [0.5; 4]); // the sizes of queries and keys do not count
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[doc(alias = "QK-norm")]
    pub fn with_qk_norms(mut self, query: Norm, key: Norm) -> Result<Self, Error> {
        for (name, norm) in [("the query norm", &query), ("the key norm", &key)] {
            check_shape(name, &[norm.features()], &[self.head_dim()], "the features of a head")?;
        }
        self.qk_norms = Some([query, key]);
        Ok(self)
    }

    /// The projections.
    pub fn projections(&self) -> &Projections {
        &self.projections
    }

    /// The norms of queries and of keys.
    pub fn qk_norms(&self) -> Option<&[Norm; 2]> {
        self.qk_norms.as_ref()
    }

    /// The rotary positions.
    pub fn rotary(&self) -> Option<&Rotary> {
        self.rotary.as_ref()
    }

    /// The number of query heads.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// The number of key/value heads.
    pub fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// The features of a head's queries and keys.
    pub fn head_dim(&self) -> usize {
        self.projections.query.outputs() / self.heads
    }

    /// The features of a head's values.
    pub fn value_head_dim(&self) -> usize {
        self.projections.value.outputs() / self.kv_heads
    }

    /// The output \[batch, n_q, outputs\] for `query` \[batch, n_q, …\], `key` and `value` \[batch, n_k, …\]. The same
    /// sequences three times are self-attention; other sequences for `key` and `value` are cross-attention.
    ///
    /// `attention` says how the heads attend: masks, scale, temperature.
    ///
    /// # Errors
    /// Names the tensor that does not fit the layer or the others.
    ///
    /// ```
    /// use regard::{Attention, Linear, MultiHeadAttention, Projections, Sequences};
    /// let one = || Linear::from_pytorch([1.0], 1, 1);
    /// let output = Linear::from_pytorch([10.0], 1, 1)?;
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
        let mut out = Tensor::zeros("the output", self.output_shape(query))?;
        self.forward_into(query, key, value, attention, &mut out, &mut LayerWorkspace::new())?;
        Ok(out)
    }

    /// As [`forward`](Self::forward), into `out` \[batch, n_q, outputs\]. On one thread, a call with the `workspace` of an earlier
    /// call of the same shapes allocates nothing.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), and [`Error::Elements`] if `out` has another number of elements.
    pub fn forward_into(
        &self,
        query: Sequences<'_>,
        key: Sequences<'_>,
        value: Sequences<'_>,
        attention: &Attention<'_>,
        out: &mut [f32],
        workspace: &mut LayerWorkspace,
    ) -> Result<(), Error> {
        self.run(query, Keys::Of(key, value), attention, out, workspace)
    }

    /// The output for `query`, into `out`. After an error, a cache may hold more tokens than before.
    pub(crate) fn run(
        &self,
        query: Sequences<'_>,
        keys: Keys<'_>,
        attention: &Attention<'_>,
        out: &mut [f32],
        workspace: &mut LayerWorkspace,
    ) -> Result<(), Error> {
        check_elements("the output", out.len(), &self.output_shape(query))?;
        self.attend(query, keys, attention, workspace)?;
        self.join(&workspace.attended, query.shape(), out)
    }

    pub(crate) fn output_shape(&self, query: Sequences<'_>) -> [usize; 3] {
        let [batch, n_q, _] = query.shape();
        [batch, n_q, self.projections.output.outputs()]
    }

    /// Writes the heads' outputs for `query`, \[batch, heads, n_q, value head_dim\], to the beginning of the workspace's
    /// `attended`.
    fn attend(
        &self,
        query: Sequences<'_>,
        keys: Keys<'_>,
        attention: &Attention<'_>,
        workspace: &mut LayerWorkspace,
    ) -> Result<(), Error> {
        let [batch, n_q, _] = query.shape();
        let LayerWorkspace { attention: workspace, attended } = workspace;
        let attended = grown(attended, &[batch, self.heads, n_q, self.value_head_dim()])?;
        match keys {
            Keys::Of(key, value) => {
                let start = |(): &(), _entry: usize| 0;
                self.project([query, key, value], (), start, |(), [q, k, v]| {
                    attention.forward_into(q, k, v, attended, workspace)
                })
            }
            Keys::Cached(cache) => {
                cache.check(attention)?;
                let start = |cache: &&mut dyn LayerCache, entry: usize| cache.len_of(entry);
                self.project([query; 3], cache, start, |cache, [q, k, v]| {
                    cache.append(k, v)?;
                    cache.attend(q, attention, attended, workspace)
                })
            }
        }
    }

    /// Calls `then` with the heads of queries, keys and values. The tokens of an entry stand at `start` and after it.
    ///
    /// Both closures need the `context`: the lengths of a cache say where tokens stand, and then the cache grows.
    fn project<C: Sync>(
        &self,
        [query, key, value]: [Sequences<'_>; 3],
        context: C,
        start: impl Fn(&C, usize) -> usize + Sync,
        then: impl FnOnce(C, [Heads<'_>; 3]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let of = &self.projections;
        let q_len = len_of("the queries", &of.query.check("query", query)?)?;
        let k_len = len_of("the keys", &of.key.check("key", key)?)?;
        let v_len = len_of("the values", &of.value.check("value", value)?)?;
        with_scratch(q_len.saturating_add(k_len).saturating_add(v_len), |scratch| {
            let (q, rest) = scratch.split_at_mut(q_len);
            let (k, v) = rest.split_at_mut(k_len);
            self.queries(query, |entry| start(&context, entry), q)?;
            self.keys(key, |entry| start(&context, entry), k)?;
            of.value.forward_then(value, v, |_, _| Ok(()))?;
            let heads = [
                split("query", q, query, self.heads, &of.query)?,
                split("key", k, key, self.kv_heads, &of.key)?,
                split("value", v, value, self.kv_heads, &of.value)?,
            ];
            then(context, heads)
        })
    }

    /// The output projection of the heads' outputs for queries of `shape` \[batch, n_q, …\], into `out`.
    fn join(
        &self,
        attended: &[f32],
        [_, n_q, _]: [usize; 3],
        out: &mut [f32],
    ) -> Result<(), Error> {
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
                join_heads(attended, [self.heads, n_q, inputs / self.heads], first, joined);
                output.rows(Mat::new(joined, count, inputs)?, out)
            },
        )
    }

    /// The queries of x, normed and turned where the layer does that. The tokens of an entry stand at `start` and after it.
    fn queries(
        &self,
        x: Sequences<'_>,
        start: impl Fn(usize) -> usize + Sync,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let norm = self.qk_norms.as_ref().map(|[query, _]| query);
        self.turned(&self.projections.query, norm, x, start, out)
    }

    /// The keys of x, as [`queries`](Self::queries).
    fn keys(
        &self,
        x: Sequences<'_>,
        start: impl Fn(usize) -> usize + Sync,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let norm = self.qk_norms.as_ref().map(|[_, key]| key);
        self.turned(&self.projections.key, norm, x, start, out)
    }

    fn turned(
        &self,
        projection: &Linear,
        norm: Option<&Norm>,
        x: Sequences<'_>,
        start: impl Fn(usize) -> usize + Sync,
        out: &mut [f32],
    ) -> Result<(), Error> {
        let ([batch, n, _], head_dim) = (x.shape(), self.head_dim());
        if let Some(rotary) = &self.rotary {
            let entries = if x.data().is_empty() { 0 } else { batch };
            rotary.check(n, head_dim, (0..entries).map(&start).max().unwrap_or(0))?;
        }
        projection.forward_then(x, out, |first, rows| {
            if let Some(norm) = norm {
                norm.rows(rows)?; // each head's part is a row of its own
            }
            let Some(rotary) = &self.rotary else { return Ok(()) };
            rotary.rotate_rows(rows, projection.outputs() / head_dim, head_dim, |row| {
                let token = first + row;
                start(token / n.max(1)) + token % n.max(1)
            })
        })
    }

    /// The attention weights \[batch, heads, n_q, n_k\] of the same call.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    ///
    /// ```
    /// use regard::{Attention, Linear, Mask, MultiHeadAttention, Projections, Sequences};
    /// let one = || Linear::from_pytorch([1.0], 1, 1);
    /// let projections = Projections { query: one()?, key: one()?, value: one()?, output: one()? };
    /// let layer = MultiHeadAttention::new(1, projections)?;
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
    ) -> Result<Tensor<4>, Error> {
        let of = &self.projections;
        let mut q = zeros("the queries", &of.query.check("query", query)?)?;
        let mut k = zeros("the keys", &of.key.check("key", key)?)?;
        self.queries(query, |_entry| 0, &mut q)?;
        self.keys(key, |_entry| 0, &mut k)?;
        let q = split("query", &q, query, self.heads, &of.query)?;
        let k = split("key", &k, key, self.kv_heads, &of.key)?;
        attention.scores(Stage::Weights, q, k)
    }
}

/// What `projection` made of `x` as heads, without a copy.
fn split<'a>(
    name: &'static str,
    projected: &'a [f32],
    x: Sequences<'_>,
    heads: usize,
    projection: &Linear,
) -> Result<Heads<'a>, Error> {
    let [batch, n, _] = x.shape();
    Heads::split(name, projected, [batch, heads, n, projection.outputs() / heads])
}

/// Fills `joined` with the rows \[heads · d\] of consecutive tokens, beginning with token `first` of the whole batch, from `x`
/// \[batch, heads, n, d\].
fn join_heads(x: &[f32], [heads, n, d]: [usize; 3], first: usize, joined: &mut [f32]) {
    for (row, joined) in joined.chunks_exact_mut((heads * d).max(1)).enumerate() {
        let (entry, token) = ((first + row) / n.max(1), (first + row) % n.max(1));
        for (head, joined) in joined.chunks_exact_mut(d.max(1)).enumerate() {
            let start = ((entry * heads + head) * n + token) * d;
            joined.copy_from_slice(&x[start..start + d]);
        }
    }
}
