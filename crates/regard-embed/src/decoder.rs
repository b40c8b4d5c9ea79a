//! A decoder that reads a token at a time, over any [`Numbers`].
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

use core::fmt::Debug;

use regard_kernels::{Error as KernelError, Mat, MatMut};

use crate::Error;

/// The sizes of a decoder. Its constants and its state share them.
///
/// ```
/// use regard_embed::{Shape, attention_scratch_len};
/// const SHAPE: Shape = Shape {
///     layers: 2, context: 32, width: 32, heads: 4, kv_heads: 2, head_size: 8, hidden: 64, outputs: 8,
/// };
/// const SCRATCH: usize = attention_scratch_len(1, SHAPE.context, SHAPE.head_size, SHAPE.head_size);
/// // In floating point, each number takes four bytes.
/// const RAM: usize = 4 * (SHAPE.narrow() + SHAPE.wide(SCRATCH));
/// assert!(RAM < 20 << 10);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Layers.
    pub layers: usize,
    /// The most tokens of a text.
    pub context: usize,
    /// The features of the residual stream.
    pub width: usize,
    /// Query heads.
    pub heads: usize,
    /// Key/value heads.
    pub kv_heads: usize,
    /// The features of a head.
    pub head_size: usize,
    /// The hidden features of a feed-forward layer.
    pub hidden: usize,
    /// The logits: of the tokens, or of the classes of a model that classifies texts.
    pub outputs: usize,
}

impl Shape {
    /// The features of all queries of a token.
    const fn of_queries(&self) -> usize {
        self.heads * self.head_size
    }

    /// The features of all keys of a token.
    const fn of_keys(&self) -> usize {
        self.kv_heads * self.head_size
    }

    /// The keys of all tokens in all layers.
    const fn kept(&self) -> usize {
        self.layers * self.context * self.of_keys()
    }

    /// The narrow numbers of a [`State`]: keys, values and inputs of products.
    #[must_use]
    pub const fn narrow(&self) -> usize {
        2 * self.kept() + self.width + largest_of([2 * self.of_queries(), self.hidden, 0, 0])
    }

    /// The wide numbers of a [`State`]: the residual stream, what is added to it, and memory that projections, attention, the
    /// feed-forward layer and the head use in turn. `scratch` is what the attention of a head needs.
    #[must_use]
    pub const fn wide(&self, scratch: usize) -> usize {
        let in_turn = [self.of_queries(), scratch, 2 * self.hidden, self.outputs];
        2 * self.width + largest_of(in_turn)
    }
}

const fn largest_of([a, b, c, d]: [usize; 4]) -> usize {
    let (a, c) = (if a > b { a } else { b }, if c > d { c } else { d });
    if a > c { a } else { c }
}

