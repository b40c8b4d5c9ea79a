//! Files that are made to harm their reader: none takes more memory than 3 × the file and 64 MiB, hangs, or panics.
#![expect(clippy::unwrap_used, reason = "a test fails with a panic")]

use core::time::Duration;
use std::fs;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};

use peak_alloc::PeakAlloc;
use regard_models::{ChatTemplate, Checkpoint, Error, Model, Tokenizer};
use regard_tests::models::golden;
use serde_json::{Value, json};

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// One test at a time, with all that it allocates: tests run in threads of one process, whose memory is counted as a whole.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads the model of these files, and its tokenizer for `vocabulary` tokens. Asserts that memory is bounded.
fn read(
    files: Vec<(&'static str, Vec<u8>)>,
    vocabulary: usize,
) -> Result<Option<Tokenizer>, Error> {
    let bytes: usize = files.iter().map(|(_, bytes)| bytes.len()).sum();
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let read = Checkpoint::from_files("model", files)
        .and_then(|checkpoint| Tokenizer::of(&checkpoint, vocabulary));
    let peak = MEMORY.peak_usage() - before;
    assert!(peak <= 3 * bytes + (64 << 20), "{bytes} bytes took {peak} bytes of memory");
    read
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

/// A GGUF file whose header is a list of so many short tokens.
fn gguf(count: usize) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let (string, array) = (8_u32.to_le_bytes(), 9_u32.to_le_bytes());
    let key = |name: &str| text(&format!("tokenizer.ggml.{name}"));
    let list = |name: &str, texts: &mut dyn Iterator<Item = String>, count: usize| {
        let head = [&key(name)[..], &array, &string, &(count as u64).to_le_bytes()].concat();
        [head, texts.flat_map(|t| text(&t)).collect()].concat()
    };
    [
        &b"GGUF"[..],
        &3_u32.to_le_bytes(),
        &0_u64.to_le_bytes(),
        &3_u64.to_le_bytes(),
        &[&key("model")[..], &string, &text("gpt2")].concat(),
        &list("tokens", &mut (0..count).map(|i| format!("{i:x}")), count),
        &list("merges", &mut (0..0).map(|_: u8| String::new()), 0),
    ]
    .concat()
}

/// A tokenizer.json of so many short tokens.
fn tokenizer(count: usize) -> Vec<u8> {
    let vocabulary = (0..count).map(|i| format!("\"{i:x}\":{i}")).collect::<Vec<_>>().join(",");
    format!("{{\"version\":\"1.0\",\"model\":{{\"type\":\"BPE\",\"vocab\":{{{vocabulary}}},\"merges\":[]}}}}").into_bytes()
}

#[test]
fn a_long_header_of_safetensors_is_read_or_refused_in_bounded_memory() {
    let _alone = alone();
    read(vec![config(), ("model.safetensors", tensors(40_000))], 1).unwrap();
    assert_refused(
        vec![config(), ("model.safetensors", tensors(400_000))],
        "too long for its tensors",
    );
}

#[test]
fn a_long_list_of_tokens_is_read_or_refused_in_bounded_memory() {
    let _alone = alone();
    assert!(read(vec![("model.gguf", gguf(65_000))], 1 << 30).unwrap().is_some());
    assert_refused(vec![("model.gguf", gguf(1_000_000))], "the most");
    let files = |count| {
        vec![config(), ("model.safetensors", tensors(1)), ("tokenizer.json", tokenizer(count))]
    };
    assert!(read(files(180_000), 1 << 30).unwrap().is_some());
    assert_refused(files(1_000_000), "tokenizer.json: has more than");
}

#[test]
fn long_settings_are_refused_in_bounded_memory() {
    let _alone = alone();
    let config = format!("{{\"a\": [0{}]}}", ",0".repeat(10_000_000));
    let files = vec![("config.json", config.into_bytes()), ("model.safetensors", tensors(1))];
    assert_refused(files, "config.json: has more than the 1048576 bytes");
    let most = format!("{{\"a\": [0{}]}}", ",0".repeat(520_000));
    read(vec![("config.json", most.into_bytes()), ("model.safetensors", tensors(1))], 1).unwrap();
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
    let before = MEMORY.current_usage();
    MEMORY.reset_peak_usage();
    let said = std::thread::scope(|scope| {
        let apply = || ChatTemplate::new(template, "", "").prompt(&[]);
        let thread = std::thread::Builder::new().stack_size(1 << 20);
        thread.spawn_scoped(scope, apply).unwrap().join().unwrap()
    });
    let peak = MEMORY.peak_usage() - before;
    let start: String = template.chars().take(80).collect();
    assert!(peak <= 3 * template.len() + (64 << 20), "{start} took {peak} bytes");
    said
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
        doubled("'ab'", "n.x.center(n.x | length * 2)", ""),
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
        "{{ 'abc'.ljust(99999999) }}{{ '%099999999d' | format(1) }}".to_owned(),
        "{{ '%99999999s' % 'a' }}".to_owned(),
        "{{ '%.99999999f' % 1 }}".to_owned(),
        "{{ '%.99999999e' % 1.5 }}".to_owned(),
        "{{ '{:99999999}'.format(1) }}".to_owned(),
        "{{ '{:.99999999f}'.format(1.5) }}".to_owned(),
        "{{ 'a'.zfill(99999999999) }}".to_owned(),
        "{{ 'a' | center(99999999999) }}".to_owned(),
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
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% for i in [1] %}{% if true %}{% set x %}{{ [[[[m()]]]] }}{% endset %}{% endif %}{% endfor %}{% endmacro %}{{ m() }}",
        "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}",
        "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% set n.f = [] %}{% macro m() %}{{ n.m() }}{% endmacro %}{% set n.m = m %}{{ m() }}",
    ] {
        assert!(applied(&[namespace, template].concat()).is_err(), "{template}");
    }
    for count in [20_000, 50_000] {
        let chain = |start: &str, part: &str, end: &str| [start, &part.repeat(count), end].concat();
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
    }
    let said = applied(&"a".repeat(300_000)).unwrap_err().to_string();
    assert!(said.contains("it has 300000 bytes, and 262144 are the most"), "{said}");
}

