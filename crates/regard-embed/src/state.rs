//! The layers of a decoder and of an encoder, over any [`Numbers`].
//!
//! ```text
//! x ← the token's embedding (+ its position's), or all patches of an image
//! for each layer
//!     for each block of tokens
//!         q, k, v ← norm(x) W_q, W_k, W_v;  rotate q and k by the position
//!     for each block of tokens
//!         x ← x + [attention of each head on all keys so far] W_o
//!         x ← x + feed-forward(norm(x))
//! logits ← norm(x) W_head
//! ```
//!
//! A decoder reads one token at a time, and keeps the keys and values of all layers. An encoder reads all tokens at once, and
//! keeps the keys and values of one layer. The kernels are those that `regard` calls on the desktop, and each sum is added in
//! the same order.

use core::fmt::Debug;
use core::ops::Range;

use regard_kernels::{Error as KernelError, Mat, MatMut};

use crate::Error;
use crate::numbers::{Layer, Numbers, Turn};

/// The most tokens of an encoder that one product takes. It is a multiple of the rows of a tile on a microcontroller, which are
/// 6 in floating point and 4 in integers.
const BLOCK: usize = 12;

/// The sizes of a model. Its constants and its state share them.
///
/// ```
/// use regard_embed::{Shape, attention_scratch_len};
/// const SHAPE: Shape = Shape {
///     layers: 2, context: 32, patch: 0, width: 32, heads: 4, kv_heads: 2, head_size: 8, hidden: 64, outputs: 8,
/// };
/// const SCRATCH: usize = attention_scratch_len(SHAPE.block(), SHAPE.context, SHAPE.head_size, SHAPE.head_size);
/// // In floating point, each number takes four bytes.
/// const RAM: usize = 4 * (SHAPE.narrow() + SHAPE.wide(SCRATCH));
/// assert!(RAM < 20 << 10);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The number of layers.
    pub layers: usize,
    /// The most tokens of a text; for an encoder, the number of patches of an image plus one for the class token.
    pub context: usize,
    /// The numbers of a patch of an encoder's image; 0 for a decoder.
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

impl Shape {
    /// The number of tokens that are read at once.
    pub(crate) const fn tokens(&self) -> usize {
        if self.patch == 0 { 1 } else { self.context }
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
        let layers = if self.patch == 0 { self.layers } else { 1 };
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
    type Numbers: Numbers;
    /// The model's input: [`Tokens`](crate::Tokens) or [`Image`](crate::Image).
    type Input: Debug + 'static;
    /// The model's sizes. The compiler knows them wherever the model runs.
    const SHAPE: Shape;

    /// The model's weights.
    fn weights() -> &'static Weights<Self::Numbers, Self::Input>;
}

/// The weights of a model.
#[derive(Clone, Copy, Debug)]
pub struct Weights<N: Numbers, I> {
    /// The layer that turns the input into the residual stream.
    pub input: I,
    /// The layers, from the first to the last.
    pub layers: &'static [Layer<N>],
    /// The norm after the last layer.
    pub norm: N::Norm,
    /// \[width, outputs\].
    pub head: N::Linear,
}

/// The memory of a model: the keys and values of the tokens that it has read, and working memory of the layers. `NARROW` and
/// `WIDE` are [`Shape::narrow`] and [`Shape::wide`].
///
/// All numbers are 0 at first, so a static of this type takes no flash.
#[derive(Clone, Debug)]
pub struct State<M: Model, const NARROW: usize, const WIDE: usize> {
    /// The number of tokens of a decoder's text so far.
    pub(crate) len: usize,
    wide: [Wide<M>; WIDE],
    narrow: [Narrow<M>; NARROW],
}

pub(crate) type Wide<M> = <<M as Model>::Numbers as Numbers>::Wide;
pub(crate) type Narrow<M> = <<M as Model>::Numbers as Numbers>::Narrow;

impl<M: Model, const NARROW: usize, const WIDE: usize> State<M, NARROW, WIDE> {
    /// A state that has read nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { len: 0, wide: [M::Numbers::WIDE; WIDE], narrow: [M::Numbers::NARROW; NARROW] }
    }

