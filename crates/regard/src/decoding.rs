//! Layers that continue a cache of keys and values: a prefill in parts, then a token at a time.

use crate::block::{Source, check_memory, copy};
use crate::error::Error;
use crate::multi_head::Keys;
use crate::{
    Attention, Decoder, DecoderAttention, DecoderBlock, Element, Encoder, EncoderBlock, KvCache,
    KvCacheShape, LayerWorkspace, MultiHeadAttention, Sequences, Tensor,
};

impl MultiHeadAttention {
    /// The shape of a cache for this layer's keys and values of up to `capacity` tokens of each of `batch` sequences.
    pub fn cache_shape(&self, batch: usize, capacity: usize) -> KvCacheShape {
        KvCacheShape {
            batch,
            kv_heads: self.kv_heads(),
            capacity,
            key_dim: self.head_dim(),
            value_dim: self.value_head_dim(),
        }
    }

    /// An empty cache for this layer's keys and values of up to `capacity` tokens of each of `batch` sequences.
    ///
    /// # Errors
    /// [`Error::Memory`] if the cache does not fit in memory.
    pub fn cache(&self, batch: usize, capacity: usize) -> Result<KvCache, Error> {
        self.cache_of(batch, capacity)
    }

    /// As [`cache`](Self::cache), in the precision of `T`: `layer.cache_of::<bf16>(batch, capacity)` takes half the memory.
    ///
    /// # Errors
    /// As [`cache`](Self::cache).
    pub fn cache_of<T: Element>(&self, batch: usize, capacity: usize) -> Result<KvCache<T>, Error> {
        KvCache::new(self.cache_shape(batch, capacity))
    }

    /// Self-attention of tokens `x` \[batch, n, …\] that follow those in the `cache`: their keys and values are appended to it,
    /// and each query attends to all keys in it that `attention` lets it see. Rotary positions continue after those of the
    /// tokens in the cache. Where the sequences in the cache have different lengths (see [`KvCache`]), each goes on after its
    /// own last token, and its keys are hidden from there on.
    ///
    /// The output \[batch, n, outputs\] has the bits of these tokens' rows in one [`forward`](Self::forward) of all tokens, if
    /// `attention` hides the same keys: with [`Mask::CAUSAL`](crate::Mask::CAUSAL), for example. Whatever goes by positions
    /// must place the first token of `x` after those in the cache, as
    /// [`Position::BottomRight`](crate::Position::BottomRight) does.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), [`Error::CachePosition`] if a part of the mask places `x` elsewhere, [`Error::CacheFull`] if there is no room for so many tokens, and [`Error::Positions`] if
    /// rotary positions end before them. The cache is then as it was.
    ///
    /// ```
    /// use regard::{Attention, Linear, Mask, MultiHeadAttention, Projections, Sequences};
    /// let one = || Linear::from_pytorch([1.0], 1, 1);
    /// let projections = Projections { query: one()?, key: one()?, value: one()?, output: one()? };
    /// let layer = MultiHeadAttention::new(1, projections)?;
    /// let causal = Attention::new().scale(0.0).mask(Mask::CAUSAL);
    /// let mut cache = layer.cache(1, 16)?;
    /// let prefill = layer.forward_cached(Sequences::new("x", &[1.0, 3.0], [1, 2, 1])?, &mut cache, &causal)?;
    /// let token = layer.forward_cached(Sequences::new("x", &[8.0], [1, 1, 1])?, &mut cache, &causal)?;
    /// assert_eq!((&prefill[..], &token[..]), (&[1.0, 2.0][..], &[4.0][..])); // each the mean of all tokens so far
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward_cached<T: Element>(
        &self,
        x: Sequences<'_>,
        cache: &mut KvCache<T>,
        attention: &Attention<'_>,
    ) -> Result<Tensor<3>, Error> {
        let len = cache.len();
        let out = self.output_for(x, Keys::Cached(cache), attention);
        if out.is_err() {
            cache.undo_to(len);
        }
        out
    }
}

impl EncoderBlock {
    /// An empty cache for the keys and values of up to `capacity` tokens of each of `batch` sequences.
    ///
    /// # Errors
    /// [`Error::Memory`] if the cache does not fit in memory.
    pub fn cache(&self, batch: usize, capacity: usize) -> Result<KvCache, Error> {
        self.attention().cache(batch, capacity)
    }

