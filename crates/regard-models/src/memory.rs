//! How much memory a run takes, told before it is taken.

use crate::{Description, Head, Stack};

impl Description {
    /// An estimate of the bytes that a run takes besides the weights: over `tokens` tokens (of an encoder and of a decoder;
    /// of a model of one stack, the second number is 0), with the logits of `rows` positions. Places that are kept come on top
    /// of it.
    pub fn run_bytes(&self, tokens: [usize; 2], rows: usize) -> u64 {
        let stack = |stack: &Stack, tokens: usize, others: usize| {
            let block = &stack.block;
            let (q, kv) = (block.heads * block.head_size, block.kv_heads * block.head_size);
            // The stream, its copy, a norm of it and what is added; then either the attention's queries, keys, values and
            // outputs (twice: by head and by token), or the hidden features, each twice while a linear layer writes them.
            let attention = 3 * q + 2 * kv;
            let features = 4 * self.width + attention.max(3 * block.hidden);
            let bias = if block.relative.is_some() { block.heads * tokens } else { 0 };
            tokens as u64 * (features + bias) as u64 + others as u64 * 2 * kv as u64
        };
        let outputs = match self.head {
            Head::Tokens { .. } => 2 * rows as u64 * self.vocabulary as u64,
            Head::None | Head::Classes { .. } | Head::Other { .. } => 0,
        };
        let [first, second] = tokens;
        let stacks = match &self.encoder {
            Some(encoder) => {
                let memory = (first * self.width) as u64;
                memory + stack(encoder, first, 0).max(stack(&self.stack, second, first))
            }
            None => stack(&self.stack, first, 0),
        };
        size_of::<f32>() as u64 * (stacks + outputs)
    }

    /// The bytes of the keys and values of `tokens` tokens that a text being written keeps.
    pub fn cache_bytes(&self, tokens: usize) -> u64 {
        let block = &self.stack.block;
        let numbers = 2 * block.kv_heads * block.head_size * self.stack.layers();
        size_of::<f32>() as u64 * numbers as u64 * tokens as u64
    }

    /// The bytes of the attention weights of all heads, which a trace keeps: `tokens` as for [`run_bytes`](Self::run_bytes).
    pub fn attention_bytes(&self, tokens: [usize; 2]) -> u64 {
        let [first, second] = tokens;
        let heads = |stack: &Stack| (stack.layers() * stack.block.heads) as u64;
        let numbers = match &self.encoder {
            Some(encoder) => {
                let decoder = heads(&self.stack) * (second * (second + first)) as u64;
                heads(encoder) * (first * first) as u64 + decoder
            }
            None => heads(&self.stack) * (first * first) as u64,
        };
        size_of::<f32>() as u64 * numbers
    }
}
