//! The tokenizer of a GGUF file, written as a tokenizer.json.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};

use crate::Error;
use crate::read::Metadata;

/// What kind of token a token is, in `tokenizer.ggml.token_type`.
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// The regular expressions that split a text before pairs are joined, by `tokenizer.ggml.pre`.
///
/// They are those of llama.cpp (`llama-vocab.cpp`), which are those of the models' own tokenizers.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

/// The tokenizer.json, or `None` if the file has no tokenizer.
pub(super) fn json(metadata: &Metadata, path: &Path) -> Result<Option<Value>, Error> {
    let key = |key: &str| format!("tokenizer.ggml.{key}");
    let Some(model) = metadata.text(&key("model")) else { return Ok(None) };
    let wrong = |what: String| Error::file(path, what);
    let tokens = metadata
        .texts(&key("tokens"))
        .ok_or_else(|| wrong(format!("{} is missing", key("tokens"))))?;
    let types = metadata.numbers(&key("token_type")).unwrap_or_default();
    let kind = |id: usize| types.get(id).copied().unwrap_or(1);
    let vocabulary: BTreeMap<&str, usize> =
        tokens.iter().enumerate().map(|(id, token)| (token.as_str(), id)).collect();
    let added: Vec<Value> = tokens
        .iter()
        .enumerate()
        .filter(|(id, _)| matches!(kind(*id), UNKNOWN | CONTROL | USER_DEFINED))
        .map(|(id, token)| {
            json!({
                "id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": kind(id) != USER_DEFINED,
            })
        })
        .collect();
    let (parts, begins) = match model {
        "gpt2" => {
            let merges = metadata
                .texts(&key("merges"))
                .ok_or_else(|| wrong(format!("{} is missing", key("merges"))))?;
            bytes(metadata.text(&key("pre")).unwrap_or("gpt-2"), &vocabulary, merges, path)?
        }
        "llama" => {
            let scores = metadata
                .floats(&key("scores"))
                .filter(|scores| scores.len() == tokens.len())
                .ok_or_else(|| wrong(format!("{} is not as long as the tokens", key("scores"))))?;
            let space = metadata.flag(&key("add_space_prefix")).unwrap_or(true);
            let unknown = (0..tokens.len()).find(|id| kind(*id) == UNKNOWN);
            (pieces(tokens, &vocabulary, scores, unknown, space), true)
        }
        other => {
            let what = format!("{} is {other:?}; known are \"gpt2\" and \"llama\"", key("model"));
            return Err(wrong(what));
        }
    };
    let special = |flag: &str, id: &str, default: bool| {
        let wanted = metadata.flag(&key(flag)).unwrap_or(default);
        let id =
            metadata.number(&key(id)).filter(|_| wanted).and_then(|id| usize::try_from(id).ok());
        let id = id?;
        Some((id, tokens.get(id)?))
    };
    let first = special("add_bos_token", "bos_token_id", begins);
    let last = special("add_eos_token", "eos_token_id", false);
    let mut json = parts;
    json["version"] = json!("1.0");
    json["added_tokens"] = json!(added);
    json["post_processor"] = template(first, last);
    Ok(Some(json))
}

/// Special tokens around each text.
fn template(first: Option<(usize, &String)>, last: Option<(usize, &String)>) -> Value {
    if first.is_none() && last.is_none() {
        return Value::Null;
    }
    let token = |(_, token): (usize, &String), text: usize| json!({"SpecialToken": {"id": token, "type_id": text}});
    let around = |name: &str, text: usize| {
        let sequence = json!({"Sequence": {"id": name, "type_id": text}});
        let first = first.map(|first| token(first, text));
        let last = last.map(|last| token(last, text));
        first.into_iter().chain([sequence]).chain(last).collect::<Vec<_>>()
    };
    let tokens: serde_json::Map<String, Value> = [first, last]
        .into_iter()
        .flatten()
        .map(|(id, token)| (token.clone(), json!({"id": token, "ids": [id], "tokens": [token]})))
        .collect();
    let pair = [around("A", 0), around("B", 1)].concat();
    json!({
        "type": "TemplateProcessing",
        "single": around("A", 0),
        "pair": pair,
        "special_tokens": tokens,
    })
}

/// Byte-level BPE, and whether texts begin with a special token unless the file says otherwise.
fn bytes(
    pre: &str,
    vocabulary: &BTreeMap<&str, usize>,
    merges: &[String],
    path: &Path,
) -> Result<(Value, bool), Error> {
    let split = |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
    let level = |regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex});
    let both = |first: Value, regex: bool| json!({"type": "Sequence", "pretokenizers": [first, level(regex)]});
    let llama3 = matches!(pre, "llama-bpe" | "llama3" | "llama-v3");
    let (normalizer, pre_tokenizer) = match pre {
        "gpt-2" | "gpt2" | "mpt" | "olmo" | "jais" | "phi-2" => (Value::Null, level(true)),
        "smollm" => (Value::Null, both(json!({"type": "Digits", "individual_digits": true}), true)),
        "qwen2" => (json!({"type": "NFC"}), both(split(QWEN2), false)),
        _ if llama3 => (Value::Null, both(split(LLAMA3), false)),
        _ => {
            let known = "gpt-2, mpt, olmo, jais, phi-2, smollm, qwen2 and llama-bpe";
            let what =
                format!("tokenizer.ggml.pre is {pre:?}, which is not known; known are {known}");
            return Err(Error::file(path, what));
        }
    };
    let merges: Vec<(&str, &str)> =
        merges.iter().filter_map(|merge| merge.split_once(' ')).collect();
    let model = json!({
        "type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
        "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": llama3,
        "vocab": vocabulary, "merges": merges,
    });
    let decoder = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    let json = json!({"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "decoder": decoder, "model": model});
    Ok((json, llama3))
}

/// SentencePiece's BPE: of all pairs of neighbours that make a token, the one whose token has the largest score is joined first.
///
/// As ranks of pairs that is: all ways to split each token in two tokens, sorted by the token's score.
fn pieces(
    tokens: &[String],
    vocabulary: &BTreeMap<&str, usize>,
    scores: &[f32],
    unknown: Option<usize>,
    space: bool,
) -> Value {
    let mut merges: Vec<(f32, usize, usize, &str, &str)> = Vec::new();
    for (token, score) in tokens.iter().zip(scores) {
        let splits = token.char_indices().skip(1).map(|(at, _)| token.split_at(at));
        merges.extend(splits.filter_map(|(left, right)| {
            Some((*score, *vocabulary.get(left)?, *vocabulary.get(right)?, left, right))
        }));
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2))));
    let merges: Vec<(&str, &str)> =
        merges.into_iter().map(|(.., left, right)| (left, right)).collect();
    let to_spaces = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let mut decoders = vec![to_spaces, json!({"type": "ByteFallback"}), json!({"type": "Fuse"})];
    let mut normalizers = vec![replace];
    if space {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    let unknown = unknown.and_then(|id| tokens.get(id));
    json!({
        "normalizer": {"type": "Sequence", "normalizers": normalizers},
        "pre_tokenizer": null,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true, "ignore_merges": false,
            "vocab": vocabulary, "merges": merges,
        },
    })
}
