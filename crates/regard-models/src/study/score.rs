//! One score of one head, with every number between a query and a key and their weight.
//!
//! The steps are those of the contract of [`regard_kernels::Attention`]: dot product, scale, soft cap, bias, mask, temperature
//! and softmax. The forward pass computes them for all pairs at once. Here they are computed for one pair, from the queries and
//! keys that a trace keeps, together with the same steps in `f64`.

use regard::{Attention, Heads, Mask, MaskTensor, Stage, Temperature};
use serde::{Deserialize, Serialize};

use crate::change::temperature;
use crate::forward::{PositionScores, at_temperature, sinks_at, sum};
use crate::{
    AttentionPlace, Change, Description, Error, HeadAddress, Input, Pass, Stack, Values, Which,
};

/// The steps of one score of a head, from query i and key j to the attention weight.
///
/// [`score`](Self::score) and the value of [`weight`](Self::weight) have the bits of the numbers that a [`Trace`](crate::Trace)
/// of the same pass keeps as `hook_attn_scores` and `hook_pattern`. The references in `f64` begin with the `f32` vectors
/// [`q`](Self::q) and [`k`](Self::k) of all keys, so an error is that of the attention alone, without the layers before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Score {
    /// The head.
    pub head: HeadAddress,
    /// The query's position i.
    pub query: usize,
    /// The key's position j.
    pub key: usize,
    /// The query before its norm (Qwen 3) and the rotary position (`hook_q`), \[head size\]; `None` if the head has neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q_before: Option<Vec<f32>>,
    /// The key before them (`hook_k`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k_before: Option<Vec<f32>>,
    /// The query in the dot product, \[head size\].
    pub q: Vec<f32>,
    /// The key in the dot product, \[head size\]. Query heads that share a key/value head have the same key.
    pub k: Vec<f32>,
    /// q·k element by element. The product of two `f32` is exact in `f64`.
    pub products: Vec<f64>,
    /// The sum of the products.
    pub dot: Rounded,
    /// The factor of the dot product.
    pub scale: f32,
    /// The dot product times the scale.
    pub scaled: f32,
    /// The soft cap c, if the model has one: a score s becomes c · tanh(s / c).
    pub softcap: Option<f32>,
    /// The scaled score after the soft cap, or the scaled score if there is none.
    pub capped: f32,
    /// The bias for the distance of query and key (T5, ALiBi), if the model has one; in DeBERTa the sum of
    /// [`of_positions`](Self::of_positions).
    pub bias: Option<f32>,
    /// The two parts of the score that DeBERTa has beside that of query and key: the product of the query and the key of their
    /// distance, and that of the key and the query of their distance, each times the scale; 0 if the model lacks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_positions: Option<[f32; 2]>,
    /// The reason why the query does not see the key, if it does not.
    pub hidden: Option<WhyHidden>,
    /// The score after the bias; `None` if the key is hidden (−∞ in `hook_attn_scores`).
    pub score: Option<f32>,
    /// The temperature T that divides the head's scores, 1 unless a change sets it. JSON has ∞ as the string `"inf"`.
    #[serde(with = "temperature")]
    pub temperature: f32,
    /// The largest score m of the query; `None` if it sees no key.
    pub maximum: Option<f32>,
    /// The score of the head's sink, if it has one (gpt-oss): it takes part in the softmax, and the temperature does not divide it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sink: Option<f32>,
    /// The sum of exp((s − m) / T) over the scores s of the keys that the query sees, and exp(sink − m / T), in `f64`.
    pub sum: f64,
    /// exp((score − m) / T) / sum, or 0 for a hidden key: the attention weight.
    pub weight: Rounded,
}

/// A number that the model computes, and the same number in `f64`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Rounded {
    /// The number in `f32`.
    pub value: f32,
    /// The number in `f64`.
    pub reference: f64,
    /// `value` − `reference`.
    pub error: f64,
}

impl Rounded {
    fn new(value: f32, reference: f64) -> Self {
        Self { value, reference, error: f64::from(value) - reference }
    }
}

/// The reason why a query does not see a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum WhyHidden {
    /// The key comes after the query.
    Causal,
    /// The key is outside the layer's sliding window.
    Window,
    /// A [`Change::Cut`] hides it.
    Cut,
}

