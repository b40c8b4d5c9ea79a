//! Transformers from the files that people have: Hugging Face folders and GGUF files.
//!
//! - [`Checkpoint`] lists a model's tensors without reading them, and reads each one in the type that the file stores.
//! - [`Model`] runs: a [`Pass`] keeps any place of the forward pass and makes any [`Change`], a [`Reading`] continues to read a
//!   text, and a [`Writing`] continues to write one.
//! - [`Model::embed`] writes a model as a `no_std` crate for a microcontroller.
//! - A [`Preparer`] turns what a user gives into an [`Input`]: text, a chat, an image or sound, by the [`Tokenizer`], the
//!   [`ChatTemplate`], the [`ImageProcessor`] and the [`AudioProcessor`].
//! - [`Each`] lists the changes of a sweep, and a [`MeasuredLogit`] is the logit that they are compared by.
#![forbid(unsafe_code)]

mod audio;
mod change;
mod chat;
mod config;
mod description;
pub mod embed;
mod error;
mod families;
mod forward;
mod image;
mod jinja;
mod memory;
mod model;
#[cfg(feature = "images")]
mod picture;
mod place;
mod prepare;
mod probability;
mod read;
mod reading;
mod study;
mod tensor;
mod tokenizer;
mod towers;
mod weights;
mod write;

pub use self::audio::{AudioProcessor, read_wav};
pub use self::change::{Ablation, Change, HeadAddress, Which};
pub use self::chat::{ChatMessage, ChatTemplate};
pub use self::description::{
    Biases, Block, ClampedGate, ClassPosition, Cubic, Description, Disentangled, EmbeddingSettings,
    Experts, Frames, Frequencies, LearnedPositions, NormKind, NormSettings, OutputHead, Patches,
    Placement, Problem, QkNorm, QueryGrowth, RelativeBias, RotarySettings, Stack,
};
pub use self::error::Error;
pub use self::forward::{Input, Output, Trace, Values};
pub use self::image::ImageProcessor;
pub use self::memory::available_memory;
pub use self::model::{Baseline, Model, Pass};
#[cfg(feature = "images")]
pub use self::picture::read_image;
pub use self::place::{
    AttentionPlace, EmbeddingPlace, FeedForwardPlace, LayerPlace, NormName, NormPlace, Place,
    StackName, StreamPlace,
};
pub use self::prepare::{Decoded, Given, Prepared, Preparer, ReadAs};
pub use self::probability::check_logits;
pub use self::read::{Checkpoint, split_part};
pub use self::reading::{ChangedReading, Reading};
pub use self::study::{
    Attribution, Each, HeadInput, LayerAttribution, Logits, MeasuredLogit, Rounded, Score,
    SweepCell, WhyHidden,
};
pub use self::tensor::{NumberFormat, Tensor};
#[doc(hidden)]
pub use self::tokenizer::pre_tokenizer;
pub use self::tokenizer::{Tokenizer, hide_caught_panics};
pub use self::write::{Sampler, Writing};
pub use regard; // its errors are in [`Error`]
pub use regard::{Activation, Quantization, RotaryScaling};

/// The example of the crate's page.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
