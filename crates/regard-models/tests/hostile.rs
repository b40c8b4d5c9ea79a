//! Files that are made to harm their reader: none takes more memory than 3 × the file and 64 MiB, hangs, or panics.
#![expect(clippy::unwrap_used, reason = "a test fails with a panic")]

use core::time::Duration;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use peak_alloc::PeakAlloc;
use regard_models::{ChatTemplate, Checkpoint, Error, Model, Tokenizer};
use regard_tests::attention_files::safetensors;
use regard_tests::models::golden;
use safetensors::Dtype;
use serde_json::{Value, json};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// One test at a time, with all that it allocates: tests run in threads of one process, whose memory is counted as a whole.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The result of `work`, which takes at most so many bytes of memory.
fn within<T>(most: usize, what: &str, work: impl FnOnce() -> T) -> T {
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let made = work();
    let peak = MEMORY.peak_usage() - before;
    assert!(peak <= most, "{what} took {peak} bytes of memory, more than {most}");
    made
}

/// Reads the model of these files, and its tokenizer for `vocabulary` tokens. Asserts that memory is bounded.
fn read(
    files: Vec<(&'static str, Vec<u8>)>,
    vocabulary: usize,
) -> Result<Option<Tokenizer>, Error> {
    let bytes: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    // A vocabulary takes more than its text.
    let expansion = |(name, bytes): &(&str, Vec<u8>)| match *name {
        "tokenizer.json" => 24 * bytes.len(),
        "model.gguf" => 80 * bytes.len(),
        _ => 0,
    };
    let more: usize = files.iter().map(expansion).sum();
    within(3 * bytes + more + (64 << 20), &format!("{bytes} bytes"), || {
        let checkpoint = Checkpoint::from_files("model", files)?;
        Tokenizer::of(&checkpoint, vocabulary)
    })
}

fn assert_refused(files: Vec<(&'static str, Vec<u8>)>, part: &str) {
    let said = read(files, 1 << 30).unwrap_err().to_string();
    assert!(said.contains(part), "{said:?} does not say {part:?}");
}

/// A safetensors file of so many tensors without elements.
fn tensors(count: usize) -> Vec<u8> {
    let entry =
        |i: usize| format!("\"{i:x}\":{{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[0,0]}}");
    let header = format!("{{{}}}", (0..count).map(entry).collect::<Vec<_>>().join(","));
    [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat()
}

fn config() -> (&'static str, Vec<u8>) {
    ("config.json", b"{\"model_type\": \"gpt2\"}".to_vec())
}

/// A model's folder with these settings, and zeros in tensors of these shapes.
fn zeros(config: &Value, shapes: &[(&'static str, &[usize])]) -> Vec<(&'static str, Vec<u8>)> {
    let bytes = |shape: &[usize]| vec![0; 2 * shape.iter().product::<usize>()];
    let tensors: Vec<_> =
        shapes.iter().map(|(name, shape)| (*name, Dtype::F16, shape, bytes(shape))).collect();
    let weights = safetensors(&tensors, &[]);
    vec![("config.json", config.to_string().into_bytes()), ("model.safetensors", weights)]
}

/// A GGUF file whose header is a vocabulary.
fn gguf(model: &str, tokens: &[String]) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let (float, string, array) = (6_u32.to_le_bytes(), 8_u32.to_le_bytes(), 9_u32.to_le_bytes());
    let key = |name: &str| text(&format!("tokenizer.ggml.{name}"));
    let list = |name: &str, kind: [u8; 4], items: Vec<Vec<u8>>| {
        let count = (items.len() as u64).to_le_bytes();
        [&key(name)[..], &array, &kind, &count, &items.concat()].concat()
    };
    [
        &b"GGUF"[..],
        &3_u32.to_le_bytes(),
        &0_u64.to_le_bytes(),
        &4_u64.to_le_bytes(),
        &[&key("model")[..], &string, &text(model)].concat(),
        &list("tokens", string, tokens.iter().map(|token| text(token)).collect()),
        &list("merges", string, Vec::new()),
        &list("scores", float, vec![vec![0; 4]; tokens.len()]),
    ]
    .concat()
}

/// So many short tokens.
fn short(count: usize) -> Vec<String> {
    (0..count).map(|i| format!("{i:x}")).collect()
}

/// A tokenizer.json of so many short tokens.
fn tokenizer(count: usize) -> Vec<u8> {
    let vocabulary = (0..count).map(|i| format!("\"{i:x}\":{i}")).collect::<Vec<_>>().join(",");
    format!("{{\"version\":\"1.0\",\"model\":{{\"type\":\"BPE\",\"vocab\":{{{vocabulary}}},\"merges\":[]}}}}").into_bytes()
}

#[test]
fn a_long_header_of_safetensors_is_read_or_refused_in_bounded_memory() {
    let _alone = alone();
    let files = |count| vec![config(), ("model.safetensors", tensors(count))];
    read(files(40_000), 1).unwrap();
    assert_refused(files(400_000), "are the most for a file of its length");
}

/// A layer keeps more than its numbers: its shape, and panels of 16 outputs. A file has few numbers in many experts, or one output
/// for many inputs.
#[test]
fn many_small_layers_are_refused_in_bounded_memory() {
    let _alone = alone();
    let config = |width: usize, experts: u64| {
        json!({
            "model_type": "qwen3_moe", "hidden_size": width, "num_hidden_layers": 1, "num_attention_heads": 1,
            "num_key_value_heads": 1, "head_dim": 2, "intermediate_size": 1, "vocab_size": 1, "tie_word_embeddings": false,
            "num_experts": experts, "num_experts_per_tok": 1, "moe_intermediate_size": 1,
        })
    };
    let dense = |width: usize| -> Vec<(&'static str, Vec<usize>)> {
        vec![
            ("model.embed_tokens.weight", vec![1, width]),
            ("lm_head.weight", vec![1, width]),
            ("model.norm.weight", vec![width]),
            ("model.layers.0.input_layernorm.weight", vec![width]),
            ("model.layers.0.post_attention_layernorm.weight", vec![width]),
            ("model.layers.0.self_attn.q_proj.weight", vec![2, width]),
            ("model.layers.0.self_attn.k_proj.weight", vec![2, width]),
            ("model.layers.0.self_attn.v_proj.weight", vec![2, width]),
            ("model.layers.0.self_attn.o_proj.weight", vec![width, 2]),
            ("model.layers.0.self_attn.q_norm.weight", vec![2]),
            ("model.layers.0.self_attn.k_norm.weight", vec![2]),
        ]
    };
    let mixture = |width: usize, experts: usize| {
        [
            dense(width),
            vec![
                ("model.layers.0.mlp.gate.weight", vec![experts, width]),
                ("model.layers.0.mlp.experts.gate_up_proj", vec![experts, 2, width]),
                ("model.layers.0.mlp.experts.down_proj", vec![experts, width, 1]),
            ],
        ]
        .concat()
    };
    for (width, experts, announced, part) in [
        (2, 3, 3, None),
        (2, 3, u64::from(u32::MAX), Some("mlp.gate.weight has the shape [3, 2]")),
        (2, 1 << 20, 1 << 20, Some("too many small layers")),
        (1 << 20, 2, 2, Some("too many small layers")),
    ] {
        let shapes = mixture(width, experts);
        let shapes: Vec<_> = shapes.iter().map(|(name, shape)| (*name, &shape[..])).collect();
        let files = zeros(&config(width, announced), &shapes);
        let bytes: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
        let loaded = within(3 * bytes + (64 << 20), &format!("{experts} experts"), || {
            let checkpoint = Checkpoint::from_files("model", files)?;
            Model::load(&checkpoint)
        });
        match (loaded, part) {
            (Ok(_), None) => {}
            (Err(said), Some(part)) => assert!(said.to_string().contains(part), "{said}"),
            (other, part) => panic!("{part:?}: {other:?}"),
        }
    }
}

/// A model of few weights may have a vocabulary of many words.
#[test]
fn a_long_list_of_tokens_is_read_in_bounded_memory() {
    let _alone = alone();
    assert!(read(vec![("model.gguf", gguf("gpt2", &short(150_000)))], 1 << 30).unwrap().is_some());
    let files = |tokenizer: Vec<u8>| {
        vec![config(), ("model.safetensors", tensors(1)), ("tokenizer.json", tokenizer)]
    };
    assert!(read(files(tokenizer(150_000)), 1 << 30).unwrap().is_some());
    let large = files(vec![b' '; (64 << 20) + 1]);
    assert_refused(large, "tokenizer.json: has more than the 67108864 bytes");
}

/// Each token is made of two others in as many ways as it has letters.
#[test]
fn tokens_that_are_made_of_each_other_are_refused() {
    let _alone = alone();
    let tokens: Vec<_> =
        ('a'..='z').flat_map(|c| (1..=500).map(move |n| c.to_string().repeat(n))).collect();
    assert_refused(vec![("model.gguf", gguf("llama", &tokens))], "in too many ways");
}

#[test]
fn a_long_header_of_gguf_is_refused() {
    let _alone = alone();
    let large = gguf("gpt2", &["x".repeat(64 << 20)]);
    assert_refused(vec![("model.gguf", large)], "its header has more than 67108864 bytes");
}

/// A GGUF file of these settings, each after its key `a`, and of these tensors.
fn gguf_of(settings: &[Vec<u8>], tensors: &[(&str, &[u64], u32, u64)], numbers: usize) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let counts = [tensors.len(), settings.len()].map(|count| (count as u64).to_le_bytes());
    let mut file = [&b"GGUF"[..], &3_u32.to_le_bytes(), &counts.concat()].concat();
    for value in settings {
        file.extend([text("a"), value.clone()].concat());
    }
    for (name, shape, kind, offset) in tensors {
        file.extend([text(name), (shape.len() as u32).to_le_bytes().to_vec()].concat());
        file.extend(shape.iter().flat_map(|n| n.to_le_bytes()));
        file.extend([&kind.to_le_bytes()[..], &offset.to_le_bytes()].concat());
    }
    file.resize(file.len().next_multiple_of(32) + numbers, 0);
    file
}

/// What a header announces is compared with the file before memory is reserved.
#[test]
fn a_gguf_header_that_announces_too_much_is_refused_in_bounded_memory() {
    let _alone = alone();
    let long = |parts: &[&[u8]]| parts.concat();
    let (text, list) = (8_u32.to_le_bytes(), 9_u32.to_le_bytes());
    let (most, many) = (u64::MAX.to_le_bytes(), (1_u64 << 40).to_le_bytes());
    for (value, said) in [
        (long(&[&text, &most]), "where the file ends"),
        (long(&[&text, &many]), "where the file ends"),
        (long(&[&list, &4_u32.to_le_bytes(), &many]), "where the file ends"),
        (long(&[&list, &list, &many]), "where the file ends"),
        (long(&[&text, &1_u64.to_le_bytes(), &[0xff]]), "is no UTF-8"),
        (long(&[&7_u32.to_le_bytes(), &[2]]), "is 2, which is no boolean"),
        (long(&[&13_u32.to_le_bytes(), &[0; 8]]), "has the type 13"),
        ([&list[..], &long(&[&list, &1_u64.to_le_bytes()]).repeat(9)].concat(), "lists in lists"),
    ] {
        assert_refused(vec![("model.gguf", gguf_of(&[value], &[], 64))], said);
    }
    let flag = long(&[&7_u32.to_le_bytes(), &[1]]);
    let twice = gguf_of(&[flag.clone(), flag], &[], 0);
    assert_refused(vec![("model.gguf", twice)], "the setting a is in the file twice");
    let mut counts = gguf_of(&[], &[], 0);
    counts[8..24].fill(0xff);
    assert_refused(vec![("model.gguf", counts)], "where the file ends");

    let one: &[u64] = &[8];
    for (tensors, said) in [
        (&[("x", one, 0, 0), ("x", one, 0, 32)][..], "the tensor x is in the file twice"),
        (&[("x", &[16], 0, 0), ("y", one, 0, 32)], "the tensor x overlaps the tensor y"),
        (&[("x", one, 0, 4)], "the tensor x begins at byte 4, which is no multiple of 32"),
        (&[("x", one, 0, 64)], "the tensor x ends at byte"),
        (&[("x", one, 0, u64::MAX - 31)], "the file is cut short"),
        (&[("x", &[u64::MAX, u64::MAX], 0, 0)], "the tensor x of the shape"),
        (&[("x", &[33], 8, 0)], "rows that are not blocks of 32 numbers"),
        (&[("x", &[1; 9], 0, 0)], "the tensor x has 9 dimensions"),
    ] {
        assert_refused(vec![("model.gguf", gguf_of(&[], tensors, 64))], said);
    }
}

#[test]
fn long_settings_are_refused_in_bounded_memory() {
    let _alone = alone();
    let files = |count| {
        let config = format!("{{\"a\": [0{}]}}", ",0".repeat(count));
        vec![("config.json", config.into_bytes()), ("model.safetensors", tensors(1))]
    };
    assert_refused(files(10_000_000), "config.json: has more than the 1048576 bytes");
    read(files(520_000), 1).unwrap();
}

#[test]
fn a_token_of_many_letters_is_refused() {
    let _alone = alone();
    let mut file = fs::read(golden("gguf/tiny-llama.Q8_0.gguf")).unwrap();
    // The first token becomes longer, and the file with it.
    let at = |file: &[u8], part: &[u8]| file.windows(part.len()).position(|w| w == part).unwrap();
    let first = at(&file, b"tokenizer.ggml.tokens") + b"tokenizer.ggml.tokens".len() + 4 + 4 + 8;
    let old = u64::from_le_bytes(file[first..first + 8].try_into().unwrap()) as usize;
    let long = "a".repeat(100_000 / 32 * 32 + old % 32); // the tensors stay aligned
    let token = [&(long.len() as u64).to_le_bytes(), long.as_bytes()].concat();
    file.splice(first..first + 8 + old, token);
    assert_refused(vec![("model.gguf", file)], "and 512 are the most");
}

/// Applies a template where a page has 1 MB of stack. Asserts that memory is bounded.
fn applied(template: &str) -> Result<String, Error> {
    let start: String = template.chars().take(80).collect();
    within(3 * template.len() + (64 << 20), &start, || {
        std::thread::scope(|scope| {
            let apply = || ChatTemplate::new(template, "", "").prompt(&[]);
            let thread = std::thread::Builder::new().stack_size(1 << 20);
            thread.spawn_scoped(scope, apply).unwrap().join().unwrap()
        })
    })
}

/// Texts, lists and outputs that double, and some that are long at once.
#[test]
fn what_a_chat_template_makes_has_bounded_memory() {
    let _alone = alone();
    let doubled = |start: &str, again: &str, end: &str| {
        format!(
            "{{% set n = namespace(x={start}) %}}{{% for i in range(40) %}}{{% set n.x = {again} %}}{{% endfor %}}{end}"
        )
    };
    for template in [
        doubled("'ab'", "n.x ~ n.x", ""),
        doubled("'ab'", "n.x + n.x", ""),
        doubled("'ab'", "n.x * 2", ""),
        doubled("[1, 2]", "n.x + n.x", ""),
        doubled("[1, 2]", "n.x * 2", ""),
        doubled("(1, 2)", "n.x + n.x", ""),
        doubled("[1, 2]", "(n.x + n.x) | list", "{{ n.x }}"),
        doubled("'ab'", "n.x | replace('a', 'aab')", "{{ n.x }}"),
        doubled("'ab'", "n.x.replace('', n.x)", ""),
        doubled("'ab'", "n.x.join([n.x, n.x])", ""),
        doubled("'ab'", "[n.x, n.x] | join(n.x)", ""),
        doubled("'ab'", "'%s%s' % (n.x, n.x)", ""),
        doubled("'ab'", "'{0}{0}'.format(n.x)", ""),
        doubled("'ab'", "(n.x ~ '\\n' ~ n.x) | indent(n.x | length)", ""),
        doubled("'ab'", "[n.x, n.x] | tojson", ""),
        doubled("[1]", "[n.x, n.x]", "{{ n.x }}"),
        doubled("[1]", "[n.x, n.x]", "{{ n.x == n.x }}"),
        // 2³⁰ leaves of 30 levels.
        doubled("[1]", "[n.x, n.x]", "{{ n.x | tojson }}").replace("range(40)", "range(30)"),
        doubled("[1]", "{'a': n.x, 'b': n.x}", "{{ n.x ~ '' }}").replace("range(40)", "range(30)"),
        doubled("[1]", "[n.x, n.x]", "{{ n.x == [n.x[0], [n.x[0][0], 1]] }}")
            .replace("range(40)", "range(30)"),
        "{{ [1] * 100000000 ~ '' }}".to_owned(),
        "{{ 'abc' * 1000000 * 1000000 }}".to_owned(),
        "{% set s = 'abcdefgh' * 100000 %}{{ [s] * 1000 }}".to_owned(),
        "{% set s = 'abcdefgh' * 100000 %}{{ ([s] * 1000) | join }}".to_owned(),
        "{% for i in range(99999) %}{% for j in range(99999) %}{{ 'abcdefgh' * 8 }}{% endfor %}{% endfor %}".to_owned(),
        "{{ 'ab' * 20000000 }}".to_owned(),
        "{{ (',' * 3000000).split(',') }}".to_owned(),
        "{{ (' a' * 1500000).split() }}".to_owned(),
        "{{ ('ab' * 2000000)[::2] }}".to_owned(),
        "{{ ([3, 1.5, 9007199254740993, 9007199254740992.0, 2, 'a'] * 20) | sort }}".to_owned(),
        "{{ [1] | tojson(indent=3000000000) }}".to_owned(),
        "{{ [[[[1]]]] | tojson(indent='        ' * 100000) }}".to_owned(),
        "{{ range(99999999) }}".to_owned(),
        "{% set x %}{% for i in range(99999) %}{{ range(99999) | list }}{% endfor %}{% endset %}{{ x ~ x }}".to_owned(),
        "{% macro m(x) %}{{ caller() }}{{ caller() }}{% endmacro %}{% macro r(x) %}{% call m() %}{{ r(x) }}{% endcall %}{% endmacro %}{{ r(1) }}".to_owned(),
    ] {
        assert!(applied(&template).is_err(), "{template}");
    }
}

/// Trees and values of any depth, and values that contain themselves, in a stack of 1 MB.
#[test]
fn what_a_chat_template_nests_has_bounded_stack() {
    let _alone = alone();
    let namespace = "{% set n = namespace() %}";
    for template in [
        "{% set n.x = n %}{{ n }}",
        "{% set n.x = n %}{{ n | tojson }}",
        "{% set n.x = [n] %}{{ n.x }}",
        "{% set n.x = {'a': n} %}",
        "{% set n.x = n.items %}{% set n.x = namespace(n=n) %}{{ n.x.n }}",
        "{% set n.x = [] %}{% for i in range(50000) %}{% set n.x = [n.x] %}{% endfor %}",
        "{% set n.x = {} %}{% for i in range(50000) %}{% set n.x = {'a': n.x} %}{% endfor %}",
        "{% set n.x = () %}{% for i in range(50000) %}{% set n.x = (n.x,) %}{% endfor %}",
        "{% set n.x = [] %}{% for i in range(50000) %}{% set n.x = [n.x] | map('list') %}{% endfor %}{{ n.x }}",
        "{% set n.x = [] %}{% for i in range(50000) %}{% set n.x = [n.x.count] %}{% endfor %}",
        "{{ ['a'] | map(*(['map'] * 90000)) }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% for i in [1] %}{% if true %}{% set x %}{{ [[[[m()]]]] }}{% endset %}{% endif %}{% endfor %}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}",
        "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% set n.f = [] %}{% macro m() %}{{ n.m() }}{% endmacro %}{% set n.m = m %}{{ m() }}",
    ] {
        assert!(applied(&[namespace, template].concat()).is_err(), "{template}");
    }
    // As many parts as a template may have.
    let chain = |start: &str, part: &str, end: &str| {
        [start, &part.repeat(50_000.min(262_000 / part.len())), end].concat()
    };
    // These are lists for the reader, or are refused: none may end the program.
    for template in [
        chain("{{ ", "not ", "1 }}"),
        chain("{{ 1", "+1", " }}"),
        chain("{{ 1", "~1", " }}"),
        chain("{{ 1", "**1", " }}"),
        chain("{{ 1", " and 1", " }}"),
        chain("{{ 1", " < 2", " }}"),
        chain("{{ ", "-", "1 }}"),
        chain("{{ 1", " if 1 else 1", " }}"),
        chain("{% if 0 %}", "{% elif 0 %}", "{% endif %}"),
        chain("{{ 'a'", "|upper", " }}"),
        chain("{{ messages", ".b", " }}"),
        chain("{{ messages", "[0]", " }}"),
        chain("{{ messages", "[0:1]", " }}"),
        chain("{{ messages", "()", " }}"),
        chain("{{ 1", " is odd", " }}"),
        chain("{% set x", "|upper", " %}{% endset %}"),
        chain("{% set x", ", x", " = 1 %}"),
        chain("{{ ", "(", "1"),
        chain("{{ ", "[", "1"),
        chain("{{ ", "{1:", "1"),
        chain("{{ x", "[1", ""),
        chain("{{ ", "f(", "1"),
        chain("{{ x", "|f(1", ""),
        chain("{{ 1", " is eq(1", ""),
        chain("", "{% if 1 %}", ""),
        chain("", "{% for i in x %}", ""),
        chain("", "{% set x %}", ""),
        chain("", "{% macro m() %}", ""),
        chain("{% for ", "(", "a"),
        chain("", "{", ""),
        chain("", "{#", ""),
    ] {
        let _ = applied(&template);
    }
    let said = applied(&"a".repeat(300_000)).unwrap_err().to_string();
    assert!(said.contains("it has 300000 bytes, and 262144 are the most"), "{said}");
}

#[test]
fn a_decoder_with_wrong_syntax_is_refused() {
    let _alone = alone();
    for wrong in ["{\"ty\npe\": 1}", "{\"type\": \"ByteLevel\"", "1e999", "[", "nul"] {
        let text = format!("{{\"version\": \"1.0\", \"decoder\": {wrong}, \"model\": {{}}}}");
        let files = with_tokenizer(text.into_bytes());
        assert_refused(files, "tokenizer.json: is no tokenizer that can be read");
    }
}

/// tiny-bert with another tokenizer.json.
fn with_tokenizer(json: Vec<u8>) -> Vec<(&'static str, Vec<u8>)> {
    let file = |name: &'static str| (name, fs::read(golden("tiny-bert").join(name)).unwrap());
    vec![file("config.json"), file("model.safetensors"), ("tokenizer.json", json)]
}

/// tiny-bert with another part of its tokenizer.json, whose class takes that file as it is.
fn changed(pointer: &str, value: Value) -> Result<Option<Tokenizer>, Error> {
    let json = fs::read(golden("tiny-bert/tokenizer.json")).unwrap();
    let mut json: Value = serde_json::from_slice(&json).unwrap();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = json.pointer_mut(parent).unwrap();
    match parent.as_array_mut() {
        Some(items) => items[key.parse::<usize>().unwrap()] = value,
        None => parent[key] = value,
    }
    let mut files = with_tokenizer(serde_json::to_vec(&json).unwrap());
    let class = json!({"tokenizer_class": "PreTrainedTokenizerFast"});
    files.push(("tokenizer_config.json", class.to_string().into_bytes()));
    read(files, 1 << 30)
}

/// The crate `tokenizers` panics on each of these.
#[test]
fn a_tokenizer_that_contradicts_itself_is_refused() {
    let _alone = alone();
    let assert_said = |said: Error, part: &str| {
        let said = said.to_string();
        assert!(said.contains("tokenizer.json: ") && said.contains(part), "{said}");
    };

    // 4 bytes announce a table of no entries: the first one is outside.
    let charsmap = |base64: &str| json!({"type": "Precompiled", "precompiled_charsmap": base64});
    for (pointer, value) in [
        ("/normalizer", charsmap("!")),
        ("/normalizer", charsmap("AAAAAA==")),
        ("/post_processor/special_tokens", json!({})),
        ("/post_processor/single/1/Sequence/id", json!("B")),
    ] {
        assert_said(changed(pointer, value).unwrap_err(), "is no tokenizer that can be read");
    }
    let strip = json!({"type": "Strip", "content": "e", "start": 0, "stop": 99});
    let tokenizer = changed("/decoder", strip).unwrap().unwrap();
    let ids = tokenizer.encode("e", None).unwrap().ids;
    assert_said(tokenizer.decode(&ids).unwrap_err(), "the tokens are not understood");
}

/// Each of these has some kilobytes and would make gigabytes of a text, or of itself.
#[test]
fn a_tokenizer_that_grows_is_refused() {
    let _alone = alone();
    let replace = |old: &str, new: &str| json!({"type": "Replace", "pattern": {"String": old}, "content": new});
    let regex =
        |regex: &str| json!({"type": "Replace", "pattern": {"Regex": regex}, "content": ""});
    let split = |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
    let sequence = |steps: &str, step: Value, count: usize| json!({"type": "Sequence", (steps): vec![step; count]});
    let times = |step, count| sequence("normalizers", step, count);
    let before = |step, count| sequence("pretokenizers", step, count);
    let after = |step, count| sequence("decoders", step, count);
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let token = json!({"SpecialToken": {"id": "[X]", "type_id": 0}});
    let template = |pieces: Vec<Value>, ids: usize| {
        let token = json!({"id": "[X]", "ids": vec![1; ids], "tokens": vec!["[X]"; ids]});
        json!({"type": "TemplateProcessing", "single": pieces, "pair": [], "special_tokens": {"[X]": token}})
    };
    let twice = template(vec![text.clone(); 2], 1);
    let level = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": false});
    // A table that puts 5000 letters in a character's place.
    let charsmap = [&4_u32.to_le_bytes()[..], &[0; 4], &[b'a'; 5000]].concat();
    let charsmap = BASE64_STANDARD.encode(charsmap);
    let long = "a".repeat(100_000);
    let unigram = |tokens: Vec<String>| json!({"type": "Unigram", "unk_id": 0, "vocab": tokens.into_iter().map(|t| json!([t, -1.0])).collect::<Vec<_>>()});
    let added = |content: String| json!([{"id": 60, "content": content, "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}]);
    let prepend = json!({"type": "Prepend", "prepend": "a".repeat(200)});
    let precompiled = json!({"type": "Precompiled", "precompiled_charsmap": charsmap});
    let metaspace = json!({"type": "Metaspace", "replacement": "\u{1f600}", "prepend_scheme": "always", "split": true});
    let repeated = json!({"type": "Sequence", "processors": vec![twice; 33]});
    let tree = unigram((0..1000).map(|i| format!("{i:04}{}", "a".repeat(900))).collect());
    for (pointer, value, part) in [
        ("/normalizer", times(replace("a", "aa"), 26), "times as long"),
        ("/normalizer", times(replace("a", &"a".repeat(1000)), 3), "times as long"),
        ("/normalizer", times(replace("", "a"), 26), "times as long"),
        ("/normalizer", times(regex("a*"), 1000), "steps"),
        ("/normalizer", times(prepend, 4), "times as long"),
        ("/normalizer", times(json!({"type": "NFKD"}), 26), "times as long"),
        ("/normalizer", times(json!({"type": "ByteLevel"}), 26), "times as long"),
        ("/normalizer", times(times(times(replace("a", "aa"), 3), 3), 3), "times as long"),
        ("/normalizer", precompiled, "times as long"),
        ("/normalizer", regex(&"a".repeat(10_000)), "bytes of regular expressions"),
        ("/normalizer", regex("((\\p{L}{100}){100}){100}"), "repetitions"),
        ("/pre_tokenizer", split(&"(?=a)\\p{L}".repeat(1000)), "bytes of regular expressions"),
        ("/pre_tokenizer", split("(?=a)(\\p{L}{99}){99}"), "repetitions"),
        ("/pre_tokenizer", before(level, 26), "times as long"),
        ("/pre_tokenizer", before(metaspace, 26), "times as long"),
        ("/decoder", after(replace("a", "aa"), 26), "times as long"),
        ("/post_processor", template(vec![token; 2000], 2000), "special tokens"),
        ("/post_processor", template(vec![text; 10_000], 1), "repeats a text"),
        ("/post_processor", repeated, "repeats a text"),
        ("/model/unk_token", json!(long), "has a token of 100000 bytes"),
        ("/model/vocab", json!({"[UNK]": 0, (&long): 1}), "has a token of 100000 bytes"),
        ("/model", unigram(vec!["a".into(), long.clone()]), "has a token of 100000 bytes"),
        ("/model", tree, "a tree of"),
        ("/added_tokens", added(long), "has a token of 100000 bytes"),
        ("/model/x", json!(vec![0; 1_000_000]), "values, which is too many"),
    ] {
        let start: String = value.to_string().chars().take(200).collect();
        let said = changed(pointer, value).err().map(|said| said.to_string()).unwrap_or(start);
        assert!(said.contains(part), "{said:?} does not say {part:?}");
    }
    // These are taken or refused within bounds.
    let padding = json!({"strategy": {"Fixed": 1_u64 << 40}, "direction": "Right", "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"});
    let truncation = json!({"max_length": 1, "stride": 1_u64 << 40, "strategy": "LongestFirst", "direction": "Right"});
    let token = |i: usize| added(format!("{i:03}{}", "a\u{e9}b".repeat(250)))[0].clone();
    for (pointer, value) in [
        ("/padding", padding),
        ("/truncation", truncation),
        ("/normalizer", times(replace("a", "aa"), 12)),
        ("/pre_tokenizer", split(&"(?=a)\\p{L}".repeat(700))),
        ("/pre_tokenizer", split("(?=a)\\p{L}{900}")),
        ("/added_tokens", (0..100).map(token).collect()),
    ] {
        let Ok(Some(tokenizer)) = changed(pointer, value.clone()) else { continue };
        let _ = within(64 << 20, &value.to_string(), || {
            let input = tokenizer.encode(&"the cat ".repeat(50), Some("a dog"))?;
            tokenizer.decode(&input.ids)
        });
    }
    let doubled = changed("/normalizer", times(replace("a", "aa"), 12)).unwrap().unwrap();
    let said = doubled.encode(&"a".repeat(1000), None).unwrap_err().to_string();
    assert!(said.contains("it becomes longer than"), "{said}");
}

#[cfg(unix)]
#[test]
fn a_fifo_is_refused_at_once() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("model.gguf");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || send.send(Model::open(fifo).map(drop)));
    let said =
        receive.recv_timeout(Duration::from_secs(20)).expect("opening a FIFO hangs").unwrap_err();
    assert!(said.to_string().contains("is not a regular file"), "{said}");
}