impl Description {
    /// The reason why a head of the model does not see a key from a query, by their positions. A head that the model lacks sees
    /// all keys.
    ///
    /// ```
    /// use regard_models::{Checkpoint, Description, WhyHidden};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let description = Description::of(&Checkpoint::open(format!("{models}/tiny-gpt2"))?)?;
    /// let head = "0.1".parse()?;
    /// assert_eq!(description.hides(&head, 2, 3), Some(WhyHidden::Causal));
    /// assert_eq!(description.hides(&head, 3, 2), None);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn hides(&self, head: &HeadAddress, query: usize, key: usize) -> Option<WhyHidden> {
        head.check(self).ok()?.hides(head, query, key)
    }
}

impl Stack {
    /// The reason why a head of the layer does not see the key, by position. An attention to an encoder's output sees all keys.
    pub(crate) fn hides(&self, head: &HeadAddress, query: usize, key: usize) -> Option<WhyHidden> {
        if head.attention == Which::Cross {
            return None;
        }
        let window = self.windows.get(head.layer).copied().flatten();
        if self.causal && key > query {
            Some(WhyHidden::Causal)
        } else if window.is_some_and(|window| key.abs_diff(query) >= window) {
            Some(WhyHidden::Window)
        } else {
            None
        }
    }
}

