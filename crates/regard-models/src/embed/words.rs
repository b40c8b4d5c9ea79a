//! A tokenizer as the source of one that a board has.

use core::fmt::Write as _;

use tokenizers::models::ModelWrapper;
use tokenizers::{AddedToken, NormalizerWrapper, PreTokenizerWrapper};

use crate::{Model, Tokenizer};

/// The fields of [`regard_embed::Words`](https://docs.rs/regard-embed).
#[derive(Debug)]
struct Words {
    /// In ascending order of the words.
    words: Vec<(String, u32)>,
    unknown: u32,
    /// The longest first.
    special: Vec<(String, u32)>,
    lowercase: bool,
    marks: bool,
    before: Vec<u32>,
    after: Vec<u32>,
}

/// The source of the model's tokenizer with its bytes in flash, or why a board has none that gives the same tokens on every text.
pub(super) fn source(model: &Model) -> Result<(String, usize), String> {
    let tokenizer = model.tokenizer().ok_or("the model has no tokenizer")?;
    let Words { words, unknown, special, lowercase, marks, before, after } = of(tokenizer)?;
    let list = |words: &[(String, u32)]| {
        words.iter().fold(String::new(), |mut text, (word, token)| {
            let _ = writeln!(text, "        ({word:?}, {token}),");
            text
        })
    };
    // A place, a length, a token, and the letters.
    let bytes =
        words.iter().chain(&special).map(|(word, _)| 3 * size_of::<u32>() + word.len()).sum();
    let (words, special) = (list(&words), list(&special));
    let source = format!(
        "\
/// The words that the model knows.
static TOKENIZER: regard_embed::Words<'static> = regard_embed::Words {{
    words: &[
{words}    ],
    unknown: {unknown},
    special: &[
{special}    ],
    lowercase: {lowercase},
    marks: {marks},
    before: &{before:?},
    after: &{after:?},
}};

/// The tokens of a text, as the tokenizer on the desktop gives them.
pub fn tokens(text: &str) -> regard_embed::Tokens<'static, '_> {{
    TOKENIZER.tokens(text)
}}
"
    );
    Ok((source, bytes))
}

fn of(tokenizer: &Tokenizer) -> Result<Words, String> {
    let hugging_face = tokenizer.hugging_face();
    let ModelWrapper::WordLevel(level) = hugging_face.get_model() else {
        return Err(
            "a board has tokenizers of which a token is a word (WordLevel), not this one".into()
        );
    };
    let lowercase = match hugging_face.get_normalizer() {
        None => false,
        Some(NormalizerWrapper::Lowercase(_)) => true,
        Some(_) => return Err("its tokenizer has a normalizer other than Lowercase".into()),
    };
    let marks = match hugging_face.get_pre_tokenizer() {
        Some(PreTokenizerWrapper::BertPreTokenizer(_)) => true,
        Some(PreTokenizerWrapper::WhitespaceSplit(_)) => false,
        _ => {
            let what =
                "its tokenizer splits texts neither by BertPreTokenizer nor by WhitespaceSplit";
            return Err(what.into());
        }
    };
    let mut special = Vec::new();
    for (token, added) in hugging_face.get_added_tokens_decoder() {
        let AddedToken { content, single_word, lstrip, rstrip, normalized, .. } = added;
        if single_word || lstrip || rstrip || normalized {
            let what = "which is not found wherever it stands as it is written";
            return Err(format!("its tokenizer has the added token {content:?}, {what}"));
        }
        special.push((content, token));
    }
    // An order without ties, so that the source is the same each time.
    special.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));

    let vocabulary = hugging_face.get_vocab(false);
    let unknown = vocabulary.get(&level.unk_token);
    let unknown = *unknown.ok_or("its tokenizer has no token for unknown words")?;
    let mut words: Vec<(String, u32)> = vocabulary.into_iter().collect();
    words.sort();
    if let Some((word, _)) = words.iter().find(|(word, _)| lowercase && !word.is_ascii()) {
        return Err(format!(
            "a board makes letters of ASCII small, and the word {word:?} has others"
        ));
    }
    let (before, after) = around(tokenizer, &words)?;
    Ok(Words { words, unknown, special, lowercase, marks, before, after })
}

/// The tokens that every text begins and ends with: those around a word that is one token.
fn around(tokenizer: &Tokenizer, words: &[(String, u32)]) -> Result<(Vec<u32>, Vec<u32>), String> {
    let said = |e: crate::Error| e.to_string();
    for (word, token) in words {
        let with = tokenizer.encode(word, None).map_err(said)?.ids;
        let mut places = (0..with.len()).filter(|i| with[*i] == *token);
        if tokenizer.encode_as_is(word).map_err(said)? == [*token]
            && let (Some(at), None) = (places.next(), places.next())
        {
            return Ok((with[..at].to_vec(), with[at + 1..].to_vec()));
        }
    }
    Err("its tokenizer knows no word, or does not put tokens around a text as it does around a word".into())
}
