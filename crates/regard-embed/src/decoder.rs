//! A decoder that reads a token at a time.
//!
//! ```text
//! x ← the token's embedding (+ its position's)
//! for each layer
//!     q, k, v ← norm(x) W_q, W_k, W_v;  turn q and k by the position;  append k and v
//!     x ← x + [attention of each head on all keys so far] W_o
//!     x ← x + feed-forward(norm(x))
//! logits ← norm(x) W_head
//! ```
//!
//! The kernels are those that `regard` calls on the desktop, and each sum has the same order there.

use regard_kernels::{
    Attention, Mat, MatMut, Pairing, add, layer_norm, multiply, rms_norm, rotate,
};

use crate::{Error, Linear, Matrix, text};

/// A model whose weights are constants.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a, W, const LAYERS: usize> {
    /// The table of tokens, transposed: \[width, vocabulary\].
    pub tokens: W,
    /// \[context, width\]: what is added at each position. Empty where nothing is.
    pub positions: &'a [f32],
    /// The layers, from the first to the last.
    pub layers: [Layer<'a, W>; LAYERS],
    /// The norm after the last layer.
    pub norm: Option<Norm<'a>>,
    /// \[width, outputs\]: the outputs are the tokens, or the classes of a model that classifies texts.
    pub head: Linear<'a, W>,
    /// How queries and keys turn.
    pub rotary: Option<Rotary<'a>>,
}

/// A layer: attention and feed-forward layer, each with a norm before it, and each added to the residual stream.
#[derive(Clone, Copy, Debug)]
pub struct Layer<'a, W> {
    /// The norm before the attention.
    pub attention_norm: Norm<'a>,
    /// \[width, heads · head size\]
    pub query: Linear<'a, W>,
    /// \[width, key/value heads · head size\]
    pub key: Linear<'a, W>,
    /// \[width, key/value heads · head size\]
    pub value: Linear<'a, W>,
    /// \[heads · head size, width\]
    pub output: Linear<'a, W>,
    /// What dot products of queries and keys are multiplied by.
    pub scale: f32,
    /// The norm before the feed-forward layer.
    pub feed_forward_norm: Norm<'a>,
    /// The feed-forward layer.
    pub feed_forward: FeedForward<'a, W>,
}

/// down(f(up(x))), or down(f(gate(x)) · up(x)) where there is a gate.
#[derive(Clone, Copy, Debug)]
pub struct FeedForward<'a, W> {
    /// \[width, hidden\]
    pub gate: Option<Linear<'a, W>>,
    /// \[width, hidden\]
    pub up: Linear<'a, W>,
    /// f, in place: [`silu`](crate::silu), [`gelu`](crate::gelu), [`gelu_tanh`](crate::gelu_tanh) or [`relu`](crate::relu).
    pub activation: fn(&mut [f32]),
    /// \[hidden, width\]
    pub down: Linear<'a, W>,
}

/// A norm of the width's features.
#[derive(Clone, Copy, Debug)]
pub enum Norm<'a> {
    /// As [`regard_kernels::rms_norm`].
    Rms {
        /// γ \[width\].
        gamma: &'a [f32],
        /// ε.
        epsilon: f32,
    },
    /// As [`regard_kernels::layer_norm`].
    Layer {
        /// γ \[width\].
        gamma: &'a [f32],
        /// β \[width\].
        beta: &'a [f32],
        /// ε.
        epsilon: f32,
    },
}

impl Norm<'_> {
    fn apply(&self, x: &mut [f32]) -> Result<(), regard_kernels::Error> {
        let len = x.len();
        let x = MatMut::new(x, 1, len)?;
        match *self {
            Self::Rms { gamma, epsilon } => rms_norm(x, gamma, epsilon),
            Self::Layer { gamma, beta, epsilon } => layer_norm(x, gamma, beta, epsilon),
        }
    }
}

/// Cosines and sines \[context, features / 2\] of rotary positions. Feature i of a head is paired with feature i + features / 2;
/// features after those do not turn.
#[derive(Clone, Copy, Debug)]
pub struct Rotary<'a> {
    /// The features of a head that turn.
    pub features: usize,
    /// \[context, features / 2\]
    pub cos: &'a [f32],
    /// \[context, features / 2\]
    pub sin: &'a [f32],
}

