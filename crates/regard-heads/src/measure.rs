use core::f64::consts::LN_2;

use serde::{Deserialize, Serialize};
use wide::f32x8;

/// What can be said of a head in one number. Each is a mean over the queries; heads can be sorted by any.
///
/// Queries that see nothing (all weights 0), and rows that are no weights, are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// −Σ w log₂ w.
    Entropy,
    /// Entropy divided by the largest there can be.
    RelativeEntropy,
    /// Σ w·|query − key|.
    Distance,
    /// The weight on the first key.
    FirstToken,
    /// The weight on the token before.
    PreviousToken,
    /// The weight on the query's own token.
    SameToken,
    /// The weight on earlier occurrences of the query's token.
    DuplicateToken,
    /// The weight on tokens that follow such an occurrence.
    Induction,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Entropy,
        Self::RelativeEntropy,
        Self::Distance,
        Self::FirstToken,
        Self::PreviousToken,
        Self::SameToken,
        Self::DuplicateToken,
        Self::Induction,
    ];

    /// The name, with its unit.
    pub fn name(self) -> &'static str {
        match self {
            Self::Entropy => "Entropy (bits)",
            Self::RelativeEntropy => "Relative entropy",
            Self::Distance => "Distance (tokens)",
            Self::FirstToken => "First token (sink)",
            Self::PreviousToken => "Previous token",
            Self::SameToken => "Same token",
            Self::DuplicateToken => "Duplicate token",
            Self::Induction => "Induction",
        }
    }

    /// A number of it in words: "entropy 2.1 bits", "previous token 34 %".
    pub fn in_words(self, x: f32) -> String {
        let percent = 100.0 * x;
        match self {
            Self::Entropy => format!("entropy {x:.1} bits"),
            Self::RelativeEntropy => format!("relative entropy {percent:.0} %"),
            Self::Distance => format!("distance {x:.1} tokens"),
            Self::FirstToken => format!("first token {percent:.0} %"),
            Self::PreviousToken => format!("previous token {percent:.0} %"),
            Self::SameToken => format!("same token {percent:.0} %"),
            Self::DuplicateToken => format!("duplicate token {percent:.0} %"),
            Self::Induction => format!("induction {percent:.0} %"),
        }
    }

    /// A number of it for where there is little room: "2.1", "34 %".
    pub fn short(self, x: f32) -> String {
        match self {
            Self::Entropy | Self::Distance => format!("{x:.1}"),
            _ => format!("{:.0} %", 100.0 * x),
        }
    }

    /// What it means, for those who see it for the first time.
    pub fn description(self) -> &'static str {
        match self {
            Self::Entropy => {
                "How spread out the weights are: −Σ w·log₂ w of a query's row, averaged over the queries. 0 bits is all \
                 weight on one key; 3 bits is as spread out as 8 equal weights."
            }
            Self::RelativeEntropy => {
                "The entropy as a share of the largest possible: 0 is all weight on one key, 1 is equal weight on all keys \
                 that may be seen (where no query of the file looks at later keys, those up to its own place)."
            }
            Self::Distance => {
                "How many tokens away a query looks: Σ w·|place of the query − place of the key|, averaged over the \
                 queries. In a causal model, that is how far back. Self-attention only."
            }
            Self::FirstToken => {
                "The share of weight on the first key, averaged over the queries. Heads that have nothing to add often \
                 leave their weight there: an attention sink."
            }
            Self::PreviousToken => {
                "The share of weight on the token just before the query, averaged over all queries but the first. \
                 Previous-token heads are one half of an induction circuit. Self-attention only."
            }
            Self::SameToken => {
                "The share of weight on the query's own place (the diagonal), averaged over the queries. Self-attention \
                 only."
            }
            Self::DuplicateToken => {
                "The share of weight on earlier occurrences of the query's own token, averaged over the queries that have \
                 one. Needs tokens, some of them more than once; self-attention only."
            }
            Self::Induction => {
                "The share of weight on the tokens that followed earlier occurrences of the query's token, averaged over \
                 the queries that have one: what came after \"A\" last time is looked at when \"A\" comes again. Needs \
                 tokens, some of them more than once; self-attention only."
            }
        }
    }
}

/// All measures of one head. A measure is missing where it has no meaning, or no query to be averaged over.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measures([Option<f32>; Measure::ALL.len()]);

impl Measures {
    /// One of them.
    pub fn get(&self, measure: Measure) -> Option<f32> {
        self.0[measure as usize]
    }

    fn set(&mut self, measure: Measure, sum: f64, queries: f64) {
        self.0[measure as usize] = (queries > 0.0).then(|| (sum / queries) as f32);
    }
}

/// For each token the last place before where the same text stood.
#[derive(Clone, Debug)]
pub(super) struct Earlier(Vec<Option<usize>>);

