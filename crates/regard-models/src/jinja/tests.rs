use std::fs;
use std::path::PathBuf;

use super::{Fault, Value, render};

const STEPS: u64 = 500_000;

fn value<'s>(json: &serde_json::Value) -> Value<'s> {
    use serde_json::Value as Json;
    match json {
        Json::Array(items) => Value::list(items.iter().map(value).collect()).unwrap(),
        Json::Object(entries) => {
            let entries = entries.iter().map(|(key, entry)| (Value::from(&**key), value(entry)));
            Value::map(entries.collect()).unwrap()
        }
        text => Value::from(text.as_str().unwrap()),
    }
}

/// Every template and every expression gives what transformers gives, or is refused where transformers refuses it.
#[test]
fn templates_give_what_transformers_gives() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/chats");
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let golden: serde_json::Value = serde_json::from_str(&read("expected.json")).unwrap();
    let now = golden["now"].as_i64().unwrap();
    for (name, prompts) in golden["templates"].as_object().unwrap() {
        let template = read(name);
        for (chat, expected) in
            golden["chats"].as_array().unwrap().iter().zip(prompts.as_array().unwrap())
        {
            let values = [
                ("messages", value(chat)),
                ("tools", Value::None),
                ("documents", Value::None),
                ("add_generation_prompt", Value::Bool(true)),
                ("bos_token", Value::from("<s>")),
                ("eos_token", Value::from("</s>")),
            ];
            let prompt = render(&template, values, STEPS, now);
            assert_eq!(prompt.as_deref().ok(), expected.as_str(), "{name}: {prompt:?}");
        }
    }
    for expression in golden["expressions"].as_array().unwrap() {
        let template = expression[0].as_str().unwrap();
        let text = render(template, [("x", Value::from("hey"))], STEPS, now);
        assert_eq!(text.as_deref().ok(), expression[1].as_str(), "{template}: {text:?}");
    }
}

/// 400,000 letters are each compared with 400,000 others.
#[test]
fn stripping_many_letters_takes_steps() {
    let template = "{{ ('a' * 400000).strip('b' * 400000 ~ 'a') }}";
    assert_eq!(render(template, [], STEPS, 0), Err(Fault::Steps));
}

#[test]
fn an_unknown_name_is_named() {
    for (template, part) in [
        ("{{ 'a' | wordwrap }}", "the filter \"wordwrap\" is not known"),
        ("{{ 'a' is escaped }}", "the test \"escaped\" is not known"),
        ("{{ 'a'.zfill(2) }}", "\"zfill\" is undefined"),
        ("{{ lipsum() }}", "\"lipsum\" is undefined"),
        ("{% include 'a' %}", "the tag \"include\" is not known here"),
        ("{{ 'a'.split(count=1) }}", "no parameter has the name \"count\""),
        ("{{ '%5s' % 1 }}", "the format \"5s\" is not known"),
        ("{{ strftime_now('%Q') }}", "strftime_now does not know %Q"),
    ] {
        assert_eq!(render(template, [], STEPS, 0), Err(Fault::Wrong(part.into(), Some(1))));
    }
}
