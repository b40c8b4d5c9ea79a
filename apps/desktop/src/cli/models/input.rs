//! The input of a model: text, ids, an image or a recording.

use std::path::PathBuf;

use anyhow::Result;
use clap::ArgGroup;
use regard_models::{Checkpoint, Decoded, Given, Model, Prepared, Preparer, ReadAs, Tokenizer};

use super::super::suggest;
use super::numbers;
use crate::failure::{BadInput as _, Failure};
use crate::say::tell;

/// The input of a model, as options.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(group(ArgGroup::new("input").required(true).args(["text", "ids", "image", "audio"])))]
pub(crate) struct Args {
    /// The text
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    text: Option<String>,

    /// The ids of the tokens instead of a text, such as 1,2,3
    #[arg(long, value_name = "IDS", value_delimiter = ',')]
    ids: Option<Vec<u32>>,

    /// An image instead of a text, for a model of images: PNG, JPEG, or safetensors with the normalized `pixel_values`
    #[arg(long, value_name = "FILE")]
    image: Option<PathBuf>,

    /// A recording instead of a text, for a model of sound: WAV, or safetensors with the log-mel spectrogram `input_features`
    #[arg(long, value_name = "FILE")]
    audio: Option<PathBuf>,

    /// A second text, for a model that reads two (bert)
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["ids", "image", "audio"], allow_hyphen_values = true)]
    text_pair: Option<String>,

    /// The text that the decoder has written so far, for a model with an encoder and a decoder (t5, whisper)
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    decoder_text: Option<String>,

    /// The ids of that text, with those that begin it (0 in t5)
    #[arg(long, value_name = "IDS", value_delimiter = ',', conflicts_with = "decoder_text")]
    decoder_ids: Option<Vec<u32>>,

    /// Put the text into the model's chat template, as a message of the user
    #[arg(long, conflicts_with_all = ["ids", "image", "audio", "text_pair"])]
    chat: bool,
}

impl Args {
    pub(crate) fn read(&self, checkpoint: &Checkpoint, model: &Model) -> Result<Prepared, Failure> {
        let prepared = self.prepared(checkpoint, model).bad_input()?;
        tell_unknown(&prepared.unknown, model);
        Ok(prepared)
    }

    fn prepared(&self, checkpoint: &Checkpoint, model: &Model) -> Result<Prepared> {
        let preparer = Preparer::of(checkpoint, model.description());
        let prepare = |given: Given<'_>| preparer.prepare(model, given, &self.read_as());
        Ok(match (&self.image, &self.audio, &self.ids) {
            (Some(path), ..) => numbers::image(path, prepare)?,
            (None, Some(path), _) => numbers::audio(path, prepare)?,
            (None, None, Some(ids)) => prepare(Given::Ids(ids))?,
            (None, None, None) => prepare(Given::Text(self.text.as_deref().unwrap_or_default()))?,
        })
    }

    /// How a text of these options, or another text beside it, is read.
    pub(super) fn read_as(&self) -> ReadAs {
        let decoder = match (&self.decoder_text, &self.decoder_ids) {
            (_, Some(ids)) => Some(Decoded::Ids(ids.clone())),
            (Some(text), None) => Some(Decoded::Text(text.clone())),
            (None, None) => None,
        };
        ReadAs { pair: self.text_pair.clone(), chat: self.chat, decoder }
    }
}

/// Prints the words that the model does not know, at most ten.
fn tell_unknown(unknown: &[String], model: &Model) {
    const MOST: usize = 10;
    if unknown.is_empty() {
        return;
    }
    let known: Vec<String> = model.tokenizer().into_iter().flat_map(tokens).collect();
    for word in unknown.iter().take(MOST) {
        let hint = suggest::hint(word, &known);
        tell(format_args!("note: the model does not know {word:?}{hint}"));
    }
    if let Some(more) = unknown.len().checked_sub(MOST).filter(|more| *more > 0) {
        tell(format_args!("note: and it does not know {more} more"));
    }
}

/// All tokens, as the tokenizer writes them.
pub(crate) fn tokens(tokenizer: &Tokenizer) -> impl Iterator<Item = String> {
    (0..tokenizer.len()).filter_map(|id| tokenizer.token(u32::try_from(id).ok()?))
}
