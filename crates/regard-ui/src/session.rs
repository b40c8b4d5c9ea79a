//! All choices of all rooms: what a session file holds, and what is undone.

use std::path::Path;

use anyhow::{Context as _, bail};
use egui::{Context, ThemePreference};
use serde::{Deserialize, Serialize};

use super::colors::Look;
use crate::Host;

use super::{heads, laboratory, walkthrough};

/// A room of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Room {
    /// The worked examples.
    #[default]
    Walkthrough,
    /// Attention of any size, to try things out.
    Laboratory,
    /// Attention of a model.
    Heads,
}

impl Room {
    /// All of them, in the order of their tabs.
    pub const ALL: [Self; 3] = [Self::Walkthrough, Self::Laboratory, Self::Heads];

    /// What is on its tab.
    pub fn name(self) -> &'static str {
        match self {
            Self::Walkthrough => "Walkthrough",
            Self::Laboratory => "Laboratory",
            Self::Heads => "Heads",
        }
    }

    /// What it is for, in one sentence.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Walkthrough => "An attention worked step by step, every number explained.",
            Self::Laboratory => {
                "Attention over up to 4096 tokens: turn its knobs and see what they do."
            }
            Self::Heads => "The attention of a real model, layer by layer and head by head.",
        }
    }
}

/// The appearance of the window, whatever its contents.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Appearance {
    /// Light, dark, or as the system is.
    #[serde(with = "ThemeName")]
    pub theme: ThemePreference,
    /// 1 for the size that the system asks for.
    pub zoom: f32,
    /// Whether the panel at the left is shown; `None` where the window's width decides.
    pub side: Option<bool>,
}

impl Default for Appearance {
    fn default() -> Self {
        Self { theme: ThemePreference::System, zoom: 1.0, side: None }
    }
}

impl Appearance {
    /// Takes over what the window looks like now.
    pub fn follow(&mut self, ctx: &Context) {
        self.theme = ctx.options(|options| options.theme_preference);
        self.zoom = ctx.zoom_factor();
    }

    /// Makes the window look so.
    pub fn apply(self, ctx: &Context) {
        ctx.set_theme(self.theme);
        ctx.set_zoom_factor(self.zoom);
    }
}

/// How the file says it.
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
    pub format: Format,
    /// The room that is open.
    pub room: Room,
    /// The appearance of the window. Undo leaves it alone.
    #[serde(rename = "looks")]
    pub appearance: Appearance,
    /// How weights are coloured.
    pub look: Look,
    /// The choices in the first room.
    pub walkthrough: walkthrough::State,
    /// The choices in the second.
    pub laboratory: laboratory::State,
    /// The choices in the third.
    pub heads: heads::State,
}

/// What the file says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Format {
    /// The only one so far.
    #[default]
    #[serde(rename = "regard session 1")]
    One,
}

/// A larger file is no session.
const LARGEST_FILE: u64 = 16 << 20;

impl Session {
    /// The choices, which undo and redo change. Zoom, pins and the cursor are not among them.
    pub fn choices(&self) -> Self {
        Self {
            format: self.format,
            room: self.room,
            appearance: Appearance::default(),
            look: self.look,
            walkthrough: self.walkthrough.choices(),
            laboratory: self.laboratory.choices(),
            heads: self.heads.choices(),
        }
    }

    /// Takes the choices of another session. Zoom, pins and the cursor stay.
    pub fn take(&mut self, choices: &Self) {
        self.room = choices.room;
        self.look = choices.look;
        self.walkthrough.take(&choices.walkthrough);
        self.laboratory.take(&choices.laboratory);
        self.heads.take(&choices.heads);
    }

    /// Whether a file is a session by its name; else it holds attention.
    pub fn is_named(path: &Path) -> bool {
        path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json"))
    }

    /// Reads a session file.
    ///
    /// # Errors
    /// Says what is wrong with the file.
    pub fn read(host: &dyn Host, path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let text = host.read(path, LARGEST_FILE).with_context(|| format!("cannot read {name}"))?;
        let value: serde_json::Value =
            serde_json::from_slice(&text).with_context(|| format!("{name} is no session file"))?;
        if value.get("format").is_none() {
            bail!("{name} is no session file: it has no \"format\"");
        }
        let mut session: Self = serde_json::from_value(value)
            .with_context(|| format!("{name} is no session file of this version"))?;
        session.laboratory.limit();
        let zoom = session.appearance.zoom;
        session.appearance.zoom = if zoom.is_finite() { zoom.clamp(0.2, 5.0) } else { 1.0 };
        Ok(session)
    }

    /// What stands in a session file.
    ///
    /// # Errors
    /// None in practice: every choice can be written down.
    pub fn text(&self) -> anyhow::Result<Vec<u8>> {
        let mut text = serde_json::to_vec_pretty(self).context("cannot write the session down")?;
        text.push(b'\n');
        Ok(text)
    }

    /// Writes a session file: to a temporary file first, so that there is never half of one.
    ///
    /// # Errors
    /// Says which file cannot be written.
    pub fn write(&self, host: &dyn Host, path: &Path) -> anyhow::Result<()> {
        host.write(path, &self.text()?).with_context(|| format!("cannot write {}", path.display()))
    }
}
