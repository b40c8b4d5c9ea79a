//! Tests that the files form a model that opens, reads its text and ends its stories.
#![expect(clippy::unwrap_used, reason = "a test fails with a panic")]

use regard_models::Model;
use regard_story::{FILES, TEXT};

fn model() -> Model {
    Model::open(env!("CARGO_MANIFEST_DIR")).unwrap()
}

#[test]
fn the_files_fit_together() {
    let model = model();
    assert!(model.unused().is_empty(), "{:?}", model.unused());
    let bytes: usize = FILES.iter().map(|(_, content)| content.len()).sum();
    assert!(bytes <= 3_000_000, "{bytes}");
}

#[test]
fn words_are_tokens_names_may_be_small_and_unknown_words_are_told() {
    let model = model();
    let tokenizer = model.tokenizer().unwrap();
    let tokens = |text: &str| -> Vec<String> {
        let ids = tokenizer.encode(text, None).unwrap().ids;
        ids.into_iter().map(|id| tokenizer.token(id).unwrap()).collect()
    };
    assert!(!tokens(TEXT).contains(&"[UNK]".to_owned()));
    assert_eq!(tokens("mia had a pizza."), ["[STORY]", "Mia", "had", "a", "[UNK]", "."]);
    let ids = tokenizer.encode(TEXT, None).unwrap().ids;
    assert_eq!(tokenizer.decode(&ids[1..]).unwrap(), TEXT);
}

#[test]
fn a_story_comes_to_its_end() {
    let model = model();
    let input = model.tokenizer().unwrap().encode(TEXT, None).unwrap();
    let story = model.generate(&input, 96 - input.ids.len(), &[]).unwrap();
    assert_eq!(story.last(), model.description().ends.first(), "{story:?}");
}
