//! The commands: one list for the menu, the shortcuts and the command palette.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use egui::{Key, KeyboardShortcut, Modifiers, ThemePreference, Ui};
use regard_walkthrough::Example;
use strum::IntoStaticStr;

use super::Room;
use super::colors::Map;
use super::plots::PlotName;
use super::setting::SETTINGS;

/// An action that needs no pointer. `commands.md` has the effect of each.
#[expect(missing_docs, reason = "the table has the effect of each")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, IntoStaticStr)]
pub enum Command {
    Palette,
    Book,
    Keys,
    Room(Room),
    NextExample,
    PreviousExample,
    Example(Example),
    Guide,
    Present,
    Undo,
    Redo,
    Reset,
    ResetNumbers,
    PinA,
    ForgetA,
    Benchmark,
    OpenSession,
    SaveSession,
    CopyLink,
    SaveImage,
    OpenAttention,
    OpenModel,
    OpenModelB,
    OpenImage,
    OpenRecording,
    OpenTokens,
    ExportMatrix,
    ExportSweep,
    ExportPlot(PlotName),
    CopyMatrix,
    SidePanel,
    ZoomIn,
    ZoomOut,
    ZoomReset,
    Theme(ThemePreference),
    Map(Map),
    Linear,
    Logarithmic,
    /// Makes a choice of a room, by its place in the table of choices.
    Setting(usize),
}

impl Command {
    /// All commands in the order of the menu, where a line separates the groups.
    pub(crate) fn groups() -> Vec<Vec<Self>> {
        use ThemePreference::{Dark, Light, System};
        vec![
            vec![Self::Palette, Self::Keys, Self::Book],
            Room::ALL.map(Self::Room).to_vec(),
            [Self::NextExample, Self::PreviousExample, Self::Guide, Self::Present]
                .into_iter()
                .chain(Example::ALL.iter().copied().map(Self::Example))
                .collect(),
            vec![
                Self::Undo,
                Self::Redo,
                Self::Reset,
                Self::ResetNumbers,
                Self::PinA,
                Self::ForgetA,
                Self::Benchmark,
            ],
            vec![
                Self::OpenModel,
                Self::OpenModelB,
                Self::OpenImage,
                Self::OpenRecording,
                Self::OpenAttention,
                Self::OpenTokens,
                Self::ExportMatrix,
                Self::ExportSweep,
                Self::CopyMatrix,
            ],
            PlotName::ALL.map(Self::ExportPlot).to_vec(),
            vec![Self::OpenSession, Self::SaveSession, Self::CopyLink, Self::SaveImage],
            vec![Self::SidePanel, Self::ZoomIn, Self::ZoomOut, Self::ZoomReset],
            [Light, Dark, System].map(Self::Theme).to_vec(),
            Map::SEQUENTIAL
                .iter()
                .copied()
                .map(Self::Map)
                .chain([Self::Linear, Self::Logarithmic])
                .collect(),
        ]
    }

    /// All commands, the choices of the rooms first.
    pub(crate) fn all() -> Vec<Self> {
        let settings = (0..SETTINGS.len()).map(Self::Setting);
        settings.chain(Self::groups().concat()).collect()
    }

    /// The room that the command belongs to. `None`: every room.
    pub(crate) fn room(self) -> Option<Room> {
        if let Self::Setting(i) = self { Some(SETTINGS[i].room) } else { self.about().room }
    }

