//! The forward pass: one function computes a layer of any family, as the description says. Every place of it can be kept or
//! changed.

mod attention;
mod convolution;
mod disentangled;
mod experts;
mod memory;
mod relative;
mod rows;
mod run;

pub(crate) use self::attention::{at_temperature, sinks_at};
pub(crate) use self::disentangled::{PositionScores, sum};
pub(crate) use self::memory::Memory;
pub(crate) use self::rows::Rows;
pub(crate) use self::run::{Caches, Runner, Streams, normed, product};

use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    AttentionPlace, Description, Error, Frames, LayerPlace, NormPlace, Place, StackName,
    StreamPlace,
};

/// The input of a model.
///
/// ```
/// use regard_models::Input;
/// let question = Input::tokens([5, 7, 11]).decoder([0]); // for T5
/// assert_eq!(question.ids, [5, 7, 11]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// The tokens: those of the encoder if the model has one.
    pub ids: Vec<u32>,
    /// For each token, whether it belongs to the first text (0) or to the second (1). Empty if all belong to the first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<u32>,
    /// The tokens of the decoder of a model that has an encoder too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decoder_ids: Vec<u32>,
    /// An image \[channels, height, width\], normalized as the model was trained.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pixels: Vec<f32>,
    /// The log-mel spectrogram \[bands, frames\] of a recording.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<f32>,
}

impl Input {
    /// A text as tokens.
    pub fn tokens(ids: impl Into<Vec<u32>>) -> Self {
        Self { ids: ids.into(), ..Self::default() }
    }

    /// An image \[channels, height, width\].
    pub fn image(pixels: impl Into<Vec<f32>>) -> Self {
        Self { pixels: pixels.into(), ..Self::default() }
    }

    /// A log-mel spectrogram \[bands, frames\].
    pub fn audio(features: impl Into<Vec<f32>>) -> Self {
        Self { features: features.into(), ..Self::default() }
    }

    /// The same input, with the text that the decoder has written so far.
    #[must_use]
    pub fn decoder(mut self, ids: impl Into<Vec<u32>>) -> Self {
        self.decoder_ids = ids.into();
        self
    }

    /// The same input, with the number of the text that each token belongs to.
    #[must_use]
    pub fn types(mut self, types: impl Into<Vec<u32>>) -> Self {
        self.types = types.into();
        self
    }
}

/// Numbers in a shape, row-major.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Values {
    /// The shape, the outermost dimension first.
    pub shape: Vec<usize>,
    /// The numbers.
    pub data: Vec<f32>,
}

impl Values {
    /// The numbers of each run, if there are several runs.
    pub(crate) fn split(mut self, runs: usize) -> Vec<Self> {
        if runs <= 1 {
            return vec![self];
        }
        let len = self.data.len() / runs;
        let shape = self.shape.split_off(1);
        let of_run = |data: &[f32]| Self { shape: shape.clone(), data: data.to_vec() };
        self.data.chunks_exact(len.max(1)).map(of_run).collect()
    }

    /// A row of a matrix, as a matrix of one row; the row has no numbers if there is none.
    ///
    /// ```
    /// let values = regard_models::Values { shape: vec![2, 3], data: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
    /// assert_eq!(values.row(1).data, [4.0, 5.0, 6.0]);
    /// ```
    #[must_use]
    pub fn row(&self, row: usize) -> Self {
        let width = self.shape.last().copied().unwrap_or(0);
        let data = self.data.get(row * width..(row + 1) * width).unwrap_or_default();
        Self { shape: vec![1, width], data: data.to_vec() }
    }

    /// The last row. Of logits \[tokens, vocabulary\] it is the prediction after the last token.
    pub fn last(&self) -> &[f32] {
        let cols = self.shape.last().copied().unwrap_or(0);
        self.data.get(self.data.len().saturating_sub(cols)..).unwrap_or_default()
    }
}

/// The result of a forward pass: the places that are kept, and the logits.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Trace {
    pub(crate) kept: BTreeMap<Place, Values>,
    pub(crate) logits: Option<Values>,
    pub(crate) pooled: Option<Values>,
}

impl Trace {
    /// The numbers at the place of this name, if it was kept. [`Description::places`] tells the names and shapes.
    pub fn get(&self, name: &str) -> Option<&Values> {
        self.at(name.parse().ok()?)
    }

