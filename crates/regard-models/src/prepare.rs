//! What a user gives becomes what a model runs: texts, pairs of texts, chats, ids, images, sound, and the text of a decoder.
//!
//! The command line, the window and the package for Python prepare their inputs here, so that the same words become the same
//! [`Input`] in all three. The input that patches come from is prepared in the same way as the input that they go into: with its
//! pair, its chat template, its decoder's text and its token types.

use std::collections::BTreeSet;

use crate::{
    AudioProcessor, ChatMessage, ChatTemplate, Checkpoint, Description, Error, ImageProcessor,
    Input, Model, Tokenizer,
};

/// What a model is given to read.
#[derive(Clone, Copy, Debug)]
pub enum Given<'a> {
    /// A text.
    Text(&'a str),
    /// The ids of a text's tokens, with the special ones.
    Ids(&'a [u32]),
    /// An image, whose pixels are red, green and blue bytes, row by row.
    Image {
        /// 3 bytes for each pixel.
        pixels: &'a [u8],
        /// The height and the width.
        size: [usize; 2],
    },
    /// A recording.
    Sound {
        /// The samples, between −1 and 1.
        samples: &'a [f32],
        /// The number of samples in a second.
        rate: u32,
    },
    /// The numbers that the model reads: an image \[channels, height, width\], normalized as the model was trained, or a log-mel
    /// spectrogram \[bands, frames\]. A batch of one is read too.
    Numbers {
        /// The shape, the outermost dimension first.
        shape: &'a [usize],
        /// The numbers.
        data: &'a [f32],
    },
}

/// How a model reads what it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadAs {
    /// A second text, for a model that reads two.
    pub pair: Option<String>,
    /// Whether the text is put into the model's chat template, as a message of the user.
    pub chat: bool,
    /// What the decoder of a model with an encoder has written so far; only its first tokens unless given.
    pub decoder: Option<Decoded>,
}

/// What a decoder has written so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A text, without the tokens that begin it.
    Text(String),
    /// The ids of its tokens, with those that begin it.
    Ids(Vec<u32>),
}

/// An input that is ready to run, with the names of its tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prepared {
    /// The input.
    pub input: Input,
    /// The tokens as the tokenizer writes them; the class token and the patches of an image, such as `patch 0,1`; or the times at
    /// which the positions of a recording begin.
    pub tokens: Vec<String>,
    /// The tokens of the decoder of a model that has an encoder too.
    pub decoder_tokens: Vec<String>,
    /// The words of the texts that the model reads as its unknown token, each once.
    pub unknown: Vec<String>,
}

impl Prepared {
    /// The numbers of tokens of both stacks; the second is 0 for a model of one stack.
    pub fn lengths(&self) -> [usize; 2] {
        [self.tokens.len(), self.decoder_tokens.len()]
    }
}

/// Prepares the inputs of a model.
///
/// ```
/// use regard_models::{Checkpoint, Given, Model, Preparer, ReadAs};
/// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
/// let checkpoint = Checkpoint::open(format!("{models}/tiny-bert"))?;
/// let model = Model::load(&checkpoint)?;
/// let preparer = Preparer::of(&checkpoint, model.description());
/// let pair = ReadAs { pair: Some("a dog".into()), ..ReadAs::default() };
/// let prepared = preparer.prepare(&model, Given::Text("the cat"), &pair)?;
/// assert_eq!(prepared.tokens, ["[CLS]", "the", "cat", "[SEP]", "a", "dog", "[SEP]"]);
/// assert_eq!(prepared.input.types, [0, 0, 0, 0, 1, 1, 1]);
///
/// // Patches of its run come from the same pair with another first text.
/// let other = preparer.other(&model, Given::Text("the fox"), &pair, &prepared.input)?;
/// assert_eq!(other.types, prepared.input.types);
/// # Ok::<(), regard_models::Error>(())
/// ```
#[derive(Debug)]
pub struct Preparer {
    /// An error is that of the first input that needs the part.
    chat: Result<Option<ChatTemplate>, Error>,
    image: Result<ImageProcessor, Error>,
    sound: Result<AudioProcessor, Error>,
}

