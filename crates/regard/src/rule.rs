//! Rules of who sees whom, which are joined by "and" and "or". Their rows are written when a block of queries needs them.

use core::ops::Range;
use std::collections::HashMap;

use regard_kernels::{Position, Window};

use crate::error::{Error, check_shape};

/// Which keys a query may see, as a rule: for [`Mask::rule`](crate::Mask::rule).
///
/// The parts of a [`Mask`](crate::Mask) all have to allow a key. Rules can also be alternatives, and they know documents and
/// prefixes. No matrix \[queries, keys\] is kept: a thread writes the rows of the queries that it computes, and keys that none of
/// them sees are not computed.
///
/// ```
/// use regard::{Attention, Documents, Heads, Mask, Position, Rule};
/// let x = Heads::new("x", &[1.0, 3.0, 8.0, 9.0], [1, 1, 4, 1])?;
/// let out = |rule: &Rule| Attention::new().scale(0.0).mask(Mask::NONE.rule(rule)).forward(x, x, x);
/// // Two texts in one row: a token sees those of its own text, up to itself.
/// let causal = || Rule::Causal(Position::TopLeft);
/// let texts = Rule::Documents(Position::TopLeft, vec![Documents::new(vec![7, 7, 7, 2])]);
/// assert_eq!(out(&Rule::All(vec![texts, causal()]))?, [1.0, 2.0, 4.0, 9.0]);
/// // The first two tokens are a prefix, which every token sees.
/// assert_eq!(out(&Rule::Any(vec![Rule::Prefix(vec![2]), causal()]))?, [2.0, 2.0, 4.0, 5.25]);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rule {
    /// Keys up to the query's position.
    Causal(Position),
    /// Keys within a window around the query's position.
    Window(Position, Window),
    /// The first keys: their number, for all batch entries or \[batch\].
    Prefix(Vec<usize>),
    /// Keys of the same document as the key at the query's position: the documents of the keys, for all batch entries or
    /// \[batch\]. A query that stands at no key sees none.
    Documents(Position, Vec<Documents>),
    /// Keys that all rules allow.
    All(Vec<Self>),
    /// Keys that some rule allows.
    Any(Vec<Self>),
}

/// The documents to which the keys of a batch entry belong: for [`Rule::Documents`], which has an example.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Documents {
    /// \[n_k\].
    ids: Vec<i64>,
    /// \[n_k\]: from the first key of a key's document to its last one.
    spans: Vec<(usize, usize)>,
}

impl Documents {
    /// The documents of keys, by the number of each key's document \[n_k\]. The keys of a document need not lie side by side.
    #[must_use]
    pub fn new(ids: Vec<i64>) -> Self {
        let mut of = HashMap::new();
        for (key, id) in ids.iter().enumerate() {
            of.entry(*id).or_insert((key, key)).1 = key;
        }
        let spans = ids.iter().map(|id| of[id]).collect();
        Self { ids, spans }
    }
}

/// A query, and the keys of its batch entry.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) entry: usize,
    /// The query's place among all queries.
    pub(crate) query: usize,
    pub(crate) n_q: usize,
    /// The number of keys that are no padding.
    pub(crate) key_len: usize,
}

impl Place {
    /// The key at which the query stands.
    fn key(self, position: Position) -> isize {
        let first = match position {
            Position::TopLeft => 0,
            Position::BottomRight => self.key_len as isize - self.n_q as isize,
            Position::Offset(offset) => offset,
        };
        first.saturating_add_unsigned(self.query)
    }
}

impl Rule {
    /// `Ok` if every list has an item for each batch entry and key.
    pub(crate) fn check(&self, batch: usize, n_k: usize) -> Result<(), Error> {
        let entries = |tensor, len: usize| {
            let fitting = if len == 1 { 1 } else { batch };
            check_shape(tensor, &[len], &[fitting], "one, or one a batch entry")
        };
        match self {
            Self::Causal(_) | Self::Window(..) => Ok(()),
            Self::Prefix(lengths) => entries("the lengths of prefixes", lengths.len()),
            Self::Documents(_, ids) => {
                entries("the documents", ids.len())?;
                ids.iter().try_for_each(|ids| {
                    check_shape("the documents", &[ids.ids.len()], &[n_k], "one a key")
                })
            }
            Self::All(rules) | Self::Any(rules) => {
                rules.iter().try_for_each(|rule| rule.check(batch, n_k))
            }
        }
    }

