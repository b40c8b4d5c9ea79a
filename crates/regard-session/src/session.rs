//! The choices of all rooms: the contents of a session file, which undo and redo change.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Context as _, anyhow, ensure};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use miniz_oxide::{deflate::compress_to_vec, inflate::decompress_to_vec_with_limit};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use regard_figure::Look;

use crate::{Host, Room, laboratory, model, walkthrough};

/// The appearance of the window, independent of its contents.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Appearance {
    /// Light, dark, or the theme of the system.
    pub theme: Theme,
    /// The zoom factor. 1 is the system's size.
    pub zoom: f32,
    /// Whether the panel at the left is shown. `None`: the width of the window decides.
    pub side: Option<bool>,
}

impl Default for Appearance {
    fn default() -> Self {
        Self { theme: Theme::System, zoom: 1.0, side: None }
    }
}

/// Light, dark, or as the system is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Theme {
    /// Light letters on a dark ground.
    Dark,
    /// Dark letters on a light ground.
    Light,
    /// The theme of the system.
    #[default]
    System,
}

/// All choices of all rooms.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Session {
    /// The version of the file's format.
    pub format: SessionFormat,
    /// The open room.
    pub room: Room,
    /// The appearance of the window. Undo does not change it.
    pub appearance: Appearance,
    /// The colours of weights.
    pub look: Look,
    /// The choices in the walkthrough.
    pub walkthrough: walkthrough::WalkthroughState,
    /// The choices in the laboratory.
    pub laboratory: laboratory::LaboratoryState,
    /// The choices on the stage.
    pub model: model::ModelState,
}

/// The format of a session file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionFormat {
    /// The first format.
    #[default]
    #[serde(rename = "regard session 1")]
    One,
}

/// What a link's end begins with. A packed session follows.
const FRAGMENT: &str = "#s=";
/// The effort of packing a link, from 0 to 10.
const DEFLATE_LEVEL: u8 = 9;

/// The packed session in a link, which is the end of an address or a whole one.
fn packed(path: &Path) -> Option<&str> {
    let (address, packed) = path.to_str()?.split_once(FRAGMENT)?;
    (address.is_empty() || address.contains("://")).then_some(packed)
}

/// Drops the keys whose values are the defaults, as deep as this.
fn prune(value: &mut Value, default: &Value, depth: usize) {
    let (Value::Object(value), Value::Object(default)) = (value, default) else { return };
    value.retain(|key, value| {
        let Some(default) = default.get(key) else { return true };
        if value == default {
            return false;
        }
        if depth > 1 {
            prune(value, default, depth - 1);
        }
        true
    });
}

/// The key that every session file has. Other keys are skipped.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Marked {
    format: Option<IgnoredAny>,
}

impl Session {
    /// The largest session file, in bytes. A list of empty texts takes 16 times its bytes while it grows: 64 MiB.
    pub const LARGEST: u64 = 4 << 20;

    /// The choices of a room, which undo and redo change. Zoom, pins and the cursor are not included.
    pub fn choices(&self, room: Room) -> Self {
        let mut choices = Self::default();
        choices.take(room, self);
        choices
    }

    /// Takes the choices of another session in a room. Zoom, pins and the cursor stay, and so do the other rooms.
    pub fn take(&mut self, room: Room, choices: &Self) {
        self.look = choices.look;
        match room {
            Room::Stage => self.model.take(&choices.model),
            Room::Walkthrough => self.walkthrough.take(&choices.walkthrough),
            Room::Laboratory => self.laboratory.take(&choices.laboratory),
        }
    }

    /// Whether a path is a link to a session, or has the name of a session file. Other files hold attention.
    pub fn is_named(path: &Path) -> bool {
        let is_json = |extension: &OsStr| extension.eq_ignore_ascii_case("json");
        Self::is_link(path) || path.extension().is_some_and(is_json)
    }

