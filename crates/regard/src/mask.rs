//! Masks for all heads of a batch: causal masks, windows, key lengths, linear biases, and tensors that are broadcast.

use core::fmt;
use core::hash::{Hash, Hasher};
use core::ops::Range;

use regard_kernels::{Mask as HeadMask, Mat, Position, Window};

use crate::error::{Error, check_shape};
use crate::rule::{Place, Rule, hull};
use crate::view::{check_elements, len_of};

/// Which keys each query may see: a value, composed from parts. A key is seen if every part allows it.
///
/// It is [`regard_kernels::Mask`] for all heads of a batch, with the same words. A number or a matrix there is here one for
/// each batch entry, or one for each head.
///
/// ```
/// use regard::{Attention, Heads, Mask, Position, Stage, Window};
/// let x = Heads::new("x", &[0.0; 4], [1, 1, 4, 1])?; // four tokens
/// let near = Window { left: Some(1), right: None };
/// let mask = Mask::NONE.causal(Position::TopLeft).window(Position::TopLeft, near);
/// let weights = Attention::new().mask(mask).scores(Stage::Weights, x, x)?;
/// assert_eq!(weights.as_slice()[12..], [0.0, 0.0, 0.5, 0.5]); // the last token sees itself and the one before it
/// # Ok::<(), regard::Error>(())
/// ```
#[must_use]
#[derive(Clone, Copy, Debug, Default)]
#[doc(alias = "attn_mask")]
pub struct Mask<'a> {
    causal: Option<Position>,
    window: Option<(Position, Window)>,
    key_lengths: Option<&'a [usize]>,
    alibi: Option<(Position, &'a [f32])>,
    rule: Option<&'a Rule>,
    allowed: Option<MaskTensor<'a, bool>>,
    bias: Option<MaskTensor<'a>>,
}

/// As [`Attention`](crate::Attention)'s.
impl Hash for Mask<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Self { causal, window, key_lengths, alibi, rule, allowed, bias } = self;
        (causal, window, key_lengths, rule, allowed.is_some(), bias.is_some()).hash(state);
        alibi.map(|(position, slopes)| (position, bits(slopes))).hash(state);
    }
}

/// The bits of numbers, which can be hashed.
pub(crate) fn bits(x: &[f32]) -> Vec<u32> {
    x.iter().map(|x| x.to_bits()).collect()
}

impl<'a> Mask<'a> {
    /// Every query sees every key.
    pub const NONE: Self = Self {
        causal: None,
        window: None,
        key_lengths: None,
        alibi: None,
        rule: None,
        allowed: None,
        bias: None,
    };

    /// Causal self-attention: a token sees itself and the tokens before it. The queries are the last tokens of the keys, so
    /// this mask is right with and without a cache of keys. It is `NONE.causal(Position::BottomRight)`.
    ///
    /// ```
    /// use regard::{Attention, Heads, Mask};
    /// let x = Heads::new("x", &[1.0, 3.0, 8.0], [1, 1, 3, 1])?;
    /// let causal = Attention::new().scale(0.0).mask(Mask::CAUSAL);
    /// assert_eq!(causal.forward(x, x, x)?, [1.0, 2.0, 4.0]); // the mean of each token and those before it
    /// let last = Heads::new("the last token", &[8.0], [1, 1, 1, 1])?;
    /// assert_eq!(causal.forward(last, x, x)?, [4.0]); // it stands at the last key
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[doc(alias = "is_causal")]
    pub const CAUSAL: Self = Self::NONE.causal(Position::BottomRight);

    /// A query sees no key to the right of its position.
    ///
    /// ```
    /// use regard::{Attention, Heads, Mask, Position};
    /// let x = Heads::new("x", &[1.0, 3.0, 8.0], [1, 1, 3, 1])?;
    /// let q = Heads::new("query", &[0.0, 0.0], [1, 1, 2, 1])?; // two queries, three keys
    /// let out = |position| Attention::new().mask(Mask::NONE.causal(position)).forward(q, x, x);
    /// assert_eq!(out(Position::TopLeft)?, [1.0, 2.0]); // the first query stands at the first key
    /// assert_eq!(out(Position::BottomRight)?, [2.0, 4.0]); // the last query stands at the last key
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub const fn causal(mut self, position: Position) -> Self {
        self.causal = Some(position);
        self
    }

