//! The layers of a decoder and of an encoder, over any [`Numbers`].
//!
//! ```text
//! x ← the token's embedding (+ its position's), all tokens of a text, or all patches of an image
//! for each layer
//!     for each block of tokens
//!         q, k, v ← norm(x) W_q, W_k, W_v;  rotate q and k by the position
//!     for each block of tokens
//!         x ← x + [attention of each head on all keys so far] W_o
//!         x ← x + feed-forward(norm(x))
//! logits ← norm(x) W_head, perhaps with hidden features between
//! ```
//!
//! Norms stand before the sublayers, as here, or after each sum. A decoder reads one token at a time, and keeps the keys and values of all layers. An encoder reads all tokens at once, and
//! keeps the keys and values of one layer. The kernels are those that `regard` calls on the desktop, and each sum is added in
//! the same order.

use core::fmt::Debug;
use core::ops::Range;

use regard_kernels::{Error as KernelError, Mat, MatMut};

use crate::Error;
use crate::numbers::{Hidden, Layer, Numbers, Turn};

/// The most tokens of an encoder that one product takes. It is a multiple of the rows of a tile on a microcontroller, which are
/// 6 in floating point and 4 in integers.
const BLOCK: usize = 12;

/// The sizes of a model. Its constants and its state share them.
///
/// ```
/// use regard_embed::{ModelShape, attention_scratch_len};
/// const SHAPE: ModelShape = ModelShape {
///     layers: 2, context: 32, encoder: false, patch: 0, width: 32, heads: 4, kv_heads: 2, head_size: 8, hidden: 64, outputs: 8,
/// };
/// const SCRATCH: usize = attention_scratch_len(SHAPE.block(), SHAPE.context, SHAPE.head_size, SHAPE.head_size);
/// // In floating point, each number takes four bytes.
/// const RAM: usize = 4 * (SHAPE.narrow() + SHAPE.wide(SCRATCH));
/// assert!(RAM < 20 << 10);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ModelShape {
    /// The number of layers.
    pub layers: usize,
    /// The most tokens of a text; for a model of images, the number of patches of an image plus one for the class token.
    pub context: usize,
    /// Whether all tokens are read at once.
    pub encoder: bool,
    /// The numbers of a patch of an image; 0 for texts.
    pub patch: usize,
    /// The features of the residual stream.
    pub width: usize,
    /// The number of query heads.
    pub heads: usize,
    /// The number of key/value heads.
    pub kv_heads: usize,
    /// The features of a head.
    pub head_size: usize,
    /// The hidden features of a feed-forward layer.
    pub hidden: usize,
    /// The number of logits: one for each token of the vocabulary, or for each class of a classifier.
    pub outputs: usize,
}

impl ModelShape {
    /// The most tokens that are read at once.
    pub(crate) const fn tokens(&self) -> usize {
        if self.encoder { self.context } else { 1 }
    }

    /// The most tokens that one product takes.
    #[must_use]
    pub const fn block(&self) -> usize {
        if self.tokens() < BLOCK { self.tokens() } else { BLOCK }
    }

    /// The features of all queries of a token.
    const fn of_queries(&self) -> usize {
        self.heads * self.head_size
    }

    /// The features of all keys of a token.
    const fn of_keys(&self) -> usize {
        self.kv_heads * self.head_size
    }

    /// The keys of all tokens in the layers that are kept.
    const fn kept(&self) -> usize {
        let layers = if self.encoder { 1 } else { self.layers };
        layers * self.context * self.of_keys()
    }

    /// The number of narrow numbers in a [`State`]: keys, values, queries and inputs of products.
    #[must_use]
    pub const fn narrow(&self) -> usize {
        let in_turn = largest_of([self.of_queries(), self.hidden, self.patch, 0]);
        2 * self.kept() + self.tokens() * self.of_queries() + self.block() * (self.width + in_turn)
    }

    /// The number of wide numbers in a [`State`]: the residual stream, the output of a sublayer, and memory that projections,
    /// attention, the feed-forward layer and the head use in turn. `scratch` is the scratch memory that the attention of a head
    /// needs.
    #[must_use]
    pub const fn wide(&self, scratch: usize) -> usize {
        let block = self.block();
        let in_turn = [block * self.of_queries(), scratch, 2 * block * self.hidden, self.outputs];
        self.before_logits() + largest_of(in_turn)
    }

