//! Writes a model as the source of a `no_std` crate. Its weights and its [`ModelShape`](regard_embed::ModelShape) are constants of
//! `regard-embed`, the runtime that the crate calls.
//!
//! The weights are written in the layout that products read: panels of 16 columns. A microcontroller reads them where they lie
//! in flash.

mod check;
mod fit;
mod float;
mod int8;
mod ranges;
mod source;

use core::fmt;

pub use self::fit::BoardMemory;
pub use self::ranges::{Calibration, Loss, Range};
pub use self::source::WRITTEN;

use crate::{Error, ImageProcessor, Input, Model};

/// The type of the weights in flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stored {
    /// 4 bytes for each weight.
    F32,
    /// 2 bytes for each weight, widened in registers. Weights that are not bfloat16 numbers are rounded to the nearest one.
    Bf16,
    /// A byte for each weight, with a scale for each output. Everything is computed in integers.
    Int8,
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::Int8 => "int8",
        })
    }
}

/// The settings of [`Model::embed`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EmbedOptions {
    /// The crate's name.
    pub name: String,
    /// The type of the weights. Without it, it is [`Stored::Bf16`] if that changes no weight, else [`Stored::F32`].
    pub stored: Option<Stored>,
    /// The most tokens of a text. A model of images reads the tokens of one image.
    pub context: usize,
    /// The conversion of samples to numbers, for a model of images. Without it, the crate reads only numbers.
    pub samples: Option<ImageProcessor>,
    /// The inputs on which [`Stored::Int8`] measures the ranges of its integers, as the model meets them on the board. Without them
    /// it measures images of noise, or texts that the model writes; a model whose input has no known range is refused. Texts count
    /// up to `context`.
    pub inputs: Vec<Input>,
    /// The class of each input, or none: the [`Loss`] then counts those that are right.
    pub labels: Vec<usize>,
    /// Whether the crate has the texts of the tokens, if the model has a tokenizer.
    pub words: bool,
    /// The part that the crate is for.
    pub part: BoardMemory,
}

impl EmbedOptions {
    /// A crate of this name for texts of at most `context` tokens, and for a part of any size.
    pub fn new(name: impl Into<String>, context: usize) -> Self {
        Self {
            name: name.into(),
            stored: None,
            context,
            samples: None,
            inputs: Vec::new(),
            labels: Vec::new(),
            words: true,
            part: BoardMemory::default(),
        }
    }
}

/// A crate that holds a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Embedded {
    /// The files with their paths in the crate's folder.
    pub files: Vec<(&'static str, Vec<u8>)>,
    /// The type of the weights.
    pub stored: Stored,
    /// The most tokens of a text, or the tokens of an image.
    pub context: usize,
    /// The bytes of weights and tables in flash.
    pub flash: usize,
    /// The bytes of the texts of the tokens, which are in flash too if the program uses them.
    pub words: usize,
    /// The bytes of the state in RAM, on the core that needs most of them: a Cortex-M with the DSP extension.
    pub ram: usize,
    /// What was measured for [`Stored::Int8`].
    pub calibration: Option<Calibration>,
}

impl Model {
    /// The files of a `no_std` crate that runs the model without an allocator. A decoder reads one token at a time by
    /// `next(&mut State, token)`, a model of images classifies an image by `classify(&mut State, image)`, and an encoder of texts a text
    /// by `classify_tokens(&mut State, tokens)`.
    ///
    /// The crate's logits have the bits of [`Model::pass`] on machines with fused multiply-add, unless weights are rounded. In
    /// integers, they have the same bits on every machine.
    ///
    /// # Errors
    /// [`Error::Range`] if the crate's name is not valid, [`Error::Unsupported`] if the runtime does not compute a part of the
    /// model, [`Error::Part`] if the model does not fit the part: the message says what would fit.
    ///
    /// ```
    /// use regard_models::{Model, embed};
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = Model::open(format!("{models}/tiny-gpt2"))?;
    /// let mut options = embed::EmbedOptions::new("tiny", 16);
    /// options.part.flash = Some(256 << 10);
    /// let embedded = model.embed(&options)?;
    /// assert!(embedded.files.iter().any(|(path, _)| *path == "src/lib.rs"));
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn embed(&self, options: &EmbedOptions) -> Result<Embedded, Error> {
        let patches = self.description().embedding.patches;
        let context = patches.map_or(options.context, |patches| patches.tokens());
        check::name(&options.name)?;
        check::model(self, context)?;
        let samples = options.samples.as_ref();
        let tensors = float::Tensors::of(self, context, samples)?;
        let stored = options
            .stored
            .unwrap_or_else(|| if tensors.are_bf16() { Stored::Bf16 } else { Stored::F32 });
        fit::check(self, context, &tensors, stored, options)?;
        let (content, calibration) = if stored == Stored::Int8 {
            let ranges = ranges::Ranges::of(self, context, options)?;
            let shelves = int8::Arenas::default();
            let integers = int8::Quantized::of(self, context, &ranges, &shelves)?;
            let shape = fit::shape(self, context);
            let logits = |input: &Input| integers.logits(shape, input);
            let calibration = ranges.report(self, integers.unit(), logits)?;
            (integers.content(samples), Some(calibration))
        } else {
            (tensors.content(stored), None)
        };
        let flash = content.tables.iter().map(|table| table.bytes.len()).sum::<usize>();
        let words = if options.words { fit::word_bytes(self) } else { 0 };
        let ram = fit::state_bytes(self, stored, context);
        let files = source::files(self, content, options, context, [flash, ram]);
        Ok(Embedded { files, stored, context, flash, words, ram, calibration })
    }
}
