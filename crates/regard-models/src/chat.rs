//! Chat templates: how a model was trained to be told who says what.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, Error as TemplateError, ErrorKind, context};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::read::Settings;
use crate::{Checkpoint, Error};

/// The most steps that a template may take: an instruction is one, and so are 64 bytes of text that it makes, which are 32 MB then,
/// and 64 MB where the text grows in a buffer that doubles. A template of a real model takes some hundreds for each message; another
/// can nest loops so that they never end, or double a text until memory ends.
const STEPS: u64 = 500_000;

/// A message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who says it: `system`, `user` or `assistant`.
    pub role: String,
    /// What is said.
    pub content: String,
}

/// A model's chat template: a Jinja template in `chat_template.jinja`, in tokenizer_config.json or in a GGUF file's metadata.
///
/// ```
/// use regard_models::{ChatTemplate, Message};
/// let template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{{ eos_token }}{% endfor %}\
///                 {% if add_generation_prompt %}<|assistant|>{% endif %}";
/// let chat = ChatTemplate::new(template, "", "</s>");
/// let question = Message { role: "user".into(), content: "Who sat?".into() };
/// assert_eq!(chat.prompt(&[question])?, "<|user|>Who sat?</s><|assistant|>");
/// # Ok::<(), regard_models::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    template: String,
    begin: String,
    end: String,
}

impl ChatTemplate {
    /// A template, with the tokens that begin and end a text.
    pub fn new(
        template: impl Into<String>,
        begin: impl Into<String>,
        end: impl Into<String>,
    ) -> Self {
        Self { template: template.into(), begin: begin.into(), end: end.into() }
    }

    /// The template of a checkpoint, or `None` if it has none. Of several, the one named `default`.
    ///
    /// # Errors
    /// Names the file that cannot be read.
    pub fn of(checkpoint: &Checkpoint) -> Result<Option<Self>, Error> {
        match checkpoint.settings() {
            Settings::Config(_) => {
                let config = checkpoint.json("tokenizer_config.json")?.unwrap_or_default();
                let file = checkpoint.file("chat_template.jinja", 64)?;
                let template = file.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
                let template = template.or_else(|| text(&config["chat_template"]));
                let token = |key: &str| text(&config[key]).unwrap_or_default();
                Ok(template
                    .map(|template| Self::new(template, token("bos_token"), token("eos_token"))))
            }
            Settings::Gguf(metadata) => {
                let tokens = metadata.texts("tokenizer.ggml.tokens").unwrap_or_default();
                let token = |key: &str| {
                    let id = usize::try_from(metadata.number(key)?).ok()?;
                    tokens.get(id).cloned()
                };
                let template = metadata.text("tokenizer.chat_template");
                Ok(template.map(|template| {
                    let begin = token("tokenizer.ggml.bos_token_id").unwrap_or_default();
                    Self::new(
                        template,
                        begin,
                        token("tokenizer.ggml.eos_token_id").unwrap_or_default(),
                    )
                }))
            }
        }
    }

    /// The text of a chat after which the model answers. It has its special tokens, which
    /// [`Tokenizer::encode_as_is`](crate::Tokenizer::encode_as_is) finds and does not add.
    ///
    /// # Errors
    /// [`Error::Input`] with what the template says, for example of roles in an order that it does not know, and for a template
    /// that takes more than 500,000 steps.
    pub fn prompt(&self, messages: &[Message]) -> Result<String, Error> {
        let wrong = |e: TemplateError| {
            if e.kind() == ErrorKind::OutOfFuel {
                return Error::Input(format!("the chat template takes more than {STEPS} steps"));
            }
            let what = e.to_string();
            Error::Input(format!("the chat template does not apply: {}", what.replace('\n', " ")))
        };
        let mut environment = Environment::new();
        environment.set_fuel(Some(STEPS));
        // As transformers sets Jinja up.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(wrong)?);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |what: String| {
            Err::<String, _>(TemplateError::new(ErrorKind::InvalidOperation, what))
        });
        let message = |Message { role, content }: &Message| context! { role, content };
        let messages: minijinja::Value = messages.iter().map(message).collect();
        let values = context! {
            messages, add_generation_prompt => true,
            bos_token => &self.begin, eos_token => &self.end,
        };
        environment.render_str(&self.template, values).map_err(wrong)
    }
}

/// A text; that of a token, which may be an object with `content`; or the entry `default` of a list of named templates.
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
