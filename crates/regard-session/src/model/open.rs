//! An open model.

use core::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;

use regard_figure::Label;
use regard_models::{ChangedReading, Checkpoint, Error, Model, Preparer, Reading, Stack};
use sha2::{Digest as _, Sha256};

use super::reads::Reads;
use crate::{counted, file_name};

/// A model with its weights, in the memory of the thread or worker that runs it.
pub struct Loaded {
    /// The user's name for it.
    pub name: String,
    /// The model.
    pub model: Model,
    /// The bytes of its weights.
    pub bytes: u64,
    /// The hash of its files.
    pub hash: String,
    /// The hash of its tokens.
    pub tokens: String,
    /// The preparation of what it reads.
    pub preparer: Preparer,
    /// Its last reading of the first text, and of the second. During typing, the next reading continues it.
    pub read: [Mutex<Option<Reading>>; 2],
    /// Its last reading with changes.
    pub read_changed: Mutex<Option<ChangedReading>>,
}

impl Loaded {
    /// Reads the weights of a model.
    ///
    /// # Errors
    /// If a file cannot be read, or if the model has no tokenizer for its texts. The message names the model.
    pub fn load(name: String, checkpoint: &Checkpoint) -> Result<Self, String> {
        let model = Model::load(checkpoint).map_err(|e| not_opened(&name, &e.to_string()))?;
        accepted(&model).map_err(|what| not_opened(&name, &what))?;
        let hash = hash_of_files(checkpoint).map_err(|e| not_opened(&name, &e.to_string()))?;
        let preparer = Preparer::of(checkpoint, model.description());
        let (tokens, bytes) = (hash_of_tokens(&model), checkpoint.bytes());
        let (read, read_changed) = Default::default();
        Ok(Self { name, model, bytes, hash, tokens, preparer, read, read_changed })
    }

    /// Refuses a model B whose heads or tokens differ from those of this one.
    ///
    /// # Errors
    /// If the number of layers or heads differs, or a token does. The error names them.
    pub fn fits(&self, b: &Self) -> Result<(), String> {
        let shape = |model: &Model| -> Vec<String> {
            let words = |(_, stack): &(_, &Stack)| {
                let (layers, heads) = (stack.layers(), stack.block.heads);
                format!("{} of {}", counted(layers, "layer"), counted(heads, "head"))
            };
            model.description().attentions().iter().map(words).collect()
        };
        let [first, second] = [self, b].map(|opened| shape(&opened.model).join(", "));
        if first != second {
            return Err(format!(
                "the models cannot be compared head by head: {} has {first}, and {} has {second}",
                short(&self.name),
                short(&b.name)
            ));
        }
        if self.tokens == b.tokens {
            return Ok(());
        }
        let [first, second] = [self, b].map(|opened| opened.model.description().vocabulary);
        let token =
            |opened: &Self, id: usize| opened.model.tokenizer()?.token(u32::try_from(id).ok()?);
        let differing = (0..first.min(second))
            .filter_map(|id| Some((id, token(self, id)?, token(b, id)?)))
            .find(|(_, first, second)| first != second);
        match differing {
            Some((id, first, second)) => Err(format!(
                "the models have different tokens: token {id} is “{first}” in {} and “{second}” in {}",
                short(&self.name),
                short(&b.name)
            )),
            None => Ok(()), // one of them has more tokens at the end, or fills the end with tokens without a name
        }
    }
}

fn hash_of_files(checkpoint: &Checkpoint) -> Result<String, Error> {
    let mut hash = Sha256::new();
    checkpoint.for_each_part(&mut |part| hash.update(part))?;
    Ok(digits(hash))
}

/// The hash of a model's tokens in the order of their ids.
fn hash_of_tokens(model: &Model) -> String {
    let mut hash = Sha256::new();
    for id in 0..model.description().vocabulary {
        let token = u32::try_from(id).ok().and_then(|id| model.tokenizer()?.token(id));
        hash.update(token.unwrap_or_default());
        hash.update([0]);
    }
    digits(hash)
}

/// A hash in hexadecimal digits.
pub fn digits(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::new(), |mut digits, byte| {
        let _infallible = write!(digits, "{byte:02x}");
        digits
    })
}

/// The last part of a path or of a name.
pub fn short(name: &str) -> String {
    file_name(Path::new(name))
}

/// "gpt2 was not opened: …", without the name twice.
pub fn not_opened(name: &str, what: &str) -> String {
    let what = what.strip_prefix(name).and_then(|what| what.strip_prefix(": ")).unwrap_or(what);
    format!("{name} was not opened: {what}")
}

/// Refuses a model that this room cannot show.
fn accepted(model: &Model) -> Result<(), String> {
    if Reads::of(model.description()) == Reads::Image {
        return Ok(());
    }
    let needs = |e| format!("{e}; this room needs a tokenizer to read a text");
    model.need_tokenizer().map(drop).map_err(needs)
}

/// Refuses two readings of one text with different tokens.
pub fn same_tokens(a: &[Label], b: &[Label]) -> Result<(), String> {
    let differing = a.iter().zip(b).position(|(a, b)| a.raw != b.raw);
    match differing {
        Some(i) => Err(format!(
            "the models divide the text into different tokens: token {i} is “{}” in A and “{}” in B",
            a[i].text, b[i].text
        )),
        None if a.len() != b.len() => Err(format!(
            "the models divide the text into different tokens: A has {}, and B has {}",
            a.len(),
            b.len()
        )),
        None => Ok(()),
    }
}