    /// y \[batch, n, features\] for tokens x of the same shape that follow those in the `cache`: see
    /// [`MultiHeadAttention::forward_cached`].
    ///
    /// # Errors
    /// As [`forward`](Self::forward) and [`MultiHeadAttention::forward_cached`]. The cache is then as it was.
    pub fn forward_cached<T: Element>(
        &self,
        x: Sequences<'_>,
        cache: &mut KvCache<T>,
        attention: &Attention<'_>,
    ) -> Result<Tensor<3>, Error> {
        let mut y = copy(x, self.features())?;
        let workspace = &mut LayerWorkspace::new();
        self.forward_in_place(&mut y, x.shape(), Some(cache), attention, workspace)?;
        Ok(y)
    }
}

impl Encoder {
    /// An empty cache for each block, for the keys and values of up to `capacity` tokens of each of `batch` sequences.
    ///
    /// # Errors
    /// [`Error::Memory`] if the caches do not fit in memory.
    pub fn caches(&self, batch: usize, capacity: usize) -> Result<Vec<KvCache>, Error> {
        self.caches_of(batch, capacity)
    }

    /// As [`caches`](Self::caches), in the precision of `T`: `model.caches_of::<bf16>(batch, capacity)` takes half the memory.
    ///
    /// # Errors
    /// As [`caches`](Self::caches).
    pub fn caches_of<T: Element>(
        &self,
        batch: usize,
        capacity: usize,
    ) -> Result<Vec<KvCache<T>>, Error> {
        let cache = |block: &EncoderBlock| block.attention().cache_of(batch, capacity);
        self.blocks().iter().map(cache).collect()
    }

    /// y \[batch, n, features\] for tokens x of the same shape that follow those in the `caches`, one for each block: how a
    /// decoder-only model reads a prompt, and then writes. See [`MultiHeadAttention::forward_cached`].
    ///
    /// [`forward_into`](Self::forward_into) is the same without allocations, and with an attention for each block.
    ///
    /// # Errors
    /// As [`forward`](Self::forward) and [`MultiHeadAttention::forward_cached`], and [`Error::Shape`] if there are not as many
    /// caches as blocks. The caches are then as they were.
    ///
    /// ```
    /// use regard::{
    ///     Activation, Attention, Encoder, EncoderBlock, EncoderParts, FeedForward, Linear, MultiHeadAttention, Norm,
    ///     Mask, Projections, Sequences,
    /// };
    /// let linear = |w: f32| Linear::from_pytorch([w; 4], 2, 2);
    /// let projections =
    ///     Projections { query: linear(0.5)?, key: linear(0.5)?, value: linear(0.5)?, output: linear(0.5)? };
    /// let norm = || Norm::rms(vec![1.0; 2], 1e-6);
    /// let block = EncoderBlock::pre_norm(EncoderParts {
    ///     attention_norm: norm()?,
    ///     attention: MultiHeadAttention::new(1, projections)?,
    ///     feed_forward_norm: norm()?,
    ///     feed_forward: FeedForward::new(linear(0.5)?, Activation::Gelu, linear(0.5)?)?,
    /// })?;
    /// let model = Encoder::new(vec![block], Some(norm()?))?;
    ///
    /// let causal = Attention::new().mask(Mask::CAUSAL);
    /// let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; // three tokens
    /// let mut caches = model.caches(1, 64)?;
    /// let prompt = model.forward_cached(Sequences::new("x", &x[..4], [1, 2, 2])?, &mut caches, &causal)?;
    /// let next = model.forward_cached(Sequences::new("x", &x[4..], [1, 1, 2])?, &mut caches, &causal)?;
    /// let whole = model.forward(Sequences::new("x", &x, [1, 3, 2])?, &causal)?;
    /// assert_eq!([&prompt[..], &next[..]].concat(), whole[..]); // to the bit
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[doc(alias = "generate")]
    pub fn forward_cached<T: Element>(
        &self,
        x: Sequences<'_>,
        caches: &mut [KvCache<T>],
        attention: &Attention<'_>,
    ) -> Result<Tensor<3>, Error> {
        let mut y = Tensor::zeros("the output of the stack", x.shape())?;
        let workspace = &mut LayerWorkspace::new();
        self.forward_into(x, Some(caches), |_| attention.clone(), &mut y, workspace)?;
        Ok(y)
    }
}

/// The keys and values of a [`DecoderBlock`]: those of its own tokens so far, and those of the memory, which are computed once.
///
/// It is made with [`DecoderBlock::cache`] or [`Decoder::caches`].
#[derive(Clone, Debug)]
pub struct DecoderCache<T = f32> {
    own: KvCache<T>,
    cross: KvCache<T>,
}

impl<T: Element> DecoderCache<T> {
    /// The number of the decoder's tokens so far.
    pub fn len(&self) -> usize {
        self.own.len()
    }

