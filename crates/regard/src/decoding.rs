//! A layer that continues a cache of keys and values: first a prefill in parts, and then one token at a time.

use crate::error::Error;
use crate::{Attention, KvCache, KvCacheShape, MultiHeadAttention, Sequences, Tensor};

impl MultiHeadAttention {
    /// An empty cache for this layer's keys and values. It has room for `capacity` tokens of each of `batch` sequences.
    ///
    /// # Errors
    /// [`Error::Memory`] if the cache does not fit in memory.
    pub fn cache(&self, batch: usize, capacity: usize) -> Result<KvCache, Error> {
        KvCache::new(KvCacheShape {
            batch,
            kv_heads: self.kv_heads(),
            capacity,
            key_dim: self.head_dim(),
            value_dim: self.value_head_dim(),
        })
    }

    /// Self-attention of tokens `x` \[batch, n, …\] that follow those in the `cache`. Their keys and values are appended to the
    /// cache, and each query attends to all keys in it that `attention` shows to it. Rotary positions continue after those of
    /// the tokens in the cache.
    ///
    /// The output \[batch, n, outputs\] has the bits of these tokens' rows in one [`forward`](Self::forward) of all tokens, if
    /// `attention` hides the same keys, as [`Mask::CAUSAL`](crate::Mask::CAUSAL) does. A mask that refers to positions must
    /// place the first token of `x` after those in the cache, as [`Position::BottomRight`](crate::Position::BottomRight) does.
    ///
    /// # Errors
    /// As [`forward`](Self::forward); [`Error::CachePosition`] if a part of the mask places `x` elsewhere; [`Error::CacheFull`]
    /// if the cache has no room for these tokens; [`Error::Positions`] if rotary positions end before them. The cache is then
    /// unchanged.
    ///
    /// ```
    /// use regard::{Attention, Linear, Mask, MultiHeadAttention, Projections, Sequences};
    /// let one = || Linear::from_pytorch([1.0], [1, 1]);
    /// let projections = Projections { query: one()?, key: one()?, value: one()?, output: one()? };
    /// let layer = MultiHeadAttention::new(1, projections)?;
    /// let causal = Attention::new().scale(0.0).mask(Mask::CAUSAL);
    /// let mut cache = layer.cache(1, 16)?;
    /// let prefill = layer.forward_cached(Sequences::new("x", &[1.0, 3.0], [1, 2, 1])?, &mut cache, &causal)?;
    /// let token = layer.forward_cached(Sequences::new("x", &[8.0], [1, 1, 1])?, &mut cache, &causal)?;
    /// assert!(prefill == [1.0, 2.0] && token == [4.0]); // each the mean of all tokens so far
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward_cached(
        &self,
        x: Sequences<'_>,
        cache: &mut KvCache,
        attention: &Attention<'_>,
    ) -> Result<Tensor<3>, Error> {
        let [batch, n, _] = x.shape();
        let mut out = Tensor::zeros("the output", [batch, n, self.outputs()])?;
        let len = cache.len();
        attention.mask.check_cached(len)?;
        let done = self.attend([x; 3], cache.position(), out.as_mut_slice(), |[q, k, v], out| {
            cache.append(k, v)?;
            attention.attend((q, cache.keys(), cache.values()), out, &mut [])
        });
        if done.is_err() {
            cache.truncate(len);
        }
        done.map(|()| out)
    }
}
