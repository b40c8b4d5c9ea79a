//! A decoder that reads a token at a time, in integers.

use regard_kernels::{Mat, MatMut, int8};

use super::{Embedding, Linear, Norm, divide_by_power, narrow, requantize};
use crate::{Error, text};

/// Queries and keys have so many more bits before they turn.
const FINER: u32 = 8;
/// The bits after the point of cosines and sines.
const ANGLES: u32 = 14;

/// A model whose weights are 8-bit constants.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a, const LAYERS: usize> {
    /// The table of tokens.
    pub tokens: Embedding<'a>,
    /// The layers, from the first to the last.
    pub layers: [Layer<'a>; LAYERS],
    /// The norm after the last layer.
    pub norm: Norm<'a>,
    /// \[width, outputs\]: its outputs are the logits in units of 2⁻¹⁶.
    pub head: Linear<'a>,
    /// How queries and keys turn.
    pub rotary: Option<Rotary<'a>>,
}

/// A layer: attention and feed-forward layer, each with a norm before it, and each added to the residual stream.
#[derive(Clone, Copy, Debug)]
pub struct Layer<'a> {
    /// The norm before the attention.
    pub attention_norm: Norm<'a>,
    /// Queries, in 256ths of their scale.
    pub query: Linear<'a>,
    /// Keys, in 256ths of their scale.
    pub key: Linear<'a>,
    /// Values, in units of their scale.
    pub value: Linear<'a>,
    /// The attention of a head.
    pub attention: int8::Attention<'a>,
    /// The output, in units of the residual stream.
    pub output: Linear<'a>,
    /// The norm before the feed-forward layer.
    pub feed_forward_norm: Norm<'a>,
    /// The gate where there is one, with 12 bits after the point.
    pub gate: Option<Linear<'a>>,
    /// What the gate multiplies, with 12 bits after the point; without a gate, what goes through the activation.
    pub up: Linear<'a>,
    /// What goes through it has 12 bits after the point.
    pub activation: Activation,
    /// What turns hidden features with 12 bits after the point into 8-bit ones: mantissa and exponent.
    pub hidden: (i32, i32),
    /// The output, in units of the residual stream.
    pub down: Linear<'a>,
}

/// The function of hidden features: [`silu`](super::silu) or [`relu`](super::relu).
pub type Activation = fn(i32) -> i32;

/// Cosines and sines \[context, features / 2\] with 14 bits after the point.
#[derive(Clone, Copy, Debug)]
pub struct Rotary<'a> {
    /// The features of a head that turn.
    pub features: usize,
    /// \[context, features / 2\]
    pub cos: &'a [i16],
    /// \[context, features / 2\]
    pub sin: &'a [i16],
}

impl Rotary<'_> {
    /// Turns a head of a token at `position`.
    fn turn(&self, head: &mut [i32], position: usize) {
        let pairs = self.features / 2;
        let at = |angles| <[i16]>::get(angles, position * pairs..).unwrap_or_default().iter();
        let Some((first, second)) = head.split_at_mut_checked(pairs) else { return };
        let angles = at(self.cos).zip(at(self.sin));
        for ((a, b), (cos, sin)) in first.iter_mut().zip(second).take(pairs).zip(angles) {
            let (x, y) = (i64::from(*a), i64::from(*b));
            let (cos, sin) = (i64::from(*cos), i64::from(*sin));
            *a = rounded(x * cos - y * sin);
            *b = rounded(y * cos + x * sin);
        }
    }
}

/// A product with a cosine, without its 14 bits after the point; halves go up.
fn rounded(x: i64) -> i32 {
    ((x + (1 << (ANGLES - 1))) >> ANGLES) as i32
}