impl Rotary<'_> {
    /// Turns all heads of a token at `position`.
    fn turn<const HEADS: usize, const HEAD_SIZE: usize>(
        &self,
        x: &mut [[f32; HEAD_SIZE]; HEADS],
        position: usize,
    ) -> Result<(), regard_kernels::Error> {
        let pairs = self.features / 2;
        let at = |angles| Mat::new(angles, angles.len() / pairs.max(1), pairs);
        let (cos, sin) = (at(self.cos)?.row(position), at(self.sin)?.row(position));
        let (cos, sin) = (Mat::strided(cos, HEADS, pairs, 0)?, Mat::strided(sin, HEADS, pairs, 0)?);
        let x = MatMut::strided(x.as_flattened_mut(), HEADS, self.features, HEAD_SIZE)?;
        rotate(x, cos, sin, Pairing::HalfSplit)
    }
}

/// What a text has left: keys and values of its tokens, and memory for one more. `SCRATCH` is
/// [`attention_scratch_len`](crate::attention_scratch_len)`(1, CONTEXT, HEAD_SIZE, HEAD_SIZE)`.
///
/// All numbers are 0 at the beginning, so that a static takes no flash.
#[derive(Clone, Debug)]
pub struct State<
    const LAYERS: usize,
    const CONTEXT: usize,
    const WIDTH: usize,
    const HEADS: usize,
    const KV_HEADS: usize,
    const HEAD_SIZE: usize,
    const HIDDEN: usize,
    const OUTPUTS: usize,
    const SCRATCH: usize,
> {
    len: usize,
    keys: [[[[f32; HEAD_SIZE]; KV_HEADS]; CONTEXT]; LAYERS],
    values: [[[[f32; HEAD_SIZE]; KV_HEADS]; CONTEXT]; LAYERS],
    /// The residual stream.
    x: [f32; WIDTH],
    /// What is read from the stream, or added to it.
    y: [f32; WIDTH],
    query: [[f32; HEAD_SIZE]; HEADS],
    attended: [[f32; HEAD_SIZE]; HEADS],
    hidden: [f32; HIDDEN],
    up: [f32; HIDDEN],
    logits: [f32; OUTPUTS],
    scratch: [f32; SCRATCH],
}

impl<
    const LAYERS: usize,
    const CONTEXT: usize,
    const WIDTH: usize,
    const HEADS: usize,
    const KV_HEADS: usize,
    const HEAD_SIZE: usize,
    const HIDDEN: usize,
    const OUTPUTS: usize,
    const SCRATCH: usize,