    /// The memory, divided for the layers.
    pub(crate) fn step(&mut self) -> Step<'_, M> {
        let shape = M::SHAPE;
        let (keys, narrow) = split(&mut self.narrow, shape.kept());
        let (values, narrow) = split(narrow, shape.kept());
        let (queries, narrow) = split(narrow, shape.tokens() * shape.of_queries());
        let (normed, narrow) = split(narrow, shape.block() * shape.width);
        let (x, wide) = split(&mut self.wide, shape.tokens() * shape.width);
        let (added, wide) = split(wide, shape.block() * shape.width);
        Step { position: self.len, keys, values, queries, normed, narrow, x, added, wide }
    }

    /// The logits of the last token, or of the classes.
    pub(crate) fn logits<const OUTPUTS: usize>(&self) -> Result<&[Wide<M>; OUTPUTS], Error> {
        const { assert!(M::SHAPE.outputs == OUTPUTS, "a model has another number of logits") };
        let start = M::SHAPE.before_logits();
        let logits = self.wide.get(start..).and_then(|wide| wide.first_chunk());
        logits.ok_or(Error::Shape(KernelError::Length {
            tensor: "the memory of the state",
            found: WIDE,
            expected: start + OUTPUTS,
        }))
    }
}

impl<M: Model, const NARROW: usize, const WIDE: usize> Default for State<M, NARROW, WIDE> {
    fn default() -> Self {
        Self::new()
    }
}

/// The memory of a state while it reads.
pub(crate) struct Step<'s, M: Model> {
    /// The position of the first token that is read in this step.
    position: usize,
    /// \[layers whose keys are kept, context, key/value heads, head size\].
    keys: &'s mut [Narrow<M>],
    values: &'s mut [Narrow<M>],
    /// \[tokens that are read, query heads, head size\]
    queries: &'s mut [Narrow<M>],
    normed: &'s mut [Narrow<M>],
    pub(crate) narrow: &'s mut [Narrow<M>],
    /// The residual stream.
    pub(crate) x: &'s mut [Wide<M>],
    /// The output of a sublayer, which is added to the residual stream.
    pub(crate) added: &'s mut [Wide<M>],
    wide: &'s mut [Wide<M>],
}

