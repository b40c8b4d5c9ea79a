//! The conversion of text to tokens and back, by a folder's tokenizer.json, by its vocabulary, or by a GGUF file's metadata.

mod bounds;
mod class;
mod gguf;
mod settings;

use core::cell::Cell;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tokenizers::models::ModelWrapper;
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::{EncodeInput, Encoding, InputSequence, NormalizedString, Normalizer as _};

use self::class::Class;
#[doc(hidden)]
pub use self::gguf::pre_tokenizer;
pub(crate) use self::settings::config;
use crate::read::{Beside, Settings};
use crate::{Checkpoint, Error, Input};

/// The most bytes of a tokenizer.json, and the largest factor by which it grows in memory, in addition to 64 MiB. A token of
/// one letter takes 9 bytes in the file, and places in two tables in memory.
const LARGEST: u64 = 64 << 20;
const EXPANSION: u64 = 24;

/// The most bytes of a token. The tree of a Unigram model is as deep, and is freed by recursion.
const LONGEST: usize = 1024;

/// The most bytes that a text may have when the model reads it, in addition to 32 for each of its own bytes.
const NORMALIZED: usize = 1 << 20;

/// A model's tokenizer.
///
/// ```
/// use regard_models::Model;
/// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
/// let model = Model::open(format!("{models}/tiny-bert"))?;
/// let tokenizer = model.tokenizer().unwrap();
/// let input = tokenizer.encode("the cat", None)?;
/// let tokens: Vec<_> = input.ids.iter().filter_map(|id| tokenizer.token(*id)).collect();
/// assert_eq!(tokens, ["[CLS]", "the", "cat", "[SEP]"]);
/// # Ok::<(), regard_models::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Tokenizer {
    tokenizer: tokenizers::Tokenizer,
    path: PathBuf,
    /// The factor by which the tokenizer may lengthen a text.
    growth: f64,
    /// The number of tokens that the model knows.
    vocabulary: usize,
}

impl Tokenizer {
    /// The tokenizer of a checkpoint for a model of `vocabulary` tokens, or `None` if there is none. It may have tokens that the
    /// model lacks, as Gemma 3's has one of images: a text that has them is refused.
    ///
    /// # Errors
    /// An error names the file: if the tokenizer is not valid.
    pub fn of(checkpoint: &Checkpoint, vocabulary: usize) -> Result<Option<Self>, Error> {
        let (path, growth, mut tokenizer) = match checkpoint.settings() {
            Settings::Config(config) => {
                let mut settings = settings::all(checkpoint)?;
                let json = checkpoint.file(Beside::TOKENIZER, LARGEST)?;
                let has_file = json.is_some();
                let most =
                    (16 << 20) + EXPANSION * json.as_ref().map_or(0, |json| json.len() as u64);
                let mut path = checkpoint.path().join(Beside::TOKENIZER.name());
                let (class, mut json) = if let Some(json) = json {
                    let json = parsed(&json, most).map_err(|e| not_read(&path, &e))?;
                    (Class::of(&settings, config, &json), json)
                } else {
                    let class = Class::named(&settings, config);
                    let made = class::vocabulary(checkpoint, class, &settings)?;
                    let Some((file, class, json)) = made else {
                        return of_sentencepiece(checkpoint).map_or(Ok(None), Err);
                    };
                    path = file;
                    (Some(class), json)
                };
                if let Some(class) = class {
                    class.complete(&mut settings);
                    class.apply(&mut json, &settings);
                }
                let not_read = |e: String| not_read(&path, &e);
                let growth = bounds::check(&json, most).map_err(not_read)?;
                let added = settings::added(checkpoint, &settings, &json)?;
                let made = guarded(|| {
                    let mut made: tokenizers::Tokenizer = serde_json::from_value(json)?;
                    made.add_tokens(&added);
                    if let Some(around) =
                        class.and_then(|class| class.around(&settings, has_file, &made))
                    {
                        made.with_post_processor(Some(serde_json::from_value::<
                            PostProcessorWrapper,
                        >(around)?));
                    }
                    Ok(made)
                });
                let made = made.map_err(not_read)?;
                (path, growth, made)
            }
            Settings::Gguf(metadata) => {
                let path = checkpoint.path().to_owned();
                let Some(made) = gguf::tokenizer(metadata, &path)? else {
                    return Ok(None);
                };
                // Each space becomes the three bytes of "▁", and one more is put first.
                (path, 12.0, made)
            }
        };
        tokenizer.with_padding(None);
        Ok(Some(Self { tokenizer, path, growth, vocabulary }))
    }

