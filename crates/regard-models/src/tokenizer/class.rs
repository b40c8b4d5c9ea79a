//! The classes of tokenizers in transformers 5.
//!
//! Most of them take the vocabulary and its pairs of tokenizer.json, and make the other parts themselves; so a folder without
//! that file has all that they need, and one with it may have parts that do not count. Classes that are not here, and those
//! whose kind of model is another than the file's, take tokenizer.json as it is.

use std::path::PathBuf;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use super::gguf::{QWEN2, merges};
use super::settings::file;
use super::{LARGEST, LONGEST};
use crate::read::Beside;
use crate::{Checkpoint, Error};

/// The class that transformers registers for a family, by its `model_type`; empty for one that takes tokenizer.json as it is.
fn registered(family: &str) -> Option<&'static str> {
    Some(match family {
        "albert" => "AlbertTokenizer",
        "bert" | "distilbert" | "electra" | "nomic_bert" => "BertTokenizer",
        "camembert" => "CamembertTokenizer",
        "clip" => "CLIPTokenizer",
        "cohere" | "cohere2" => "CohereTokenizer",
        "deberta-v2" => "DebertaV2Tokenizer",
        "gpt2" | "gpt_neo" | "gptj" | "opt" | "phi" | "starcoder2" => "GPT2Tokenizer",
        "gpt_neox" | "mpt" | "olmo" | "olmoe" => "GPTNeoXTokenizer",
        "gemma" | "gemma2" | "gemma3" | "gemma3_text" => "GemmaTokenizer",
        "mbart" => "MBartTokenizer",
        "mpnet" => "MPNetTokenizer",
        "pegasus" => "PegasusTokenizer",
        "qwen2" | "qwen2_moe" | "qwen3" | "qwen3_moe" => "Qwen2Tokenizer",
        "bart" | "roberta" => "RobertaTokenizer",
        "mt5" | "t5" => "T5Tokenizer",
        "whisper" => "WhisperTokenizer",
        "xlm-roberta" => "XLMRobertaTokenizer",
        "glm" | "glm4" | "gpt_bigcode" | "granite" | "ministral" | "ministral3" | "mistral"
        | "mixtral" | "modernbert" | "nemotron" | "olmo2" | "olmo3" | "phi3" | "phimoe"
        | "stablelm" => "",
        _ => return None,
    })
}

/// What transformers names otherwise.
fn renamed(class: &str) -> &str {
    match class.strip_suffix("Fast").unwrap_or(class) {
        "BartTokenizer" => "RobertaTokenizer",
        "DistilBertTokenizer" | "ElectraTokenizer" => "BertTokenizer",
        other => other,
    }
}

/// A class, which knows how a text becomes tokens and which tokens have a meaning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Class {
    name: &'static str,
    /// The type of the model in tokenizer.json.
    model: &'static str,
    /// The tokens with a meaning, unless the settings name others.
    tokens: &'static [(&'static str, &'static str)],
    /// The tokens around a text and around two, by their keys; A and B are the texts, and `:1` is a type. Without it, those of
    /// tokenizer.json, or those that `add_bos_token` and `add_eos_token` ask for.
    around: Option<(&'static str, &'static str)>,
}

const END: &str = "<|endoftext|>";
const GPT: &[(&str, &str)] = &[("bos_token", END), ("eos_token", END), ("unk_token", END)];
const ROBERTA: &[(&str, &str)] = &[
    ("bos_token", "<s>"),
    ("eos_token", "</s>"),
    ("unk_token", "<unk>"),
    ("sep_token", "</s>"),
    ("pad_token", "<pad>"),
    ("cls_token", "<s>"),
    ("mask_token", "<mask>"),
];
const DEBERTA: &[(&str, &str)] = &[
    ("bos_token", "[CLS]"),
    ("eos_token", "[SEP]"),
    ("unk_token", "[UNK]"),
    ("sep_token", "[SEP]"),
    ("pad_token", "[PAD]"),
    ("cls_token", "[CLS]"),
    ("mask_token", "[MASK]"),
];
/// BERT's have no start and no end beside their `cls_token` and `sep_token`.
const BERT: &[(&str, &str)] = DEBERTA.split_at(2).1;
const BERT_AROUND: Option<(&str, &str)> =
    Some(("cls_token A sep_token", "cls_token A sep_token B:1 sep_token:1"));