> State<LAYERS, CONTEXT, WIDTH, HEADS, KV_HEADS, HEAD_SIZE, HIDDEN, OUTPUTS, SCRATCH>
{
    /// The state before the first token.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            len: 0,
            keys: [[[[0.0; HEAD_SIZE]; KV_HEADS]; CONTEXT]; LAYERS],
            values: [[[[0.0; HEAD_SIZE]; KV_HEADS]; CONTEXT]; LAYERS],
            x: [0.0; WIDTH],
            y: [0.0; WIDTH],
            query: [[0.0; HEAD_SIZE]; HEADS],
            attended: [[0.0; HEAD_SIZE]; HEADS],
            hidden: [0.0; HIDDEN],
            up: [0.0; HIDDEN],
            logits: [0.0; OUTPUTS],
            scratch: [0.0; SCRATCH],
        }
    }

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

    /// Reads a token, and gives the logits \[outputs\]: of the next one, or of the classes of the text so far.
    ///
    /// # Errors
    /// [`Error::Token`] if the token is not in the vocabulary, [`Error::Context`] if the state is full. [`Error::Shape`] if the
    /// model has other shapes than the state.
    pub fn next<W: Matrix>(
        &mut self,
        model: &Decoder<'_, W, LAYERS>,
        token: usize,
    ) -> Result<&[f32; OUTPUTS], Error> {
        let position = text::position(self.len, CONTEXT, token, model.tokens.columns())?;
        model.tokens.column(token, &mut self.x);
        if !model.positions.is_empty() {
            add(&mut self.x, Mat::new(model.positions, CONTEXT, WIDTH)?.row(position))?;
        }
        for (index, layer) in model.layers.iter().enumerate() {
            self.attend(layer, index, model.rotary.as_ref(), position)?;
            add(&mut self.x, &self.y)?;
            self.feed_forward(layer)?;
            add(&mut self.x, &self.y)?;
        }
        if let Some(norm) = &model.norm {
            norm.apply(&mut self.x)?;
        }
        model.head.forward(&self.x, &mut self.logits)?;
        self.len = position + 1;
        Ok(&self.logits)
    }

    /// Reads a text of its own, from the first token to the last, and gives the logits \[outputs\] after the last one.
    ///
    /// # Errors
    /// Those of [`next`](Self::next), and [`Error::Empty`] if there is no token.
    pub fn read<W: Matrix>(
        &mut self,
        model: &Decoder<'_, W, LAYERS>,
        tokens: impl IntoIterator<Item = usize>,
    ) -> Result<&[f32; OUTPUTS], Error> {
        self.clear();
        for token in tokens {
            self.next(model, token)?;
        }
        if self.is_empty() { Err(Error::Empty) } else { Ok(&self.logits) }
    }

    /// y ← the attention of the norm of x, on the keys up to `position`.
    fn attend<W: Matrix>(
        &mut self,
        layer: &Layer<'_, W>,
        index: usize,
        rotary: Option<&Rotary<'_>>,
        position: usize,
    ) -> Result<(), Error> {
        let (Some(keys), Some(values)) = (self.keys.get_mut(index), self.values.get_mut(index))
        else {
            return Ok(()); // the state has as many layers as the model
        };
        let (Some(key), Some(value)) = (keys.get_mut(position), values.get_mut(position)) else {
            return Err(Error::Context { context: CONTEXT });
        };
        self.y = self.x;
        layer.attention_norm.apply(&mut self.y)?;
        layer.query.forward(&self.y, self.query.as_flattened_mut())?;
        layer.key.forward(&self.y, key.as_flattened_mut())?;
        layer.value.forward(&self.y, value.as_flattened_mut())?;
        if let Some(rotary) = rotary {
            rotary.turn(&mut self.query, position)?;
            rotary.turn(key, position)?;
        }
        let attention = Attention::new().scale(layer.scale);
        let n = position + 1;
        let heads = self.query.iter().zip(&mut self.attended).enumerate();
        for (head, (query, out)) in heads {
            let first = head * KV_HEADS / HEADS * HEAD_SIZE;
            let (k, v) = (text::of_head(keys, first, n)?, text::of_head(values, first, n)?);
            let (q, out) = (Mat::new(query, 1, HEAD_SIZE)?, MatMut::new(out, 1, HEAD_SIZE)?);
            attention.forward(q, k, v, out, &mut self.scratch)?;
        }
        Ok(layer.output.forward(self.attended.as_flattened(), &mut self.y)?)
    }

    /// y ← the feed-forward layer of the norm of x.
    fn feed_forward<W: Matrix>(&mut self, layer: &Layer<'_, W>) -> Result<(), Error> {
        let FeedForward { gate, up, activation, down } = &layer.feed_forward;
        self.y = self.x;
        layer.feed_forward_norm.apply(&mut self.y)?;
        gate.as_ref().unwrap_or(up).forward(&self.y, &mut self.hidden)?;
        activation(&mut self.hidden);
        if gate.is_some() {
            up.forward(&self.y, &mut self.up)?;
            multiply(&mut self.hidden, &self.up)?;
        }
        Ok(down.forward(&self.hidden, &mut self.y)?)
    }
}

impl<
    const LAYERS: usize,
    const CONTEXT: usize,
    const WIDTH: usize,
    const HEADS: usize,
    const KV_HEADS: usize,
    const HEAD_SIZE: usize,
    const HIDDEN: usize,
    const OUTPUTS: usize,
    const SCRATCH: usize,
> Default for State<LAYERS, CONTEXT, WIDTH, HEADS, KV_HEADS, HEAD_SIZE, HIDDEN, OUTPUTS, SCRATCH>
{
    fn default() -> Self {
        Self::new()
    }
}
