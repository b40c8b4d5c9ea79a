//! Texts as the tokens that transformers gives, from tokenizer.json and from the metadata of GGUF files.

use std::fs;

use regard_models::{Checkpoint, Input, Model, Tokenizer, pre_tokenizer};
use regard_tests::attention_files::safetensors;
use regard_tests::models::{FAMILIES, golden};
use safetensors::Dtype;
use serde_json::Value;
use tokenizers::{
    OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer as _, PreTokenizerWrapper,
};

use crate::common::{assert_says, copy, data, json, open, with_file};

fn ids(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|x| u32::try_from(x.as_u64().unwrap()).unwrap()).collect()
}

/// Encodes the texts of a list of cases, and counts them.
fn check(what: &str, tokenizer: &Tokenizer, expected: &Value) -> usize {
    if let (Some(text), Some(tokens)) = (expected["text"].as_str(), expected["tokens"].as_array()) {
        let input = tokenizer.encode(text, None).unwrap();
        let found: Vec<String> = input.ids.iter().map(|id| tokenizer.token(*id).unwrap()).collect();
        assert_eq!(
            found,
            tokens.iter().map(|token| token.as_str().unwrap()).collect::<Vec<_>>(),
            "{what}"
        );
    }
    let cases = expected["tokenizer_cases"].as_array().map_or(&[][..], Vec::as_slice);
    for case in cases {
        let text = case["text"].as_str().unwrap();
        assert_eq!(
            tokenizer.encode(text, None).unwrap().ids,
            ids(&case["ids"]),
            "{what}: {text:?}"
        );
    }
    cases.len()
}

#[test]
fn tokenizer_json_gives_the_tokens_of_transformers() {
    let mut cases = 0;
    for name in FAMILIES.iter().filter(|name| golden(name).join("tokenizer.json").exists()) {
        let expected = json(golden(name).join("expected.json"));
        cases += check(name, open(name).tokenizer().unwrap(), &expected);
    }
    assert!(cases >= 50, "{cases}");
    assert!(open("tiny-vit").tokenizer().is_none());
}

#[test]
fn the_metadata_of_a_gguf_file_gives_the_same_tokens() {
    let expected = json(golden("gguf/expected.json"));
    let mut cases = 0;
    for name in ["tiny-llama.Q8_0", "tiny-qwen2.Q8_0", "tiny-gpt2.Q8_0", "tiny-llama256.Q4_K"] {
        let model = open(&format!("gguf/{name}.gguf"));
        let (model_name, _) = name.split_once('.').unwrap();
        cases += check(name, model.tokenizer().unwrap(), &expected["models"][model_name]);
    }
    assert!(cases >= 20, "{cases}");
}

/// WordPiece, whose marks the converter writes in another way.
#[test]
fn the_words_of_a_gguf_file_of_bert_are_those_of_its_folder() {
    let [file, folder] =
        [Model::open(data("bert.gguf")).unwrap(), open("tiny-bert")].map(|model| {
            let texts = [
                ("The naïve CATS sat, didn't they?", None),
                ("a [MASK] cat 漢字", Some("tokens look at others")),
                ("zzzqqq\u{7f} xylophone", None),
                ("", None),
            ];
            let tokenizer = model.tokenizer().unwrap();
            texts.map(|(text, pair)| {
                let input = tokenizer.encode(text, pair).unwrap();
                (input.ids.clone(), input.types, tokenizer.decode(&input.ids).unwrap())
            })
        });
    assert_eq!(file, folder);
}