const ROBERTA_AROUND: Option<(&str, &str)> =
    Some(("cls_token A sep_token", "cls_token A sep_token sep_token B sep_token"));
const START_AND_END: Option<(&str, &str)> =
    Some(("bos_token A eos_token", "bos_token A eos_token eos_token B eos_token"));
const BYTES: Class = Class { name: "", model: "BPE", tokens: &[], around: None };
const UNIGRAM: Class = Class { model: "Unigram", ..BYTES };

const CLASSES: [Class; 15] = [
    Class { name: "BertTokenizer", model: "WordPiece", tokens: BERT, around: BERT_AROUND },
    Class {
        name: "MPNetTokenizer",
        model: "WordPiece",
        tokens: &[
            ("bos_token", "<s>"),
            ("eos_token", "</s>"),
            ("unk_token", "[UNK]"),
            ("sep_token", "</s>"),
            ("pad_token", "<pad>"),
            ("cls_token", "<s>"),
            ("mask_token", "<mask>"),
        ],
        around: ROBERTA_AROUND,
    },
    Class { name: "RobertaTokenizer", tokens: ROBERTA, around: ROBERTA_AROUND, ..BYTES },
    Class { name: "GPT2Tokenizer", tokens: GPT, ..BYTES },
    Class {
        name: "GPTNeoXTokenizer",
        tokens: &[
            ("bos_token", END),
            ("eos_token", END),
            ("unk_token", END),
            ("pad_token", "<|padding|>"),
        ],
        ..BYTES
    },
    Class {
        name: "Qwen2Tokenizer",
        tokens: &[("eos_token", END), ("unk_token", END), ("pad_token", END)],
        ..BYTES
    },
    Class {
        name: "WhisperTokenizer",
        tokens: GPT,
        around: Some((
            "<|startoftranscript|> language task <|notimestamps|> A eos_token",
            "<|startoftranscript|> language task <|notimestamps|> A B:1 eos_token:1",
        )),
        ..BYTES
    },
    Class {
        name: "CohereTokenizer",
        tokens: &[
            ("bos_token", "<BOS_TOKEN>"),
            ("eos_token", "<|END_OF_TURN_TOKEN|>"),
            ("unk_token", "<UNK>"),
            ("sep_token", "<SEP>"),
            ("pad_token", "<PAD>"),
            ("cls_token", "<CLS>"),
            ("mask_token", "<MASK_TOKEN>"),
        ],
        ..BYTES
    },
    Class {
        name: "CLIPTokenizer",
        tokens: &[
            ("bos_token", "<|startoftext|>"),
            ("eos_token", END),
            ("unk_token", END),
            ("pad_token", END),
        ],
        around: START_AND_END,
        ..BYTES
    },
    Class {
        name: "LlamaTokenizer",
        tokens: &[("bos_token", "<s>"), ("eos_token", "</s>"), ("unk_token", "<unk>")],
        ..BYTES
    },
    Class {
        name: "GemmaTokenizer",
        tokens: &[
            ("bos_token", "<bos>"),
            ("eos_token", "<eos>"),
            ("unk_token", "<unk>"),
            ("pad_token", "<pad>"),
            ("mask_token", "<mask>"),
        ],
        ..BYTES
    },
    Class {
        name: "T5Tokenizer",
        tokens: &[("eos_token", "</s>"), ("unk_token", "<unk>"), ("pad_token", "<pad>")],
        around: Some(("A eos_token", "A eos_token B eos_token")),
        ..UNIGRAM
    },
    Class { name: "XLMRobertaTokenizer", tokens: ROBERTA, around: START_AND_END, ..UNIGRAM },
    Class { name: "CamembertTokenizer", tokens: ROBERTA, around: START_AND_END, ..UNIGRAM },
    Class { name: "DebertaV2Tokenizer", tokens: DEBERTA, around: BERT_AROUND, ..UNIGRAM },
];

