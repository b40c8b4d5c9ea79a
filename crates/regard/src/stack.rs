//! Stacks of transformer blocks.

use crate::block::{Source, check_features};
use crate::decoding::DecoderCache;
use crate::error::{Error, check_shape};
use crate::view::check_elements;
use crate::{
    Attention, DecoderAttention, DecoderBlock, Element, EncoderBlock, KvCache, LayerWorkspace,
    Norm, Sequences, Tensor,
};

/// A stack of [`EncoderBlock`]s, with a norm after the last where there is one: pre-norm blocks should have it.
///
/// Under a causal mask, this is a decoder-only model without its embeddings and its output head: GPT, Llama.
///
/// ```
/// use regard::{Attention, Encoder, Norm, Sequences};
/// let encoder = Encoder::new(vec![], Some(Norm::rms(vec![1.0; 2], 0.0)?))?;
/// let y = encoder.forward(Sequences::new("x", &[7.0, 1.0], [1, 1, 2])?, &Attention::new())?;
/// assert_eq!(y, [1.4, 0.2]);
/// # Ok::<(), regard::Error>(())
/// ```
#[doc(alias = "GPT")]
#[doc(alias = "Llama")]
#[doc(alias = "BERT")]
#[doc(alias = "causal")]
#[doc(alias = "TransformerEncoder")]
#[derive(Clone, Debug)]
pub struct Encoder {
    blocks: Vec<EncoderBlock>,
    norm: Option<Norm>,
}

/// What [`Encoder::forward_with`] and [`Decoder::forward_with`] keep besides their output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Keep {
    states: bool,
    weights: bool,
}

impl Keep {
    /// The output alone.
    pub const NOTHING: Self = Self { states: false, weights: false };
    /// The states between the blocks.
    pub const STATES: Self = Self { states: true, weights: false };
    /// The attention weights of each block.
    pub const WEIGHTS: Self = Self { states: false, weights: true };
    /// The states and the attention weights.
    pub const ALL: Self = Self { states: true, weights: true };
}

/// What an [`Encoder`] computed: see [`Encoder::forward_with`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct EncoderOutput {
    /// \[batch, tokens, features\], after the last norm.
    pub output: Tensor<3>,
    /// What enters each block, and what leaves the last one before the norm: blocks + 1 times \[batch, tokens, features\].
    /// Empty if the states are not kept.
    pub states: Vec<Tensor<3>>,
    /// The attention weights of each block, \[batch, heads, tokens, tokens\]. Empty if they are not kept.
    pub weights: Vec<Tensor<4>>,
}

impl Encoder {
    /// A stack of `blocks`, the first one first.
    ///
    /// # Errors
    /// [`Error::Shape`] if the blocks and the norm differ in their features.
    pub fn new(blocks: Vec<EncoderBlock>, norm: Option<Norm>) -> Result<Self, Error> {
        check_stack(blocks.iter().map(EncoderBlock::features), norm.as_ref())?;
        Ok(Self { blocks, norm })
    }

    /// The blocks, the first one first.
    pub fn blocks(&self) -> &[EncoderBlock] {
        &self.blocks
    }

    /// The norm after the last block.
    pub fn norm(&self) -> Option<&Norm> {
        self.norm.as_ref()
    }

    /// y \[batch, tokens, features\] for x of the same shape. `attention` says how the heads of every block attend.
    ///
    /// # Errors
    /// As [`EncoderBlock::forward`].
    pub fn forward(&self, x: Sequences<'_>, attention: &Attention<'_>) -> Result<Tensor<3>, Error> {
        Ok(self.forward_with(x, |_| attention.clone(), Keep::NOTHING)?.output)
    }

