//! The logit that a sweep measures, as an option gives it.

use anyhow::Result;
use regard_models::{Error, MeasuredLogit, Model, Prepared};
use serde::Serialize;

use super::super::models::input;
use super::super::suggest;

/// A token or a class with its name.
#[derive(Debug, Serialize)]
pub(super) struct Token {
    id: usize,
    token: String,
}

/// The logit that `A` or `A-B` names, at the predicted position.
pub(super) fn parse(text: &str, model: &Model, reading: &Prepared) -> Result<MeasuredLogit> {
    let (plus, minus) = tokens(text, model)?;
    Ok(MeasuredLogit::new(model, &reading.input, plus, minus, None)?)
}

/// The tokens or classes whose logits are measured.
pub(super) fn measured(measure: &MeasuredLogit, model: &Model) -> Vec<Token> {
    let token = |id: usize| Token { id, token: model.output_name(id) };
    [Some(measure.plus), measure.minus].into_iter().flatten().map(token).collect()
}

/// The ids of `A` or `A-B`. A text that can be split at a hyphen into two tokens is split there.
fn tokens(text: &str, model: &Model) -> Result<(usize, Option<usize>)> {
    let mut splits = text.match_indices('-').filter_map(|(at, _)| {
        let (plus, minus) = (&text[..at], &text[at + 1..]);
        Some((token(plus, model).ok()?, Some(token(minus, model).ok()?)))
    });
    if let Some(both) = splits.next() {
        return Ok(both);
    }
    let whole = token(text, model);
    // The error of a part is more precise than that of the whole.
    if let Some((plus, minus)) = text.split_once('-').filter(|_| whole.is_err()) {
        token(plus, model)?;
        token(minus, model)?;
    }
    Ok((whole?, None))
}

/// The id of a token: a number, a token as the tokenizer writes it, or a text of one token. For a model that classifies, a
/// class.
fn token(text: &str, model: &Model) -> Result<usize> {
    if let Ok(id) = text.parse::<usize>() {
        model.check_logit(id)?;
        return Ok(id);
    }
    let labels = &model.description().labels;
    model.logit_named(text).map_err(|error| {
        // Many tokenizers write the space at the beginning of a word as this letter.
        let written =
            text.strip_prefix(' ').map_or_else(|| text.to_owned(), |word| format!("Ġ{word}"));
        let hint = match (&error, model.tokenizer()) {
            (Error::Missing(_), _) if model.description().classifies() => {
                suggest::hint(text, labels)
            }
            (Error::Missing(_), Some(tokenizer)) => {
                suggest::hint(&written, input::tokens(tokenizer))
            }
            _ => String::new(),
        };
        anyhow::anyhow!("{error}{hint}")
    })
}
