use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value;

use super::Error;
use super::select::TOKENS;
use super::source::Source;

/// Tokens as they were found, and where.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) queries: Option<(String, Vec<String>)>,
    pub(super) keys: Option<(String, Vec<String>)>,
}

/// Looks for the tokens of an attention in a file beside the attention file, then in its metadata, then among its tensors. In
/// the metadata, `NAME.tokens`, `NAME.query_tokens` and `NAME.key_tokens` are those of the attention NAME alone.
///
/// Beside `NAME.npy`, `NAME.tokens.json` is a list of strings, or an object with the lists `query_tokens` and `key_tokens`
/// or `tokens`; `NAME.tokens.txt` has one token a line.
pub(super) fn find(
    path: Option<&Path>,
    source: &mut Source,
    attention: &str,
) -> Result<Found, Error> {
    if let Some(found) = path.map(beside).transpose()?.flatten() {
        return Ok(found);
    }
    let metadata = core::mem::take(&mut source.metadata);
    let in_metadata = Found::by_name(|name| {
        let find = |name: &str| metadata.iter().find(|(key, _)| key == name);
        let own = find(&format!("{attention}.{name}"));
        let Some((key, text)) = own.or_else(|| find(name)) else { return Ok(None) };
        let place = format!("the metadata, `{key}`");
        let value: Value = serde_json::from_str(text).map_err(|e| Error::tokens(&place, &e))?;
        Ok(Some((place.clone(), list(&place, &value)?)))
    })?;
    match in_metadata {
        Some(found) => Ok(found),
        None => Ok(Found::by_name(|name| strings(source, name))?.unwrap_or_default()),
    }
}

/// Tokens in a file of their own.
fn beside(path: &Path) -> Result<Option<Found>, Error> {
    let json = path.with_extension("tokens.json");
    if let Some(text) = read(&json)? {
        let place = json.display().to_string();
        let value: Value = serde_json::from_str(&text).map_err(|e| Error::tokens(&place, &e))?;
        return if value.is_array() {
            Ok(Some(Found::both(&place, list(&place, &value)?)))
        } else {
            let found = Found::by_name(|name| {
                Ok(value
                    .get(name)
                    .map(|v| list(&place, v))
                    .transpose()?
                    .map(|t| (place.clone(), t)))
            })?;
            found.map(Some).ok_or_else(|| {
                Error::tokens(&place, &"neither a list nor an object with `tokens` or `query_tokens` and `key_tokens`")
            })
        };
    }
    let plain = path.with_extension("tokens.txt");
    if let Some(text) = read(&plain)? {
        let tokens = text.lines().map(str::to_owned).collect();
        return Ok(Some(Found::both(&plain.display().to_string(), tokens)));
    }
    Ok(None)
}

impl Found {
    fn both(place: &str, tokens: Vec<String>) -> Self {
        let found = Some((place.to_owned(), tokens));
        Self { queries: found.clone(), keys: found }
    }

    /// `query_tokens` and `key_tokens` as `get` finds them, or `tokens` for those that are not there.
    fn by_name(
        mut get: impl FnMut(&str) -> Result<Option<(String, Vec<String>)>, Error>,
    ) -> Result<Option<Self>, Error> {
        let [tokens, queries, keys] = TOKENS;
        let (queries, keys, both) = (get(queries)?, get(keys)?, get(tokens)?);
        let found = Self { queries: queries.or_else(|| both.clone()), keys: keys.or(both) };
        Ok((found.queries.is_some() || found.keys.is_some()).then_some(found))
    }
}

/// The text of a file, if there is one.
fn read(path: &Path) -> Result<Option<String>, Error> {
    match std::fs::read(path) {
        Ok(bytes) => {
            let text = String::from_utf8(bytes).map_err(|e| {
                Error::tokens(
                    &path.display().to_string(),
                    &format!("not UTF-8: {}", e.utf8_error()),
                )
            })?;
            Ok(Some(text))
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(Error::tokens(&path.display().to_string(), &e)),
    }
}

fn list(place: &str, value: &Value) -> Result<Vec<String>, Error> {
    let items = value.as_array().ok_or_else(|| Error::tokens(place, &"not a list of strings"))?;
    let strings = items.iter().enumerate().map(|(i, item)| {
        let text = item.as_str().map(str::to_owned);
        text.ok_or_else(|| {
            Error::tokens(place, &format!("number {i} of the list is {item}, not a string"))
        })
    });
    strings.collect()
}

/// A tensor of strings, as `numpy.savez(…, tokens=tokens)` writes it: so many UTF-32 characters each, filled up with 0.
fn strings(source: &mut Source, name: &str) -> Result<Option<(String, Vec<String>)>, Error> {
    /// More characters than this in a token are a mistake.
    const LONGEST: usize = 1 << 16;
    let Some(entry) = source.entry(name).cloned() else { return Ok(None) };
    let place = format!("the file, `{name}`");
    let width = entry
        .type_name
        .strip_prefix("<U")
        .and_then(|n| n.parse::<usize>().ok())
        .filter(|n| *n <= LONGEST);
    let width = width.ok_or_else(|| {
        Error::tokens(&place, &format!("{} is no list of strings", entry.type_name))
    })?;
    let tokens = source.read(&entry, |file| {
        // Token by token, because the header may claim any number of them.
        let mut tokens = Vec::new();
        let mut bytes = vec![0; width * 4];
        for i in 0..if width == 0 { 0 } else { entry.len } {
            file.read_exact(&mut bytes)
                .map_err(|e| Error::tokens(&place, &format!("token {i}: {e}")))?;
            let codes = bytes.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b));
            let text: Option<String> = codes.take_while(|c| *c != 0).map(char::from_u32).collect();
            tokens.push(
                text.ok_or_else(|| Error::tokens(&place, &format!("token {i} is not Unicode")))?,
            );
        }
        Ok(tokens)
    })?;
    Ok(Some((place, tokens)))
}
