use crate::error::{Error, check_shape};
use crate::view::zeros;
use crate::{Element, Heads};

/// The keys and values of the tokens so far: what decoding a token, or continuing a prefill, attends to besides its own.
///
/// Memory for `capacity` tokens is taken at once; appending moves nothing.
///
/// ```
/// use regard::{Attention, Heads, KvCache, Mask};
/// let mut cache = KvCache::new([1, 2, 16, 4], 4)?; // batch, key/value heads, capacity, head_dim; the values' head_dim
/// for step in 0..3 {
///     let token = [step as f32; 2 * 4];
///     let token = Heads::new("the token", &token, [1, 2, 1, 4])?;
///     cache.append(token, token)?;
///     let out = Attention::new().mask(Mask::CAUSAL).forward(token, cache.keys(), cache.values())?;
///     assert_eq!(out.len(), 2 * 4);
/// }
/// assert_eq!(cache.len(), 3);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct KvCache<T = f32> {
    keys: Vec<T>,
    values: Vec<T>,
    /// \[batch, kv_heads, capacity, d_k\].
    shape: [usize; 4],
    d_v: usize,
    len: usize,
}

impl<T: Element + Default> KvCache<T> {
    /// An empty cache for keys \[batch, kv_heads, capacity, d_k\] and values \[batch, kv_heads, capacity, d_v\].
    ///
    /// # Errors
    /// [`Error::Memory`] if there is not so much.
    pub fn new(shape: [usize; 4], d_v: usize) -> Result<Self, Error> {
        let [batch, kv_heads, capacity, d_k] = shape;
        let keys = zeros("the cache of keys", &[batch, kv_heads, capacity, d_k])?;
        let values = zeros("the cache of values", &[batch, kv_heads, capacity, d_v])?;
        Ok(Self { keys, values, shape, d_v, len: 0 })
    }

    /// Appends the keys \[batch, kv_heads, n, d_k\] and values \[batch, kv_heads, n, d_v\] of n tokens.
    ///
    /// # Errors
    /// [`Error::Shape`] if they do not fit the cache or each other, [`Error::CacheFull`] if there is no room for so many. The
    /// cache is then as it was.
    pub fn append(&mut self, keys: Heads<'_, T>, values: Heads<'_, T>) -> Result<(), Error> {
        let [batch, kv_heads, capacity, d_k] = self.shape;
        let [_, _, n, _] = keys.shape();
        check_shape("key", &keys.shape(), &[batch, kv_heads, n, d_k], "as the cache")?;
        check_shape(
            "value",
            &values.shape(),
            &[batch, kv_heads, n, self.d_v],
            "as the cache and key",
        )?;
        if n > capacity - self.len {
            return Err(Error::CacheFull { tokens: n, len: self.len, capacity });
        }
        copy(keys, &mut self.keys, capacity, self.len)?;
        copy(values, &mut self.values, capacity, self.len)?;
        self.len += n;
        Ok(())
    }

    /// The keys so far, \[batch, kv_heads, len, d_k\].
    pub fn keys(&self) -> Heads<'_, T> {
        Heads::first(&self.keys, self.shape, self.len)
    }

    /// The values so far, \[batch, kv_heads, len, d_v\].
    pub fn values(&self) -> Heads<'_, T> {
        let [batch, kv_heads, capacity, _] = self.shape;
        Heads::first(&self.values, [batch, kv_heads, capacity, self.d_v], self.len)
    }

    /// The tokens so far.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is no token yet.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most tokens.
    pub fn capacity(&self) -> usize {
        let [_, _, capacity, _] = self.shape;
        capacity
    }

    /// Forgets all but the first `len` tokens: to take another turn, or to begin anew.
    ///
    /// ```
    /// use regard::{Heads, KvCache};
    /// let mut cache = KvCache::new([1, 1, 8, 1], 1)?;
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

/// Each head's rows to its place in `memory`, behind its first `len` rows.
fn copy<T: Element>(
    from: Heads<'_, T>,
    memory: &mut [T],
    capacity: usize,
    len: usize,
) -> Result<(), Error> {
    let [batch, heads, n, d] = from.shape();
    let batch = if n * d == 0 { 0 } else { batch }; // however many heads of nothing there are
    for (entry, head) in (0..batch).flat_map(|entry| (0..heads).map(move |head| (entry, head))) {
        let m = from.head(entry, head)?;
        let start = ((entry * heads + head) * capacity + len) * d;
        let rows = memory.get_mut(start..start + n * d).unwrap_or_default();
        for (i, row) in rows.chunks_exact_mut(d.max(1)).enumerate() {
            row.copy_from_slice(m.row(i));
        }
    }
    Ok(())
}
