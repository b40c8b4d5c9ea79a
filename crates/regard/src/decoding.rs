//! Layers that go on behind a cache of keys and values: a prefill in parts, then a token at a time.

use core::slice;

use crate::block::{Keys, copy};
use crate::error::{Error, check_shape};
use crate::stack::finish;
use crate::{Attention, Encoder, EncoderBlock, KvCache, MultiHeadAttention, Sequences};

impl MultiHeadAttention {
    /// An empty cache for this layer's keys and values of up to `capacity` tokens of each of `batch` sequences.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is not so much.
    pub fn cache(&self, batch: usize, capacity: usize) -> Result<KvCache, Error> {
        let [query, _, value, _] = self.projections();
        let (d_k, d_v) = (query.outputs() / self.heads(), value.outputs() / self.kv_heads());
        KvCache::new([batch, self.kv_heads(), capacity, d_k], d_v)
    }

    /// Self-attention of tokens `x` \[batch, n, …\] that follow those in the `cache`: their keys and values are appended to it,
    /// and each query attends to all of it that `attention` lets it see. Rotary positions go on behind those in the cache.
    ///
    /// The output \[batch, n, outputs\] has the bits of these tokens' rows in one [`forward`](Self::forward) of all, if
    /// `attention` hides the same: with [`Mask::CAUSAL`](crate::Mask::CAUSAL), for example. Whatever
    /// goes by positions must place the first token of `x` after those in the cache, as
    /// [`Position::BottomRight`](crate::Position::BottomRight) does.
    ///
    /// # Errors
    /// As [`forward`](Self::forward), [`Error::CachePosition`] if a part of the mask places `x` elsewhere,
    /// [`Error::CacheFull`] if there is no room for so many tokens, and [`Error::Positions`] if
    /// rotary positions end before them. The cache is then as it was.
    ///
    /// ```
    /// use regard::{Attention, Linear, Mask, MultiHeadAttention, Sequences};
    /// let one = || Linear::new([1.0], 1, 1);
    /// let layer = MultiHeadAttention::new(1, one()?, one()?, one()?, one()?)?;
    /// let causal = Attention::new().scale(0.0).mask(Mask::CAUSAL);
    /// let mut cache = layer.cache(1, 16)?;
    /// let prefill = layer.forward_cached(Sequences::new("x", &[1.0, 3.0], [1, 2, 1])?, &mut cache, &causal)?;
    /// let token = layer.forward_cached(Sequences::new("x", &[8.0], [1, 1, 1])?, &mut cache, &causal)?;
    /// assert_eq!((prefill, token), (vec![1.0, 2.0], vec![4.0])); // each the mean of all tokens so far
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward_cached(
        &self,
        x: Sequences<'_>,
        cache: &mut KvCache,
        attention: &Attention<'_>,
    ) -> Result<Vec<f32>, Error> {
        let len = cache.len();
        let out = self
            .attend_cached(x, cache, attention)
            .and_then(|attended| self.output_of(&attended, x));
        if out.is_err() {
            cache.truncate(len);
        }
        out
    }

    /// What the heads give, \[batch, heads, n, value head_dim\]. After an error the cache may be longer than before.
    pub(crate) fn attend_cached(
        &self,
        x: Sequences<'_>,
        cache: &mut KvCache,
        attention: &Attention<'_>,
    ) -> Result<Vec<f32>, Error> {
        attention.mask.check_cached(cache.len())?;
        self.project([x; 3], cache.len(), |[q, k, v]| {
            cache.append(k, v)?;
            attention.forward(q, cache.keys(), cache.values())
        })
    }
}

impl EncoderBlock {
    /// An empty cache for the keys and values of up to `capacity` tokens of each of `batch` sequences.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is not so much.
    pub fn cache(&self, batch: usize, capacity: usize) -> Result<KvCache, Error> {
        self.attention().cache(batch, capacity)
    }

