//! The input of a model: text, ids, an image or a recording.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::ArgGroup;
use regard_models::{
    AudioProcessor, ChatTemplate, Checkpoint, Description, Frames, Input, Message, Model, Tokenizer,
};

use super::super::failure::{BadInput as _, Failure};
use super::super::suggest;
use super::numbers;
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

/// The input of the model, with the names of its tokens or patches.
pub(crate) struct Reading {
    pub(crate) input: Input,
    pub(crate) tokens: Vec<String>,
    /// The tokens of the decoder, if there is one.
    pub(crate) decoder_tokens: Vec<String>,
}

impl Reading {
    /// The numbers of tokens of both stacks.
    pub(crate) fn lengths(&self) -> [usize; 2] {
        [self.tokens.len(), self.decoder_tokens.len()]
    }
}

impl Args {
    pub(crate) fn read(&self, checkpoint: &Checkpoint, model: &Model) -> Result<Reading, Failure> {
        self.input(checkpoint, model).bad_input()
    }

    fn input(&self, checkpoint: &Checkpoint, model: &Model) -> Result<Reading> {
        let description = model.description();
        let mut input = if let Some(path) = &self.image {
            numbers::image(path, checkpoint, description)?
        } else if let Some(path) = &self.audio {
            numbers::audio(path, checkpoint, description)?
        } else if let Some(ids) = &self.ids {
            Input::tokens(ids.clone())
        } else {
            let embedding = &description.embedding;
            let reads_image = embedding.patches.is_some();
            ensure!(!reads_image, "the model reads an image (--image FILE), not a text");
            let reads_sound = embedding.frames.is_some();
            ensure!(!reads_sound, "the model reads a recording (--audio FILE), not a text");
            let text = self.text.as_deref().unwrap_or_default();
            self.of_text(text, checkpoint, model)?
        };
        input.decoder_ids = self.decoder(model)?;
        let tokens = match (&description.embedding.patches, description.embedding.frames) {
            (Some(_), _) => patches(description),
            (None, Some(frames)) => {
                times(frames, AudioProcessor::of(checkpoint, description).ok().as_ref())
            }
            (None, None) => names(&input.ids, model),
        };
        let decoder_tokens = names(&input.decoder_ids, model);
        Ok(Reading { input, tokens, decoder_tokens })
    }

    /// The input of another text. It is read in the same way as the text of these options.
    pub(super) fn of_text(
        &self,
        text: &str,
        checkpoint: &Checkpoint,
        model: &Model,
    ) -> Result<Input> {
        let tokenizer = tokenizer(model, "--ids")?;
        if self.chat {
            let template =
                ChatTemplate::of(checkpoint)?.context("the model has no chat template")?;
            let message = Message { role: "user".to_owned(), content: text.to_owned() };
            return Ok(Input::tokens(tokenizer.encode_as_is(&template.prompt(&[message])?)?));
        }
        let description = model.description();
        ensure!(
            self.text_pair.is_none() || !description.stack.causal && description.encoder.is_none(),
            "the model ({}) reads one text: --text-pair is for a model that fills gaps or classifies two texts, as bert does",
            description.family
        );
        tell_unknown(text, tokenizer)?;
        let mut input = tokenizer.encode(text, self.text_pair.as_deref())?;
        if description.embedding.types < 2 {
            input.types.clear(); // the tokenizer numbers the texts, but the model does not
        }
        Ok(input)
    }

    /// The tokens that the decoder of a model with an encoder has read.
    fn decoder(&self, model: &Model) -> Result<Vec<u32>> {
        let given = self.decoder_text.is_some() || self.decoder_ids.is_some();
        if model.description().encoder.is_none() {
            ensure!(
                !given,
                "the model has no decoder beside an encoder: --decoder-text and --decoder-ids are for t5 and whisper"
            );
            return Ok(Vec::new());
        }
        if let Some(ids) = &self.decoder_ids {
            return Ok(ids.clone());
        }
        let mut ids = model.description().decoder_start.clone();
        ensure!(!ids.is_empty(), "the model does not say with which token the decoder begins");
        if let Some(text) = &self.decoder_text {
            ids.extend(tokenizer(model, "--decoder-ids")?.encode_as_is(text)?);
        }
        Ok(ids)
    }
}