/// SentencePiece's Unigram, against `AutoTokenizer` on the model of SentencePiece that the converter has read.
#[test]
fn the_pieces_of_a_gguf_file_are_those_of_its_sentencepiece_model() {
    for (name, expected) in json(data("pieces.json")).as_object().unwrap() {
        let model = Model::open(data(&format!("{name}.gguf"))).unwrap();
        let tokenizer = model.tokenizer().unwrap();
        let texts: Vec<&str> = expected["texts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|text| text.as_str().unwrap())
            .collect();
        for (text, expected) in texts.iter().zip(expected["ids"].as_array().unwrap()) {
            assert_eq!(
                tokenizer.encode(text, None).unwrap().ids,
                ids(expected),
                "{name}: {text:?}"
            );
        }
        let pair = tokenizer.encode(texts[0], Some(texts[1])).unwrap();
        assert_eq!(
            (pair.ids, pair.types.iter().max()),
            (ids(&expected["pair"]), Some(&0)),
            "{name}"
        );
        let text = tokenizer.decode(&ids(&expected["ids"][0])).unwrap();
        let text = text.trim_start_matches("<s> ").trim_end_matches("</s>");
        assert_eq!(text, "the Cat sat on the mat", "{name}");
    }
}

#[test]
fn two_texts_have_types() {
    let model = open("tiny-bert");
    let input = model.tokenizer().unwrap().encode("the cat", Some("the mat")).unwrap();
    assert_eq!(input.types, [0, 0, 0, 0, 1, 1, 1]);
    assert!(model.pass().run(&input).is_ok());
}

/// The files of a case of `auto_tokenizer.json`: a golden model's, and those of the case in place of them or beside them. Keys in
/// its tokenizer.json are others; without it, the vocabulary is in the files that transformers wrote before.
fn files(case: &Value) -> Vec<(String, Vec<u8>)> {
    let own = |file: &str| json(golden(case["model"].as_str().unwrap()).join(file));
    let (mut files, mut tokenizer) = (case["files"].clone(), own("tokenizer.json"));
    let files = files.as_object_mut().unwrap();
    files.entry("config.json").or_insert_with(|| own("config.json"));
    let mut texts = Vec::new();
    match files.remove("tokenizer.json") {
        Some(Value::Null) => {
            let ids = tokenizer["model"]["vocab"].as_object().unwrap();
            let mut words: Vec<&String> = ids.keys().collect();
            words.sort_by_key(|word| ids[*word].as_u64());
            if tokenizer["model"]["type"] == "WordPiece" {
                let lines: Vec<String> = words.iter().map(|word| format!("{word}\n")).collect();
                texts.push(("vocab.txt".to_owned(), lines.concat()));
            } else {
                let pairs = tokenizer["model"]["merges"].as_array().unwrap().iter();
                let lines = pairs.map(|pair| match pair.as_array() {
                    Some(pair) => {
                        format!("{} {}\n", pair[0].as_str().unwrap(), pair[1].as_str().unwrap())
                    }
                    None => format!("{}\n", pair.as_str().unwrap()),
                });
                let lines: String =
                    core::iter::once("#version: 0.2\n".to_owned()).chain(lines).collect();
                texts.push(("merges.txt".to_owned(), lines));
                texts.push(("vocab.json".to_owned(), tokenizer["model"]["vocab"].to_string()));
            }
        }
        changed => {
            for (key, value) in changed.as_ref().and_then(Value::as_object).into_iter().flatten() {
                tokenizer[key] = value.clone();
            }
            texts.push(("tokenizer.json".to_owned(), tokenizer.to_string()));
        }
    }
    texts.extend(files.iter().map(|(name, content)| (name.clone(), content.to_string())));
    texts.into_iter().map(|(name, text)| (name, text.into_bytes())).collect()
}

/// The ids of `AutoTokenizer` for tokenizers with other settings beside them (`auto_tokenizer.py`).
#[test]
fn settings_beside_a_tokenizer_json_give_the_ids_of_transformers() {
    let expected = json(data("auto_tokenizer.json"));
    let texts: Vec<&str> =
        expected["texts"].as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect();
    let (mut cases, mut wrong) = (0, Vec::new());
    for case in expected["cases"].as_array().unwrap() {
        let weights = safetensors(&[("x", Dtype::F32, [1], vec![0; 4])], &[]);
        let files = files(case).into_iter().chain([("model.safetensors".to_owned(), weights)]);
        let checkpoint = Checkpoint::from_files("model", files).unwrap();
        let tokenizer = Tokenizer::of(&checkpoint, usize::MAX).unwrap().unwrap();
        let alone = texts.iter().zip(case["ids"].as_array().unwrap());
        let alone = alone
            .map(|(text, expected)| (*text, tokenizer.encode_as_is(text).unwrap(), ids(expected)));
        let around = [None, Some(texts[1])].into_iter().zip(case["around"].as_array().unwrap());
        let around = around.map(|(pair, expected)| {
            (texts[0], tokenizer.encode(texts[0], pair).unwrap().ids, ids(expected))
        });
        for (text, found, expected) in alone.chain(around) {
            cases += 1;
            if found != expected {
                wrong.push(format!(
                    "{} {text:?} {}: {found:?}, not {expected:?}",
                    case["model"], case["files"]
                ));
            }
        }
    }
    assert!(cases >= 1300, "{cases}");
    assert!(wrong.is_empty(), "{} of {cases}:\n{}", wrong.len(), wrong.join("\n"));
}

/// The first Qwen's file of tokens in base64 and their ranks, against the library that its repository takes.
#[test]
fn a_file_of_tiktoken_gives_its_ids() {
    let expected = &json(data("auto_tokenizer.json"))["tiktoken"];
    let lines = expected["file"].as_str().unwrap();
    let read = |lines: &str| {
        let weights = safetensors(&[("x", Dtype::F32, [1], vec![0; 4])], &[]);
        let settings = br#"{"tokenizer_class": "QWenTokenizer", "model_max_length": 8192}"#;
        let files = [
            ("config.json", br#"{"model_type": "qwen"}"#.to_vec()),
            ("model.safetensors", weights),
            ("tokenizer_config.json", settings.to_vec()),
            ("qwen.tiktoken", lines.as_bytes().to_vec()),
        ];
        Tokenizer::of(&Checkpoint::from_files("model", files).unwrap(), usize::MAX)
    };
    let tokenizer = read(lines).unwrap().unwrap();
    let texts = expected["texts"].as_array().unwrap();
    for (text, expected) in texts.iter().zip(expected["ids"].as_array().unwrap()) {
        let text = text.as_str().unwrap();
        assert_eq!(tokenizer.encode(text, None).unwrap().ids, ids(expected), "{text:?}");
    }
    assert_eq!(texts.len(), 6);
    for wrong in [lines.replacen(" 7\n", " 8\n", 1), lines.replacen("IQ==", "I", 1)] {
        let said = read(&wrong).unwrap_err().to_string();
        assert_says(&said, &["qwen.tiktoken: is no list of tokens in base64 and their ranks"]);
    }
}

/// Gemma 3's tokenizer has a token of images that the text model lacks.
#[test]
fn a_text_is_refused_only_if_it_has_a_token_that_the_model_lacks() {
    let checkpoint = Checkpoint::open(golden("tiny-bert")).unwrap();
    let tokenizer = Tokenizer::of(&checkpoint, 5).unwrap().unwrap();
    assert_eq!(tokenizer.encode("", None).unwrap().ids, [2, 3]);
    let said = tokenizer.encode("the cat", None).unwrap_err().to_string();
    assert_says(
        &said,
        &["tokenizer.json: the text has the token \"the\" of the id ", "it knows 5 tokens"],
    );
}

#[test]
fn a_tokenizer_that_cannot_be_read_does_not_close_a_model() {
    let checkpoint = with_file("tiny-llama", "tokenizer.json", &serde_json::json!({"model": 3}));
    let model = Model::load(&checkpoint).unwrap();
    assert!(model.tokenizer().is_none());
    assert!(model.pass().run(&Input::tokens([7, 8])).is_ok());
    let said = model.need_tokenizer().unwrap_err().to_string();
    assert_says(&said, &["tokenizer.json: is no tokenizer that can be read"]);
}

/// SentencePiece's own files are not read: the error has the line that converts them, or that gives the ids.
#[test]
fn a_folder_with_a_model_of_sentencepiece_alone_says_how_it_is_converted() {
    for (name, file, how) in [
        ("tiny-t5", "spiece.model", "save_pretrained("),
        ("tiny-llama", "tokenizer.model", "save_pretrained("),
        ("tiny-marian", "source.spm", "(TEXT).input_ids are the ids of a text"),
    ] {
        let folder = copy(name);
        fs::rename(folder.path().join("tokenizer.json"), folder.path().join(file)).unwrap();
        let model = Model::open(folder.path()).unwrap();
        let said = model.need_tokenizer().unwrap_err().to_string();
        let made = "is a model of SentencePiece, which is not read; transformers.AutoTokenizer.from_pretrained(";
        assert_says(&said, &[file, made, how]);
    }
}

#[test]
fn settings_beside_a_tokenizer_json_are_bounded() {
    let added = |content: serde_json::Value| {
        let read = |file: &str| fs::read(golden("tiny-bert").join(file)).unwrap();
        let files = [
            ("config.json", read("config.json")),
            ("model.safetensors", read("model.safetensors")),
            ("tokenizer.json", read("tokenizer.json")),
            ("tokenizer_config.json", content.to_string().into_bytes()),
        ];
        Tokenizer::of(&Checkpoint::from_files("model", files).unwrap(), 200)
    };
    let many: Vec<String> = (0..20_000).map(|i| format!("<{i}>")).collect();
    let said = added(serde_json::json!({"extra_special_tokens": many})).unwrap_err().to_string();
    assert_says(&said, &["tokenizer_config.json: adds 20000 tokens, and 16384 are the most"]);
    let said = added(serde_json::json!({"pad_token": "x".repeat(2000)})).unwrap_err().to_string();
    assert_says(&said, &["tokenizer_config.json: adds a token of 2000 bytes"]);
    let said = added(serde_json::json!([])).unwrap_err().to_string();
    assert_says(&said, &["tokenizer_config.json: is no JSON: it holds no object"]);
    // That of Gemma 3 has more than a megabyte.
    let large = "x".repeat(2 << 20);
    assert!(added(serde_json::json!({"chat_template": large})).is_ok());
}

/// Phi-3's special tokens take the white space after them along, but for three of them, as llama.cpp has it by the model's name.
#[test]
fn white_space_after_phi_3s_special_tokens_is_dropped() {
    let file = golden("gguf/tiny-llama256.Q4_K.gguf");
    let bytes = fs::read(&file).unwrap();
    let (name, other) = (b"tiny-llama256", b"tiny Phi-3 4k");
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap();
    let mut renamed = bytes.clone();
    renamed[at..at + name.len()].copy_from_slice(other);
    let tokenizer = |bytes: Vec<u8>| {
        let checkpoint = Checkpoint::from_files("tiny.gguf", [("tiny.gguf", bytes)]).unwrap();
        Tokenizer::of(&checkpoint, 352).unwrap().unwrap()
    };
    let (llama, phi3) = (tokenizer(bytes), tokenizer(renamed));
    let ids = |tokenizer: &Tokenizer, text: &str| tokenizer.encode_as_is(text).unwrap();
    assert_eq!(ids(&phi3, "</s>\n\n the"), ids(&llama, "</s>the"));
    assert_ne!(ids(&llama, "</s>\n\n the"), ids(&llama, "</s>the"));
    assert_eq!(ids(&phi3, "<s>\n\n the"), ids(&llama, "<s>\n\n the"));
}

/// The parts of a text. Those expected are found by the Python package `regex`, by the expressions of the models' own
/// tokenizer.json.
#[test]
fn each_pre_tokenizer_splits_as_the_models_own() {
    let text = "Hello WORLDs, it's McDonald'S 12345 naïve/x\n\n  a+=2;你好DON'T\tx_y!! 한글 ..ok ";
    for (pre, expected) in [
        (
            "gpt-2",
            "Hello| WORLDs|,| it|'s| McDonald|'|S| 12345| naïve|/|x|\n\n | a|+=|2|;|你好DON|'|T|\t|x|_|y|!!| 한글| ..|ok| ",
        ),
        (
            "refact",
            "Hello| WORLDs|,| it|'s| McDonald|'|S| |1|2|3|4|5| naïve|/|x|\n\n | a|+=|2|;|你好DON|'|T|\t|x|_|y|!!| 한글| ..|ok| ",
        ),
        (
            "deepseek-r1-qwen",
            "Hello| WORLDs|,| it|'s| McDonald|'S| |1|2|3|4|5| naïve|/x|\n\n| | a|+=|2|;你好DON|'T|\tx|_y|!!| 한글| ..|ok| ",
        ),
        (
            "dbrx",
            "Hello| WORLDs|,| it|'s| McDonald|'S| |123|45| naïve|/x|\n\n| | a|+=|2|;你好DON|'T|\tx|_y|!!| 한글| ..|ok| ",
        ),
        (
            "smaug-bpe",
            "Hello| WORLDs|,| it|'s| McDonald|'S| |123|45| naïve|/x|\n\n| | a|+=|2|;你好DON|'T|\tx|_y|!!| 한글| ..|ok| ",
        ),
        (
            "gpt-4o",
            "Hello| WORLDs|,| it's| Mc|Donald'S| |123|45| naïve|/x|\n\n| | a|+=|2|;你好|DON'T|\tx|_y|!!| 한글| ..|ok| ",
        ),
        (
            "llama4",
            "Hello| WORLDs|,| it's| Mc|Donald'S| |123|45| naïve|/x|\n\n| | a|+=|2|;你好|DON'T|\tx|_y|!!| 한글| ..|ok| ",
        ),
        (
            "tekken",
            "Hello| WORLDs|,| it|'s| Mc|Donald|'S| |1|2|3|4|5| naïve|/x|\n\n| | a|+=|2|;你好|DON|'T|\tx|_y|!!| 한글| ..|ok| ",
        ),
        (
            "seed-coder",
            "Hello| WORLDs|,| it|'s| McDonald|'S| |1|2|3|4|5| naïve|/x|\n\n| | a|+=|2|;你好DON|'T|\tx|_y|!!| 한글| ..|ok| ",
        ),
        (
            "deepseek-coder",
            "Hello| WORLDs|,| it|'|s| McDonald|'|S| |1|2|3|4|5| naïve|/|x|\n|\n| | a|+=|2|;|你好|DON|'|T|\tx|_|y|!!| |한글| ..|ok| ",
        ),
        (
            "deepseek-v3",
            "Hello| WORLDs|,| it|'s| McDonald|'S| |123|45| naïve|/x|\n\n| | a|+=|2|;|你好|DON|'T|\tx|_y|!!| 한글| ..|ok| ",
        ),
        (
            "falcon",
            "Hello| WORLDs|,| it|'|s| McDonald|'|S| |123|45| naïve|/|x|\n\n | a|+=|2|;|你|你|你好|好|DON|'|T|\t|x|_|y|!!| 한글| |..|ok| ",
        ),
        (
            "deepseek-llm",
            "Hello| WORLDs|,| it|'|s| McDonald|'|S| |1|2|3|4|5| na|ï|ve|/|x|\n|\n| | a|+=|2|;|你好|DON|'|T|\tx|_|y|!!| |한글| ..|ok| ",
        ),
        (
            "bloom",
            "Hello| WORLDs|,| it's| McDonald'S| 12345| naïve/x|\n\n | a+=2;你好DON'T|\t|x_y|!!| 한글| ..|ok| ",
        ),
        (
            "default",
            "Hello| WORLDs|,| it|'|s| McDonald|'|S| |123|45| naïve|/|x|\n\n | a|+=|2|;|你好DON|'|T|\t|x|_|y|!!| 한글| |..|ok| ",
        ),
        (
            "bailingmoe",
            "Hello| WORLDs|,| it|'s| McDonald|'S| |1|2|3|4|5| naïve|/x|\n\n| | a|+=|2|;你好DON|'T|\tx|_y|!!| 한글| ..|ok| ",
        ),
        (
            "qwen35",
            "Hello| WORLDs|,| it|'s| McDonald|'S| |1|2|3|4|5| naïve|/x|\n\n| | a|+=|2|;你好DON|'T|\tx|_y|!!| 한글| ..|ok| ",
        ),
        (
            "roberta-bpe",
            "Hello| WORLDs|,| it|'s| McDonald|'|S| 12345| naïve|/|x|\n\n | a|+=|2|;|你好DON|'|T|\t|x|_|y|!!| 한글| ..|ok| ",
        ),
        (
            "tiny_aya",
            "Hello| WORLDs|,| it's| Mc|Donald'S| |12|345| naïve|/x|\n\n| | a|+=|2|;你好|DON'T|\tx|_y|!!| 한글| ..|ok| ",
        ),
        (
            "superbpe",
            "Hello WORLDs, it's McDonald'S |12|345| naïve/x\n\n  a+=|2|;你好DON'T\tx_y!! 한글 ..ok ",
        ),
        (
            "afmoe",
            "Hello| WORLDs|,| it|'s| McDonald|'S| |12|345| naïve|/x|\n\n| | a|+=|2|;|你好|DON|'T|\tx|_y|!!| |한글| ..|ok| ",
        ),
        (
            "chameleon",
            "Hello| WORLDs|,| it|'|s| McDonald|'|S| |1|2|3|4|5| naïve|/|x|\n|\n|  |a|+|=|2|;|你好DON|'|T|\t|x|_|y|!|!| 한글| |.|.|ok| ",
        ),
    ] {
        let pre_tokenizer: PreTokenizerWrapper =
            serde_json::from_value(pre_tokenizer(pre).unwrap()).unwrap();
        let mut split = PreTokenizedString::from(text);
        pre_tokenizer.pre_tokenize(&mut split).unwrap();
        let splits = split.get_splits(OffsetReferential::Original, OffsetType::Byte);
        let found: Vec<&str> =
            splits.into_iter().map(|(_, (start, end), _)| &text[start..end]).collect();
        assert_eq!(found.join("|"), expected, "{pre}");
    }
    let said = pre_tokenizer("other").unwrap_err().to_string();
    assert!(said.contains("tokenizer.ggml.pre is \"other\""), "{said}");
}