    /// A range of keys outside of which the query sees none.
    pub(crate) fn span(&self, place: Place) -> Range<usize> {
        let at = |key: isize| key.max(0).cast_unsigned();
        match self {
            Self::Causal(position) => 0..at(place.key(*position).saturating_add(1)),
            Self::Window(position, Window { left, right }) => {
                let key = place.key(*position);
                let start = left.map_or(0, |left| at(key.saturating_sub_unsigned(left)));
                let end = |right| at(key.saturating_add_unsigned(right).saturating_add(1));
                start..right.map_or(usize::MAX, end)
            }
            Self::Prefix(lengths) => 0..*of_entry(lengths, place.entry),
            Self::Documents(position, of) => {
                let spans = &of_entry(of, place.entry).spans;
                let own = usize::try_from(place.key(*position)).ok().and_then(|at| spans.get(at));
                own.map_or(0..0, |(first, last)| *first..last + 1)
            }
            Self::All(rules) => rules.iter().fold(0..usize::MAX, |all, rule| {
                let Range { start, end } = rule.span(place);
                all.start.max(start)..all.end.min(end)
            }),
            Self::Any(rules) => rules.iter().fold(0..0, |any, rule| hull(any, rule.span(place))),
        }
    }

    /// Writes which of some `keys` a query may see.
    pub(crate) fn write(&self, place: Place, keys: &Range<usize>, row: &mut [bool]) {
        row.fill(true);
        self.join::<false>(place, keys, row);
    }

    /// Joins the row with those that the rule allows: by "or", else by "and".
    fn join<const OR: bool>(&self, place: Place, keys: &Range<usize>, row: &mut [bool]) {
        let range = |allowed: Range<usize>, row: &mut [bool]| {
            let start = allowed.start.saturating_sub(keys.start).min(row.len());
            let end = allowed.end.saturating_sub(keys.start).clamp(start, row.len());
            if OR {
                row[start..end].fill(true);
            } else {
                row[..start].fill(false);
                row[end..].fill(false);
            }
        };
        match self {
            Self::Causal(_) | Self::Window(..) | Self::Prefix(_) => range(self.span(place), row),
            Self::Documents(position, ids) => {
                let ids = &of_entry(ids, place.entry).ids;
                let own = usize::try_from(place.key(*position)).ok().and_then(|at| ids.get(at));
                let Some(own) = own else {
                    return range(0..0, row);
                };
                for (allowed, id) in row.iter_mut().zip(&ids[keys.clone()]) {
                    let same = id == own;
                    if OR { *allowed |= same } else { *allowed &= same }
                }
            }
            Self::All(rules) if !OR => {
                for rule in rules {
                    rule.join::<false>(place, keys, row);
                }
            }
            Self::Any(rules) if OR => {
                for rule in rules {
                    rule.join::<true>(place, keys, row);
                }
            }
            Self::All(rules) => {
                let mut all = vec![true; row.len()];
                for rule in rules {
                    rule.join::<false>(place, keys, &mut all);
                }
                row.iter_mut().zip(all).for_each(|(row, x)| *row |= x);
            }
            Self::Any(rules) => {
                let mut any = vec![false; row.len()];
                for rule in rules {
                    rule.join::<true>(place, keys, &mut any);
                }
                row.iter_mut().zip(any).for_each(|(row, x)| *row &= x);
            }
        }
    }
}

/// The smallest range that has both.
pub(crate) fn hull(a: Range<usize>, b: Range<usize>) -> Range<usize> {
    match (a.is_empty(), b.is_empty()) {
        (true, _) => b,
        (_, true) => a,
        _ => a.start.min(b.start)..a.end.max(b.end),
    }
}

/// The item of a batch entry, or the only one. [`Rule::check`] ensures that there is one.
fn of_entry<T>(items: &[T], entry: usize) -> &T {
    if let [only] = items { only } else { &items[entry] }
}