    /// The tokens of a text or of two texts, with the special tokens that the model was trained with.
    ///
    /// # Errors
    /// Those of the tokenizer.
    pub fn encode(&self, text: &str, pair: Option<&str>) -> Result<Input, Error> {
        let encoding = match pair {
            Some(pair) => self.encoding((text, pair), true)?,
            None => self.encoding(text, true)?,
        };
        let input = Input::tokens(encoding.get_ids());
        // Some tokenizers number the texts although the model has no types for them. A single text needs no numbers.
        Ok(if pair.is_some() { input.types(encoding.get_type_ids()) } else { input })
    }

    /// The tokens of a text that has its special tokens already, such as that of a [`ChatTemplate`](crate::ChatTemplate). No
    /// special tokens are added.
    ///
    /// # Errors
    /// Those of the tokenizer.
    ///
    /// ```
    /// use regard_models::Model;
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = Model::open(format!("{models}/tiny-bert"))?;
    /// let tokenizer = model.tokenizer().unwrap();
    /// assert_eq!(tokenizer.encode_as_is("the cat")?.len() + 2, tokenizer.encode("the cat", None)?.ids.len());
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn encode_as_is(&self, text: &str) -> Result<Vec<u32>, Error> {
        Ok(self.encoding(text, false)?.get_ids().to_vec())
    }

    /// The parts of a text that the model does not know, and reads as its unknown token. A tokenizer of the kind "Unigram" (T5)
    /// does not report them.
    ///
    /// # Errors
    /// Those of the tokenizer.
    ///
    /// ```
    /// use regard_models::Model;
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = Model::open(format!("{models}/tiny-bert"))?;
    /// assert_eq!(model.tokenizer().unwrap().unknown("the 注 cat")?, ["注"]);
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn unknown(&self, text: &str) -> Result<Vec<String>, Error> {
        let token = match self.tokenizer.get_model() {
            ModelWrapper::BPE(model) => model.unk_token.as_deref(),
            ModelWrapper::WordPiece(model) => Some(model.unk_token.as_str()),
            ModelWrapper::WordLevel(model) => Some(model.unk_token.as_str()),
            ModelWrapper::Unigram(_) => None, // it does not report them
        };
        let unknown = token.and_then(|token| self.id(token));
        let Some(unknown) = unknown else { return Ok(Vec::new()) };
        let encoding = self.encoding(text, false)?;
        let parts = encoding.get_ids().iter().zip(encoding.get_offsets());
        let parts = parts.filter(|(id, _)| **id == unknown);
        Ok(parts
            .filter_map(|(_, (start, end))| text.get(*start..*end))
            .map(str::to_owned)
            .collect())
    }

    /// The text of tokens, special tokens included.
    ///
    /// # Errors
    /// Those of the tokenizer.
    ///
    /// ```
    /// use regard_models::Model;
    /// # let models = concat!(env!("CARGO_MANIFEST_DIR"), "/models");
    /// let model = Model::open(format!("{models}/gguf/tiny-llama.Q8_0.gguf"))?;
    /// let tokenizer = model.tokenizer().unwrap();
    /// let ids = tokenizer.encode("tokens look", None)?.ids;
    /// assert_eq!(tokenizer.decode(&ids)?, "tokens look");
    /// # Ok::<(), regard_models::Error>(())
    /// ```
    pub fn decode(&self, ids: &[u32]) -> Result<String, Error> {
        let text = guarded(|| self.tokenizer.decode(ids, false));
        text.map_err(|e| Error::file(&self.path, format!("the tokens are not understood: {e}")))
    }

    /// A token as the tokenizer writes it, such as `Ġthe`.
    pub fn token(&self, id: u32) -> Option<String> {
        self.tokenizer.id_to_token(id)
    }

