//! Stacks of transformer blocks.

use crate::block::{Keys, copy};
use crate::error::{Error, check_shape};
use crate::{Attention, DecoderBlock, EncoderBlock, Norm, Sequences};

/// A stack of [`EncoderBlock`]s, and a norm behind the last where there is one: after pre-norm blocks there should be.
///
/// Under a causal mask, this is a decoder-only model without its embeddings.
///
/// ```
/// use regard::{Attention, Encoder, Norm, Sequences};
/// let encoder = Encoder::new(vec![], Some(Norm::rms(vec![1.0; 2], 0.0)?))?;
/// let y = encoder.forward(Sequences::new("x", &[7.0, 1.0], [1, 1, 2])?, &Attention::new())?;
/// assert_eq!(y, [1.4, 0.2]);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Encoder {
    blocks: Vec<EncoderBlock>,
    norm: Option<Norm>,
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

    /// The norm behind the last block.
    pub fn norm(&self) -> Option<&Norm> {
        self.norm.as_ref()
    }

    /// y \[batch, tokens, features\] for x of the same shape. `attention` says how the heads of every block attend.
    ///
    /// # Errors
    /// As [`EncoderBlock::forward`].
    pub fn forward(&self, x: Sequences<'_>, attention: &Attention<'_>) -> Result<Vec<f32>, Error> {
        let mut y = self.copy(x)?;
        for block in &self.blocks {
            block.run(&mut y, x.shape(), Keys::Own, attention, false)?;
        }
        finish(y, self.norm.as_ref())
    }

    /// A copy of x, if it has the stack's features.
    pub(crate) fn copy(&self, x: Sequences<'_>) -> Result<Vec<f32>, Error> {
        copy(x, features_of(self.blocks.first().map(EncoderBlock::features), self.norm.as_ref(), x))
    }
}

/// A stack of [`DecoderBlock`]s, and a norm behind the last where there is one: after pre-norm blocks there should be.
///
/// ```
/// use regard::{Attention, Decoder, Sequences};
/// let (x, memory) = ([1.0, 2.0], [3.0]);
/// let (x_view, memory) = (Sequences::new("x", &x, [1, 1, 2])?, Sequences::new("memory", &memory, [1, 1, 1])?);
/// let y = Decoder::new(vec![], None)?.forward(x_view, memory, &Attention::new(), &Attention::new())?;
/// assert_eq!(y, x);
/// # Ok::<(), regard::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    blocks: Vec<DecoderBlock>,
    norm: Option<Norm>,
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

    /// y \[batch, n_q, features\] for x of the same shape and the encoder's `memory` \[batch, n_k, memory features\].
    ///
    /// # Errors
    /// As [`DecoderBlock::forward`].
    pub fn forward(
        &self,
        x: Sequences<'_>,
        memory: Sequences<'_>,
        self_attention: &Attention<'_>,
        cross_attention: &Attention<'_>,
    ) -> Result<Vec<f32>, Error> {
        let mut y = copy(
            x,
            features_of(self.blocks.first().map(DecoderBlock::features), self.norm.as_ref(), x),
        )?;
        for block in &self.blocks {
            block.run(&mut y, x.shape(), memory, self_attention, cross_attention)?;
        }
        finish(y, self.norm.as_ref())
    }
}

/// The features of a stack; an empty one takes any.
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

/// What the last block gave, behind the last norm.
pub(crate) fn finish(mut y: Vec<f32>, norm: Option<&Norm>) -> Result<Vec<f32>, Error> {
    if let Some(norm) = norm {
        norm.forward_in_place(&mut y)?;
    }
    Ok(y)
}