    /// y \[batch, n, features\] for tokens x of the same shape that follow those in the `cache`, as
    /// [`MultiHeadAttention::forward_cached`] has it.
    ///
    /// # Errors
    /// As [`forward`](Self::forward) and [`MultiHeadAttention::forward_cached`]. The cache is then as it was.
    pub fn forward_cached(
        &self,
        x: Sequences<'_>,
        cache: &mut KvCache,
        attention: &Attention<'_>,
    ) -> Result<Vec<f32>, Error> {
        let mut y = copy(x, self.features())?;
        run(slice::from_ref(self), &mut y, x.shape(), slice::from_mut(cache), attention)?;
        Ok(y)
    }
}

impl Encoder {
    /// An empty cache for each block, for the keys and values of up to `capacity` tokens of each of `batch` sequences.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is not so much.
    pub fn caches(&self, batch: usize, capacity: usize) -> Result<Vec<KvCache>, Error> {
        self.blocks().iter().map(|block| block.cache(batch, capacity)).collect()
    }

    /// y \[batch, n, features\] for tokens x of the same shape that follow those in the `caches`, one for each block, as
    /// [`MultiHeadAttention::forward_cached`] has it: how a decoder-only model reads a prompt, and then writes.
    ///
    /// # Errors
    /// As [`forward`](Self::forward) and [`MultiHeadAttention::forward_cached`], and [`Error::Shape`] if there are not as many
    /// caches as blocks. The caches are then as they were.
    ///
    /// ```
    /// use regard::{Activation, Attention, Encoder, EncoderBlock, FeedForward, Linear};
    /// use regard::{Mask, MultiHeadAttention, Norm, Sequences};
    /// let linear = |w: f32| Linear::new([w; 4], 2, 2);
    /// let attention = MultiHeadAttention::new(1, linear(0.5)?, linear(0.5)?, linear(0.5)?, linear(0.5)?)?;
    /// let feed_forward = FeedForward::new(linear(0.5)?, Activation::Gelu, linear(0.5)?)?;
    /// let norm = || Norm::rms(vec![1.0; 2], 1e-6);
    /// let model = Encoder::new(vec![EncoderBlock::pre_norm(norm()?, attention, norm()?, feed_forward)?], Some(norm()?))?;
    ///
    /// let causal = Attention::new().mask(Mask::CAUSAL);
    /// let x = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]; // three tokens
    /// let mut caches = model.caches(1, 64)?;
    /// let prompt = model.forward_cached(Sequences::new("x", &x[..4], [1, 2, 2])?, &mut caches, &causal)?;
    /// let next = model.forward_cached(Sequences::new("x", &x[4..], [1, 1, 2])?, &mut caches, &causal)?;
    /// let whole = model.forward(Sequences::new("x", &x, [1, 3, 2])?, &causal)?;
    /// assert_eq!([prompt, next].concat(), whole); // to the bit
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward_cached(
        &self,
        x: Sequences<'_>,
        caches: &mut [KvCache],
        attention: &Attention<'_>,
    ) -> Result<Vec<f32>, Error> {
        check_shape("the caches", &[caches.len()], &[self.blocks().len()], "one a block")?;
        let mut y = self.copy(x)?;
        run(self.blocks(), &mut y, x.shape(), caches, attention)?;
        finish(y, self.norm())
    }
}

/// x, through one block after another, each with its cache. After an error all caches are as they were.
fn run(
    blocks: &[EncoderBlock],
    x: &mut [f32],
    shape: [usize; 3],
    caches: &mut [KvCache],
    attention: &Attention<'_>,
) -> Result<(), Error> {
    let lens: Vec<usize> = caches.iter().map(KvCache::len).collect();
    let done = blocks.iter().zip(&mut *caches).try_for_each(|(block, cache)| {
        block.run(x, shape, Keys::Cached(cache), attention, false).map(|_no_weights| ())
    });
    if done.is_err() {
        caches.iter_mut().zip(lens).for_each(|(cache, len)| cache.truncate(len));
    }
    done
}