impl Pass<'_> {
    /// Runs the model with the changes of the pass, and returns the steps of a head's score for one query and one key.
    ///
    /// # Errors
    /// The errors of [`run`](Self::run); and [`Error::Missing`] if the model does not have the head, or the input does not have
    /// the positions.
    ///
    /// ```
    /// use regard_models::{Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = Model::open(format!("{models}/tiny-qwen3"))?;
    /// let input = Input::tokens([7, 8, 9]);
    /// let score = model.pass().score(&input, "2.4".parse()?, 2, 1)?;
    /// assert_eq!(score.dot.reference, score.products.iter().sum::<f64>());
    /// assert_eq!(score.scaled, score.dot.value * score.scale);
    ///
    /// let trace = model.pass().keep(["blocks.2.attn.hook_pattern"]).run(&input)?;
    /// let weights = trace.get("blocks.2.attn.hook_pattern").unwrap(); // [heads, queries, keys]
    /// assert_eq!(score.weight.value, weights.data[(4 * 3 + 2) * 3 + 1]);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn score(
        &self,
        input: &Input,
        head: HeadAddress,
        query: usize,
        key: usize,
    ) -> Result<Score, Error> {
        use AttentionPlace::{Key, NormedKey, NormedQuery, Query, TurnedKey, TurnedQuery};
        let model = self.model;
        let stack = head.check(model.description())?;
        let (block, cross) = (&stack.block, head.attention == Which::Cross);
        let what = format!("there is no score of query {query} and key {key}");
        let [queries, keys] = head.edges_with(model, input, [query, key], &what)?;

        // The places of the vectors that are multiplied, if they are others than those of the projections.
        let last = match stack.rotary_of(head.layer) {
            Some(_) if !cross => Some([TurnedQuery, TurnedKey]),
            _ => block.qk_norm.map(|_| [NormedQuery, NormedKey]),
        };
        let keep = [Query, Key].into_iter().chain(last.into_iter().flatten());
        let pass = Self { keep: Vec::new(), last_only: true, ..self.clone() };
        let trace = pass.keep(keep.map(|place| head.place(place))).run(input)?;
        let kept = |place| {
            let place = head.place(place);
            let missing = || Error::Unsupported(format!("the model has no place {place}"));
            trace.at(place).ok_or_else(missing)
        };
        let kv_head = head.head / (block.heads / block.kv_heads).max(1);
        let (first_q, first_k) = (kept(Query)?, kept(Key)?);
        let (last_q, all_k) = match last {
            Some([q, k]) => (kept(q)?, kept(k)?),
            None => (first_q, first_k),
        };
        let q = vector(last_q, query, head.head);
        let row = |all: &[f32]| all[(head.head * queries + query) * keys..][..keys].to_vec();
        let of_positions = self.of_positions(&head, stack, [last_q, all_k])?;
        let at = |part: &Option<Vec<f32>>| part.as_ref().map_or(0.0, |part| row(part)[key]);
        let parts = of_positions.as_ref().map(|parts| parts.each_ref().map(at));
        let bias = match of_positions {
            Some(parts) => sum(parts),
            None if cross => None,
            None => self.bias(&head, stack, [queries, keys]),
        };
        let bias = bias.map(|bias| row(&bias));
        let hidden = |key| {
            let cut = Change::Cut { head, query, key };
            let cut = self.changes.contains(&cut).then_some(WhyHidden::Cut);
            stack.hides(&head, query, key).or(cut)
        };
        let steps = ScoreSteps {
            scale: if cross { block.scale } else { block.scale_in(head.layer) },
            softcap: block.softcap,
            temperature: self.temperature_of(&head)?,
            sink: self.sink(&head),
        };

        let k = vector(all_k, key, kv_head);
        // A row of scores has the same bits alone as together with other rows.
        let all_k: Vec<f32> = (0..keys).flat_map(|j| vector(all_k, j, kv_head)).collect();
        let seen: Vec<bool> = (0..keys).map(|j| hidden(j).is_none()).collect();
        let [scores, weights] = steps.row(&q, &all_k, &seen, bias.as_deref())?;
        let [dot, scaled, capped] = steps.of(&q, &k)?;
        let products: Vec<f64> =
            q.iter().zip(&k).map(|(q, k)| f64::from(*q) * f64::from(*k)).collect();
        let reference = |j: usize| {
            let bias = bias.as_ref().map_or(0.0, |bias| f64::from(bias[j]));
            if seen[j] {
                steps.reference(&q, &all_k[j * q.len()..][..q.len()]) + bias
            } else {
                f64::NEG_INFINITY
            }
        };
        let references: Vec<f64> = (0..keys).map(reference).collect();
        let wide: Vec<f64> = scores.iter().map(|score| f64::from(*score)).collect();
        let (_, sum) = steps.softmax(&wide, key);
        let (reference, _) = steps.softmax(&references, key);
        let hidden = hidden(key);
        let maximum = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let maximum = if sum.is_nan() { f32::NAN } else { maximum };
        Ok(Score {
            head,
            query,
            key,
            q_before: last.map(|_| vector(first_q, query, head.head)),
            k_before: last.map(|_| vector(first_k, key, kv_head)),
            dot: Rounded::new(dot, products.iter().sum()),
            products,
            q,
            k,
            scale: steps.scale,
            scaled,
            softcap: steps.softcap,
            capped,
            bias: bias.map(|bias| bias[key]),
            of_positions: parts,
            hidden,
            score: hidden.is_none().then_some(scores[key]),
            temperature: steps.temperature.get(),
            sink: steps.sink,
            maximum: (maximum != f32::NEG_INFINITY).then_some(maximum),
            sum,
            weight: Rounded::new(weights[key], reference),
        })
    }

    /// The parts of the scores of a layer that come from positions, if the model has them.
    fn of_positions(
        &self,
        head: &HeadAddress,
        stack: &Stack,
        [q, k]: [&Values; 2],
    ) -> Result<Option<PositionScores>, Error> {
        let weights = &self.model.weights().stack;
        let (Some(of), Some(table)) = (stack.block.disentangled, &weights.distances) else {
            return Ok(None);
        };
        let attention = &weights.layers[head.layer].attention;
        let sizes = [q.shape[0], q.shape[1], q.shape[2]];
        of.parts(attention, table, [&q.data, &k.data], sizes, stack.block.scale).map(Some)
    }

    /// The bias by distance \[heads, queries, keys\].
    fn bias(&self, head: &HeadAddress, stack: &Stack, edges: [usize; 2]) -> Option<Vec<f32>> {
        let weights = self.model.weights();
        let weights = match head.attention {
            Which::Encoder => weights.encoder.as_ref()?,
            _ => &weights.stack,
        };
        stack.bias(weights.relative.as_deref(), 0, edges)
    }

    /// The score of a head's sink.
    fn sink(&self, head: &HeadAddress) -> Option<f32> {
        let layers = &self.model.weights().stack.layers;
        let sinks = layers.get(head.layer)?.attention.sinks.as_ref()?;
        sinks.get(head.head).copied()
    }

    /// The temperature of a head: the last one that a change gives it.
    fn temperature_of(&self, of: &HeadAddress) -> Result<Temperature, Error> {
        let given = self.changes.iter().rev().find_map(|change| match change {
            Change::Temperature { head, temperature } if head == of => Some(*temperature),
            _ => None,
        });
        let refused = |e| Error::Range(format!("the temperature of head {of}: {e}"));
        given.map_or(Ok(Temperature::ONE), Temperature::new).map_err(refused)
    }
}

