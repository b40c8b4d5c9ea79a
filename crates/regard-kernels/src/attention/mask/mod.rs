//! Masks. A user composes a [`Mask`]. For given numbers of queries and keys it becomes a [`Visible`](visible). Through
//! [`linked`] a program links only the code of the parts that it uses.

mod linked;
mod position;
mod visible;

use core::ops::Range;

use self::linked::{CAUSAL, MaskLink, POSITIONS, TENSORS, join};
pub(crate) use self::linked::{Linked, RowStep};
pub use self::position::{Position, Window};
use self::visible::MaskParts;
pub(crate) use self::visible::{SeenSum, Visible};
use crate::Mat;
use crate::error::Error;

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
    parts: MaskParts<'a>,
    link: MaskLink,
}

impl<'a> Mask<'a> {
    /// Every query sees every key.
    pub const NONE: Self = Self { parts: MaskParts::NONE, link: None };

    /// A query sees no key to the right of its position.
    #[must_use]
    pub const fn causal(mut self, position: Position) -> Self {
        self.parts.causal = Some(position);
        self.link = Some(join(self.link, &CAUSAL));
        self
    }

    /// A query sees the keys within a window around its position.
    #[must_use]
    pub const fn window(mut self, position: Position, window: Window) -> Self {
        self.parts.window = Some((position, window));
        self.link = Some(join(self.link, &POSITIONS));
        self
    }

    /// Only the first `len` keys may be seen: the rest is padding.
    #[must_use]
    pub const fn key_len(mut self, len: usize) -> Self {
        self.parts.key_len = Some(len);
        self.link = Some(join(self.link, &POSITIONS));
        self
    }

    /// \[n_q, n_k\]: where `true`, the key may be seen.
    #[must_use]
    pub const fn allowed(mut self, allowed: Mat<'a, bool>) -> Self {
        self.parts.allowed = Some(allowed);
        self.link = Some(join(self.link, &TENSORS));
        self
    }

    /// \[n_q, n_k\]: added to the scores. Where it is −∞ the key may not be seen, whatever its score is, NaN included.
    #[must_use]
    pub const fn bias(mut self, bias: Mat<'a>) -> Self {
        self.parts.bias = Some(bias);
        self.link = Some(join(self.link, &TENSORS));
        self
    }

    /// Only the keys `start..end` may be seen. This serves to compute a part of the keys at a time (see
    /// [`Partial`](crate::Partial)). The positions of the queries stay the same.
    #[must_use]
    pub const fn keys(mut self, start: usize, end: usize) -> Self {
        self.parts.keys = Some((start, end));
        self.link = Some(join(self.link, &POSITIONS));
        self
    }

    /// Attention with linear biases (Press et al. 2022): −`slope` · (the distance of the key from the query's position) is
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
        self.parts.alibi = Some((position, slope));
        self.link = Some(join(self.link, &TENSORS));
        self
    }

    /// Whether `query` of `n_q` may see `key` of `n_k`.
    #[must_use]
    pub fn sees(&self, query: usize, key: usize, n_q: usize, n_k: usize) -> bool {
        self.visible(n_q, n_k).sees(query, key)
    }

    /// The mask of `rows` queries from `first` on, out of `n_q` queries and `n_k` keys. It serves to compute these queries
    /// alone.
    ///
    /// ```
    /// use regard_kernels::{Mask, Position};
    /// let whole = Mask::NONE.causal(Position::BottomRight);
    /// let part = whole.rows(2, 1, 4, 6);
    /// assert_eq!(part.sees(0, 4, 1, 6), whole.sees(2, 4, 4, 6));
    /// ```
    #[must_use]
    pub fn rows(&self, first: usize, rows: usize, n_q: usize, n_k: usize) -> Self {
        let parts = self.parts;
        let len = parts.key_len.unwrap_or(n_k);
        let moved = |p: Position| {
            Position::Offset(p.of_first_query(n_q, len).saturating_add_unsigned(first))
        };
        let parts = MaskParts {
            causal: parts.causal.map(moved),
            window: parts.window.map(|(p, w)| (moved(p), w)),
            alibi: parts.alibi.map(|(p, slope)| (moved(p), slope)),
            allowed: parts.allowed.map(|m| m.rows_from(first, rows)),
            bias: parts.bias.map(|m| m.rows_from(first, rows)),
            ..parts
        };
        Self { parts, link: self.link }
    }

    /// The mask of `keys` keys from `first` on, out of `n_q` queries and `n_k` keys. It serves to compute with these keys
    /// alone.
    ///
    /// ```
    /// use regard_kernels::{Mask, Position};
    /// let whole = Mask::NONE.causal(Position::BottomRight);
    /// let part = whole.columns(3, 2, 4, 6);
    /// assert_eq!(part.sees(0, 0, 4, 2), whole.sees(0, 3, 4, 6));
    /// ```
    #[must_use]
    pub fn columns(&self, first: usize, keys: usize, n_q: usize, n_k: usize) -> Self {
        let parts = self.parts;
        let len = parts.key_len.unwrap_or(n_k);
        let moved = |p: Position| {
            Position::Offset(p.of_first_query(n_q, len).saturating_sub_unsigned(first))
        };
        let before = |key: usize| key.saturating_sub(first);
        let parts = MaskParts {
            causal: parts.causal.map(moved),
            window: parts.window.map(|(p, w)| (moved(p), w)),
            key_len: parts.key_len.map(|len| before(len).min(keys)),
            keys: parts.keys.map(|(start, end)| (before(start), before(end))),
            alibi: parts.alibi.map(|(p, slope)| (moved(p), slope)),
            allowed: parts.allowed.map(|m| m.block(0, n_q, first, keys)),
            bias: parts.bias.map(|m| m.block(0, n_q, first, keys)),
        };
        Self { parts, link: self.link }
    }

    /// The range of the `n_k` keys that some of `n_q` queries may see by their positions. No query needs the other keys.
    ///
    /// ```
    /// use regard_kernels::{Mask, Position, Window};
    /// let near = Window { left: Some(2), right: Some(0) };
    /// assert_eq!(Mask::NONE.window(Position::BottomRight, near).seen(1, 100), 97..100);
    /// ```
    #[must_use]
    pub fn seen(&self, n_q: usize, n_k: usize) -> Range<usize> {
        if n_q == 0 { 0..0 } else { self.visible(n_q, n_k).range_of_rows(0, n_q).0 }
    }

    /// Whether the mask is [`NONE`](Self::NONE).
    #[inline]
    pub(crate) const fn is_none(&self) -> bool {
        self.link.is_none()
    }

    /// Whether the mask adds something to the scores.
    pub(crate) const fn has_bias(&self) -> bool {
        self.parts.bias.is_some() || self.parts.alibi.is_some()
    }

    /// Whether the mask fits `n_q` queries and `n_k` keys.
    pub(crate) fn check(&self, n_q: usize, n_k: usize) -> Result<(), Error> {
        linked::check_parts(&self.parts, self.link, n_q, n_k)
    }

    /// Which of `n_k` keys each of `n_q` queries may see.
    #[inline]
    pub(crate) fn visible(&self, n_q: usize, n_k: usize) -> Visible<'a> {
        Visible::new(&self.parts, self.link, n_q, n_k)
    }
}
