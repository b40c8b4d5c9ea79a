use core::ops::Range;

use crate::Mat;
use crate::error::{Error, check_shape};
use crate::fused::Online;
use crate::scores::Group;
use crate::simd::{NARROW, Simd};

/// Where query 0 stands among the keys; query i stands i places further on. Causal and window masks go by it.
///
/// For as many queries as keys and no key length, `TopLeft` and `BottomRight` agree. Else they do not, and every library has
/// another default: here one says which is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Query i stands at key i.
    TopLeft,
    /// The last query stands at the last key (at the last of the [key length](Mask::key_len), where one is given).
    BottomRight,
    /// Query i stands at key `offset + i`: after a cache, the number of keys that it holds. May be negative.
    Offset(isize),
}

/// How far a query sees from where it stands, itself not counted. `None` is without limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Window {
    /// Keys to the left.
    pub left: Option<usize>,
    /// Keys to the right.
    pub right: Option<usize>,
}

/// Which keys each query may see: a value, composed from parts. A key is seen if every part allows it.
///
/// ```
/// use regard_kernels::{Mask, Position, Window};
/// // Causal, at most 128 keys back, 10 keys cached:
/// let position = Position::Offset(10);
/// let mask = Mask::NONE.causal(position).window(position, Window { left: Some(128), right: None });
/// assert!(mask.sees(0, 10, 1, 11) && !mask.sees(0, 11, 1, 12));
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Mask<'a> {
    causal: Option<Position>,
    window: Option<(Position, Window)>,
    key_len: Option<usize>,
    /// The first, and the one behind the last.
    keys: Option<(usize, usize)>,
    allowed: Option<Mat<'a, bool>>,
    bias: Option<Mat<'a>>,
    alibi: Option<(Position, f32)>,
    hiding: Option<&'static Hiding>,
}