    /// Whether a path is a [link](Self::link) to a session instead of a file.
    pub fn is_link(path: &Path) -> bool {
        packed(path).is_some()
    }

    /// Reads a session file, or the session in a link.
    ///
    /// # Errors
    /// If the file cannot be read or is not a session. The error says why.
    pub fn read(host: &dyn Host, path: &Path) -> anyhow::Result<Self> {
        if let Some(packed) = packed(path) {
            return Self::unpack(packed).context("the link cannot be read");
        }
        let name = path.display();
        let text = host.read(path, Self::LARGEST).with_context(|| format!("cannot read {name}"))?;
        Self::parse(&text).with_context(|| format!("{name} cannot be read"))
    }

    /// Reads the text of a session file.
    ///
    /// # Errors
    /// If it is not a session.
    pub fn parse(text: &[u8]) -> anyhow::Result<Self> {
        ensure!(text.len() as u64 <= Self::LARGEST, "it has more than {} bytes", Self::LARGEST);
        let marked: Marked = serde_json::from_slice(text).context("it is not a session file")?;
        // serde also accepts a list of the fields.
        let object = text.trim_ascii_start().starts_with(b"{");
        ensure!(
            object && marked.format.is_some(),
            "it is not a session file: it lacks the key \"format\""
        );
        let mut session: Self =
            serde_json::from_slice(text).context("it is not a session file of this version")?;
        // A page of the walkthrough was the stage.
        if text.windows(9).any(|part| part == b"real-head") && session.room == Room::Walkthrough {
            session.room = Room::Stage;
        }
        session.laboratory.limit();
        let zoom = session.appearance.zoom;
        session.appearance.zoom = if zoom.is_finite() { zoom.clamp(0.2, 5.0) } else { 1.0 };
        Ok(session)
    }

    /// The end of an address that opens this session: `#s=`, then the choices that differ from a new session, as JSON, deflated
    /// (RFC 1951), in base64 for addresses (RFC 4648). It lacks the hashes of the model's results, which are long and follow
    /// from the rest.
    pub fn link(&self) -> String {
        let mut session = self.clone();
        session.model.record = None;
        // By way of their texts, in which a number has no more digits than it needs.
        let value = |session: &Self| -> Value {
            let text = serde_json::to_string(session).unwrap_or_default();
            serde_json::from_str(&text).unwrap_or_default()
        };
        let (whole, plain) = (value(&session), value(&Self::default()));
        // Some choices are read only with all of their parts: the deepest cut that is read as the same session.
        let cut = [9, 2, 1].into_iter().find_map(|depth| {
            let mut short = whole.clone();
            prune(&mut short, &plain, depth);
            short.as_object_mut()?.insert("format".to_owned(), whole.get("format").cloned()?);
            let again = serde_json::from_value::<Self>(short.clone());
            again.is_ok_and(|again| again == session).then_some(short)
        });
        let text = cut.unwrap_or(whole).to_string();
        let packed = compress_to_vec(text.as_bytes(), DEFLATE_LEVEL);
        format!("{FRAGMENT}{}", BASE64_URL_SAFE_NO_PAD.encode(packed))
    }

    /// Reads what follows `#s=` in a link.
    fn unpack(packed: &str) -> anyhow::Result<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(packed.trim()).context("it is not whole")?;
        let text = decompress_to_vec_with_limit(&bytes, Self::LARGEST as usize)
            .map_err(|e| anyhow!("it is not whole: {e}"))?;
        Self::parse(&text)
    }

    /// The text of a session file.
    ///
    /// # Errors
    /// No error in practice, because every choice can be written.
    pub fn text(&self) -> anyhow::Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self).context("cannot write the session")?;
        text.push(b'\n');
        Ok(text)
    }

    /// Writes a session file, whole or not at all.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, host: &dyn Host, path: &Path) -> anyhow::Result<()> {
        host.write(path, &self.text()?).with_context(|| format!("cannot write {}", path.display()))
    }
}