    /// The wide numbers before the logits.
    const fn before_logits(&self) -> usize {
        (self.tokens() + self.block()) * self.width
    }
}

const fn largest_of([a, b, c, d]: [usize; 4]) -> usize {
    let (a, c) = (if a > b { a } else { b }, if c > d { c } else { d });
    if a > c { a } else { c }
}

/// A model whose sizes and weights are constants.
pub trait Model: Copy + Debug + 'static {
    /// The numbers that the model computes with.
    type Numbers: Numbers + 'static;
    /// The model's input: [`Tokens`](crate::Tokens), [`Text`](crate::Text) or [`Image`](crate::Image).
    type Input: Debug + 'static;
    /// The model's sizes. The compiler knows them wherever the model runs.
    const SHAPE: ModelShape;

    /// The model's weights.
    fn weights() -> &'static Weights<'static, Self::Numbers, Self::Input>;
}

/// The weights of a model.
#[derive(Clone, Copy, Debug)]
pub struct Weights<'w, N: Numbers, I> {
    /// The layer that turns the input into the residual stream.
    pub input: I,
    /// The layers, from the first to the last.
    pub layers: &'w [Layer<N>],
    /// The norm after the last layer.
    pub norm: N::Norm,
    /// The features between the norm and the head, if the head has some (BERT's pooler): \[width, width\].
    pub pooler: Option<Hidden<N>>,
    /// \[width, outputs\].
    pub head: N::Linear,
}

/// The memory of a model: the keys and values of the tokens that it has read, and working memory of the layers. `NARROW` and
/// `WIDE` are [`ModelShape::narrow`] and [`ModelShape::wide`].
///
/// All numbers are 0 at first, so a static of this type takes no flash.
#[derive(Clone, Debug)]
pub struct State<M: Model, const NARROW: usize, const WIDE: usize> {
    /// The number of tokens of a decoder's text so far.
    pub(crate) len: usize,
    pub(crate) wide: [Wide<M>; WIDE],
    pub(crate) narrow: [Narrow<M>; NARROW],
}

pub(crate) type Wide<M> = <<M as Model>::Numbers as Numbers>::Wide;
pub(crate) type Narrow<M> = <<M as Model>::Numbers as Numbers>::Narrow;

impl<M: Model, const NARROW: usize, const WIDE: usize> State<M, NARROW, WIDE> {
    /// A state that has read nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { len: 0, wide: [M::Numbers::WIDE; WIDE], narrow: [M::Numbers::NARROW; NARROW] }
    }
}

/// The logits as an array.
pub(crate) fn array<M: Model, const OUTPUTS: usize>(
    logits: &[Wide<M>],
) -> Result<&[Wide<M>; OUTPUTS], Error> {
    const { assert!(M::SHAPE.outputs == OUTPUTS, "a model has another number of logits") };
    logits.first_chunk().ok_or(Error::Shape(KernelError::Length {
        tensor: "the memory of the state",
        found: logits.len(),
        expected: OUTPUTS,
    }))
}

impl<M: Model, const NARROW: usize, const WIDE: usize> Default for State<M, NARROW, WIDE> {
    fn default() -> Self {
        Self::new()
    }
}

/// Borrowed memory of a model whose sizes `shape` returns.
///
/// [`State`] owns the memory of a model whose sizes are constants. A program that learns the sizes as it runs, as `regard embed`
/// does when it compares the integers with the floats, borrows it from vectors.
#[derive(Debug)]
pub struct Memory<'s, N: Numbers, S> {
    pub(crate) shape: S,
    wide: &'s mut [N::Wide],
    narrow: &'s mut [N::Narrow],
}

impl<'s, N: Numbers, S: Fn() -> ModelShape> Memory<'s, N, S> {
    /// Memory of [`ModelShape::wide`] and [`ModelShape::narrow`] numbers. Keys and values stay in it between the tokens of a text.
    pub const fn new(shape: S, wide: &'s mut [N::Wide], narrow: &'s mut [N::Narrow]) -> Self {
        Self { shape, wide, narrow }
    }

