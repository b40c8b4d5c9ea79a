use crate::error::{Error, check_shape};
use crate::slices;
use crate::view::zeros;
use crate::{Attention, Element, Heads, Workspace};

/// What a [`KvCache`] has room for.
///
/// ```
/// use half::bf16;
/// use regard::{KvCache, KvCacheShape};
/// let shape = KvCacheShape { batch: 1, kv_heads: 8, capacity: 4096, key_dim: 128, value_dim: 128 };
/// let cache = KvCache::<bf16>::new(shape)?; // 16 MiB, where f32 takes 32
/// assert_eq!(cache.capacity(), 4096);
/// # Ok::<(), regard::Error>(())
/// ```
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
/// Memory for the whole capacity is taken at once, and appending moves nothing. The numbers are stored as `f32`, `f16` or
/// `bf16` (see [`Element`]).
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
///
/// Sequences of a batch may have different lengths. Prompts are padded at their ends to the longest, appended together, and
/// [`truncate_each`](Self::truncate_each) forgets the padding. Each token after that is appended where its own sequence ends,
/// and [`Mask::key_lengths`](crate::Mask::key_lengths) of the cache's [`lengths`](Self::lengths) hides the rest:
///
/// ```
/// use regard::{Attention, Heads, KvCache, KvCacheShape, Mask};
/// let shape = KvCacheShape { batch: 2, kv_heads: 1, capacity: 8, key_dim: 1, value_dim: 1 };
/// let mut cache = KvCache::new(shape)?;
/// let prompts = Heads::new("the prompts", &[1.0, 3.0, 5.0, f32::NAN], [2, 1, 2, 1])?; // the second has one token
/// cache.append(prompts, prompts)?;
/// cache.truncate_each(&[2, 1])?;
/// let next = Heads::new("the next tokens", &[8.0, 7.0], [2, 1, 1, 1])?;
/// cache.append(next, next)?;
/// assert_eq!(cache.lengths(), [3, 2]);
/// let causal = Mask::CAUSAL.key_lengths(cache.lengths());
/// let out = Attention::new().scale(0.0).mask(causal).forward(next, cache.keys(), cache.values())?;
/// assert_eq!(out, [4.0, 6.0]); // the means of 1, 3, 8 and of 5, 7
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
    /// \[batch\].
    lengths: Vec<usize>,
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
        // A batch of sequences without room for a number has no lengths either.
        let entries = if keys.is_empty() && values.is_empty() { batch.min(1) } else { batch };
        Ok(Self { keys, values, shape, lengths: zeros("the lengths of the cache", &[entries])? })
    }

    /// What it has room for.
    pub fn shape(&self) -> KvCacheShape {
        self.shape
    }

    /// Appends the keys \[batch, kv_heads, n, key_dim\] and values \[batch, kv_heads, n, value_dim\] of n tokens to each
    /// sequence.
    ///
    /// # Errors
    /// [`Error::Shape`] if they do not fit the cache or each other, [`Error::CacheFull`] if there is no room for so many. The
    /// cache is then as it was.
    pub fn append(&mut self, keys: Heads<'_, T>, values: Heads<'_, T>) -> Result<(), Error> {
        self.append_by(keys, values, <[T]>::copy_from_slice)
    }

    /// As [`append`](Self::append), of keys and values in `f32`: each number is rounded to the nearest that the cache can hold.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    ///
    /// ```
    /// use half::bf16;
    /// use regard::{Heads, KvCache, KvCacheShape};
    /// let shape = KvCacheShape { batch: 1, kv_heads: 1, capacity: 8, key_dim: 1, value_dim: 1 };
    /// let mut cache = KvCache::<bf16>::new(shape)?;
    /// let token = Heads::new("the token", &[1.0], [1, 1, 1, 1])?;
    /// cache.append_rounded(token, token)?;
    /// assert_eq!(cache.len(), 1);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn append_rounded(&mut self, keys: Heads<'_>, values: Heads<'_>) -> Result<(), Error> {
        self.append_by(keys, values, |to, from| T::round(from, to))
    }

    fn append_by<K: Element>(
        &mut self,
        keys: Heads<'_, K>,
        values: Heads<'_, K>,
        store: impl Fn(&mut [T], &[K]),
    ) -> Result<(), Error> {
        let KvCacheShape { batch, kv_heads, capacity, key_dim, value_dim } = self.shape;
        let [_, _, n, _] = keys.shape();
        check_shape("key", &keys.shape(), &[batch, kv_heads, n, key_dim], "as the cache")?;
        let expected = [batch, kv_heads, n, value_dim];
        check_shape("value", &values.shape(), &expected, "as the cache and key")?;
        if let Some((entry, len)) =
            self.lengths.iter().copied().enumerate().find(|(_, len)| n > capacity - len)
        {
            let tensor = "the cache of keys and values";
            return Err(Error::CacheFull { tensor, entry, tokens: n, len, capacity });
        }
        store_rows(keys, &mut self.keys, capacity, &self.lengths, &store)?;
        store_rows(values, &mut self.values, capacity, &self.lengths, &store)?;
        self.lengths.iter_mut().for_each(|len| *len += n);
        Ok(())
    }

    /// The keys so far, \[batch, kv_heads, len, key_dim\]. Where a sequence is shorter than the longest, anything may be after
    /// its end.
    pub fn keys(&self) -> Heads<'_, T> {
        let KvCacheShape { batch, kv_heads, capacity, key_dim, .. } = self.shape;
        Heads::first(&self.keys, [batch, kv_heads, capacity, key_dim], self.len())
    }

    /// The values so far, \[batch, kv_heads, len, value_dim\]; as [`keys`](Self::keys).
    pub fn values(&self) -> Heads<'_, T> {
        let KvCacheShape { batch, kv_heads, capacity, value_dim, .. } = self.shape;
        Heads::first(&self.values, [batch, kv_heads, capacity, value_dim], self.len())
    }

    /// \[batch\]: the tokens of each sequence so far.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// The number of tokens of the longest sequence so far.
    pub fn len(&self) -> usize {
        self.lengths.iter().copied().max().unwrap_or(0)
    }

    /// Whether no sequence has a token yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The most tokens of a sequence.
    pub fn capacity(&self) -> usize {
        self.shape.capacity
    }

    /// Forgets all but the first `len` tokens of each sequence: to take another turn, or to begin anew.
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
        self.lengths.iter_mut().for_each(|own| *own = (*own).min(len));
    }

    /// Forgets all but the first tokens of each sequence, \[batch\] of them.
    ///
    /// # Errors
    /// [`Error::Shape`] if there are not as many lengths as sequences. The cache is then as it was.
    pub fn truncate_each(&mut self, lengths: &[usize]) -> Result<(), Error> {
        let expected = [self.lengths.len()];
        check_shape("the lengths", &[lengths.len()], &expected, "one a sequence of the cache")?;
        self.lengths.iter_mut().zip(lengths).for_each(|(own, len)| *own = (*own).min(*len));
        Ok(())
    }

    /// Forgets the newest tokens of each sequence, so that the longest has `len`: what an error after an append undoes.
    pub(crate) fn undo_to(&mut self, len: usize) {
        let n = self.len().saturating_sub(len);
        self.lengths.iter_mut().for_each(|own| *own = own.saturating_sub(n));
    }
}