/// Prints the words that the model does not know, each once, at most ten.
fn tell_unknown(text: &str, tokenizer: &Tokenizer) -> Result<()> {
    const MOST: usize = 10;
    let mut told = BTreeSet::new();
    let mut unknown = tokenizer.unknown(text)?;
    unknown.retain(|word| told.insert(word.clone()));
    if unknown.is_empty() {
        return Ok(());
    }
    let known: Vec<String> = tokens(tokenizer).collect();
    for word in unknown.iter().take(MOST) {
        let hint = suggest::hint(word, &known);
        tell(format_args!("note: the model does not know {word:?}{hint}"));
    }
    if let Some(more) = unknown.len().checked_sub(MOST).filter(|more| *more > 0) {
        tell(format_args!("note: and it does not know {more} more"));
    }
    Ok(())
}

/// All tokens, as the tokenizer writes them.
pub(crate) fn tokens(tokenizer: &Tokenizer) -> impl Iterator<Item = String> {
    (0..tokenizer.len()).filter_map(|id| tokenizer.token(u32::try_from(id).ok()?))
}

/// The model's tokenizer. If it has none, the error names the option to use instead of a text.
pub(crate) fn tokenizer<'m>(model: &'m Model, instead: &str) -> Result<&'m Tokenizer> {
    model.tokenizer().with_context(|| format!("the model has no tokenizer; {instead} takes ids"))
}

/// Tokens as the tokenizer writes them, or their ids.
pub(crate) fn names(ids: &[u32], model: &Model) -> Vec<String> {
    ids.iter().map(|id| name(*id, model)).collect()
}

/// A token as the tokenizer writes it, or its id.
pub(crate) fn name(id: u32, model: &Model) -> String {
    model.tokenizer().and_then(|tokenizer| tokenizer.token(id)).unwrap_or_else(|| id.to_string())
}

/// The class token, and the patches by their row and column.
fn patches(description: &Description) -> Vec<String> {
    let Some(patches) = &description.embedding.patches else { return Vec::new() };
    let [rows, cols] = patches.grid();
    let patches = (0..rows).flat_map(|i| (0..cols).map(move |j| format!("patch {i},{j}")));
    core::iter::once("[CLS]".to_owned()).chain(patches).collect()
}

/// The times at which the positions of a recording begin; without them, the first of each position's two frames.
fn times(frames: Frames, processor: Option<&AudioProcessor>) -> Vec<String> {
    let name = |i: usize| match processor {
        Some(processor) => format!("{:.2} s", i as f64 * processor.seconds()),
        None => format!("frame {}", 2 * i),
    };
    (0..frames.positions()).map(name).collect()
}

/// The position whose logits a prediction reads: the last one for a model that writes, and the mask for one that fills gaps.
/// `None` for a model that classifies images or texts.
pub(crate) fn predicted(model: &Model, reading: &Reading) -> Result<Option<usize>> {
    let description = model.description();
    if description.classifies() {
        return Ok(None);
    }
    if description.stack.causal {
        let [tokens, decoder_tokens] = reading.lengths();
        let last = if description.encoder.is_some() { decoder_tokens } else { tokens };
        return Ok(Some(last.saturating_sub(1)));
    }
    let mask = ["[MASK]", "<mask>"].into_iter().find_map(|mask| model.tokenizer()?.id(mask));
    let mask = mask.ok_or_else(|| anyhow!("the model does not write, and it has no mask token"))?;
    let name = name(mask, model);
    let mut places = (0..).zip(&reading.input.ids).filter(|(_, id)| **id == mask).map(|(i, _)| i);
    match (places.next(), places.next()) {
        (Some(place), None) => Ok(Some(place)),
        (None, _) => bail!("the model fills gaps: put {name} where it is to predict a token"),
        (Some(_), Some(_)) => {
            bail!("the text has several {name}: one token is predicted at a time")
        }
    }
}
