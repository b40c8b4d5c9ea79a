//! The logit that a sweep measures, as an option gives it.

use anyhow::{Context as _, Result, bail, ensure};
use regard_models::{Error, Model, Values, check_logits};
use serde::Serialize;

use super::super::models::input::{self, Reading, name, predicted};
use super::super::suggest;

/// A logit, or the difference of two.
pub(super) struct Measure {
    pub(super) plus: usize,
    pub(super) minus: Option<usize>,
    /// The row of the logits: 0 if only the predicted position has logits.
    pub(super) row: usize,
    /// The position that is predicted, or at which the logits of classes are read.
    pub(super) position: usize,
}

/// A token or a class with its name.
#[derive(Debug, Serialize)]
pub(super) struct Token {
    id: usize,
    token: String,
}

impl Measure {
    /// The logit that `A` or `A-B` names, at the predicted position.
    pub(super) fn parse(text: &str, model: &Model, reading: &Reading) -> Result<Self> {
        let position = predicted(model, reading)?;
        let (plus, minus) = tokens(text, model)?;
        let writes = model.description().stack.causal;
        let row = position.filter(|_| !writes).unwrap_or(0);
        let read = || model.description().class_position(&reading.input);
        Ok(Self { plus, minus, row, position: position.unwrap_or_else(read) })
    }

    pub(super) fn of(&self, logits: &Values) -> Result<f32, Error> {
        let width = logits.shape.last().copied().unwrap_or(0);
        let row = logits.data.get(self.row * width..(self.row + 1) * width).unwrap_or_default();
        check_logits(row)?;
        let logit = |id: usize| row.get(id).copied().unwrap_or(f32::NAN);
        Ok(logit(self.plus) - self.minus.map_or(0.0, logit))
    }

    pub(super) fn tokens(&self, model: &Model) -> Vec<Token> {
        let token = |id: usize| {
            let known = model.description().labels.get(id).cloned();
            let token = known.unwrap_or_else(|| name(u32::try_from(id).unwrap_or(u32::MAX), model));
            Token { id, token }
        };
        [Some(self.plus), self.minus].into_iter().flatten().map(token).collect()
    }
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
    let description = model.description();
    let classifier = description.classifies();
    if let Ok(id) = text.parse::<usize>() {
        let known = description.vocabulary;
        ensure!(
            classifier || known == 0 || id < known,
            "the token {id} is not one of the vocabulary's {known}"
        );
        let classes = model.outputs();
        ensure!(!classifier || id < classes, "the model has {classes} classes, and none is {id}");
        return Ok(id);
    }
    if classifier {
        let place = description.labels.iter().position(|label| label == text);
        let missing = || {
            let hint = suggest::hint(text, &description.labels);
            format!("the model has no class {text:?}{hint}")
        };
        return place.with_context(missing);
    }
    let tokenizer = input::tokenizer(model, "--logit")?;
    if let Some(id) = tokenizer.id(text) {
        return Ok(id as usize);
    }
    // Many tokenizers write the space at the beginning of a word as this letter.
    let written = text.strip_prefix(' ').map_or_else(|| text.to_owned(), |word| format!("Ġ{word}"));
    let hint = || suggest::hint(&written, input::tokens(tokenizer));
    if tokenizer.unknown(text)?.iter().any(|part| part == text) {
        bail!("the model does not know {text:?}{}", hint());
    }
    match tokenizer.encode_as_is(text)?.as_slice() {
        [id] => Ok(*id as usize),
        ids => bail!("{text:?} is {} tokens, and not one{}", ids.len(), hint()),
    }
}