    /// As [`forward`](Self::forward), with an attention for each block, `attention(0)` for the first, and with what is to be
    /// kept: states, attention weights. Everything is computed in one pass.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    ///
    /// ```
    /// use regard::{
    ///     Activation, Attention, Encoder, EncoderBlock, EncoderParts, FeedForward, Keep, Linear, MultiHeadAttention, Norm,
    ///     Mask, Position, Projections, Sequences, Window,
    /// };
    /// # let one = || Linear::from_pytorch([1.0], 1, 1);
    /// # let projections = || Ok::<_, regard::Error>(Projections { query: one()?, key: one()?, value: one()?, output: one()? });
    /// # let block = || EncoderBlock::pre_norm(EncoderParts {
    /// #     attention_norm: Norm::rms(vec![1.0], 0.0)?,
    /// #     attention: MultiHeadAttention::new(1, projections()?)?,
    /// #     feed_forward_norm: Norm::rms(vec![1.0], 0.0)?,
    /// #     feed_forward: FeedForward::new(one()?, Activation::Relu, one()?)?,
    /// # });
    /// let model = Encoder::new(vec![block()?, block()?], None)?; // of one feature
    /// // Every other layer sees only the token itself and the one before it, as in Gemma 2.
    /// let attention = |layer: usize| {
    ///     let window = Window { left: Some(1), right: None };
    ///     let sliding = Mask::CAUSAL.window(Position::BottomRight, window);
    ///     Attention::new().mask(if layer % 2 == 0 { sliding } else { Mask::CAUSAL })
    /// };
    /// let x = [2.0, 2.0, 2.0];
    /// let run = model.forward_with(Sequences::new("x", &x, [1, 3, 1])?, attention, Keep::ALL)?;
    /// assert_eq!(run.states[0], x);
    /// assert_eq!(run.states[2], run.output); // without a last norm
    /// assert_eq!(run.weights[0][6..], [0.0, 0.5, 0.5]); // the third token
    /// assert_eq!(run.weights[1][6..], [1.0 / 3.0; 3]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward_with<'a>(
        &self,
        x: Sequences<'_>,
        attention: impl Fn(usize) -> Attention<'a>,
        keep: Keep,
    ) -> Result<EncoderOutput, Error> {
        let mut output = Tensor::zeros(OUTPUT, x.shape())?;
        let (mut states, mut weights) = (Vec::new(), Vec::new());
        let kept = (keep.states.then_some(&mut states), keep.weights.then_some(&mut weights));
        let (caches, workspace) = (None::<&mut [KvCache]>, &mut LayerWorkspace::new());
        self.run(x, caches, attention, &mut output, kept, workspace)?;
        Ok(EncoderOutput { output, states, weights })
    }

    /// As [`forward_with`](Self::forward_with), into `out` \[batch, tokens, features\]; for tokens that follow those in the
    /// `caches`, one for each block, if there are any (see [`forward_cached`](Self::forward_cached)).
    ///
    /// On one thread, a call with the `workspace` of an earlier call of the same shape, or of a larger one, allocates nothing:
    /// after the first token, decoding takes no memory.
    ///
    /// # Errors
    /// As [`forward`](Self::forward) and [`forward_cached`](Self::forward_cached), and [`Error::Elements`] if `out` has another
    /// number of elements. The caches are then as they were.
    ///
    /// ```
    /// use regard::{Attention, Encoder, KvCache, LayerWorkspace, Norm, Sequences};
    /// let encoder = Encoder::new(vec![], Some(Norm::rms(vec![1.0; 2], 0.0)?))?;
    /// let (mut y, mut workspace) = ([0.0; 2], LayerWorkspace::new());
    /// for x in [[7.0, 1.0], [1.0, 7.0]] {
    ///     let x = Sequences::new("x", &x, [1, 1, 2])?;
    ///     encoder.forward_into(x, None::<&mut [KvCache]>, |_layer| Attention::new(), &mut y, &mut workspace)?;
    /// }
    /// assert_eq!(y, [0.2, 1.4]);
    /// # Ok::<(), regard::Error>(())
    /// ```
    pub fn forward_into<'a, T: Element>(
        &self,
        x: Sequences<'_>,
        caches: Option<&mut [KvCache<T>]>,
        attention: impl Fn(usize) -> Attention<'a>,
        out: &mut [f32],
        workspace: &mut LayerWorkspace,
    ) -> Result<(), Error> {
        check_elements(OUTPUT, out.len(), &x.shape())?;
        self.run(x, caches, attention, out, (None, None), workspace)
    }

    /// x through one block after another, into y. After an error the caches are as they were.
    fn run<'a, T: Element>(
        &self,
        x: Sequences<'_>,
        mut caches: Option<&mut [KvCache<T>]>,
        attention: impl Fn(usize) -> Attention<'a>,
        y: &mut [f32],
        (mut states, mut weights): (Option<&mut Vec<Tensor<3>>>, Option<&mut Vec<Tensor<4>>>),
        workspace: &mut LayerWorkspace,
    ) -> Result<(), Error> {
        let (shape, first) = (x.shape(), self.blocks.first().map(EncoderBlock::features));
        check_features(shape, features_of(first, self.norm.as_ref(), x))?;
        if let Some(caches) = &caches {
            check_shape("the caches", &[caches.len()], &[self.blocks.len()], "one a block")?;
        }
        y.copy_from_slice(x.data());
        for (layer, block) in self.blocks.iter().enumerate() {
            let attention = attention(layer);
            if let Some(states) = &mut states {
                states.push(state(y, shape)?);
            }
            let weights = weights.as_deref_mut();
            let done = match &mut caches {
                None => block.run(y, shape, Source::Own, &attention, weights, workspace),
                Some(caches) => {
                    let cache = Some(&mut caches[layer]);
                    block.forward_in_place(y, shape, cache, &attention, workspace)
                }
            };
            if let Err(e) = done {
                let [_, n, _] = shape;
                for cache in caches.into_iter().flatten().take(layer) {
                    cache.undo_to(cache.len() - n);
                }
                return Err(e);
            }
        }
        if let Some(states) = states {
            states.push(state(y, shape)?);
        }
        finish(y, self.norm.as_ref())
    }
}