    /// The memory, divided for the layers, for so many tokens from the one at a position on.
    pub(crate) fn step(&mut self, position: usize, tokens: usize) -> Step<'_, N, &S> {
        let shape = (self.shape)();
        let (keys, narrow) = split(self.narrow, shape.kept());
        let (values, narrow) = split(narrow, shape.kept());
        let (queries, narrow) = split(narrow, shape.tokens() * shape.of_queries());
        let (normed, narrow) = split(narrow, shape.block() * shape.width);
        let (x, wide) = split(self.wide, shape.tokens() * shape.width);
        let (added, wide) = split(wide, shape.block() * shape.width);
        let shape = &self.shape;
        Step { shape, position, tokens, keys, values, queries, normed, narrow, x, added, wide }
    }

    /// The logits of the last token, or of the classes.
    pub(crate) fn logits(self) -> &'s [N::Wide] {
        let shape = (self.shape)();
        let start = shape.before_logits();
        self.wide.get(start..start + shape.outputs).unwrap_or_default()
    }
}

/// The memory of a model while it reads.
pub(crate) struct Step<'s, N: Numbers, S> {
    shape: S,
    /// The position of the first token that is read in this step.
    position: usize,
    /// The number of tokens that are read in this step.
    tokens: usize,
    /// \[layers whose keys are kept, context, key/value heads, head size\].
    keys: &'s mut [N::Narrow],
    values: &'s mut [N::Narrow],
    /// \[tokens that are read, query heads, head size\]
    queries: &'s mut [N::Narrow],
    normed: &'s mut [N::Narrow],
    pub(crate) narrow: &'s mut [N::Narrow],
    /// The residual stream.
    pub(crate) x: &'s mut [N::Wide],
    /// The output of a sublayer, which is added to the residual stream.
    pub(crate) added: &'s mut [N::Wide],
    wide: &'s mut [N::Wide],
}

