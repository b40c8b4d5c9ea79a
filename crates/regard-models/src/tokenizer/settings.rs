//! The settings beside a tokenizer.json that change it, as transformers 5 reads them.
//!
//! `tokenizer_config.json` names tokens that tokenizer.json may lack (`added_tokens_decoder`, `pad_token`,
//! `extra_special_tokens` …). A folder of older versions has them in `added_tokens.json` and `special_tokens_map.json`. The
//! [class](super::class) of the tokenizer decides which other settings count.

use std::collections::HashSet;

use serde_json::{Value, json};
use tokenizers::AddedToken;

use super::{LONGEST, bounds};
use crate::read::{Beside, room};
use crate::{Checkpoint, Error};

/// The most bytes of a tokenizer_config.json: that of Gemma 3 has 1.2 MB.
const LARGEST: u64 = 4 << 20;

/// The most tokens that are added. Each one is compared with all earlier ones.
const MOST: usize = 1 << 14;

/// The keys of the tokens with a meaning, in the order in which they get ids.
const NAMED: [&str; 7] =
    ["bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"];

/// The content of tokenizer_config.json, or `null` without that file.
///
/// # Errors
/// An error names the file: if it is no JSON, or too large.
pub(crate) fn config(checkpoint: &Checkpoint) -> Result<Value, Error> {
    Ok(file(checkpoint, Beside::TOKENIZER_CONFIG, LARGEST)?.unwrap_or_default())
}

/// The settings of a tokenizer: those of tokenizer_config.json, and those of special_tokens_map.json, which an older version wrote.
///
/// # Errors
/// An error names the file: if it is no JSON, or too large.
pub(super) fn all(checkpoint: &Checkpoint) -> Result<Value, Error> {
    let mut settings = config(checkpoint)?;
    if settings["added_tokens_decoder"].is_null()
        && let Some(Value::Object(map)) = file(checkpoint, Beside::SPECIAL_TOKENS_MAP, LARGEST)?
    {
        if settings.is_null() {
            settings = json!({});
        }
        for (key, value) in map {
            settings[key] = value;
        }
    }
    Ok(settings)
}

/// The content of a JSON file of the folder, which may be larger than other settings.
pub(super) fn file(
    checkpoint: &Checkpoint,
    name: Beside,
    largest: u64,
) -> Result<Option<Value>, Error> {
    let Some(json) = checkpoint.file(name, largest)? else { return Ok(None) };
    let path = checkpoint.path().join(name.name());
    let not_read = |e: &dyn core::fmt::Display| Error::file(&path, format!("is no JSON: {e}"));
    bounds::check_values(&json, room(json.len() as u64) / 2).map_err(|e| not_read(&e))?;
    let json: Value = serde_json::from_slice(&json).map_err(|e| not_read(&e))?;
    if json.is_object() { Ok(Some(json)) } else { Err(not_read(&"it holds no object")) }
}

/// The tokens that the files beside tokenizer.json name and it does not add itself, in the order in which they get ids.
///
/// # Errors
/// An error names the file: if it cannot be read, or if it has too many or too long tokens.
pub(super) fn added(
    checkpoint: &Checkpoint,
    settings: &Value,
    tokenizer: &Value,
) -> Result<Vec<AddedToken>, Error> {
    let mut found: Vec<AddedToken> = Vec::new();
    if let Some(tokens) = settings["added_tokens_decoder"].as_object() {
        let mut tokens: Vec<(u32, AddedToken)> = tokens
            .iter()
            .filter_map(|(id, value)| Some((id.parse().ok()?, token(value, false)?)))
            .collect();
        tokens.sort_by_key(|(id, _)| *id);
        found.extend(tokens.into_iter().map(|(_, token)| token));
    } else if let Some(Value::Object(map)) = file(checkpoint, Beside::ADDED_TOKENS, LARGEST)? {
        let special: HashSet<String> =
            named(settings).into_iter().map(|token| token.content).collect();
        let mut tokens: Vec<(u64, String)> =
            map.into_iter().filter_map(|(token, id)| Some((id.as_u64()?, token))).collect();
        tokens.sort_unstable();
        found.extend(tokens.into_iter().map(|(_, token)| {
            let is_special = special.contains(&token);
            AddedToken::from(token, is_special)
        }));
    }
    found.extend(named(settings));
    let own = tokenizer["added_tokens"].as_array().map_or(&[][..], Vec::as_slice);
    let mut known: HashSet<String> =
        own.iter().filter_map(|token| Some(token["content"].as_str()?.to_owned())).collect();
    found.retain(|token| known.insert(token.content.clone()));
    let path = checkpoint.path().join(Beside::TOKENIZER_CONFIG.name());
    if found.len() > MOST {
        let what = format!("adds {} tokens, and {MOST} are the most", found.len());
        return Err(Error::file(&path, what));
    }
    if let Some(token) = found.iter().find(|token| token.content.len() > LONGEST) {
        let bytes = token.content.len();
        let what = format!("adds a token of {bytes} bytes, and {LONGEST} are the most");
        return Err(Error::file(&path, what));
    }
    Ok(found)
}

/// The tokens with a meaning.
fn named(settings: &Value) -> Vec<AddedToken> {
    let special = |value: &Value| token(value, true);
    let mut found: Vec<AddedToken> =
        NAMED.iter().filter_map(|key| special(&settings[*key])).collect();
    // The older name counts if the newer one has nothing.
    let extra = ["extra_special_tokens", "additional_special_tokens"].map(|key| &settings[key]);
    let is_empty = |extra: &Value| match extra {
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => true,
    };
    let extra = if is_empty(extra[0]) { extra[1] } else { extra[0] };
    // Other keys name tokens of a family, such as `image_token`.
    let own = settings.as_object().into_iter().flatten();
    let own = own.filter(|(key, value)| {
        key.ends_with("_token") && value.is_string() && !NAMED.contains(&key.as_str())
    });
    found.extend(own.filter_map(|(_, value)| special(value)));
    match extra {
        Value::Array(list) => found.extend(list.iter().filter_map(special)),
        Value::Object(map) => found.extend(map.values().filter_map(special)),
        _ => {}
    }
    found
}

/// A token from its text or from its settings.
fn token(value: &Value, is_special: bool) -> Option<AddedToken> {
    if let Some(text) = value.as_str() {
        return Some(AddedToken::from(text, is_special)).filter(|token| !token.content.is_empty());
    }
    let flag = |key: &str| value[key].as_bool();
    let is_special = flag("special").unwrap_or(is_special);
    let token = AddedToken::from(value["content"].as_str()?, is_special)
        .single_word(flag("single_word").unwrap_or(false))
        .lstrip(flag("lstrip").unwrap_or(false))
        .rstrip(flag("rstrip").unwrap_or(false))
        .normalized(flag("normalized").unwrap_or(!is_special));
    Some(token).filter(|token| !token.content.is_empty())
}