    /// Other words by which the palette finds the command.
    pub(crate) fn words(self) -> &'static str {
        if let Self::Setting(i) = self { SETTINGS[i].words } else { self.about().words }
    }

    pub(crate) fn name(self) -> String {
        self.about().name.replace("{}", self.named().0)
    }

    pub(crate) fn tooltip(self) -> String {
        self.about().effect.replace("{}", self.named().1)
    }

    pub(crate) fn shortcut(self) -> Option<KeyboardShortcut> {
        if let Self::Room(room) = self {
            let key = [Key::Num1, Key::Num2, Key::Num3][room as usize];
            return Some(KeyboardShortcut::new(Modifiers::COMMAND, key));
        }
        self.about().keys
    }

    /// The keys as people say them: "Ctrl \\", "?".
    pub(crate) fn keys(self, ctx: &egui::Context) -> Option<String> {
        let names = ctx.format_shortcut(&self.shortcut()?).replace('+', " ");
        let signs = [Key::Questionmark, Key::Backslash, Key::Plus, Key::Minus];
        Some(
            signs
                .into_iter()
                .zip(["?", "\\", "+", "−"])
                .fold(names, |names, (key, sign)| names.replace(key.name(), sign)),
        )
    }

    /// Shows the button of the command. Returns the command if it was pressed.
    pub(crate) fn button(self, ui: &mut Ui) -> Option<Self> {
        ui.button(self.name()).on_hover_text(self.tooltip()).clicked().then_some(self)
    }

    /// The name of what the command names, and its words in the effect.
    fn named(self) -> (&'static str, &'static str) {
        use ThemePreference::{Dark, Light, System};
        match self {
            Self::Room(room) => (room.name(), room.summary()),
            Self::Example(example) => (example.title(), example.summary()),
            Self::ExportPlot(plot) => (plot.name(), ""),
            Self::Theme(Light) => ("light", "Use dark text on a light ground."),
            Self::Theme(Dark) => ("dark", "Use light text on a dark ground."),
            Self::Theme(System) => ("as the system", "Follow the theme of the system."),
            Self::Map(map) => (map.name(), ""),
            Self::Setting(i) => (SETTINGS[i].name, SETTINGS[i].room.name()),
            _ => ("", ""),
        }
    }

    fn about(self) -> &'static About {
        let name: &str = self.into();
        &TABLE[name]
    }

    /// Whether a text field uses these keys itself.
    pub(crate) fn is_of_text(self) -> bool {
        matches!(
            self,
            Self::Undo | Self::Redo | Self::NextExample | Self::PreviousExample | Self::Keys
        )
    }
}

/// The rows of the table, by the names of the commands in the code.
static TABLE: LazyLock<BTreeMap<&str, About>> =
    LazyLock::new(|| include_str!("commands.md").lines().filter_map(About::row).collect());

struct About {
    room: Option<Room>,
    keys: Option<KeyboardShortcut>,
    name: &'static str,
    effect: &'static str,
    words: &'static str,
}

impl About {
    fn row(line: &'static str) -> Option<(&'static str, Self)> {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, command, room, keys, name, effect, words, _] = cells[..] else { return None };
        let room = Room::ALL.into_iter().find(|known| known.name() == room);
        Some((command, Self { room, keys: shortcut(keys), name, effect, words }))
    }
}

/// The keys of a text such as "Cmd+Shift+Z".
fn shortcut(text: &str) -> Option<KeyboardShortcut> {
    let mut names = text.rsplit('+');
    let key = Key::from_name(names.next()?)?;
    let modifiers = names.fold(Modifiers::NONE, |all, name| match name {
        "Cmd" => all.plus(Modifiers::COMMAND),
        "Shift" => all.plus(Modifiers::SHIFT),
        _ => all.plus(Modifiers::ALT),
    });
    Some(KeyboardShortcut::new(modifiers, key))
}

/// The command whose shortcut is pressed. Longer shortcuts are tried first, because ⌘ Z is part of ⇧ ⌘ Z.
pub(crate) fn pressed(ctx: &egui::Context) -> Option<Command> {
    let typing = ctx.text_edit_focused();
    let mut commands = Command::all();
    commands.sort_by_key(|command| !command.shortcut().is_some_and(|keys| keys.modifiers.shift));
    let is_pressed = |input: &mut egui::InputState, command: Command| {
        command.shortcut().is_some_and(|keys| input.consume_shortcut(&keys))
            // Many keyboards have + on the key of =.
            || command == Command::ZoomIn && input.consume_key(Modifiers::COMMAND, Key::Equals)
    };
    ctx.input_mut(|input| {
        commands
            .into_iter()
            .filter(|command| !(typing && command.is_of_text()))
            .find(|c| is_pressed(input, *c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_commands_share_a_name_or_keys() {
        let all = Command::all();
        for (i, a) in all.iter().enumerate() {
            assert!(!a.tooltip().is_empty());
            for b in &all[..i] {
                assert_ne!(a.name(), b.name());
                assert!(a.shortcut().is_none() || a.shortcut() != b.shortcut(), "{a:?} {b:?}");
            }
        }
    }
}
