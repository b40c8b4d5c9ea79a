//! A layer that continues a cache of keys and values: a prefill in parts, then a token at a time.

use crate::error::Error;
use crate::multi_head::Keys;
use crate::{
    Attention, Element, KvCache, KvCacheShape, LayerWorkspace, MultiHeadAttention, Sequences,
    Tensor,
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
        let mut out = Tensor::zeros("the output", self.output_shape(x))?;
        self.forward_cached_into(x, cache, attention, &mut out, &mut LayerWorkspace::new())?;
        Ok(out)
    }

    /// As [`forward_cached`](Self::forward_cached), into `out` \[batch, n, outputs\]. On one thread, a call with the `workspace`
    /// of an earlier call of the same shape allocates nothing.
    ///
    /// # Errors
    /// As [`forward_cached`](Self::forward_cached), and [`Error::Elements`] if `out` has another number of elements.
    pub fn forward_cached_into<T: Element>(
        &self,
        x: Sequences<'_>,
        cache: &mut KvCache<T>,
        attention: &Attention<'_>,
        out: &mut [f32],
        workspace: &mut LayerWorkspace,
    ) -> Result<(), Error> {
        let len = cache.len();
        let done = self.run(x, Keys::Cached(cache), attention, out, workspace);
        if done.is_err() {
            cache.undo_to(len);
        }
        done
    }
}
