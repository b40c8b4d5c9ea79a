//! Estimates of the memory that a run takes, and the memory that there is. They never wrap around, but stop at the largest number.

use std::fs::read_to_string;

use crate::{
    AttentionPlace, Description, FeedForwardPlace, HeadAddress, LayerPlace, NormPlace, OutputHead,
    Place, Stack, StackName,
};

const NUMBER: u64 = size_of::<f32>() as u64;

impl Description {
    /// An estimate of the bytes that a run takes besides the weights: over `tokens` tokens (of an encoder and of a decoder; for
    /// a model of one stack the second number is 0), with the logits of `rows` positions. The places that are kept take more
    /// memory.
    pub fn run_bytes(&self, tokens: [usize; 2], rows: usize) -> u64 {
        let stack = |stack: &Stack, tokens: usize, others: usize| {
            let block = &stack.block;
            let (q, kv) = (block.heads * block.head_size, block.kv_heads * block.head_size);
            // The stream, its copy, a norm of it, and a sublayer's output; then either the attention's queries, keys, values
            // and outputs (twice: by head and by token), or the hidden features. Each is counted twice while a linear layer
            // writes it.
            let attention = 3 * q + 2 * kv;
            // An expert's tokens, its hidden features and its output; and the weights of all experts.
            let experts = stack
                .experts
                .as_ref()
                .map_or(0, |experts| 2 * self.width + 3 * experts.hidden + 2 * experts.count);
            let features = 4 * self.width + attention.max(3 * block.hidden).max(experts);
            let bias = if stack.has_bias() { product(&[block.heads, tokens, tokens]) } else { 0 };
            sum([product(&[tokens, features]), bias, product(&[others, 2, kv])])
        };
        let outputs = match self.head {
            OutputHead::Tokens { .. } => product(&[2, rows, self.vocabulary]),
            OutputHead::None
            | OutputHead::Pooled { .. }
            | OutputHead::Classes { .. }
            | OutputHead::Other { .. } => 0,
        };
        let [first, second] = tokens;
        let stacks = match &self.encoder {
            Some(encoder) => {
                let larger = stack(encoder, first, 0).max(stack(&self.stack, second, first));
                sum([product(&[first, self.width]), larger])
            }
            None => stack(&self.stack, first, 0),
        };
        sum([stacks, outputs]).saturating_mul(NUMBER)
    }

    /// The bytes of the keys and values of `tokens` tokens that a text being written keeps.
    ///
    /// ```
    /// use regard_models::{Checkpoint, Description};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let gpt = Description::of(&Checkpoint::open(format!("{models}/tiny-gpt2"))?)?;
    /// assert!(gpt.cache_bytes(1) > 0);
    /// assert_eq!(gpt.cache_bytes(usize::MAX), u64::MAX); // no memory holds them, and the number says so
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn cache_bytes(&self, tokens: usize) -> u64 {
        let block = &self.stack.block;
        let factors = [2, block.kv_heads, block.head_size, self.stack.layers(), tokens];
        product(&factors).saturating_mul(NUMBER)
    }

    /// The bytes of the attention weights of all heads, which a trace keeps: `tokens` as for [`run_bytes`](Self::run_bytes).
    pub fn attention_bytes(&self, tokens: [usize; 2]) -> u64 {
        let mut places = self.places();
        places.retain(|place| place.of_attention() == Some(AttentionPlace::Pattern));
        self.place_bytes(&places, tokens)
    }

    /// The bytes of the numbers at these places. Keeping them takes this in
    /// addition to [`run_bytes`](Self::run_bytes).
    ///
    /// ```
    /// use regard_models::{Checkpoint, Description};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let gpt = Description::of(&Checkpoint::open(format!("{models}/tiny-gpt2"))?)?;
    /// let bytes = gpt.place_bytes(&["blocks.0.attn.hook_pattern".parse()?], [10, 0]);
    /// assert_eq!(bytes, 4 * 4 * 10 * 10); // 4 heads
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn place_bytes(&self, places: &[Place], tokens: [usize; 2]) -> u64 {
        sum(places.iter().map(|place| self.numbers_at(*place, tokens))).saturating_mul(NUMBER)
    }

