//! Bounds for what a tokenizer.json can make of a text. They are computed from the file before the crate `tokenizers` reads it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::LONGEST;

/// The most steps of a normalizer, pre-tokenizer, decoder or post-processor. Each may be a regular expression of 100 KB in memory.
const MOST_STEPS: usize = 256;
/// The most bytes of all regular expressions, and the largest product of the numbers of repetitions in one.
const REGEXES: usize = 8192;
const REPETITIONS: usize = 1000;
/// The largest factor by which the steps before the model may lengthen a text, and the largest one for the steps after it.
const MOST_GROWTH: f64 = 4096.0;
const MOST_DECODED: f64 = 256.0;
/// The most special tokens around a text, and the most repetitions of a text by a template.
const MOST_ADDED: usize = 1024;
const MOST_REPEATS: usize = 16;
/// The bytes of a place in the tree of a Unigram model's tokens: a hash table of one byte.
const NODE: u64 = 320;
/// The bytes of a JSON value in a list that grows: 72, and half of the places once more.
const VALUE: u64 = 108;

/// Refuses a text of JSON whose values take more than `most` bytes of memory.
pub(super) fn check_values(json: &[u8], most: u64) -> Result<(), String> {
    let (mut quoted, mut escaped, mut values) = (false, false, 1_u64);
    for byte in json {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b',' | b'[' | b'{' | b':' if !quoted => values += 1,
            _ => {}
        }
    }
    if values.saturating_mul(VALUE) > most {
        return Err(format!("it has {values} values, which is too many for its length"));
    }
    Ok(())
}

/// Refuses a tokenizer that could fill the memory with a text, or take more than `most` bytes itself. Returns the factor by
/// which it may lengthen a text.
pub(super) fn check(json: &Value, most: u64) -> Result<f64, String> {
    let parts = ["normalizer", "pre_tokenizer", "decoder", "post_processor"];
    for part in parts {
        let (mut steps, mut regexes) = (0, 0);
        count(&json[part], &mut steps, &mut regexes)?;
        let has = format!("its {part} has");
        at_most(MOST_STEPS, &has, steps, "steps")?;
        at_most(REGEXES, &has, regexes, "bytes of regular expressions")?;
    }
    let growth = growth(&json["normalizer"])? * self::growth(&json["pre_tokenizer"])?;
    if growth > MOST_GROWTH {
        return Err(format!("it makes a text up to {growth:.0} times as long"));
    }
    let decoded = self::growth(&json["decoder"])?;
    if decoded > MOST_DECODED {
        return Err(format!("its decoder makes a text up to {decoded:.0} times as long"));
    }
    let (added, repeats) = added(&json["post_processor"])?;
    at_most(MOST_ADDED, "it adds", added, "special tokens")?;
    at_most(MOST_REPEATS, "it repeats a text", repeats, "times")?;
    let tokens = list(&json["added_tokens"]).iter().filter_map(|token| token["content"].as_str());
    for token in tokens.chain(named(&json["model"])) {
        check_length(token)?;
    }
    vocabulary(&json["model"]["vocab"], most)?;
    Ok(growth)
}

/// Refuses more than `most` of something.
fn at_most(most: usize, before: &str, found: usize, after: &str) -> Result<(), String> {
    if found <= most {
        return Ok(());
    }
    Err(format!("{before} {found} {after}, and {most} are the most"))
}

fn check_length(token: &str) -> Result<(), String> {
    at_most(LONGEST, "it has a token of", token.len(), "bytes")
}