/// The class of a folder's tokenizer, by the settings, by the family and by what transformers registers for it.
fn name<'a>(settings: &'a Value, config: &'a Value) -> &'a str {
    let named = |of: &'a Value| of["tokenizer_class"].as_str().map(renamed);
    let named = named(settings).or_else(|| named(config));
    let family = config["model_type"].as_str().unwrap_or_default();
    match (registered(family), named) {
        // Whatever the files name, transformers takes what is registered.
        (Some(""), _) => "",
        (Some(class), _) if family == "qwen2" => class,
        (registered, named) => named.or(registered).unwrap_or_default(),
    }
}

fn of_name(name: &str) -> Option<Class> {
    CLASSES.into_iter().find(|class| class.name == name)
}

fn has_step(part: &Value, kind: &str) -> bool {
    let steps = ["normalizers", "pretokenizers"].iter().find_map(|key| part[*key].as_array());
    part["type"] == kind || steps.is_some_and(|steps| steps.iter().any(|step| step["type"] == kind))
}

impl Class {
    /// The class of the folder, if it makes the parts of this tokenizer.json.
    pub(super) fn of(settings: &Value, config: &Value, tokenizer: &Value) -> Option<Self> {
        let class = Self::named(settings, config)?;
        let bytes = has_step(&tokenizer["pre_tokenizer"], "ByteLevel");
        let fits = match class.name {
            "LlamaTokenizer" | "GemmaTokenizer" => {
                tokenizer["model"]["byte_fallback"] == true && !bytes
            }
            _ => class.model != "BPE" || bytes,
        };
        (tokenizer["model"]["type"] == class.model && fits).then_some(class)
    }

    /// The class of the folder.
    pub(super) fn named(settings: &Value, config: &Value) -> Option<Self> {
        of_name(name(settings, config))
    }

    /// Completes the settings with the tokens that the class has of its own.
    pub(super) fn complete(&self, settings: &mut Value) {
        if settings.is_null() {
            *settings = json!({});
        }
        for (key, token) in self.tokens {
            if settings.get(*key).is_none() {
                settings[*key] = (*token).into();
            }
        }
    }

