use core::ops::Range;

use crate::error::{Error, check_shape};
use crate::view::zeros;
use crate::{Element, Heads};

/// The size of a [`KvCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvCacheShape {
    /// The number of sequences that are decoded side by side.
    pub batch: usize,
    /// The number of key/value heads.
    pub kv_heads: usize,
    /// The most tokens of each sequence.
    pub capacity: usize,
    /// Features of a key: head_dim.
    pub key_dim: usize,
    /// Features of a value, mostly as many as of a key.
    pub value_dim: usize,
}

/// The keys and values of the tokens so far, to which a new token attends.
///
/// Memory for the whole capacity is allocated at once. A longer text needs [`reserve`](Self::reserve), and an attention with a
/// sliding window can forget the oldest tokens by [`keep_last`](Self::keep_last). The numbers are stored in the type in which
/// they are given: `f32`, `f16` or `bf16` (see [`Element`]).
///
/// All sequences have the same number of tokens. For sequences of different lengths, take a cache for each sequence, or
/// describe memory of your own by [`Heads::strided`] and [`Mask::key_lengths`](crate::Mask::key_lengths).
///
/// ```
/// use regard::{Attention, Heads, KvCache, KvCacheShape, Mask};
/// let shape = KvCacheShape { batch: 1, kv_heads: 2, capacity: 16, key_dim: 4, value_dim: 4 };
/// let mut cache = KvCache::new(shape)?;
/// for step in 0..3 {
///     let token = [step as f32; 2 * 4];
///     let token = Heads::new("the token", &token, [1, 2, 1, 4])?;
///     cache.append(token, token)?;
///     let causal = Attention::new().mask(Mask::CAUSAL);
///     let out = causal.forward(token, cache.keys(), cache.values())?;
///     assert_eq!(out.shape(), [1, 2, 1, 4]);
/// }
/// assert_eq!(cache.len(), 3);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "past_key_values")]
pub struct KvCache<T = f32> {
    /// \[batch, kv_heads, capacity, key_dim\].
    keys: Vec<T>,
    /// \[batch, kv_heads, capacity, value_dim\].
    values: Vec<T>,
    shape: KvCacheShape,
    /// The place of the first token among the `capacity`.
    start: usize,
    len: usize,
    /// The number of tokens that [`keep_last`](Self::keep_last) has forgotten.
    forgotten: usize,
}

impl<T: Element> KvCache<T> {
    /// An empty cache.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is not enough memory.
    pub fn new(shape: KvCacheShape) -> Result<Self, Error> {
        let KvCacheShape { batch, kv_heads, capacity, key_dim, value_dim } = shape;
        let keys = zeros("the cache of keys", &[batch, kv_heads, capacity, key_dim])?;
        let values = zeros("the cache of values", &[batch, kv_heads, capacity, value_dim])?;
        Ok(Self { keys, values, shape, start: 0, len: 0, forgotten: 0 })
    }

    /// Appends the keys \[batch, kv_heads, n, key_dim\] and values \[batch, kv_heads, n, value_dim\] of n tokens to each
    /// sequence.
    ///
    /// # Errors
    /// [`Error::Shape`] if they do not fit the cache or each other, [`Error::CacheFull`] if the cache has no room for them.
    /// The cache is then unchanged.
    pub fn append(&mut self, keys: Heads<'_, T>, values: Heads<'_, T>) -> Result<(), Error> {
        let KvCacheShape { batch, kv_heads, capacity, key_dim, value_dim } = self.shape;
        let ([_, _, n, _], len) = (keys.shape(), self.len);
        check_shape("key", &keys.shape(), &[batch, kv_heads, n, key_dim], "as the cache")?;
        let expected = [batch, kv_heads, n, value_dim];
        check_shape("value", &values.shape(), &expected, "as the cache and key")?;
        if batch == 0 {
            return Ok(()); // without sequences there is nothing to append
        }
        if n > capacity - len {
            let tensor = "the cache of keys and values";
            return Err(Error::CacheFull { tensor, tokens: n, len, capacity });
        }
        if n > capacity - len - self.start {
            move_to_start(&mut self.keys, capacity, key_dim, self.start..self.start + len);
            move_to_start(&mut self.values, capacity, value_dim, self.start..self.start + len);
            self.start = 0;
        }
        store_rows(keys, &mut self.keys, capacity, self.start + len)?;
        store_rows(values, &mut self.values, capacity, self.start + len)?;
        self.len += n;
        Ok(())
    }

