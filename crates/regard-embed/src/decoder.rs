//! A decoder, which reads one token at a time.

use crate::Error;
use crate::numbers::Numbers;
use crate::state::{Memory, Model, Shape, State, Weights, Wide, array};

/// The input of a decoder: turns tokens into the residual stream.
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

impl<'s, N: Numbers, S: Fn() -> Shape> Memory<'s, N, S> {
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
        let Tokens { embedding, positions, rotary } = &weights.input;
        let (vocabulary, context) = (N::vocabulary(embedding), (self.shape)().context);
        if token >= vocabulary {
            return Err(Error::Token { token, vocabulary });
        }
        if position >= context {
            return Err(Error::Context { context });
        }
        let mut step = self.step(position);
        N::embed(embedding, token, step.x)?;
        if !positions.is_empty() {
            let start = position * step.x.len();
            let vector = positions.get(start..start + step.x.len()).unwrap_or_default();
            N::add(step.x, vector)?;
        }
        step.run(weights, rotary.as_ref())?;
        Ok(self.logits())
    }
}