    /// The numbers at a place, if it was kept.
    pub fn at(&self, place: Place) -> Option<&Values> {
        self.kept.get(&place)
    }

    /// Takes the numbers at a place out of the trace, if it was kept.
    pub fn take(&mut self, place: Place) -> Option<Values> {
        self.kept.remove(&place)
    }

    /// Takes the [`logits`](Self::logits) out of the trace.
    pub fn take_logits(&mut self) -> Option<Values> {
        self.logits.take()
    }

    /// The places that were kept, stack by stack and layer by layer.
    pub fn places(&self) -> impl Iterator<Item = Place> {
        self.kept.keys().copied()
    }

    /// \[tokens, vocabulary\], or \[classes\] of a model that classifies images or texts; `None` if the model has no head.
    pub fn logits(&self) -> Option<&Values> {
        self.logits.as_ref()
    }

    /// The vector \[features\] of the whole input, of a model without logits that has one
    /// ([`OutputHead::Pooled`](crate::OutputHead::Pooled)).
    ///
    /// ```
    /// use regard_models::{Input, Model};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let clip = Model::open(format!("{models}/tiny-clip_text_model"))?;
    /// let trace = clip.pass().run(&Input::tokens([7, 8, 9, 1]))?;
    /// assert_eq!(trace.pooled().unwrap().shape, [6]);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn pooled(&self) -> Option<&Values> {
        self.pooled.as_ref()
    }

    /// The tensors that transformers returns with `output_attentions` and `output_hidden_states`, by name, if their places are
    /// kept: [`Description::outputs`] lists the names and shapes.
    pub fn as_transformers(&self, description: &Description) -> BTreeMap<String, Values> {
        let of_output = |output: Output| {
            let values: Option<Vec<&Values>> =
                output.places.iter().map(|place| self.at(*place)).collect();
            let (values, last) = (values.as_deref()?, values.as_deref()?.last()?);
            let layers: &[usize] = if output.is_stacked { &[values.len()] } else { &[] };
            let shape = [layers, &last.shape].concat();
            let mut data = Vec::with_capacity(shape.iter().product());
            for values in values {
                data.extend_from_slice(&values.data);
            }
            Some((output.name, Values { shape, data }))
        };
        let mut outputs: BTreeMap<_, _> =
            description.outputs().into_iter().filter_map(of_output).collect();
        let own = [("logits", &self.logits), ("pooler_output", &self.pooled)];
        let own = own.into_iter().filter_map(|(name, own)| Some((name.to_owned(), own.clone()?)));
        outputs.extend(own);
        outputs
    }
}

/// The function of a hook. It gets the place, the shape of its numbers, and the numbers.
type HookFn<'h> = dyn Fn(Place, &[usize], &mut Vec<f32>) -> Result<(), Error> + Send + Sync + 'h;

/// A function that a pass calls at a place.
#[derive(Clone)]
pub(crate) struct Hook<'h>(pub(crate) Arc<HookFn<'h>>);

impl fmt::Debug for Hook<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// A tensor that transformers returns, and the places of a forward pass of which it consists.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Output {
    /// Transformers' name.
    pub name: String,
    /// The places, in order; none of the logits.
    pub places: Vec<Place>,
    /// Whether the places are stacked along a first dimension, layer by layer.
    pub is_stacked: bool,
}

