//! Writes `assets/sample.safetensors`: the sample of a file of attention.
//!
//! No model was run: twelve heads are made by hand, from scores that each express one pattern of real models, with a little
//! noise, and the kernels' causal softmax.
//!
//! `cargo run -p regard-ui --example make_sample crates/regard-ui/assets/sample.safetensors`

use std::collections::HashMap;

use anyhow::{Context as _, Result};
use regard_kernels::{Temperature, softmax};
use safetensors::Dtype;
use safetensors::tensor::{TensorView, serialize_to_file};

/// The tokens as GPT-2's tokenizer writes them.
const TOKENS: [&str; 22] = [
    "<|endoftext|>",
    "The",
    "Ġcat",
    "Ġsat",
    "Ġon",
    "Ġthe",
    "Ġmat",
    ".",
    "Ċ",
    "The",
    "Ġcat",
    "Ġsaw",
    "Ġthe",
    "Ġmouse",
    ".",
    "Ċ",
    "The",
    "Ġmouse",
    "Ġsaw",
    "Ġthe",
    "Ġcat",
    ".",
];

const N: usize = TOKENS.len();

/// The score of query `i` and key `j`, j ≤ i.
type Pattern = fn(usize, usize) -> f32;

fn one_if(yes: bool) -> f32 {
    f32::from(u8::from(yes))
}

/// Whether key `j` follows an earlier occurrence of the query's token.
fn follows_its_like(i: usize, j: usize) -> bool {
    j > 0 && j < i && TOKENS[j - 1] == TOKENS[i]
}

/// Whether the query's token occurred before.
fn is_repeated(i: usize) -> bool {
    TOKENS[..i].contains(&TOKENS[i])
}

fn sink(j: usize) -> f32 {
    one_if(j == 0)
}

const HEADS: [Pattern; 12] = [
    // The preceding token.
    |i, j| 6.0 * one_if(j + 1 == i),
    // The token itself.
    |i, j| 5.0 * one_if(j == i),
    // Near tokens.
    |i, j| -0.7 * (i - j) as f32,
    // Equal scores.
    |_, _| 0.0,
    // Earlier occurrences of the token, or else the first token.
    |i, j| 5.0 * one_if(j < i && TOKENS[j] == TOKENS[i]) + 3.0 * sink(j),
    // The tokens that followed them: induction, or else the first token.
    |i, j| 6.0 * one_if(follows_its_like(i, j)) + 3.5 * sink(j),
    // Always the first token.
    |_, j| 6.0 * sink(j),
    // The start of the line.
    |i, j| {
        5.0 * one_if(j > 0 && TOKENS[j - 1] == "Ċ" && !TOKENS[j..i].contains(&"Ċ")) + 2.5 * sink(j)
    },
    // Weaker induction.
    |i, j| 3.5 * one_if(follows_its_like(i, j)) + 2.0 * sink(j) + one_if(j == i),
    // Full stops.
    |_, j| 4.0 * one_if(TOKENS[j] == ".") + 2.5 * sink(j),
    // Two tokens back.
    |i, j| 5.0 * one_if(j + 2 == i) + sink(j),
    // The preceding token where a token is new, or else the first.
    |i, j| if is_repeated(i) { 5.0 * sink(j) } else { 4.0 * one_if(j + 1 == i) },
];

fn main() -> Result<()> {
    let path = std::env::args_os().nth(1).context("which file is to be written?")?;
    let mut state = 1_u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32
    };
    let mut weights = Vec::with_capacity(HEADS.len() * N * N);
    for pattern in HEADS {
        for i in 0..N {
            let mut row: Vec<f32> = (0..N)
                .map(|j| if j <= i { pattern(i, j) + noise() } else { f32::NEG_INFINITY })
                .collect();
            softmax(&mut row, Temperature::ONE);
            weights.extend(row);
        }
    }
    let bytes: Vec<u8> = weights.iter().flat_map(|w| w.to_le_bytes()).collect();
    let view = TensorView::new(Dtype::F32, vec![3, 4, N, N], &bytes)?;
    let metadata = HashMap::from([("tokens".to_owned(), serde_json::to_string(&TOKENS)?)]);
    serialize_to_file([("attentions", view)], Some(metadata), path.as_ref())?;
    Ok(())
}
