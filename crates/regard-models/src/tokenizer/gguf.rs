//! The tokenizer of a GGUF file.
//!
//! The small parts (normalizer, pre-tokenizer, decoder, post-processor) are written as in a tokenizer.json. The vocabulary and
//! its pairs, tens of thousands of texts, are passed directly, because as JSON they would take several times the time and the
//! memory.

use std::collections::HashMap;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tokenizers::AddedToken;
use tokenizers::models::bpe::{BPE, Merges, Vocab};

use super::class::{Piece, template};
use super::{bounds, guarded};
use crate::Error;
use crate::read::Metadata;

/// The kinds of tokens in `tokenizer.ggml.token_type`.
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;

/// The most bytes of a token. Finding the pairs of a token of n bytes takes n² steps.
const LONGEST: usize = 512;

/// The regular expressions that split a text before pairs are joined, by `tokenizer.ggml.pre`.
///
/// They are those of llama.cpp (`llama-vocab.cpp`), which are those of the models' own tokenizers.
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
pub(super) const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const SEED_CODER: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+";
/// DeepSeek's models of code split by one expression after another.
const DEEPSEEK_CODER: [&str; 5] =
    [r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", r"[一-龥ࠀ-一가-퟿]+", r"\p{N}"];
const DEEPSEEK_V3: [&str; 3] = [
    r"\p{N}{1,3}",
    r"[一-龥぀-ゟ゠-ヿ]+",
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##,
];
/// Letters that have a case, as of an older Unicode.
const DEEPSEEK_LLM: [&str; 5] = [
    r"[\r\n]",
    r"\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+",
    r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+",
    r"\s+$",
    r"[一-龥ࠀ-一가-퟿]+",
];
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const BAILING: &str = r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+";
const BLOOM: &str = r" ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+";
/// Digits in groups of three, counted from the last one.
const TINY_AYA: [&str; 2] = [r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O];
const AFMOE: [&str; 3] = [
    r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))",
    r"[\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{F900}-\x{FAFF}\x{3040}-\x{30FF}\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{E00}-\x{EFF}\x{1780}-\x{17FF}\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+",
    DEEPSEEK_V3[2],
];
const SUPERBPE: [&str; 2] = [r"\p{N}+", r"(?=(\d{3})+(?!\d))"];
const CHAMELEON: [&str; 6] = [
    r"<sentinel:[0-9]+>",
    r"(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
    r"([\t\n]|    |  )",
    r"\p{N}",
    r"[\p{P}!-/:-@\[-`{-~]",
    DEFAULT[1],
];
/// What llama.cpp takes for files that name none, or one that it does not know.
const DEFAULT: [&str; 4] = [
    r"[\p{P}\$\+<=>\^~\|]+",
    r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
    r"\p{N}+",
    r"[0-9][0-9][0-9]",
];

/// The parts that split and join texts.
struct SplitRules {
    /// A tokenizer.json without model, added tokens and post-processor.
    json: Value,
    /// Pairs that are joined, the first ones first.
    merges: Merges,
    unknown: Option<String>,
    /// Whether a token that the vocabulary lacks is written as bytes, such as `<0x0A>`.
    byte_fallback: bool,
    /// Whether a word that is a token needs no pairs.
    ignore_merges: bool,
    /// Whether texts begin with a special token, unless the file says otherwise.
    begins: bool,
}

