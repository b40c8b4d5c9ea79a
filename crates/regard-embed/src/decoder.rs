//! A decoder, which reads a token at a time.

use crate::Error;
use crate::numbers::Numbers;
use crate::state::{Model, State, Wide};

/// The way from tokens to the residual stream of a decoder.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<N: Numbers> {
    /// The vectors of the tokens.
    pub embedding: N::Embedding,
    /// The angles by which queries and keys turn.
    pub rotary: Option<N::Rotary>,
}

impl<N: Numbers, M: Model<Numbers = N, Input = Tokens<N>>, const NARROW: usize, const WIDE: usize>
    State<M, NARROW, WIDE>
{
    /// The number of tokens that are read.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether no token is read.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets the text: the next token is the first.
    pub const fn clear(&mut self) {
        self.len = 0;
    }

    /// Reads a token, and gives the logits: of the next one, or of the classes of the text so far.
    ///
    /// # Errors
    /// [`Error::Token`] if the token is not in the vocabulary, [`Error::Context`] if the state is full. [`Error::Shape`] if the
    /// weights or the memory of the state have other shapes than the model.
    pub fn next<const OUTPUTS: usize>(
        &mut self,
        token: usize,
    ) -> Result<&[Wide<M>; OUTPUTS], Error> {
        let weights = M::weights();
        let Tokens { embedding, rotary } = &weights.input;
        let (vocabulary, context) = (M::Numbers::vocabulary(embedding), M::SHAPE.context);
        if token >= vocabulary {
            return Err(Error::Token { token, vocabulary });
        }
        if self.len >= context {
            return Err(Error::Context { context });
        }
        let position = self.len;
        let mut step = self.step();
        M::Numbers::embed(embedding, token, position, step.x)?;
        step.run(weights, rotary.as_ref())?;
        self.len += 1;
        self.logits()
    }
}
