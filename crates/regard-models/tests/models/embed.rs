//! The refusals of `Model::embed`, which say what would fit.

use regard_models::Model;
use regard_models::embed::{BoardMemory, EmbedOptions, Stored};

use crate::common::{bundled, open};

fn options(stored: Option<Stored>, context: usize, flash: usize, ram: usize) -> EmbedOptions {
    let mut options = EmbedOptions::new("story", context);
    options.stored = stored;
    options.part = BoardMemory { flash: Some(flash << 10), ram: Some(ram << 10) };
    options
}

#[test]
fn a_model_that_does_not_fit_is_refused_with_what_would() {
    let story = Model::open(bundled("story")).unwrap();
    let refused = |options: &EmbedOptions| story.embed(options).unwrap_err().to_string();
    let fits = story.embed(&options(None, 96, 512, 256)).unwrap();
    assert_eq!((fits.stored, fits.flash), (Stored::Bf16, 425_216));
    for (options, part) in [
        (options(Some(Stored::F32), 96, 512, 256), "; --weights bf16 takes 459 KiB and fits"),
        (options(None, 96, 300, 256), "; --weights int8 takes"),
        (options(None, 96, 100, 256), ", with --weights int8"),
        // 425,216 bytes of weights, 3.7 KB of words and the code's 40 KiB.
        (options(None, 96, 458, 256), "; --weights int8 takes"),
        (options(Some(Stored::Int8), 96, 274, 256), "; --no-words takes"),
        (options(None, 96, 512, 128), "; --weights int8 takes"),
        (options(None, 96, 512, 8), "a context of 1 token takes"),
    ] {
        let said = refused(&options);
        assert!(said.contains(part), "{said}");
    }
    let said = refused(&options(None, 96, 512, 128));
    let context = said.split("; --context ").nth(1).unwrap().trim_end_matches(" fits");
    let context: usize = context.parse().unwrap();
    assert!(story.embed(&options(None, context, 512, 128)).is_ok());
    assert!(story.embed(&options(None, context + 1, 512, 128)).is_err());
    let mut wordless = options(Some(Stored::Int8), 96, 274, 256);
    wordless.words = false;
    let wordless = story.embed(&wordless).unwrap();
    assert_eq!(wordless.words, 0);
    assert!(wordless.files.iter().all(|(path, _)| *path != "src/tokens.rs"));
    let mut named = options(None, 96, 512, 256);
    named.name = "7 stories".into();
    assert!(refused(&named).contains("is not a crate's name"));
    let none = refused(&options(None, 0, 512, 256));
    assert!(none.contains("at least one token"), "{none}");
}

#[test]
fn a_model_that_the_runtime_does_not_compute_is_refused_by_its_part() {
    for (name, part) in [
        ("tiny-bert", "attention to later tokens"),
        ("tiny-modernbert", "attention to later tokens"),
        ("tiny-t5", "an encoder"),
        ("tiny-gemma2", "which the embedded runtime does not compute"),
        ("tiny-granite", "a head other than one product"),
        ("tiny-olmo2", "norms of its sublayers' outputs"),
        ("tiny-smollm3", "layers that turn differently"),
        ("tiny-qwen3", "norms of queries and keys"),
        ("tiny-gpt_oss", "experts"),
        ("tiny-gpt_neox", "parallel sublayers"),
    ] {
        let said = open(name).embed(&options(None, 4, 512, 256)).unwrap_err().to_string();
        assert!(said.contains(part), "{name}: {said}");
    }
    assert!(open("tiny-gpt2").embed(&options(None, 4, 512, 256)).is_ok());
}
