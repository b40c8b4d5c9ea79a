//! Transformer blocks.

use crate::error::{Error, check_shape};
use crate::view::zeros;
use crate::{Attention, FeedForward, KvCache, MultiHeadAttention, Norm, Sequences};

/// Attention with its norm and its residual connection.
#[derive(Clone, Debug)]
struct Attending {
    attention: MultiHeadAttention,
    norm: Norm,
}

/// What keys and values are made of.
pub(crate) enum Keys<'a> {
    /// The same tokens as the queries.
    Own,
    /// Those, behind the tokens of a cache.
    Cached(&'a mut KvCache),
    Memory(Sequences<'a>),
}

impl Attending {
    /// x ← x + f(norm(x)), or norm(x + f(x)) if the norm comes `after`; for x of `shape` \[batch, tokens, features\]. Returns
    /// the weights of self-attention, or nothing if they are not wanted.
    fn run(
        &self,
        x: &mut [f32],
        shape: [usize; 3],
        keys: Keys<'_>,
        attention: &Attention<'_>,
        after: bool,
        weights: bool,
    ) -> Result<Vec<f32>, Error> {
        let normed = if after {
            None
        } else {
            Some(self.norm.forward(Sequences::new("the input", x, shape)?)?)
        };
        let query = Sequences::new("the input", normed.as_deref().unwrap_or(x), shape)?;
        let weights =
            if weights { self.attention.weights(query, query, attention)? } else { Vec::new() };
        let attended = match keys {
            Keys::Own => self.attention.attend(query, query, query, attention)?,
            Keys::Cached(cache) => self.attention.attend_cached(query, cache, attention)?,
            Keys::Memory(memory) => {
                let ([batch, n_k, found], [features, _]) =
                    (memory.shape(), self.attention.key_value_features());
                let why = "the cross-attention's key and value inputs";
                check_shape("the memory", &[batch, n_k, found], &[batch, n_k, features], why)?;
                self.attention.attend(query, memory, memory, attention)?
            }
        };
        let [_, n, _] = shape;
        self.attention.join(&attended, n, x, true)?;
        if after {
            self.norm.forward_in_place(x)?;
        }
        Ok(weights)
    }

    fn check(
        &self,
        tensor: [&'static str; 3],
        features: usize,
        own_keys: bool,
    ) -> Result<(), Error> {
        let [queries, keys, norm] = tensor;
        let d_model = "the block's features";
        let found = [self.attention.query_features(), self.attention.outputs()];
        check_shape(queries, &found, &[features; 2], d_model)?;
        let [key, value] = self.attention.key_value_features();
        let expected = if own_keys { [features; 2] } else { [key; 2] };
        check_shape(
            keys,
            &[key, value],
            &expected,
            if own_keys { d_model } else { "keys and values of one memory" },
        )?;
        check_shape(norm, &[self.norm.features()], &[features], d_model)
    }
}

/// The last part of every block.
#[derive(Clone, Debug)]
struct Feeding {
    layer: FeedForward,
    norm: Norm,
}

impl Feeding {
    fn check(&self, features: usize) -> Result<(), Error> {
        let found = [self.layer.inputs(), self.layer.outputs()];
        check_shape(
            "the feed-forward layer's inputs and outputs",
            &found,
            &[features; 2],
            "the block's features",
        )?;
        check_shape(
            "the feed-forward norm",
            &[self.norm.features()],
            &[features],
            "the block's features",
        )
    }
}

/// One block of an encoder: self-attention, then a feed-forward layer, each with a norm and a residual connection.
///
/// Under a causal mask, this is the block of a decoder-only model too.
///
/// ```
/// use regard::{Activation, Attention, EncoderBlock, FeedForward, Linear, MultiHeadAttention, Norm, Sequences};
/// let zero = |inputs, outputs| Linear::new(vec![0.0; inputs * outputs], inputs, outputs);
/// let attention = MultiHeadAttention::new(2, zero(4, 4)?, zero(4, 4)?, zero(4, 4)?, zero(4, 4)?)?;
/// let feed_forward = FeedForward::new(zero(4, 8)?, Activation::Gelu, zero(8, 4)?)?;
/// let norm = || Norm::layer(vec![1.0; 4], vec![0.0; 4], 1e-5);
/// let block = EncoderBlock::pre_norm(norm()?, attention, norm()?, feed_forward)?;
///
/// let x = [1.0, 2.0, 3.0, 4.0];
/// let y = block.forward(Sequences::new("x", &x, [1, 1, 4])?, &Attention::new())?;
/// assert_eq!(y, x); // nothing but the residual connections
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct EncoderBlock {
    attending: Attending,
    feeding: Feeding,
    /// The norms come after the residual connections.
    after: bool,
}

impl EncoderBlock {
    /// h = x + attention(norm(x)), y = h + feed_forward(norm(h)): GPT-2, Llama (Xiong et al. 2020).
    ///
    /// # Errors
    /// [`Error::Shape`] if a part has other features than the first norm.
    pub fn pre_norm(
        attention_norm: Norm,
        attention: MultiHeadAttention,
        feed_forward_norm: Norm,
        feed_forward: FeedForward,
    ) -> Result<Self, Error> {
        Self::new(attention, attention_norm, feed_forward, feed_forward_norm, false)
    }

    /// h = norm(x + attention(x)), y = norm(h + feed_forward(h)): Vaswani et al. 2017, section 3.1; BERT.
    ///
    /// # Errors
    /// [`Error::Shape`] if a part has other features than the first norm.
    pub fn post_norm(
        attention: MultiHeadAttention,
        attention_norm: Norm,
        feed_forward: FeedForward,
        feed_forward_norm: Norm,
    ) -> Result<Self, Error> {
        Self::new(attention, attention_norm, feed_forward, feed_forward_norm, true)
    }

    fn new(
        attention: MultiHeadAttention,
        attention_norm: Norm,
        layer: FeedForward,
        feed_forward_norm: Norm,
        after: bool,
    ) -> Result<Self, Error> {
        let features = attention_norm.features();
        let attending = Attending { attention, norm: attention_norm };
        attending.check(SELF_ATTENTION, features, true)?;
        let feeding = Feeding { layer, norm: feed_forward_norm };
        feeding.check(features)?;
        Ok(Self { attending, feeding, after })
    }

    /// The number of features of a token: d_model.
    pub fn features(&self) -> usize {
        self.attending.norm.features()
    }

    /// The attention between its tokens.
    pub(crate) fn attention(&self) -> &MultiHeadAttention {
        &self.attending.attention
    }

    /// y \[batch, tokens, features\] for x of the same shape. `attention` says how the heads attend.
    ///
    /// # Errors
    /// [`Error::Shape`] if x has other features than the block, and what `attention` refuses.
    pub fn forward(&self, x: Sequences<'_>, attention: &Attention<'_>) -> Result<Vec<f32>, Error> {
        let mut y = copy(x, self.features())?;
        self.run(&mut y, x.shape(), Keys::Own, attention, false)?;
        Ok(y)
    }

    /// As [`forward`](Self::forward), with the attention weights \[batch, heads, tokens, tokens\].
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    ///
    /// ```
    /// use regard::{Activation, Attention, EncoderBlock, FeedForward, Linear, MultiHeadAttention, Mask, Norm, Sequences};
    /// let zero = || Linear::new([0.0], 1, 1);
    /// let attention = MultiHeadAttention::new(1, zero()?, zero()?, zero()?, zero()?)?;
    /// let feed_forward = FeedForward::new(zero()?, Activation::Silu, zero()?)?;
    /// let norm = || Norm::rms(vec![1.0], 1e-6);
    /// let block = EncoderBlock::pre_norm(norm()?, attention, norm()?, feed_forward)?;
    /// let x = Sequences::new("x", &[3.0, 5.0], [1, 2, 1])?;
    /// let (y, weights) = block.forward_with_weights(x, &Attention::new().mask(Mask::CAUSAL))?;
    /// assert_eq!((y, weights), (vec![3.0, 5.0], vec![1.0, 0.0, 0.5, 0.5]));
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward_with_weights(
        &self,
        x: Sequences<'_>,
        attention: &Attention<'_>,
    ) -> Result<(Vec<f32>, Vec<f32>), Error> {
        let mut y = copy(x, self.features())?;
        let weights = self.run(&mut y, x.shape(), Keys::Own, attention, true)?;
        Ok((y, weights))
    }

    pub(crate) fn run(
        &self,
        x: &mut [f32],
        shape: [usize; 3],
        keys: Keys<'_>,
        attention: &Attention<'_>,
        weights: bool,
    ) -> Result<Vec<f32>, Error> {
        let weights = self.attending.run(x, shape, keys, attention, self.after, weights)?;
        let Feeding { layer, norm } = &self.feeding;
        layer.add_in_place(x, norm, self.after)?;
        Ok(weights)
    }
}

/// One block of the decoder of an encoder–decoder model: self-attention, attention to what the encoder gave, then a
/// feed-forward layer, each with a norm and a residual connection.
///
/// ```
/// use regard::{
///     Activation, Attention, DecoderBlock, FeedForward, Linear, MultiHeadAttention, Mask, Norm, Sequences,
/// };
/// let zero = |inputs, outputs| Linear::new(vec![0.0; inputs * outputs], inputs, outputs);
/// // The memory has three features, the decoder's tokens have two.
/// let attention = |keys| MultiHeadAttention::new(1, zero(2, 2)?, zero(keys, 2)?, zero(keys, 2)?, zero(2, 2)?);
/// let norm = || Norm::rms(vec![1.0; 2], 1e-5);
/// let feed_forward = FeedForward::new(zero(2, 4)?, Activation::Relu, zero(4, 2)?)?;
/// let block = DecoderBlock::pre_norm(norm()?, attention(2)?, norm()?, attention(3)?, norm()?, feed_forward)?;
///
/// let (x, memory) = ([1.0, 2.0, 3.0, 4.0], [0.5; 9]);
/// let (x_view, memory) = (Sequences::new("x", &x, [1, 2, 2])?, Sequences::new("memory", &memory, [1, 3, 3])?);
/// let y = block.forward(x_view, memory, &Attention::new().mask(Mask::CAUSAL), &Attention::new())?;
/// assert_eq!(y, x);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DecoderBlock {
    own: Attending,
    cross: Attending,
    feeding: Feeding,
    /// The norms come after the residual connections.
    after: bool,
}

impl DecoderBlock {
    /// Norms before each part: x + f(norm(x)).
    ///
    /// # Errors
    /// [`Error::Shape`] if a part has other features than the first norm, but for the keys and values of `cross_attention`,
    /// which are made of the memory.
    pub fn pre_norm(
        self_attention_norm: Norm,
        self_attention: MultiHeadAttention,
        cross_attention_norm: Norm,
        cross_attention: MultiHeadAttention,
        feed_forward_norm: Norm,
        feed_forward: FeedForward,
    ) -> Result<Self, Error> {
        let own = Attending { attention: self_attention, norm: self_attention_norm };
        let cross = Attending { attention: cross_attention, norm: cross_attention_norm };
        Self::new(own, cross, Feeding { layer: feed_forward, norm: feed_forward_norm }, false)
    }

    /// Norms after each part: norm(x + f(x)) (Vaswani et al. 2017, section 3.1).
    ///
    /// # Errors
    /// As [`pre_norm`](Self::pre_norm).
    pub fn post_norm(
        self_attention: MultiHeadAttention,
        self_attention_norm: Norm,
        cross_attention: MultiHeadAttention,
        cross_attention_norm: Norm,
        feed_forward: FeedForward,
        feed_forward_norm: Norm,
    ) -> Result<Self, Error> {
        let own = Attending { attention: self_attention, norm: self_attention_norm };
        let cross = Attending { attention: cross_attention, norm: cross_attention_norm };
        Self::new(own, cross, Feeding { layer: feed_forward, norm: feed_forward_norm }, true)
    }

    fn new(own: Attending, cross: Attending, feeding: Feeding, after: bool) -> Result<Self, Error> {
        let features = own.norm.features();
        own.check(SELF_ATTENTION, features, true)?;
        cross.check(CROSS_ATTENTION, features, false)?;
        feeding.check(features)?;
        Ok(Self { own, cross, feeding, after })
    }

    /// The number of features of a token: d_model.
    pub fn features(&self) -> usize {
        self.own.norm.features()
    }

    /// y \[batch, n_q, features\] for x of the same shape and `memory` \[batch, n_k, memory features\], what the encoder gave.
    /// `self_attention` says how the tokens attend to each other, `cross_attention` how to the memory.
    ///
    /// # Errors
    /// [`Error::Shape`] if x has other features than the block or the memory others than its keys, and what the attentions
    /// refuse.
    pub fn forward(
        &self,
        x: Sequences<'_>,
        memory: Sequences<'_>,
        self_attention: &Attention<'_>,
        cross_attention: &Attention<'_>,
    ) -> Result<Vec<f32>, Error> {
        let mut y = copy(x, self.features())?;
        self.run(&mut y, x.shape(), memory, self_attention, cross_attention)?;
        Ok(y)
    }

    pub(crate) fn run(
        &self,
        x: &mut [f32],
        shape: [usize; 3],
        memory: Sequences<'_>,
        self_attention: &Attention<'_>,
        cross_attention: &Attention<'_>,
    ) -> Result<(), Error> {
        self.own.run(x, shape, Keys::Own, self_attention, self.after, false)?;
        self.cross.run(x, shape, Keys::Memory(memory), cross_attention, self.after, false)?;
        let Feeding { layer, norm } = &self.feeding;
        layer.add_in_place(x, norm, self.after)
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

/// A copy of x, if it has the block's features.
pub(crate) fn copy(x: Sequences<'_>, features: usize) -> Result<Vec<f32>, Error> {
    let [batch, n, found] = x.shape();
    check_shape("the input", &[batch, n, found], &[batch, n, features], "the block's features")?;
    let mut copy = zeros("the output of the block", &[batch, n, features])?;
    copy.copy_from_slice(x.data());
    Ok(copy)
}