    /// Writes the parts of a tokenizer.json that the class makes itself.
    pub(super) fn apply(&self, tokenizer: &mut Value, settings: &Value) {
        let flag = |key: &str, default: bool| settings[key].as_bool().unwrap_or(default);
        let space = flag("add_prefix_space", false);
        let level = |space: bool, regex: bool| json!({"type": "ByteLevel", "add_prefix_space": space, "trim_offsets": true, "use_regex": regex});
        let sequence = |parts: &[Value]| json!({"type": "Sequence", "pretokenizers": parts});
        let words = |scheme: &str| json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
        let of_texts = |pattern: &str, content: &str| json!({"type": "Replace", "pattern": {"String": pattern}, "content": content});
        let nfc = || json!({"type": "NFC"});
        let (normalizer, pre_tokenizer, decoder) = match self.name {
            "BertTokenizer" | "MPNetTokenizer" => (
                json!({
                    "type": "BertNormalizer",
                    "clean_text": true,
                    "handle_chinese_chars": flag("tokenize_chinese_chars", true),
                    "strip_accents": settings["strip_accents"].as_bool(),
                    "lowercase": flag("do_lower_case", true),
                }),
                json!({"type": "BertPreTokenizer"}),
                json!({"type": "WordPiece", "prefix": "##", "cleanup": true}),
            ),
            "GPTNeoXTokenizer" => (nfc(), level(space, true), level(true, true)),
            "Qwen2Tokenizer" => {
                let split = json!({"type": "Split", "pattern": {"Regex": QWEN2}, "behavior": "Isolated", "invert": false});
                (nfc(), sequence(&[split, level(space, false)]), level(true, true))
            }
            "CohereTokenizer" => {
                let digits = json!({"type": "Digits", "individual_digits": true});
                (nfc(), sequence(&[digits, level(space, true)]), level(space, true))
            }
            "CLIPTokenizer" => {
                let spaces =
                    json!({"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": " "});
                let parts = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+";
                let split = json!({"type": "Split", "pattern": {"Regex": parts}, "behavior": "Removed", "invert": true});
                let steps = json!({"type": "Sequence", "normalizers": [nfc(), spaces, {"type": "Lowercase"}]});
                (steps, sequence(&[split, level(false, true)]), level(true, true))
            }
            "LlamaTokenizer" | "GemmaTokenizer" => {
                let mut decoders = vec![
                    of_texts("▁", " "),
                    json!({"type": "ByteFallback"}),
                    json!({"type": "Fuse"}),
                ];
                let (normalizer, pre_tokenizer) = if self.name == "GemmaTokenizer" {
                    let split = json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false});
                    (of_texts(" ", "▁"), split)
                } else {
                    let scheme = match (flag("add_prefix_space", true), flag("legacy", false)) {
                        (true, true) => "always",
                        (true, false) => "first",
                        (false, _) => "never",
                    };
                    if scheme != "never" {
                        decoders
                            .push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
                    }
                    let mut words = words(scheme);
                    words["split"] = false.into();
                    (Value::Null, words)
                };
                (normalizer, pre_tokenizer, json!({"type": "Sequence", "decoders": decoders}))
            }
            "DebertaV2Tokenizer" => {
                let gaps = json!({"type": "Replace", "pattern": {"Regex": r"\s{2,}|[\n\r\t]"}, "content": " "});
                let strip = json!({"type": "Strip", "strip_left": false, "strip_right": true});
                let mut normalizers = vec![gaps, nfc(), strip];
                if flag("do_lower_case", false) {
                    normalizers.insert(0, json!({"type": "Lowercase"}));
                }
                let scheme = if flag("add_prefix_space", true) { "always" } else { "first" };
                let mut steps = vec![words(scheme)];
                if flag("split_by_punct", false) {
                    steps.insert(0, json!({"type": "Punctuation", "behavior": "Isolated"}));
                }
                let normalizer = json!({"type": "Sequence", "normalizers": normalizers});
                (normalizer, sequence(&steps), words(scheme))
            }
            "T5Tokenizer" | "XLMRobertaTokenizer" | "CamembertTokenizer" => {
                let normalizer = &tokenizer["normalizer"];
                let steps = normalizer["normalizers"].as_array();
                let steps = steps.map_or_else(|| core::slice::from_ref(normalizer), Vec::as_slice);
                let table = steps.iter().find(|step| step["type"] == "Precompiled");
                let space = self.name == "T5Tokenizer" || flag("add_prefix_space", true);
                let words = words(if space { "always" } else { "never" });
                let split = json!({"type": "WhitespaceSplit"});
                (table.cloned().unwrap_or_default(), sequence(&[split, words.clone()]), words)
            }
            _ => (Value::Null, level(space, true), level(true, true)),
        };
        tokenizer["normalizer"] = normalizer;
        tokenizer["pre_tokenizer"] = pre_tokenizer;
        tokenizer["decoder"] = decoder;
    }

    /// The post-processor of the class, for a tokenizer that has all its tokens, or `None` if its own one counts. `has_file`:
    /// whether it is of a tokenizer.json, beside which transformers looks at no `add_bos_token`.
    pub(super) fn around(
        &self,
        settings: &Value,
        has_file: bool,
        tokenizer: &tokenizers::Tokenizer,
    ) -> Option<Value> {
        let own = tokenizer.get_post_processor().is_some() && self.name != "GPTNeoXTokenizer";
        let by_flags = || {
            let put = |key: &str, token| {
                if !has_file && settings[key] == true { token } else { "" }
            };
            let (first, last) =
                (put("add_bos_token", "bos_token:0 "), put("add_eos_token", " eos_token:0"));
            let single = format!("{first}A:0{last}");
            let second = format!("{first}B:0{last}").replace(":0", ":1");
            (single.clone(), format!("{single} {second}"))
        };
        let (single, pair) = match self.around {
            Some((single, pair)) => (single.to_owned(), pair.to_owned()),
            None if has_file && own => return None,
            None => by_flags(),
        };
        let unknown = text(&settings["unk_token"]).and_then(|token| tokenizer.token_to_id(token));
        let piece = |piece: &str| {
            let (key, kind) = piece.split_once(':').unwrap_or((piece, "0"));
            let kind = usize::from(kind == "1");
            let token = match key {
                "A" => return Some(Piece::Text("A", kind)),
                "B" => return Some(Piece::Text("B", kind)),
                "language" | "task" => format!("<|{}|>", settings[key].as_str()?),
                key if key.starts_with('<') => key.to_owned(),
                key => text(&settings[key])?.to_owned(),
            };
            let id = tokenizer.token_to_id(&token).or(unknown)?;
            Some(Piece::Token(id, tokenizer.id_to_token(id)?, kind))
        };
        let counts = |piece: &&str| match *piece {
            "<|notimestamps|>" => settings["predict_timestamps"] != true,
            "language" | "task" => !settings[*piece].is_null(),
            _ => true,
        };
        let pieces =
            |around: &str| around.split(' ').filter(counts).map(piece).collect::<Option<Vec<_>>>();
        Some(template(&pieces(&single)?, &pieces(&pair)?))
    }
}

