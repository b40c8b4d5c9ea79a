//! A decoder, which reads one token at a time.

use crate::Error;
use crate::numbers::Numbers;
use crate::state::{Memory, Model, ModelShape, State, Weights, Wide, array};

/// The input of a decoder, and a part of that of an encoder: turns tokens into the residual stream.
#[derive(Clone, Copy, Debug)]
pub struct Tokens<'w, N: Numbers> {
    /// The vectors of the tokens.
    pub embedding: N::Embedding,
    /// \[context, width\]: the vector that is added at each position. Empty if the model adds none.
    pub positions: &'w [N::Wide],
    /// The angles of rotary positions, if the model has them.
    pub rotary: Option<N::Rotary>,
}

impl<
    N: Numbers + 'static,
    M: Model<Numbers = N, Input = Tokens<'static, N>>,
    const NARROW: usize,
    const WIDE: usize,
> State<M, NARROW, WIDE>
{
    /// The number of tokens of the text so far.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether the text has no token yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Forgets the text: the next token will be the first.
    pub const fn clear(&mut self) {
        self.len = 0;
    }

    /// Reads a token. Returns the logits of the next token, or of the classes of the text so far.
    ///
    /// # Errors
    /// [`Error::Token`] if the token is not in the vocabulary, [`Error::Context`] if the state is full. [`Error::Shape`] if the
    /// shapes of the weights or of the state's memory are not those of the model.
    pub fn next<const OUTPUTS: usize>(
        &mut self,
        token: usize,
    ) -> Result<&[Wide<M>; OUTPUTS], Error> {
        let Self { len, wide, narrow } = self;
        let logits = Memory::new(|| M::SHAPE, wide, narrow).next(M::weights(), token, *len)?;
        *len += 1;
        array::<M, OUTPUTS>(logits)
    }
}

impl<'s, N: Numbers, S: Fn() -> ModelShape> Memory<'s, N, S> {
    /// Reads a token at a position, after those at all earlier positions. Returns the logits of the next token, or of the
    /// classes of the text so far.
    ///
    /// # Errors
    /// Those of [`State::next`].
    pub fn next(
        mut self,
        weights: &Weights<'_, N, Tokens<'_, N>>,
        token: usize,
        position: usize,
    ) -> Result<&'s [N::Wide], Error> {
        let context = (self.shape)().context;
        weights.input.check(token)?;
        if position >= context {
            return Err(Error::Context { context });
        }
        let mut step = self.step(position, 1);
        weights.input.embed(token, position, step.x)?;
        step.run(weights, weights.input.rotary.as_ref())?;
        Ok(self.logits())
    }
}

impl<N: Numbers> Tokens<'_, N> {
    /// `Ok` for a token of the vocabulary.
    pub(crate) fn check(&self, token: usize) -> Result<(), Error> {
        let vocabulary = N::vocabulary(&self.embedding);
        if token < vocabulary { Ok(()) } else { Err(Error::Token { token, vocabulary }) }
    }

    /// x ← the vector of a token (+ that of its position).
    pub(crate) fn embed(
        &self,
        token: usize,
        position: usize,
        x: &mut [N::Wide],
    ) -> Result<(), Error> {
        N::embed(&self.embedding, token, x)?;
        if !self.positions.is_empty() {
            let start = position * x.len();
            N::add(x, self.positions.get(start..start + x.len()).unwrap_or_default())?;
        }
        Ok(())
    }
}
