//! Chat templates as models have them.

use core::time::Duration;
use std::fs;
use std::path::Path;

use regard_models::{ChatMessage, ChatTemplate};
use serde_json::{Value, json};

use crate::common::{assert_says, with_file};

fn user(content: &str) -> ChatMessage {
    ChatMessage { role: "user".into(), content: content.into() }
}

/// The template of a folder with this tokenizer_config.json.
fn of(config: &Value) -> Option<ChatTemplate> {
    ChatTemplate::of(&with_file("tiny-llama", "tokenizer_config.json", config)).unwrap()
}

/// SmolLM2's template, which adds a message of the system.
#[test]
fn a_template_may_add_messages() {
    let template = "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}\
        {{ '<|im_start|>system\nYou are SmolLM<|im_end|>\n' }}{% endif %}\
        {{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}\
        {% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
    let chat = of(&json!({"chat_template": template})).unwrap();
    let expected = "<|im_start|>system\nYou are SmolLM<|im_end|>\n<|im_start|>user\nWho sat?<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(chat.prompt(&[user("Who sat?")]).unwrap(), expected);
}

/// Templates use these of Python and of Jinja: methods of text, blocks on lines of their own, namespaces, exceptions.
#[test]
fn templates_may_use_what_transformers_offers() {
    let template = "{{ bos_token }}\n{%- set ns = namespace(n=0) %}\n\
        {% for m in messages %}\n    {% if m.role not in ['user', 'assistant'] %}\n\
        {{ raise_exception('no role ' ~ m.role) }}\n    {% endif %}\n\
        {%- set ns.n = ns.n + 1 %}[{{ m['content'].strip() | upper }}]{{ eos_token }}\n{% endfor %}{{ ns.n }}";
    let config = json!({
        "chat_template": [{"name": "tool", "template": "x"}, {"name": "default", "template": template}],
        "bos_token": {"content": "<s>"}, "eos_token": "</s>",
    });
    let chat = of(&config).unwrap();
    assert_eq!(chat.prompt(&[user("  a "), user("b")]).unwrap(), "<s>[A]</s>\n[B]</s>\n2");
    let system = ChatMessage { role: "system".into(), content: String::new() };
    let said = chat.prompt(&[system]).unwrap_err().to_string();
    assert!(said.contains("no role system") && !said.contains('\n'), "{said}");
}

/// 10¹⁵ rounds of loops, 2²⁰ calls of macros and a text of 2¹⁰⁰ bytes end with an error, soon.
#[test]
fn a_template_without_end_is_refused() {
    let loops = "{% for i in range(99999) %}{% for j in range(99999) %}{% for k in range(99999) %}{% endfor %}{% endfor %}{% endfor %}";
    let twice = |i: u8| {
        format!("{{% macro m{0}() %}}{{{{ m{i}() }}}}{{{{ m{i}() }}}}{{% endmacro %}}", i + 1)
    };
    let macros: String = (0..20).map(twice).collect();
    let calls = format!("{{% macro m0() %}}{{% endmacro %}}{macros}{{{{ m20() }}}}");
    let text = "{% set n = namespace(x='ab') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}";
    for template in [loops, &calls, text, "{{ 'ab' * 99999999999 }}"] {
        let said = ChatTemplate::new(template, "", "").prompt(&[user("a")]).unwrap_err();
        assert_eq!(said.to_string(), "the chat template takes more than 500000 steps");
    }
}

#[test]
fn a_model_without_a_template_has_none() {
    assert!(of(&json!({})).is_none());
}

/// Every template and every expression gives what transformers gives, or is refused where transformers refuses it.
#[test]
fn templates_give_what_transformers_gives() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/chats");
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let golden: Value = serde_json::from_str(&read("expected.json")).unwrap();
    let chats: Vec<Vec<ChatMessage>> = serde_json::from_value(golden["chats"].clone()).unwrap();
    let now = Duration::from_secs(golden["now"].as_u64().unwrap());
    let check = |what: &str, template: &str, chat: &[ChatMessage], expected: &Value| {
        let prompt = ChatTemplate::new(template, "<s>", "</s>").prompt_at(chat, now);
        assert_eq!(prompt.as_deref().ok(), expected.as_str(), "{what}: {prompt:?}");
    };
    for (name, prompts) in golden["templates"].as_object().unwrap() {
        let template = read(name);
        for (chat, expected) in chats.iter().zip(prompts.as_array().unwrap()) {
            check(name, &template, chat, expected);
        }
    }
    for expression in golden["expressions"].as_array().unwrap() {
        let template = expression[0].as_str().unwrap();
        check(template, &format!("{{% set x = 'hey' +%}}{template}"), &[], &expression[1]);
    }
}

#[test]
fn what_a_template_cannot_do_is_named() {
    for (template, part) in [
        // 400,000 letters are each compared with 400,000 others.
        ("{{ ('a' * 400000).strip('b' * 400000 ~ 'a') }}", "takes more than 500000 steps"),
        ("{{ 'a' | wordwrap }}", "line 1: the filter \"wordwrap\" is not known"),
        ("{{ 'a' is escaped }}", "line 1: the test \"escaped\" is not known"),
        ("{{ 'a'.zfill(2) }}", "line 1: \"zfill\" is undefined"),
        ("{{ lipsum() }}", "line 1: \"lipsum\" is undefined"),
        ("{% include 'a' %}", "line 1: the tag \"include\" is not known here"),
        ("{{ 'a'.split(count=1) }}", "line 1: no parameter has the name \"count\""),
        ("{{ '%5s' % 1 }}", "line 1: the format \"5s\" is not known"),
        ("{{ strftime_now('%Q') }}", "line 1: strftime_now does not know %Q"),
    ] {
        let said = ChatTemplate::new(template, "", "").prompt(&[]).unwrap_err().to_string();
        assert_says(&said, &[part]);
    }
}