impl Preparer {
    /// Reads the chat template and the settings for images and for sound. A file at fault is reported for the first input that
    /// needs it.
    pub fn of(checkpoint: &Checkpoint, description: &Description) -> Self {
        Self {
            chat: ChatTemplate::of(checkpoint),
            image: ImageProcessor::of(checkpoint, description),
            sound: AudioProcessor::of(checkpoint, description),
        }
    }

    /// The time from one position of a recording to the next, in seconds, if the files say how a recording is read.
    pub fn seconds(&self) -> Option<f64> {
        self.sound.as_ref().ok().map(AudioProcessor::seconds)
    }

    /// The input, with the names of its tokens.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the model does not read what is given, or not in this way; [`Error::Shape`] if numbers have
    /// another shape; and the errors of the tokenizer, of the chat template and of the files beside the model.
    pub fn prepare(
        &self,
        model: &Model,
        given: Given<'_>,
        read_as: &ReadAs,
    ) -> Result<Prepared, Error> {
        let (mut input, unknown) = self.read(model, given, read_as)?;
        input.decoder_ids = decoder(model, read_as.decoder.as_ref())?;
        let tokens = self.names(model, &input);
        let decoder_tokens = model.names(&input.decoder_ids);
        Ok(Prepared { input, tokens, decoder_tokens, unknown })
    }

    /// The input from which changes of the run on `beside` are taken. It is read in the same way: the pair, the chat template and
    /// the decoder's text are those of `beside`, and so are the types of its tokens if ids are given.
    ///
    /// # Errors
    /// As [`prepare`](Self::prepare).
    pub fn other(
        &self,
        model: &Model,
        given: Given<'_>,
        read_as: &ReadAs,
        beside: &Input,
    ) -> Result<Input, Error> {
        let of_text = matches!(given, Given::Text(_));
        // The pair and the template are parts of the ids.
        let read_as = if of_text { read_as } else { &ReadAs::default() };
        let mut input = self.read(model, given, read_as)?.0;
        input.decoder_ids.clone_from(&beside.decoder_ids);
        if !of_text && input.ids.len() == beside.ids.len() {
            input.types.clone_from(&beside.types);
        }
        Ok(input)
    }

    /// The input without the decoder's text, and the unknown words.
    fn read(
        &self,
        model: &Model,
        given: Given<'_>,
        read_as: &ReadAs,
    ) -> Result<(Input, Vec<String>), Error> {
        if !matches!(given, Given::Text(_)) && (read_as.chat || read_as.pair.is_some()) {
            return refuse("a chat template and a second text go with a text, and nothing else");
        }
        let input = match given {
            Given::Text(text) => return self.text(model, text, read_as),
            Given::Ids(ids) => Input::tokens(ids),
            Given::Image { pixels, size } => part(&self.image)?.read(pixels, size)?,
            Given::Sound { samples, rate } => part(&self.sound)?.read(samples, rate)?,
            Given::Numbers { shape, data } => numbers(model.description(), shape, data)?,
        };
        Ok((input, Vec::new()))
    }

    fn text(
        &self,
        model: &Model,
        text: &str,
        read_as: &ReadAs,
    ) -> Result<(Input, Vec<String>), Error> {
        let description = model.description();
        let embedding = &description.embedding;
        if embedding.patches.is_some() {
            return refuse("the model reads an image, not a text");
        }
        if embedding.frames.is_some() {
            return refuse("the model reads a recording, not a text");
        }
        let tokenizer = needed(model, "give ids instead of a text")?;
        let pair = read_as.pair.as_deref();
        if read_as.chat {
            if pair.is_some() {
                return refuse("a chat template takes one text, and no second one");
            }
            let Some(template) = part(&self.chat)? else {
                return refuse("the model has no chat template");
            };
            let message = ChatMessage { role: "user".to_owned(), content: text.to_owned() };
            let ids = tokenizer.encode_as_is(&template.prompt(&[message])?)?;
            return Ok((Input::tokens(ids), Vec::new()));
        }
        if pair.is_some() && (description.stack.causal || description.encoder.is_some()) {
            let family = &description.family;
            return refuse(&format!(
                "the model ({family}) reads one text: a second text is for a model that fills gaps or classifies two texts, as bert does"
            ));
        }
        let mut told = BTreeSet::new();
        let mut unknown = Vec::new();
        for text in [Some(text), pair].into_iter().flatten() {
            let words = tokenizer.unknown(text)?.into_iter();
            unknown.extend(words.filter(|word| told.insert(word.clone())));
        }
        let mut input = tokenizer.encode(text, pair)?;
        if embedding.types < 2 {
            input.types.clear(); // the tokenizer numbers the texts, but the model does not
        }
        Ok((input, unknown))
    }