/// The tokenizer of a file, or `None` if it has none.
pub(super) fn tokenizer(
    metadata: &Metadata,
    path: &Path,
) -> Result<Option<tokenizers::Tokenizer>, Error> {
    let key = |key: &str| format!("tokenizer.ggml.{key}");
    let Some(model) = metadata.text(&key("model")) else { return Ok(None) };
    let wrong = |what: String| Error::file(path, what);
    let tokens = metadata
        .texts(&key("tokens"))
        .ok_or_else(|| wrong(format!("{} is missing", key("tokens"))))?;
    if let Some(token) = tokens.iter().find(|token| token.len() > LONGEST) {
        let bytes = token.len();
        return Err(wrong(format!("has a token of {bytes} bytes, and {LONGEST} are the most")));
    }
    let types = metadata.numbers(&key("token_type")).unwrap_or_default();
    let kind = |id: usize| types.get(id).copied().unwrap_or(1);
    let parts = match model {
        "gpt2" => {
            let merges = metadata
                .texts(&key("merges"))
                .ok_or_else(|| wrong(format!("{} is missing", key("merges"))))?;
            bytes(metadata.text(&key("pre")).unwrap_or("gpt-2"), merges, path)?
        }
        "llama" => {
            let scores = metadata
                .floats(&key("scores"))
                .filter(|scores| scores.len() == tokens.len())
                .ok_or_else(|| wrong(format!("{} is not as long as the tokens", key("scores"))))?;
            let space = metadata.flag(&key("add_space_prefix")).unwrap_or(true);
            let unknown = (0..tokens.len()).find(|id| kind(*id) == UNKNOWN);
            pieces(tokens, scores, unknown, space).map_err(wrong)?
        }
        "bert" => return words(metadata, tokens, kind).map(Some).map_err(wrong),
        "t5" => return likely(metadata, tokens, kind).map(Some).map_err(wrong),
        other => {
            let known = "known are \"gpt2\", \"llama\", \"bert\" and \"t5\"";
            let what = format!("{} is {other:?}; {known}", key("model"));
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
    let first = special("add_bos_token", "bos_token_id", parts.begins);
    let last = special("add_eos_token", "eos_token_id", false);

    let not_understood =
        |e: &dyn core::fmt::Display| wrong(format!("is no tokenizer that can be read: {e}"));
    let ids = tokens.iter().enumerate().map(|(id, token)| (token.clone(), id as u32));
    let mut model = BPE::builder()
        .vocab_and_merges(ids.collect::<Vocab>(), parts.merges)
        .fuse_unk(parts.byte_fallback)
        .byte_fallback(parts.byte_fallback)
        .ignore_merges(parts.ignore_merges);
    if let Some(unknown) = parts.unknown {
        model = model.unk_token(unknown);
    }
    let mut json = parts.json;
    json["version"] = json!("1.0");
    json["model"] = json!({"type": "BPE", "vocab": {}, "merges": []});
    json["post_processor"] = around(first, first, last, 1);
    let mut tokenizer: tokenizers::Tokenizer =
        serde_json::from_value(json).map_err(|e| not_understood(&e))?;
    tokenizer.with_model(model.build().map_err(|e| not_understood(&e))?);
    let strips = strips(metadata);
    let added: Vec<AddedToken> = tokens
        .iter()
        .enumerate()
        .filter(|(id, _)| matches!(kind(*id), UNKNOWN | CONTROL | USER_DEFINED))
        .map(|(id, token)| {
            let keeps = ["<unk>", "<s>", "<|endoftext|>"].contains(&token.as_str());
            AddedToken::from(token.as_str(), kind(id) != USER_DEFINED)
                .normalized(false)
                .rstrip(strips && !keeps)
        })
        .collect();
    tokenizer.add_tokens(&added);
    Ok(Some(tokenizer))
}

/// WordPiece. The converter has put ▁ before the tokens that begin a word, and has taken ## from the others. Where an older
/// file does not say so, a vocabulary without capital letters is that of a model that reads small ones.
fn words(
    metadata: &Metadata,
    tokens: &[String],
    kind: impl Fn(usize) -> i64,
) -> Result<tokenizers::Tokenizer, String> {
    let is_special = |id: usize| kind(id) == CONTROL;
    let own = |(id, token): (usize, &String)| match token.strip_prefix('▁') {
        _ if is_special(id) => token.clone(),
        Some(word) => word.to_owned(),
        None => format!("##{token}"),
    };
    let vocabulary: serde_json::Map<String, Value> =
        tokens.iter().enumerate().map(|all| (own(all), all.0.into())).collect();
    let mut plain = tokens.iter().enumerate().filter(|(id, _)| !is_special(*id));
    let cased =
        plain.any(|(_, token)| !token.starts_with("▁[") && token.chars().any(char::is_uppercase));
    let lowercase = metadata.flag("tokenizer.ggml.normalizer.lowercase").unwrap_or(!cased);
    let first = special(metadata, tokens, ["cls_token_id", "bos_token_id"], "[CLS]");
    let last = special(metadata, tokens, ["seperator_token_id", "eos_token_id"], "[SEP]");
    let json = json!({
        "version": "1.0",
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": lowercase},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": around(first, None, last, 1),
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "vocab": vocabulary, "unk_token": "[UNK]",
            "continuing_subword_prefix": "##", "max_input_chars_per_word": 100},
    });
    let added = tokens.iter().enumerate().filter(|(id, _)| is_special(*id));
    whole(json, added.map(|(_, token)| token))
}

/// SentencePiece's Unigram, as T5 and XLM-RoBERTa have it: of all ways to split a word, the likeliest one.
fn likely(
    metadata: &Metadata,
    tokens: &[String],
    kind: impl Fn(usize) -> i64,
) -> Result<tokenizers::Tokenizer, String> {
    let key = |key: &str| format!("tokenizer.ggml.{key}");
    let scores = metadata.floats(&key("scores")).filter(|scores| scores.len() == tokens.len());
    let scores = scores.ok_or_else(|| format!("{} is not as long as the tokens", key("scores")))?;
    let flag = |name: &str, usual: bool| metadata.flag(&key(name)).unwrap_or(usual);
    // An encoder's texts begin with a token, too.
    let begins = metadata.text("general.architecture") == Some("bert");
    let [first, last] = [
        ("add_bos_token", "bos_token_id", "<s>", begins),
        ("add_eos_token", "eos_token_id", "</s>", true),
    ]
    .map(|(put, id, name, usual)| {
        special(metadata, tokens, [id, id], name).filter(|_| flag(put, usual))
    });
    let table = metadata.numbers(&key("precompiled_charsmap")).map(|bytes| {
        let bytes: Vec<u8> = bytes.iter().map(|byte| *byte as u8).collect();
        json!({"type": "Precompiled", "precompiled_charsmap": BASE64_STANDARD.encode(bytes)})
    });
    let scheme = if flag("add_space_prefix", true) { "always" } else { "never" };
    let words =
        json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
    let json = json!({
        "version": "1.0",
        "normalizer": table,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, words]},
        "post_processor": around(first, last.filter(|_| first.is_some()), last, 0),
        "decoder": words,
        "model": {"type": "Unigram", "vocab": tokens.iter().zip(scores).collect::<Vec<_>>(), "byte_fallback": false,
            "unk_id": (0..tokens.len()).find(|id| kind(*id) == UNKNOWN)},
    });
    let bytes: usize = tokens.iter().map(|token| token.len() + 16).sum();
    bounds::check(&json, (16 << 20) + 64 * bytes as u64)?;
    let is_special = |id: usize| matches!(kind(id), UNKNOWN | CONTROL | USER_DEFINED);
    let added = tokens.iter().enumerate().filter(|(id, _)| is_special(*id));
    whole(json, added.map(|(_, token)| token))
}