    /// A query sees the keys within a window around its position (Beltagy et al. 2020, Longformer).
    ///
    /// ```
    /// use regard::{Attention, Heads, Mask, Position, Window};
    /// let x = Heads::new("x", &[1.0, 3.0, 8.0], [1, 1, 3, 1])?;
    /// let mask = Mask::NONE.window(Position::TopLeft, Window { left: Some(1), right: Some(0) });
    /// let out = Attention::new().scale(0.0).mask(mask).forward(x, x, x)?;
    /// assert_eq!(out, [1.0, 2.0, 5.5]); // the mean of each token and the one before it
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[doc(alias = "sliding_window")]
    pub const fn window(mut self, position: Position, window: Window) -> Self {
        self.window = Some((position, window));
        self
    }

    /// \[batch\]: the number of keys of each batch entry. Its other keys are padding.
    ///
    /// ```
    /// use regard::{Attention, Heads, Mask};
    /// let x = Heads::new("x", &[1.0, 3.0, 5.0, f32::NAN], [2, 1, 2, 1])?;
    /// let out = Attention::new().scale(0.0).mask(Mask::NONE.key_lengths(&[2, 1])).forward(x, x, x)?;
    /// assert_eq!(out.as_slice()[..3], [2.0, 2.0, 5.0]); // the second entry has one key; its second query is padding too
    /// # Ok::<(), regard::Error>(())
    /// ```
    #[doc(alias = "key_padding_mask")]
    pub const fn key_lengths(mut self, lengths: &'a [usize]) -> Self {
        self.key_lengths = Some(lengths);
        self
    }

