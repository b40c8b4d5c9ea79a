//! Transformer blocks.

use crate::decoding::DecoderCache;
use crate::error::{Error, check_shape};
use crate::kv_cache::LayerCache;
use crate::multi_head::Keys;
use crate::residual::Residual;
use crate::view::{check_elements, grown};
use crate::{
    Attention, Element, FeedForward, KvCache, LayerWorkspace, MultiHeadAttention, Norm, Sequences,
    Tensor,
};

/// Attention as a sublayer.
#[derive(Clone, Debug)]
struct Attending {
    attention: MultiHeadAttention,
    residual: Residual,
}

/// What the keys and values of a sublayer are made of.
pub(crate) enum Source<'a> {
    /// The same tokens as the queries.
    Own,
    /// The same tokens, and those in the cache before them.
    Cached(&'a mut dyn LayerCache),
    /// What an encoder gave.
    Memory(Sequences<'a>),
    /// A cache that was filled from what an encoder gave. The first query stands at this position.
    Kept(&'a dyn LayerCache, usize),
}

impl Attending {
    /// x ← x + f(norm(x)) and its variants, for x of `shape` \[batch, tokens, features\].
    fn run(
        &self,
        x: &mut [f32],
        shape: [usize; 3],
        source: Source<'_>,
        attention: &Attention<'_>,
        weights: Option<&mut Vec<Tensor<4>>>,
        workspace: &mut LayerWorkspace,
    ) -> Result<(), Error> {
        self.attend(x, shape, source, attention, weights, workspace)?;
        self.join(x, shape, workspace)
    }

    /// What the heads give, in the workspace.
    fn attend(
        &self,
        x: &[f32],
        shape: [usize; 3],
        source: Source<'_>,
        attention: &Attention<'_>,
        weights: Option<&mut Vec<Tensor<4>>>,
        workspace: &mut LayerWorkspace,
    ) -> Result<(), Error> {
        let mut memory = core::mem::take(&mut workspace.normed);
        let done = (|| {
            let query = if self.residual.after {
                Sequences::new("x", x, shape)?
            } else {
                let normed = grown(&mut memory, &shape)?;
                let x = Sequences::new("x", x, shape)?;
                self.residual.norm.forward_into(x, normed)?;
                Sequences::new("x", normed, shape)?
            };
            let keys = match source {
                Source::Own => Keys::Of(query, query),
                Source::Cached(cache) => Keys::Cached(cache),
                Source::Memory(memory) => {
                    check_memory(&self.attention, memory)?;
                    Keys::Of(memory, memory)
                }
                Source::Kept(cache, first) => Keys::Kept(cache, first),
            };
            self.attention.attend(query, keys, attention, weights, workspace)
        })();
        workspace.normed = memory;
        done
    }

    /// Adds the output projection of what the heads gave to x.
    fn join(
        &self,
        x: &mut [f32],
        shape: [usize; 3],
        workspace: &LayerWorkspace,
    ) -> Result<(), Error> {
        self.attention.join(&workspace.attended, shape, x, Some(&self.residual))
    }

    fn check(
        &self,
        tensor: [&'static str; 3],
        features: usize,
        own_keys: bool,
    ) -> Result<(), Error> {
        let [queries, keys, norm] = tensor;
        let d_model = "the block's features";
        let of = self.attention.projections();
        let found = [of.query.inputs(), of.output.outputs()];
        check_shape(queries, &found, &[features; 2], d_model)?;
        let (key, value) = (of.key.inputs(), of.value.inputs());
        let (expected, why) = if own_keys {
            ([features; 2], d_model)
        } else {
            ([key; 2], "keys and values of one memory")
        };
        check_shape(keys, &[key, value], &expected, why)?;
        check_shape(norm, &[self.residual.norm.features()], &[features], d_model)
    }
}

/// `Ok` if keys and values can be made of the memory.
pub(crate) fn check_memory(
    attention: &MultiHeadAttention,
    memory: Sequences<'_>,
) -> Result<(), Error> {
    let ([batch, n_k, found], features) = (memory.shape(), attention.projections().key.inputs());
    let why = "the cross-attention's key and value inputs";
    check_shape("the memory", &[batch, n_k, found], &[batch, n_k, features], why)
}

/// The feed-forward layer as a sublayer, the last of every block.
#[derive(Clone, Debug)]
struct Feeding {
    layer: FeedForward,
    residual: Residual,
}

impl Feeding {
    fn run(&self, x: &mut [f32]) -> Result<(), Error> {
        self.layer.add_in_place(x, &self.residual)
    }

    fn check(&self, features: usize) -> Result<(), Error> {
        let d_model = "the block's features";
        let found = [self.layer.inputs(), self.layer.outputs()];
        let layer = "the feed-forward layer's inputs and outputs";
        check_shape(layer, &found, &[features; 2], d_model)?;
        let norm = self.residual.norm.features();
        check_shape("the feed-forward norm", &[norm], &[features], d_model)
    }
}

/// One block of an encoder: self-attention and a feed-forward layer, each with a norm and a residual connection.
///
/// Under a causal mask, this is the block of a decoder-only model too: GPT, Llama.
///
/// | models | constructor |
/// |---|---|
/// | BERT, RoBERTa, DistilBERT | [`post_norm`](Self::post_norm) |
/// | GPT-2, Llama, Mistral, Qwen, Phi-3, ViT, T5's encoder | [`pre_norm`](Self::pre_norm) |
/// | GPT-NeoX | [`parallel`](Self::parallel) |
/// | Gemma 2 | [`pre_norm`](Self::pre_norm), [`with_output_norms`](Self::with_output_norms) |
///
/// ```
/// use regard::{
///     Activation, Attention, EncoderBlock, EncoderParts, FeedForward, Linear, MultiHeadAttention, Norm,
///     Projections, Sequences,
/// };
/// let zero = |inputs, outputs| Linear::from_pytorch(vec![0.0; inputs * outputs], inputs, outputs);
/// let projections =
///     Projections { query: zero(4, 4)?, key: zero(4, 4)?, value: zero(4, 4)?, output: zero(4, 4)? };
/// let norm = || Norm::layer(vec![1.0; 4], vec![0.0; 4], 1e-5);
/// let block = EncoderBlock::pre_norm(EncoderParts {
///     attention_norm: norm()?,
///     attention: MultiHeadAttention::new(2, projections)?,
///     feed_forward_norm: norm()?,
///     feed_forward: FeedForward::new(zero(4, 8)?, Activation::Gelu, zero(8, 4)?)?,
/// })?;
///
/// let x = [1.0, 2.0, 3.0, 4.0];
/// let y = block.forward(Sequences::new("x", &x, [1, 1, 4])?, &Attention::new())?;
/// assert_eq!(y, x); // nothing but the residual connections
/// # Ok::<(), regard::Error>(())
/// ```
#[doc(alias = "GPT")]
#[doc(alias = "Llama")]
#[doc(alias = "TransformerBlock")]
#[doc(alias = "TransformerEncoderLayer")]
#[derive(Clone, Debug)]
pub struct EncoderBlock {
    attending: Attending,
    feeding: Feeding,
    parallel: bool,
}

/// The parts of an [`EncoderBlock`], all of the same number of features.
#[derive(Clone, Debug)]
pub struct EncoderParts {
    /// The norm of the attention: before it, or after its residual connection.
    pub attention_norm: Norm,
    /// The attention between the tokens.
    pub attention: MultiHeadAttention,
    /// The norm of the feed-forward layer: before it, or after its residual connection.
    pub feed_forward_norm: Norm,
    /// The feed-forward layer.
    pub feed_forward: FeedForward,
}

/// Norms of what the sublayers of an [`EncoderBlock`] give, before it is added to their input: see
/// [`EncoderBlock::with_output_norms`].
#[derive(Clone, Debug)]
pub struct OutputNorms {
    /// The norm of the attention's output.
    pub attention: Norm,
    /// The norm of the feed-forward layer's output.
    pub feed_forward: Norm,
}

impl EncoderBlock {
    /// h = x + attention(norm(x)), y = h + feed_forward(norm(h)) (Xiong et al. 2020): GPT-2, Llama.
    ///
    /// # Errors
    /// [`Error::Shape`] if a part has other features than the attention's norm.
    pub fn pre_norm(parts: EncoderParts) -> Result<Self, Error> {
        Self::new(parts, false, false)
    }

    /// h = norm(x + attention(x)), y = norm(h + feed_forward(h)) (Vaswani et al. 2017, section 3.1): BERT.
    ///
    /// # Errors
    /// As [`pre_norm`](Self::pre_norm).
    pub fn post_norm(parts: EncoderParts) -> Result<Self, Error> {
        Self::new(parts, true, false)
    }

    /// y = x + attention(norm₁(x)) + feed_forward(norm₂(x)) (Black et al. 2022, GPT-NeoX-20B, section 2.1): the
    /// feed-forward layer does not see what the attention gives.
    ///
    /// # Errors
    /// As [`pre_norm`](Self::pre_norm).
    pub fn parallel(parts: EncoderParts) -> Result<Self, Error> {
        Self::new(parts, false, true)
    }

    fn new(parts: EncoderParts, after: bool, parallel: bool) -> Result<Self, Error> {
        let EncoderParts { attention_norm, attention, feed_forward_norm, feed_forward } = parts;
        let features = attention_norm.features();
        let attending = Attending { attention, residual: Residual::new(attention_norm, after) };
        attending.check(SELF_ATTENTION, features, true)?;
        let residual = Residual::new(feed_forward_norm, after);
        let feeding = Feeding { layer: feed_forward, residual };
        feeding.check(features)?;
        Ok(Self { attending, feeding, parallel })
    }

    /// The same block with a second norm in each sublayer, between it and its residual connection:
    /// h = x + norm(attention(…)), y = h + norm(feed_forward(…)) (Gemma Team 2024, Gemma 2, section 2).
    ///
    /// # Errors
    /// [`Error::Shape`] if a norm has other features than the block.
    pub fn with_output_norms(mut self, norms: OutputNorms) -> Result<Self, Error> {
        let OutputNorms { attention, feed_forward } = norms;
        self.attending.residual =
            self.attending.residual.with_output_norm("the attention's output norm", attention)?;
        self.feeding.residual =
            self.feeding.residual.with_output_norm("the feed-forward output norm", feed_forward)?;
        Ok(self)
    }

    /// The number of features of a token: d_model.
    #[doc(alias = "d_model")]
    pub fn features(&self) -> usize {
        self.attending.residual.norm.features()
    }

    /// The attention between the block's tokens.
    pub fn attention(&self) -> &MultiHeadAttention {
        &self.attending.attention
    }

    /// y \[batch, tokens, features\] for x of the same shape. `attention` says how the heads attend: masks, scale.
    ///
    /// # Errors
    /// [`Error::Shape`] if x has other features than the block, and what `attention` refuses.
    pub fn forward(&self, x: Sequences<'_>, attention: &Attention<'_>) -> Result<Tensor<3>, Error> {
        let mut y = copy(x, self.features())?;
        self.run(&mut y, x.shape(), Source::Own, attention, None, &mut LayerWorkspace::new())?;
        Ok(y)
    }

    /// As [`forward`](Self::forward), with the attention weights \[batch, heads, tokens, tokens\].
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    ///
    /// ```
    /// use regard::{
    ///     Activation, Attention, EncoderBlock, EncoderParts, FeedForward, Linear, MultiHeadAttention, Norm,
    ///     Mask, Projections, Sequences,
    /// };
    /// let zero = || Linear::from_pytorch([0.0], 1, 1);
    /// let projections = Projections { query: zero()?, key: zero()?, value: zero()?, output: zero()? };
    /// let block = EncoderBlock::pre_norm(EncoderParts {
    ///     attention_norm: Norm::rms(vec![1.0], 1e-6)?,
    ///     attention: MultiHeadAttention::new(1, projections)?,
    ///     feed_forward_norm: Norm::rms(vec![1.0], 1e-6)?,
    ///     feed_forward: FeedForward::new(zero()?, Activation::Silu, zero()?)?,
    /// })?;
    /// let x = Sequences::new("x", &[3.0, 5.0], [1, 2, 1])?;
    /// let (y, weights) = block.forward_with_weights(x, &Attention::new().mask(Mask::CAUSAL))?;
    /// assert_eq!(*y, [3.0, 5.0]);
    /// assert_eq!(*weights, [1.0, 0.0, 0.5, 0.5]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward_with_weights(
        &self,
        x: Sequences<'_>,
        attention: &Attention<'_>,
    ) -> Result<(Tensor<3>, Tensor<4>), Error> {
        let (mut y, mut weights) = (copy(x, self.features())?, Vec::new());
        let workspace = &mut LayerWorkspace::new();
        self.run(&mut y, x.shape(), Source::Own, attention, Some(&mut weights), workspace)?;
        let [batch, n, _] = x.shape();
        let none = || Tensor::zeros("the weights", [batch, self.attention().heads(), n, n]);
        Ok((y, weights.pop().map_or_else(none, Ok)?))
    }

    /// x ← y for x of `shape` \[batch, tokens, features\]; for tokens that follow those in the `cache`, if there is one (see
    /// [`forward_cached`](Self::forward_cached)). On one thread, a call with the `workspace` of an earlier call of the same
    /// shape allocates nothing.
    ///
    /// # Errors
    /// As [`forward`](Self::forward) and [`forward_cached`](Self::forward_cached), and [`Error::Elements`] if x has another
    /// number of elements than its shape. After an error the cache is as it was, and x may hold anything.
    pub fn forward_in_place<T: Element>(
        &self,
        x: &mut [f32],
        shape: [usize; 3],
        cache: Option<&mut KvCache<T>>,
        attention: &Attention<'_>,
        workspace: &mut LayerWorkspace,
    ) -> Result<(), Error> {
        check_elements("the input", x.len(), &shape)?;
        check_features(shape, self.features())?;
        let Some(cache) = cache else {
            return self.run(x, shape, Source::Own, attention, None, workspace);
        };
        let len = cache.len();
        let done = self.run(x, shape, Source::Cached(cache), attention, None, workspace);
        if done.is_err() {
            cache.undo_to(len);
        }
        done
    }

    /// After an error, a cache may hold more tokens than before.
    pub(crate) fn run(
        &self,
        x: &mut [f32],
        shape: [usize; 3],
        source: Source<'_>,
        attention: &Attention<'_>,
        weights: Option<&mut Vec<Tensor<4>>>,
        workspace: &mut LayerWorkspace,
    ) -> Result<(), Error> {
        let Self { attending, feeding, parallel } = self;
        attending.attend(x, shape, source, attention, weights, workspace)?;
        // Either sublayer only adds to x, so that in a parallel block the one that goes first must have read x before the
        // other adds to it. The heads have read x.
        if *parallel {
            feeding.run(x)?;
            attending.join(x, shape, workspace)
        } else {
            attending.join(x, shape, workspace)?;
            feeding.run(x)
        }
    }
}

/// One block of the decoder of an encoder–decoder model: self-attention, attention to what the encoder gave, and a
/// feed-forward layer, each with a norm and a residual connection.
///
/// ```
/// use regard::{
///     Activation, Attention, DecoderAttention, DecoderBlock, DecoderParts, FeedForward, Linear, MultiHeadAttention,
///     Mask, Norm, Projections, Sequences,
/// };
/// let zero = |inputs, outputs| Linear::from_pytorch(vec![0.0; inputs * outputs], inputs, outputs);
/// // The memory has three features, the decoder's tokens have two.
/// let attention = |keys| {
///     let projections =
///         Projections { query: zero(2, 2)?, key: zero(keys, 2)?, value: zero(keys, 2)?, output: zero(2, 2)? };
///     MultiHeadAttention::new(1, projections)
/// };
/// let norm = || Norm::rms(vec![1.0; 2], 1e-5);
/// let block = DecoderBlock::pre_norm(DecoderParts {
///     self_attention_norm: norm()?,
///     self_attention: attention(2)?,
///     cross_attention_norm: norm()?,
///     cross_attention: attention(3)?,
///     feed_forward_norm: norm()?,
///     feed_forward: FeedForward::new(zero(2, 4)?, Activation::Relu, zero(4, 2)?)?,
/// })?;
///
/// let (x, memory) = ([1.0, 2.0, 3.0, 4.0], [0.5; 9]);
/// let (x_view, memory) = (Sequences::new("x", &x, [1, 2, 2])?, Sequences::new("x", &memory, [1, 3, 3])?);
/// let attention = DecoderAttention {
///     self_attention: Attention::new().mask(Mask::CAUSAL),
///     cross_attention: Attention::new(),
/// };
/// assert_eq!(block.forward(x_view, memory, &attention)?, x);
/// # Ok::<(), regard::Error>(())
/// ```
#[doc(alias = "T5")]
#[doc(alias = "TransformerDecoderLayer")]
#[derive(Clone, Debug)]
pub struct DecoderBlock {
    own: Attending,
    cross: Attending,
    feeding: Feeding,
}

/// The parts of a [`DecoderBlock`], all of the same number of features, except for the key and value projections of
/// `cross_attention`: they take the features of the memory.
#[derive(Clone, Debug)]
pub struct DecoderParts {
    /// The norm of the self-attention: before it, or after its residual connection.
    pub self_attention_norm: Norm,
    /// The attention between the decoder's tokens.
    pub self_attention: MultiHeadAttention,
    /// The norm of the cross-attention: before it, or after its residual connection.
    pub cross_attention_norm: Norm,
    /// The attention to the memory.
    pub cross_attention: MultiHeadAttention,
    /// The norm of the feed-forward layer: before it, or after its residual connection.
    pub feed_forward_norm: Norm,
    /// The feed-forward layer.
    pub feed_forward: FeedForward,
}

/// How the heads of a decoder block attend.
#[derive(Clone, Debug, Default)]
pub struct DecoderAttention<'a> {
    /// How the decoder's tokens attend to each other: causally, as a rule.
    pub self_attention: Attention<'a>,
    /// How they attend to the memory.
    pub cross_attention: Attention<'a>,
}

impl DecoderBlock {
    /// A norm before each sublayer: x + f(norm(x)).
    ///
    /// # Errors
    /// [`Error::Shape`] if a part has other features than the self-attention's norm, except for the keys and values of
    /// `cross_attention`, which are made of the memory.
    pub fn pre_norm(parts: DecoderParts) -> Result<Self, Error> {
        Self::new(parts, false)
    }

    /// A norm after each residual connection: norm(x + f(x)) (Vaswani et al. 2017, section 3.1).
    ///
    /// # Errors
    /// As [`pre_norm`](Self::pre_norm).
    pub fn post_norm(parts: DecoderParts) -> Result<Self, Error> {
        Self::new(parts, true)
    }

    fn new(parts: DecoderParts, after: bool) -> Result<Self, Error> {
        let attending =
            |attention, norm| Attending { attention, residual: Residual::new(norm, after) };
        let features = parts.self_attention_norm.features();
        let own = attending(parts.self_attention, parts.self_attention_norm);
        own.check(SELF_ATTENTION, features, true)?;
        let cross = attending(parts.cross_attention, parts.cross_attention_norm);
        cross.check(CROSS_ATTENTION, features, false)?;
        let residual = Residual::new(parts.feed_forward_norm, after);
        let feeding = Feeding { layer: parts.feed_forward, residual };
        feeding.check(features)?;
        Ok(Self { own, cross, feeding })
    }

    /// The number of features of a token: d_model.
    #[doc(alias = "d_model")]
    pub fn features(&self) -> usize {
        self.own.residual.norm.features()
    }

    /// The attention between the decoder's tokens.
    pub fn self_attention(&self) -> &MultiHeadAttention {
        &self.own.attention
    }

    /// The attention to the memory.
    pub fn cross_attention(&self) -> &MultiHeadAttention {
        &self.cross.attention
    }

    /// y \[batch, n_q, features\] for x of the same shape and `memory` \[batch, n_k, memory features\], which is what the encoder
    /// gave.
    ///
    /// # Errors
    /// [`Error::Shape`] if x has other features than the block or the memory other features than the cross-attention's keys,
    /// and what the attentions refuse.
    pub fn forward(
        &self,
        x: Sequences<'_>,
        memory: Sequences<'_>,
        attention: &DecoderAttention<'_>,
    ) -> Result<Tensor<3>, Error> {
        let mut y = copy(x, self.features())?;
        let sources = [Source::Own, Source::Memory(memory)];
        self.run(&mut y, x.shape(), sources, attention, None, &mut LayerWorkspace::new())?;
        Ok(y)
    }

    /// x ← y for tokens x of `shape` \[batch, tokens, features\] that follow those in the `cache`: see
    /// [`forward_cached`](Self::forward_cached). On one thread, a call with the `workspace` of an earlier call of the same
    /// shape allocates nothing.
    ///
    /// # Errors
    /// As [`forward_cached`](Self::forward_cached), and [`Error::Elements`] if x has another number of elements than its
    /// shape. After an error the cache is as it was, and x may hold anything.
    pub fn forward_in_place<T: Element>(
        &self,
        x: &mut [f32],
        shape: [usize; 3],
        cache: &mut DecoderCache<T>,
        attention: &DecoderAttention<'_>,
        workspace: &mut LayerWorkspace,
    ) -> Result<(), Error> {
        check_elements("the input", x.len(), &shape)?;
        check_features(shape, self.features())?;
        let len = cache.len();
        let done = self.run(x, shape, cache.sources(), attention, None, workspace);
        if done.is_err() {
            cache.undo_to(len);
        }
        done
    }

    /// `weights` are those of self-attention and of cross-attention. After an error, a cache may hold more tokens than before.
    pub(crate) fn run(
        &self,
        x: &mut [f32],
        shape: [usize; 3],
        [own, cross]: [Source<'_>; 2],
        attention: &DecoderAttention<'_>,
        weights: Option<[&mut Vec<Tensor<4>>; 2]>,
        workspace: &mut LayerWorkspace,
    ) -> Result<(), Error> {
        let DecoderAttention { self_attention, cross_attention } = attention;
        let [own_weights, cross_weights] = match weights {
            Some(weights) => weights.map(Some),
            None => [None, None],
        };
        self.own.run(x, shape, own, self_attention, own_weights, workspace)?;
        self.cross.run(x, shape, cross, cross_attention, cross_weights, workspace)?;
        self.feeding.run(x)
    }
}

/// What errors call the inputs and outputs of queries, the inputs of keys and values, and the norm.
const SELF_ATTENTION: [&str; 3] = [
    "the self-attention's query inputs and outputs",
    "the self-attention's key and value inputs",
    "the self-attention's norm",
];
const CROSS_ATTENTION: [&str; 3] = [
    "the cross-attention's query inputs and outputs",
    "the cross-attention's key and value inputs",
    "the cross-attention's norm",
];

/// `Ok` if tokens of `shape` have the block's features.
pub(crate) fn check_features(shape: [usize; 3], features: usize) -> Result<(), Error> {
    let [batch, n, _] = shape;
    check_shape("the input", &shape, &[batch, n, features], "the block's features")
}

/// A copy of x, if it has the block's features.
pub(crate) fn copy(x: Sequences<'_>, features: usize) -> Result<Tensor<3>, Error> {
    check_features(x.shape(), features)?;
    let mut copy = Tensor::zeros("the output of the block", x.shape())?;
    copy.copy_from_slice(x.data());
    Ok(copy)
}