/// A token with a meaning: the one whose id a key tells, or the one of this name.
fn special<'a>(
    metadata: &Metadata,
    tokens: &'a [String],
    keys: [&str; 2],
    name: &str,
) -> Option<(usize, &'a String)> {
    let told = keys.iter().find_map(|key| metadata.number(&format!("tokenizer.ggml.{key}")));
    let id = told.and_then(|id| usize::try_from(id).ok());
    let id = id.or_else(|| tokens.iter().position(|token| token == name))?;
    Some((id, tokens.get(id)?))
}

/// A tokenizer with these special tokens.
fn whole<'a>(
    json: Value,
    special: impl Iterator<Item = &'a String>,
) -> Result<tokenizers::Tokenizer, String> {
    let added: Vec<AddedToken> =
        special.map(|token| AddedToken::from(token.as_str(), true).normalized(false)).collect();
    guarded(|| {
        let mut tokenizer: tokenizers::Tokenizer = serde_json::from_value(json)?;
        tokenizer.add_tokens(&added);
        Ok(tokenizer)
    })
    .map_err(|e| format!("is no tokenizer that can be read: {e}"))
}

/// Whether special tokens include the white space after them, as Phi-3's do. The file does not say so. llama.cpp decides it by
/// the model's name, and here the architecture also counts, because the name may be another.
fn strips(metadata: &Metadata) -> bool {
    let name = metadata.text("general.name").unwrap_or_default().to_lowercase();
    let pieces = metadata.text("tokenizer.ggml.model") == Some("llama");
    let phi3 = metadata.text("general.architecture") == Some("phi3");
    pieces && phi3 || ["phi-3", "phi3"].iter().any(|phi3| name.contains(phi3))
}

