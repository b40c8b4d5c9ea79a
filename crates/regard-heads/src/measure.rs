use serde::{Deserialize, Serialize};
use wide::f32x8;

/// A property of a head as one number: a mean over the queries. Every measure can sort heads.
///
/// Queries that see nothing (all weights are 0) and rows that are not weights are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Measure {
    /// −Σ w ln w, in nats.
    #[serde(alias = "relative-entropy")]
    Entropy,
    /// Σ w·|query − key|.
    Distance,
    /// The weight on the first key.
    FirstToken,
    /// The weight on the preceding token.
    PreviousToken,
    /// The weight on the query's own token.
    SameToken,
    /// The weight on earlier occurrences of the query's token.
    DuplicateToken,
    /// The weight on the tokens that follow those occurrences.
    Induction,
}

impl Measure {
    /// All measures.
    pub const ALL: &'static [Self] = &[
        Self::Entropy,
        Self::Distance,
        Self::FirstToken,
        Self::PreviousToken,
        Self::SameToken,
        Self::DuplicateToken,
        Self::Induction,
    ];

    /// The patterns that heads are known for. Each measures the share of weight on keys of one kind.
    pub const PATTERNS: &'static [Self] = &[
        Self::FirstToken,
        Self::PreviousToken,
        Self::SameToken,
        Self::DuplicateToken,
        Self::Induction,
    ];

    /// The name, with its unit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Entropy => "Entropy (nats)",
            Self::Distance => "Distance (tokens)",
            Self::FirstToken => "First token (sink)",
            Self::PreviousToken => "Previous token",
            Self::SameToken => "Same token",
            Self::DuplicateToken => "Duplicate token",
            Self::Induction => "Induction",
        }
    }

    /// A value in words: "entropy 2.1 nats", "previous token 34 %".
    pub fn in_words(self, x: f32) -> String {
        let name = self.name().split(" (").next().unwrap_or_default().to_lowercase();
        let unit = match self {
            Self::Entropy => " nats",
            Self::Distance => " tokens",
            _ => "",
        };
        format!("{name} {}{unit}", self.short(x))
    }

    /// A value for a narrow column: "2.1", "34 %".
    pub fn short(self, x: f32) -> String {
        match self {
            Self::Entropy | Self::Distance => format!("{x:.1}"),
            _ => format!("{:.0} %", 100.0 * x),
        }
    }

    /// A definition for readers who meet the measure for the first time.
    pub fn description(self) -> &'static str {
        match self {
            Self::Entropy => {
                "How spread out the weights are: −Σ w·ln w of a query's row, averaged over the queries. 0 nats means that all \
                 weight is on one key. ln 8 = 2.1 nats is the entropy of 8 equal weights."
            }
            Self::Distance => {
                "How far away a query attends, in tokens: Σ w·|position of the query − position of the key|, averaged over \
                 the queries. In a causal model, this is how far back it attends. Self-attention only."
            }
            Self::FirstToken => {
                "The share of weight on the first key, averaged over the queries. Heads that have nothing to add often leave \
                 their weight there: the first key is an attention sink."
            }
            Self::PreviousToken => {
                "The share of weight on the token just before the query, averaged over all queries but the first. A \
                 previous-token head is one half of an induction circuit. Self-attention only."
            }
            Self::SameToken => {
                "The share of weight on the query's own position (the diagonal), averaged over the queries. Self-attention \
                 only."
            }
            Self::DuplicateToken => {
                "The share of weight on earlier occurrences of the query's own token, averaged over the queries that have \
                 one. It needs tokens, some of which occur more than once. Self-attention only."
            }
            Self::Induction => {
                "The share of weight on the tokens that followed earlier occurrences of the query's token, averaged over the \
                 queries that have one: when \"A\" comes again, the head attends to what came after \"A\" before. It needs \
                 tokens, some of which occur more than once. Self-attention only."
            }
        }
    }
}

/// All measures of one head. A measure is missing where it has no meaning or no queries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measures([Option<Mean>; Measure::ALL.len()]);

/// A mean over queries.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Mean {
    value: f32,
    queries: usize,
    is_significant: bool,
}

/// A mean over fewer queries is not significant.
const FEWEST_QUERIES: f64 = 3.0;

impl Measures {
    /// The value of a measure.
    pub fn get(&self, measure: Measure) -> Option<f32> {
        self.mean(measure).map(|mean| mean.value)
    }

    /// The pattern with the largest significant share of weight, with this share. `among` lists the patterns to choose from.
    pub fn pattern(&self, among: &[Measure]) -> Option<(Measure, f32)> {
        let shares = among.iter().filter(|pattern| self.is_significant(**pattern));
        let shares = shares.filter_map(|pattern| Some((*pattern, self.get(*pattern)?)));
        shares.max_by(|(_, a), (_, b)| a.total_cmp(b))
    }