/// What a text has left: keys and values of its tokens, and memory for one more. `SCRATCH` is
/// [`attention_scratch_len`](super::attention_scratch_len)`(1, CONTEXT, HEAD_SIZE, HEAD_SIZE)`.
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
    keys: [[[[i8; HEAD_SIZE]; KV_HEADS]; CONTEXT]; LAYERS],
    values: [[[[i8; HEAD_SIZE]; KV_HEADS]; CONTEXT]; LAYERS],
    /// The residual stream.
    x: [i32; WIDTH],
    /// What is added to it.
    added: [i32; WIDTH],
    normed: [i8; WIDTH],
    /// Queries, keys or values, before they are rounded to 8 bits.
    wide: [[i32; HEAD_SIZE]; HEADS],
    query: [[i8; HEAD_SIZE]; HEADS],
    attended: [[i8; HEAD_SIZE]; HEADS],
    gate: [i32; HIDDEN],
    up: [i32; HIDDEN],
    hidden: [i8; HIDDEN],
    logits: [i32; OUTPUTS],
    scratch: [i32; SCRATCH],
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
            keys: [[[[0; HEAD_SIZE]; KV_HEADS]; CONTEXT]; LAYERS],
            values: [[[[0; HEAD_SIZE]; KV_HEADS]; CONTEXT]; LAYERS],
            x: [0; WIDTH],
            added: [0; WIDTH],
            normed: [0; WIDTH],
            wide: [[0; HEAD_SIZE]; HEADS],
            query: [[0; HEAD_SIZE]; HEADS],
            attended: [[0; HEAD_SIZE]; HEADS],
            gate: [0; HIDDEN],
            up: [0; HIDDEN],
            hidden: [0; HIDDEN],
            logits: [0; OUTPUTS],
            scratch: [0; SCRATCH],
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

    /// Reads a token, and gives the logits \[outputs\], of the next one or of the classes of the text so far, in units of 2⁻¹⁶.
    ///
    /// # Errors
    /// [`Error::Token`] if the token is not in the vocabulary, [`Error::Context`] if the state is full. [`Error::Shape`] if the
    /// model has other shapes than the state.
    pub fn next(
        &mut self,
        model: &Decoder<'_, LAYERS>,
        token: usize,
    ) -> Result<&[i32; OUTPUTS], Error> {
        let position = text::position(self.len, CONTEXT, token, model.tokens.mantissas.len())?;
        model.tokens.row(token, &mut self.x)?;
        for (index, layer) in model.layers.iter().enumerate() {
            self.attend(layer, index, model.rotary.as_ref(), position)?;
            self.add();
            self.feed_forward(layer)?;
            self.add();
        }
        model.norm.apply(&self.x, &mut self.normed)?;
        model.head.forward(&self.normed, &mut self.logits)?;
        self.len = position + 1;
        Ok(&self.logits)
    }

    /// Reads a text of its own, from the first token to the last, and gives the logits \[outputs\] after the last one.
    ///
    /// # Errors
    /// Those of [`next`](Self::next), and [`Error::Empty`] if there is no token.
    pub fn read(
        &mut self,
        model: &Decoder<'_, LAYERS>,
        tokens: impl IntoIterator<Item = usize>,
    ) -> Result<&[i32; OUTPUTS], Error> {
        self.clear();
        for token in tokens {
            self.next(model, token)?;
        }
        if self.is_empty() { Err(Error::Empty) } else { Ok(&self.logits) }
    }

    /// x ← x + what is added.
    fn add(&mut self) {
        for (x, added) in self.x.iter_mut().zip(&self.added) {
            *x = x.saturating_add(*added);
        }
    }

    /// The attention of the norm of x, on the keys up to `position`.
    fn attend(
        &mut self,
        layer: &Layer<'_>,
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
        layer.attention_norm.apply(&self.x, &mut self.normed)?;
        let parts: [(_, &mut [[i8; HEAD_SIZE]], _, _); 3] = [
            (&layer.query, &mut self.query, rotary, FINER),
            (&layer.key, key, rotary, FINER),
            (&layer.value, value, None, 0),
        ];
        for (linear, out, rotary, bits) in parts {
            let wide = self.wide.get_mut(..out.len()).unwrap_or_default();
            linear.forward(&self.normed, wide.as_flattened_mut())?;
            for (wide, out) in wide.iter_mut().zip(out) {
                if let Some(rotary) = rotary {
                    rotary.turn(wide, position);
                }
                for (x, out) in wide.iter().zip(out) {
                    *out = narrow(divide_by_power(*x, bits));
                }
            }
        }
        let n = position + 1;
        for (head, (query, out)) in self.query.iter().zip(&mut self.attended).enumerate() {
            let first = head * KV_HEADS / HEADS * HEAD_SIZE;
            let (k, v) = (text::of_head(keys, first, n)?, text::of_head(values, first, n)?);
            let (q, out) = (Mat::new(query, 1, HEAD_SIZE)?, MatMut::new(out, 1, HEAD_SIZE)?);
            layer.attention.forward(q, k, v, out, &mut self.scratch)?;
        }
        Ok(layer.output.forward(self.attended.as_flattened(), &mut self.added)?)
    }

    /// The feed-forward layer of the norm of x.
    fn feed_forward(&mut self, layer: &Layer<'_>) -> Result<(), Error> {
        layer.feed_forward_norm.apply(&self.x, &mut self.normed)?;
        layer.up.forward(&self.normed, &mut self.up)?;
        if let Some(gate) = &layer.gate {
            gate.forward(&self.normed, &mut self.gate)?;
            for (up, gate) in self.up.iter_mut().zip(&self.gate) {
                let product = i64::from((layer.activation)(*gate)) * i64::from(*up);
                *up = ((product + (1 << 11)) >> 12).clamp(-(1 << 31), (1 << 31) - 1) as i32;
            }
        } else {
            self.up.iter_mut().for_each(|x| *x = (layer.activation)(*x));
        }
        let (mantissa, exponent) = layer.hidden;
        for (hidden, up) in self.hidden.iter_mut().zip(&self.up) {
            *hidden = narrow(requantize(*up, mantissa, exponent));
        }
        Ok(layer.down.forward(&self.hidden, &mut self.added)?)
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