/// Special tokens around a text: the one before it, that before a second text, which has this type, and the one after each.
fn around(
    first: Option<(usize, &String)>,
    second: Option<(usize, &String)>,
    last: Option<(usize, &String)>,
    kind: usize,
) -> Value {
    if first.is_none() && last.is_none() {
        return Value::Null;
    }
    let of = |text, kind, first: Option<(usize, &String)>| {
        let token = |(id, token): (usize, &String)| Piece::Token(id as u32, token.clone(), kind);
        let pieces = [first.map(token), Some(Piece::Text(text, kind)), last.map(token)];
        pieces.into_iter().flatten().collect::<Vec<_>>()
    };
    template(&of("A", 0, first), &[of("A", 0, first), of("B", kind, second)].concat())
}

/// Byte-level BPE.
fn bytes(pre: &str, merges: &[String], path: &Path) -> Result<SplitRules, Error> {
    let split = |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
    let level = |regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": regex});
    // A text is split by these first, and then into bytes, by GPT-2's expression or by none.
    let after = |first: Vec<Value>, regex: bool| {
        let steps = first.into_iter().chain([level(regex)]).collect::<Vec<_>>();
        json!({"type": "Sequence", "pretokenizers": steps})
    };
    let by = |regexes: &[&str]| after(regexes.iter().map(|regex| split(regex)).collect(), false);
    // No normalizer; a word that is a token is merged all the same, and no token stands before a text.
    let plain = |pre_tokenizer: Value| (Value::Null, pre_tokenizer, false, false);
    let (normalizer, pre_tokenizer, ignore_merges, begins) = match pre {
        "gpt-2" | "gpt2" | "mpt" | "olmo" | "jais" | "phi-2" | "gigachat" | "a.x-4.0"
        | "mellum" | "modern-bert" | "exaone4" | "trillion" | "granite-docling" | "roberta-bpe"
        | "jina-es" | "jina-de" | "jina-v1-en" | "jina-v2-es" | "jina-v2-de" | "jina-v2-code" => {
            plain(level(true))
        }
        "smollm" | "refact" | "starcoder" | "command-r" | "codeshell" | "exaone" | "minerva-7b"
        | "mellum2" => {
            let digits = json!({"type": "Digits", "individual_digits": true});
            plain(after(vec![digits], true))
        }
        "qwen2" | "deepseek-r1-qwen" | "kormo" | "f2llmv2" | "megrez" => {
            (json!({"type": "NFC"}), by(&[QWEN2]), false, false)
        }
        "stablelm2" | "hunyuan" | "solar-open" | "grok-2" => plain(by(&[QWEN2])),
        "llama-bpe" | "llama3" | "llama-v3" | "falcon3" | "falcon-h1" | "pixtral" | "midm-2.0"
        | "lfm2" | "jina-v5-nano" => (Value::Null, by(&[LLAMA3]), true, true),
        "dbrx" | "smaug-bpe" | "glm4" | "chatglm-bpe" | "jais-2" => plain(by(&[LLAMA3])),
        "gpt-4o" | "llama4" | "kanana2" | "talkie" | "minimax-m2" => plain(by(&[GPT4O])),
        "tekken" => (Value::Null, by(&[TEKKEN]), true, true),
        "qwen35" => (json!({"type": "NFC"}), by(&[QWEN35]), false, false),
        "bailingmoe" | "bailingmoe2" | "llada-moe" => plain(by(&[BAILING])),
        "bloom" | "poro-chat" | "gpt3-finnish" => plain(by(&[BLOOM])),
        "viking" => plain(by(&[BLOOM, r"\p{N}"])),
        "default" => plain(by(&DEFAULT)),
        "tiny_aya" | "cohere2moe" => plain(by(&TINY_AYA)),
        "superbpe" => plain(by(&SUPERBPE)),
        "afmoe" => plain(by(&AFMOE)),
        "chameleon" => (Value::Null, by(&CHAMELEON), false, true),
        "deepseek-llm" => {
            let digits = json!({"type": "Digits", "individual_digits": true});
            let splits = DEEPSEEK_LLM.map(split).into_iter().chain([digits]);
            plain(after(splits.collect(), false))
        }
        "falcon" => {
            // The digits are those of the bytes' letters.
            let punctuation = json!({"type": "Punctuation", "behavior": "Contiguous"});
            let digits = json!({"type": "Digits", "individual_digits": false});
            let steps = [punctuation, level(true), digits, split("[0-9][0-9][0-9]")];
            plain(json!({"type": "Sequence", "pretokenizers": steps}))
        }
        "seed-coder" => plain(by(&[SEED_CODER])),
        "deepseek-coder" => plain(by(&DEEPSEEK_CODER)),
        "deepseek-v3" | "hunyuan-dense" | "joyai-llm" => plain(by(&DEEPSEEK_V3)),
        _ => {
            let known = "gpt-2, mpt, olmo, jais, phi-2, smollm, refact, starcoder, command-r, exaone, qwen2, deepseek-r1-qwen, stablelm2, llama-bpe, falcon3, pixtral, dbrx, smaug-bpe, gpt-4o, llama4, tekken, seed-coder, falcon, bloom, viking, bailingmoe, qwen35, deepseek-llm, deepseek-coder, deepseek-v3, roberta-bpe, tiny_aya, superbpe, afmoe, chameleon and default";
            let what =
                format!("tokenizer.ggml.pre is {pre:?}, which is not known; known are {known}");
            return Err(Error::file(path, what));
        }
    };
    let merges = merges.iter().filter_map(|merge| merge.split_once(' '));
    let decoder = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
    Ok(SplitRules {
        json: json!({"normalizer": normalizer, "pre_tokenizer": pre_tokenizer, "decoder": decoder}),
        merges: merges.map(|(left, right)| (left.to_owned(), right.to_owned())).collect(),
        unknown: None,
        byte_fallback: false,
        ignore_merges,
        begins,
    })
}