/// A head's vector \[head size\] of a token, from \[tokens, heads, head size\].
fn vector(values: &Values, token: usize, head: usize) -> Vec<f32> {
    let [heads, size] = [1, 2].map(|dimension| values.shape.get(dimension).copied().unwrap_or(0));
    values.data[(token * heads + head) * size..][..size].to_vec()
}

/// The steps from a head's dot products to its weights.
struct ScoreSteps {
    scale: f32,
    softcap: Option<f32>,
    temperature: Temperature,
    sink: Option<f32>,
}

impl ScoreSteps {
    /// The dot product, the product with the scale, and the score after the soft cap, by the kernels of the model.
    fn of(&self, q: &[f32], k: &[f32]) -> Result<[f32; 3], Error> {
        let shape = [1, 1, 1, q.len()];
        let (q, k) = (Heads::new("the query", q, shape)?, Heads::new("the key", k, shape)?);
        let (plain, steps) = (Attention::new().scale(1.0), self.attention(Mask::NONE));
        let of = |attention: &Attention<'_>, stage| {
            Ok::<_, Error>(attention.scores(stage, q, k)?.as_slice()[0])
        };
        Ok([of(&plain, Stage::Raw)?, of(&steps, Stage::Raw)?, of(&steps, Stage::Softcapped)?])
    }

    /// All steps.
    fn attention<'m>(&self, mask: Mask<'m>) -> Attention<'m> {
        let attention = Attention::new().scale(self.scale).mask(mask);
        match self.softcap {
            Some(cap) => attention.softcap(cap),
            None => attention,
        }
    }

    /// The scores and the weights of a query and all `keys` \[keys, head size\], of which the query sees some.
    fn row(
        &self,
        q: &[f32],
        keys: &[f32],
        seen: &[bool],
        bias: Option<&[f32]>,
    ) -> Result<[Vec<f32>; 2], Error> {
        let q = Heads::new("the query", q, [1, 1, 1, q.len()])?;
        let [.., size] = q.shape();
        let keys = Heads::new("the keys", keys, [1, 1, seen.len(), size])?;
        let mut mask = Mask::NONE.allowed(MaskTensor::new(seen, &[seen.len()])?);
        if let Some(bias) = bias {
            mask = mask.bias(MaskTensor::new(bias, &[bias.len()])?);
        }
        let own = self.sink.map(|sink| [sink]);
        let mut attention = self.attention(mask);
        if let Some(sink) = &own {
            attention = attention.sinks(sink);
        }
        let sink = self.sink.map(|sink| sinks_at(&[sink], self.temperature));
        let weighing = at_temperature(&attention, self.temperature, sink.as_deref());
        let scores = attention.scores(Stage::Masked, q, keys)?.into_vec();
        Ok([scores, weighing.scores(Stage::Weights, q, keys)?.into_vec()])
    }

    /// The score before the bias, in `f64`.
    fn reference(&self, q: &[f32], k: &[f32]) -> f64 {
        let dot: f64 = q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum();
        let scaled = dot * f64::from(self.scale);
        self.softcap.map_or(scaled, |cap| f64::from(cap) * (scaled / f64::from(cap)).tanh())
    }

    /// The weight of a key among these scores, and the sum of exp((s − m) / T); with the limits T → 0 and T → ∞.
    fn softmax(&self, scores: &[f64], key: usize) -> (f64, f64) {
        if scores.iter().any(|score| score.is_nan()) {
            return (f64::NAN, f64::NAN);
        }
        let maximum = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if maximum == f64::NEG_INFINITY {
            return (0.0, 0.0);
        }
        let power = |score: f64| {
            if score == maximum {
                1.0
            } else if self.temperature.is_zero() || score == f64::NEG_INFINITY {
                0.0
            } else {
                ((score - maximum) / f64::from(self.temperature.get())).exp()
            }
        };
        // The limit T → 0 compares the largest score with 0.
        let beside = self.sink.map_or(0.0, |sink| match f64::from(self.temperature.get()) {
            t if t > 0.0 => (f64::from(sink) - maximum / t).exp(),
            _ if maximum < 0.0 => f64::INFINITY,
            _ => f64::from(u8::from(maximum == 0.0)),
        });
        let sum = scores.iter().map(|score| power(*score)).sum::<f64>() + beside;
        (power(scores[key]) / sum, sum)
    }
}