impl Description {
    /// The places of the residual stream of the stack that the head reads: before each layer, and after the last one. A
    /// [lens](crate::Model::lens) reads any of them.
    ///
    /// ```
    /// use regard_models::{Checkpoint, Description};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let gpt = Description::of(&Checkpoint::open(format!("{models}/tiny-gpt2"))?)?;
    /// let streams = ["blocks.0.hook_resid_pre", "blocks.1.hook_resid_pre", "blocks.1.hook_resid_post"];
    /// let found: Vec<String> = gpt.streams().iter().map(ToString::to_string).collect();
    /// assert_eq!(found, streams);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn streams(&self) -> Vec<Place> {
        let (name, stack) = self.last_stack();
        let layers = stack.layers();
        let last = name.place(layers.saturating_sub(1), stack.layer_output());
        let entering = (0..layers).map(|layer| name.place(layer, StreamPlace::Pre));
        entering.chain([last]).collect()
    }

    /// The tensors that transformers returns with `output_attentions` and `output_hidden_states`: `logits`, `attentions`
    /// \[layers, heads, n, n\], `hidden_states` \[layers + 1, n, width\] (the last entry after the final norm, except for
    /// models of images), `residual_last` (before it) and `last_hidden_state` (after it). For a model with an encoder and a
    /// decoder the names begin with `encoder_` and `decoder_`, and there is `cross_attentions`.
    pub fn outputs(&self) -> Vec<Output> {
        let logits = Output { name: "logits".to_owned(), places: Vec::new(), is_stacked: false };
        let mut outputs = vec![logits];
        for (stack_name, stack) in self.stacks() {
            let layers = stack.layers();
            let each = |place: LayerPlace| -> Vec<Place> {
                (0..layers).map(|layer| stack_name.place(layer, place)).collect()
            };
            let name = |name: &str| match stack_name {
                StackName::Only => name.to_owned(),
                StackName::Encoder | StackName::Decoder => format!("{stack_name}_{name}"),
            };
            let residual = stack_name.place(layers.saturating_sub(1), stack.layer_output());
            let normed = stack.final_norm.map(|_| Place::FinalNorm(stack_name, NormPlace::Out));
            let normed = normed.unwrap_or(residual);
            let last = if stack.hidden_after_norm { normed } else { residual };
            let hidden = [each(StreamPlace::Pre.into()), vec![last]].concat();
            let mut add = |name: String, places: Vec<Place>, is_stacked: bool| {
                outputs.push(Output { name, places, is_stacked });
            };
            add(name("attentions"), each(AttentionPlace::Pattern.into()), true);
            if stack.cross {
                add(
                    "cross_attentions".to_owned(),
                    each(LayerPlace::Cross(AttentionPlace::Pattern)),
                    true,
                );
            }
            add(name("hidden_states"), hidden, true);
            add(name("residual_last"), vec![residual], false);
            add(name("last_hidden_state"), vec![normed], false);
        }
        outputs
    }
}

/// Refuses an input that does not fit a model.
pub(crate) fn check(input: &Input, description: &Description) -> Result<(), Error> {
    let shape = |what: String| Err(Error::Shape(what));
    let unsupported = |what: &str| Err(Error::Unsupported(what.into()));
    let missing = |what: String| Err(Error::Missing(what));
    if let Some(patches) = &description.embedding.patches {
        let expected = patches.channels * patches.height * patches.width;
        if input.pixels.len() != expected || !input.ids.is_empty() {
            let (found, needed) =
                (input.pixels.len(), [patches.channels, patches.height, patches.width]);
            return shape(format!(
                "the model reads an image of {needed:?} numbers, not one of {found}, and no tokens"
            ));
        }
        return Ok(());
    }
    if !input.pixels.is_empty() {
        let reads = if description.embedding.frames.is_some() { "a recording" } else { "tokens" };
        return unsupported(&format!("the model reads {reads}, not an image"));
    }
    if let Some(Frames { bands, count }) = description.embedding.frames {
        let found = input.features.len();
        if found != bands * count || !input.ids.is_empty() {
            return shape(format!(
                "the model reads a spectrogram of {:?} numbers, not one of {found}, and no tokens beside the decoder's",
                [bands, count]
            ));
        }
    } else if !input.features.is_empty() {
        return unsupported("the model reads tokens, not a recording");
    } else if input.ids.is_empty() {
        return shape("there is no token to read".into());
    }
    if description.encoder.is_some() == input.decoder_ids.is_empty() {
        return if input.decoder_ids.is_empty() {
            shape("the decoder needs at least one token".into())
        } else {
            unsupported("the model has no decoder of its own, which could read tokens")
        };
    }
    let vocabulary = description.vocabulary;
    for id in input.ids.iter().chain(&input.decoder_ids) {
        if *id as usize >= vocabulary {
            return missing(format!("the token {id} is not one of the vocabulary's {vocabulary}"));
        }
    }
    let types = description.embedding.types;
    if !input.types.is_empty() && input.types.len() != input.ids.len() {
        let (found, tokens) = (input.types.len(), input.ids.len());
        return shape(format!("there are {found} token types for {tokens} tokens"));
    }
    if let Some(kind) = input.types.iter().find(|kind| **kind as usize >= types.max(1)) {
        return missing(format!("the token type {kind} is not one of the model's {types}"));
    }
    Ok(())
}