/// A stack of [`DecoderBlock`]s, with a norm after the last where there is one: pre-norm blocks should have it.
///
/// This is the decoder of an encoder–decoder model. A decoder-only model (GPT, Llama) is an [`Encoder`] under a causal mask.
///
/// ```
/// use regard::{Decoder, DecoderAttention, Sequences};
/// let (x, memory) = ([1.0, 2.0], [3.0]);
/// let (x_view, memory) = (Sequences::new("x", &x, [1, 1, 2])?, Sequences::new("x", &memory, [1, 1, 1])?);
/// let y = Decoder::new(vec![], None)?.forward(x_view, memory, &DecoderAttention::default())?;
/// assert_eq!(y, x);
/// # Ok::<(), regard::Error>(())
/// ```
#[doc(alias = "T5")]
#[doc(alias = "TransformerDecoder")]
#[derive(Clone, Debug)]
pub struct Decoder {
    blocks: Vec<DecoderBlock>,
    norm: Option<Norm>,
}

/// What a [`Decoder`] computed: see [`Decoder::forward_with`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DecoderOutput {
    /// \[batch, n_q, features\], after the last norm.
    pub output: Tensor<3>,
    /// What enters each block, and what leaves the last one before the norm: blocks + 1 times \[batch, n_q, features\]. Empty
    /// if the states are not kept.
    pub states: Vec<Tensor<3>>,
    /// The weights of self-attention in each block, \[batch, heads, n_q, n_q\]. Empty if they are not kept.
    pub self_weights: Vec<Tensor<4>>,
    /// The weights of cross-attention in each block, \[batch, heads, n_q, n_k\]. Empty if they are not kept.
    pub cross_weights: Vec<Tensor<4>>,
}

impl Decoder {
    /// A stack of `blocks`, the first one first.
    ///
    /// # Errors
    /// [`Error::Shape`] if the blocks and the norm differ in their features.
    pub fn new(blocks: Vec<DecoderBlock>, norm: Option<Norm>) -> Result<Self, Error> {
        check_stack(blocks.iter().map(DecoderBlock::features), norm.as_ref())?;
        Ok(Self { blocks, norm })
    }

    /// The blocks, the first one first.
    pub fn blocks(&self) -> &[DecoderBlock] {
        &self.blocks
    }

    /// The norm after the last block.
    pub fn norm(&self) -> Option<&Norm> {
        self.norm.as_ref()
    }

    /// y \[batch, n_q, features\] for x of the same shape and the encoder's `memory` \[batch, n_k, memory features\].
    ///
    /// # Errors
    /// As [`DecoderBlock::forward`].
    pub fn forward(
        &self,
        x: Sequences<'_>,
        memory: Sequences<'_>,
        attention: &DecoderAttention<'_>,
    ) -> Result<Tensor<3>, Error> {
        Ok(self.forward_with(x, memory, |_| attention.clone(), Keep::NOTHING)?.output)
    }

