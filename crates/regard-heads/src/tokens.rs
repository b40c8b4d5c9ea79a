use std::io::{ErrorKind, Read as _};
use std::path::Path;

use serde_json::Value;

use super::select::TOKENS;
use super::source::TensorFile;
use super::{AttentionShape, Error, Opener};

/// The tokens of the file, each list with the place where it was found.
#[derive(Debug, Default)]
pub(super) struct FoundTokens {
    pub(super) queries: Option<(String, Vec<String>)>,
    pub(super) keys: Option<(String, Vec<String>)>,
}

/// Looks for the tokens of an attention in a file beside the attention file, then in its metadata, then among its tensors. In the
/// metadata, `NAME.tokens`, `NAME.query_tokens` and `NAME.key_tokens` belong to the attention NAME alone. `beside` is the path of
/// the attention file and the function that opens its neighbours, or `None` for a file in memory.
///
/// The tokens of `NAME.npy` are in `NAME.tokens.json`, a list of strings or an object with the lists `query_tokens`
/// and `key_tokens` or `tokens`, or in `NAME.tokens.txt`, with one token a line. A list may have a list for each entry of a batch,
/// of which `entry` is wanted.
pub(super) fn find(
    beside: Option<(&Opener<'_>, &Path)>,
    source: &mut TensorFile,
    attention: &str,
    shape: AttentionShape,
    entry: usize,
) -> Result<FoundTokens, Error> {
    let own = beside.map(|(open, path)| in_own_file(open, path, entry));
    if let Some(found) = own.transpose()?.flatten() {
        return Ok(found);
    }
    let metadata = core::mem::take(&mut source.metadata);
    let in_metadata = FoundTokens::by_name(|name| {
        let find = |name: &str| metadata.iter().find(|(key, _)| key == name);
        let own = find(&format!("{attention}.{name}"));
        let Some((key, text)) = own.or_else(|| find(name)) else { return Ok(None) };
        let place = format!("the metadata, `{key}`");
        let value: Value = serde_json::from_str(text).map_err(|e| Error::tokens(&place, &e))?;
        Ok(Some((place.clone(), list(&place, &value, entry)?)))
    })?;
    if let Some(found) = in_metadata {
        return Ok(found);
    }
    let found = FoundTokens::by_name(|name| strings(source, name, attention, shape, entry))?;
    Ok(found.unwrap_or_default())
}

/// The tokens in a file of their own, beside the attention file.
fn in_own_file(open: &Opener<'_>, path: &Path, entry: usize) -> Result<Option<FoundTokens>, Error> {
    let json = path.with_extension("tokens.json");
    if let Some(text) = read(open, &json)? {
        let place = json.display().to_string();
        let value: Value = serde_json::from_str(&text).map_err(|e| Error::tokens(&place, &e))?;
        return if value.is_array() {
            Ok(Some(FoundTokens::both(&place, list(&place, &value, entry)?)))
        } else {
            let found = FoundTokens::by_name(|name| {
                Ok(value
                    .get(name)
                    .map(|v| list(&place, v, entry))
                    .transpose()?
                    .map(|t| (place.clone(), t)))
            })?;
            found.map(Some).ok_or_else(|| {
                Error::tokens(&place, &"it is neither a list nor an object with `tokens` or `query_tokens` and `key_tokens`")
            })
        };
    }
    let plain = path.with_extension("tokens.txt");
    if let Some(text) = read(open, &plain)? {
        let tokens = text.lines().map(str::to_owned).collect();
        return Ok(Some(FoundTokens::both(&plain.display().to_string(), tokens)));
    }
    Ok(None)
}

impl FoundTokens {
    fn both(place: &str, tokens: Vec<String>) -> Self {
        let found = Some((place.to_owned(), tokens));
        Self { queries: found.clone(), keys: found }
    }

    /// The lists `query_tokens` and `key_tokens` that `get` finds. `tokens` replaces a missing list.
    fn by_name(
        mut get: impl FnMut(&str) -> Result<Option<(String, Vec<String>)>, Error>,
    ) -> Result<Option<Self>, Error> {
        let [tokens, queries, keys] = TOKENS;
        let (queries, keys, both) = (get(queries)?, get(keys)?, get(tokens)?);
        let found = Self { queries: queries.or_else(|| both.clone()), keys: keys.or(both) };
        Ok((found.queries.is_some() || found.keys.is_some()).then_some(found))
    }
}

/// The largest file of tokens, in bytes.
const LARGEST_FILE: u64 = 4 << 20;

/// The text of a file. `None` if there is no such file.
fn read(open: &Opener<'_>, path: &Path) -> Result<Option<String>, Error> {
    let failed = |reason: &dyn ToString| Error::tokens(&path.display().to_string(), reason);
    let mut bytes = Vec::new();
    match open(path).and_then(|file| file.take(LARGEST_FILE + 1).read_to_end(&mut bytes)) {
        Ok(len) if len as u64 > LARGEST_FILE => {
            return Err(failed(&format!("it has more than {LARGEST_FILE} bytes")));
        }
        Ok(_) => {}
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(failed(&e)),
    }
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|e| failed(&format!("it is not UTF-8: {}", e.utf8_error())))
}

fn list(place: &str, value: &Value, entry: usize) -> Result<Vec<String>, Error> {
    let value = value.get(entry).filter(|inner| inner.is_array()).unwrap_or(value);
    let items =
        value.as_array().ok_or_else(|| Error::tokens(place, &"it is not a list of strings"))?;
    let strings = items.iter().enumerate().map(|(i, item)| {
        let text = item.as_str().map(str::to_owned);
        text.ok_or_else(|| {
            Error::tokens(place, &format!("entry {i} of the list is {item}, not a string"))
        })
    });
    strings.collect()
}

/// The strings of a tensor, as `numpy.savez(…, tokens=tokens)` writes it: each has the same number of UTF-32 characters,
/// padded with 0.
fn strings(
    source: &mut TensorFile,
    name: &str,
    attention: &str,
    shape: AttentionShape,
    batch_entry: usize,
) -> Result<Option<(String, Vec<String>)>, Error> {
    /// The maximum number of characters in a token.
    const LONGEST: usize = 1 << 10;
    let Some(entry) = source.entry(name).cloned() else { return Ok(None) };
    let place = format!("the file, `{name}`");
    let width = entry
        .type_name
        .strip_prefix("<U")
        .and_then(|n| n.parse::<usize>().ok())
        .filter(|n| *n <= LONGEST);
    let width = width.ok_or_else(|| {
        Error::tokens(&place, &format!("its type is {}, not a list of strings", entry.type_name))
    })?;
    // The header may claim any number of tokens.
    let [_, of_queries, of_keys] = TOKENS;
    let (axis, needed) = match name {
        _ if name == of_queries => ("queries", shape.queries),
        _ if name == of_keys => ("keys", shape.keys),
        _ => ("queries or keys", shape.queries.max(shape.keys)),
    };
    // Of a list for each entry of a batch, one is read.
    let (skipped, len) = match entry.shape[..] {
        [batch, len] if batch_entry < batch => (batch_entry * len, len),
        _ => (0, entry.len),
    };
    if len > needed {
        return Err(Error::token_count(&place, len, attention, needed, axis));
    }
    let tokens = source.read(&entry, |file| {
        let skipped = (skipped * width * 4) as u64;
        std::io::copy(&mut (&mut *file).take(skipped), &mut std::io::sink())?;
        let mut tokens = Vec::new();
        let mut bytes = vec![0; width * 4];
        for i in 0..if width == 0 { 0 } else { len } {
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
