//! The choices of all rooms: the contents of a session file, which undo and redo change.

use std::path::Path;

use anyhow::{Context as _, ensure};
use egui::{Context, ThemePreference};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::colors::Look;
use crate::Host;

use super::{laboratory, model, walkthrough};

/// A room of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Room {
    /// The worked examples.
    #[default]
    Walkthrough,
    /// Attention of any size, for experiments.
    Laboratory,
    /// A model that reads a text and that can be changed, or the attention of one.
    Model,
}

impl Room {
    /// All rooms, in the order of their tabs.
    pub const ALL: [Self; 3] = [Self::Walkthrough, Self::Laboratory, Self::Model];

    /// The name on the tab.
    pub fn name(self) -> &'static str {
        match self {
            Self::Walkthrough => "Walkthrough",
            Self::Laboratory => "Laboratory",
            Self::Model => "Model",
        }
    }

    /// The purpose, in one sentence.
    pub(crate) fn summary(self) -> &'static str {
        match self {
            Self::Walkthrough => {
                "See attention computed step by step, with every number explained."
            }
            Self::Laboratory => {
                "Change the inputs and masks of attention over up to 4096 tokens, and see the effect."
            }
            Self::Model => {
                "Type a text, see a model attend to it, change its heads, and see what follows. Or open a file of attention."
            }
        }
    }
}

/// The appearance of the window, independent of its contents.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Appearance {
    /// Light, dark, or the theme of the system.
    #[serde(with = "ThemeName")]
    pub(crate) theme: ThemePreference,
    /// The zoom factor. 1 is the system's size.
    pub(crate) zoom: f32,
    /// Whether the panel at the left is shown. `None`: the width of the window decides.
    pub(crate) side: Option<bool>,
}

impl Default for Appearance {
    fn default() -> Self {
        Self { theme: ThemePreference::System, zoom: 1.0, side: None }
    }
}

impl Appearance {
    /// Reads the appearance from the window.
    pub(crate) fn follow(&mut self, ctx: &Context) {
        self.theme = ctx.options(|options| options.theme_preference);
        self.zoom = ctx.zoom_factor();
    }

    /// Gives the window this appearance.
    pub(crate) fn apply(self, ctx: &Context) {
        ctx.set_theme(self.theme);
        ctx.set_zoom_factor(self.zoom);
    }
}

/// The names of the themes in the file.
#[derive(Serialize, Deserialize)]
#[serde(remote = "ThemePreference", rename_all = "kebab-case")]
enum ThemeName {
    Dark,
    Light,
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
    /// The choices in the first room.
    pub walkthrough: walkthrough::State,
    /// The choices in the second.
    pub laboratory: laboratory::State,
    /// The choices in the third.
    pub model: model::State,
}

/// The format of a session file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum SessionFormat {
    /// The first format.
    #[default]
    #[serde(rename = "regard session 1")]
    One,
}

/// The largest session file, in bytes. A list of empty texts takes 16 times its bytes while it grows: 64 MiB.
pub(crate) const LARGEST_FILE: u64 = 4 << 20;

/// The key that every session file has. Other keys are skipped.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Marked {
    format: Option<IgnoredAny>,
}

impl Session {
    /// The choices, which undo and redo change. Zoom, pins and the cursor are not included.
    pub(crate) fn choices(&self) -> Self {
        Self {
            format: self.format,
            room: self.room,
            appearance: Appearance::default(),
            look: self.look,
            walkthrough: self.walkthrough.choices(),
            laboratory: self.laboratory.choices(),
            model: self.model.choices(),
        }
    }

    /// Takes the choices of another session. Zoom, pins and the cursor stay.
    pub(crate) fn take(&mut self, choices: &Self) {
        self.room = choices.room;
        self.look = choices.look;
        self.walkthrough.take(&choices.walkthrough);
        self.laboratory.take(&choices.laboratory);
        self.model.take(&choices.model);
    }

    /// Whether a file has the name of a session. Other files hold attention.
    pub fn is_named(path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
    }

    /// Reads a session file.
    ///
    /// # Errors
    /// If the file cannot be read or is not a session. The error says why.
    pub fn read(host: &dyn Host, path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let text = host.read(path, LARGEST_FILE).with_context(|| format!("cannot read {name}"))?;
        Self::parse(&text).with_context(|| format!("{name} cannot be read"))
    }

    /// Reads the text of a session file.
    ///
    /// # Errors
    /// If it is not a session.
    pub fn parse(text: &[u8]) -> anyhow::Result<Self> {
        ensure!(text.len() as u64 <= LARGEST_FILE, "it has more than {LARGEST_FILE} bytes");
        let marked: Marked = serde_json::from_slice(text).context("it is not a session file")?;
        // serde also accepts a list of the fields.
        let object = text.trim_ascii_start().starts_with(b"{");
        ensure!(
            object && marked.format.is_some(),
            "it is not a session file: it lacks the key \"format\""
        );
        let mut session: Self =
            serde_json::from_slice(text).context("it is not a session file of this version")?;
        session.laboratory.limit();
        let zoom = session.appearance.zoom;
        session.appearance.zoom = if zoom.is_finite() { zoom.clamp(0.2, 5.0) } else { 1.0 };
        Ok(session)
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
    pub(crate) fn write(&self, host: &dyn Host, path: &Path) -> anyhow::Result<()> {
        host.write(path, &self.text()?).with_context(|| format!("cannot write {}", path.display()))
    }
}
