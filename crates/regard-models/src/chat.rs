//! Chat templates: the form in which a model was trained to read a chat.

use core::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use web_time::{SystemTime, UNIX_EPOCH};

use crate::jinja::{self, Fault};
use crate::read::{Beside, Settings};
use crate::{Checkpoint, Error, tokenizer};

/// The most steps of a template, in addition to those for the length of the messages. A template of a real model takes some
/// hundreds of steps for each message. A hostile one can nest loops that never end, or double a text until memory is full.
const STEPS: u64 = 500_000;

/// The names of the special tokens in a tokenizer's configuration and in templates, and in GGUF's metadata.
const TOKENS: [(&str, &str); 7] = [
    ("bos_token", "bos_token_id"),
    ("eos_token", "eos_token_id"),
    ("unk_token", "unknown_token_id"),
    ("sep_token", "seperator_token_id"),
    ("pad_token", "padding_token_id"),
    ("cls_token", "cls_token_id"),
    ("mask_token", "mask_token_id"),
];

/// A message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChatMessage {
    /// Who says it: `system`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

/// A model's chat template: a Jinja template in `chat_template.jinja`, in tokenizer_config.json or in a GGUF file's metadata.
///
/// ```
/// use regard_models::{ChatTemplate, ChatMessage};
/// let template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}\
///                 {% if add_generation_prompt %}<|assistant|>{% endif %}";
/// let chat = ChatTemplate::new(template, "", "</s>");
/// let question = ChatMessage { role: "user".into(), content: "Who sat?".into() };
/// assert_eq!(chat.prompt(&[question])?, "<|user|>Who sat?</s><|assistant|>");
/// # Ok::<(), regard_models::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    template: String,
    /// The special tokens that the model has, by their names.
    tokens: Vec<(&'static str, String)>,
}

impl ChatTemplate {
    /// A template, with the tokens that begin and end a text.
    pub fn new(
        template: impl Into<String>,
        begin: impl Into<String>,
        end: impl Into<String>,
    ) -> Self {
        let tokens = vec![("bos_token", begin.into()), ("eos_token", end.into())];
        Self { template: template.into(), tokens }
    }

    /// The template of a checkpoint, or `None` if it has none. If it has several, the one named `default`.
    ///
    /// # Errors
    /// An error names the file that cannot be read.
    pub fn of(checkpoint: &Checkpoint) -> Result<Option<Self>, Error> {
        match checkpoint.settings() {
            Settings::Config(_) => {
                let config = tokenizer::config(checkpoint)?;
                let file = checkpoint.file(Beside::CHAT_TEMPLATE, jinja::LONGEST as u64)?;
                let template = file.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                let template = template.or_else(|| text(&config["chat_template"]));
                let tokens =
                    TOKENS.iter().filter_map(|(name, _)| Some((*name, text(&config[*name])?)));
                Ok(template.map(|template| Self { template, tokens: tokens.collect() }))
            }
            Settings::Gguf(metadata) => {
                let known = metadata.texts("tokenizer.ggml.tokens").unwrap_or_default();
                let token = |key: &str| {
                    let id = metadata.number(&format!("tokenizer.ggml.{key}"))?;
                    known.get(usize::try_from(id).ok()?).cloned()
                };
                let tokens = TOKENS.iter().filter_map(|(name, key)| Some((*name, token(key)?)));
                let template = metadata.text("tokenizer.chat_template");
                Ok(template.map(|template| Self {
                    template: template.to_owned(),
                    tokens: tokens.collect(),
                }))
            }
        }
    }

    /// The text of a chat, after which the model answers. It contains its special tokens, so
    /// [`Tokenizer::encode_as_is`](crate::Tokenizer::encode_as_is) adds none.
    ///
    /// The template gets the values that transformers passes: `messages`, `tools` and `documents` as `None`,
    /// `add_generation_prompt`, and the special tokens of the model. `strftime_now` gives the time in UTC.
    ///
    /// # Errors
    /// [`Error::Template`] with the message of the template, for example about roles in an order that it does not accept; also
    /// if the template takes more than 500,000 steps, or nests too deeply.
    pub fn prompt(&self, messages: &[ChatMessage]) -> Result<String, Error> {
        self.prompt_at(messages, SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    }

    /// As [`prompt`](Self::prompt), but `strftime_now` gives a time that is so long after the beginning of 1970.
    ///
    /// # Errors
    /// Those of [`prompt`](Self::prompt).
    pub fn prompt_at(&self, messages: &[ChatMessage], now: Duration) -> Result<String, Error> {
        let template = self.template.replace("\r\n", "\n").replace('\r', "\n");
        self.render(&template, messages, now.as_secs() as i64).map_err(|fault| {
            Error::Template(match fault {
                Fault::Steps => format!("the chat template takes more than {STEPS} steps"),
                Fault::Wrong(what, line) => {
                    let line = line.map_or_else(String::new, |line| format!("line {line}: "));
                    let what = what.replace('\n', " ");
                    format!("the chat template does not apply: {line}{what}")
                }
            })
        })
    }

    fn render(&self, template: &str, messages: &[ChatMessage], now: i64) -> Result<String, Fault> {
        type Value<'s> = jinja::Value<'s>;
        let message = |ChatMessage { role, content }: &ChatMessage| {
            let entry = |key: &str, value: &str| (Value::from(key), Value::from(value));
            Value::map(vec![entry("role", role), entry("content", content)])
        };
        let bytes: usize = messages.iter().map(|m| m.role.len() + m.content.len()).sum();
        let messages = messages.iter().map(message).collect::<Result<_, _>>()?;
        let tokens = self.tokens.iter().map(|(name, token)| (*name, Value::from(token.as_str())));
        let values = [
            ("messages", Value::list(messages)?),
            ("tools", Value::None),
            ("documents", Value::None),
            ("add_generation_prompt", Value::Bool(true)),
        ];
        // A template copies each text of the chat several times. 16 times are allowed here.
        let steps = STEPS + bytes as u64 / 2;
        jinja::render(template, values.into_iter().chain(tokens), steps, now)
    }
}

/// A text; the text of a token, which may be an object with `content`; or the entry `default` of a list of named templates.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Object(token) => token.get("content")?.as_str().map(str::to_owned),
        Value::Array(named) => {
            let default = named.iter().find(|entry| entry["name"] == "default")?;
            default["template"].as_str().map(str::to_owned)
        }
        _ => None,
    }
}