    /// Whether there is no token yet.
    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
    }

    /// The most tokens of the decoder.
    pub fn capacity(&self) -> usize {
        self.own.capacity()
    }

    /// Forgets all but the first tokens of each sequence, \[batch\] of them. The memory's keys and values stay.
    ///
    /// # Errors
    /// As [`KvCache::truncate_each`].
    pub fn truncate_each(&mut self, lengths: &[usize]) -> Result<(), Error> {
        self.own.truncate_each(lengths)
    }

    /// Forgets all but the first `len` tokens of the decoder. The memory's keys and values stay.
    pub fn truncate(&mut self, len: usize) {
        self.own.truncate(len);
    }

    /// Forgets the newest tokens of the decoder, so that the longest sequence has `len`: what an error undoes.
    pub(crate) fn undo_to(&mut self, len: usize) {
        self.own.undo_to(len);
    }

    /// What self-attention and cross-attention attend to.
    pub(crate) fn sources(&mut self) -> [Source<'_>; 2] {
        let first = self.own.len();
        [Source::Cached(&mut self.own), Source::Kept(&self.cross, first)]
    }
}

impl DecoderBlock {
    /// A cache for up to `capacity` tokens, with the keys and values of `memory` \[batch, n_k, memory features\], which are
    /// computed here and never again.
    ///
    /// # Errors
    /// [`Error::Shape`] if the memory has other features than the cross-attention's keys, [`Error::Memory`] if there is no
    /// memory for the cache.
    pub fn cache(&self, memory: Sequences<'_>, capacity: usize) -> Result<DecoderCache, Error> {
        self.cache_of(memory, capacity)
    }

    /// As [`cache`](Self::cache), in the precision of `T`.
    ///
    /// # Errors
    /// As [`cache`](Self::cache).
    pub fn cache_of<T: Element>(
        &self,
        memory: Sequences<'_>,
        capacity: usize,
    ) -> Result<DecoderCache<T>, Error> {
        let ([batch, n_k, _], layer) = (memory.shape(), self.cross_attention());
        check_memory(layer, memory)?;
        let mut cross = layer.cache_of::<T>(batch, n_k)?;
        layer.key_values(memory, |k, v| cross.append_rounded(k, v))?;
        Ok(DecoderCache { own: self.self_attention().cache_of(batch, capacity)?, cross })
    }

    /// y \[batch, n, features\] for tokens x of the same shape that follow those in the `cache`: the bits of these tokens' rows in
    /// one [`forward`](Self::forward) of all tokens with the cache's memory, if the self-attention hides the same keys. See
    /// [`MultiHeadAttention::forward_cached`].
    ///
    /// # Errors
    /// As [`forward`](Self::forward) and [`MultiHeadAttention::forward_cached`]. The cache is then as it was.
    pub fn forward_cached<T: Element>(
        &self,
        x: Sequences<'_>,
        cache: &mut DecoderCache<T>,
        attention: &DecoderAttention<'_>,
    ) -> Result<Tensor<3>, Error> {
        let mut y = copy(x, self.features())?;
        let workspace = &mut LayerWorkspace::new();
        self.forward_in_place(&mut y, x.shape(), cache, attention, workspace)?;
        Ok(y)
    }
}

impl Decoder {
    /// A cache for each block: see [`DecoderBlock::cache`].
    ///
    /// # Errors
    /// As [`DecoderBlock::cache`].
    pub fn caches(
        &self,
        memory: Sequences<'_>,
        capacity: usize,
    ) -> Result<Vec<DecoderCache>, Error> {
        self.blocks().iter().map(|block| block.cache(memory, capacity)).collect()
    }

    /// y \[batch, n, features\] for tokens x of the same shape that follow those in the `caches`, one for each block: see
    /// [`DecoderBlock::forward_cached`].
    ///
    /// [`forward_into`](Self::forward_into) is the same without allocations, and with attentions for each block.
    ///
    /// # Errors
    /// As [`DecoderBlock::forward_cached`], and [`Error::Shape`] if there are not as many caches as blocks. The caches are then
    /// as they were.
    pub fn forward_cached<T: Element>(
        &self,
        x: Sequences<'_>,
        caches: &mut [DecoderCache<T>],
        attention: &DecoderAttention<'_>,
    ) -> Result<Tensor<3>, Error> {
        let mut y = Tensor::zeros("the output of the stack", x.shape())?;
        let workspace = &mut LayerWorkspace::new();
        self.forward_into(x, caches, |_| attention.clone(), &mut y, workspace)?;
        Ok(y)
    }
}