    /// Attention with linear biases (Press et al. 2022): −slope · (the distance of the key from the query's position) is added
    /// to each score. Each head has its slope, \[heads\]: see [`alibi_slopes`](crate::alibi_slopes).
    ///
    /// ```
    /// use regard::{Attention, Heads, Mask, Position, Stage};
    /// let (q, k) = (Heads::new("query", &[0.0], [1, 1, 1, 1])?, Heads::new("key", &[0.0; 3], [1, 1, 3, 1])?);
    /// let mask = Mask::NONE.alibi(Position::BottomRight, &[0.5]); // the query stands at the last key
    /// assert_eq!(Attention::new().mask(mask).scores(Stage::Masked, q, k)?, [-1.0, -0.5, 0.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub const fn alibi(mut self, position: Position, slopes: &'a [f32]) -> Self {
        self.alibi = Some((position, slopes));
        self
    }

    /// A key may be seen where the rule allows it: alternatives, documents and prefixes, without a matrix. See [`Rule`].
    pub const fn rule(mut self, rule: &'a Rule) -> Self {
        self.rule = Some(rule);
        self
    }

    /// A key may be seen where the tensor is `true`. It is broadcast to \[batch, heads, queries, keys\].
    ///
    /// ```
    /// use regard::{Attention, Heads, Mask, MaskTensor};
    /// let x = Heads::new("x", &[2.0, 4.0], [1, 1, 2, 1])?;
    /// let first = Mask::NONE.allowed(MaskTensor::new(&[true, false], &[2])?); // for every query
    /// assert_eq!(Attention::new().mask(first).forward(x, x, x)?, [2.0, 2.0]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub const fn allowed(mut self, allowed: MaskTensor<'a, bool>) -> Self {
        self.allowed = Some(allowed);
        self
    }

    /// A tensor that is added to the scores. −∞ hides the key, whatever its score is. It is broadcast to \[batch, heads,
    /// queries, keys\].
    ///
    /// ```
    /// use regard::{Attention, Heads, Mask, MaskTensor, Stage};
    /// let x = Heads::new("x", &[0.0, 0.0], [1, 1, 2, 1])?;
    /// let mask = Mask::NONE.bias(MaskTensor::new(&[0.5, f32::NEG_INFINITY], &[2])?);
    /// let scores = Attention::new().mask(mask).scores(Stage::Masked, x, x)?;
    /// assert_eq!(scores, [0.5, f32::NEG_INFINITY, 0.5, f32::NEG_INFINITY]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub const fn bias(mut self, bias: MaskTensor<'a>) -> Self {
        self.bias = Some(bias);
        self
    }

    /// The mask for these shapes, with its tensors broadcast.
    ///
    /// # Errors
    /// An error names the part that does not fit.
    pub(crate) fn resolve(&self, full: [usize; 4]) -> Result<ResolvedMask<'a>, Error> {
        let [batch, heads, _, n_k] = full;
        if let Some((_, slopes)) = self.alibi {
            let tensor = "the slopes of ALiBi";
            check_shape(tensor, &[slopes.len()], &[heads], "one a head of query")?;
        }
        if let Some(lengths) = self.key_lengths {
            check_shape("the key lengths", &[lengths.len()], &[batch], "one a batch entry")?;
            let too_long = |(_, n): &(usize, usize)| *n > n_k;
            if let Some((entry, found)) = lengths.iter().copied().enumerate().find(too_long) {
                let tensor = "the key length";
                return Err(Error::KeyLength { tensor, entry, found, keys: n_k });
            }
        }
        if let Some(rule) = self.rule {
            rule.check(batch, n_k)?;
        }
        let longest_of = |lengths: &[usize]| lengths.iter().copied().max().unwrap_or(0);
        let longest = self.key_lengths.map_or(n_k, longest_of);
        Ok(ResolvedMask {
            mask: *self,
            allowed: self.allowed.map(|m| m.broadcast(full, longest)).transpose()?,
            bias: self.bias.map(|m| m.broadcast(full, longest)).transpose()?,
        })
    }

    /// Whether the mask has a tensor, or writes the rows of one.
    pub(crate) fn has_tensor(&self) -> bool {
        self.rule.is_some() || self.allowed.is_some() || self.bias.is_some()
    }

    /// `Ok` if every part that refers to positions places the first new token after the `cached` ones.
    ///
    /// # Errors
    /// [`Error::CachePosition`].
    pub(crate) fn check_cached(&self, cached: usize) -> Result<(), Error> {
        let positions = [
            ("causal", self.causal),
            ("window", self.window.map(|(position, _)| position)),
            ("ALiBi", self.alibi.map(|(position, _)| position)),
        ];
        for (part, position) in positions {
            let first = match position {
                None | Some(Position::BottomRight) => continue,
                Some(Position::TopLeft) => 0,
                Some(Position::Offset(first)) => first,
            };
            if usize::try_from(first) != Ok(cached) {
                return Err(Error::CachePosition { part, first, cached });
            }
        }
        Ok(())
    }
}

/// A mask that fits the tensors of a call.
pub(crate) struct ResolvedMask<'a> {
    mask: Mask<'a>,
    allowed: Option<Broadcast<'a, bool>>,
    pub(crate) bias: Option<Broadcast<'a, f32>>,
}