    /// The number of queries that the measure is a mean of. 0 where the measure is missing.
    pub fn queries(&self, measure: Measure) -> usize {
        self.mean(measure).map_or(0, |mean| mean.queries)
    }

    /// Whether the value says something about the head.
    ///
    /// A share of weight is significant if it is the mean of at least three queries and exceeds the share of equal weights on
    /// all visible keys by more than two standard errors. A single query with a large weight is not significant. Entropies
    /// and distances always are.
    pub fn is_significant(&self, measure: Measure) -> bool {
        self.mean(measure).is_some_and(|mean| mean.is_significant)
    }

    fn mean(&self, measure: Measure) -> Option<Mean> {
        self.0[measure as usize]
    }

    fn set(&mut self, measure: Measure, sum: f64, divisor: f64, queries: f64) {
        self.0[measure as usize] = (divisor > 0.0).then(|| Mean {
            value: (sum / divisor) as f32,
            queries: queries as usize,
            is_significant: true,
        });
    }

    fn set_share(&mut self, measure: Measure, share: &Share, causal: bool) {
        self.set(measure, share.sum, share.queries, share.queries);
        if let Some(mean) = &mut self.0[measure as usize] {
            mean.is_significant = share.is_significant(causal);
        }
    }
}

/// The share of weight on certain keys, summed over the queries that have such keys.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    sum: f64,
    squares: f64,
    queries: f64,
    /// The sum of the shares of equal weights: on all keys, and on the keys up to the query's own position.
    equal: [f64; 2],
}

impl Share {
    /// Adds the weight of one query on `keys` keys.
    fn add(&mut self, weight: f64, keys: usize, visible: [f64; 2]) {
        self.sum += weight;
        self.squares += weight * weight;
        self.queries += 1.0;
        for (equal, visible) in self.equal.iter_mut().zip(visible) {
            *equal += keys as f64 / visible;
        }
    }

    /// Whether the mean m of n queries exceeds that of equal weights by two standard errors, √(Σ(x − m)² / (n − 1) / n).
    fn is_significant(&self, causal: bool) -> bool {
        let Self { sum, squares, queries, equal } = *self;
        if queries < FEWEST_QUERIES {
            return false;
        }
        let (mean, equal) = (sum / queries, equal[usize::from(causal)] / queries);
        let variance = (squares / queries - mean * mean).max(0.0) * queries / (queries - 1.0);
        mean - 2.0 * (variance / queries).sqrt() > equal
    }
}

/// For each token, the last position before it with the same text.
#[derive(Clone, Debug)]
pub(super) struct Earlier(Vec<Option<usize>>);

impl Earlier {
    pub(super) fn new<'a>(tokens: impl Iterator<Item = &'a str>) -> Self {
        let mut last = std::collections::HashMap::new();
        Self(tokens.enumerate().map(|(i, token)| last.insert(token, i)).collect())
    }

    /// The positions before `i` with the same text, from the last to the first.
    fn of(&self, i: usize) -> impl Iterator<Item = usize> + '_ {
        let before = |j: usize| self.0.get(j).copied().flatten();
        core::iter::successors(before(i), move |j| before(*j))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// Weights that sum to 1.
    Distribution,
    /// Weights that sum to something else.
    Unnormalised,
    /// All weights are 0: the query sees nothing.
    Hidden,
    NotANumber,
    /// Some number is negative or infinite.
    NotWeights,
}

/// The largest distance of a row's sum from 1. Rounding 4096 equal weights to BF16 stays below it.
const TOLERANCE: f64 = 0.01;

/// The sums from which the measures of a head follow. Rows are added one by one.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    rows: f64,
    entropy: f64,
    distance: f64,
    first: Share,
    previous: Share,
    same: Share,
    duplicate: Share,
    induction: Share,
    /// Whether a query attends to keys after its own position.
    pub(super) sees_later: bool,
}

impl Sums {
    /// Adds a row. In self-attention, `query` is its position among the keys.
    pub(super) fn add(
        &mut self,
        row: &[f32],
        query: Option<usize>,
        earlier: Option<&Earlier>,
    ) -> Row {
        // The distances of the keys up to the query's own position fall from `query` to 0. Those of later keys rise from 1.
        let own = query.unwrap_or(row.len());
        let (back, later) = row.split_at(row.len().min(own + 1));
        let (back, later) = (Totals::of(back, own as f32, -1.0), Totals::of(later, 1.0, 1.0));
        let sum = back.sum + later.sum;
        if !sum.is_finite() || back.smallest.min(later.smallest) < 0.0 {
            return if row.iter().any(|w| w.is_nan()) { Row::NotANumber } else { Row::NotWeights };
        }
        if sum == 0.0 {
            return Row::Hidden;
        }
        self.sees_later |= later.sum != 0.0;
        self.rows += 1.0;
        // With w = x / sum: −Σ w ln w = ln sum − Σ x ln x / sum.
        self.entropy += (sum.ln() - (back.x_ln_x + later.x_ln_x) / sum).max(0.0);
        let visible = [row.len(), row.len().min(own + 1)].map(|keys| keys as f64);
        let weight = |key: usize| row.get(key).map_or(0.0, |w| f64::from(*w) / sum);
        self.first.add(weight(0), 1, visible);
        if let Some(query) = query {
            self.distance += (back.distance + later.distance) / sum;
            self.same.add(weight(query), 1, visible);
            if let Some(previous) = query.checked_sub(1) {
                self.previous.add(weight(previous), 1, visible);
            }
            if let Some(earlier) = earlier {
                // After a direct repetition, the follower would be the query itself.
                let followers = earlier.of(query).map(|i| i + 1).filter(|i| *i != query);
                add_all(&mut self.duplicate, earlier.of(query), weight, visible);
                add_all(&mut self.induction, followers, weight, visible);
            }
        }
        if (sum - 1.0).abs() <= TOLERANCE { Row::Distribution } else { Row::Unnormalised }
    }