/// The texts that a model can repeat, such as its unknown token.
fn named(model: &Value) -> impl Iterator<Item = &str> {
    model.as_object().into_iter().flat_map(|model| model.values()).filter_map(Value::as_str)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Counts steps and the bytes of regular expressions.
fn count(part: &Value, steps: &mut usize, regexes: &mut usize) -> Result<(), String> {
    let parts: Vec<&Value> = match part {
        Value::Array(parts) => parts.iter().collect(),
        Value::Object(parts) => parts.values().collect(),
        _ => return Ok(()),
    };
    *steps += usize::from(part.get("type").is_some());
    if let Some(regex) = part.get("Regex").and_then(Value::as_str) {
        *regexes += regex.len();
        check_repetitions(regex)?;
    }
    parts.into_iter().try_for_each(|part| count(part, steps, regexes))
}

/// Refuses `(a{1000}){1000}`.
fn check_repetitions(regex: &str) -> Result<(), String> {
    let mut product = 1_usize;
    for (at, _) in regex.match_indices('{') {
        let (before, after) = (&regex[..at], &regex[at + 1..]);
        let counts = after.split('}').next().unwrap_or_default().split(',');
        let counts: Result<Vec<usize>, _> =
            counts.filter(|count| !count.is_empty()).map(|count| count.trim().parse()).collect();
        let code = before.ends_with("\\x") || before.ends_with("\\u") || before.ends_with("\\U");
        if let (Ok(counts), false) = (counts, code) {
            product = product.saturating_mul(counts.into_iter().max().unwrap_or(1).max(1));
        }
    }
    at_most(REPETITIONS, "it has a regular expression with", product, "repetitions")
}

/// The factor by which a step, or a sequence of them, may lengthen a text.
fn growth(part: &Value) -> Result<f64, String> {
    let text = |key: &str| part[key].as_str().map_or(0, str::len) as f64;
    Ok(match part["type"].as_str() {
        Some("Sequence") => {
            let mut product = 1.0;
            for key in ["normalizers", "pretokenizers", "decoders"] {
                for step in list(&part[key]) {
                    product *= growth(step)?;
                }
            }
            product
        }
        Some("Replace") => match shortest_match(&part["pattern"]) {
            // A match of no bytes is found before each byte.
            0 => text("content") + 1.0,
            shortest => (text("content") / shortest as f64).max(1.0),
        },
        Some("Prepend") => text("prepend") + 1.0,
        // From Unicode's tables.
        Some("NFC" | "NFD") => 3.0,
        Some("NFKC" | "NFKD") => 11.0,
        Some("BertNormalizer") => 6.0,
        Some("Lowercase") => 1.5,
        Some("ByteLevel" | "WordPiece") => 2.0,
        Some("Metaspace") => 4.0,
        Some("Precompiled") => longest_replacement(part)?,
        _ => 1.0,
    })
}

/// The number of bytes of the shortest text that a pattern matches; 0 if it is not known, as for a pattern that looks around.
fn shortest_match(pattern: &Value) -> usize {
    let text = pattern["String"].as_str().map(str::len);
    let regex = || regex_syntax::parse(pattern["Regex"].as_str()?).ok()?.properties().minimum_len();
    text.or_else(regex).unwrap_or(0)
}

/// The number of bytes of the longest text by which a table of SentencePiece replaces a character. The table is the length of a
/// tree in 4 bytes, the tree, and texts that end with 0.
fn longest_replacement(part: &Value) -> Result<f64, String> {
    let table = part["precompiled_charsmap"].as_str().unwrap_or_default();
    let wrong = || "its table of characters is cut off".to_owned();
    let bytes =
        BASE64_STANDARD.decode(table).map_err(|e| format!("its table of characters: {e}"))?;
    let (length, rest) = bytes.split_first_chunk().ok_or_else(wrong)?;
    let length = u32::from_le_bytes(*length) as usize;
    let texts = rest.get(length..).filter(|_| length > 0).ok_or_else(wrong)?;
    Ok(texts.split(|byte| *byte == 0).map(<[u8]>::len).max().unwrap_or(0).max(1) as f64)
}

/// The number of special tokens that a post-processor adds, and of its repetitions of a text.
fn added(part: &Value) -> Result<(usize, usize), String> {
    let (mut tokens, mut repeats) = (0, 1_usize);
    for processor in list(&part["processors"]) {
        let (more, again) = added(processor)?;
        // A later template repeats what an earlier one added.
        tokens = (tokens + more).saturating_mul(again);
        repeats = repeats.saturating_mul(again);
    }
    for key in ["single", "pair"] {
        let (mut own, mut texts) = (0_usize, 0);
        for piece in list(&part[key]) {
            if piece.get("Sequence").is_some() {
                texts += 1;
                if key == "single" && piece["Sequence"]["id"] == "B" {
                    return Err("its template for one text has a second one".to_owned());
                }
            }
            let Some(token) = piece["SpecialToken"]["id"].as_str() else { continue };
            let token = part["special_tokens"]
                .get(token)
                .ok_or_else(|| format!("its template names {token:?}, which is not defined"))?;
            own += list(&token["ids"]).len().max(1);
            list(&token["tokens"]).iter().filter_map(Value::as_str).try_for_each(check_length)?;
        }
        (tokens, repeats) = (tokens.max(own), repeats.max(texts));
    }
    Ok((tokens, repeats))
}

/// Refuses long tokens, and a Unigram model whose tree of tokens takes more than `most` bytes.
fn vocabulary(vocabulary: &Value, most: u64) -> Result<(), String> {
    if let Some(tokens) = vocabulary.as_object() {
        return tokens.keys().try_for_each(|token| check_length(token));
    }
    let mut tokens: Vec<&[u8]> =
        list(vocabulary).iter().filter_map(|pair| Some(pair[0].as_str()?.as_bytes())).collect();
    tokens.sort_unstable();
    let (mut nodes, mut before) = (0_u64, &b""[..]);
    for token in tokens {
        check_length(str::from_utf8(token).unwrap_or_default())?;
        let shared = token.iter().zip(before).take_while(|(a, b)| a == b).count();
        nodes += (token.len() - shared) as u64;
        before = token;
    }
    if nodes.saturating_mul(NODE) > most {
        return Err(format!(
            "its tokens make a tree of {nodes} places, which is too many for its length"
        ));
    }
    Ok(())
}