impl<M: Model> Step<'_, M> {
    /// Runs all layers, the norm after the last one, and the head on the first token of this step.
    pub(crate) fn run<I>(
        &mut self,
        weights: &Weights<M::Numbers, I>,
        rotary: Option<&<M::Numbers as Numbers>::Rotary>,
    ) -> Result<(), KernelError> {
        let Shape { layers, context, patch, width, outputs, .. } = M::SHAPE;
        let (tokens, block) = (M::SHAPE.tokens(), M::SHAPE.block());
        for (index, layer) in weights.layers.iter().enumerate() {
            let first_key = if patch == 0 { index * context } else { 0 };
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
        M::Numbers::norm(&weights.norm, first(self.x, width), normed)?;
        M::Numbers::multiply(&weights.head, normed, first(self.wide, outputs))
    }

    /// normed ← norm(x), for these tokens.
    fn norm(
        &mut self,
        norm: &<M::Numbers as Numbers>::Norm,
        rows: &Range<usize>,
    ) -> Result<&[Narrow<M>], KernelError> {
        let width = M::SHAPE.width;
        let x = self.x.get(rows.start * width..rows.end * width).unwrap_or_default();
        let normed = first(self.normed, rows.len() * width);
        M::Numbers::norm(norm, x, normed)?;
        Ok(normed)
    }

    /// x ← x + added, for these tokens.
    fn add(&mut self, rows: Range<usize>) -> Result<(), KernelError> {
        let width = M::SHAPE.width;
        let added = first(self.added, rows.len() * width);
        M::Numbers::add(
            self.x.get_mut(rows.start * width..rows.end * width).unwrap_or_default(),
            added,
        )
    }

    /// Computes the keys and values of these tokens, and the queries of the first `wanted` of them.
    fn project(
        &mut self,
        layer: &Layer<M::Numbers>,
        rotary: Option<&<M::Numbers as Numbers>::Rotary>,
        first_key: usize,
        wanted: usize,
        rows: Range<usize>,
    ) -> Result<(), KernelError> {
        let (width, of_keys, of_queries) =
            (M::SHAPE.width, M::SHAPE.of_keys(), M::SHAPE.of_queries());
        let turn = Turn::By {
            rotary,
            head_size: M::SHAPE.head_size,
            position: self.position + rows.start,
        };
        let start = first_key + self.position;
        let place = (start + rows.start) * of_keys..(start + rows.end) * of_keys;
        self.norm(&layer.attention_norm, &rows)?;
        let Self { keys, values, queries, normed, wide, .. } = self;
        let normed = first(normed, rows.len() * width);
        let key = keys.get_mut(place.clone()).unwrap_or_default();
        let value = values.get_mut(place).unwrap_or_default();
        for (linear, turn, out) in [(&layer.key, turn, key), (&layer.value, Turn::None, value)] {
            M::Numbers::project(linear, turn, normed, wide, out)?;
        }
        let wanted = wanted.min(rows.len());
        let query = queries.get_mut(rows.start * of_queries..).unwrap_or_default();
        let (query, normed) = (first(query, wanted * of_queries), first(normed, wanted * width));
        M::Numbers::project(&layer.query, turn, normed, wide, query)
    }

    /// x ← x + the attention of norm(x), for these tokens on all keys so far.
    fn attend(
        &mut self,
        layer: &Layer<M::Numbers>,
        first_key: usize,
        rows: Range<usize>,
    ) -> Result<(), KernelError> {
        let Shape { context, heads, kv_heads, head_size, width, .. } = M::SHAPE;
        let (of_queries, of_keys) = (M::SHAPE.of_queries(), M::SHAPE.of_keys());
        let count = rows.len();
        let Self { keys, values, queries, narrow, added, wide, .. } = self;
        let query = queries.get(rows.start * of_queries..).unwrap_or_default();
        let attended = first(narrow, count * of_queries);

        // The compiler knows the most keys, and leaves out the code for longer texts.
        let n = (self.position + M::SHAPE.tokens()).min(context);
        for head in 0..heads {
            let start = first_key * of_keys + head * kv_heads / heads.max(1) * head_size;
            let of_head = |all| -> Result<Mat<'_, Narrow<M>>, KernelError> {
                let numbers = <[Narrow<M>]>::get(all, start..).unwrap_or_default();
                Mat::strided(numbers, n, head_size, of_keys)
            };
            let queries = query.get(head * head_size..).unwrap_or_default();
            let queries = Mat::strided(queries, count, head_size, of_queries)?;
            let out = attended.get_mut(head * head_size..).unwrap_or_default();
            let out = MatMut::strided(out, count, head_size, of_queries)?;
            M::Numbers::attend(
                &layer.attention,
                [queries, of_head(keys)?, of_head(values)?],
                out,
                wide,
            )?;
        }
        M::Numbers::multiply(&layer.output, attended, first(added, count * width))?;
        self.add(rows)
    }

    /// x ← x + the feed-forward layer of norm(x), for these tokens.
    fn feed_forward(
        &mut self,
        layer: &Layer<M::Numbers>,
        rows: Range<usize>,
    ) -> Result<(), KernelError> {
        self.norm(&layer.feed_forward_norm, &rows)?;
        let Self { normed, narrow, added, wide, .. } = self;
        let hidden = first(narrow, rows.len() * M::SHAPE.hidden);
        M::Numbers::hide(layer, first(normed, rows.len() * M::SHAPE.width), wide, hidden)?;
        M::Numbers::multiply(&layer.down, hidden, first(added, rows.len() * M::SHAPE.width))?;
        self.add(rows)
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