/// The numbers that a decoder computes with: [`Floats`](crate::Floats) or [`Integers`](crate::int8::Integers).
///
/// # Errors
/// All functions: [`KernelError`] if a part has another shape.
#[expect(clippy::missing_errors_doc, reason = "the trait says it for all functions")]
pub trait Numbers: Copy + Debug + 'static {
    /// The residual stream, sums of products and logits.
    type Wide: Copy + Debug;
    /// Inputs of products, keys and values.
    type Narrow: Copy + Debug;
    /// The vectors of the tokens.
    type Embedding: Copy + Debug;
    /// A norm of the width's features.
    type Norm: Copy + Debug;
    /// A linear layer.
    type Linear: Copy + Debug;
    /// The attention of a head.
    type Attention: Copy + Debug;
    /// The function of hidden features.
    type Activation: Copy + Debug;
    /// The rotary positions of queries and keys.
    type Rotary: Copy + Debug;
    /// 0.
    const NARROW: Self::Narrow;
    /// 0.
    const WIDE: Self::Wide;

    /// The size of the vocabulary.
    fn vocabulary(tokens: &Self::Embedding) -> usize;

    /// `x` ← the vector of a token at a position.
    fn embed(
        tokens: &Self::Embedding,
        token: usize,
        position: usize,
        x: &mut [Self::Wide],
    ) -> Result<(), KernelError>;

    /// `out` ← norm(x).
    fn norm(
        norm: &Self::Norm,
        x: &[Self::Wide],
        out: &mut [Self::Narrow],
    ) -> Result<(), KernelError>;

    /// `out` ← xW + b.
    fn multiply(
        linear: &Self::Linear,
        x: &[Self::Narrow],
        out: &mut [Self::Wide],
    ) -> Result<(), KernelError>;

    /// x ← x + y.
    fn add(x: &mut [Self::Wide], y: &[Self::Wide]) -> Result<(), KernelError>;

    /// `out` ← xW + b, which `rotary` turns by the position where it is given, with the memory of `wide`. Queries and keys are
    /// `finer` than narrow numbers until they are turned, where these are integers.
    fn project(
        linear: &Self::Linear,
        turn: Turn<'_, Self>,
        x: &[Self::Narrow],
        wide: &mut [Self::Wide],
        out: &mut [Self::Narrow],
    ) -> Result<(), KernelError>;

    /// `out` ← the attention of one query.
    fn attend(
        attention: &Self::Attention,
        qkv: [Mat<'_, Self::Narrow>; 3],
        out: MatMut<'_, Self::Narrow>,
        scratch: &mut [Self::Wide],
    ) -> Result<(), KernelError>;

    /// `out` ← f(gate(x)) · up(x), or f(up(x)) without a gate, with the memory of `wide`.
    fn hide(
        layer: &Layer<Self>,
        x: &[Self::Narrow],
        wide: &mut [Self::Wide],
        out: &mut [Self::Narrow],
    ) -> Result<(), KernelError>;
}

/// The way on for a projection.
#[derive(Clone, Copy, Debug)]
pub enum Turn<'a, N: Numbers> {
    /// Values stay.
    None,
    /// Queries and keys turn by their position.
    By {
        /// The angles, where the model has rotary positions.
        rotary: Option<&'a N::Rotary>,
        /// The features of a head.
        head_size: usize,
        /// The position of the token.
        position: usize,
    },
}

/// A model whose sizes and weights are constants.
pub trait Model: Copy + Debug + 'static {
    /// The numbers that it computes with.
    type Numbers: Numbers;
    /// Its sizes, which are known to the compiler wherever a token is read.
    const SHAPE: Shape;

    /// Its weights.
    fn decoder() -> &'static Decoder<Self::Numbers>;
}

/// The weights of a model.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<N: Numbers> {
    /// The vectors of the tokens.
    pub tokens: N::Embedding,
    /// The layers, from the first to the last.
    pub layers: &'static [Layer<N>],
    /// The norm after the last layer.
    pub norm: N::Norm,
    /// \[width, outputs\]
    pub head: N::Linear,
    /// The angles by which queries and keys turn.
    pub rotary: Option<N::Rotary>,
}

/// A layer: attention and feed-forward layer, each with a norm before it, and each added to the residual stream.
#[derive(Clone, Copy, Debug)]
pub struct Layer<N: Numbers> {
    /// The norm before the attention.
    pub attention_norm: N::Norm,
    /// \[width, heads · head size\]
    pub query: N::Linear,
    /// \[width, key/value heads · head size\]
    pub key: N::Linear,
    /// \[width, key/value heads · head size\]
    pub value: N::Linear,
    /// The attention of a head.
    pub attention: N::Attention,
    /// \[heads · head size, width\]
    pub output: N::Linear,
    /// The norm before the feed-forward layer.
    pub feed_forward_norm: N::Norm,
    /// \[width, hidden\]: what goes through the activation, where there is a gate.
    pub gate: Option<N::Linear>,
    /// \[width, hidden\]: what the gate multiplies, or what goes through the activation.
    pub up: N::Linear,
    /// The function of hidden features.
    pub activation: N::Activation,
    /// \[hidden, width\]
    pub down: N::Linear,
}