impl ResolvedMask<'_> {
    /// The mask of one head of a batch entry, without tensors.
    pub(crate) fn of_places(&self, entry: usize, head: usize) -> HeadMask<'_> {
        let mut mask = HeadMask::NONE;
        if let Some((position, slopes)) = self.mask.alibi
            && let Some(slope) = slopes.get(head)
        {
            mask = mask.alibi(position, *slope);
        }
        if let Some(position) = self.mask.causal {
            mask = mask.causal(position);
        }
        if let Some((position, window)) = self.mask.window {
            mask = mask.window(position, window);
        }
        if let Some(len) = self.mask.key_lengths.and_then(|lengths| lengths.get(entry)) {
            mask = mask.key_len(*len);
        }
        mask
    }

    fn place(&self, entry: usize, query: usize, [n_q, n_k]: [usize; 2]) -> Place {
        let key_len = self.mask.key_lengths.and_then(|lengths| lengths.get(entry));
        Place { entry, query, n_q, key_len: *key_len.unwrap_or(&n_k) }
    }

    /// A range of the keys outside of which the rule shows none to so many queries from `query` on.
    pub(crate) fn span(
        &self,
        entry: usize,
        query: usize,
        rows: usize,
        [n_q, n_k]: [usize; 2],
    ) -> Range<usize> {
        let Some(rule) = self.mask.rule else { return 0..n_k };
        let of_row = |query| {
            let Range { start, end } = rule.span(self.place(entry, query, [n_q, n_k]));
            start.min(n_k)..end.min(n_k)
        };
        (query..query + rows).map(of_row).fold(0..0, hull)
    }

    /// The mask of a block of queries and keys of one head of a batch entry, out of `n_q` queries and `n_k` keys. `place` is
    /// the index of the block's first query among all, and `queries` are the block's rows in the mask tensors.
    pub(crate) fn of_block<'m>(
        &'m self,
        (entry, head): (usize, usize),
        place: usize,
        [queries, keys]: [Range<usize>; 2],
        [n_q, n_k]: [usize; 2],
        memory: &'m mut ShortRows,
    ) -> Result<HeadMask<'m>, Error> {
        let mut mask = self.of_places(entry, head);
        let ShortRows { allowed, bias, rule } = memory;
        if let Some(given) = self.mask.rule {
            let place = self.place(entry, place, [n_q, n_k]);
            rows_of(given, place, queries.len(), &keys, rule)?;
            let seen = self.span(entry, place.query, queries.len(), [n_q, n_k]);
            mask = mask.keys(seen.start, seen.end);
        }
        if (place, queries.len()) != (0, n_q) {
            mask = mask.rows(place, queries.len(), n_q, n_k);
        }
        if keys != (0..n_k) {
            mask = mask.columns(keys.start, keys.len(), queries.len(), n_k);
        }
        let mut rows = match &self.allowed {
            None => None,
            Some(of) => Some(of.matrix((entry, head), queries.clone(), keys.clone(), allowed)?),
        };
        if self.mask.rule.is_some() {
            if let Some(rows) = rows {
                for (i, row) in rule.chunks_exact_mut(keys.len().max(1)).enumerate() {
                    row.iter_mut().zip(rows.row(i)).for_each(|(row, x)| *row &= x);
                }
            }
            rows = Some(Mat::new(rule, queries.len(), keys.len())?);
        }
        if let Some(rows) = rows {
            mask = mask.allowed(rows);
        }
        if let Some(tensor) = &self.bias {
            mask = mask.bias(tensor.matrix((entry, head), queries, keys, bias)?);
        }
        Ok(mask)
    }

    /// Whether rows are written for each block of queries: those of a rule, or of a tensor that must be extended to all keys.
    pub(crate) fn has_short_rows(&self) -> bool {
        self.mask.rule.is_some()
            || self.allowed.as_ref().is_some_and(Broadcast::is_short)
            || self.bias.as_ref().is_some_and(Broadcast::is_short)
    }
}

/// Writes the rows of a rule for consecutive queries from `place` on.
fn rows_of(
    rule: &Rule,
    place: Place,
    queries: usize,
    keys: &Range<usize>,
    memory: &mut Vec<bool>,
) -> Result<(), Error> {
    const ROWS: &str = "the rows of the mask's rule";
    let shape = [queries, keys.len()];
    let len = len_of(ROWS, &shape)?;
    memory.clear();
    memory
        .try_reserve_exact(len)
        .map_err(|_e| Error::Memory { tensor: ROWS, shape: shape.to_vec() })?;
    memory.resize(len, true);
    for (i, row) in memory.chunks_exact_mut(keys.len().max(1)).enumerate() {
        rule.write(Place { query: place.query + i, ..place }, keys, row);
    }
    Ok(())
}