    /// The measures. `causal`: no query of the file attends to later keys.
    pub(super) fn finish(&self, causal: bool) -> Measures {
        let mut measures = Measures::default();
        measures.set(Measure::Entropy, self.entropy, self.rows, self.rows);
        measures.set(Measure::Distance, self.distance, self.same.queries, self.same.queries);
        for (measure, share) in [
            (Measure::FirstToken, &self.first),
            (Measure::PreviousToken, &self.previous),
            (Measure::SameToken, &self.same),
            (Measure::DuplicateToken, &self.duplicate),
            (Measure::Induction, &self.induction),
        ] {
            measures.set_share(measure, share, causal);
        }
        measures
    }
}

/// Adds the weight of a query on some keys, if there are any.
fn add_all(
    share: &mut Share,
    keys: impl Iterator<Item = usize>,
    weight: impl Fn(usize) -> f64,
    visible: [f64; 2],
) {
    let (sum, count) = keys.fold((0.0, 0), |(sum, count), key| (sum + weight(key), count + 1));
    if count > 0 {
        share.add(sum, count, visible);
    }
}

/// Sums over a part of a row.
struct Totals {
    sum: f64,
    x_ln_x: f64,
    distance: f64,
    smallest: f32,
}

impl Totals {
    /// The first weight is `distance` tokens away, and each following weight `step` tokens more.
    fn of(weights: &[f32], distance: f32, step: f32) -> Self {
        let lanes = f32x8::from([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        let mut distances = lanes * f32x8::splat(step) + f32x8::splat(distance);
        let mut sums = [f32x8::ZERO; 4];
        let mut add = |x: f32x8| {
            // 0 · ln 0 is 0.
            let x_ln_x = x * x.fast_max(f32x8::splat(f32::MIN_POSITIVE)).ln();
            sums = [sums[0] + x, sums[1] + x_ln_x, sums[2] + x * distances, sums[3].fast_min(x)];
            distances += f32x8::splat(8.0 * step);
        };
        let (blocks, rest) = weights.as_chunks::<8>();
        for block in blocks {
            add(f32x8::from(*block));
        }
        let mut last = [0.0; 8];
        last[..rest.len()].copy_from_slice(rest);
        add(f32x8::from(last));
        let [sum, x_ln_x, distance] =
            [sums[0], sums[1], sums[2]].map(|s| f64::from(s.reduce_add()));
        Self { sum, x_ln_x, distance, smallest: sums[3].to_array().into_iter().fold(0.0, f32::min) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_left_out_does_not_affect_the_mask() {
        let mut sums = Sums::default();
        sums.add(&[0.5, f32::NAN], Some(0), None);
        sums.add(&[1.0, 0.0], Some(0), None);
        assert!(!sums.sees_later);
        sums.add(&[0.5, 0.5], Some(0), None);
        assert!(sums.sees_later);
    }

    /// The token of a causal head's last query occurs once before, and the head attends to the token after it. A single such
    /// query says nothing about the head; six of them do.
    #[test]
    fn a_share_of_one_query_is_not_significant() {
        let induction = |tokens: &[&str], first: usize| {
            let n = tokens.len();
            let earlier = Earlier::new(tokens.iter().copied());
            let mut sums = Sums::default();
            for i in 0..n {
                let mut row = vec![0.0; n];
                row[if i >= first { i + 1 - first } else { 0 }] = 1.0;
                sums.add(&row, Some(i), Some(&earlier));
            }
            let measures = sums.finish(true);
            (
                measures.get(Measure::Induction),
                measures.queries(Measure::Induction),
                measures.is_significant(Measure::Induction),
            )
        };
        assert_eq!(induction(&["a", "b", "c", "d", "a"], 4), (Some(1.0), 1, false));
        let repeated = ["a", "b", "c", "d", "e", "f", "a", "b", "c", "d", "e", "f"];
        assert_eq!(induction(&repeated, 6), (Some(1.0), 6, true));
    }
}
