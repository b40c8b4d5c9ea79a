//! The page's address: what a link shows.

use std::sync::Arc;

use eframe::egui::{Context, ThemePreference};
use regard_ui::{App, Command, Room, Start};
use regard_walkthrough::Example;
use serde_json::Value;

use crate::host::Browser;

/// The requests of a link, by keys in its query and in its fragment:
///
/// - `s`: a session, as the page itself puts it into its address;
/// - `room`: walkthrough, laboratory or model;
/// - `example`: an example by its name, such as the-cat-sat;
/// - `model` and `text`: a model by its name, such as story, and the text that it reads;
/// - `theme`: light or dark, as the page around a frame is;
/// - `embed`: the room alone, for a frame in another page.
#[derive(Default)]
pub struct Address {
    session: Option<String>,
    room: Option<Room>,
    example: Option<Example>,
    model: Option<String>,
    text: Option<String>,
    theme: Option<ThemePreference>,
    /// Whether the room is shown alone.
    pub embed: bool,
}

impl Address {
    /// Reads a JSON object of keys and values.
    pub fn parse(text: &str) -> Self {
        let keys: Value = serde_json::from_str(text).unwrap_or_default();
        let get = |key: &str| keys.get(key).and_then(Value::as_str).map(str::to_owned);
        Self {
            session: get("s"),
            room: get("room").and_then(|name| serde_json::from_value(Value::String(name)).ok()),
            example: get("example").and_then(|name| name.parse().ok()),
            model: get("model"),
            text: get("text"),
            theme: match get("theme").as_deref() {
                Some("light") => Some(ThemePreference::Light),
                Some("dark") => Some(ThemePreference::Dark),
                _ => None,
            },
            embed: get("embed").is_some(),
        }
    }

    /// The window that the link asks for, or the one that was left last.
    pub fn app(self, ctx: &Context, host: Arc<Browser>) -> App {
        let is_plain = self.room.is_none()
            && self.example.is_none()
            && self.model.is_none()
            && self.text.is_none();
        // An embedded page leaves the session of the visitor alone.
        let mut app = if self.embed {
            App::with_session(ctx, host.clone(), regard_ui::greeting())
        } else {
            App::start(ctx, host.clone(), Start::Last)
        };
        if let Some(session) = self.session.filter(|_| is_plain) {
            app.open_file(ctx, format!("#s={session}").as_ref());
        }
        if let Some(theme) = self.theme {
            app.perform(ctx, Command::Theme(theme));
        }
        if let Some(room) = self.room {
            app.perform(ctx, Command::Room(room));
        }
        if let Some(example) = self.example {
            app.perform(ctx, Command::Example(example));
        }
        if self.model.is_some() || self.text.is_some() {
            app.open_model(ctx, self.model.unwrap_or_else(|| regard_bundled::ENGLISH.to_owned()));
            if let Some(text) = self.text {
                app.session.model.text = text;
            }
        }
        app
    }
}