    /// The bytes that a [`score`](crate::Pass::score) keeps in addition to [`run_bytes`](Self::run_bytes): the queries and the
    /// keys of its layer.
    pub fn score_bytes(&self, head: HeadAddress, tokens: [usize; 2]) -> u64 {
        let places = [AttentionPlace::Query, AttentionPlace::Key].map(|place| head.place(place));
        // Before and after the rotary position.
        self.place_bytes(&places, tokens).saturating_mul(2)
    }

    fn numbers_at(&self, place: Place, [first, second]: [usize; 2]) -> u64 {
        let stack = match place {
            Place::Embedding(_) => {
                return product(&[first, self.embedding.features.unwrap_or(self.width)]);
            }
            Place::Layer { stack, .. } | Place::FinalNorm(stack, _) => stack,
        };
        let (stack, tokens) = match (stack, &self.encoder) {
            (StackName::Decoder, _) => (&self.stack, second),
            (_, Some(encoder)) => (encoder, first),
            (_, None) => (&self.stack, first),
        };
        let (block, experts) = (&stack.block, stack.experts.as_ref());
        let of_attention = |place: AttentionPlace, keys| match place {
            AttentionPlace::Query
            | AttentionPlace::NormedQuery
            | AttentionPlace::TurnedQuery
            | AttentionPlace::Output => product(&[tokens, block.heads, block.head_size]),
            AttentionPlace::Key
            | AttentionPlace::NormedKey
            | AttentionPlace::TurnedKey
            | AttentionPlace::Value => product(&[keys, block.kv_heads, block.head_size]),
            AttentionPlace::Scores | AttentionPlace::Pattern => {
                product(&[block.heads, tokens, keys])
            }
            AttentionPlace::QueryIn | AttentionPlace::Result => {
                product(&[tokens, block.heads, self.width])
            }
            AttentionPlace::KeyIn | AttentionPlace::ValueIn => {
                product(&[tokens, block.kv_heads, self.width])
            }
        };
        match place.in_layer() {
            Some(LayerPlace::Attention(place)) => of_attention(place, tokens),
            Some(LayerPlace::Cross(place)) => of_attention(place, first),
            Some(LayerPlace::FeedForward(place)) => match place {
                FeedForwardPlace::Pre | FeedForwardPlace::PreLinear | FeedForwardPlace::Post => {
                    product(&[tokens, block.hidden])
                }
                FeedForwardPlace::ExpertWeights => {
                    product(&[tokens, experts.map_or(0, |x| x.count)])
                }
                FeedForwardPlace::ExpertIndices => {
                    product(&[tokens, experts.map_or(0, |x| x.used)])
                }
            },
            Some(LayerPlace::Norm(_, NormPlace::Scale)) => tokens as u64,
            None if matches!(place, Place::FinalNorm(_, NormPlace::Scale)) => tokens as u64,
            Some(LayerPlace::Norm(..) | LayerPlace::Stream(_)) | None => {
                product(&[tokens, self.width])
            }
        }
    }
}

/// The bytes of memory that this process can still take, if the system tells: those that all programs can, and no more than its
/// own limit leaves (`ulimit -v`).
///
/// ```
/// assert!(regard_models::available_memory().is_none_or(|bytes| bytes > 0));
/// ```
pub fn available_memory() -> Option<u64> {
    let number = |text: &str| text.split_whitespace().next()?.parse::<u64>().ok();
    let field = |file: &str, name: &str| {
        let text = read_to_string(file).ok()?;
        number(text.lines().find_map(|line| line.strip_prefix(name))?)
    };
    let left = || {
        let limit = field("/proc/self/limits", "Max address space")?; // in bytes, or `unlimited`
        let taken = field("/proc/self/status", "VmSize:")?.saturating_mul(1024);
        Some(limit.saturating_sub(taken))
    };
    let available = field("/proc/meminfo", "MemAvailable:").map(|n| n.saturating_mul(1024));
    available.into_iter().chain(left()).min()
}

fn product(factors: &[usize]) -> u64 {
    factors.iter().fold(1, |product, factor| product.saturating_mul(*factor as u64))
}

fn sum(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, u64::saturating_add)
}