/// A [`KvCache`] of any precision, as layers use it.
pub(crate) trait LayerCache: Sync {
    /// The tokens of a sequence so far.
    fn len_of(&self, entry: usize) -> usize;

    /// Appends keys and values, rounded to the cache's precision.
    fn append(&mut self, k: Heads<'_>, v: Heads<'_>) -> Result<(), Error>;

    /// The output of `q` for the keys in the cache.
    fn attend(
        &self,
        q: Heads<'_>,
        attention: &Attention<'_>,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) -> Result<(), Error>;

    /// `Ok` if the mask places new tokens after those in the cache.
    fn check(&self, attention: &Attention<'_>) -> Result<(), Error>;
}

impl<T: Element> LayerCache for KvCache<T> {
    fn len_of(&self, entry: usize) -> usize {
        self.lengths.get(entry).copied().unwrap_or(0) // a cache without room for a number has no lengths
    }

    fn append(&mut self, k: Heads<'_>, v: Heads<'_>) -> Result<(), Error> {
        self.append_rounded(k, v)
    }

    fn attend(
        &self,
        q: Heads<'_>,
        attention: &Attention<'_>,
        out: &mut [f32],
        workspace: &mut Workspace,
    ) -> Result<(), Error> {
        let mut attention = attention.clone();
        if self.lengths.iter().any(|len| *len != self.len()) {
            attention.mask = attention.mask.or_key_lengths(&self.lengths);
        }
        attention.forward_into(q, self.keys(), self.values(), out, workspace)
    }

    fn check(&self, attention: &Attention<'_>) -> Result<(), Error> {
        self.lengths.iter().try_for_each(|len| attention.mask.check_cached(*len))
    }
}

/// The rows of each head to their place in `memory`, after those of its sequence.
fn store_rows<K: Element, T: Element>(
    from: Heads<'_, K>,
    memory: &mut [T],
    capacity: usize,
    lengths: &[usize],
    store: impl Fn(&mut [T], &[K]),
) -> Result<(), Error> {
    let [_, heads, n, d] = from.shape();
    if n == 0 || d == 0 {
        return Ok(()); // however many heads of nothing there are
    }
    for (entry, len) in lengths.iter().enumerate() {
        for head in 0..heads {
            let m = from.head(entry, head)?;
            let start = ((entry * heads + head) * capacity + len) * d;
            let rows = slices::part_mut(memory, start..start + n * d);
            for (i, row) in rows.chunks_exact_mut(d).enumerate() {
                store(row, m.row(i));
            }
        }
    }
    Ok(())
}
