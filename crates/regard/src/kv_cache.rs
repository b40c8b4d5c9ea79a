use core::ops::Range;

use crate::error::{Error, check_shape};
use crate::slices;
use crate::view::zeros;
use crate::{Element, Heads};

/// The size of a [`KvCache`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvCacheShape {
    /// Sequences that are decoded side by side.
    pub batch: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// Tokens that each sequence may have.
    pub capacity: usize,
    /// Features of a key: head_dim.
    pub key_dim: usize,
    /// Features of a value, mostly as many.
    pub value_dim: usize,
}

/// The keys and values of the tokens so far: what a new token attends to besides itself.
///
/// Memory for the whole capacity is taken at once. A longer text asks for more ([`reserve`](Self::reserve)), and an attention
/// through a sliding window forgets the oldest tokens ([`keep_last`](Self::keep_last)). The numbers are stored as they come: as
/// `f32`, `f16` or `bf16` (see [`Element`]).
///
/// All sequences have the same number of tokens. A ragged batch has a cache for each sequence, or memory of its own that
/// [`Heads::strided`] and [`Mask::key_lengths`](crate::Mask::key_lengths) describe.
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
    /// Where the first token lies among the `capacity`.
    start: usize,
    len: usize,
    /// Tokens that [`keep_last`](Self::keep_last) has forgotten.
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
    /// [`Error::Shape`] if they do not fit the cache or each other, [`Error::CacheFull`] if there is no room for so many. The
    /// cache is then as it was.
    pub fn append(&mut self, keys: Heads<'_, T>, values: Heads<'_, T>) -> Result<(), Error> {
        let KvCacheShape { batch, kv_heads, capacity, key_dim, value_dim } = self.shape;
        let ([_, _, n, _], len) = (keys.shape(), self.len);
        check_shape("key", &keys.shape(), &[batch, kv_heads, n, key_dim], "as the cache")?;
        let expected = [batch, kv_heads, n, value_dim];
        check_shape("value", &values.shape(), &expected, "as the cache and key")?;
        if batch == 0 {
            return Ok(()); // however many tokens no sequence has
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

    /// The keys that it holds, \[batch, kv_heads, len, key_dim\].
    #[must_use]
    pub fn keys(&self) -> Heads<'_, T> {
        let KvCacheShape { batch, kv_heads, capacity, key_dim, .. } = self.shape;
        Heads::part(&self.keys, [batch, kv_heads, capacity, key_dim], self.held())
    }

    /// The values that it holds, \[batch, kv_heads, len, value_dim\].
    #[must_use]
    pub fn values(&self) -> Heads<'_, T> {
        let KvCacheShape { batch, kv_heads, capacity, value_dim, .. } = self.shape;
        Heads::part(&self.values, [batch, kv_heads, capacity, value_dim], self.held())
    }

    /// The tokens among the `capacity`.
    fn held(&self) -> Range<usize> {
        self.start..self.start + self.len
    }

    /// The number of tokens of each sequence that it holds.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds no token.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The position of the next token: the number of all tokens so far, also of those that it no longer holds.
    #[must_use]
    pub fn position(&self) -> usize {
        self.forgotten + self.len
    }

    /// The most tokens of a sequence that it can hold.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shape.capacity
    }

    /// Makes room for so many more tokens of each sequence. A cache that grows at least doubles its capacity, and copies what it
    /// holds.
    ///
    /// # Errors
    /// [`Error::Memory`] if there is not enough memory. The cache is then as it was.
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

    /// Forgets all but the last `len` tokens of each sequence, which no window of a later query reaches. Positions go on:
    /// see [`position`](Self::position).
    ///
    /// The room is used again. The tokens that stay are moved when the next ones reach the end of the memory: with a capacity of
    /// twice the window, once a window.
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

    /// Forgets all tokens: the next one stands at position 0.
    pub fn clear(&mut self) {
        (self.start, self.len, self.forgotten) = (0, 0, 0);
    }

    /// Forgets all but the first `len` tokens of each sequence that it holds: to take another turn.
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

/// Moves some tokens of each head to the first of its `capacity` places.
fn move_to_start<T: Element>(memory: &mut [T], capacity: usize, d: usize, tokens: Range<usize>) {
    for head in memory.chunks_exact_mut((capacity * d).max(1)) {
        head.copy_within(tokens.start * d..tokens.end * d, 0);
    }
}

/// Copies the rows of each head to their place in `memory`, after the `len` tokens that are there.
fn store_rows<T: Element>(
    from: Heads<'_, T>,
    memory: &mut [T],
    capacity: usize,
    len: usize,
) -> Result<(), Error> {
    let [batch, heads, n, d] = from.shape();
    if n == 0 || d == 0 {
        return Ok(()); // however many heads of nothing there are
    }
    for index in 0..batch * heads {
        let m = from.head(index / heads, index % heads)?;
        let start = (index * capacity + len) * d;
        let rows = slices::part_mut(memory, start..start + n * d);
        for (i, row) in rows.chunks_exact_mut(d).enumerate() {
            row.copy_from_slice(m.row(i));
        }
    }
    Ok(())
}