impl<N: Numbers, S: Fn() -> ModelShape> Step<'_, N, S> {
    /// Runs all layers, the norm after the last one, and the head on the first token of this step.
    pub(crate) fn run<I>(
        &mut self,
        weights: &Weights<'_, N, I>,
        rotary: Option<&N::Rotary>,
    ) -> Result<(), KernelError> {
        let shape = (self.shape)();
        let ModelShape { layers, context, encoder, width, outputs, .. } = shape;
        let (tokens, block) = (self.tokens, shape.block());
        for (index, layer) in weights.layers.iter().enumerate() {
            let first_key = if encoder { 0 } else { index * context };
            // The head needs one token of the last layer.
            let wanted = if index + 1 == layers { 1 } else { tokens };
            for first in (0..tokens).step_by(block) {
                let rows = first..(first + block).min(tokens);
                self.project(layer, rotary, first_key, wanted.saturating_sub(first), rows)?;
            }
            for first in (0..wanted).step_by(block) {
                let rows = first..(first + block).min(wanted);
                self.attend(layer, first_key, rows.clone())?;
                self.feed_forward(layer, rows)?;
            }
        }
        let normed = first(self.normed, width);
        N::norm(&weights.norm, first(self.x, width), normed)?;
        let Some(pooler) = &weights.pooler else {
            return N::multiply(&weights.head, normed, first(self.wide, outputs));
        };
        let pooled = first(self.narrow, width);
        N::hide(pooler, normed, self.wide, pooled)?;
        N::multiply(&weights.head, pooled, first(self.wide, outputs))
    }

    /// normed ← norm(x), for these tokens.
    fn norm(&mut self, norm: &N::Norm, rows: &Range<usize>) -> Result<&[N::Narrow], KernelError> {
        let width = (self.shape)().width;
        let x = self.x.get(rows.start * width..rows.end * width).unwrap_or_default();
        let normed = first(self.normed, rows.len() * width);
        N::norm(norm, x, normed)?;
        Ok(normed)
    }

    /// x ← x + added, for these tokens, or the norm of the sum.
    fn add(&mut self, rows: Range<usize>, after: Option<&N::Norm>) -> Result<(), KernelError> {
        let width = (self.shape)().width;
        let added = first(self.added, rows.len() * width);
        let x = self.x.get_mut(rows.start * width..rows.end * width).unwrap_or_default();
        N::add(x, added)?;
        after.map_or(Ok(()), |norm| N::settle(norm, x))
    }

    /// Computes the keys and values of these tokens, and the queries of the first `wanted` of them.
    fn project(
        &mut self,
        layer: &Layer<N>,
        rotary: Option<&N::Rotary>,
        first_key: usize,
        wanted: usize,
        rows: Range<usize>,
    ) -> Result<(), KernelError> {
        let shape = (self.shape)();
        let (width, of_keys, of_queries) = (shape.width, shape.of_keys(), shape.of_queries());
        let turn =
            Turn::By { rotary, head_size: shape.head_size, position: self.position + rows.start };
        let start = first_key + self.position;
        let place = (start + rows.start) * of_keys..(start + rows.end) * of_keys;
        self.norm(&layer.attention_norm, &rows)?;
        let Self { keys, values, queries, normed, wide, .. } = self;
        let normed = first(normed, rows.len() * width);
        let key = keys.get_mut(place.clone()).unwrap_or_default();
        let value = values.get_mut(place).unwrap_or_default();
        for (linear, turn, out) in [(&layer.key, turn, key), (&layer.value, Turn::None, value)] {
            N::project(linear, turn, normed, wide, out)?;
        }
        let wanted = wanted.min(rows.len());
        let query = queries.get_mut(rows.start * of_queries..).unwrap_or_default();
        let (query, normed) = (first(query, wanted * of_queries), first(normed, wanted * width));
        N::project(&layer.query, turn, normed, wide, query)
    }

    /// x ← x + the attention of norm(x), or norm(x + the attention of x), for these tokens on all keys so far.
    fn attend(
        &mut self,
        layer: &Layer<N>,
        first_key: usize,
        rows: Range<usize>,
    ) -> Result<(), KernelError> {
        let shape = (self.shape)();
        let ModelShape { context, heads, kv_heads, head_size, width, .. } = shape;
        let (of_queries, of_keys) = (shape.of_queries(), shape.of_keys());
        let count = rows.len();
        let Self { keys, values, queries, narrow, added, wide, .. } = self;
        let query = queries.get(rows.start * of_queries..).unwrap_or_default();
        let attended = first(narrow, count * of_queries);

        // The compiler knows the most keys, and leaves out the code for longer texts.
        let n = (self.position + self.tokens).min(context);
        for head in 0..heads {
            let start = first_key * of_keys + head * kv_heads / heads.max(1) * head_size;
            let of_head = |all| -> Result<Mat<'_, N::Narrow>, KernelError> {
                let numbers = <[N::Narrow]>::get(all, start..).unwrap_or_default();
                Mat::strided(numbers, n, head_size, of_keys)
            };
            let queries = query.get(head * head_size..).unwrap_or_default();
            let queries = Mat::strided(queries, count, head_size, of_queries)?;
            let out = attended.get_mut(head * head_size..).unwrap_or_default();
            let out = MatMut::strided(out, count, head_size, of_queries)?;
            N::attend(&layer.attention, [queries, of_head(keys)?, of_head(values)?], out, wide)?;
        }
        N::multiply(&layer.output, attended, first(added, count * width))?;
        self.add(rows, layer.after.as_ref().map(|[first, _]| first))
    }

    /// x ← x + the feed-forward layer of norm(x), or norm(x + that of x), for these tokens.
    fn feed_forward(&mut self, layer: &Layer<N>, rows: Range<usize>) -> Result<(), KernelError> {
        let ModelShape { width, hidden, .. } = (self.shape)();
        self.norm(&layer.feed_forward_norm, &rows)?;
        let Self { normed, narrow, added, wide, .. } = self;
        let hidden = first(narrow, rows.len() * hidden);
        N::hide(&layer.hidden, first(normed, rows.len() * width), wide, hidden)?;
        N::multiply(&layer.down, hidden, first(added, rows.len() * width))?;
        self.add(rows, layer.after.as_ref().map(|[_, second]| second))
    }
}

/// The first `len` numbers, and the others. Both are empty if `x` is too short.
pub(crate) fn split<T>(x: &mut [T], len: usize) -> (&mut [T], &mut [T]) {
    x.split_at_mut_checked(len).unwrap_or_default()
}

/// The first `len` numbers. Empty if `x` is too short.
pub(crate) fn first<T>(x: &mut [T], len: usize) -> &mut [T] {
    x.get_mut(..len).unwrap_or_default()
}