/// The text of a token in the settings.
fn text(token: &Value) -> Option<&str> {
    token.as_str().or_else(|| token["content"].as_str())
}

/// A part of what a tokenizer makes of one or two texts, and its type.
#[derive(Clone, Debug)]
pub(super) enum Piece {
    /// The text "A" or "B".
    Text(&'static str, usize),
    /// A special token.
    Token(u32, String, usize),
}

/// The post-processor that puts special tokens around a text, and around two.
pub(super) fn template(single: &[Piece], pair: &[Piece]) -> Value {
    let written = |pieces: &[Piece]| {
        let pieces = pieces.iter().map(|piece| match piece {
            Piece::Text(name, kind) => json!({"Sequence": {"id": name, "type_id": kind}}),
            Piece::Token(_, token, kind) => json!({"SpecialToken": {"id": token, "type_id": kind}}),
        });
        pieces.collect::<Vec<_>>()
    };
    let tokens = single.iter().chain(pair).filter_map(|piece| match piece {
        Piece::Token(id, token, _) => {
            Some((token.clone(), json!({"id": token, "ids": [id], "tokens": [token]})))
        }
        Piece::Text(..) => None,
    });
    json!({
        "type": "TemplateProcessing",
        "single": written(single),
        "pair": written(pair),
        "special_tokens": tokens.collect::<serde_json::Map<_, _>>(),
    })
}

/// A tokenizer.json without parts but its model, of the vocabulary in `vocab.txt`, in `vocab.json` with `merges.txt`, or in
/// `qwen.tiktoken`, and its class; `None` if the folder has none of them.
///
/// # Errors
/// An error names the file: if it is too large, or holds no vocabulary.
pub(super) fn vocabulary(
    checkpoint: &Checkpoint,
    class: Option<Class>,
    settings: &Value,
) -> Result<Option<(PathBuf, Class, Value)>, Error> {
    let lines = |file: Beside| -> Result<Option<Vec<String>>, Error> {
        let Some(bytes) = checkpoint.file(file, LARGEST)? else { return Ok(None) };
        let wrong =
            |e| Error::file(&checkpoint.path().join(file.name()), format!("is no text: {e}"));
        let text = String::from_utf8(bytes).map_err(wrong)?;
        Ok(Some(
            text.split_terminator('\n')
                .map(|line| line.trim_end_matches('\r').to_owned())
                .collect(),
        ))
    };
    let is = |class: Class, model: &str| (class.model == model).then_some(class);
    let made = |file: Beside, class, model: Value| {
        let json = json!({"version": "1.0", "added_tokens": [], "model": model});
        (checkpoint.path().join(file.name()), class, json)
    };
    if let Some(words) = lines(Beside::VOCAB_TXT)? {
        let class =
            class.or_else(|| of_name("BertTokenizer")).and_then(|class| is(class, "WordPiece"));
        let Some(class) = class else { return Ok(None) };
        let ids = words.into_iter().enumerate().map(|(id, word)| (word, json!(id)));
        let model = json!({
            "type": "WordPiece",
            "vocab": ids.collect::<serde_json::Map<_, _>>(),
            "unk_token": text(&settings["unk_token"]).unwrap_or("[UNK]"),
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
        });
        return Ok(Some(made(Beside::VOCAB_TXT, class, model)));
    }
    if let Some(lines) = lines(Beside::TIKTOKEN)? {
        let wrong = |what| Error::file(&checkpoint.path().join(Beside::TIKTOKEN.name()), what);
        let Some(class) = of_name("Qwen2Tokenizer") else { return Ok(None) };
        let (model, added) = ranked(&lines).map_err(wrong)?;
        let (path, class, mut json) = made(Beside::TIKTOKEN, class, model);
        json["added_tokens"] = added;
        return Ok(Some((path, class, json)));
    }
    let (Some(ids), Some(merges)) =
        (file(checkpoint, Beside::VOCAB_JSON, LARGEST)?, lines(Beside::MERGES)?)
    else {
        return Ok(None);
    };
    let class = class.or_else(|| of_name("GPT2Tokenizer")).and_then(|class| is(class, "BPE"));
    let Some(class) = class else { return Ok(None) };
    let merges =
        merges.into_iter().filter(|line| !line.starts_with("#version") && !line.is_empty());
    let of_clip = class.name == "CLIPTokenizer";
    let model = json!({
        "type": "BPE",
        "vocab": ids,
        "merges": merges.collect::<Vec<_>>(),
        "unk_token": if of_clip { text(&settings["unk_token"]) } else { None },
        "continuing_subword_prefix": "",
        "end_of_word_suffix": if of_clip { "</w>" } else { "" },
        "fuse_unk": false,
        "byte_fallback": false,
    });
    Ok(Some(made(Beside::VOCAB_JSON, class, model)))
}

/// The model and the special tokens of the first Qwen, whose file has a token's bytes in base64 and its rank in each line.
fn ranked(lines: &[String]) -> Result<(Value, Value), String> {
    // The letters that stand for bytes: themselves if they can be seen, and otherwise those from U+0100 on.
    let mut others = '\u{100}'..;
    let letter = |byte: u8| match byte {
        b'!'..=b'~' | 0xA1..=0xAC | 0xAE.. => Some(char::from(byte)),
        _ => others.next(),
    };
    let letters: Vec<char> = (0..=u8::MAX).filter_map(letter).collect();
    let token = |(rank, line): (usize, &String)| {
        let (token, number) = line.split_once(' ')?;
        let bytes = BASE64_STANDARD.decode(token).ok()?;
        let fits = number.parse() == Ok(rank) && bytes.len() <= LONGEST / 2;
        fits.then(|| bytes.into_iter().map(|byte| letters[usize::from(byte)]).collect())
    };
    let tokens: Option<Vec<String>> = lines.iter().enumerate().map(token).collect();
    let what = "is no list of tokens in base64 and their ranks, in order";
    let tokens = tokens.ok_or(what)?;
    let scores: Vec<f32> = (0..tokens.len()).map(|rank| -(rank as f32)).collect();
    let merges = merges(&tokens, &scores)?;
    let count = tokens.len();
    let ids = tokens.into_iter().zip(0..).map(|(token, id)| (token, json!(id)));
    let model = json!({
        "type": "BPE", "vocab": ids.collect::<serde_json::Map<_, _>>(), "merges": merges, "ignore_merges": true,
        "fuse_unk": false, "byte_fallback": false,
    });
    let extra = (0..205).map(|i| format!("<|extra_{i}|>"));
    let special = [END, "<|im_start|>", "<|im_end|>"].map(str::to_owned).into_iter().chain(extra);
    let special = special.zip(count..).map(|(token, id)| {
        json!({"id": id, "content": token, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
            "special": true})
    });
    Ok((model, special.collect()))
}