/// What every mask needs, and [`Mask::NONE`] does not: where code is counted, it is called from this table alone, so that a
/// program that never masks need not link it.
#[derive(Debug)]
struct Hiding {
    check: fn(&Mask<'_>, usize, usize) -> Result<(), Error>,
    bounds: for<'a> fn(&Mask<'a>, usize, usize) -> Bounds<'a>,
    range: fn(&Bounds<'_>, usize) -> Range<usize>,
    sees: fn(&Bounds<'_>, usize, usize) -> bool,
    apply: fn(&Bounds<'_>, usize, usize, &mut [f32]),
    may_hide: fn(&Bounds<'_>, usize, usize, &Range<usize>) -> bool,
    add_seen: fn(&mut Online<'_, '_>, Mat<'_>, &Group, &Bounds<'_>) -> bool,
}

static HIDING: Hiding = Hiding {
    check: |mask, n_q, n_k| mask.check_parts(n_q, n_k),
    bounds: |mask, n_q, n_k| Bounds::of(mask, n_q, n_k),
    range: |bounds, i| bounds.range_of(i),
    sees: |bounds, i, key| bounds.sees_by_parts(i, key),
    apply: |bounds, i, key, scores| bounds.apply_parts(i, key, scores),
    may_hide: |bounds, i, rows, keys| bounds.may_hide_by_parts(i, rows, keys),
    add_seen: |online, weights, group, bounds| {
        online.add_seen_unless_finite(weights, group, bounds)
    },
};

/// The functions that a mask is applied by. Where code is not counted, they are known to the compiler.
macro_rules! hiding {
    ($self:expr, $field:ident, $function:path, ($($argument:expr),*), none: $none:expr) => {
        if !NARROW {
            $function($($argument),*)
        } else if let Some(hiding) = $self.hiding {
            (hiding.$field)($($argument),*)
        } else {
            $none
        }
    };
}

impl<'a> Mask<'a> {
    /// Every query sees every key.
    pub const NONE: Self = Self {
        causal: None,
        window: None,
        key_len: None,
        keys: None,
        allowed: None,
        bias: None,
        alibi: None,
        hiding: None,
    };

    /// A query sees no key to the right of where it stands.
    #[must_use]
    pub const fn causal(mut self, position: Position) -> Self {
        self.causal = Some(position);
        self.hiding = Some(&HIDING);
        self
    }

    /// A query sees the keys within a window around where it stands.
    #[must_use]
    pub const fn window(mut self, position: Position, window: Window) -> Self {
        self.window = Some((position, window));
        self.hiding = Some(&HIDING);
        self
    }

    /// Only the first `len` keys may be seen: the rest is padding.
    #[must_use]
    pub const fn key_len(mut self, len: usize) -> Self {
        self.key_len = Some(len);
        self.hiding = Some(&HIDING);
        self
    }

    /// \[n_q, n_k\]: where `true`, the key may be seen.
    #[must_use]
    pub const fn allowed(mut self, allowed: Mat<'a, bool>) -> Self {
        self.allowed = Some(allowed);
        self.hiding = Some(&HIDING);
        self
    }

    /// \[n_q, n_k\]: added to the scores. Where it is −∞ the key may not be seen, whatever the score (NaN included).
    #[must_use]
    pub const fn bias(mut self, bias: Mat<'a>) -> Self {
        self.bias = Some(bias);
        self.hiding = Some(&HIDING);
        self
    }

    /// Only keys `start..end` may be seen: a part of them, to be computed apart (see [`Partial`](crate::Partial)). Where a
    /// query stands does not depend on it.
    #[must_use]
    pub const fn keys(mut self, start: usize, end: usize) -> Self {
        self.keys = Some((start, end));
        self.hiding = Some(&HIDING);
        self
    }

    /// Attention with linear biases (Press et al. 2022): −`slope` · (how far the key is from where the query stands) is
    /// added to a score, to the left and to the right alike.
    ///
    /// ```
    /// use regard_kernels::{Attention, Mask, Mat, MatMut, Position, Stage, attention_scratch_len};
    /// let (q, k, mut scores) = ([[0.0]], [[0.0]; 3], [[0.0; 3]]);
    /// let attention = Attention::new().mask(Mask::NONE.alibi(Position::BottomRight, 0.5));
    /// let mut scratch = [0.0; attention_scratch_len(1, 3, 1, 0)];
    /// attention.scores(Stage::Masked, Mat::from(&q), Mat::from(&k), MatMut::from(&mut scores), &mut scratch)?;
    /// assert_eq!(scores, [[-1.0, -0.5, 0.0]]);
    /// # Ok::<(), regard_kernels::Error>(())
    /// ```
    #[must_use]
    pub const fn alibi(mut self, position: Position, slope: f32) -> Self {
        self.alibi = Some((position, slope));
        self.hiding = Some(&HIDING);
        self
    }

    /// Whether `query` of `n_q` may see `key` of `n_k`.
    #[must_use]
    pub fn sees(&self, query: usize, key: usize, n_q: usize, n_k: usize) -> bool {
        Bounds::new(self, n_q, n_k).sees(query, key)
    }

    /// The mask of `rows` queries from `first` on, of `n_q` queries and `n_k` keys in all: for computing them apart.
    ///
    /// ```
    /// use regard_kernels::{Mask, Position};
    /// let whole = Mask::NONE.causal(Position::BottomRight);
    /// let part = whole.rows(2, 1, 4, 6);
    /// assert_eq!(part.sees(0, 4, 1, 6), whole.sees(2, 4, 4, 6));
    /// ```
    #[must_use]
    pub fn rows(&self, first: usize, rows: usize, n_q: usize, n_k: usize) -> Self {
        let len = self.key_len.unwrap_or(n_k);
        let moved =
            |p: Position| Position::Offset(start(p, n_q, len).saturating_add_unsigned(first));
        Self {
            causal: self.causal.map(moved),
            window: self.window.map(|(p, w)| (moved(p), w)),
            key_len: self.key_len,
            keys: self.keys,
            alibi: self.alibi.map(|(p, slope)| (moved(p), slope)),
            allowed: self.allowed.map(|m| m.rows_from(first, rows)),
            bias: self.bias.map(|m| m.rows_from(first, rows)),
            hiding: self.hiding,
        }
    }

    /// The mask of `keys` keys from `first` on, of `n_q` queries and `n_k` keys in all: for computing with these keys alone.
    ///
    /// ```
    /// use regard_kernels::{Mask, Position};
    /// let whole = Mask::NONE.causal(Position::BottomRight);
    /// let part = whole.columns(3, 2, 4, 6);
    /// assert_eq!(part.sees(0, 0, 4, 2), whole.sees(0, 3, 4, 6));
    /// ```
    #[must_use]
    pub fn columns(&self, first: usize, keys: usize, n_q: usize, n_k: usize) -> Self {
        let len = self.key_len.unwrap_or(n_k);
        let moved =
            |p: Position| Position::Offset(start(p, n_q, len).saturating_sub_unsigned(first));
        Self {
            causal: self.causal.map(moved),
            window: self.window.map(|(p, w)| (moved(p), w)),
            key_len: self.key_len.map(|len| len.saturating_sub(first).min(keys)),
            keys: self
                .keys
                .map(|(from, to)| (from.saturating_sub(first), to.saturating_sub(first))),
            alibi: self.alibi.map(|(p, slope)| (moved(p), slope)),
            allowed: self.allowed.map(|m| m.block(0, n_q, first, keys)),
            bias: self.bias.map(|m| m.block(0, n_q, first, keys)),
            hiding: self.hiding,
        }
    }

    /// The keys of `n_k` that some of `n_q` queries may see by their places: with the others nothing need be computed.
    ///
    /// ```
    /// use regard_kernels::{Mask, Position, Window};
    /// let near = Window { left: Some(2), right: Some(0) };
    /// assert_eq!(Mask::NONE.window(Position::BottomRight, near).seen(1, 100), 97..100);
    /// ```
    #[must_use]
    pub fn seen(&self, n_q: usize, n_k: usize) -> Range<usize> {
        if n_q == 0 { 0..0 } else { Bounds::new(self, n_q, n_k).range_of_rows(0, n_q) }
    }

    /// Whether it is [`NONE`](Self::NONE).
    #[inline]
    pub(crate) const fn is_none(&self) -> bool {
        self.hiding.is_none()
    }

    /// Whether it adds something to the scores.
    pub(crate) const fn has_bias(&self) -> bool {
        self.bias.is_some() || self.alibi.is_some()
    }

    pub(crate) fn check(&self, n_q: usize, n_k: usize) -> Result<(), Error> {
        hiding!(self, check, Self::check_parts, (self, n_q, n_k), none: Ok(()))
    }

    fn check_parts(&self, n_q: usize, n_k: usize) -> Result<(), Error> {
        const WHY: &str = "queries × keys";
        if let Some(m) = self.allowed {
            check_shape("the boolean mask", m.shape(), (n_q, n_k), WHY)?;
        }
        if let Some(m) = self.bias {
            check_shape("the additive mask", m.shape(), (n_q, n_k), WHY)?;
        }
        if let Some((_, slope)) = self.alibi
            && !slope.is_finite()
        {
            return Err(Error::Range { name: "the slope of ALiBi", value: slope, range: "finite" });
        }
        match self.key_len {
            Some(len) if len > n_k => {
                Err(Error::Length { tensor: "key", found: n_k, expected: len })
            }
            _ => Ok(()),
        }
    }
}

/// No slice is longer than `isize::MAX`, but numbers of queries and keys can be asked about without one.
fn clamp_to_isize(n: usize) -> isize {
    isize::try_from(n).unwrap_or(isize::MAX)
}

/// The place of query 0 among the keys.
fn start(position: Position, n_q: usize, key_len: usize) -> isize {
    match position {
        Position::TopLeft => 0,
        Position::BottomRight => clamp_to_isize(key_len).saturating_sub(clamp_to_isize(n_q)),
        Position::Offset(offset) => offset,
    }
}

/// A mask with its positions worked out for given numbers of queries and keys.
#[derive(Clone, Copy)]
pub(crate) struct Bounds<'a> {
    /// Query i sees no key before `first + i`.
    first: Option<isize>,
    /// Query i sees no key from `end + i` on.
    end: Option<isize>,
    /// Nobody sees a key outside of these.
    keys: (usize, usize),
    allowed: Option<Mat<'a, bool>>,
    bias: Option<Mat<'a>>,
    /// The place of query 0, and what a key's distance is multiplied by.
    alibi: Option<(isize, f32)>,
    hiding: Option<&'static Hiding>,
}

impl<'a> Bounds<'a> {
    #[inline]
    pub(crate) fn new(mask: &Mask<'a>, n_q: usize, n_k: usize) -> Self {
        hiding!(mask, bounds, Self::of, (mask, n_q, n_k),
            none: Self { first: None, end: None, keys: (0, n_k), allowed: None, bias: None, alibi: None, hiding: None })
    }

    fn of(mask: &Mask<'a>, n_q: usize, n_k: usize) -> Self {
        let key_len = mask.key_len.unwrap_or(n_k).min(n_k);
        let causal_end = mask.causal.map(|p| start(p, n_q, key_len).saturating_add(1));
        let (mut first, mut end) = (None, causal_end);
        if let Some((position, window)) = mask.window {
            let at = start(position, n_q, key_len);
            first = window.left.map(|left| at.saturating_sub_unsigned(left));
            let window_end =
                window.right.map(|right| at.saturating_add_unsigned(right).saturating_add(1));
            end = match (causal_end, window_end) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
        }
        let (from, to) = mask.keys.unwrap_or((0, key_len));
        let keys = (from.min(key_len), to.min(key_len));
        let alibi = mask.alibi.map(|(position, slope)| (start(position, n_q, key_len), slope));
        Self {
            first,
            end,
            keys,
            allowed: mask.allowed,
            bias: mask.bias,
            alibi,
            hiding: mask.hiding,
        }
    }

    /// The same, for those of the keys that are in `from..to`.
    pub(crate) fn within(mut self, from: usize, to: usize) -> Self {
        let (start, end) = self.keys;
        self.keys = (start.max(from).min(to), end.min(to));
        self.hiding = Some(&HIDING);
        self
    }

    /// The keys that query `i` may see by its place alone. Both ends never fall as `i` grows.
    #[inline]
    pub(crate) fn range(&self, i: usize) -> Range<usize> {
        hiding!(self, range, Self::range_of, (self, i), none: 0..self.keys.1)
    }

    #[inline]
    fn range_of(&self, i: usize) -> Range<usize> {
        let (from, to) = self.keys;
        let clamp = |x: isize| (x.saturating_add_unsigned(i).max(0) as usize).max(from).min(to);
        let start = self.first.map_or(from, clamp);
        let end = self.end.map_or(to, clamp);
        start..end.max(start)
    }

    /// The keys that some of `rows` queries from `i` on may see by their place.
    #[inline]
    pub(crate) fn range_of_rows(&self, i: usize, rows: usize) -> Range<usize> {
        let start = self.range(i).start;
        start..self.range(i + rows.saturating_sub(1)).end.max(start)
    }

    /// Whether some of `rows` queries from `i` on may be kept from some of `keys`: `false` is certain, `true` is not.
    pub(crate) fn may_hide(&self, i: usize, rows: usize, keys: &Range<usize>) -> bool {
        hiding!(self, may_hide, Self::may_hide_by_parts, (self, i, rows, keys), none: false)
    }

    #[cfg_attr(not(scalar), inline)]
    fn may_hide_by_parts(&self, i: usize, rows: usize, keys: &Range<usize>) -> bool {
        self.allowed.is_some()
            || self.bias.is_some()
            || self.range(i + rows.saturating_sub(1)).start > keys.start
            || self.range(i).end < keys.end
    }

    /// [`Online::add_seen_unless_finite`], where code is counted.
    #[inline(always)]
    pub(crate) fn add_seen(
        &self,
        online: &mut Online<'_, '_>,
        weights: Mat<'_>,
        group: &Group,
    ) -> bool {
        self.hiding.is_some_and(|hiding| (hiding.add_seen)(online, weights, group, self))
    }

    /// Which keys the boolean mask shows to query `i`.
    pub(crate) fn allowed(&self, i: usize) -> Option<&'a [bool]> {
        self.allowed.map(|m| m.row(i))
    }

    pub(crate) fn sees(&self, i: usize, key: usize) -> bool {
        hiding!(self, sees, Self::sees_by_parts, (self, i, key), none: true)
    }

    fn sees_by_parts(&self, i: usize, key: usize) -> bool {
        self.range(i).contains(&key)
            && self.allowed.is_none_or(|m| m.row(i).get(key).copied().unwrap_or(true))
            && self.bias.is_none_or(|m| m.row(i).get(key).copied() != Some(f32::NEG_INFINITY))
    }

    /// Asks for what [`apply`](Self::apply) will read: a mask's rows may be a page apart, and then no hardware sees them coming.
    #[inline(always)]
    pub(crate) fn prefetch<S: Simd>(&self, simd: S, i: usize, key: usize, keys: usize) {
        if let Some(row) = self.allowed.and_then(|m| m.row(i).get(key..key + keys)) {
            for line in row.as_chunks::<64>().0 {
                simd.prefetch(line.as_ptr().cast());
            }
        }
        if let Some(row) = self.bias.and_then(|m| m.row(i).get(key..key + keys)) {
            for line in row.as_chunks::<16>().0 {
                simd.prefetch(line.as_ptr());
            }
        }
    }

    /// Adds the bias and hides what query `i` may not see, for the scores of the keys from `key` on.
    #[inline(always)]
    pub(crate) fn apply(&self, i: usize, key: usize, scores: &mut [f32]) {
        hiding!(self, apply, Self::apply_parts, (self, i, key, scores), none: {
            scores.get_mut(self.keys.1.saturating_sub(key)..).unwrap_or_default().fill(f32::NEG_INFINITY);
        });
    }

    #[cfg_attr(not(scalar), inline(always))]
    fn apply_parts(&self, i: usize, key: usize, scores: &mut [f32]) {
        if let Some(bias) = self.bias {
            for (score, bias) in scores.iter_mut().zip(bias.row(i).get(key..).unwrap_or_default()) {
                // By selection: −∞ hides NaN too.
                *score =
                    if *bias == f32::NEG_INFINITY { f32::NEG_INFINITY } else { *score + *bias };
            }
        }
        if let Some((at, slope)) = self.alibi {
            // Distances below 2²⁴ are exact.
            let distance = at.saturating_add_unsigned(i).saturating_sub_unsigned(key) as f32;
            for (j, score) in (0_u16..).zip(scores.iter_mut()) {
                *score -= slope * (distance - f32::from(j)).abs();
            }
        }
        if let Some(allowed) = self.allowed {
            for (score, allowed) in
                scores.iter_mut().zip(allowed.row(i).get(key..).unwrap_or_default())
            {
                // Plus 0, so that no compiler makes stores of it that write some lanes and not others: those are slow.
                *score = if *allowed { *score + 0.0 } else { f32::NEG_INFINITY };
            }
        }
        let range = self.range(i);
        let before = range.start.saturating_sub(key).min(scores.len());
        let behind = range.end.saturating_sub(key).min(scores.len());
        scores.get_mut(..before).unwrap_or_default().fill(f32::NEG_INFINITY);
        scores.get_mut(behind..).unwrap_or_default().fill(f32::NEG_INFINITY);
    }
}