/// The state after a text: keys and values of its tokens, and memory for one more. `NARROW` and `WIDE` are
/// [`Shape::narrow`] and [`Shape::wide`].
///
/// All numbers are 0 at the beginning, so that a static takes no flash.
#[derive(Clone, Debug)]
pub struct State<M: Model, const NARROW: usize, const WIDE: usize> {
    len: usize,
    wide: [Wide<M>; WIDE],
    narrow: [Narrow<M>; NARROW],
}

type Wide<M> = <<M as Model>::Numbers as Numbers>::Wide;
type Narrow<M> = <<M as Model>::Numbers as Numbers>::Narrow;

impl<M: Model, const NARROW: usize, const WIDE: usize> State<M, NARROW, WIDE> {
    /// The state before the first token.
    #[must_use]
    pub const fn new() -> Self {
        Self { len: 0, wide: [M::Numbers::WIDE; WIDE], narrow: [M::Numbers::NARROW; NARROW] }
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

    /// Reads a token, and gives the logits: of the next one, or of the classes of the text so far.
    ///
    /// # Errors
    /// [`Error::Token`] if the token is not in the vocabulary, [`Error::Context`] if the state is full. [`Error::Shape`] if the
    /// weights or the memory of the state have other shapes than the model.
    pub fn next<const OUTPUTS: usize>(
        &mut self,
        token: usize,
    ) -> Result<&[Wide<M>; OUTPUTS], Error> {
        let Decoder { tokens, layers, norm, head, rotary } = M::decoder();
        let (vocabulary, context) = (M::Numbers::vocabulary(tokens), M::SHAPE.context);
        if token >= vocabulary {
            return Err(Error::Token { token, vocabulary });
        }
        if self.len >= context {
            return Err(Error::Context { context });
        }
        let (keys, narrow) = split(&mut self.narrow, M::SHAPE.kept());
        let (values, narrow) = split(narrow, M::SHAPE.kept());
        let (normed, narrow) = split(narrow, M::SHAPE.width);
        let (x, wide) = split(&mut self.wide, M::SHAPE.width);
        let (added, wide) = split(wide, M::SHAPE.width);
        M::Numbers::embed(tokens, token, self.len, x)?;
        let position = self.len;
        let mut step: Step<'_, M> = Step { position, keys, values, normed, narrow, x, added, wide };
        for (index, layer) in layers.iter().enumerate() {
            step.attend(layer, index, rotary.as_ref())?;
            step.feed_forward(layer)?;
        }
        M::Numbers::norm(norm, step.x, step.normed)?;
        M::Numbers::multiply(head, step.normed, first(step.wide, M::SHAPE.outputs))?;
        self.len += 1;
        self.logits()
    }

    /// Reads a text of its own, from the first token to the last, and gives the logits after the last one.
    ///
    /// # Errors
    /// Those of [`next`](Self::next), and [`Error::Empty`] if there is no token.
    pub fn read<const OUTPUTS: usize>(
        &mut self,
        tokens: impl IntoIterator<Item = usize>,
    ) -> Result<&[Wide<M>; OUTPUTS], Error> {
        self.clear();
        for token in tokens {
            self.next::<OUTPUTS>(token)?;
        }
        if self.is_empty() { Err(Error::Empty) } else { self.logits() }
    }

    /// The logits of the last token.
    fn logits<const OUTPUTS: usize>(&self) -> Result<&[Wide<M>; OUTPUTS], Error> {
        const { assert!(M::SHAPE.outputs == OUTPUTS, "a model has another number of logits") };
        let logits = self.wide.get(2 * M::SHAPE.width..).and_then(|wide| wide.first_chunk());
        logits.ok_or(Error::Shape(KernelError::Length {
            tensor: "the memory of the state",
            found: WIDE,
            expected: 2 * M::SHAPE.width + OUTPUTS,
        }))
    }
}

impl<M: Model, const NARROW: usize, const WIDE: usize> Default for State<M, NARROW, WIDE> {
    fn default() -> Self {
        Self::new()
    }
}

/// The memory of a state while it reads the token at `position`.
struct Step<'s, M: Model> {
    position: usize,
    /// \[layers, context, key/value heads, head size\]
    keys: &'s mut [Narrow<M>],
    values: &'s mut [Narrow<M>],
    normed: &'s mut [Narrow<M>],
    narrow: &'s mut [Narrow<M>],
    /// The residual stream.
    x: &'s mut [Wide<M>],
    /// The output of a sublayer, which is added to the stream.
    added: &'s mut [Wide<M>],
    wide: &'s mut [Wide<M>],
}