#[test]
fn a_decoder_with_wrong_syntax_is_refused() {
    let _alone = alone();
    let golden = golden("tiny-gpt2");
    let file = |name: &'static str| (name, fs::read(golden.join(name)).unwrap());
    for wrong in ["{\"ty\npe\": 1}", "{\"type\": \"ByteLevel\"", "1e999", "[", "nul"] {
        let text = format!("{{\"version\": \"1.0\", \"decoder\": {wrong}, \"model\": {{}}}}");
        let files = vec![
            file("config.json"),
            file("model.safetensors"),
            ("tokenizer.json", text.into_bytes()),
        ];
        assert_refused(files, "tokenizer.json: is no tokenizer that can be read");
    }
}

/// The crate `tokenizers` panics on each of these.
#[test]
fn a_tokenizer_that_contradicts_itself_is_refused() {
    let _alone = alone();
    let golden = golden("tiny-bert");
    let file = |name: &'static str| (name, fs::read(golden.join(name)).unwrap());
    let json: Value = serde_json::from_slice(&file("tokenizer.json").1).unwrap();
    let changed = |pointer: &str, value: Value| {
        let mut json = json.clone();
        *json.pointer_mut(pointer).unwrap() = value;
        let json = serde_json::to_vec(&json).unwrap();
        let files = vec![file("config.json"), file("model.safetensors"), ("tokenizer.json", json)];
        read(files, 1 << 30)
    };
    let assert_said = |said: Error, part: &str| {
        let said = said.to_string();
        assert!(said.contains("tokenizer.json: ") && said.contains(part), "{said}");
    };

    // 4 bytes announce a table of no entries: the first one is outside.
    let charsmap = |base64: &str| json!({"type": "Precompiled", "precompiled_charsmap": base64});
    assert_said(changed("/normalizer", charsmap("!")).unwrap_err(), "is no tokenizer");
    for (pointer, value) in [
        ("/post_processor/special_tokens", json!({})),
        ("/post_processor/single/1/Sequence/id", json!("B")),
        ("/normalizer", charsmap("AAAAAA==")),
    ] {
        let tokenizer = changed(pointer, value).unwrap().unwrap();
        assert_said(tokenizer.encode("the cat", None).unwrap_err(), "the text is not understood");
    }
    let strip = json!({"type": "Strip", "content": "e", "start": 0, "stop": 99});
    let tokenizer = changed("/decoder", strip).unwrap().unwrap();
    let ids = tokenizer.encode("e", None).unwrap().ids;
    assert_said(tokenizer.decode(&ids).unwrap_err(), "the tokens are not understood");
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
