#![doc = include_str!("../README.md")]
#![no_std]
#![forbid(unsafe_code)]

mod constants;
mod decoder;
mod encoder;
mod float;
pub mod int8;
mod matrix;
mod numbers;
mod state;

pub use self::constants::{Aligned, part};
pub use self::decoder::Tokens;
pub use self::encoder::{Image, Text};
pub use self::float::{Floats, Norm, Rotary};
pub use self::matrix::{Bf16, F32, Linear, WeightMatrix};
pub use self::numbers::{Hidden, Layer, Numbers, Turn};
pub use self::state::{Memory, Model, ModelShape, State, Weights};
pub use regard_kernels; // its errors and views are in signatures
pub use regard_kernels::{
    Temperature, attention_scratch_len, gelu, gelu_tanh, numbers, relu, silu, tanh,
};

/// This error says why a token or an image cannot be read. If `regard embed` has written the model, `next` then leaves
/// the text of the state unchanged.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[cfg_attr(feature = "defmt", derive(defmt::Format))]
#[non_exhaustive]
pub enum Error {
    /// The token is not in the vocabulary.
    #[error("the token {token} is not one of the vocabulary's {vocabulary}")]
    Token {
        /// The token.
        token: usize,
        /// The number of tokens.
        vocabulary: usize,
    },

    /// The state is full of tokens.
    #[error("the context has room for {context} tokens, and all of them are read")]
    Context {
        /// The number of tokens that the state has room for.
        context: usize,
    },

    /// Two parts of the model do not fit each other, or an image does not fit the model.
    #[error(transparent)]
    Shape(#[from] regard_kernels::Error),
}

/// The index of the largest logit, or of the first of equal ones. At temperature 0 it is the next token.
///
/// ```
/// assert_eq!(regard_embed::largest(&[0.0, 3.0, 3.0]), 1);
/// ```
pub fn largest<T: PartialOrd>(logits: &[T]) -> usize {
    let mut best = 0;
    for (i, x) in logits.iter().enumerate() {
        if logits.get(best).is_some_and(|largest| x > largest) {
            best = i;
        }
    }
    best
}
