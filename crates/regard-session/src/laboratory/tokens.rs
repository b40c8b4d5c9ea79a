//! The laboratory's queries and keys: those of a file, or random numbers with given similarities.

use regard_walkthrough::random::TorchRng;

use super::state::MOST_DIM;
use super::{LaboratoryInputs, TokenSource};
use regard_heads::{QueriesAndKeys, packed};
use serde::{Deserialize, Serialize};

/// The bit in which the seed of the keys differs from that of the queries.
const OF_KEYS: u32 = 1 << 31;

/// The queries and keys of some tokens, with all their dimensions. Fewer dimensions are the first of these, and fewer tokens
/// are the first tokens: a slider adds or removes numbers and leaves the others unchanged.
#[derive(Serialize, Deserialize)]
pub struct LaboratoryTokens {
    /// The number of dimensions: [`MOST_DIM`], or that of the file if it has fewer.
    pub width: usize,
    /// \[tokens, width\].
    #[serde(with = "packed")]
    pub queries: Vec<f32>,
    /// \[tokens, width\].
    #[serde(with = "packed")]
    pub keys: Vec<f32>,
}

/// Independent normal numbers, which are drawn once.
pub struct RandomTokens {
    seed: u32,
    of_queries: (TorchRng, Vec<f32>),
    of_keys: (TorchRng, Vec<f32>),
}

impl RandomTokens {
    pub fn new(seed: u32) -> Self {
        let start = |seed| (TorchRng::seed(seed), Vec::new());
        Self { seed, of_queries: start(seed), of_keys: start(seed ^ OF_KEYS) }
    }

    /// Draws the numbers that these inputs need. Another seed starts again.
    pub fn tokens(&mut self, inputs: &LaboratoryInputs) -> LaboratoryTokens {
        if self.seed != inputs.seed {
            *self = Self::new(inputs.seed);
        }
        let n = inputs.tokens * MOST_DIM;
        for (rng, numbers) in [&mut self.of_queries, &mut self.of_keys] {
            numbers.extend(rng.randn(n.saturating_sub(numbers.len())));
        }
        let queries = smoothed(&self.of_queries.1[..n], inputs.smooth);
        let mut keys = smoothed(&self.of_keys.1[..n], inputs.smooth);
        let (alike, apart) = (inputs.alike, (1.0 - inputs.alike * inputs.alike).sqrt());
        for (key, query) in keys.iter_mut().zip(&queries) {
            *key = alike * query + apart * *key;
        }
        LaboratoryTokens { width: MOST_DIM, queries, keys }
    }
}

/// Returns tokens, each `smooth` times the preceding one plus new noise, so that all have variance 1.
fn smoothed(numbers: &[f32], smooth: f32) -> Vec<f32> {
    let new = (1.0 - smooth * smooth).sqrt();
    let mut out = numbers.to_vec();
    for i in MOST_DIM..out.len() {
        out[i] = smooth * out[i - MOST_DIM] + new * out[i];
    }
    out
}

impl LaboratoryTokens {
    pub fn of_file(file: &QueriesAndKeys, inputs: &LaboratoryInputs) -> Self {
        let head = if let TokenSource::File { head, .. } = inputs.source { head } else { 0 };
        let width = file.dim().min(MOST_DIM);
        let [queries, keys] = file.first(head, inputs.tokens, width);
        Self { width, queries, keys }
    }

    /// Queries and keys \[tokens, dim\], with the sink.
    pub fn of_dim(&self, dim: usize, sink: f32) -> (Vec<f32>, Vec<f32>) {
        let first = |x: &[f32]| -> Vec<f32> {
            x.chunks_exact(self.width).flat_map(|row| &row[..dim]).copied().collect()
        };
        let (mut queries, mut keys) = (first(&self.queries), first(&self.keys));
        if sink > 0.0 {
            // A vector u of length √(sink·√d) is added to all queries and to the first key: q·k grows by sink·√d.
            let u = (sink * (dim as f32).sqrt()).sqrt() / (dim as f32).sqrt();
            queries.iter_mut().chain(keys.iter_mut().take(dim)).for_each(|x| *x += u);
        }
        (queries, keys)
    }

    /// The dot products of one query with all keys over the first `dim` dimensions, without the sink.
    pub fn products(&self, query: usize, dim: usize) -> Vec<f32> {
        let Some(query) = self.queries.chunks_exact(self.width).nth(query) else {
            return Vec::new();
        };
        let product =
            |key: &[f32]| regard_kernels::dot(&query[..dim], &key[..dim]).unwrap_or(f32::NAN);
        self.keys.chunks_exact(self.width).map(product).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(tokens: usize, sink: f32) -> LaboratoryInputs {
        LaboratoryInputs { tokens, sink, ..LaboratoryInputs::default() }
    }

    #[test]
    fn more_tokens_and_dimensions_keep_the_existing_ones() {
        let mut drawn = RandomTokens::new(7);
        let few = drawn.tokens(&LaboratoryInputs { seed: 7, ..inputs(10, 0.0) });
        let many = drawn.tokens(&LaboratoryInputs { seed: 7, ..inputs(1000, 0.0) });
        let at_once =
            RandomTokens::new(7).tokens(&LaboratoryInputs { seed: 7, ..inputs(1000, 0.0) });
        assert_eq!(many.queries, at_once.queries);
        assert_eq!(few.keys, many.keys[..10 * MOST_DIM]);
        let (q, k) = many.of_dim(3, 0.0);
        assert_eq!(q[3..6], many.queries[MOST_DIM..MOST_DIM + 3]);
        assert_eq!(k.len(), 3000);
    }

    #[test]
    fn tokens_keep_their_variance_and_keys_have_the_requested_similarity() {
        let tokens = RandomTokens::new(1).tokens(&LaboratoryInputs {
            smooth: 0.5,
            alike: 0.7,
            ..inputs(500, 0.0)
        });
        let n = tokens.queries.len() as f64;
        let mean = |f: &dyn Fn(f64, f64) -> f64| {
            tokens
                .queries
                .iter()
                .zip(&tokens.keys)
                .map(|(q, k)| f(f64::from(*q), f64::from(*k)))
                .sum::<f64>()
                / n
        };
        assert!((mean(&|q, _| q * q) - 1.0).abs() < 0.03);
        assert!((mean(&|_, k| k * k) - 1.0).abs() < 0.03);
        assert!((mean(&|q, k| q * k) - 0.7).abs() < 0.03);
    }

    #[test]
    fn the_sink_is_added_to_the_scaled_score_of_the_first_key() {
        let tokens = RandomTokens::new(3).tokens(&inputs(200, 0.0));
        let mean_score = |sink| {
            let (q, k) = tokens.of_dim(256, sink);
            let scores = q
                .chunks(256)
                .map(|q| q.iter().zip(&k[..256]).map(|(a, b)| f64::from(a * b)).sum::<f64>());
            scores.sum::<f64>() / 200.0 / 16.0
        };
        let added = mean_score(8.0) - mean_score(0.0);
        assert!((added - 8.0).abs() < 1.5, "{added}");
    }
}
