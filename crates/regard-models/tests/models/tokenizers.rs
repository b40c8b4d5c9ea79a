//! Texts as the tokens that transformers gives, from tokenizer.json and from the metadata of GGUF files.

use std::fs;

use regard_models::{Checkpoint, Tokenizer};
use regard_tests::models::{FAMILIES, golden};
use serde_json::Value;

use crate::common::{json, open};

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
    for name in FAMILIES.iter().filter(|name| **name != "tiny-vit") {
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

#[test]
fn two_texts_have_types() {
    let model = open("tiny-bert");
    let input = model.tokenizer().unwrap().encode("the cat", Some("the mat")).unwrap();
    assert_eq!(input.types, [0, 0, 0, 0, 1, 1, 1]);
    assert!(model.pass().run(&input).is_ok());
}

#[test]
fn a_tokenizer_with_tokens_that_the_model_lacks_is_refused() {
    let checkpoint = Checkpoint::open(golden("tiny-bert")).unwrap();
    let said = Tokenizer::of(&checkpoint, 100).unwrap_err().to_string();
    assert!(
        said.contains("tokenizer.json: the token ")
            && said.ends_with("but the model knows 100 tokens"),
        "{said}"
    );
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