/// The rows of a block of queries that are written for it: those of mask tensors whose rows are shorter than the keys, and of a
/// rule.
#[derive(Default)]
pub(crate) struct ShortRows {
    allowed: Vec<bool>,
    bias: Vec<f32>,
    rule: Vec<bool>,
}

/// The elements of a [`MaskTensor`]: `bool` for [`Mask::allowed`], `f32` for [`Mask::bias`].
pub trait MaskElement: sealed::MaskElement {}

impl<T: sealed::MaskElement> MaskElement for T {}

mod sealed {
    pub trait MaskElement: Copy + 'static {
        /// The name of the tensor in errors.
        const NAME: &'static str;
        /// The element that hides a key.
        const HIDDEN: Self;
    }
}

impl sealed::MaskElement for bool {
    const NAME: &'static str = "the boolean mask";
    const HIDDEN: Self = false;
}

impl sealed::MaskElement for f32 {
    const NAME: &'static str = "the additive mask";
    const HIDDEN: Self = Self::NEG_INFINITY;
}

/// A mask of up to four dimensions. It is broadcast from the right to \[batch, heads, queries, keys\], as in NumPy.
///
/// With [key lengths](Mask::key_lengths) it may end with the longest of them, as in ONNX's `Attention`: the keys after its end
/// are padding. Without key lengths, a mask with fewer keys than the tensor of keys is an error.
///
/// ```
/// use regard::{Attention, Heads, Mask, MaskTensor, Stage};
/// let x = Heads::new("x", &[0.0; 4], [1, 2, 2, 1])?; // two heads, two tokens
/// let weights = |mask| Attention::new().mask(mask).scores(Stage::Weights, x, x);
/// // The second key is hidden, for every query of every head:
/// let mask = Mask::NONE.allowed(MaskTensor::new(&[true, false], &[2])?);
/// assert_eq!(weights(mask)?, [1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0]);
/// // [heads, queries, keys], and the one row of queries repeats: the second head does not see the second key.
/// let bias = MaskTensor::new(&[0.0, 0.0, 0.0, f32::NEG_INFINITY], &[2, 1, 2])?;
/// assert_eq!(weights(Mask::NONE.bias(bias))?, [0.5, 0.5, 0.5, 0.5, 1.0, 0.0, 1.0, 0.0]);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct MaskTensor<'a, T = f32> {
    values: &'a [T],
    shape: [usize; 4],
}

/// The elements, which may be millions, are left out.
impl<T: MaskElement> fmt::Debug for MaskTensor<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", T::NAME, self.shape)
    }
}

impl<'a, T: MaskElement> MaskTensor<'a, T> {
    /// A dense mask of the given shape.
    ///
    /// # Errors
    /// [`Error::Elements`] if the values do not fill the shape, [`Error::Rank`] if it has more than four dimensions.
    pub fn new(values: &'a [T], shape: &[usize]) -> Result<Self, Error> {
        let mut padded = [1; 4];
        let Some(missing) = padded.len().checked_sub(shape.len()) else {
            return Err(Error::Rank { tensor: T::NAME, found: shape.to_vec(), most: padded.len() });
        };
        padded[missing..].copy_from_slice(shape);
        check_elements(T::NAME, values.len(), shape)?;
        Ok(Self { values, shape: padded })
    }

    /// The mask for \[batch, heads, queries, keys\], if no query sees more than the first `longest` keys.
    fn broadcast(&self, full: [usize; 4], longest: usize) -> Result<Broadcast<'a, T>, Error> {
        // A dimension must be the full one, or 1, which repeats.
        let mut fitting = full;
        for (fitting, n) in fitting.iter_mut().zip(self.shape) {
            *fitting = if n == 1 { 1 } else { *fitting };
        }
        let [batch, heads, rows, given_keys] = self.shape;
        let keys = full[3];
        if (longest..keys).contains(&given_keys) {
            fitting[3] = given_keys;
        }
        let why = "broadcast to [batch, heads, queries, keys]";
        check_shape(T::NAME, &self.shape, &fitting, why)?;
        Ok(Broadcast { shape: [batch, heads, rows, keys], given_keys, values: self.values })
    }
}