    /// The keys in the cache, \[batch, kv_heads, len, key_dim\].
    #[must_use]
    pub fn keys(&self) -> Heads<'_, T> {
        let KvCacheShape { batch, kv_heads, capacity, key_dim, .. } = self.shape;
        Heads::part(&self.keys, [batch, kv_heads, capacity, key_dim], self.held())
    }

    /// The values in the cache, \[batch, kv_heads, len, value_dim\].
    #[must_use]
    pub fn values(&self) -> Heads<'_, T> {
        let KvCacheShape { batch, kv_heads, capacity, value_dim, .. } = self.shape;
        Heads::part(&self.values, [batch, kv_heads, capacity, value_dim], self.held())
    }

    /// The places of the tokens among the `capacity`.
    fn held(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    /// The number of tokens of each sequence in the cache.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the cache holds no token.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The position of the next token: the number of all tokens so far, including those that the cache has forgotten.
    #[must_use]
    pub fn position(&self) -> usize {
        self.forgotten + self.len
    }

    /// The most tokens of a sequence that the cache can hold.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shape.capacity
    }

    /// Makes room for `tokens` more tokens of each sequence. A cache that grows at least doubles its capacity, and copies its
    /// contents.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is not enough memory. The cache is then unchanged.
    pub fn reserve(&mut self, tokens: usize) -> Result<(), Error> {
        let needed = self.len.saturating_add(tokens);
        if needed > self.shape.capacity {
            let capacity = needed.max(self.shape.capacity.saturating_mul(2));
            let mut grown = Self::new(KvCacheShape { capacity, ..self.shape })?;
            grown.append(self.keys(), self.values())?;
            *self = Self { forgotten: self.forgotten, ..grown };
        }
        Ok(())
    }

    /// Forgets all but the last `len` tokens of each sequence: those that no window of a later query reaches. Positions
    /// continue: see [`position`](Self::position).
    ///
    /// The memory is used again. When the tokens reach the end of the memory, those that remain are moved to its start. With a
    /// capacity of twice the window this happens once a window.
    ///
    /// ```
    /// use regard::{Heads, KvCache, KvCacheShape};
    /// let shape = KvCacheShape { batch: 1, kv_heads: 1, capacity: 4, key_dim: 1, value_dim: 1 };
    /// let mut cache = KvCache::new(shape)?;
    /// for step in 0..100 {
    ///     let token = [step as f32];
    ///     let token = Heads::new("the token", &token, [1, 1, 1, 1])?;
    ///     cache.append(token, token)?;
    ///     cache.keep_last(2);
    /// }
    /// assert_eq!((cache.len(), cache.position()), (2, 100));
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn keep_last(&mut self, len: usize) {
        let forgotten = self.len.saturating_sub(len);
        self.start += forgotten;
        self.forgotten += forgotten;
        self.len -= forgotten;
    }

    /// Forgets all tokens: the next one has position 0.
    pub fn clear(&mut self) {
        (self.start, self.len, self.forgotten) = (0, 0, 0);
    }

    /// Forgets all but the first `len` tokens of each sequence in the cache, to continue the text in another way.
    ///
    /// ```
    /// use regard::{Heads, KvCache, KvCacheShape};
    /// let shape = KvCacheShape { batch: 1, kv_heads: 1, capacity: 8, key_dim: 1, value_dim: 1 };
    /// let mut cache = KvCache::new(shape)?;
    /// let three = Heads::new("the tokens", &[1.0, 2.0, 3.0], [1, 1, 3, 1])?;
    /// cache.append(three, three)?;
    /// cache.truncate(2);
    /// assert_eq!((cache.keys().shape(), cache.capacity()), ([1, 1, 2, 1], 8));
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

/// Moves a range of each head's tokens to the first of its `capacity` places.
fn move_to_start<T: Element>(memory: &mut [T], capacity: usize, d: usize, tokens: Range<usize>) {
    for head in memory.chunks_exact_mut((capacity * d).max(1)) {
        head.copy_within(tokens.start * d..tokens.end * d, 0);
    }
}

/// Copies the rows of each head to their places in `memory`, after the `len` tokens that are there.
fn store_rows<T: Element>(
    from: Heads<'_, T>,
    memory: &mut [T],
    capacity: usize,
    len: usize,
) -> Result<(), Error> {
    let [batch, heads, n, d] = from.shape();
    if n == 0 || d == 0 {
        return Ok(()); // without heads or features there is nothing to copy
    }
    for index in 0..batch * heads {
        let m = from.head(index / heads, index % heads)?;
        let start = (index * capacity + len) * d;
        let rows = &mut memory[start..][..n * d];
        for (i, row) in rows.chunks_exact_mut(d).enumerate() {
            row.copy_from_slice(m.row(i));
        }
    }
    Ok(())
}