impl Earlier {
    pub(super) fn new<'a>(tokens: impl Iterator<Item = &'a str>) -> Self {
        let mut last = std::collections::HashMap::new();
        Self(tokens.enumerate().map(|(i, token)| last.insert(token, i)).collect())
    }

    /// The places before `i` with the same text, from the last to the first.
    fn of(&self, i: usize) -> impl Iterator<Item = usize> + '_ {
        let before = |j: usize| self.0.get(j).copied().flatten();
        core::iter::successors(before(i), move |j| before(*j))
    }
}

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// Weights that sum to 1.
    Distribution,
    /// Weights that sum to something else.
    Unnormalised,
    /// All weights are 0: the query sees nothing.
    Hidden,
    /// Some number is NaN.
    NotANumber,
    /// Some number is negative or infinite.
    NotWeights,
}

/// How far from 1 a sum may be: rounding 4096 equal weights to BF16 does not reach it.
const TOLERANCE: f64 = 0.01;

/// The measures of a head as they are added up, row by row.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums {
    rows: f64,
    entropy: f64,
    /// log₂ of the number of keys, and of those up to the query's own place.
    largest_entropy: [f64; 2],
    distance: f64,
    first: f64,
    /// Weights on a place, and the queries that have such a place.
    previous: [f64; 2],
    same: [f64; 2],
    duplicate: [f64; 2],
    induction: [f64; 2],
    /// Whether a query sees keys behind its own place.
    pub(super) sees_later: bool,
}

impl Sums {
    /// Adds a row. `query` is its place among the keys, in self-attention.
    pub(super) fn add(
        &mut self,
        row: &[f32],
        query: Option<usize>,
        earlier: Option<&Earlier>,
    ) -> Row {
        // Keys up to the query's own place, whose distances fall from `query` to 0, and those behind it.
        let own = query.unwrap_or(row.len());
        let (back, later) = row.split_at(row.len().min(own + 1));
        let (back, later) = (Part::of(back, own as f32, -1.0), Part::of(later, 1.0, 1.0));
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
        self.entropy += ((sum.ln() - (back.x_ln_x + later.x_ln_x) / sum) / LN_2).max(0.0);
        self.largest_entropy[0] += (row.len() as f64).log2();
        self.largest_entropy[1] += (row.len().min(own + 1) as f64).log2();
        let weight = |key: usize| row.get(key).map_or(0.0, |w| f64::from(*w) / sum);
        self.first += weight(0);
        if let Some(query) = query {
            self.distance += (back.distance + later.distance) / sum;
            add(&mut self.same, weight(query));
            if let Some(previous) = query.checked_sub(1) {
                add(&mut self.previous, weight(previous));
            }
            if let Some(earlier) = earlier {
                self.add_repeated(query, earlier, weight);
            }
        }
        if (sum - 1.0).abs() <= TOLERANCE { Row::Distribution } else { Row::Unnormalised }
    }

    fn add_repeated(&mut self, query: usize, earlier: &Earlier, weight: impl Fn(usize) -> f64) {
        if let Some(sum) = earlier.of(query).map(&weight).reduce(|a, b| a + b) {
            add(&mut self.duplicate, sum);
        }
        // The token itself, where it follows its like at once, is not one that was looked back to.
        let followers = earlier.of(query).map(|place| place + 1).filter(|place| *place != query);
        if let Some(sum) = followers.map(weight).reduce(|a, b| a + b) {
            add(&mut self.induction, sum);
        }
    }

    /// The means. `causal`: no query of the file sees later keys.
    pub(super) fn finish(&self, causal: bool) -> Measures {
        let mut measures = Measures::default();
        measures.set(Measure::Entropy, self.entropy, self.rows);
        measures.set(
            Measure::RelativeEntropy,
            self.entropy,
            self.largest_entropy[usize::from(causal)],
        );
        measures.set(Measure::Distance, self.distance, self.same[1]);
        measures.set(Measure::FirstToken, self.first, self.rows);
        for (measure, [sum, queries]) in [
            (Measure::PreviousToken, self.previous),
            (Measure::SameToken, self.same),
            (Measure::DuplicateToken, self.duplicate),
            (Measure::Induction, self.induction),
        ] {
            measures.set(measure, sum, queries);
        }
        measures
    }
}

fn add([sum, queries]: &mut [f64; 2], weight: f64) {
    *sum += weight;
    *queries += 1.0;
}

/// Sums over a part of a row.
struct Part {
    sum: f64,
    x_ln_x: f64,
    distance: f64,
    smallest: f32,
}

impl Part {
    /// The first weight is `distance` away, and each further one `step` more.
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
    fn a_row_that_is_left_out_says_nothing_of_what_queries_see() {
        let mut sums = Sums::default();
        sums.add(&[0.5, f32::NAN], Some(0), None);
        sums.add(&[1.0, 0.0], Some(0), None);
        assert!(!sums.sees_later);
        sums.add(&[0.5, 0.5], Some(0), None);
        assert!(sums.sees_later);
    }
}