    /// The names of an input's positions.
    fn names(&self, model: &Model, input: &Input) -> Vec<String> {
        let embedding = &model.description().embedding;
        if let Some(patches) = &embedding.patches {
            return patches.names();
        }
        let Some(frames) = embedding.frames else { return model.names(&input.ids) };
        let name = |i: usize| match self.seconds() {
            Some(seconds) => format!("{:.2} s", i as f64 * seconds),
            None => format!("frame {}", 2 * i), // the first of the position's two frames
        };
        (0..frames.positions()).map(name).collect()
    }
}

impl Model {
    /// A token as the tokenizer writes it, such as `Ġthe`; or its id if the tokenizer does not know it.
    ///
    /// ```
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = regard_models::Model::open(format!("{models}/tiny-bert"))?;
    /// assert_eq!(model.names(&[2, 99_999]), ["[CLS]", "99999"]);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn names(&self, ids: &[u32]) -> Vec<String> {
        ids.iter().map(|id| self.name(*id)).collect()
    }

    /// The name of one token, as [`names`](Self::names) writes it.
    pub fn name(&self, id: u32) -> String {
        let known = self.tokenizer().and_then(|tokenizer| tokenizer.token(id));
        known.unwrap_or_else(|| id.to_string())
    }
}

/// The tokenizer, or the reason why there is none and what to do.
fn needed<'m>(model: &'m Model, instead: &str) -> Result<&'m Tokenizer, Error> {
    model.need_tokenizer().map_err(|e| Error::Unsupported(format!("{e}: {instead}")))
}

/// The ids of what the decoder of a model with an encoder has written.
fn decoder(model: &Model, given: Option<&Decoded>) -> Result<Vec<u32>, Error> {
    let description = model.description();
    if description.encoder.is_none() {
        return match given {
            None => Ok(Vec::new()),
            Some(_) => refuse("the model has no decoder beside an encoder, as t5 and whisper have"),
        };
    }
    if let Some(Decoded::Ids(ids)) = given {
        return Ok(ids.clone());
    }
    let mut ids = description.decoder_start.clone();
    if ids.is_empty() {
        return refuse(
            "the model does not say with which token its decoder begins: give the decoder's ids",
        );
    }
    if let Some(Decoded::Text(text)) = given {
        let tokenizer = needed(model, "give the decoder's ids instead of its text")?;
        ids.extend(tokenizer.encode_as_is(text)?);
    }
    Ok(ids)
}

/// The numbers of an image or of a spectrogram.
fn numbers(description: &Description, shape: &[usize], data: &[f32]) -> Result<Input, Error> {
    let embedding = &description.embedding;
    let (expected, input) = match (embedding.patches, embedding.frames) {
        (Some(patches), _) => {
            (vec![patches.channels, patches.height, patches.width], Input::image(data))
        }
        (None, Some(frames)) => (vec![frames.bands, frames.count], Input::audio(data)),
        (None, None) => return refuse("the model reads tokens, not an image or a recording"),
    };
    let found = match shape {
        [1, one @ ..] if one.len() == expected.len() => one,
        shape => shape,
    };
    if found != expected || data.len() != expected.iter().product::<usize>() {
        let what = format!("the model reads numbers of the shape {expected:?}, not {found:?}");
        return Err(Error::Shape(what));
    }
    Ok(input)
}

fn refuse<T>(what: &str) -> Result<T, Error> {
    Err(Error::Unsupported(what.to_owned()))
}

/// A part that was read with the model, or the error of its file.
fn part<T>(read: &Result<T, Error>) -> Result<&T, Error> {
    read.as_ref().map_err(Error::again)
}