    /// As [`forward`](Self::forward), with attentions for each block, `attention(0)` for the first, and with what is to be kept:
    /// states, attention weights. Everything is computed in one pass.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_with<'a>(
        &self,
        x: Sequences<'_>,
        memory: Sequences<'_>,
        attention: impl Fn(usize) -> DecoderAttention<'a>,
        keep: Keep,
    ) -> Result<DecoderOutput, Error> {
        let mut output = Tensor::zeros(OUTPUT, x.shape())?;
        let (mut states, mut self_weights, mut cross_weights) =
            (Vec::new(), Vec::new(), Vec::new());
        let weights = [&mut self_weights, &mut cross_weights];
        let kept = (keep.states.then_some(&mut states), keep.weights.then_some(weights));
        let (sources, workspace) = (Sources::<f32>::Memory(memory), &mut LayerWorkspace::new());
        self.run(x, sources, attention, &mut output, kept, workspace)?;
        Ok(DecoderOutput { output, states, self_weights, cross_weights })
    }

    /// As [`forward_cached`](Self::forward_cached), with attentions for each block, into `out` \[batch, n, features\].
    ///
    /// On one thread, a call with the `workspace` of an earlier call of the same shape, or of a larger one, allocates nothing:
    /// after the first token, decoding takes no memory.
    ///
    /// # Errors
    /// As [`forward_cached`](Self::forward_cached), and [`Error::Elements`] if `out` has another number of elements. The caches
    /// are then as they were.
    pub fn forward_into<'a, T: Element>(
        &self,
        x: Sequences<'_>,
        caches: &mut [DecoderCache<T>],
        attention: impl Fn(usize) -> DecoderAttention<'a>,
        out: &mut [f32],
        workspace: &mut LayerWorkspace,
    ) -> Result<(), Error> {
        check_elements(OUTPUT, out.len(), &x.shape())?;
        check_shape("the caches", &[caches.len()], &[self.blocks.len()], "one a block")?;
        self.run(x, Sources::Cached(caches), attention, out, (None, None), workspace)
    }

    /// x through one block after another, into y. After an error the caches are as they were.
    fn run<'a, T: Element>(
        &self,
        x: Sequences<'_>,
        mut sources: Sources<'_, T>,
        attention: impl Fn(usize) -> DecoderAttention<'a>,
        y: &mut [f32],
        (mut states, mut weights): (Option<&mut Vec<Tensor<3>>>, Option<[&mut Vec<Tensor<4>>; 2]>),
        workspace: &mut LayerWorkspace,
    ) -> Result<(), Error> {
        let (shape, first) = (x.shape(), self.blocks.first().map(DecoderBlock::features));
        check_features(shape, features_of(first, self.norm.as_ref(), x))?;
        y.copy_from_slice(x.data());
        for (layer, block) in self.blocks.iter().enumerate() {
            let attention = attention(layer);
            if let Some(states) = &mut states {
                states.push(state(y, shape)?);
            }
            let weights = weights.as_mut().map(|weights| weights.each_mut().map(|w| &mut **w));
            let done = match &mut sources {
                Sources::Memory(memory) => {
                    let sources = [Source::Own, Source::Memory(*memory)];
                    block.run(y, shape, sources, &attention, weights, workspace)
                }
                Sources::Cached(caches) => {
                    block.forward_in_place(y, shape, &mut caches[layer], &attention, workspace)
                }
            };
            if let Err(e) = done {
                let [_, n, _] = shape;
                if let Sources::Cached(caches) = sources {
                    caches.iter_mut().take(layer).for_each(|c| c.undo_to(c.len() - n));
                }
                return Err(e);
            }
        }
        if let Some(states) = states {
            states.push(state(y, shape)?);
        }
        finish(y, self.norm.as_ref())
    }
}

/// What the keys and values of a decoder are made of, besides the queries' tokens.
enum Sources<'a, T> {
    Memory(Sequences<'a>),
    /// One for each block.
    Cached(&'a mut [DecoderCache<T>]),
}

const OUTPUT: &str = "the output of the stack";

/// A copy of the states between two blocks.
fn state(y: &[f32], shape: [usize; 3]) -> Result<Tensor<3>, Error> {
    let mut state = Tensor::zeros("the states", shape)?;
    state.copy_from_slice(y);
    Ok(state)
}

/// The features of a stack. An empty one takes any.
fn features_of(first: Option<usize>, norm: Option<&Norm>, x: Sequences<'_>) -> usize {
    let [_, _, features] = x.shape();
    first.or_else(|| norm.map(Norm::features)).unwrap_or(features)
}

fn check_stack(blocks: impl Iterator<Item = usize>, norm: Option<&Norm>) -> Result<(), Error> {
    let mut features = norm.map(Norm::features);
    for found in blocks {
        check_shape(
            "a block's features",
            &[found],
            &[*features.get_or_insert(found)],
            "the same in the whole stack",
        )?;
    }
    Ok(())
}

/// The last norm, in place.
fn finish(y: &mut [f32], norm: Option<&Norm>) -> Result<(), Error> {
    norm.map_or(Ok(()), |norm| norm.forward_in_place(y))
}