impl<M: Model> Step<'_, M> {
    /// x ← x + the attention of norm(x), on the keys up to the position.
    fn attend(
        &mut self,
        layer: &Layer<M::Numbers>,
        index: usize,
        rotary: Option<&<M::Numbers as Numbers>::Rotary>,
    ) -> Result<(), KernelError> {
        let Shape { context, heads, kv_heads, head_size, .. } = M::SHAPE;
        let (of_queries, of_keys) = (M::SHAPE.of_queries(), M::SHAPE.of_keys());
        let of_layer = index * context * of_keys..(index + 1) * context * of_keys;
        let keys = self.keys.get_mut(of_layer.clone()).unwrap_or_default();
        let values = self.values.get_mut(of_layer).unwrap_or_default();
        let of_token = self.position * of_keys..(self.position + 1) * of_keys;
        let (query, narrow) = split(self.narrow, of_queries);
        let attended = first(narrow, of_queries);

        M::Numbers::norm(&layer.attention_norm, self.x, self.normed)?;
        let key = keys.get_mut(of_token.clone()).unwrap_or_default();
        let value = values.get_mut(of_token).unwrap_or_default();
        let turn = Turn::By { rotary, head_size, position: self.position };
        for (linear, turn, out) in [
            (&layer.query, turn, &mut *query),
            (&layer.key, turn, key),
            (&layer.value, Turn::None, value),
        ] {
            M::Numbers::project(linear, turn, self.normed, self.wide, out)?;
        }

        // The compiler knows the most keys, and leaves out the code for longer texts.
        let n = (self.position + 1).min(M::SHAPE.context);
        let queries = query.chunks_exact(head_size.max(1));
        let outputs = attended.chunks_exact_mut(head_size.max(1));
        for (head, (query, out)) in queries.zip(outputs).enumerate() {
            let start = head * kv_heads / heads.max(1) * head_size;
            let of_head = |all| -> Result<Mat<'_, Narrow<M>>, KernelError> {
                let numbers = <[Narrow<M>]>::get(all, start..).unwrap_or_default();
                Mat::strided(numbers, n, head_size, of_keys)
            };
            let qkv = [Mat::new(query, 1, head_size)?, of_head(keys)?, of_head(values)?];
            M::Numbers::attend(&layer.attention, qkv, MatMut::new(out, 1, head_size)?, self.wide)?;
        }
        M::Numbers::multiply(&layer.output, attended, self.added)?;
        M::Numbers::add(self.x, self.added)
    }

    /// x ← x + the feed-forward layer of norm(x).
    fn feed_forward(&mut self, layer: &Layer<M::Numbers>) -> Result<(), KernelError> {
        M::Numbers::norm(&layer.feed_forward_norm, self.x, self.normed)?;
        let hidden = first(self.narrow, M::SHAPE.hidden);
        M::Numbers::hide(layer, self.normed, self.wide, hidden)?;
        M::Numbers::multiply(&layer.down, hidden, self.added)?;
        M::Numbers::add(self.x, self.added)
    }
}

/// The first `len` numbers, and the others. Numbers that a state of another shape lacks are missing in both.
pub(crate) fn split<T>(x: &mut [T], len: usize) -> (&mut [T], &mut [T]) {
    x.split_at_mut_checked(len).unwrap_or_default()
}

/// The first `len` numbers.
pub(crate) fn first<T>(x: &mut [T], len: usize) -> &mut [T] {
    x.get_mut(..len).unwrap_or_default()
}
