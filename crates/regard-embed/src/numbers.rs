//! The operations that a model needs of its numbers, and the layers that consist of such numbers.

use core::fmt::Debug;

use regard_kernels::{Error as KernelError, Mat, MatMut};

/// The numbers that a model computes with: [`Floats`](crate::Floats) or [`Integers`](crate::int8::Integers). A function that
/// takes tokens takes one or more of them, one after another.
///
/// # Errors
/// All functions return [`KernelError`] if a part has another shape.
#[expect(clippy::missing_errors_doc, reason = "the trait says it for all functions")]
pub trait Numbers: Copy + Debug {
    /// The residual stream, sums of products and logits.
    type Wide: Copy + Debug + 'static;
    /// Inputs of products, keys and values.
    type Narrow: Copy + Debug + 'static;
    /// The vectors of the tokens.
    type Embedding: Copy + Debug;
    /// A norm over the features of the residual stream.
    type Norm: Copy + Debug;
    /// A linear layer.
    type Linear: Copy + Debug;
    /// The attention of a head.
    type Attention: Copy + Debug;
    /// The activation function of hidden features.
    type Activation: Copy + Debug;
    /// The rotary positions of queries and keys.
    type Rotary: Copy + Debug;
    /// 0.
    const NARROW: Self::Narrow;
    /// 0.
    const WIDE: Self::Wide;

    /// The size of the vocabulary.
    fn vocabulary(tokens: &Self::Embedding) -> usize;

    /// `x` ← the vector of a token.
    fn embed(
        tokens: &Self::Embedding,
        token: usize,
        x: &mut [Self::Wide],
    ) -> Result<(), KernelError>;

    /// A number that an encoder reads, as a narrow number whose unit is `scale`.
    fn narrow(x: f32, scale: f32) -> Self::Narrow;

    /// `out` ← norm(x).
    fn norm(
        norm: &Self::Norm,
        x: &[Self::Wide],
        out: &mut [Self::Narrow],
    ) -> Result<(), KernelError>;

    /// x ← norm(x), for the residual stream of a model whose norms stand after its sublayers.
    fn settle(norm: &Self::Norm, x: &mut [Self::Wide]) -> Result<(), KernelError>;

    /// `out` ← xW + b.
    fn multiply(
        linear: &Self::Linear,
        x: &[Self::Narrow],
        out: &mut [Self::Wide],
    ) -> Result<(), KernelError>;

    /// x ← x + y.
    fn add(x: &mut [Self::Wide], y: &[Self::Wide]) -> Result<(), KernelError>;

    /// `out` ← xW + b, rotated as `turn` says. `wide` is memory for the sums. In integers, queries and keys have additional
    /// bits until they are rotated.
    fn project(
        linear: &Self::Linear,
        turn: Turn<'_, Self>,
        x: &[Self::Narrow],
        wide: &mut [Self::Wide],
        out: &mut [Self::Narrow],
    ) -> Result<(), KernelError>;

    /// `out` ← the attention of queries that see all keys.
    fn attend(
        attention: &Self::Attention,
        qkv: [Mat<'_, Self::Narrow>; 3],
        out: MatMut<'_, Self::Narrow>,
        scratch: &mut [Self::Wide],
    ) -> Result<(), KernelError>;

    /// `out` ← f(gate(x)) · up(x), or f(up(x)) without a gate. `wide` is memory for the sums.
    fn hide(
        layer: &Hidden<Self>,
        x: &[Self::Narrow],
        wide: &mut [Self::Wide],
        out: &mut [Self::Narrow],
    ) -> Result<(), KernelError>;
}

/// Whether a projection's outputs are rotated.
#[derive(Clone, Copy, Debug)]
pub enum Turn<'a, N: Numbers> {
    /// Values are not rotated.
    None,
    /// Queries and keys are rotated by their position.
    By {
        /// The angles, if the model has rotary positions.
        rotary: Option<&'a N::Rotary>,
        /// The features of a head.
        head_size: usize,
        /// The position of the token.
        position: usize,
    },
}

/// A layer: an attention and a feed-forward layer. Each has a norm before or after it, and each is added to the residual stream.
#[derive(Clone, Copy, Debug)]
pub struct Layer<N: Numbers> {
    /// The norm before the attention.
    pub attention_norm: N::Norm,
    /// \[width, heads · head size\].
    pub query: N::Linear,
    /// \[width, key/value heads · head size\].
    pub key: N::Linear,
    /// \[width, key/value heads · head size\].
    pub value: N::Linear,
    /// The attention of a head.
    pub attention: N::Attention,
    /// \[heads · head size, width\].
    pub output: N::Linear,
    /// The norm before the feed-forward layer.
    pub feed_forward_norm: N::Norm,
    /// \[width, hidden\].
    pub hidden: Hidden<N>,
    /// \[hidden, width\].
    pub down: N::Linear,
    /// The norms of the residual stream after the attention and after the feed-forward layer, as in BERT. The norms before these
    /// then leave the stream as it is.
    pub after: Option<[N::Norm; 2]>,
}

/// The features before a product: those of a feed-forward layer, or those that a head of classes reads.
#[derive(Clone, Copy, Debug)]
pub struct Hidden<N: Numbers> {
    /// The input of the activation function, if there is a gate.
    pub gate: Option<N::Linear>,
    /// The factor of the gate, or without a gate the input of the activation function.
    pub up: N::Linear,
    /// The activation function.
    pub activation: N::Activation,
}