/// A mask tensor that fits. Each of the dimensions before the keys is the full one, or 1, which repeats.
pub(crate) struct Broadcast<'a, T> {
    shape: [usize; 4],
    /// The last dimension as it was given: 1, which repeats, or fewer than the keys.
    given_keys: usize,
    values: &'a [T],
}

impl<T: MaskElement> Broadcast<'_, T> {
    /// Whether the rows are shorter than the keys. A view can repeat a row, but not a column. Short rows are therefore
    /// extended, for each block of queries.
    fn is_short(&self) -> bool {
        self.given_keys != self.shape[3]
    }

    /// The matrix of some queries and keys of one head. Short rows are extended in `memory`: a row of one element repeats it,
    /// and a row that ends too early is filled with the element that hides a key.
    fn matrix<'m>(
        &'m self,
        (entry, head): (usize, usize),
        queries: Range<usize>,
        keys: Range<usize>,
        memory: &'m mut Vec<T>,
    ) -> Result<Mat<'m, T>, Error> {
        let [_, _, rows, _] = self.shape;
        let given = self.given_keys;
        let (first, count) = if rows == 1 { (0, 1) } else { (queries.start, queries.len()) };
        let start = (self.start(entry, head) + first) * given;
        if !self.is_short() {
            let stride = if rows == 1 { 0 } else { given };
            let values = &self.values[start + keys.start..];
            return Ok(Mat::strided(values, queries.len(), keys.len(), stride)?);
        }
        let len = len_of(T::NAME, &[count, keys.len()])?;
        let shape = || vec![count, keys.len()];
        memory.clear();
        memory
            .try_reserve_exact(len)
            .map_err(|_e| Error::Memory { tensor: T::NAME, shape: shape() })?;
        for row in 0..count {
            let of_row = &self.values[start + row * given..][..given];
            if let [x] = of_row {
                memory.resize(memory.len() + keys.len(), *x);
            } else {
                let value = |key: usize| of_row.get(key).copied().unwrap_or(T::HIDDEN);
                memory.extend(keys.clone().map(value));
            }
        }
        let stride = if rows == 1 { 0 } else { keys.len() };
        Ok(Mat::strided(memory, queries.len(), keys.len(), stride)?)
    }

    /// The index of the first row of a head.
    fn start(&self, entry: usize, head: usize) -> usize {
        let [batch, heads, rows, _] = self.shape;
        let entry = if batch == 1 { 0 } else { entry };
        let head = if heads == 1 { 0 } else { head };
        (entry * heads + head) * rows
    }
}

impl Broadcast<'_, f32> {
    /// The shape in which the mask was given, padded to four dimensions.
    pub(crate) fn given_shape(&self) -> [usize; 4] {
        let [batch, heads, rows, _] = self.shape;
        [batch, heads, rows, self.given_keys]
    }

    /// Adds the gradient \[rows, keys\] of one head's scores, from query `first` on, to the gradient of the mask.
    pub(crate) fn add_to_gradient(
        &self,
        sum: &mut [f32],
        (entry, head): (usize, usize),
        first: usize,
        keys: Range<usize>,
        d_scores: &[f32],
    ) {
        let [_, _, rows, _] = self.shape;
        for (i, d_scores) in d_scores.chunks_exact(keys.len().max(1)).enumerate() {
            let row = self.start(entry, head) + if rows == 1 { 0 } else { first + i };
            let sum = &mut sum[row * self.given_keys..][..self.given_keys];
            if let [sum] = sum {
                *sum += d_scores.iter().sum::<f32>();
            } else {
                sum.iter_mut().skip(keys.start).zip(d_scores).for_each(|(sum, d)| *sum += d);
            }
        }
    }
}