/// The ranks of pairs for a BPE that joins first, of all pairs of neighbours that form a token, the pair whose token has the
/// largest score: all ways to split each token into two tokens, sorted by the token's score.
pub(super) fn merges(tokens: &[String], scores: &[f32]) -> Result<Merges, String> {
    let ids: HashMap<&str, usize> =
        tokens.iter().enumerate().map(|(id, token)| (token.as_str(), id)).collect();
    let mut merges: Vec<(f32, usize, usize, &str, &str)> = Vec::new();
    for (token, score) in tokens.iter().zip(scores) {
        let splits = token.char_indices().skip(1).map(|(at, _)| token.split_at(at));
        merges.extend(splits.filter_map(|(left, right)| {
            Some((*score, *ids.get(left)?, *ids.get(right)?, left, right))
        }));
        // A vocabulary of real texts has two pairs for each token; one of "a", "aa", "aaa" … has a pair for each letter.
        if merges.len() > 8 * tokens.len() + (1 << 16) {
            let what = "its tokens are made of each other in too many ways";
            return Err(format!("{what}: more than 8 a token"));
        }
    }
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| (a.1, a.2).cmp(&(b.1, b.2))));
    Ok(merges.into_iter().map(|(.., left, right)| (left.to_owned(), right.to_owned())).collect())
}

/// SentencePiece's BPE.
fn pieces(
    tokens: &[String],
    scores: &[f32],
    unknown: Option<usize>,
    space: bool,
) -> Result<SplitRules, String> {
    let merges = merges(tokens, scores)?;
    let to_spaces = json!({"type": "Replace", "pattern": {"String": "▁"}, "content": " "});
    let replace = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let mut decoders = vec![to_spaces, json!({"type": "ByteFallback"}), json!({"type": "Fuse"})];
    let mut normalizers = vec![replace];
    if space {
        normalizers.insert(0, json!({"type": "Prepend", "prepend": "▁"}));
        decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
    }
    Ok(SplitRules {
        json: json!({
            "normalizer": {"type": "Sequence", "normalizers": normalizers},
            "pre_tokenizer": null,
            "decoder": {"type": "Sequence", "decoders": decoders},
        }),
        merges,
        unknown: unknown.and_then(|id| tokens.get(id)).cloned(),
        byte_fallback: true,
        ignore_merges: false,
        begins: true,
    })
}

/// The pre-tokenizer of the name `pre`, as tokenizer.json has it. It serves tests, which compare what it splits.
#[doc(hidden)]
pub fn pre_tokenizer(pre: &str) -> Result<Value, Error> {
    let mut parts = bytes(pre, &[], Path::new("model.gguf"))?;
    Ok(parts.json["pre_tokenizer"].take())
}