    /// The id of a token as the tokenizer writes it, if there is such a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.tokenizer.token_to_id(token)
    }

    /// The number of tokens that the tokenizer knows.
    pub fn len(&self) -> usize {
        self.tokenizer.get_vocab_size(true)
    }

    /// Whether the tokenizer knows no token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn encoding<'a>(
        &self,
        text: impl Into<EncodeInput<'a>>,
        special: bool,
    ) -> Result<Encoding, Error> {
        let text = text.into();
        let texts = match &text {
            EncodeInput::Single(text) => [Some(text), None],
            EncodeInput::Dual(text, pair) => [Some(text), Some(pair)],
        };
        let wrong = |e| Error::file(&self.path, format!("the text is not understood: {e}"));
        for text in texts.into_iter().flatten() {
            if let InputSequence::Raw(text) = text {
                self.check_length(text).map_err(wrong)?;
            }
        }
        let encoding = guarded(|| self.tokenizer.encode(text, special)).map_err(wrong)?;
        let lacking = |id: &&u32| **id as usize >= self.vocabulary;
        if let Some(id) = encoding.get_ids().iter().find(lacking) {
            let (token, vocabulary) = (self.token(*id).unwrap_or_default(), self.vocabulary);
            return Err(Error::file(
                &self.path,
                format!(
                    "the text has the token {token:?} of the id {id}, which the model lacks: it knows {vocabulary} tokens"
                ),
            ));
        }
        Ok(encoding)
    }

    /// Refuses a text that becomes more than 32 times as long. The text is normalized in parts that cannot fill the memory.
    fn check_length(&self, text: &str) -> Result<(), String> {
        let part = (NORMALIZED as f64 / self.growth) as usize;
        let Some(normalizer) = self.tokenizer.get_normalizer().filter(|_| text.len() > part) else {
            return Ok(());
        };
        let most = NORMALIZED + 32 * text.len();
        let (mut rest, mut length) = (text, 0);
        while !rest.is_empty() {
            let end = (part.max(1)..rest.len()).find(|at| rest.is_char_boundary(*at));
            let (first, after) = rest.split_at(end.unwrap_or(rest.len()));
            let mut first = NormalizedString::from(first);
            guarded(|| normalizer.normalize(&mut first))?;
            length += first.get().len();
            if length > most {
                return Err(format!("it becomes longer than {most} bytes"));
            }
            rest = after;
        }
        Ok(())
    }

    /// The file that describes the tokenizer.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// The content of a tokenizer.json without truncation and padding, because the model itself limits the length of a text.
fn parsed(json: &[u8], most: u64) -> Result<Value, String> {
    bounds::check_values(json, most)?;
    let mut json: Value = serde_json::from_slice(json).map_err(|e| e.to_string())?;
    if let Some(parts) = json.as_object_mut() {
        parts.retain(|name, _| name != "truncation" && name != "padding");
    }
    Ok(json)
}

/// How the tokenizer of a folder that has one of SentencePiece alone becomes one that is read.
fn of_sentencepiece(checkpoint: &Checkpoint) -> Option<Error> {
    let file = Beside::SENTENCEPIECE.into_iter().find(|file| checkpoint.has(*file))?;
    let folder = checkpoint.path();
    let made = format!("transformers.AutoTokenizer.from_pretrained({:?})", folder.display());
    let how = match file.name() {
        "source.spm" => format!("{made}(TEXT).input_ids are the ids of a text"),
        _ => format!("{made}.save_pretrained({:?}) writes tokenizer.json", folder.display()),
    };
    let what = format!("is a model of SentencePiece, which is not read; {how}");
    Some(Error::file(&folder.join(file.name()), what))
}

fn not_read(path: &Path, what: &str) -> Error {
    Error::file(path, format!("is no tokenizer that can be read: {what}"))
}

std::thread_local! {
    static CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Keeps the process's panic hook from reporting panics that become an [`Error`]. The crate `tokenizers` panics on some files
/// that it has accepted. A program calls this once, when it starts.
///
/// ```
/// regard_models::hide_caught_panics();
/// ```
pub fn hide_caught_panics() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !CAUGHT.get() {
            report(panic);
        }
    }));
}

/// The result of a call of the crate `tokenizers`. It panics, for instance, if the template of a file names a token that the
/// file does not define, or if a table of characters points outside itself. Where panics unwind, this becomes an error.
fn guarded<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, String> {
    // After a panic, the cache of words is valid, or is not used again.
    let outside = CAUGHT.replace(true);
    let returned = catch_unwind(AssertUnwindSafe(call));
    CAUGHT.set(outside);
    match returned {
        Ok(returned) => returned.map_err(|e| e.to_string()),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            Err(format!("the crate `tokenizers` panicked: {}", text.unwrap_or("without a message")))
        }
    }
}
